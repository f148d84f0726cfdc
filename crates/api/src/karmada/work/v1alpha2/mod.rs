//! `work.karmada.io/v1alpha2`

mod aim;
mod any_binding;
mod arrivals;
mod binding_flags;
mod binding_rules;
mod binding_spec;
mod binding_status;
mod cluster_resource_binding;
mod eviction_bound;
mod home;
mod last_change;
mod left_clusters;
mod partial_binding;
mod resource_binding;
mod trigger;
mod trigger_alone;

pub use aim::{AIM, Aim};
pub use any_binding::{AnyBinding, BINDINGS, CLUSTER_RESOURCE_BINDINGS, RESOURCE_BINDINGS, key_of_workload, kind_of};
pub use arrivals::{ARRIVALS, Arrival, ArrivalNotes};
pub use binding_flags::{
    EVICTION_SUSPENDED, HAS_APPLICATION_FAILOVER, HAS_CLUSTERS, IS_EVICTING, IS_MOVING, IS_PENDING, LAST_COPY_KEPT,
    MOVE, TELLS_OF_KEPT_COPY,
};
pub use binding_rules::conditions_with_fully_applied;
pub use binding_spec::{
    BindingSnapshot, BindingSuspension, Component, ComponentReplicaRequirements, GracefulEvictionTask, NodeClaim,
    ObjectReference, ReplicaRequirements, ResourceBindingSpec, SchedulePriority, TargetCluster, TargetComponent,
    WorkloadAffinityGroups,
};
pub use binding_status::{AggregatedStatusItem, ResourceBindingStatus, ResourceHealth};
pub use cluster_resource_binding::ClusterResourceBinding;
pub use home::{HOME, Home, undecided_tasks};
pub use last_change::{LAST_CHANGE, LastChange, TargetDiff, counted, first_of, shares};
pub use left_clusters::{LEFT_CLUSTERS, LeftClusters};
pub use partial_binding::{PartialBinding, PartialCondition, PartialReport, PartialSpec, PartialTarget};
pub use resource_binding::ResourceBinding;
pub use trigger::{PENDING_PASS, Trigger};
pub use trigger_alone::differ_in_trigger;
