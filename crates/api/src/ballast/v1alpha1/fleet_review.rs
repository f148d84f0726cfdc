//! FleetReview and LocalFleetReview: missing replicas and pending evictions (NG1, NG2). They change
//! nothing and are never stored.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::AsOf;
use crate::core::Quantity;
use crate::type_meta::kind;
use ballast_k8s::Time;
use ballast_resource::{Lifetime, Resource, Scope};

kind! {
    /// Counts the wanted, ready and missing replicas of all clusters, and the pending evictions. It
    /// changes nothing and is never stored.
    pub struct FleetReview {
        /// Not used.
        metadata;
        /// Bounds of the result.
        #[serde(default)]
        pub spec: FleetReviewSpec,
        /// The result.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub status: Option<FleetReviewStatus>,
    }
}

kind! {
    /// Counts the wanted, ready and missing replicas of one namespace, in total and per cluster of
    /// its workloads. It changes nothing and is never stored.
    pub struct LocalFleetReview {
        /// Only the namespace is used.
        metadata;
        /// Bounds of the result.
        #[serde(default)]
        pub spec: FleetReviewSpec,
        /// The result.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub status: Option<FleetReviewStatus>,
    }
}

impl Resource for FleetReview {
    const GROUP: &'static str = super::GROUP;
    const VERSION: &'static str = super::VERSION;
    const KIND: &'static str = "FleetReview";
    const PLURAL: &'static str = "fleetreviews";
    const SINGULAR: &'static str = "fleetreview";
    const SCOPE: Scope = Scope::Cluster;
    const LIFETIME: Lifetime = Lifetime::Action;
    const ONLY_ASKS: bool = true;
    const STATUS_SUBRESOURCE: bool = false;
    const OPENAPI_PACKAGE: &'static str = super::OPENAPI_PACKAGE;
}

impl Resource for LocalFleetReview {
    const GROUP: &'static str = super::GROUP;
    const VERSION: &'static str = super::VERSION;
    const KIND: &'static str = "LocalFleetReview";
    const PLURAL: &'static str = "localfleetreviews";
    const SINGULAR: &'static str = "localfleetreview";
    const SCOPE: Scope = Scope::Namespaced;
    const LIFETIME: Lifetime = Lifetime::Action;
    const ONLY_ASKS: bool = true;
    const STATUS_SUBRESOURCE: bool = false;
    const OPENAPI_PACKAGE: &'static str = super::OPENAPI_PACKAGE;
}

/// Bounds of the result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FleetReviewSpec {
    /// Maximum number of namespaces listed, in descending order of missing replicas. The counts
    /// include all namespaces.
    #[serde(default = "listed")]
    #[schema(minimum = 0, maximum = 10000, default = 500)]
    pub limit: i64,
    /// The moment in the past to report on. Absent: now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub as_of: Option<AsOf>,
}

fn listed() -> i64 {
    500
}

impl Default for FleetReviewSpec {
    fn default() -> FleetReviewSpec {
        FleetReviewSpec { limit: listed(), as_of: None }
    }
}

/// The result of a FleetReview or LocalFleetReview.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FleetReviewStatus {
    /// The revision of the view that the result is based on.
    pub revision: String,
    /// The time of the counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Time>,
    /// All replicas.
    #[serde(default)]
    pub replicas: ReplicaCounts,
    /// Wanted replicas that are assigned to no cluster. They count as missing.
    #[serde(default)]
    pub unplaced: i64,
    /// Workloads with replicas for which the scheduler found no placement. A displaced workload
    /// that runs in full does not count.
    #[serde(default)]
    pub unschedulable: i64,
    /// Number of clusters, in total and not ready.
    #[serde(default)]
    pub cluster_counts: ClusterReadiness,
    /// Counts per region, ordered by name. Clusters without a region are counted under the name "".
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub regions: Vec<RegionCounts>,
    /// Counts per cluster, ordered by name.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub clusters: Vec<ClusterCounts>,
    /// Counts per namespace, in descending order of missing replicas. Bindings without a namespace
    /// are counted under the name "".
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<NamespaceCounts>,
    /// Number of namespaces beyond `spec.limit`.
    #[serde(default)]
    pub remaining: i64,
    /// The pending evictions.
    #[serde(default)]
    pub evictions: EvictionCounts,
}

/// Replica counts. `ready` and `missing` add up to `wanted`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct ReplicaCounts {
    /// Number of workloads, counted as bindings.
    pub workloads: i64,
    /// Desired replicas.
    pub wanted: i64,
    /// Replicas that agents on reachable clusters report as ready.
    pub ready: i64,
    /// Desired replicas that are not ready.
    pub missing: i64,
}

/// Numbers of clusters by readiness.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct ClusterReadiness {
    /// Number of clusters.
    pub total: i64,
    /// Number of clusters with a `Ready` condition that is not True.
    pub lost: i64,
}

/// Counts of one region.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RegionCounts {
    /// Name of the region.
    pub name: String,
    /// Number of clusters in the region.
    #[serde(default)]
    pub clusters: ClusterReadiness,
    /// Replicas in the region.
    #[serde(default)]
    pub replicas: ReplicaCounts,
}

/// Counts of one cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterCounts {
    /// Name of the cluster.
    pub name: String,
    /// Region of the cluster.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schema(required = false)]
    pub region: String,
    /// Status of its condition `Ready`: True, False or Unknown. Absent: bindings name the cluster,
    /// but it does not exist.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schema(required = false)]
    pub ready: String,
    /// Time since which `Ready` has this status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// Replicas on the cluster.
    #[serde(default)]
    pub replicas: ReplicaCounts,
    /// Ready replicas that evictions keep on the cluster until their replacement is ready. They are
    /// included in the wanted and the ready replicas.
    #[serde(default)]
    pub leaving: i64,
    /// Replicas assigned to the cluster while replicas on other clusters still serve for them:
    /// surge replicas of a move, and replacements of leaving replicas. They are not included in the
    /// wanted replicas.
    #[serde(default)]
    pub arriving: i64,
    /// Workloads with a pending or foreseen eviction from the cluster.
    #[serde(default)]
    pub to_evict: i64,
}

/// Counts of one namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NamespaceCounts {
    /// Name of the namespace.
    pub name: String,
    /// Replicas in the namespace.
    #[serde(default)]
    pub replicas: ReplicaCounts,
}

/// Pending evictions, counted in bindings: a binding that loses two clusters counts once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EvictionCounts {
    /// Bindings with a taint eviction that has not begun.
    #[serde(default)]
    pub waiting: i64,
    /// Bindings that will have to leave a cluster if nothing changes.
    #[serde(default)]
    pub foreseen: i64,
    /// Bindings that are leaving a cluster before their replacement is healthy.
    #[serde(default)]
    pub leaving: i64,
    /// Time since which the oldest pending eviction waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest: Option<Time>,
    /// Time at which the first foreseen eviction is due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_due: Option<Time>,
    /// Time at which the last pending eviction begins at the current rate. Absent: none is pending,
    /// or none may begin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends: Option<Time>,
    /// Bindings evicted per second. 0: evictions are held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_second: Option<Quantity>,
    /// The source of the rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_from: Option<RateFrom>,
    /// Time at which the EvictionLimit that sets the rate expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_until: Option<Time>,
    /// The user that set the rate by the EvictionLimit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_set_by: Option<String>,
    /// The note of the EvictionLimit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_note: Option<String>,
}

/// The source of the eviction rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum RateFrom {
    /// The flags of the server.
    Flags,
    /// The flags, with the rate reduced or 0 because most clusters are not ready.
    MostlyUnready,
    /// The EvictionLimit named `fleet`.
    EvictionLimit,
    /// The server evicts nothing: another controller does, or none.
    NoEviction,
}
