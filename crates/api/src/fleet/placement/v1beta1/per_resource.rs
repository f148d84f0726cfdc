//! Reports about single resources: failures, drifts and differences.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::meta::Condition;
use ballast_k8s::Time;

/// A reference to a namespaced object.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NamespacedName {
    /// Name of the object.
    pub name: String,
    /// Namespace of the object.
    pub namespace: String,
}

/// A reference to a resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ResourceIdentifier {
    /// API group. Absent: the core group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// API version.
    pub version: String,
    /// Kind.
    pub kind: String,
    /// Name.
    pub name: String,
    /// Namespace, for namespaced resources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Envelope that contains the resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub envelope: Option<EnvelopeIdentifier>,
}

/// A reference to an envelope: an object that contains other objects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct EnvelopeIdentifier {
    /// Name of the object.
    pub name: String,
    /// Namespace of the object, for namespaced envelopes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Kind of the envelope.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    #[schema(default = "ConfigMap")]
    pub type_: Option<EnvelopeType>,
}

/// The kinds of envelopes.
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
    /// Condition that describes the failure.
    pub condition: Condition,
}

/// A resource that was changed on the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DriftedResource {
    #[serde(flatten)]
    pub resource: ResourceIdentifier,
    /// Time at which the drift was last observed.
    pub observation_time: Time,
    /// Time at which the drift was first observed.
    pub first_drifted_observed_time: Time,
    /// Generation of the resource on the cluster.
    pub target_cluster_observed_generation: i64,
    /// Fields that differ.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub observed_drifts: Vec<PatchDetail>,
}

/// A resource that differs from the one on the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DiffedResource {
    #[serde(flatten)]
    pub resource: ResourceIdentifier,
    /// Time at which the difference was last observed.
    pub observation_time: Time,
    /// Time at which the difference was first observed.
    pub first_diffed_observed_time: Time,
    /// Generation of the resource on the cluster. Absent: the cluster does not have the resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_cluster_observed_generation: Option<i64>,
    /// Fields that differ.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub observed_diffs: Vec<PatchDetail>,
}

/// A field that differs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PatchDetail {
    /// JSON pointer to the field.
    pub path: String,
    /// Value on the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_in_member: Option<String>,
    /// Value in the placement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_in_hub: Option<String>,
}
