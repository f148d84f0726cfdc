//! The spec of both bindings: what is placed, by which rules, and where.
//!
//! The server holds typed bindings in memory by the hundred thousand. So fields that few bindings
//! have are boxed.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::core::{NodeSelector, Quantity, Toleration};
use crate::karmada::policy::v1alpha1::{ConflictResolution, FailoverBehavior, Placement, PurgeMode, SuspendClusters};
use crate::lean::Pairs;
use ballast_k8s::Time;
use ballast_resource::schema::mark::Atomic;

/// What is placed, by which rules, and where.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceBindingSpec {
    /// The object that is placed.
    pub resource: ObjectReference,
    /// Whether the objects that it depends on are placed with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub propagate_deps: Option<bool>,
    /// What one replica requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica_requirements: Option<Box<ReplicaRequirements>>,
    /// The number of replicas of the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// The components of an object that has several pod templates. Each has its own replicas.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub components: Vec<Component>,
    /// The clusters that the object is placed on. The scheduler writes this field.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub clusters: Vec<TargetCluster>,
    /// The rules by which it is placed, copied from its policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<Box<Placement>>,
    /// Evictions in progress.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub graceful_eviction_tasks: Vec<GracefulEvictionTask>,
    /// The bindings that depend on this one. It is placed wherever they are.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub required_by: Vec<BindingSnapshot>,
    /// The scheduler that places the object. Empty: the default scheduler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler_name: Option<String>,
    /// What happens when the object fails, or a cluster that it runs on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failover: Option<Box<FailoverBehavior>>,
    /// What happens when a cluster has such an object already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(default = "Abort")]
    pub conflict_resolution: Option<ConflictResolution>,
    /// Asks for a fresh placement. The request is pending while this time is later than
    /// `status.lastScheduledTime`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reschedule_triggered_at: Option<Time>,
    /// Asks for a fresh placement, whatever the times are. The scheduler removes it after it has
    /// placed the object. Not a field of upstream: it comes from the RescheduleTask proposal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub force_rescheduling: Option<bool>,
    /// What is paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspension: Option<Box<BindingSuspension>>,
    /// Whether the objects on the clusters are kept when this binding is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preserve_resources_on_deletion: Option<bool>,
    /// How urgent the placement is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule_priority: Option<SchedulePriority>,
    /// The groups that the workload belongs to, for workload affinity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload_affinity_groups: Option<Box<WorkloadAffinityGroups>>,
}

/// The object that is placed, and the version of it that the binding was made from.
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
    /// Resource version of the object that the binding was made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
}

impl ObjectReference {
    /// Whether a reference with these members means this object, in whatever version of its group.
    /// Names of bindings are in lower case, so those of Foo and foo collide.
    pub fn is_named(&self, api_version: &str, kind: &str, name: &str) -> bool {
        let group = |api_version: &str| api_version.rsplit_once('/').map_or("", |(group, _)| group).to_owned();
        self.kind == kind && self.name == name && group(&self.api_version) == group(api_version)
    }

    /// Whether a binding of the namespace `own` names a workload of another namespace (WH7). A
    /// cluster-scoped binding has no namespace.
    pub fn is_elsewhere(&self, own: &str) -> bool {
        !own.is_empty() && self.namespace.as_deref().is_some_and(|named| !named.is_empty() && named != own)
    }

    /// The workload of a binding of the namespace `own`, which is its own one. `None` if it names
    /// another: such a binding has no effect.
    pub fn of_binding(mut self, own: &str) -> Option<ObjectReference> {
        if self.is_elsewhere(own) {
            return None;
        }
        self.namespace = (!own.is_empty()).then(|| own.to_owned());
        Some(self)
    }
}

/// What one replica requests.
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
    /// The nodes that can run it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Atomic<NodeSelector>>)]
    pub hard_node_affinity: Option<NodeSelector>,
    /// Labels that the node must have.
    #[serde(default, skip_serializing_if = "Pairs::is_empty")]
    pub node_selector: Pairs<String>,
    /// Taints of nodes that are tolerated.
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
    /// The number of replicas of the component.
    pub replicas: i32,
    /// What one replica of the component requests.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica_requirements: Option<ComponentReplicaRequirements>,
}

/// What one replica of a component requests.
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

/// One cluster that the object is placed on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TargetCluster {
    /// Name of the cluster.
    pub name: String,
    /// Replicas on the cluster. Absent if replicas are not divided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Replicas on the cluster, by component.
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

/// The eviction of the object from one cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct GracefulEvictionTask {
    /// The cluster that the object is evicted from.
    pub from_cluster: String,
    /// How the object is removed from the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub purge_mode: Option<PurgeMode>,
    /// Replicas on the cluster before the eviction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// The reason, in one word for programs.
    #[schema(min_length = 1, max_length = 32, pattern = "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")]
    pub reason: String,
    /// The reason, in a sentence for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 1024)]
    pub message: Option<String>,
    /// The program that decided the eviction.
    pub producer: String,
    /// Seconds after which the object is removed even without a replacement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_period_seconds: Option<i32>,
    /// Whether the object stays until a user confirms the removal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suppress_deletion: Option<bool>,
    /// State that is passed on to the next cluster, as labels.
    #[serde(default, skip_serializing_if = "Pairs::is_empty")]
    pub preserved_label_state: Pairs<String>,
    /// When the eviction began. The server writes this field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub creation_timestamp: Option<Time>,
    /// The clusters that the object was on when it failed.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub clusters_before_failover: Vec<String>,
}

impl GracefulEvictionTask {
    /// The producer of evictions because of taints, in upstream's words.
    const TAINT_MANAGER: &str = "TaintManager";

    /// An eviction because of the cluster's taints.
    pub fn by_taint() -> GracefulEvictionTask {
        GracefulEvictionTask {
            reason: "TaintUntolerated".to_owned(),
            producer: GracefulEvictionTask::TAINT_MANAGER.to_owned(),
            ..GracefulEvictionTask::default()
        }
    }

    /// Whether the eviction was caused by the cluster's taints.
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
    /// The clusters that it is placed on.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub clusters: Vec<TargetCluster>,
}

/// What is paused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BindingSuspension {
    /// Whether nothing is sent to any cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dispatching: Option<bool>,
    /// Clusters that nothing is sent to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dispatching_on_clusters: Option<SuspendClusters>,
    /// Whether the scheduler leaves the binding alone.
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

/// The groups that a workload belongs to, as `label=value`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadAffinityGroups {
    /// The group whose clusters it shares.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity_group: Option<String>,
    /// The group whose clusters it avoids.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anti_affinity_group: Option<String>,
}
