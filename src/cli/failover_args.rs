//! What `serve` can be told about failing clusters. The flags have the names that Karmada's controller
//! manager gives them.

use std::fmt;
use std::str::FromStr;

use clap::{ArgAction, Args, ValueEnum};
use serde::{Serialize, Serializer};

use crate::api::karmada::policy::v1alpha1;
use crate::controllers::{EvictionRate, FailoverOptions, TaintEviction, Unready};

#[derive(Args, Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct FailoverArgs {
    /// Taint clusters whose condition Ready is lost; false where another controller does
    #[arg(long, env = "BALLAST_TAINT_UNREADY_CLUSTERS", default_value_t = true, action = ArgAction::Set)]
    pub taint_unready_clusters: bool,

    /// How long a cluster is not ready before its workloads are driven out (NoExecute)
    #[arg(long, env = "BALLAST_FAILOVER_EVICTION_TIMEOUT", default_value = "5m")]
    pub failover_eviction_timeout: Span,

    /// Evict bindings from clusters with NoExecute taints; false where another controller does
    #[arg(long, env = "BALLAST_ENABLE_NO_EXECUTE_TAINT_EVICTION", default_value_t = true, action = ArgAction::Set)]
    pub enable_no_execute_taint_eviction: bool,

    /// How workloads leave a tainted cluster whose bindings do not say
    #[arg(long, env = "BALLAST_NO_EXECUTE_TAINT_EVICTION_PURGE_MODE", value_enum, default_value_t)]
    pub no_execute_taint_eviction_purge_mode: PurgeMode,

    /// Bindings evicted a second
    #[arg(long, env = "BALLAST_RESOURCE_EVICTION_RATE", default_value_t = 0.5)]
    pub resource_eviction_rate: f64,

    /// The same, while too many clusters of a large fleet are not ready
    #[arg(long, env = "BALLAST_SECONDARY_RESOURCE_EVICTION_RATE", default_value_t = 0.1)]
    pub secondary_resource_eviction_rate: f64,

    /// A fleet with a larger share of clusters that are not ready is taken for cut off
    #[arg(long, env = "BALLAST_UNHEALTHY_CLUSTER_THRESHOLD", default_value_t = 0.55)]
    pub unhealthy_cluster_threshold: f64,

    /// A fleet of more clusters is large; nothing is evicted in a small one that is cut off
    #[arg(long, env = "BALLAST_LARGE_CLUSTER_NUM_THRESHOLD", default_value_t = 10)]
    pub large_cluster_num_threshold: usize,

    /// How long an evicted workload may go on running where it was, until its replacement is healthy
    #[arg(long, env = "BALLAST_GRACEFUL_EVICTION_TIMEOUT", default_value = "10m")]
    pub graceful_eviction_timeout: Span,
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
            no_execute_taint_eviction_purge_mode,
            resource_eviction_rate,
            secondary_resource_eviction_rate,
            unhealthy_cluster_threshold,
            large_cluster_num_threshold,
            graceful_eviction_timeout,
        } = self;
        let unready = match taint_unready_clusters {
            true => Unready::Tainted { evicted_after_seconds: failover_eviction_timeout.seconds },
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
        let taints = match enable_no_execute_taint_eviction {
            true => TaintEviction::By { purge_mode, rate },
            false => TaintEviction::Off,
        };
        FailoverOptions { unready, taints, grace_seconds: graceful_eviction_timeout.seconds }
    }
}

/// A length of time in whole seconds, read as Go writes it: `10m0s`, `1h30m`, `45s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub seconds: i64,
}

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Span, String> {
        let malformed = || format!("{text:?} is not a duration like 10m, 1h30m or 45s");
        let (mut seconds, mut rest) = (0_i64, text);
        while !rest.is_empty() {
            let end = rest.find(|letter: char| !letter.is_ascii_digit()).ok_or_else(malformed)?;
            let number: i64 = rest[..end].parse().map_err(|_| malformed())?;
            let unit = match rest.as_bytes()[end] {
                b'h' => 3_600,
                b'm' => 60,
                b's' => 1,
                _ => return Err(malformed()),
            };
            seconds = number.checked_mul(unit).and_then(|more| seconds.checked_add(more)).ok_or_else(malformed)?;
            rest = &rest[end + 1..];
        }
        if text.is_empty() { Err(malformed()) } else { Ok(Span { seconds }) }
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (hours, minutes, seconds) = (self.seconds / 3_600, self.seconds / 60 % 60, self.seconds % 60);
        match (hours, minutes) {
            (0, 0) => write!(f, "{seconds}s"),
            (0, minutes) => write!(f, "{minutes}m{seconds}s"),
            (hours, minutes) => write!(f, "{hours}h{minutes}m{seconds}s"),
        }
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::super::config::ServeArgs;
    use super::*;

    #[test]
    fn the_defaults_are_those_of_the_controllers() {
        assert_eq!(ServeArgs::default().failover.options(), FailoverOptions::default());
    }

    #[test]
    fn spans_are_read_as_go_writes_them() {
        for (text, seconds) in [("10m", 600), ("10m0s", 600), ("1h30m", 5_400), ("45s", 45), ("0s", 0)] {
            let span: Span = text.parse().unwrap();
            assert_eq!(span.seconds, seconds, "{text}");
            assert_eq!(span.to_string().parse(), Ok(span));
        }
        for text in ["", "10", "m", "10d", "-5m", "1.5h", "99999999999999999999s", "9223372036854775807h"] {
            assert!(text.parse::<Span>().is_err(), "{text:?}");
        }
    }
}
