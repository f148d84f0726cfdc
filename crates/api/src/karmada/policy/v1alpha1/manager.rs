//! Which policy manages a binding, by the labels and annotations that Karmada sets.
//!
//! Current Karmada writes a permanent id as a label, and the policy's name as annotations. Older
//! versions wrote the name as labels. Users write either form. All of them are read.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{ClusterPropagationPolicy, PropagationPolicy};
use crate::tree::{self, Object};
use ballast_k8s::{self as k8s, GroupResource, Key};

pub const PROPAGATION_POLICIES: GroupResource = GroupResource::new("propagationpolicies.policy.karmada.io");
pub const CLUSTER_PROPAGATION_POLICIES: GroupResource =
    GroupResource::new("clusterpropagationpolicies.policy.karmada.io");
pub const POLICIES: [GroupResource; 2] = [PROPAGATION_POLICIES, CLUSTER_PROPAGATION_POLICIES];

const NAMESPACE: &str = "propagationpolicy.karmada.io/namespace";
const NAME: &str = "propagationpolicy.karmada.io/name";
const CLUSTER_NAME: &str = "clusterpropagationpolicy.karmada.io/name";

/// Ballast's own annotation on a binding that has lost its policy. It names that policy. Upstream
/// instead remembers the templates that wait for a new policy, but this server has no templates.
const RELEASED_BY: &str = "ballast.dev/released-by";

/// Policies by their permanent id.
#[derive(Clone, Debug, Default)]
pub struct PolicyIds(BTreeMap<String, Key>);

impl PolicyIds {
    /// Collects the permanent ids of these policies. Policies without an id are left out.
    pub fn of<'a>(policies: impl IntoIterator<Item = &'a k8s::Object>) -> PolicyIds {
        let ids =
            policies.into_iter().filter_map(|policy| Some((PolicyIds::own(policy)?.to_owned(), policy.key.clone())));
        PolicyIds(ids.collect())
    }

    /// The permanent id of a policy.
    pub fn own(policy: &k8s::Object) -> Option<&str> {
        policy.label(id_label(policy.key.resource))
    }

    /// The permanent ids by which a binding names its managers.
    pub fn named_by(binding: &k8s::Object) -> impl Iterator<Item = &str> {
        POLICIES.into_iter().filter_map(|kind| binding.label(id_label(kind)))
    }

    /// The policy with this permanent id.
    pub fn find(&self, id: &str) -> Option<&Key> {
        self.0.get(id)
    }

    /// The policies that a binding names as its managers. There is usually one.
    pub fn managers(&self, binding: &k8s::Object, annotations: &BTreeMap<String, String>) -> Vec<Key> {
        let text = |name: &str| annotations.get(name).map(String::as_str).or(binding.label(name));
        let mut managers = Vec::new();
        if let (Some(namespace), Some(name)) = (text(NAMESPACE), text(NAME)) {
            managers.push(Key::namespaced(PROPAGATION_POLICIES, namespace, name));
        }
        if let Some(name) = text(CLUSTER_NAME) {
            managers.push(Key::cluster(CLUSTER_PROPAGATION_POLICIES, name));
        }
        for policy in PolicyIds::named_by(binding).filter_map(|id| self.find(id)) {
            if !managers.contains(policy) {
                managers.push(policy.clone());
            }
        }
        managers
    }
}

impl PolicyIds {
    /// The policy that a binding names by its name, as current Karmada does.
    pub fn named(binding: &Object) -> Option<Key> {
        let annotations = binding.get("metadata")?.get("annotations")?;
        let text = |name: &str| annotations.get(name).and_then(Value::as_str);
        match (text(NAMESPACE), text(NAME), text(CLUSTER_NAME)) {
            (Some(namespace), Some(name), _) => Some(Key::namespaced(PROPAGATION_POLICIES, namespace, name)),
            (_, _, Some(name)) => Some(Key::cluster(CLUSTER_PROPAGATION_POLICIES, name)),
            _ => None,
        }
    }

    /// Marks a binding as managed by `policy` alone. Removes the annotation `RELEASED_BY`.
    pub fn claim(key: &Key, policy: &Object, binding: &mut Object) {
        PolicyIds::forget(binding);
        let Some(metadata) = tree::object(binding, &["metadata"]) else { return };
        let id = policy.get("metadata").and_then(|metadata| metadata["labels"].get(id_label(key.resource))).cloned();
        if let (Some(id), Some(labels)) = (id, tree::object_or_new(metadata, &["labels"])) {
            labels.insert(id_label(key.resource).to_owned(), id);
        }
        if let Some(annotations) = tree::object_or_new(metadata, &["annotations"]) {
            let mut write = |name: &str, text: &str| drop(annotations.insert(name.to_owned(), Value::from(text)));
            if key.resource == PROPAGATION_POLICIES {
                write(NAMESPACE, &key.namespace);
                write(NAME, &key.name);
            } else {
                write(CLUSTER_NAME, &key.name);
            }
        }
    }

    /// Marks a binding as managed by no policy any more, and sets the annotation `RELEASED_BY` to
    /// `policy`.
    pub fn release(policy: &Key, binding: &mut Object) {
        PolicyIds::forget(binding);
        if let Some(annotations) = tree::object_or_new(binding, &["metadata", "annotations"]) {
            annotations.insert(RELEASED_BY.to_owned(), Value::from(policy.to_string()));
        }
    }

    /// Whether a binding without a manager waits for a new policy.
    pub fn is_released(annotations: &BTreeMap<String, String>) -> bool {
        annotations.contains_key(RELEASED_BY)
    }

    fn forget(binding: &mut Object) {
        let Some(metadata) = tree::object(binding, &["metadata"]) else { return };
        for marks in ["labels", "annotations"] {
            let Some(Value::Object(there)) = metadata.get_mut(marks) else { continue };
            for name in POLICIES.into_iter().map(id_label).chain([NAMESPACE, NAME, CLUSTER_NAME, RELEASED_BY]) {
                there.remove(name);
            }
            if there.is_empty() {
                metadata.remove(marks);
            }
        }
    }
}

fn id_label(policies: GroupResource) -> &'static str {
    if policies == PROPAGATION_POLICIES {
        PropagationPolicy::PERMANENT_ID
    } else {
        ClusterPropagationPolicy::PERMANENT_ID
    }
}
