//! FleetReview and LocalFleetReview: how much is down, and what is being evicted (NG1, NG2). They
//! change nothing and are never stored.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::AsOf;
use crate::core::Quantity;
use crate::type_meta::kind;
use ballast_k8s::Time;
use ballast_resource::{Lifetime, Resource, Scope};

kind! {
    /// Asks how many replicas of the fleet are wanted, ready and missing, and how many evictions
    /// wait. It changes nothing and is never stored.
    pub struct FleetReview {
        /// Not used.
        metadata;
        /// How much of the answer is listed.
        #[serde(default)]
        pub spec: FleetReviewSpec,
        /// The answer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub status: Option<FleetReviewStatus>,
    }
}

kind! {
    /// Asks how many replicas of one namespace are wanted, ready and missing. It lists the clusters
    /// that the namespace's workloads are on. It changes nothing and is never stored.
    pub struct LocalFleetReview {
        /// Only the namespace is used.
        metadata;
        /// How much of the answer is listed.
        #[serde(default)]
        pub spec: FleetReviewSpec,
        /// The answer.
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

/// How much of the answer is listed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FleetReviewSpec {
    /// How many namespaces are listed, those with the most missing replicas first. The counts have
    /// all.
    #[serde(default = "listed")]
    #[schema(minimum = 0, maximum = 10000, default = 500)]
    pub limit: i64,
    /// The moment in the past that is counted. Absent: now.
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

/// The answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FleetReviewStatus {
    /// The revision of the view that the answer is based on.
    pub revision: String,
    /// The time that the counts are of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Time>,
    /// All replicas.
    #[serde(default)]
    pub replicas: ReplicaCounts,
    /// Wanted replicas that no cluster has. They are among the missing ones.
    #[serde(default)]
    pub unplaced: i64,
    /// Unschedulable workloads: those that the scheduler found no placement for, for some of their
    /// replicas. A displaced workload that runs in full is none.
    #[serde(default)]
    pub unschedulable: i64,
    /// Clusters, and those of them that are not ready.
    #[serde(default)]
    pub cluster_counts: ClusterReadiness,
    /// By region, in the order of their names. A cluster without a region is in the one named "".
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub regions: Vec<RegionCounts>,
    /// By cluster, in the order of their names.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub clusters: Vec<ClusterCounts>,
    /// By namespace, those with the most missing replicas first. Bindings without a namespace are
    /// in the one named "".
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<NamespaceCounts>,
    /// How many more namespaces there are beyond `spec.limit`.
    #[serde(default)]
    pub remaining: i64,
    /// The evictions that wait.
    #[serde(default)]
    pub evictions: EvictionCounts,
}

/// Replicas. `ready` and `missing` add up to `wanted`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct ReplicaCounts {
    /// Workloads: bindings.
    pub workloads: i64,
    /// Replicas that there should be.
    pub wanted: i64,
    /// Replicas that agents report as ready, on clusters that are reachable.
    pub ready: i64,
    /// Replicas that are wanted and not ready.
    pub missing: i64,
}

/// Clusters by whether they are ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct ClusterReadiness {
    /// Clusters that exist.
    pub total: i64,
    /// Clusters whose condition `Ready` is not True.
    pub lost: i64,
}

/// One region.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RegionCounts {
    /// The region.
    pub name: String,
    /// Its clusters.
    #[serde(default)]
    pub clusters: ClusterReadiness,
    /// Their replicas.
    #[serde(default)]
    pub replicas: ReplicaCounts,
}

/// One cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterCounts {
    /// The cluster.
    pub name: String,
    /// Its region.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schema(required = false)]
    pub region: String,
    /// The status of its condition `Ready`: True, False or Unknown. Absent: bindings name the
    /// cluster, and it does not exist.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schema(required = false)]
    pub ready: String,
    /// Since when that is so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// Its replicas.
    #[serde(default)]
    pub replicas: ReplicaCounts,
    /// Ready replicas that evictions keep here until their replacement is ready. They are among the
    /// wanted and the ready ones.
    #[serde(default)]
    pub leaving: i64,
    /// Replicas that are assigned here, while others serve in their stead elsewhere: more of a move
    /// that adds before it removes, and replacements of leaving ones. They are not among the wanted
    /// ones.
    #[serde(default)]
    pub arriving: i64,
    /// Workloads that wait for their eviction from it, or that are foreseen to.
    #[serde(default)]
    pub to_evict: i64,
}

/// One namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NamespaceCounts {
    /// The namespace.
    pub name: String,
    /// Its replicas.
    #[serde(default)]
    pub replicas: ReplicaCounts,
}

/// The evictions that wait, counted in bindings: a binding that loses two clusters takes one turn.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EvictionCounts {
    /// Bindings that a taint evicts, and whose turn has not come.
    #[serde(default)]
    pub waiting: i64,
    /// Bindings that will have to leave a cluster if nothing changes.
    #[serde(default)]
    pub foreseen: i64,
    /// Bindings that are leaving a cluster, and whose replacement is not healthy yet.
    #[serde(default)]
    pub leaving: i64,
    /// Since when the oldest one waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest: Option<Time>,
    /// When the first of those that are foreseen is due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_due: Option<Time>,
    /// When the last one begins at this rate. Absent: none waits, or none may begin.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends: Option<Time>,
    /// Bindings that are evicted a second. 0: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_second: Option<Quantity>,
    /// What sets the rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_from: Option<RateFrom>,
    /// When the EvictionLimit that sets the rate expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_until: Option<Time>,
    /// The user who set the rate by the EvictionLimit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_set_by: Option<String>,
    /// The note of the EvictionLimit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_note: Option<String>,
}

/// What sets the rate of evictions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum RateFrom {
    /// The flags of the server.
    Flags,
    /// The flags, slower or at 0 because most clusters are not ready.
    MostlyUnready,
    /// The EvictionLimit named `fleet`.
    EvictionLimit,
    /// The server evicts nothing: another controller does, or none.
    NoEviction,
}
