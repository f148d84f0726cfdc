//! The spec of both policies, and their printer columns.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::failover::FailoverBehavior;
use super::placement::Placement;
use super::resource_selector::ResourceSelector;
use ballast_resource::Column;

/// The printer columns of both policies, with upstream's capitalization.
pub(super) const COLUMNS: &[Column] = &[
    Column {
        name: "CONFLICT-RESOLUTION",
        kind: "string",
        path: ".spec.conflictResolution",
        priority: 0,
        description: "",
    },
    Column { name: "PRIORITY", kind: "string", path: ".spec.priority", priority: 0, description: "" },
    Column { name: "AGE", kind: "date", path: ".metadata.creationTimestamp", priority: 0, description: "" },
];

/// The selected objects, and their placement.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PropagationSpec {
    /// Selects the objects. At least one selector.
    #[schema(min_items = 1)]
    pub resource_selectors: Vec<ResourceSelector>,
    /// Whether related objects are selected too. Deprecated upstream: use `propagateDeps`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub association: Option<bool>,
    /// Whether the objects that a workload depends on are placed with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub propagate_deps: Option<bool>,
    /// Rules by which clusters are selected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<Box<Placement>>,
    /// Priority of the policy. If several policies match an object, the policy with the highest
    /// priority applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(default = 0)]
    pub priority: Option<i32>,
    /// Whether the policy takes over objects from policies of lower priority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(default = "Never")]
    pub preemption: Option<Preemption>,
    /// Override policies that must exist before an object is placed.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub dependent_overrides: Vec<String>,
    /// Name of the scheduler for the objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(default = "default-scheduler")]
    pub scheduler_name: Option<String>,
    /// Reaction to the failure of a workload or of its cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failover: Option<Box<FailoverBehavior>>,
    /// Behavior if a cluster already has an object of the same name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(default = "Abort")]
    pub conflict_resolution: Option<ConflictResolution>,
    /// Time at which a change of the policy takes effect. Absent: immediately.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub activation_preference: Option<ActivationPreference>,
    /// Operations that are paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspension: Option<Suspension>,
    /// Whether the objects on the clusters are kept when their template is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preserve_resources_on_deletion: Option<bool>,
    /// Scheduling priority of the bindings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule_priority: Option<PolicySchedulePriority>,
}

/// Whether a policy takes over objects from other policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum Preemption {
    Always,
    Never,
}

/// The behavior if a cluster already has an object of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum ConflictResolution {
    /// The existing object is kept, and the operation fails.
    Abort,
    /// The existing object is overwritten.
    Overwrite,
}

/// The time at which a change of a policy takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum ActivationPreference {
    /// A change takes effect when the object itself changes.
    Lazy,
}

/// The operations that are paused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Suspension {
    /// Whether sending objects is paused for all clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dispatching: Option<bool>,
    /// Clusters for which sending objects is paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dispatching_on_clusters: Option<SuspendClusters>,
}

/// The clusters for which sending objects is paused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SuspendClusters {
    /// Names of the clusters.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub cluster_names: Vec<String>,
}

/// The scheduling priority of the bindings of a policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicySchedulePriority {
    /// Kind of the priority class.
    pub priority_class_source: PriorityClassSource,
    /// Name of the priority class.
    pub priority_class_name: String,
}

/// The kind of a priority class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum PriorityClassSource {
    /// PriorityClass of Kubernetes.
    KubePriorityClass,
}
