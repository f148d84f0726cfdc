//! The effect of the loss of each failure domain (SG21).

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::lean::Pairs;

/// Reports the effect of the loss of each failure domain, one at a time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Survive {
    /// The failure domain.
    #[serde(default)]
    #[schema(default = "Cluster")]
    pub by: FailureDomain,
}

/// A failure domain: clusters that may be lost at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
pub enum FailureDomain {
    /// One cluster.
    #[default]
    Cluster,
    /// All clusters that have nodes in one zone.
    Zone,
    /// All clusters of one region.
    Region,
    /// All clusters of one provider.
    Provider,
}

impl FailureDomain {
    /// Returns the name of the domain for metrics and messages.
    pub fn as_str(self) -> &'static str {
        match self {
            FailureDomain::Cluster => "cluster",
            FailureDomain::Zone => "zone",
            FailureDomain::Region => "region",
            FailureDomain::Provider => "provider",
        }
    }
}

/// The effect of the loss of one failure domain, beyond the effect of clusters already lost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DomainSurvival {
    /// Name of the cluster, zone, region or provider.
    pub name: String,
    /// Replicas that would fit on no cluster after the loss, but would fit before it: replicas that
    /// run in the domain, and replicas of lost clusters that need its capacity.
    #[serde(default)]
    pub stranded_replicas: i64,
    /// Workloads with such replicas, and workloads without replicas that would fit on no other
    /// cluster.
    #[serde(default)]
    pub stranded_workloads: i64,
    /// The first ten of these workloads, as `namespace/name`.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub first: Vec<String>,
    /// Free capacity that would be left on all other clusters together, by resource.
    #[serde(default, skip_serializing_if = "Pairs::is_empty")]
    pub room_left: Pairs<String>,
    /// The domain's share of the allocatable resources of all clusters, from 0 to 1, by resource.
    #[serde(default, skip_serializing_if = "Pairs::is_empty")]
    pub share: Pairs<f64>,
}
