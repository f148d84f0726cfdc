//! SelfSubjectRulesReview: lists the permissions of the current user in a namespace.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::meta::ObjectMeta;
use crate::type_meta::{ApiVersion, Kind};
use ballast_k8s::protobuf::{Field, Message};
use ballast_resource::schema::mark::AtomicList;
use ballast_resource::{Lifetime, Resource, Scope};

/// Lists the permissions, in a namespace, of the user that creates the review.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = io::k8s::api::authorization::v1::SelfSubjectRulesReview)]
pub struct SelfSubjectRulesReview {
    /// Version of the API that the object is written in.
    #[serde(default)]
    #[schema(value_type = String)]
    pub api_version: ApiVersion<SelfSubjectRulesReview>,
    /// Kind of the object.
    #[serde(default)]
    #[schema(value_type = String)]
    pub kind: Kind<SelfSubjectRulesReview>,
    /// Standard metadata of the object. Not used.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// The namespace to evaluate.
    pub spec: RulesReviewSpec,
    /// The permissions of the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<RulesReviewStatus>,
}

const RULES: Message = Message(&[(2, "spec", Field::Message(&SPEC))]);
const SPEC: Message = Message(&[(1, "namespace", Field::Text)]);

impl Resource for SelfSubjectRulesReview {
    const GROUP: &'static str = "authorization.k8s.io";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "SelfSubjectRulesReview";
    const PLURAL: &'static str = "selfsubjectrulesreviews";
    const SINGULAR: &'static str = "selfsubjectrulesreview";
    const SCOPE: Scope = Scope::Cluster;
    const LIFETIME: Lifetime = Lifetime::Action;
    const ONLY_ASKS: bool = true;
    const STATUS_SUBRESOURCE: bool = false;
    const PROTOBUF: Option<&'static Message> = Some(&RULES);
    const OPENAPI_PACKAGE: &'static str = "io.k8s.api.authorization.v1";
}

/// The namespace to evaluate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = io::k8s::api::authorization::v1::SelfSubjectRulesReviewSpec)]
pub struct RulesReviewSpec {
    /// Name of the namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// The permissions of a user.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = io::k8s::api::authorization::v1::SubjectRulesReviewStatus)]
pub struct RulesReviewStatus {
    /// Rules for resources.
    #[schema(value_type = AtomicList<ResourceRule>)]
    pub resource_rules: Vec<ResourceRule>,
    /// Rules for paths outside of resources.
    #[schema(value_type = AtomicList<NonResourceRule>)]
    pub non_resource_rules: Vec<NonResourceRule>,
    /// Whether the rules may be incomplete.
    pub incomplete: bool,
    /// Error because of which the rules may be incomplete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evaluation_error: Option<String>,
}

/// Verbs that are allowed on resources. `*` means all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = io::k8s::api::authorization::v1::ResourceRule)]
pub struct ResourceRule {
    /// The allowed verbs.
    #[schema(value_type = AtomicList<String>)]
    pub verbs: Vec<String>,
    /// Groups of the resources.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = AtomicList<String>)]
    pub api_groups: Vec<String>,
    /// The resources.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = AtomicList<String>)]
    pub resources: Vec<String>,
    /// Names of the objects. Empty: all.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = AtomicList<String>)]
    pub resource_names: Vec<String>,
}

/// Methods that are allowed on paths outside of resources.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = io::k8s::api::authorization::v1::NonResourceRule)]
pub struct NonResourceRule {
    /// Methods in lower case.
    #[schema(value_type = AtomicList<String>)]
    pub verbs: Vec<String>,
    /// Paths, or prefixes of paths followed by `*`.
    #[serde(
        default,
        rename = "nonResourceURLs",
        deserialize_with = "crate::lean::list",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schema(value_type = AtomicList<String>)]
    pub non_resource_urls: Vec<String>,
}
