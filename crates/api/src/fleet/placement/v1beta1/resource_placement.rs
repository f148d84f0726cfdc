//! ResourcePlacement: places resources of its namespace on clusters.
//!
//! It has the same spec and status as ClusterResourcePlacement.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::placement::{PlacementSpec, PlacementStatus};
use super::{trigger, validate};
use crate::meta::ObjectMeta;
use crate::type_meta::{ApiVersion, Kind};
use ballast_k8s::FieldErrors;
use ballast_resource::{Column, Given, Resource, Scope, SqlColumn};

/// Places resources of its namespace on clusters and keeps them there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourcePlacement {
    /// Version of the API that the object is written in.
    #[serde(default)]
    #[schema(value_type = String)]
    pub api_version: ApiVersion<ResourcePlacement>,
    /// Kind of the object.
    #[serde(default)]
    #[schema(value_type = String)]
    pub kind: Kind<ResourcePlacement>,
    /// Standard metadata of the object.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// Which resources go to which clusters, and how.
    pub spec: PlacementSpec,
    /// The progress of the placement.
    #[serde(default, skip_serializing_if = "crate::optional::is_default")]
    pub status: PlacementStatus,
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
    const COLUMNS: &'static [Column] = &[
        Column { name: "Gen", kind: "string", path: ".metadata.generation", priority: 0, description: "" },
        Column {
            name: "Type",
            kind: "string",
            path: ".spec.policy.placementType",
            priority: 1,
            description: "How clusters are picked.",
        },
        Column {
            name: "Scheduled",
            kind: "string",
            path: r#".status.conditions[?(@.type=="ResourcePlacementScheduled")].status"#,
            priority: 0,
            description: "",
        },
        Column {
            name: "Scheduled-Gen",
            kind: "string",
            path: r#".status.conditions[?(@.type=="ResourcePlacementScheduled")].observedGeneration"#,
            priority: 0,
            description: "",
        },
        Column {
            name: "Work-Synchronized",
            kind: "string",
            path: r#".status.conditions[?(@.type=="ResourcePlacementWorkSynchronized")].status"#,
            priority: 1,
            description: "",
        },
        Column {
            name: "Work-Synchronized-Gen",
            kind: "string",
            path: r#".status.conditions[?(@.type=="ResourcePlacementWorkSynchronized")].observedGeneration"#,
            priority: 1,
            description: "",
        },
        Column {
            name: "Available",
            kind: "string",
            path: r#".status.conditions[?(@.type=="ResourcePlacementAvailable")].status"#,
            priority: 0,
            description: "",
        },
        Column {
            name: "Available-Gen",
            kind: "string",
            path: r#".status.conditions[?(@.type=="ResourcePlacementAvailable")].observedGeneration"#,
            priority: 0,
            description: "",
        },
        Column { name: "Age", kind: "date", path: ".metadata.creationTimestamp", priority: 0, description: "" },
    ];
    const SQL_COLUMNS: &'static [SqlColumn] = &[
        SqlColumn::field("policy", &["spec", "policy", "placementType"]),
        SqlColumn::field("wanted", &["spec", "policy", "numberOfClusters"]),
        SqlColumn::condition("scheduled", "ResourcePlacementScheduled"),
    ];
    const OPENAPI_PACKAGE: &'static str = "com.github.kubefleet-dev.kubefleet.apis.placement.v1beta1";

    fn prepare(object: &mut Map<String, Value>, given: &Given<'_>) {
        trigger::keep(object, given);
    }

    fn validate(object: &ResourcePlacement, old: Option<&ResourcePlacement>) -> FieldErrors {
        let name = object.metadata.name.as_deref().unwrap_or_default();
        validate::placement(name, &object.spec, old.map(|old| &old.spec))
    }
}
