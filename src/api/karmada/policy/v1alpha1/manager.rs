//! Which policy manages a binding, by the labels and annotations that Karmada puts on bindings.
//!
//! Newer Karmada writes a permanent id as label and names as annotations, older wrote names as labels;
//! people write what they find first. All of it is read.

use std::collections::BTreeMap;

use super::{ClusterPropagationPolicy, PropagationPolicy};
use crate::k8s::{GroupResource, Key, Object};

pub const PROPAGATION_POLICIES: GroupResource = GroupResource::new("propagationpolicies.policy.karmada.io");
pub const CLUSTER_PROPAGATION_POLICIES: GroupResource =
    GroupResource::new("clusterpropagationpolicies.policy.karmada.io");
pub const POLICIES: [GroupResource; 2] = [PROPAGATION_POLICIES, CLUSTER_PROPAGATION_POLICIES];

const NAMESPACE: &str = "propagationpolicy.karmada.io/namespace";
const NAME: &str = "propagationpolicy.karmada.io/name";
const CLUSTER_NAME: &str = "clusterpropagationpolicy.karmada.io/name";

/// The policies that a set of permanent ids names.
#[derive(Clone, Debug, Default)]
pub struct PolicyIds(BTreeMap<String, Key>);

impl PolicyIds {
    pub fn of<'a>(policies: impl IntoIterator<Item = &'a Object>) -> PolicyIds {
        let id = |policy: &Object| policy.label(id_label(policy.key.resource)).map(str::to_owned);
        let ids = policies.into_iter().filter_map(|policy| Some((id(policy)?, policy.key.clone())));
        PolicyIds(ids.collect())
    }

    /// The policies that a binding says it is managed by; usually one.
    pub fn managers(&self, binding: &Object, annotations: &BTreeMap<String, String>) -> Vec<Key> {
        let text = |name: &str| annotations.get(name).map(String::as_str).or(binding.label(name));
        let mut managers = Vec::new();
        if let (Some(namespace), Some(name)) = (text(NAMESPACE), text(NAME)) {
            managers.push(Key::namespaced(PROPAGATION_POLICIES, namespace, name));
        }
        if let Some(name) = text(CLUSTER_NAME) {
            managers.push(Key::cluster(CLUSTER_PROPAGATION_POLICIES, name));
        }
        for policy in POLICIES.into_iter().filter_map(|kind| self.0.get(binding.label(id_label(kind))?)) {
            if !managers.contains(policy) {
                managers.push(policy.clone());
            }
        }
        managers
    }
}

fn id_label(policies: GroupResource) -> &'static str {
    if policies == PROPAGATION_POLICIES {
        PropagationPolicy::PERMANENT_ID
    } else {
        ClusterPropagationPolicy::PERMANENT_ID
    }
}
