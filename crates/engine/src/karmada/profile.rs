//! Which rules apply where Karmada's scheduler and this one differ.

/// The scheduler that serves bindings which name none.
pub const DEFAULT_SCHEDULER: &str = "default-scheduler";

/// The settings of the scheduler that decisions depend on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    pub rules: Rules,
    /// Bindings that name another scheduler are left alone.
    pub scheduler_name: Box<str>,
    /// Whether workload affinity and anti-affinity apply.
    pub workload_affinity: bool,
    /// Whether quotas hold (`FederatedQuotaEnforcement`). Decisions do not depend on it: a
    /// placement that a quota refuses is refused when it is written.
    pub federated_quotas: bool,
    /// Whether workloads of several pod templates are placed as one set when they go to one
    /// cluster.
    pub multiple_pod_templates: bool,
    /// Whether bindings are scheduled of which no label says that a policy manages them (D5).
    pub unmanaged: bool,
    /// Whether each selected cluster that gets no replicas is a target, too
    /// (`--enable-empty-workload-propagation`).
    pub empty_workloads: bool,
    /// Whether what was placed and no report shows yet counts as used
    /// (`SchedulingOvercommitProtection`).
    pub reserves: bool,
    /// How many seconds a placement is reserved where no report tells a number of replicas
    /// (`--reservation-ttl`).
    pub reservation_ttl: i64,
}

/// `Profile::reservation_ttl` as upstream has it: five minutes.
pub const RESERVATION_TTL: i64 = 300;

/// The rules that a profile decides by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rules {
    /// The same decisions as Karmada's scheduler.
    Karmada,
    /// Karmada's decisions, except where a deliberate difference is noted.
    Default,
}

impl Profile {
    /// Karmada's rules, with the features that Karmada turns on by default.
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

    /// This project's rules. Fields that ask for a feature are honoured without a feature gate.
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
