//! `--feature-gates`: Karmada's gates with their upstream names (BK9). The gates that the scheduler
//! reads have defaults in the scheduling profile.

use std::str::FromStr;

use clap::Args;
use serde::Serialize;

use super::SchedulingProfile;
use ballast_engine::karmada::Profile;
use ballast_rebalance::suggestion::with_suggestion;

/// Sets all alpha gates that are not named explicitly, in any order, as in Kubernetes. The gates
/// that the scheduler reads are all alpha.
const ALL_ALPHA: &str = "AllAlpha";
const FEDERATED_QUOTAS: &str = "FederatedQuotaEnforcement";
const MULTIPLE_POD_TEMPLATES: &str = "MultiplePodTemplatesScheduling";
const OVERCOMMIT_PROTECTION: &str = "SchedulingOvercommitProtection";
const WORKLOAD_AFFINITY: &str = "WorkloadAffinity";

/// The gates of Karmada's components.
const GATES: [(&str, Meaning); 19] = [
    (ALL_ALPHA, Meaning::Chosen),
    // Some beta gates are always on.
    ("AllBeta", Meaning::Always(true)),
    ("ContextualLogging", Meaning::OfOthers),
    ("ControllerPriorityQueue", Meaning::OfOthers),
    ("CustomizedClusterResourceModeling", Meaning::Always(true)),
    ("Failover", Meaning::OfOthers),
    (FEDERATED_QUOTAS, Meaning::Chosen),
    ("GracefulEviction", Meaning::Always(true)),
    ("LoggingAlphaOptions", Meaning::OfOthers),
    ("LoggingBetaOptions", Meaning::OfOthers),
    ("MultiClusterService", Meaning::OfOthers),
    (MULTIPLE_POD_TEMPLATES, Meaning::Chosen),
    ("PriorityBasedScheduling", Meaning::Always(true)),
    ("PropagateDeps", Meaning::OfOthers),
    ("PropagationPolicyPreemption", Meaning::OfOthers),
    ("ResourceQuotaEstimate", Meaning::Always(false)),
    (OVERCOMMIT_PROTECTION, Meaning::Chosen),
    ("StatefulFailoverInjection", Meaning::OfOthers),
    (WORKLOAD_AFFINITY, Meaning::Chosen),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meaning {
    /// The scheduler reads the gate.
    Chosen,
    /// The scheduler always behaves like this value.
    Always(bool),
    /// Only other components read the gate. It is accepted, so that all components can have the
    /// same flag.
    OfOthers,
}

#[derive(Args, Clone, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct FeatureGatesArgs {
    /// Karmada's feature gates: NAME=true or NAME=false. WorkloadAffinity,
    /// MultiplePodTemplatesScheduling, FederatedQuotaEnforcement and SchedulingOvercommitProtection
    /// are on in the profile `default` and off in `karmada`; AllAlpha sets these four, if they are
    /// not named. Gates of other components have no effect
    #[arg(long, env = "BALLAST_FEATURE_GATES", value_name = "GATES", value_delimiter = ',')]
    pub feature_gates: Vec<Gate>,
}

/// A gate with its value, such as `WorkloadAffinity=true`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gate {
    name: &'static str,
    is_on: bool,
}

impl FromStr for Gate {
    type Err = String;

    fn from_str(text: &str) -> Result<Gate, String> {
        let (name, value) = text.split_once('=').ok_or("write NAME=true or NAME=false")?;
        let Some((name, meaning)) = GATES.into_iter().find(|(known, _)| *known == name) else {
            let names = GATES.map(|(known, _)| known);
            let what = with_suggestion(format!("there is no feature gate {name:?}"), name, names.into_iter());
            return Err(format!("{what}; there are {}", names.join(", ")));
        };
        let is_on = match value {
            "true" => true,
            "false" => false,
            _ => return Err(format!("{name} is either true or false, not {value:?}")),
        };
        match meaning {
            Meaning::Always(always) if always != is_on => Err(format!("{name} is always {always} here")),
            _ => Ok(Gate { name, is_on }),
        }
    }
}

impl Serialize for Gate {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{}={}", self.name, self.is_on))
    }
}

impl FeatureGatesArgs {
    /// Adds the gates that the scheduler reads, with the defaults of the profile.
    pub(super) fn settle(&mut self, profile: SchedulingProfile) {
        let Profile { workload_affinity, federated_quotas, multiple_pod_templates, reserves, .. } = profile.rules();
        for (name, default) in [
            (FEDERATED_QUOTAS, federated_quotas),
            (MULTIPLE_POD_TEMPLATES, multiple_pod_templates),
            (OVERCOMMIT_PROTECTION, reserves),
            (WORKLOAD_AFFINITY, workload_affinity),
        ] {
            if self.last(name).is_none() {
                let is_on = self.read(name).unwrap_or(default);
                self.feature_gates.push(Gate { name, is_on });
            }
        }
    }

    /// Returns the profile with these gates applied.
    pub fn over(&self, profile: Profile) -> Profile {
        Profile {
            workload_affinity: self.read(WORKLOAD_AFFINITY).unwrap_or(profile.workload_affinity),
            federated_quotas: self.read(FEDERATED_QUOTAS).unwrap_or(profile.federated_quotas),
            multiple_pod_templates: self.read(MULTIPLE_POD_TEMPLATES).unwrap_or(profile.multiple_pod_templates),
            reserves: self.read(OVERCOMMIT_PROTECTION).unwrap_or(profile.reserves),
            ..profile
        }
    }

    /// Returns the given value of a gate that the scheduler reads, by its name or by AllAlpha.
    fn read(&self, name: &str) -> Option<bool> {
        self.last(name).or_else(|| self.last(ALL_ALPHA))
    }

    /// Returns the given value of a gate by its name. The last value wins, as in Kubernetes.
    fn last(&self, name: &str) -> Option<bool> {
        self.feature_gates.iter().rev().find(|gate| gate.name == name).map(|gate| gate.is_on)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(profile: SchedulingProfile, gates: &[&str]) -> (bool, bool) {
        let gates = gates.iter().map(|gate| gate.parse().unwrap()).collect();
        let mut args = FeatureGatesArgs { feature_gates: gates };
        let read = args.over(profile.rules());
        args.settle(profile);
        assert_eq!(args.over(profile.rules()), read, "what is written out says the same");
        (read.workload_affinity, read.multiple_pod_templates)
    }

    #[test]
    fn bk9_the_gates_are_upstreams_and_both_profiles_have_them() {
        use SchedulingProfile::{Default, Karmada};
        assert_eq!(profile(Default, &[]), (true, true));
        assert_eq!(profile(Karmada, &[]), (false, false));
        assert_eq!(profile(Karmada, &["WorkloadAffinity=true"]), (true, false));
        assert_eq!(profile(Karmada, &["MultiplePodTemplatesScheduling=true", "PropagateDeps=false"]), (false, true));
        assert_eq!(profile(Default, &["WorkloadAffinity=true", "WorkloadAffinity=false"]), (false, true));
        // The flag in Karmada's own manifests.
        assert_eq!(profile(Karmada, &["AllAlpha=true", "AllBeta=true"]), (true, true));
        assert_eq!(profile(Karmada, &["WorkloadAffinity=false", "AllAlpha=true"]), (false, true));
        assert_eq!(profile(Default, &["AllAlpha=false", "WorkloadAffinity=true"]), (true, false));
    }

    #[test]
    fn rm7_reservations_are_on_in_one_profile_off_in_the_other_and_settable_in_both() {
        use SchedulingProfile::{Default, Karmada};
        let reserves = |profile: SchedulingProfile, gates: &[&str]| {
            let gates = gates.iter().map(|gate| gate.parse().unwrap()).collect();
            FeatureGatesArgs { feature_gates: gates }.over(profile.rules()).reserves
        };
        assert!(reserves(Default, &[]) && !reserves(Karmada, &[]));
        assert!(!reserves(Default, &["SchedulingOvercommitProtection=false"]));
        assert!(reserves(Karmada, &["SchedulingOvercommitProtection=true"]));
        assert!(reserves(Karmada, &["AllAlpha=true"]) && !reserves(Default, &["AllAlpha=false"]));
    }

    #[test]
    fn bk9_a_gate_that_is_not_known_or_cannot_be_set_is_told() {
        for (gate, told) in [
            ("WorkloadAfinity=true", "the nearest known name is \"WorkloadAffinity\"; there are AllAlpha, "),
            ("WorkloadAffinity=yes", "either true or false"),
            ("WorkloadAffinity", "write NAME=true or NAME=false"),
            ("PriorityBasedScheduling=false", "is always true here"),
            ("AllBeta=false", "is always true here"),
        ] {
            let error = gate.parse::<Gate>().unwrap_err();
            assert!(error.contains(told), "{gate}: {error}");
        }
    }
}
