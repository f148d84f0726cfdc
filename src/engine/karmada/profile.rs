//! Which rules apply where Karmada and this scheduler differ.

/// The name of the scheduler that serves bindings which name none.
pub const DEFAULT_SCHEDULER: &str = "default-scheduler";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    pub rules: Rules,
    /// Bindings that name another scheduler are left alone.
    pub scheduler_name: Box<str>,
    /// Workloads keep together or apart by group.
    pub workload_affinity: bool,
    /// Workloads of several pod templates are placed as one set when they go to one cluster.
    pub multiple_pod_templates: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rules {
    /// Decision for decision what Karmada's scheduler decides.
    Karmada,
    /// Karmada's, but where the seeds or `semantics.md` ask for more.
    Default,
}

impl Profile {
    /// With the features on that are on in Karmada.
    pub fn karmada() -> Profile {
        Profile {
            rules: Rules::Karmada,
            scheduler_name: DEFAULT_SCHEDULER.into(),
            workload_affinity: false,
            multiple_pod_templates: false,
        }
    }

    /// Fields of the API that ask for a feature are honoured without a gate.
    pub fn ours() -> Profile {
        Profile {
            rules: Rules::Default,
            scheduler_name: DEFAULT_SCHEDULER.into(),
            workload_affinity: true,
            multiple_pod_templates: true,
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
