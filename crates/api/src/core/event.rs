//! Event of `core/v1`: a human-readable report of something that happened to an object.
//!
//! The server stores events itself and deletes them after an hour (see `events`). Clients may
//! create their own.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::meta::ObjectMeta;
use crate::type_meta::{ApiVersion, Kind};
use ballast_k8s::{FieldErrors, FieldPath, GroupResource, Time};
use ballast_resource::schema::mark::DateTime;
use ballast_resource::{Column, Resource, Scope};

pub const EVENTS: GroupResource = GroupResource::new("events");

/// The namespace of events about cluster-scoped objects.
pub const NAMESPACE_OF_CLUSTER_SCOPED: &str = "default";

/// Something that happened to an object. Equal events about the same object are counted in one
/// Event.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = io::k8s::api::core::v1::Event)]
pub struct Event {
    /// Version of the API that the object is written in.
    #[serde(default)]
    #[schema(value_type = String)]
    pub api_version: ApiVersion<Event>,
    /// Kind of the object.
    #[serde(default)]
    #[schema(value_type = String)]
    pub kind: Kind<Event>,
    /// Standard metadata of the object.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// Object that the event is about.
    pub involved_object: ObjectReference,
    /// Machine-readable reason for the event, in one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Human-readable description of the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Component that reported the event.
    #[serde(default, skip_serializing_if = "crate::optional::is_default")]
    pub source: EventSource,
    /// Time at which the event first occurred.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_timestamp: Option<Time>,
    /// Time at which the event last occurred.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_timestamp: Option<Time>,
    /// Number of times that the event occurred.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<i32>,
    /// `Normal` or `Warning`.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub type_: Option<String>,
    /// Time at which the event was first observed, in microseconds. Clients of the newer API write
    /// this field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<DateTime>)]
    pub event_time: Option<String>,
    /// Series that the event belongs to. Clients of the newer API count occurrences in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub series: Option<EventSeries>,
    /// Action that was taken or that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// Second object that the event is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub related: Option<ObjectReference>,
    /// Controller that reported the event.
    #[serde(default)]
    #[schema(default = "")]
    pub reporting_component: String,
    /// Instance of the reporting controller.
    #[serde(default)]
    #[schema(default = "")]
    pub reporting_instance: String,
}

/// A reference to an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = io::k8s::api::core::v1::ObjectReference)]
pub struct ObjectReference {
    /// API version of the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// Kind of the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Namespace of the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Name of the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// UID of the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// Resource version of the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
    /// Path of the field in the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field_path: Option<String>,
}

/// The component that reports an event.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = io::k8s::api::core::v1::EventSource)]
pub struct EventSource {
    /// Name of the component.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub component: Option<String>,
    /// Node that the component runs on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
}

/// A series of occurrences of an event. Clients of the newer API count in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = io::k8s::api::core::v1::EventSeries)]
pub struct EventSeries {
    /// Number of occurrences.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<i32>,
    /// Time of the last occurrence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<DateTime>)]
    pub last_observed_time: Option<String>,
}

impl Resource for Event {
    const GROUP: &'static str = "";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "Event";
    const PLURAL: &'static str = "events";
    const SINGULAR: &'static str = "event";
    const SHORT_NAMES: &'static [&'static str] = &["ev"];
    const SCOPE: Scope = Scope::Namespaced;
    const STATUS_SUBRESOURCE: bool = false;
    const NAME_IS_SHOWN: bool = false;
    const COLUMNS: &'static [Column] = &[
        column("Last Seen", "date", ".lastTimestamp", 0, "When it happened last."),
        column("Type", "string", ".type", 0, "Normal or Warning."),
        column("Reason", "string", ".reason", 0, "What happened, as one word."),
        column("Object", "string", ".involvedObject.kind/.involvedObject.name", 0, "The object that it happened to."),
        column("Subobject", "string", ".involvedObject.fieldPath", 1, "The part of the object."),
        column("Source", "string", ".source.component", 1, "The component that reports it."),
        column("Message", "string", ".message", 0, "What happened, in words."),
        column("First Seen", "date", ".firstTimestamp", 1, "When it happened for the first time."),
        column("Count", "integer", ".count", 1, "How often it happened."),
    ];
    const SELECTABLE_FIELDS: &'static [&'static str] = &[
        "involvedObject.apiVersion",
        "involvedObject.fieldPath",
        "involvedObject.kind",
        "involvedObject.name",
        "involvedObject.namespace",
        "involvedObject.resourceVersion",
        "involvedObject.uid",
        "reason",
        "reportingComponent",
        "source.component",
        "type",
    ];
    const OPENAPI_PACKAGE: &'static str = "io.k8s.api.core.v1";

    fn validate(object: &Event, _old: Option<&Event>) -> FieldErrors {
        let mut errors = FieldErrors::default();
        let own = object.metadata.namespace.as_deref().unwrap_or_default();
        let involved = object.involved_object.namespace.as_deref().unwrap_or_default();
        let fits = if involved.is_empty() { own == NAMESPACE_OF_CLUSTER_SCOPED } else { own == involved };
        if !fits {
            let path = FieldPath::new("involvedObject").child("namespace");
            errors.invalid(&path, involved, "does not match event.namespace");
        }
        errors
    }
}

const fn column(
    name: &'static str,
    kind: &'static str,
    path: &'static str,
    priority: i32,
    description: &'static str,
) -> Column {
    Column { name, kind, path, priority, description }
}
