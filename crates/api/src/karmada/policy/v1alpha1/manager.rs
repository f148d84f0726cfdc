//! The policy that manages a binding, found by the labels and annotations that Karmada sets.
//!
//! Current Karmada writes a permanent id as a label, and the policy's name as annotations. Older
//! versions wrote the name as labels. Users write either form. All of them are read.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::template::{PolicyOutline, Template};
use super::{ClusterPropagationPolicy, PropagationPolicy};
use crate::karmada::work::v1alpha2::PartialBinding;
use crate::meta::ObjectMeta;
use crate::tree::{self, Object};
use ballast_k8s::{self as k8s, GroupResource, Key};

pub const PROPAGATION_POLICIES: GroupResource = GroupResource::new("propagationpolicies.policy.karmada.io");
pub const CLUSTER_PROPAGATION_POLICIES: GroupResource =
    GroupResource::new("clusterpropagationpolicies.policy.karmada.io");
pub const POLICIES: [GroupResource; 2] = [PROPAGATION_POLICIES, CLUSTER_PROPAGATION_POLICIES];

const NAMESPACE: &str = "propagationpolicy.karmada.io/namespace";
const NAME: &str = "propagationpolicy.karmada.io/name";
const CLUSTER_NAME: &str = "clusterpropagationpolicy.karmada.io/name";

/// Ballast's own annotation on a binding that has lost its policy. Its value is the key of that
/// policy. Upstream instead remembers the templates that wait for a new policy, but this server has
/// no templates.
const RELEASED_BY: &str = "ballast.dev/released-by";

/// Returns whether a binding references a managing policy, in any of the supported forms.
pub(crate) fn is_named_by(metadata: &ObjectMeta) -> bool {
    let has = |key: &str| metadata.labels.contains_key(key) || metadata.annotations.contains_key(key);
    POLICIES.into_iter().map(id_label).chain([NAME, CLUSTER_NAME]).any(has)
}

/// An index of policies by their permanent id, with their selectors.
#[derive(Clone, Debug, Default)]
pub struct PolicyIds {
    /// Policies by id. Ids are unique, except for ids that an older version has stored.
    by_id: BTreeMap<String, Vec<Key>>,
    /// Policies with known selectors. An object is parsed when a binding references its policy.
    policies: BTreeMap<Key, Arc<k8s::Object>>,
}

impl PolicyIds {
    /// Indexes policies by their permanent ids, with their selectors.
    pub fn of<'a>(policies: impl IntoIterator<Item = &'a Arc<k8s::Object>>) -> PolicyIds {
        let mut known = PolicyIds::default();
        for policy in policies {
            known.policies.insert(policy.key.clone(), Arc::clone(policy));
            known.add_id(policy);
        }
        known
    }

    /// Indexes policies by their permanent ids only, for callers that evaluate the selectors
    /// themselves.
    pub fn without_selectors<'a>(policies: impl IntoIterator<Item = &'a k8s::Object>) -> PolicyIds {
        let mut known = PolicyIds::default();
        policies.into_iter().for_each(|policy| known.add_id(policy));
        known
    }

    fn add_id(&mut self, policy: &k8s::Object) {
        if let Some(id) = PolicyIds::own(policy) {
            self.by_id.entry(id.to_owned()).or_default().push(policy.key.clone());
        }
    }

    /// Returns the permanent id of a policy.
    pub fn own(policy: &k8s::Object) -> Option<&str> {
        policy.label(id_label(policy.key.resource))
    }

    /// Returns the permanent ids with which a binding references its managers.
    pub fn named_by(binding: &k8s::Object) -> impl Iterator<Item = &str> {
        POLICIES.into_iter().filter_map(|kind| binding.label(id_label(kind)))
    }

    /// Returns the policies with this permanent id. There is usually one.
    pub fn find(&self, id: &str) -> impl Iterator<Item = &Key> {
        self.by_id.get(id).into_iter().flatten()
    }

    /// Returns the policies that a binding references as its managers. There is usually one. A
    /// policy of another namespace does not manage the binding, even if the binding references it
    /// (WH8).
    pub fn managers(&self, binding: &k8s::Object, annotations: &BTreeMap<String, String>) -> Vec<Key> {
        let text = |name: &str| annotations.get(name).map(String::as_str).or(binding.label(name));
        let mut managers = Vec::new();
        if let (Some(namespace), Some(name)) = (text(NAMESPACE), text(NAME))
            && *namespace == *binding.key.namespace
        {
            managers.push(Key::namespaced(PROPAGATION_POLICIES, namespace, name));
        }
        if let Some(name) = text(CLUSTER_NAME) {
            managers.push(Key::cluster(CLUSTER_PROPAGATION_POLICIES, name));
        }
        let is_near = |policy: &&Key| policy.namespace.is_empty() || policy.namespace == binding.key.namespace;
        for policy in PolicyIds::named_by(binding).flat_map(|id| self.find(id)).filter(is_near) {
            if !managers.contains(policy) {
                managers.push(policy.clone());
            }
        }
        managers
    }

    /// Returns the policies that manage a binding: the binding references them, and they select its
    /// template. A referenced policy that is not in the index may be on another server, and is
    /// included.
    pub fn managing(&self, binding: &k8s::Object, partial: &PartialBinding<'_>) -> Vec<Key> {
        let mut named = self.managers(binding, &partial.annotations());
        if named.is_empty() {
            return named;
        }
        let Some(resource) = partial.workload(&binding.key) else { return Vec::new() };
        let template = Template::new(&resource, binding.labels.iter().map(|(key, value)| (&**key, &**value)));
        named.retain(|policy| {
            let outline = |object: &Arc<k8s::Object>| PolicyOutline::read(object).unwrap_or_default();
            let known = self.policies.get(policy).map(outline);
            known.is_none_or(|outline| template.may_be_selected(policy, outline.selectors()))
        });
        named
    }
}

impl PolicyIds {
    /// Returns the policies that a binding references by name, as current Karmada does. The first
    /// one that selects its template manages it.
    pub fn named(binding: &Object) -> impl Iterator<Item = Key> {
        let annotations = binding.get("metadata").and_then(|metadata| metadata.get("annotations"));
        let text = |name: &str| annotations?.get(name).and_then(Value::as_str);
        let own = text(NAMESPACE).zip(text(NAME));
        let own = own.map(|(namespace, name)| Key::namespaced(PROPAGATION_POLICIES, namespace, name));
        let wide = text(CLUSTER_NAME).map(|name| Key::cluster(CLUSTER_PROPAGATION_POLICIES, name));
        own.into_iter().chain(wide)
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

    /// Marks a binding as no longer managed by any policy, and sets the annotation `RELEASED_BY` to
    /// `policy`.
    pub fn release(policy: &Key, binding: &mut Object) {
        PolicyIds::forget(binding);
        if let Some(annotations) = tree::object_or_new(binding, &["metadata", "annotations"]) {
            annotations.insert(RELEASED_BY.to_owned(), Value::from(policy.to_string()));
        }
    }

    /// Returns whether a binding without a manager waits for a new policy.
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
