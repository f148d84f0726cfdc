//! The kinds that tests write, by short names.

use ballast::k8s::GroupResource;
use serde_json::Value;

pub const RB: GroupResource = GroupResource::new("resourcebindings.work.karmada.io");
pub const CRB: GroupResource = GroupResource::new("clusterresourcebindings.work.karmada.io");
pub const WR: GroupResource = GroupResource::new("workloadrebalancers.apps.karmada.io");
pub const CLUSTER: GroupResource = GroupResource::new("clusters.cluster.karmada.io");
pub const PP: GroupResource = GroupResource::new("propagationpolicies.policy.karmada.io");
pub const REB: GroupResource = GroupResource::new("rebalances.ballast.dev");
pub const CREB: GroupResource = GroupResource::new("clusterrebalances.ballast.dev");
pub const MOVES: GroupResource = GroupResource::new("moves.ballast.dev");
pub const CPP: GroupResource = GroupResource::new("clusterpropagationpolicies.policy.karmada.io");
pub const QUOTAS: GroupResource = GroupResource::new("federatedresourcequotas.policy.karmada.io");
pub const CRP: GroupResource = GroupResource::new("clusterresourceplacements.placement.kubernetes-fleet.io");
pub const FLEET_BINDINGS: GroupResource = GroupResource::new("clusterresourcebindings.placement.kubernetes-fleet.io");
pub const MEMBER: GroupResource = GroupResource::new("memberclusters.cluster.kubernetes-fleet.io");
pub const EVICTION_LIMITS: GroupResource = GroupResource::new("evictionlimits.ballast.dev");
pub const REBS: GroupResource = GroupResource::new("rebalanceschedules.ballast.dev");

pub fn resource_of(object: &Value) -> GroupResource {
    match object["kind"].as_str().unwrap() {
        "EvictionLimit" => EVICTION_LIMITS,
        "RebalanceSchedule" => REBS,
        "ResourceBinding" => RB,
        "ClusterResourceBinding" => CRB,
        "WorkloadRebalancer" => WR,
        "Cluster" => CLUSTER,
        "PropagationPolicy" => PP,
        "ClusterPropagationPolicy" => CPP,
        "FederatedResourceQuota" => QUOTAS,
        "Rebalance" => REB,
        "ClusterRebalance" => CREB,
        "ClusterResourcePlacement" => CRP,
        "MemberCluster" => MEMBER,
        other => panic!("no such kind: {other}"),
    }
}
