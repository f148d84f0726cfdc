//! `policy.karmada.io/v1alpha1`

pub(crate) mod cluster_bounds;
mod cluster_override_policy;
mod cluster_propagation_policy;
mod cluster_taint_policy;
mod failover;
mod federated_resource_quota;
pub(crate) mod manager;
pub(crate) mod ignored_rules;
pub(crate) mod mend;
mod override_policy;
mod override_rules;
mod override_spec;
mod placement;
pub(crate) mod placement_price;
pub(crate) mod placement_rules;
mod policy_rules;
pub mod own_fields;
mod propagation_policy;
mod propagation_spec;
mod quota_rules;
mod replica_scheduling;
mod resource_selector;
pub(crate) mod selector_rules;
pub(crate) mod specified_replicas;
mod template;

pub use cluster_override_policy::ClusterOverridePolicy;
pub use cluster_propagation_policy::ClusterPropagationPolicy;
pub use cluster_taint_policy::{ClusterTaintPolicy, ClusterTaintPolicySpec, MatchCondition, PolicyTaint};
pub use failover::{
    ApplicationFailoverBehavior, ClusterFailoverBehavior, ClusterPurgeMode, DecisionConditions, FailoverBehavior,
    PurgeMode, StatePreservation, StatePreservationRule,
};
pub use federated_resource_quota::{
    ClusterQuotaStatus, FEDERATED_RESOURCE_QUOTAS, FederatedResourceQuota, FederatedResourceQuotaSpec,
    FederatedResourceQuotaStatus, StaticClusterAssignment,
};
pub use manager::{CLUSTER_PROPAGATION_POLICIES, POLICIES, PROPAGATION_POLICIES, PolicyIds};
pub use override_policy::OverridePolicy;
pub use override_spec::{
    CommandArgsOperator, CommandArgsOverrider, FieldOverrider, ImageComponent, ImageOverrider, ImagePredicate,
    JsonPatchOperation, LabelAnnotationOverrider, OverrideSpec, OverriderOperator, Overriders, PlaintextOverrider,
    RuleWithCluster, YamlPatchOperation,
};
pub use placement::{
    ClusterAffinity, ClusterAffinityTerm, FieldSelector, OverflowAffinityTerm, Placement, SpreadConstraint,
    SpreadField, WhenSpreadUnsatisfiable, WorkloadAffinity, WorkloadAffinityTerm,
};
pub use placement_price::PlacementPrice;
pub use propagation_policy::PropagationPolicy;
pub use propagation_spec::{
    ActivationPreference, ConflictResolution, PolicySchedulePriority, Preemption, PriorityClassSource, PropagationSpec,
    SuspendClusters, Suspension,
};
pub use replica_scheduling::{
    ClusterBounds, ClusterPreferences, DynamicWeightFactor, ExtendClusterPreferences, ExtendStaticCluster, REGIONS,
    ReplicaDivisionPreference, ReplicaSchedulingStrategy, ReplicaSchedulingType, StaticClusterSpecified,
    StaticClusterWeight, WeightPreference, WhenReplicasUnsatisfiable,
};
pub use resource_selector::{Closeness, LoweredSelector, ResourceSelector};
pub use template::{PolicyOutline, Template, selectors};
