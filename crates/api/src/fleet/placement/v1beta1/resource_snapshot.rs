//! ResourceSnapshot: the resources of a namespaced placement at one time.
//!
//! It has the same spec and status as ClusterResourceSnapshot.

use super::cluster_resource_snapshot::{ResourceSnapshotSpec, ResourceSnapshotStatus};
use super::schema_rules;
use crate::type_meta::kind;
use ballast_k8s::FieldErrors;
use ballast_resource::{Column, Resource, Scope, SqlColumn};

kind! {
    /// The resources of a namespaced placement at one time, or a part of them if they do not fit
    /// into one object.
    pub struct ResourceSnapshot {
        /// Snapshot of the resources.
        pub spec: ResourceSnapshotSpec,
        /// State of the snapshot.
        #[serde(default, skip_serializing_if = "crate::optional::is_default")]
        pub status: ResourceSnapshotStatus,
    }
}

impl Resource for ResourceSnapshot {
    const GROUP: &'static str = "placement.kubernetes-fleet.io";
    const VERSION: &'static str = "v1beta1";
    const KIND: &'static str = "ResourceSnapshot";
    const PLURAL: &'static str = "resourcesnapshots";
    const SINGULAR: &'static str = "resourcesnapshot";
    /// `rs` means ReplicaSets, so this kind has no short name (D46).
    const SHORT_NAMES: &'static [&'static str] = &[];
    const CATEGORIES: &'static [&'static str] = &["fleet", "fleet-placement"];
    const SCOPE: Scope = Scope::Namespaced;
    const STATUS_SUBRESOURCE: bool = true;
    const COLUMNS: &'static [Column] = super::policy_snapshot::COLUMNS;
    const SQL_COLUMNS: &'static [SqlColumn] = &[super::names::PLACEMENT_COLUMN];
    const OPENAPI_PACKAGE: &'static str = "com.github.kubefleet-dev.kubefleet.apis.placement.v1beta1";

    fn validate(object: &ResourceSnapshot, old: Option<&ResourceSnapshot>) -> FieldErrors {
        schema_rules::unchanged(&object.spec, old.map(|old| &old.spec))
    }
}
