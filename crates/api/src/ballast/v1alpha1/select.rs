//! Selection of the bindings of a rebalance or a review. A selection is bounded (BD12).

use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use crate::meta::LabelSelector;
use ballast_resource::schema::mark::Atomic;

/// Selects the bindings for which all given fields match. To select every binding in scope, set
/// `all: true`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SelectEntry {
    /// If true, every binding in scope is selected, and no other field may be given. An empty entry
    /// is stored as `all: true`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub all: Option<bool>,
    /// API version of the workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 317)]
    pub api_version: Option<String>,
    /// Kind of the workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 63)]
    pub kind: Option<String>,
    /// Namespace of the workload. A namespaced object selects only in its own namespace, and
    /// accepts no other one here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 63)]
    pub namespace: Option<String>,
    /// Name of the workload.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 253)]
    pub name: Option<String>,
    /// Selects by the labels of the binding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Atomic<LabelSelector>>)]
    pub label_selector: Option<LabelSelector>,
    /// The policy that manages the binding.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_ref: Option<PolicyRef>,
    /// The binding has targets on all of these clusters.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 1000)]
    pub placed_on: Vec<String>,
    /// The binding has no target on any of these clusters.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 1000)]
    pub not_placed_on: Vec<String>,
    /// True: the current placement of the binding violates its rules, or the binding lost targets
    /// to a failure and has not returned to them, or it uses a later affinity group although an
    /// earlier one would accept it. False: none of these. Absent: both are selected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub displaced: Option<bool>,
    /// True: the binding is not displaced, and a Fresh decision over the present view would divide
    /// it differently. False: the opposite. Absent: both are selected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drifted: Option<bool>,
}

impl SelectEntry {
    /// Returns the entry that selects every binding in scope.
    pub fn everything() -> SelectEntry {
        SelectEntry { all: Some(true), ..SelectEntry::default() }
    }

    /// Returns whether the entry has no condition, so that it selects every binding in scope.
    pub fn has_no_condition(&self) -> bool {
        let SelectEntry { all: _, api_version, kind, namespace, name, label_selector, policy_ref, .. } = self;
        let SelectEntry { placed_on, not_placed_on, displaced, drifted, .. } = self;
        let is_void = |text: &Option<String>| text.as_deref().is_none_or(str::is_empty);
        [api_version, kind, namespace, name].into_iter().all(is_void)
            && label_selector.as_ref().is_none_or(|selector| *selector == LabelSelector::default())
            && policy_ref.is_none()
            && placed_on.is_empty()
            && not_placed_on.is_empty()
            && displaced.is_none()
            && drifted.is_none()
    }
}

/// Deserializes the entries of a selection. Objects stored before `all` existed have empty entries.
pub(super) fn entries<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<SelectEntry>, D::Error> {
    let mut entries: Vec<SelectEntry> = crate::lean::list(deserializer)?;
    entries.iter_mut().filter(|entry| **entry == SelectEntry::default()).for_each(|entry| entry.all = Some(true));
    Ok(entries)
}

/// A reference to a policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
pub struct PolicyRef {
    /// `PropagationPolicy` or `ClusterPropagationPolicy`.
    pub kind: String,
    /// Namespace of a PropagationPolicy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 63)]
    pub namespace: Option<String>,
    /// Name of the policy.
    #[schema(min_length = 1, max_length = 253)]
    pub name: String,
}
