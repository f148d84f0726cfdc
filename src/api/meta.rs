//! The shapes of `meta/v1` that every kind carries or uses: metadata, conditions, label selectors.
//!
//! They are data: nothing here knows a rule. `registry::metadata` keeps the rules of `metadata`, the
//! engine evaluates selectors. `ObjectMeta` is complete, so that a typed round trip loses nothing.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::openapi::schema::{ObjectBuilder, SchemaFormat, Type};
use utoipa::openapi::{KnownFormat, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use super::extend::{self, Named};
use super::free_form::FreeForm;
use crate::k8s::Time;

impl PartialSchema for Time {
    fn schema() -> RefOr<Schema> {
        let date_time = SchemaFormat::KnownFormat(KnownFormat::DateTime);
        ObjectBuilder::new().schema_type(Type::String).format(Some(date_time)).into()
    }
}

impl ToSchema for Time {
    fn name() -> Cow<'static, str> {
        "io.k8s.apimachinery.pkg.apis.meta.v1.Time".into()
    }
}

/// What every stored object says about itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectMeta {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generate_name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub self_link: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub creation_timestamp: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_timestamp: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deletion_grace_period_seconds: Option<i64>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub owner_references: Vec<OwnerReference>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub finalizers: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub managed_fields: Vec<ManagedFieldsEntry>,
}

impl PartialSchema for ObjectMeta {
    fn schema() -> RefOr<Schema> {
        let owners = extend::list_of::<OwnerReference>()
            .description("Objects this one depends on: when all of them are gone, it is collected.")
            .list_type("map")
            .extension("x-kubernetes-list-map-keys", ["uid"])
            .extension("x-kubernetes-patch-merge-key", "uid")
            .extension("x-kubernetes-patch-strategy", "merge");
        let finalizers = extend::list_of::<String>()
            .description("Names of those who must agree before the object goes: it stays until the list is empty.")
            .list_type("set")
            .extension("x-kubernetes-patch-strategy", "merge");
        let managed_fields = extend::list_of::<ManagedFieldsEntry>()
            .description("Who last set which field. Written by the server.")
            .list_type("atomic");
        extend::object("What every stored object says about itself.")
            .property("name", extend::of::<String>("Unique among the objects of its kind in its namespace."))
            .property(
                "generateName",
                extend::of::<String>("The server makes a name from this prefix if there is none."),
            )
            .property("namespace", extend::of::<String>("The space within which the name is unique."))
            .property("selfLink", extend::of::<String>("No longer filled in; kept so that old objects round-trip."))
            .property("uid", extend::of::<String>("Unique over all objects that ever were. Written by the server."))
            .property(
                "resourceVersion",
                extend::of::<String>("Opaque version of the object, for concurrency and watches."),
            )
            .property(
                "generation",
                extend::of::<i64>("Counts the changes of the desired state. Written by the server."),
            )
            .property("creationTimestamp", extend::of::<Time>("When the object was created. Written by the server."))
            .property(
                "deletionTimestamp",
                extend::of::<Time>("When its deletion was asked for. Written by the server."),
            )
            .property("deletionGracePeriodSeconds", extend::of::<i64>("Seconds granted to end gracefully."))
            .property("labels", extend::of::<BTreeMap<String, String>>("Pairs that selectors match."))
            .property("annotations", extend::of::<BTreeMap<String, String>>("Pairs that selectors do not match."))
            .property("ownerReferences", owners)
            .property("finalizers", finalizers)
            .property("managedFields", managed_fields)
            .build()
    }
}

impl ToSchema for ObjectMeta {
    fn name() -> Cow<'static, str> {
        "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta".into()
    }

    fn schemas(schemas: &mut Vec<Named>) {
        extend::refer_to::<Time>(schemas);
        extend::refer_to::<OwnerReference>(schemas);
        extend::refer_to::<ManagedFieldsEntry>(schemas);
    }
}

/// An object that this one depends on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OwnerReference {
    pub api_version: String,
    pub kind: String,
    pub name: String,
    pub uid: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block_owner_deletion: Option<bool>,
}

impl PartialSchema for OwnerReference {
    fn schema() -> RefOr<Schema> {
        extend::object("An object that this one depends on, in the same namespace or cluster-scoped.")
            .map_type("atomic")
            .required("apiVersion", extend::of::<String>("API version of the owner."))
            .required("kind", extend::of::<String>("Kind of the owner."))
            .required("name", extend::of::<String>("Name of the owner."))
            .required("uid", extend::of::<String>("UID of the owner."))
            .property("controller", extend::of::<bool>("Whether the owner is the managing controller."))
            .property(
                "blockOwnerDeletion",
                extend::of::<bool>("Whether the owner waits for this object in a foreground deletion."),
            )
            .build()
    }
}

impl ToSchema for OwnerReference {
    fn name() -> Cow<'static, str> {
        "io.k8s.apimachinery.pkg.apis.meta.v1.OwnerReference".into()
    }
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
    /// Version in which the fields are named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// When the entry was last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Time>,
    /// Format of the field set: `FieldsV1`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fields_type: Option<String>,
    /// The field set, as a trie of `f:name` keys.
    #[serde(default, rename = "fieldsV1", skip_serializing_if = "Option::is_none")]
    pub fields_v1: Option<FreeForm>,
    /// The subresource through which the fields were set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subresource: Option<String>,
}

/// One aspect of an object's observed state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Condition {
    /// Which aspect, in CamelCase or as `domain/CamelCase`.
    #[serde(rename = "type")]
    #[schema(
        max_length = 316,
        pattern = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
    )]
    pub type_: String,
    /// `True`, `False` or `Unknown`. A string in Rust because clusters may carry any.
    #[schema(value_type = ConditionStatus)]
    pub status: String,
    /// The generation of the object that the condition speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0)]
    pub observed_generation: Option<i64>,
    /// When `status` last changed.
    pub last_transition_time: Time,
    /// Why, as one CamelCase word for programs.
    #[schema(min_length = 1, max_length = 1024, pattern = "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")]
    pub reason: String,
    /// Why, in words for people. May be empty.
    #[schema(max_length = 32768)]
    pub message: String,
}

/// The values of a condition's `status` where the schema bounds them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum ConditionStatus {
    True,
    False,
    Unknown,
}

/// Selects objects by their labels. Empty selects all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LabelSelector {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<LabelSelectorRequirement>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: BTreeMap<String, String>,
}

impl PartialSchema for LabelSelector {
    fn schema() -> RefOr<Schema> {
        let expressions = extend::list_of::<LabelSelectorRequirement>()
            .description("Requirements that must all hold.")
            .list_type("atomic");
        extend::object("Selects objects by their labels. Empty selects all.")
            .map_type("atomic")
            .property("matchExpressions", expressions)
            .property(
                "matchLabels",
                extend::of::<BTreeMap<String, String>>("Labels that must be there with these values."),
            )
            .build()
    }
}

impl ToSchema for LabelSelector {
    fn schemas(schemas: &mut Vec<Named>) {
        extend::refer_to::<LabelSelectorRequirement>(schemas);
    }
}

/// One requirement on a label.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LabelSelectorRequirement {
    pub key: String,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`. The schema lets any through, as upstream's does; a
    /// selector with another operator selects nothing.
    pub operator: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
}

impl PartialSchema for LabelSelectorRequirement {
    fn schema() -> RefOr<Schema> {
        let values = extend::list_of::<String>()
            .description("Not empty for In and NotIn, empty for Exists and DoesNotExist.")
            .list_type("atomic");
        extend::object("One requirement on a label.")
            .required("key", extend::of::<String>("The label's key."))
            .required("operator", extend::of::<String>("In, NotIn, Exists or DoesNotExist."))
            .property("values", values)
            .build()
    }
}

impl ToSchema for LabelSelectorRequirement {}
