//! The settings of a scheduler, and which rules apply where Karmada's scheduler and this one
//! differ.

/// The name of the scheduler for bindings that specify none.
pub const DEFAULT_SCHEDULER: &str = "default-scheduler";

/// The settings of the scheduler that decisions depend on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    pub rules: Rules,
    /// Bindings that name another scheduler are left alone.
    pub scheduler_name: Box<str>,
    /// Whether workload affinity and anti-affinity apply.
    pub workload_affinity: bool,
    /// Whether quotas are enforced (`FederatedQuotaEnforcement`). Decisions do not depend on it: a
    /// quota rejects a placement when it is written.
    pub federated_quotas: bool,
    /// Whether workloads of several pod templates are placed as one set when they go to one
    /// cluster.
    pub multiple_pod_templates: bool,
    /// Whether bindings are scheduled that have no label of a managing policy (D5).
    pub unmanaged: bool,
    /// Whether each selected cluster that gets no replicas is also a target
    /// (`--enable-empty-workload-propagation`).
    pub empty_workloads: bool,
    /// Whether replicas that are placed and not yet reported count as used
    /// (`SchedulingOvercommitProtection`).
    pub reserves: bool,
    /// The number of seconds for which a placement reserves capacity if no report contains a number
    /// of replicas (`--reservation-ttl`).
    pub reservation_ttl: i64,
}

/// Upstream's default of `Profile::reservation_ttl`: five minutes.
pub const RESERVATION_TTL: i64 = 300;

/// The set of rules that decisions follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rules {
    /// The same decisions as Karmada's scheduler.
    Karmada,
    /// Karmada's decisions, except where a deliberate difference is noted.
    Default,
}

impl Profile {
    /// Returns Karmada's rules, with the features that Karmada enables by default.
    pub fn karmada() -> Profile {
        Profile {
            rules: Rules::Karmada,
            scheduler_name: DEFAULT_SCHEDULER.into(),
            workload_affinity: false,
            federated_quotas: false,
            multiple_pod_templates: false,
            unmanaged: false,
            empty_workloads: false,
            reserves: false,
            reservation_ttl: RESERVATION_TTL,
        }
    }

    /// Returns this project's rules. Features that a field requests need no feature gate.
    pub fn ours() -> Profile {
        Profile {
            rules: Rules::Default,
            scheduler_name: DEFAULT_SCHEDULER.into(),
            workload_affinity: true,
            federated_quotas: true,
            multiple_pod_templates: true,
            unmanaged: true,
            empty_workloads: false,
            reserves: true,
            reservation_ttl: RESERVATION_TTL,
        }
    }

    pub(super) fn deviates(&self) -> bool {
        self.rules == Rules::Default
    }
}

impl Default for Profile {
    fn default() -> Profile {
        Profile::ours()
    }
}
