//! Selection of the template of a binding by policies (WH8).
//!
//! A namespaced policy selects only templates of its own namespace. The namespace of a template is
//! the namespace of its binding (`PartialBinding::workload`), regardless of the content of the
//! binding.
//!
//! Selectors refer to the labels of the template, which the server does not have. The labels of the
//! binding are used instead, without Karmada's own. If a binding has no other labels, as is usual
//! for bindings that Karmada creates, the labels of its template are unknown. Then no selector by
//! labels claims the template, not even one for absent labels, and no policy loses it.

use std::sync::Arc;

use serde::Deserialize;

use super::manager::PROPAGATION_POLICIES;
use super::resource_selector::{Closeness, LoweredSelector};
use crate::karmada::work::v1alpha2::ObjectReference;
use crate::tree::Object;
use ballast_k8s::{self as k8s, Key};

/// A template, as far as its binding describes it.
pub struct Template<'a> {
    resource: &'a ObjectReference,
    /// Labels, sorted by key. Empty if they are unknown.
    labels: Vec<(&'a str, &'a str)>,
}

/// Parses the selectors of a policy.
pub fn selectors(policy: &Object) -> Vec<LoweredSelector> {
    let selectors = policy.get("spec").map(|spec| Vec::deserialize(&spec["resourceSelectors"]));
    selectors.and_then(Result::ok).unwrap_or_default()
}

/// The fields of a policy that determine which templates it claims. It is small, because one
/// decision may read many policies.
#[derive(Debug, Default, Deserialize)]
pub struct PolicyOutline {
    #[serde(default)]
    spec: OutlineSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct OutlineSpec {
    resource_selectors: Box<[LoweredSelector]>,
    priority: Option<i64>,
    preemption: Option<Box<str>>,
    activation_preference: Option<Box<str>>,
}

impl PolicyOutline {
    /// Reads a stored policy. Returns `None` if it is not a JSON object.
    pub fn read(policy: &k8s::Object) -> Option<Arc<PolicyOutline>> {
        match policy.typed::<PolicyOutline>() {
            Ok(outline) => Some(outline),
            // An older version may have stored a field with another type.
            Err(_) => Some(Arc::new(PolicyOutline::of(&policy.value().ok()?))),
        }
    }

    /// Reads a policy. Fields of another type count as absent.
    pub fn of(policy: &Object) -> PolicyOutline {
        let text = |name: &str| policy.get("spec")?.get(name)?.as_str().map(Box::from);
        let priority = policy.get("spec").and_then(|spec| spec.get("priority")?.as_i64());
        let (preemption, activation_preference) = (text("preemption"), text("activationPreference"));
        let resource_selectors = selectors(policy).into_boxed_slice();
        PolicyOutline { spec: OutlineSpec { resource_selectors, priority, preemption, activation_preference } }
    }

    pub fn selectors(&self) -> &[LoweredSelector] {
        &self.spec.resource_selectors
    }

    pub fn priority(&self) -> i64 {
        self.spec.priority.unwrap_or_default()
    }

    pub fn preempts(&self) -> bool {
        self.spec.preemption.as_deref() == Some("Always")
    }

    /// Returns whether changes of the policy are applied to its bindings.
    pub fn is_active(&self) -> bool {
        self.spec.activation_preference.as_deref() != Some("Lazy")
    }
}

impl<'a> Template<'a> {
    /// Returns the template of a binding. `resource` has the namespace of the binding, and `labels`
    /// are the labels of the binding, sorted by key.
    pub fn new(resource: &'a ObjectReference, labels: impl IntoIterator<Item = (&'a str, &'a str)>) -> Template<'a> {
        let labels = labels.into_iter().filter(|(key, _)| !is_karmada_s(key));
        Template { resource, labels: labels.collect() }
    }

    /// Returns whether the policy with these selectors may select the template. True if that
    /// depends on unknown labels.
    pub fn may_be_selected(&self, policy: &Key, selectors: &[LoweredSelector]) -> bool {
        let says_labels = !self.labels.is_empty();
        self.closeness(policy, selectors).is_some()
            || (!says_labels && self.of_kind(policy, selectors).any(LoweredSelector::asks_for_labels))
    }

    /// Returns the closeness of the best match of the policy, or `None` if it does not select the
    /// template.
    pub fn closeness(&self, policy: &Key, selectors: &[LoweredSelector]) -> Option<Closeness> {
        let ObjectReference { name, namespace, .. } = self.resource;
        let known = |selector: &&LoweredSelector| !selector.asks_for_labels() || !self.labels.is_empty();
        let found = self.of_kind(policy, selectors).filter(known).filter_map(|selector| {
            selector.closeness(namespace.as_deref().unwrap_or_default(), name, self.labels.as_slice())
        });
        found.max()
    }

    /// Returns the policy's selectors for the template's kind. A namespaced policy selects nothing
    /// in other namespaces.
    fn of_kind<'s>(&self, policy: &Key, selectors: &'s [LoweredSelector]) -> impl Iterator<Item = &'s LoweredSelector> {
        let ObjectReference { api_version, kind, namespace, .. } = self.resource;
        let is_of_namespace = policy.resource == PROPAGATION_POLICIES;
        let is_near = !is_of_namespace || *policy.namespace == *namespace.as_deref().unwrap_or_default();
        selectors.iter().filter(move |selector| is_near && selector.is_of_kind(api_version, kind))
    }
}

fn is_karmada_s(label: &str) -> bool {
    let Some((domain, _)) = label.split_once('/') else { return false };
    domain == "karmada.io" || domain.ends_with(".karmada.io")
}
