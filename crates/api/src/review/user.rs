//! SelfSubjectReview: returns the identity of the current user.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::meta::ObjectMeta;
use crate::type_meta::{ApiVersion, Kind};
use ballast_k8s::protobuf::Message;
use ballast_resource::schema::mark::AtomicList;
use ballast_resource::{Lifetime, Resource, Scope};

/// Returns the identity of the user that creates the review.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = io::k8s::api::authentication::v1::SelfSubjectReview)]
pub struct SelfSubjectReview {
    /// Version of the API that the object is written in.
    #[serde(default)]
    #[schema(value_type = String)]
    pub api_version: ApiVersion<SelfSubjectReview>,
    /// Kind of the object.
    #[serde(default)]
    #[schema(value_type = String)]
    pub kind: Kind<SelfSubjectReview>,
    /// Standard metadata of the object. Not used.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// The identity of the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<SelfSubjectReviewStatus>,
}

/// The protobuf body of the request. Its content is ignored.
const USER: Message = Message(&[]);

impl Resource for SelfSubjectReview {
    const GROUP: &'static str = "authentication.k8s.io";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "SelfSubjectReview";
    const PLURAL: &'static str = "selfsubjectreviews";
    const SINGULAR: &'static str = "selfsubjectreview";
    const SCOPE: Scope = Scope::Cluster;
    const LIFETIME: Lifetime = Lifetime::Action;
    const ONLY_ASKS: bool = true;
    const STATUS_SUBRESOURCE: bool = false;
    const PROTOBUF: Option<&'static Message> = Some(&USER);
    const OPENAPI_PACKAGE: &'static str = "io.k8s.api.authentication.v1";
}

/// The identity of a user, as the server authenticated it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = io::k8s::api::authentication::v1::SelfSubjectReviewStatus)]
pub struct SelfSubjectReviewStatus {
    /// The user.
    #[serde(default)]
    pub user_info: UserInfo,
}

/// A user.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = io::k8s::api::authentication::v1::UserInfo)]
pub struct UserInfo {
    /// Name of the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
    /// Identifier that distinguishes users that had the same name at different times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// Groups that the user is a member of.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = AtomicList<String>)]
    pub groups: Vec<String>,
    /// Further attributes of the user.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub extra: BTreeMap<String, Vec<String>>,
}
