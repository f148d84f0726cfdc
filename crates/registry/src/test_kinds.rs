//! Two example kinds, for tests of derived behaviour.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use ballast_resource::schema::mark::{IntOrString, Keyed, MapList, Opaque};
use ballast_resource::{Column, Kinds, Lifetime, Resource, ResourceKind, Scope};

pub fn kinds() -> Kinds {
    Kinds::new(vec![ResourceKind::of::<Garden>(), ResourceKind::of::<Watering>()])
}

/// A garden.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct Garden {
    /// The desired state.
    spec: GardenSpec,
    /// The observed state.
    #[serde(default)]
    status: Option<GardenStatus>,
}

/// The desired state of a garden.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct GardenSpec {
    /// The number of beds.
    #[schema(minimum = 1, maximum = 9, default = 2)]
    beds: Option<i32>,
    /// The plants of the garden.
    #[schema(min_items = 1)]
    plants: Vec<Plant>,
    #[schema(value_type = Option<IntOrString>)]
    fence: Option<serde_json::Value>,
    #[schema(value_type = Option<Opaque>)]
    notes: Option<serde_json::Value>,
}

/// A plant.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct Plant {
    /// Its name.
    name: String,
}

/// The state of a garden.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct GardenStatus {
    #[serde(default)]
    #[schema(value_type = MapList<Sign>)]
    conditions: Vec<Sign>,
}

/// A sign.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct Sign {
    #[serde(rename = "type")]
    sign: String,
    status: String,
}

impl Keyed for Sign {
    const KEYS: &'static [&'static str] = &["type"];
}

/// Waters everything once.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct Watering {
    #[serde(default)]
    spec: Option<WateringSpec>,
}

/// How to water.
#[derive(Serialize, Deserialize, ToSchema)]
pub struct WateringSpec {
    litres: Option<i64>,
}

impl Resource for Garden {
    const GROUP: &'static str = "garden.example.com";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "Garden";
    const PLURAL: &'static str = "gardens";
    const SINGULAR: &'static str = "garden";
    const SHORT_NAMES: &'static [&'static str] = &["gd"];
    const CATEGORIES: &'static [&'static str] = &["all"];
    const SCOPE: Scope = Scope::Namespaced;
    const STATUS_SUBRESOURCE: bool = true;
    const COLUMNS: &'static [Column] = &[
        column("Ready", "string", r#".status.conditions[?(@.type=="Ready")].status"#, 0),
        column("Beds", "integer", ".spec.beds", 0),
        column("Plants", "string", ".spec.plants", 1),
        column("Open", "boolean", ".spec.notes.open", 1),
        column("Age", "date", ".metadata.creationTimestamp", 0),
    ];
    const OPENAPI_PACKAGE: &'static str = "com.example.garden.v1";
}

impl Resource for Watering {
    const GROUP: &'static str = "garden.example.com";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "Watering";
    const PLURAL: &'static str = "waterings";
    const SINGULAR: &'static str = "watering";
    const SCOPE: Scope = Scope::Cluster;
    const LIFETIME: Lifetime = Lifetime::Action;
    const STATUS_SUBRESOURCE: bool = false;
    const OPENAPI_PACKAGE: &'static str = "com.example.garden.v1";
}

const fn column(name: &'static str, kind: &'static str, path: &'static str, priority: i32) -> Column {
    Column { name, kind, path, priority, description: "" }
}
