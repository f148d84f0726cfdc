//! The spec of both policies, and their printer columns.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::failover::FailoverBehavior;
use super::placement::Placement;
use super::resource_selector::ResourceSelector;
use ballast_resource::Column;

/// The printer columns of both policies, in upstream's capitals.
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

/// The objects to place, and the rules for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PropagationSpec {
    /// Selects the objects to place. At least one selector.
    #[schema(min_items = 1)]
    pub resource_selectors: Vec<ResourceSelector>,
    /// Whether related objects are selected too. Deprecated upstream: use `propagateDeps`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub association: Option<bool>,
    /// Whether the objects that a workload depends on are placed with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub propagate_deps: Option<bool>,
    /// The rules by which clusters are chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<Box<Placement>>,
    /// If several policies match an object, the one with the highest priority applies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(default = 0)]
    pub priority: Option<i32>,
    /// Whether it takes over objects from policies of lower priority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(default = "Never")]
    pub preemption: Option<Preemption>,
    /// Override policies that must exist before an object is placed.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub dependent_overrides: Vec<String>,
    /// The scheduler that places the objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(default = "default-scheduler")]
    pub scheduler_name: Option<String>,
    /// What happens when a workload, or a cluster that it runs on, fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failover: Option<Box<FailoverBehavior>>,
    /// What happens when a cluster has such an object already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(default = "Abort")]
    pub conflict_resolution: Option<ConflictResolution>,
    /// When a change of the policy takes effect. Absent: at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub activation_preference: Option<ActivationPreference>,
    /// What is paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspension: Option<Suspension>,
    /// Whether the objects on the clusters are kept when their template is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preserve_resources_on_deletion: Option<bool>,
    /// How urgent the placements are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule_priority: Option<PolicySchedulePriority>,
}

/// Whether a policy takes objects over from other policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum Preemption {
    Always,
    Never,
}

/// What happens when a cluster has such an object already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum ConflictResolution {
    /// The present object is kept, and placing fails.
    Abort,
    /// The present object is taken over.
    Overwrite,
}

/// When a change of the policy takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum ActivationPreference {
    /// A change takes effect when the object itself changes.
    Lazy,
}

/// What is paused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Suspension {
    /// Whether nothing is sent to any cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dispatching: Option<bool>,
    /// Clusters that nothing is sent to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dispatching_on_clusters: Option<SuspendClusters>,
}

/// Clusters that nothing is sent to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SuspendClusters {
    /// Names of the clusters.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub cluster_names: Vec<String>,
}

/// How urgent the placements of a policy are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PolicySchedulePriority {
    /// Where the priority class is found.
    pub priority_class_source: PriorityClassSource,
    /// Name of the priority class.
    pub priority_class_name: String,
}

/// Where a priority class is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum PriorityClassSource {
    /// A PriorityClass of Kubernetes.
    KubePriorityClass,
}
