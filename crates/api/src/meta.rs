//! Types of `meta/v1` that all kinds have or use: metadata, conditions and label selectors.
//!
//! They are data only. `registry::metadata` implements the rules of `metadata`, and the engine
//! evaluates selectors. `ObjectMeta` is complete, so that a typed round trip loses nothing.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::free_form::FreeForm;
use super::lean::Pairs;
use ballast_k8s::Time;
use ballast_resource::schema::mark::{AtomicList, SetList};

/// Standard metadata of an object. The served schema is the registry's own
/// (`resource::schema::object_meta`), the same for every kind. This type is for typed objects.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = io::k8s::apimachinery::pkg::apis::meta::v1::ObjectMeta)]
pub struct ObjectMeta {
    /// Name of the object, unique among the objects of the same kind and namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Prefix from which the server generates a name, if `name` is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generate_name: Option<Box<str>>,
    /// Namespace within which the name is unique.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Deprecated and unused. It is kept so that old objects round-trip.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub self_link: Option<Box<str>>,
    /// Identifier that is unique over all objects at all times. The server writes this field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// Opaque version of the object, for optimistic concurrency and watches. The server writes this
    /// field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
    /// Number of the generation of the desired state. The server writes this field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    /// Time at which the object was created. The server writes this field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub creation_timestamp: Option<Time>,
    /// Time at which the deletion of the object was requested. The server writes this field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_timestamp: Option<Time>,
    /// Grace period of the deletion, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_grace_period_seconds: Option<i64>,
    /// Key-value pairs that selectors can match.
    #[serde(default, skip_serializing_if = "Pairs::is_empty")]
    pub labels: Pairs<String>,
    /// Key-value pairs that selectors cannot match.
    #[serde(default, skip_serializing_if = "Pairs::is_empty")]
    pub annotations: Pairs<String>,
    /// Objects that this object depends on. It is deleted when all of them are deleted.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub owner_references: Vec<OwnerReference>,
    /// Names that must be removed before the object is deleted.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = SetList<String>)]
    pub finalizers: Vec<String>,
    /// Fields that each manager owns. The server writes this field.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = AtomicList<ManagedFieldsEntry>)]
    pub managed_fields: Vec<ManagedFieldsEntry>,
}

/// The owner of an object: an object in the same namespace, or a cluster-scoped one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = io::k8s::apimachinery::pkg::apis::meta::v1::OwnerReference)]
pub struct OwnerReference {
    /// API version of the owner.
    pub api_version: String,
    /// Kind of the owner.
    pub kind: String,
    /// Name of the owner.
    pub name: String,
    /// UID of the owner.
    pub uid: String,
    /// Whether the owner is the managing controller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller: Option<bool>,
    /// Whether a foreground deletion of the owner waits for this object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_owner_deletion: Option<bool>,
}

/// The fields that one manager owns.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = io::k8s::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry)]
pub struct ManagedFieldsEntry {
    /// Name of the manager.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub manager: Option<String>,
    /// `Apply` or `Update`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    /// API version that the field paths belong to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// Time at which the entry last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Time>,
    /// Format of the field set: `FieldsV1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fields_type: Option<String>,
    /// The fields, as a tree of `f:name` keys.
    #[serde(default, rename = "fieldsV1", skip_serializing_if = "Option::is_none")]
    pub fields_v1: Option<FreeForm>,
    /// Subresource through which the fields were set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subresource: Option<String>,
}

/// A condition: one aspect of an object's observed state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = io::k8s::apimachinery::pkg::apis::meta::v1::Condition)]
pub struct Condition {
    /// Type of the condition, in CamelCase or as `domain/CamelCase`.
    #[serde(rename = "type")]
    #[schema(
        max_length = 316,
        pattern = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
    )]
    pub type_: String,
    /// `True`, `False` or `Unknown`. The Rust type is a string, because the conditions of Clusters
    /// may have any value.
    #[schema(value_type = ConditionStatus)]
    pub status: String,
    /// Generation of the object that the condition was computed from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0)]
    pub observed_generation: Option<i64>,
    /// Time at which `status` last changed.
    pub last_transition_time: Time,
    /// Machine-readable reason for the status, in one CamelCase word.
    #[schema(min_length = 1, max_length = 1024, pattern = "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")]
    pub reason: String,
    /// Human-readable reason for the status. May be empty.
    #[schema(max_length = 32768)]
    pub message: String,
}

/// Values of `status`, where the schema restricts them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum ConditionStatus {
    True,
    False,
    Unknown,
}

/// Selects objects by their labels. An empty selector selects all objects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = io::k8s::apimachinery::pkg::apis::meta::v1::LabelSelector)]
pub struct LabelSelector {
    /// Requirements. All of them must hold.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = AtomicList<LabelSelectorRequirement>)]
    pub match_expressions: Vec<LabelSelectorRequirement>,
    /// Labels that the object must have, with these values.
    #[serde(default, skip_serializing_if = "Pairs::is_empty")]
    pub match_labels: Pairs<String>,
}

/// One requirement on a label.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[schema(as = io::k8s::apimachinery::pkg::apis::meta::v1::LabelSelectorRequirement)]
pub struct LabelSelectorRequirement {
    /// The label's key.
    pub key: String,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`. As upstream, the schema allows any text. Other
    /// operators are rejected.
    pub operator: String,
    /// At least one value for `In` and `NotIn`, none for `Exists` and `DoesNotExist`.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = AtomicList<String>)]
    pub values: Vec<String>,
}
