//! PlacementDecision: the clusters that were selected for a workload. Only Ballast writes it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::core::ObjectReference;
use crate::type_meta::kind;
use ballast_resource::schema::mark::AtomicList;
use ballast_resource::{Column, Resource, Scope, SqlColumn};

kind! {
    /// The clusters that a scheduler selected, or a slice of them. A slice has at most 100
    /// clusters, and all slices of a decision have the same label
    /// `multicluster.x-k8s.io/decision-key`.
    pub struct PlacementDecision {
        /// The selected clusters.
        #[schema(value_type = AtomicList<ClusterDecision>)]
        pub decisions: Vec<ClusterDecision>,
        /// Name of the scheduler that made the decision.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub scheduler_name: Option<String>,
    }
}

/// A cluster that was selected.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterDecision {
    /// Profile of the cluster.
    pub cluster_profile_ref: ObjectReference,
    /// Reason for the selection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Resource for PlacementDecision {
    const GROUP: &'static str = super::GROUP;
    const VERSION: &'static str = super::VERSION;
    const KIND: &'static str = "PlacementDecision";
    const PLURAL: &'static str = "placementdecisions";
    const SINGULAR: &'static str = "placementdecision";
    const SCOPE: Scope = Scope::Namespaced;
    const WRITTEN_BY_CLIENTS: bool = false;
    const STATUS_SUBRESOURCE: bool = false;
    const COLUMNS: &'static [Column] =
        &[Column { name: "Age", kind: "date", path: ".metadata.creationTimestamp", priority: 0, description: "" }];
    const SQL_COLUMNS: &'static [SqlColumn] = &[
        SqlColumn::field("decision_key", &["metadata", "labels", super::DECISION_KEY_LABEL]),
        SqlColumn::field("scheduler", &["schedulerName"]),
    ];
    const OPENAPI_PACKAGE: &'static str = super::OPENAPI_PACKAGE;
}
