//! What is said of single resources: which one, and how it failed, drifted or differs.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::api::meta::Condition;
use crate::k8s::Time;

/// Names an object in a namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NamespacedName {
    /// Name of the object.
    pub name: String,
    /// Namespace of the object.
    pub namespace: String,
}

/// Names one resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ResourceIdentifier {
    /// API group; absent is the core group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// API version.
    pub version: String,
    /// Kind.
    pub kind: String,
    /// Name.
    pub name: String,
    /// Namespace, for resources that are in one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The envelope that the resource came in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub envelope: Option<EnvelopeIdentifier>,
}

/// Names an object that wraps others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EnvelopeIdentifier {
    /// Name of the object.
    pub name: String,
    /// Its namespace, for those that are in one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// What it is.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    #[schema(default = "ConfigMap")]
    pub type_: Option<EnvelopeType>,
}

/// What wraps others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum EnvelopeType {
    ConfigMap,
    ClusterResourceEnvelope,
    ResourceEnvelope,
}

/// A resource that could not be applied or is not available.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FailedResource {
    #[serde(flatten)]
    pub resource: ResourceIdentifier,
    /// What is wrong.
    pub condition: Condition,
}

/// A resource that was changed on the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DriftedResource {
    #[serde(flatten)]
    pub resource: ResourceIdentifier,
    /// When this was last seen.
    pub observation_time: Time,
    /// When it was first seen.
    pub first_drifted_observed_time: Time,
    /// Generation of the resource on the cluster.
    pub target_cluster_observed_generation: i64,
    /// Where it differs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub observed_drifts: Vec<PatchDetail>,
}

/// A resource that differs from what is on the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DiffedResource {
    #[serde(flatten)]
    pub resource: ResourceIdentifier,
    /// When this was last seen.
    pub observation_time: Time,
    /// When it was first seen.
    pub first_diffed_observed_time: Time,
    /// Generation of the resource on the cluster; absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_cluster_observed_generation: Option<i64>,
    /// Where it differs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub observed_diffs: Vec<PatchDetail>,
}

/// One difference.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PatchDetail {
    /// JSON pointer to the field.
    pub path: String,
    /// Its value on the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_in_member: Option<String>,
    /// Its value here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_in_hub: Option<String>,
}
