//! What the loss of each domain of the fleet would strand (SG21).

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::lean::Pairs;

/// Asks what would happen if each of the fleet's domains were lost, one at a time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Survive {
    /// What is lost at once.
    #[serde(default)]
    #[schema(default = "Cluster")]
    pub by: FailureDomain,
}

/// What may be lost at once.
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
    /// The name in metrics and for people.
    pub fn as_str(self) -> &'static str {
        match self {
            FailureDomain::Cluster => "cluster",
            FailureDomain::Zone => "zone",
            FailureDomain::Region => "region",
            FailureDomain::Provider => "provider",
        }
    }
}

/// What the loss of one domain would strand, beyond what the clusters that are lost already do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DomainSurvival {
    /// Name of the domain: of the cluster, zone, region or provider.
    pub name: String,
    /// Replicas that would fit nowhere after the loss, and would fit before it: those that run
    /// there, and those of lost clusters that need the capacity there.
    #[serde(default)]
    pub stranded_replicas: i64,
    /// Workloads of these replicas, and workloads without replicas that would fit nowhere else.
    #[serde(default)]
    pub stranded_workloads: i64,
    /// The first ten of these workloads, as `namespace/name`.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub first: Vec<String>,
    /// The room that would be left on all other clusters together, by resource.
    #[serde(default, skip_serializing_if = "Pairs::is_empty")]
    pub room_left: Pairs<String>,
    /// What the domain has of the fleet's allocatable resources, from 0 to 1, by resource.
    #[serde(default, skip_serializing_if = "Pairs::is_empty")]
    pub share: Pairs<f64>,
}
