//! ClusterResourceSnapshot: the resources of a placement at one time.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::schema_rules;
use crate::free_form::FreeForm;
use crate::meta::Condition;
use crate::type_meta::kind;
use ballast_k8s::FieldErrors;
use ballast_resource::schema::mark::MapList;
use ballast_resource::{Column, Resource, Scope, SqlColumn};

kind! {
    /// The resources of a placement at one time, or a part of them if they do not fit into one
    /// object.
    pub struct ClusterResourceSnapshot {
        /// Snapshot of the resources.
        pub spec: ResourceSnapshotSpec,
        /// State of the snapshot.
        #[serde(default, skip_serializing_if = "crate::optional::is_default")]
        pub status: ResourceSnapshotStatus,
    }
}

impl Resource for ClusterResourceSnapshot {
    const GROUP: &'static str = "placement.kubernetes-fleet.io";
    const VERSION: &'static str = "v1beta1";
    const KIND: &'static str = "ClusterResourceSnapshot";
    const PLURAL: &'static str = "clusterresourcesnapshots";
    const SINGULAR: &'static str = "clusterresourcesnapshot";
    const SHORT_NAMES: &'static [&'static str] = &["crs"];
    const CATEGORIES: &'static [&'static str] = &["fleet", "fleet-placement"];
    const SCOPE: Scope = Scope::Cluster;
    const STATUS_SUBRESOURCE: bool = true;
    const COLUMNS: &'static [Column] = super::policy_snapshot::COLUMNS;
    const SQL_COLUMNS: &'static [SqlColumn] = &[super::names::PLACEMENT_COLUMN];
    const OPENAPI_PACKAGE: &'static str = "com.github.kubefleet-dev.kubefleet.apis.placement.v1beta1";

    fn validate(object: &ClusterResourceSnapshot, old: Option<&ClusterResourceSnapshot>) -> FieldErrors {
        schema_rules::unchanged(&object.spec, old.map(|old| &old.spec))
    }
}

/// The resources of a placement at one time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceSnapshotSpec {
    /// Complete resources.
    pub selected_resources: Vec<FreeForm>,
}

/// The state of a resource snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceSnapshotStatus {
    /// Conditions of the snapshot.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = MapList<Condition>)]
    pub conditions: Vec<Condition>,
}
