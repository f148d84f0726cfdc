//! `placement.kubernetes-fleet.io/v1beta1`

pub mod any;
mod binding;
mod cluster_resource_binding;
mod cluster_resource_placement;
mod cluster_resource_snapshot;
mod cluster_scheduling_policy_snapshot;
pub mod names;
mod per_resource;
mod placement;
mod policy;
mod policy_snapshot;
mod property_rules;
mod resource_binding;
mod resource_placement;
mod resource_snapshot;
mod scheduling_policy_snapshot;
mod schema_rules;
mod strategy;
pub mod strays;
pub mod trigger;
mod validate;
mod webhook_rules;

pub use any::{AnyBinding, AnyPlacement, AnyPolicySnapshot, AnyResourceSnapshot};
pub use binding::{BindingState, ResourceBindingSpec, ResourceBindingStatus};
pub use cluster_resource_binding::ClusterResourceBinding;
pub use cluster_resource_placement::ClusterResourcePlacement;
pub use cluster_resource_snapshot::{ClusterResourceSnapshot, ResourceSnapshotSpec, ResourceSnapshotStatus};
pub use cluster_scheduling_policy_snapshot::ClusterSchedulingPolicySnapshot;
pub use per_resource::{
    DiffedResource, DriftedResource, EnvelopeIdentifier, EnvelopeType, FailedResource, NamespacedName, PatchDetail,
    ResourceIdentifier,
};
pub use placement::{
    PerClusterPlacementStatus, PlacementSpec, PlacementStatus, ResourceSelectorTerm, SelectionScope,
    StatusReportingScope,
};
pub use policy::{
    Affinity, ClusterAffinity, ClusterSelector, ClusterSelectorTerm, PlacementPolicy, PlacementType,
    PreferredClusterSelector, PropertySelector, PropertySelectorRequirement, PropertySorter, Toleration,
    TopologySpreadConstraint, UnsatisfiableConstraintAction,
};
pub use policy_snapshot::{
    ClusterDecision, ClusterScore, SchedulingPolicySnapshotSpec, SchedulingPolicySnapshotStatus,
};
pub use resource_binding::ResourceBinding;
pub use resource_placement::ResourcePlacement;
pub use resource_snapshot::ResourceSnapshot;
pub use scheduling_policy_snapshot::SchedulingPolicySnapshot;
pub use strategy::{
    ApplyStrategy, ApplyStrategyType, ComparisonOption, DeletePropagationPolicy, DeleteStrategy, IntOrPercent,
    ReportBackDestination, ReportBackStrategy, ReportBackStrategyType, RollingUpdateConfig, RolloutStrategy,
    RolloutStrategyType, ServerSideApplyConfig, WhenToApply, WhenToTakeOver,
};
