//! SelfSubjectAccessReview: checks whether the current user may perform an action.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::meta::ObjectMeta;
use crate::type_meta::{ApiVersion, Kind};
use ballast_k8s::protobuf::{Field, Message};
use ballast_k8s::{FieldErrors, FieldPath};
use ballast_resource::{Lifetime, Resource, Scope};

/// Checks whether the user that creates the review may perform an action.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = io::k8s::api::authorization::v1::SelfSubjectAccessReview)]
pub struct SelfSubjectAccessReview {
    /// Version of the API that the object is written in.
    #[serde(default)]
    #[schema(value_type = String)]
    pub api_version: ApiVersion<SelfSubjectAccessReview>,
    /// Kind of the object.
    #[serde(default)]
    #[schema(value_type = String)]
    pub kind: Kind<SelfSubjectAccessReview>,
    /// Standard metadata of the object. Not used.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// The action: a request for a resource or a path.
    pub spec: AccessReviewSpec,
    /// The result of the check.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<AccessReviewStatus>,
}

const ACCESS: Message = Message(&[(2, "spec", Field::Message(&SPEC))]);
const SPEC: Message = Message(&[
    (1, "resourceAttributes", Field::Message(&RESOURCE)),
    (2, "nonResourceAttributes", Field::Message(&NON_RESOURCE)),
]);
const RESOURCE: Message = Message(&[
    (1, "namespace", Field::Text),
    (2, "verb", Field::Text),
    (3, "group", Field::Text),
    (4, "version", Field::Text),
    (5, "resource", Field::Text),
    (6, "subresource", Field::Text),
    (7, "name", Field::Text),
]);
const NON_RESOURCE: Message = Message(&[(1, "path", Field::Text), (2, "verb", Field::Text)]);

impl Resource for SelfSubjectAccessReview {
    const GROUP: &'static str = "authorization.k8s.io";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "SelfSubjectAccessReview";
    const PLURAL: &'static str = "selfsubjectaccessreviews";
    const SINGULAR: &'static str = "selfsubjectaccessreview";
    const SCOPE: Scope = Scope::Cluster;
    const LIFETIME: Lifetime = Lifetime::Action;
    const ONLY_ASKS: bool = true;
    const STATUS_SUBRESOURCE: bool = false;
    const PROTOBUF: Option<&'static Message> = Some(&ACCESS);
    const OPENAPI_PACKAGE: &'static str = "io.k8s.api.authorization.v1";

    fn validate(object: &SelfSubjectAccessReview, _old: Option<&SelfSubjectAccessReview>) -> FieldErrors {
        let mut errors = FieldErrors::default();
        let AccessReviewSpec { resource_attributes, non_resource_attributes } = &object.spec;
        if resource_attributes.is_some() == non_resource_attributes.is_some() {
            let path = FieldPath::new("spec").child("resourceAttributes");
            let detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
            errors.required(&path, detail);
        }
        errors
    }
}

/// An action: a request for a resource or a path.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = io::k8s::api::authorization::v1::SelfSubjectAccessReviewSpec)]
pub struct AccessReviewSpec {
    /// Request for a resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_attributes: Option<ResourceAttributes>,
    /// Request for a path outside of resources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub non_resource_attributes: Option<NonResourceAttributes>,
}

/// A request for a resource. Absent fields are empty, and an empty name means all objects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
#[schema(as = io::k8s::api::authorization::v1::ResourceAttributes)]
pub struct ResourceAttributes {
    /// Namespace of the object. Empty: all namespaces, or a cluster-scoped resource.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schema(required = false)]
    pub namespace: String,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`, or `*`.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schema(required = false)]
    pub verb: String,
    /// Group of the resource.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schema(required = false)]
    pub group: String,
    /// Version of the resource.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schema(required = false)]
    pub version: String,
    /// Plural name of the resource.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schema(required = false)]
    pub resource: String,
    /// A subresource, such as `status`.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schema(required = false)]
    pub subresource: String,
    /// Name of the object.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schema(required = false)]
    pub name: String,
}

/// A request for a path outside of resources.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
#[schema(as = io::k8s::api::authorization::v1::NonResourceAttributes)]
pub struct NonResourceAttributes {
    /// The path of the URL.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schema(required = false)]
    pub path: String,
    /// HTTP method, in lower case.
    #[serde(skip_serializing_if = "String::is_empty")]
    #[schema(required = false)]
    pub verb: String,
}

/// The result of an access review.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = io::k8s::api::authorization::v1::SubjectAccessReviewStatus)]
pub struct AccessReviewStatus {
    /// Whether the action is allowed.
    pub allowed: bool,
    /// Whether the action is explicitly denied. Not used here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub denied: Option<bool>,
    /// Reason for the decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Error because of which there is no decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evaluation_error: Option<String>,
}
