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
/// Upstream's Go package.
const OPENAPI_PACKAGE: &str = "io.k8s.sigs.cluster-inventory-api.apis.v1alpha1";

pub const API_VERSION: &str = "multicluster.x-k8s.io/v1alpha1";
pub const CLUSTER_PROFILES: GroupResource = GroupResource::new("clusterprofiles.multicluster.x-k8s.io");
pub const PLACEMENT_DECISIONS: GroupResource = GroupResource::new("placementdecisions.multicluster.x-k8s.io");

/// On a profile: the name of its manager, as in `spec.clusterManager.name`.
pub const CLUSTER_MANAGER_LABEL: &str = "x-k8s.io/cluster-manager";
/// On all slices of a decision: which decision it is.
pub const DECISION_KEY_LABEL: &str = "multicluster.x-k8s.io/decision-key";
/// On a slice of a decision: its number, from 0.
pub const DECISION_INDEX_LABEL: &str = "multicluster.x-k8s.io/decision-index";
/// On a decision: the workload that it is about.
pub const PLACEMENT_KEY_LABEL: &str = "multicluster.x-k8s.io/placement-key";
/// The condition of a profile that says whether the cluster's control plane works.
pub const CONTROL_PLANE_HEALTHY: &str = "ControlPlaneHealthy";
