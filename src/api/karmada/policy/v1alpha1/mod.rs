//! `policy.karmada.io/v1alpha1`

mod cluster_propagation_policy;
mod failover;
mod manager;
pub(in crate::api) mod mend;
mod placement;
pub(in crate::api) mod placement_rules;
mod policy_rules;
mod propagation_policy;
mod propagation_spec;
mod replica_scheduling;
mod resource_selector;
pub(in crate::api) mod specified_replicas;

pub use cluster_propagation_policy::ClusterPropagationPolicy;
pub use failover::{
    ApplicationFailoverBehavior, ClusterFailoverBehavior, ClusterPurgeMode, DecisionConditions, FailoverBehavior,
    PurgeMode, StatePreservation, StatePreservationRule,
};
pub use manager::{CLUSTER_PROPAGATION_POLICIES, POLICIES, PROPAGATION_POLICIES, PolicyIds};
pub use placement::{
    ClusterAffinity, ClusterAffinityTerm, FieldSelector, OverflowAffinityTerm, Placement, SpreadConstraint,
    SpreadField, WorkloadAffinity, WorkloadAffinityTerm,
};
pub use propagation_policy::PropagationPolicy;
pub use propagation_spec::{
    ActivationPreference, ConflictResolution, PolicySchedulePriority, Preemption, PriorityClassSource, PropagationSpec,
    SuspendClusters, Suspension,
};
pub use replica_scheduling::{
    ClusterPreferences, DynamicWeightFactor, ExtendClusterPreferences, ExtendStaticCluster, REGIONS,
    ReplicaDivisionPreference, ReplicaSchedulingStrategy, ReplicaSchedulingType, StaticClusterSpecified,
    StaticClusterWeight, WeightPreference,
};
pub use resource_selector::{Closeness, LoweredSelector, ResourceSelector};
