//! The kinds that an attached server reads from the upstream, and writes there.

use ballast_k8s::GroupResource;

/// All kinds that scheduling and reviews read.
pub const ATTACHED_KINDS: [GroupResource; 5] = [
    GroupResource::new("clusters.cluster.karmada.io"),
    GroupResource::new("clusterpropagationpolicies.policy.karmada.io"),
    GroupResource::new("propagationpolicies.policy.karmada.io"),
    GroupResource::new("clusterresourcebindings.work.karmada.io"),
    GroupResource::new("resourcebindings.work.karmada.io"),
];
