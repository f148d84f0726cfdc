//! The spec of both override policies: the objects to change, and the changes for each cluster.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::placement::ClusterAffinity;
use super::resource_selector::ResourceSelector;
use crate::lean::Pairs;

/// The objects to change, and the changes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct OverrideSpec {
    /// Selects the objects to change. Empty: all objects.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub resource_selectors: Vec<ResourceSelector>,
    /// Changes for certain clusters. The rules apply in this order.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub override_rules: Vec<RuleWithCluster>,
    /// Clusters that `overriders` applies to. Absent: all clusters. Deprecated upstream: use
    /// `overrideRules`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_cluster: Option<ClusterAffinity>,
    /// Changes of the objects. Deprecated upstream: use `overrideRules`.
    #[serde(default, skip_serializing_if = "crate::optional::is_default")]
    pub overriders: Overriders,
}

/// Changes for certain clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RuleWithCluster {
    /// Clusters that the rule applies to. Absent: all clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_cluster: Option<ClusterAffinity>,
    /// Changes of the objects.
    pub overriders: Overriders,
}

/// Changes of an object, by type. They apply in this order: images, commands, arguments, labels,
/// annotations, fields, and plain text last.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Overriders {
    /// Changes of any field, each by its path.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub plaintext: Vec<PlaintextOverrider>,
    /// Changes of the names of images.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub image_overrider: Vec<ImageOverrider>,
    /// Changes of the commands of containers.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub command_overrider: Vec<CommandArgsOverrider>,
    /// Changes of the arguments of containers.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub args_overrider: Vec<CommandArgsOverrider>,
    /// Changes of the object's labels.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub labels_overrider: Vec<LabelAnnotationOverrider>,
    /// Changes of the object's annotations.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub annotations_overrider: Vec<LabelAnnotationOverrider>,
    /// Changes inside a field that contains JSON or YAML as text.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub field_overrider: Vec<FieldOverrider>,
}

/// One change of any field.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlaintextOverrider {
    /// Path of the field, as a JSON pointer.
    pub path: String,
    /// Operation on the field.
    pub operator: OverriderOperator,
    /// New value. Ignored for `remove`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
}

/// An operation on a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum OverriderOperator {
    Add,
    Remove,
    Replace,
}

/// An operation on a command, or on its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum CommandArgsOperator {
    Add,
    Remove,
}

/// One change of the names of images.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImageOverrider {
    /// Image to change. Absent: the images of all containers of a workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicate: Option<ImagePredicate>,
    /// Part of the name to change.
    pub component: ImageComponent,
    /// Operation on the part.
    pub operator: OverriderOperator,
    /// New text. Ignored for `remove`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
}

/// Selects an image.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ImagePredicate {
    /// Path of the field that contains the image's name, as a JSON pointer.
    pub path: String,
}

/// A part of an image's name. `registry.k8s.io/pause:3.9` has all three.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum ImageComponent {
    /// The host, with its port.
    Registry,
    /// The path.
    Repository,
    /// The tag, or the digest.
    Tag,
}

/// One change of the command of a container, or of its arguments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CommandArgsOverrider {
    /// Name of the container.
    pub container_name: String,
    /// Whether the words are appended or removed.
    pub operator: CommandArgsOperator,
    /// Words to append or remove.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub value: Vec<String>,
}

/// One change of labels or annotations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LabelAnnotationOverrider {
    /// Operation on the labels or annotations. `replace` skips keys that the object does not have.
    pub operator: OverriderOperator,
    /// Keys with their values. `remove` uses only the keys.
    pub value: Pairs<String>,
}

/// Changes inside one field that contains JSON or YAML as text, as in a ConfigMap.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FieldOverrider {
    /// Path of the field, as a JSON pointer.
    pub field_path: String,
    /// Changes of the text as JSON. Must not be combined with `yaml`.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub json: Vec<JsonPatchOperation>,
    /// Changes of the text as YAML. Must not be combined with `json`.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub yaml: Vec<YamlPatchOperation>,
}

/// One change of a text as JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = JSONPatchOperation)]
pub struct JsonPatchOperation {
    /// Path of the value in the text, as a JSON pointer.
    pub sub_path: String,
    /// Operation on the value.
    pub operator: OverriderOperator,
    /// New value. Ignored for `remove`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
}

/// One change of a text as YAML.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = YAMLPatchOperation)]
pub struct YamlPatchOperation {
    /// Path of the value in the text, as a JSON pointer.
    pub sub_path: String,
    /// Operation on the value.
    pub operator: OverriderOperator,
    /// New value. Ignored for `remove`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
}
