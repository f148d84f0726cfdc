//! The spec of both bindings: what is placed, by which rules, and where it is.
//!
//! Typed bindings are held in memory by the hundred thousand, so what few bindings carry is boxed.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::api::core::{NodeSelector, Quantity, Toleration};
use crate::api::karmada::policy::v1alpha1::{
    ConflictResolution, FailoverBehavior, Placement, PurgeMode, SuspendClusters,
};
use crate::api::lean::Pairs;
use crate::k8s::Time;
use crate::resource::schema::mark::Atomic;

/// What is placed, by which rules, and where.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceBindingSpec {
    /// The object that is placed.
    pub resource: ObjectReference,
    /// Whether the objects that it needs follow it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub propagate_deps: Option<bool>,
    /// What one replica needs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica_requirements: Option<Box<ReplicaRequirements>>,
    /// How many replicas the object wants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// The parts of an object that has several pod templates. Each has its own replicas.
    #[serde(default, deserialize_with = "crate::api::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub components: Vec<Component>,
    /// Where it is placed. Written by the scheduler.
    #[serde(default, deserialize_with = "crate::api::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub clusters: Vec<TargetCluster>,
    /// The rules by which it is placed, copied from its policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement: Option<Box<Placement>>,
    /// Clusters that it is leaving, and how.
    #[serde(default, deserialize_with = "crate::api::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub graceful_eviction_tasks: Vec<GracefulEvictionTask>,
    /// The bindings that need this one: it follows them.
    #[serde(default, deserialize_with = "crate::api::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub required_by: Vec<BindingSnapshot>,
    /// Who places it. Empty is the default scheduler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler_name: Option<String>,
    /// What happens when it, or a cluster it runs on, fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failover: Option<Box<FailoverBehavior>>,
    /// What happens when a cluster already has such an object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(default = "Abort")]
    pub conflict_resolution: Option<ConflictResolution>,
    /// Asks for a fresh placement: it is pending while this is later than
    /// `status.lastScheduledTime`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reschedule_triggered_at: Option<Time>,
    /// Asks for a fresh placement, whatever the times say. The scheduler takes it away when it has
    /// placed the object. An addition to upstream's fields, from the RescheduleTask proposal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub force_rescheduling: Option<bool>,
    /// What is paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspension: Option<Box<BindingSuspension>>,
    /// Whether the objects on the clusters stay when this binding goes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preserve_resources_on_deletion: Option<bool>,
    /// How urgent the placement is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule_priority: Option<SchedulePriority>,
    /// The groups that it belongs to, for affinity between workloads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload_affinity_groups: Option<Box<WorkloadAffinityGroups>>,
}

/// Names the object that is placed, and the state of it that the binding was made from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = BoundObjectReference)]
pub struct ObjectReference {
    /// API version of the object.
    pub api_version: String,
    /// Kind of the object.
    pub kind: String,
    /// Namespace of the object; empty for cluster-scoped ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Name of the object.
    pub name: String,
    /// UID of the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// Version of the object that the binding was made from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
}

/// What one replica needs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReplicaRequirements {
    /// What it needs of a node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_claim: Option<NodeClaim>,
    /// The resources it asks for.
    #[serde(default, skip_serializing_if = "Pairs::is_empty")]
    pub resource_request: Pairs<Quantity>,
    /// Namespace that it runs in, for quotas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Its priority class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_class_name: Option<String>,
}

/// What a replica needs of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeClaim {
    /// The nodes that it can run on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Atomic<NodeSelector>>)]
    pub hard_node_affinity: Option<NodeSelector>,
    /// Labels that its node must have.
    #[serde(default, skip_serializing_if = "Pairs::is_empty")]
    pub node_selector: Pairs<String>,
    /// Taints of nodes that it tolerates.
    #[serde(default, deserialize_with = "crate::api::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Toleration>,
}

/// One part of an object that has several pod templates.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Component {
    /// Name of the part, unique within the object.
    #[schema(max_length = 32)]
    pub name: String,
    /// How many replicas the part wants.
    pub replicas: i32,
    /// What one replica of the part needs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica_requirements: Option<ComponentReplicaRequirements>,
}

/// What one replica of a part needs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ComponentReplicaRequirements {
    /// What it needs of a node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_claim: Option<NodeClaim>,
    /// The resources it asks for.
    #[serde(default, skip_serializing_if = "Pairs::is_empty")]
    pub resource_request: Pairs<Quantity>,
    /// Its priority class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_class_name: Option<String>,
}

/// One cluster that the object is placed on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TargetCluster {
    /// Name of the cluster.
    pub name: String,
    /// Replicas there. Absent where replicas are not divided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Replicas there of each part.
    #[serde(default, deserialize_with = "crate::api::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub components: Vec<TargetComponent>,
}

/// Replicas of one part on one cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TargetComponent {
    /// Name of the part.
    pub name: String,
    /// Replicas of it.
    pub replicas: i32,
}

/// One cluster that the object is leaving.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct GracefulEvictionTask {
    /// The cluster that it leaves.
    pub from_cluster: String,
    /// How the object there is removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub purge_mode: Option<PurgeMode>,
    /// Replicas that leave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas: Option<i32>,
    /// Why it leaves, as one word for programs.
    #[schema(min_length = 1, max_length = 32, pattern = "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")]
    pub reason: String,
    /// Why it leaves, in words for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 1024)]
    pub message: Option<String>,
    /// Who decided that it leaves.
    pub producer: String,
    /// Seconds after which it is removed even if nothing has taken its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_period_seconds: Option<i32>,
    /// Whether the object there stays until somebody says otherwise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suppress_deletion: Option<bool>,
    /// State that goes along to the next cluster, as labels.
    #[serde(default, skip_serializing_if = "Pairs::is_empty")]
    pub preserved_label_state: Pairs<String>,
    /// When it began to leave. Written by the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub creation_timestamp: Option<Time>,
    /// Where it was placed when it failed.
    #[serde(default, deserialize_with = "crate::api::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub clusters_before_failover: Vec<String>,
}

impl GracefulEvictionTask {
    /// Of whoever evicts because of taints, in upstream's words.
    const TAINT_MANAGER: &str = "TaintManager";

    /// A task that says that the cluster's taints are the reason.
    pub fn by_taint() -> GracefulEvictionTask {
        GracefulEvictionTask {
            reason: "TaintUntolerated".to_owned(),
            producer: GracefulEvictionTask::TAINT_MANAGER.to_owned(),
            ..GracefulEvictionTask::default()
        }
    }

    pub fn is_by_taint(&self) -> bool {
        self.producer == GracefulEvictionTask::TAINT_MANAGER
    }
}

/// A binding that needs this one, and where it is placed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BindingSnapshot {
    /// Namespace of the binding; empty for cluster-scoped ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Name of the binding.
    pub name: String,
    /// Where it is placed.
    #[serde(default, deserialize_with = "crate::api::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub clusters: Vec<TargetCluster>,
}

/// What is paused.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct BindingSuspension {
    /// Nothing is sent to any cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dispatching: Option<bool>,
    /// Nothing is sent to these clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dispatching_on_clusters: Option<SuspendClusters>,
    /// The scheduler leaves the binding alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduling: Option<bool>,
}

/// How urgent a placement is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SchedulePriority {
    /// The higher, the sooner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(default = 0)]
    pub priority: Option<i32>,
}

/// The groups that a workload belongs to: `label=value`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadAffinityGroups {
    /// The group that it seeks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity_group: Option<String>,
    /// The group that it shuns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anti_affinity_group: Option<String>,
}
