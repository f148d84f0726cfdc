//! `multicluster.x-k8s.io/v1alpha1`

mod cluster_profile;
mod placement_decision;

pub use cluster_profile::{
    AccessProvider, ClientCluster, ClusterManager, ClusterProfile, ClusterProfileSpec, ClusterProfileStatus,
    ClusterVersion, Extension, Property,
};
pub use placement_decision::{ClusterDecision, PlacementDecision};

use ballast_k8s::GroupResource;

const GROUP: &str = "multicluster.x-k8s.io";
const VERSION: &str = "v1alpha1";
/// Go package of upstream.
const OPENAPI_PACKAGE: &str = "io.k8s.sigs.cluster-inventory-api.apis.v1alpha1";

pub const API_VERSION: &str = "multicluster.x-k8s.io/v1alpha1";
pub const CLUSTER_PROFILES: GroupResource = GroupResource::new("clusterprofiles.multicluster.x-k8s.io");
pub const PLACEMENT_DECISIONS: GroupResource = GroupResource::new("placementdecisions.multicluster.x-k8s.io");

/// Label of a profile: the name of its manager, as in `spec.clusterManager.name`.
pub const CLUSTER_MANAGER_LABEL: &str = "x-k8s.io/cluster-manager";
/// Label of each slice of a decision: the key of the decision.
pub const DECISION_KEY_LABEL: &str = "multicluster.x-k8s.io/decision-key";
/// Label of a slice of a decision: its index, from 0.
pub const DECISION_INDEX_LABEL: &str = "multicluster.x-k8s.io/decision-index";
/// Label of a decision: the workload that was placed.
pub const PLACEMENT_KEY_LABEL: &str = "multicluster.x-k8s.io/placement-key";
/// Condition of a profile: whether the control plane of the cluster is healthy.
pub const CONTROL_PLANE_HEALTHY: &str = "ControlPlaneHealthy";
