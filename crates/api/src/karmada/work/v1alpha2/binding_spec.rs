//! The spec of both kinds of bindings: the bound object, its placement rules and its targets.
//!
//! The server holds hundreds of thousands of typed bindings in memory, so rarely used fields are
//! boxed.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::core::{NodeSelector, Quantity, Toleration};
use crate::karmada::policy::v1alpha1::{ConflictResolution, FailoverBehavior, Placement, PurgeMode, SuspendClusters};
use crate::lean::Pairs;
use ballast_k8s::Time;
use ballast_resource::schema::mark::Atomic;

/// The bound object, its placement rules and its targets.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceBindingSpec {
    /// The bound object.
    pub resource: ObjectReference,
    /// Whether the objects that this object depends on are placed with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub propagate_deps: Option<bool>,
    /// Resources and node requirements of one replica.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica_requirements: Option<Box<ReplicaRequirements>>,
    /// Number of replicas of the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Components of an object with several pod templates. Each component has its own replicas.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub components: Vec<Component>,
    /// The clusters on which the object is placed. The scheduler writes this field.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub clusters: Vec<TargetCluster>,
    /// The placement rules, copied from the policy of the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<Box<Placement>>,
    /// Evictions in progress.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub graceful_eviction_tasks: Vec<GracefulEvictionTask>,
    /// The bindings that depend on this one. The object is placed on all of their clusters.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub required_by: Vec<BindingSnapshot>,
    /// Name of the responsible scheduler. Empty: the default scheduler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler_name: Option<String>,
    /// Behavior when the object, or a cluster that it runs on, fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failover: Option<Box<FailoverBehavior>>,
    /// Behavior when the object already exists on a cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(default = "Abort")]
    pub conflict_resolution: Option<ConflictResolution>,
    /// Requests a Fresh decision. The request is pending while this time is later than
    /// `status.lastScheduledTime`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reschedule_triggered_at: Option<Time>,
    /// Requests a Fresh decision, regardless of the times. The scheduler removes the field after it
    /// has placed the object. It is not a field of upstream: it comes from the RescheduleTask
    /// proposal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub force_rescheduling: Option<bool>,
    /// The parts of the binding's processing that are suspended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspension: Option<Box<BindingSuspension>>,
    /// Whether the objects on the clusters are retained when this binding is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preserve_resources_on_deletion: Option<bool>,
    /// The priority of the placement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule_priority: Option<SchedulePriority>,
    /// The groups that the workload belongs to, for workload affinity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload_affinity_groups: Option<Box<WorkloadAffinityGroups>>,
}

/// A reference to the bound object, and the version of it that the binding is based on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = BoundObjectReference)]
pub struct ObjectReference {
    /// API version of the object.
    pub api_version: String,
    /// Kind of the object.
    pub kind: String,
    /// Namespace of the object. Empty for cluster-scoped objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Name of the object.
    pub name: String,
    /// UID of the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// Resource version of the object that the binding is based on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
}

impl ObjectReference {
    /// Returns whether a reference with these fields refers to this object, in any version of its
    /// API group. Names of bindings are in lower case, so those of the kinds Foo and foo collide.
    pub fn is_named(&self, api_version: &str, kind: &str, name: &str) -> bool {
        let group = |api_version: &str| api_version.rsplit_once('/').map_or("", |(group, _)| group).to_owned();
        self.kind == kind && self.name == name && group(&self.api_version) == group(api_version)
    }

    /// Returns whether a binding of the namespace `own` references a workload of another namespace
    /// (WH7). `own` is empty for a cluster-scoped binding.
    pub fn is_elsewhere(&self, own: &str) -> bool {
        !own.is_empty() && self.namespace.as_deref().is_some_and(|named| !named.is_empty() && named != own)
    }

    /// Returns the workload of a binding of the namespace `own`, with this namespace, or `None` if
    /// the reference names another one: such a binding has no effect.
    pub fn of_binding(mut self, own: &str) -> Option<ObjectReference> {
        if self.is_elsewhere(own) {
            return None;
        }
        self.namespace = (!own.is_empty()).then(|| own.to_owned());
        Some(self)
    }
}

/// Resources and node requirements of one replica.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReplicaRequirements {
    /// Requirements on the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_claim: Option<NodeClaim>,
    /// The requested resources.
    #[serde(default, skip_serializing_if = "Pairs::is_empty")]
    pub resource_request: Pairs<Quantity>,
    /// Namespace of the workload, for quotas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Priority class of the workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_class_name: Option<String>,
}

/// Requirements of a replica on its node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeClaim {
    /// Required node affinity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Atomic<NodeSelector>>)]
    pub hard_node_affinity: Option<NodeSelector>,
    /// Labels that the node must have.
    #[serde(default, skip_serializing_if = "Pairs::is_empty")]
    pub node_selector: Pairs<String>,
    /// Node taints that the replica tolerates.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Toleration>,
}

/// One component of an object that has several pod templates.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Component {
    /// Name of the component, unique within the object.
    #[schema(max_length = 32)]
    pub name: String,
    /// Number of replicas of the component.
    pub replicas: i32,
    /// Resources and node requirements of one replica of the component.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica_requirements: Option<ComponentReplicaRequirements>,
}

/// Resources and node requirements of one replica of a component.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ComponentReplicaRequirements {
    /// Requirements on the node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_claim: Option<NodeClaim>,
    /// The requested resources.
    #[serde(default, skip_serializing_if = "Pairs::is_empty")]
    pub resource_request: Pairs<Quantity>,
    /// Priority class of the component.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_class_name: Option<String>,
}

/// A cluster on which the object is placed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TargetCluster {
    /// Name of the cluster.
    pub name: String,
    /// Number of replicas on the cluster. Absent if replicas are not divided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Replicas on the cluster by component.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub components: Vec<TargetComponent>,
}

/// Replicas of one component on one cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TargetComponent {
    /// Name of the component.
    pub name: String,
    /// Number of replicas.
    pub replicas: i32,
}

/// An eviction of the object from one cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct GracefulEvictionTask {
    /// The cluster that the object is evicted from.
    pub from_cluster: String,
    /// How the object is removed from the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub purge_mode: Option<PurgeMode>,
    /// Number of replicas on the cluster before the eviction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// The reason as a single word, for programs.
    #[schema(min_length = 1, max_length = 32, pattern = "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")]
    pub reason: String,
    /// The reason as a sentence, for users.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 1024)]
    pub message: Option<String>,
    /// The component that decided the eviction.
    pub producer: String,
    /// Seconds after which the object is removed even without a replacement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_period_seconds: Option<i32>,
    /// Whether the object is retained until a user confirms its removal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suppress_deletion: Option<bool>,
    /// Labels that pass state of the object on to its next cluster.
    #[serde(default, skip_serializing_if = "Pairs::is_empty")]
    pub preserved_label_state: Pairs<String>,
    /// Time at which the eviction began. The server writes this field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub creation_timestamp: Option<Time>,
    /// The clusters on which the object was placed when it failed.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub clusters_before_failover: Vec<String>,
}

impl GracefulEvictionTask {
    /// The producer of taint evictions, as upstream names it.
    const TAINT_MANAGER: &str = "TaintManager";

    /// Returns an eviction with the reason and producer of taint evictions.
    pub fn by_taint() -> GracefulEvictionTask {
        GracefulEvictionTask {
            reason: "TaintUntolerated".to_owned(),
            producer: GracefulEvictionTask::TAINT_MANAGER.to_owned(),
            ..GracefulEvictionTask::default()
        }
    }

    /// Returns whether the taints of the cluster caused the eviction.
    pub fn is_by_taint(&self) -> bool {
        self.producer == GracefulEvictionTask::TAINT_MANAGER
    }
}

/// A binding that depends on this one, and its targets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BindingSnapshot {
    /// Namespace of the binding. Empty for cluster-scoped bindings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Name of the binding.
    pub name: String,
    /// The clusters on which it is placed.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub clusters: Vec<TargetCluster>,
}

/// The parts of a binding's processing that are suspended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BindingSuspension {
    /// Whether dispatching to all clusters is suspended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dispatching: Option<bool>,
    /// The clusters to which dispatching is suspended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dispatching_on_clusters: Option<SuspendClusters>,
    /// Whether scheduling is suspended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduling: Option<bool>,
}

/// The priority of a placement.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SchedulePriority {
    /// Bindings of higher priority are placed first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(default = 0)]
    pub priority: Option<i32>,
}

/// The groups that a workload belongs to, each as `label=value`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadAffinityGroups {
    /// The group with which it shares clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity_group: Option<String>,
    /// The group from which it is kept apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anti_affinity_group: Option<String>,
}
