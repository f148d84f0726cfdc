//! The spec of both override policies: which objects are changed, for which clusters, and how.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::placement::ClusterAffinity;
use super::resource_selector::ResourceSelector;
use crate::lean::Pairs;

/// The objects to change, and the rules for it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct OverrideSpec {
    /// Selects the objects to change. Empty: all objects.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub resource_selectors: Vec<ResourceSelector>,
    /// What is changed on which clusters. The rules apply in this order.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub override_rules: Vec<RuleWithCluster>,
    /// The clusters of `overriders`. Absent: all clusters. Deprecated upstream: use
    /// `overrideRules`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_cluster: Option<ClusterAffinity>,
    /// What is changed. Deprecated upstream: use `overrideRules`.
    #[serde(default, skip_serializing_if = "crate::optional::is_default")]
    pub overriders: Overriders,
}

/// Changes for some clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RuleWithCluster {
    /// The clusters that the rule is for. Absent: all clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_cluster: Option<ClusterAffinity>,
    /// What is changed.
    pub overriders: Overriders,
}

/// Changes of an object, by what they change. They apply in the order: images, commands, arguments,
/// labels, annotations, fields, and plain text last.
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
    /// Changes inside a field that holds JSON or YAML as text.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub field_overrider: Vec<FieldOverrider>,
}

/// One change of any field.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlaintextOverrider {
    /// The field, as a JSON pointer.
    pub path: String,
    /// What is done to the field.
    pub operator: OverriderOperator,
    /// The new value. Without meaning for `remove`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
}

/// What is done to a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum OverriderOperator {
    Add,
    Remove,
    Replace,
}

/// What is done to a command, or to its arguments.
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
    /// The image that is changed. Absent: the images of all containers of a workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicate: Option<ImagePredicate>,
    /// The part of the name that is changed.
    pub component: ImageComponent,
    /// What is done to the part.
    pub operator: OverriderOperator,
    /// The new text. Without meaning for `remove`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
}

/// Finds an image.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ImagePredicate {
    /// The field with the image's name, as a JSON pointer.
    pub path: String,
}

/// A part of an image's name: `registry.k8s.io/pause:3.9` has all three.
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
    /// Whether the words are added at the end, or removed.
    pub operator: CommandArgsOperator,
    /// The words.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub value: Vec<String>,
}

/// One change of labels or annotations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LabelAnnotationOverrider {
    /// What is done. `replace` leaves out the keys that the object does not have.
    pub operator: OverriderOperator,
    /// The keys with their values. For `remove` the keys alone count.
    pub value: Pairs<String>,
}

/// Changes inside one field that holds JSON or YAML as text, as ConfigMaps do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FieldOverrider {
    /// The field, as a JSON pointer.
    pub field_path: String,
    /// Changes of the text as JSON. Not together with `yaml`.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub json: Vec<JsonPatchOperation>,
    /// Changes of the text as YAML. Not together with `json`.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub yaml: Vec<YamlPatchOperation>,
}

/// One change of a text as JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = JSONPatchOperation)]
pub struct JsonPatchOperation {
    /// The place in the text, as a JSON pointer.
    pub sub_path: String,
    /// What is done at the place.
    pub operator: OverriderOperator,
    /// The new value. Without meaning for `remove`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
}

/// One change of a text as YAML.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = YAMLPatchOperation)]
pub struct YamlPatchOperation {
    /// The place in the text, as a JSON pointer.
    pub sub_path: String,
    /// What is done at the place.
    pub operator: OverriderOperator,
    /// The new value. Without meaning for `remove`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
}
