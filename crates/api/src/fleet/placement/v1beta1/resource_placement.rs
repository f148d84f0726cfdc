//! ResourcePlacement: places resources of its namespace on clusters.
//!
//! It has the same spec and status as ClusterResourcePlacement.

use serde_json::{Map, Value};

use super::placement::{PlacementSpec, PlacementStatus, columns, sql_columns};
use super::{trigger, validate};
use crate::type_meta::kind;
use ballast_k8s::FieldErrors;
use ballast_resource::{Column, Given, Resource, Scope, SqlColumn};

kind! {
    /// Places resources of its namespace on clusters and keeps them there.
    pub struct ResourcePlacement {
        /// Resources of the placement, their clusters, and the rollout strategy.
        pub spec: PlacementSpec,
        /// Progress of the placement.
        #[serde(default, skip_serializing_if = "crate::optional::is_default")]
        pub status: PlacementStatus,
    }
}

impl Resource for ResourcePlacement {
    const GROUP: &'static str = "placement.kubernetes-fleet.io";
    const VERSION: &'static str = "v1beta1";
    const KIND: &'static str = "ResourcePlacement";
    const PLURAL: &'static str = "resourceplacements";
    const SINGULAR: &'static str = "resourceplacement";
    const SHORT_NAMES: &'static [&'static str] = &["rp"];
    const CATEGORIES: &'static [&'static str] = &["fleet", "fleet-placement"];
    const SCOPE: Scope = Scope::Namespaced;
    const STATUS_SUBRESOURCE: bool = true;
    const COLUMNS: &'static [Column] = columns!("ResourcePlacement");
    const SQL_COLUMNS: &'static [SqlColumn] = &sql_columns("ResourcePlacementScheduled");
    const OPENAPI_PACKAGE: &'static str = "com.github.kubefleet-dev.kubefleet.apis.placement.v1beta1";

    fn prepare(object: &mut Map<String, Value>, given: &Given<'_>) {
        trigger::keep(object, given);
    }

    fn validate(object: &ResourcePlacement, old: Option<&ResourcePlacement>) -> FieldErrors {
        let name = object.metadata.name.as_deref().unwrap_or_default();
        validate::placement(Self::SCOPE, name, &object.spec, old.map(|old| &old.spec))
    }
}
