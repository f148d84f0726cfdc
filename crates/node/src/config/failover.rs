//! Flags about failover of clusters, with the names of Karmada's controller manager.

use std::str::FromStr;
use std::time::Duration;

use clap::{ArgAction, Args, ValueEnum};
use serde::Serialize;

use super::{GoDuration, SchedulingProfile, share};
use ballast_api::karmada::policy::v1alpha1;
use ballast_controllers::{EvictionRate, FailoverOptions, Finalizer, LastCopy, TaintEviction, Unready};

#[derive(Args, Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct FailoverArgs {
    /// Taint clusters that are not ready; set to false if another controller does that [default:
    /// whether cluster-taints runs]
    #[arg(long, env = "BALLAST_TAINT_UNREADY_CLUSTERS")]
    pub taint_unready_clusters: Option<bool>,

    /// How long a cluster must be not ready before its workloads are evicted (a NoExecute taint)
    #[arg(long, env = "BALLAST_FAILOVER_EVICTION_TIMEOUT", default_value = "5m")]
    pub failover_eviction_timeout: GoDuration,

    /// Evict bindings from clusters with NoExecute taints; set to false if another controller does
    /// that [default: whether failover runs]
    #[arg(long, env = "BALLAST_ENABLE_NO_EXECUTE_TAINT_EVICTION")]
    pub enable_no_execute_taint_eviction: Option<bool>,

    /// Allow ClusterTaintPolicies to set NoExecute taints, which evict workloads
    #[arg(long, env = "BALLAST_ALLOW_NO_EXECUTE_TAINT_POLICY", default_value_t = false, default_missing_value = "true", num_args = 0..=1, require_equals = true, action = ArgAction::Set)]
    pub allow_no_execute_taint_policy: bool,

    /// Keep a deleted Cluster until no binding is placed on it, with the finalizer
    /// `karmada.io/cluster-controller`; set to false if Karmada's cluster controller does that
    /// [default: whether cluster-finalizer runs]
    #[arg(long, env = "BALLAST_MANAGE_CLUSTER_FINALIZER")]
    pub manage_cluster_finalizer: Option<bool>,

    /// Purge mode of evictions from a tainted cluster if the binding does not specify one
    #[arg(long, env = "BALLAST_NO_EXECUTE_TAINT_EVICTION_PURGE_MODE", value_enum, default_value_t)]
    pub no_execute_taint_eviction_purge_mode: PurgeMode,

    /// Bindings to evict per second; 0 evicts none
    #[arg(long, env = "BALLAST_RESOURCE_EVICTION_RATE", default_value_t = 0.5, allow_negative_numbers = true, value_parser = rate)]
    pub resource_eviction_rate: f64,

    /// Bindings to evict per second while too many clusters of a large fleet are not ready
    #[arg(long, env = "BALLAST_SECONDARY_RESOURCE_EVICTION_RATE", default_value_t = 0.1, allow_negative_numbers = true, value_parser = rate)]
    pub secondary_resource_eviction_rate: f64,

    /// Share of clusters that are not ready, 0 to 1, above which evictions slow down or stop
    #[arg(long, env = "BALLAST_UNHEALTHY_CLUSTER_THRESHOLD", default_value_t = 0.55, allow_negative_numbers = true, value_parser = share)]
    pub unhealthy_cluster_threshold: f64,

    /// Number of clusters above which a fleet is large: evictions slow down there, and stop in a
    /// small one
    #[arg(long, env = "BALLAST_LARGE_CLUSTER_NUM_THRESHOLD", default_value_t = 10, allow_negative_numbers = true, value_parser = clusters)]
    pub large_cluster_num_threshold: usize,

    /// How long an evicted workload may keep running on the old cluster while its replacement is
    /// not healthy
    #[arg(long, env = "BALLAST_GRACEFUL_EVICTION_TIMEOUT", default_value = "10m")]
    pub graceful_eviction_timeout: GoDuration,

    /// How much longer an evicted workload stays on the old cluster if its replicas fit on no other
    /// cluster, or are not ready there: a duration, or `never` for no limit. 0s is Karmada's
    /// behavior [default: never, and 0s in the profile karmada]
    #[arg(long, env = "BALLAST_EVICTION_LAST_COPY_TIMEOUT", value_name = "DURATION|never")]
    pub eviction_last_copy_timeout: Option<LastCopyTimeout>,
}

/// `never`, or a duration in Go's format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastCopyTimeout {
    Never,
    After(GoDuration),
}

impl FromStr for LastCopyTimeout {
    type Err = String;

    fn from_str(text: &str) -> Result<LastCopyTimeout, String> {
        match text {
            "never" => Ok(LastCopyTimeout::Never),
            text => text.parse().map(LastCopyTimeout::After).map_err(|why: String| format!("{why}, or never")),
        }
    }
}

impl Serialize for LastCopyTimeout {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            LastCopyTimeout::Never => serializer.serialize_str("never"),
            LastCopyTimeout::After(duration) => duration.serialize(serializer),
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize)]
#[value(rename_all = "PascalCase")]
pub enum PurgeMode {
    #[default]
    Gracefully,
    Directly,
}

impl FailoverArgs {
    pub fn options(&self) -> FailoverOptions {
        let FailoverArgs {
            taint_unready_clusters,
            failover_eviction_timeout,
            enable_no_execute_taint_eviction,
            allow_no_execute_taint_policy: _,
            manage_cluster_finalizer,
            no_execute_taint_eviction_purge_mode,
            resource_eviction_rate,
            secondary_resource_eviction_rate,
            unhealthy_cluster_threshold,
            large_cluster_num_threshold,
            graceful_eviction_timeout,
            eviction_last_copy_timeout,
        } = self;
        let unready = match taint_unready_clusters.unwrap_or(true) {
            true => Unready::Tainted { evicted_after_seconds: seconds(*failover_eviction_timeout) },
            false => Unready::Ignored,
        };
        let purge_mode = match no_execute_taint_eviction_purge_mode {
            PurgeMode::Gracefully => v1alpha1::PurgeMode::Gracefully,
            PurgeMode::Directly => v1alpha1::PurgeMode::Directly,
        };
        let rate = EvictionRate {
            per_second: *resource_eviction_rate,
            secondary_per_second: *secondary_resource_eviction_rate,
            unhealthy_share: *unhealthy_cluster_threshold,
            large_fleet: *large_cluster_num_threshold,
        };
        let taints = match enable_no_execute_taint_eviction.unwrap_or(true) {
            true => TaintEviction::By { purge_mode, rate },
            false => TaintEviction::Off,
        };
        let finalizer = match manage_cluster_finalizer.unwrap_or(true) {
            true => Finalizer::Managed,
            false => Finalizer::Foreign,
        };
        let last_copy = match eviction_last_copy_timeout {
            None | Some(LastCopyTimeout::Never) => LastCopy::Stays { at_most_seconds: None },
            Some(LastCopyTimeout::After(GoDuration(Duration::ZERO))) => LastCopy::Leaves,
            Some(LastCopyTimeout::After(timeout)) => LastCopy::Stays { at_most_seconds: Some(seconds(*timeout)) },
        };
        let grace_seconds = seconds(*graceful_eviction_timeout);
        FailoverOptions { unready, taints, finalizer, grace_seconds, last_copy, ..FailoverOptions::default() }
    }

    /// Sets flags that were not given to the defaults of the profile.
    pub(super) fn settle(&mut self, profile: SchedulingProfile) {
        self.eviction_last_copy_timeout.get_or_insert(match profile {
            SchedulingProfile::Default => LastCopyTimeout::Never,
            SchedulingProfile::Karmada => LastCopyTimeout::After(GoDuration(Duration::ZERO)),
        });
    }
}

/// The lowest rate above zero: one binding in eleven days.
const RATE_MIN: f64 = 1e-6;

/// Parses a number of evictions per second.
fn rate(text: &str) -> Result<f64, String> {
    let rate = text.parse::<f64>().ok().filter(|rate| *rate == 0.0 || (*rate >= RATE_MIN && rate.is_finite()));
    rate.ok_or_else(|| format!("give a number of bindings a second, such as 0.5: 0 for none, or at least {RATE_MIN}"))
}

fn clusters(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| "give a number of clusters, 0 or more".to_owned())
}

fn seconds(duration: GoDuration) -> i64 {
    i64::try_from(duration.0.as_secs()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::ServeArgs;
    use super::*;

    #[test]
    fn the_defaults_are_those_of_the_controllers() {
        assert_eq!(ServeArgs::default().failover.options(), FailoverOptions::default());
    }

    #[test]
    fn rm21_the_profile_karmada_ends_evictions_as_karmada_does_unless_a_flag_says_otherwise() {
        let last_copy = |profile, flag: Option<&str>| {
            let mut args = ServeArgs { scheduling_profile: profile, ..ServeArgs::default() };
            args.failover.eviction_last_copy_timeout = flag.map(|flag| flag.parse().unwrap());
            args.settled().unwrap().failover.options().last_copy
        };
        let stays = |at_most_seconds| LastCopy::Stays { at_most_seconds };
        let (ours, karmadas) = (SchedulingProfile::Default, SchedulingProfile::Karmada);
        assert_eq!((last_copy(ours, None), last_copy(karmadas, None)), (stays(None), LastCopy::Leaves));
        assert_eq!((last_copy(ours, Some("0s")), last_copy(karmadas, Some("never"))), (LastCopy::Leaves, stays(None)));
        assert_eq!(last_copy(ours, Some("1h")), stays(Some(3_600)));
        for wrong in ["", "-1s", "ever"] {
            let error = wrong.parse::<LastCopyTimeout>().unwrap_err();
            assert!(error.contains("or never"), "{wrong}: {error}");
        }
    }
}
