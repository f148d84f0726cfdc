//! What a RescheduleTask selects (R11-R16, C6).

use std::sync::Arc;

use ballast_api::fleet::placement::v1beta1::any::SCOPES;
use ballast_api::fleet::placement::v1beta1::trigger;
use ballast_api::karmada::policy::v1alpha1::{LoweredSelector, POLICIES, PolicyIds, ResourceSelector};
use ballast_api::karmada::task::v1alpha1::{PolicySelector, RescheduleTaskSpec};
use ballast_api::karmada::work::v1alpha2::{BINDINGS, ObjectReference, PartialBinding};
use ballast_k8s::{GroupResource, Key, Object};
use ballast_watch::View;

/// The bindings and placements that a task selects, in the order of `Selection::after`.
pub fn selected(spec: RescheduleTaskSpec, view: &View) -> Vec<Key> {
    Selection::new(&spec, view).after(view, None).map(|object| object.key.clone()).collect()
}

/// The kinds that a task can select, in the order in which they are marked.
pub(super) fn kinds() -> impl Iterator<Item = GroupResource> {
    BINDINGS.into_iter().chain(SCOPES.into_iter().map(|kinds| kinds.placements))
}

/// What a task selects, prepared for a look at each binding.
pub(super) struct Selection<'a> {
    policies: &'a [PolicySelector],
    resources: Vec<LoweredSelector>,
    /// The policy of each permanent id, for bindings that carry only the id.
    ids: PolicyIds,
}

impl<'a> Selection<'a> {
    pub fn new(spec: &'a RescheduleTaskSpec, view: &View) -> Selection<'a> {
        let ids = match spec.target_ref_policy.as_slice() {
            [] => PolicyIds::default(),
            _ => PolicyIds::of(POLICIES.into_iter().flat_map(|kind| view.list(kind, None)).map(|policy| &**policy)),
        };
        let resources = spec.target_ref_resource.iter().cloned().map(ResourceSelector::lowered).collect();
        Selection { policies: &spec.target_ref_policy, resources, ids }
    }

    /// The union of both lists, each binding once (R16): what comes after a key, in the order of
    /// `kinds` and then of the view. `None`: all of it.
    pub fn after<'v>(&self, view: &'v View, place: Option<&Key>) -> impl Iterator<Item = &'v Arc<Object>> {
        let passed = place.and_then(|place| kinds().position(|kind| kind == place.resource)).unwrap_or_default();
        let objects = kinds().skip(passed).flat_map(move |kind| {
            let within = place.filter(|place| place.resource == kind);
            let from = within.map_or(("", ""), |place| (&*place.namespace, &*place.name));
            view.list_after(kind, None, from)
        });
        objects.filter(|object| match BINDINGS.contains(&object.key.resource) {
            true => self.selects(object),
            false => self.selects_placement(object),
        })
    }

    fn selects_placement(&self, object: &Object) -> bool {
        self.resources.iter().any(|selector| {
            let kinds = trigger::kinds_named(selector.api_version(), selector.kind());
            kinds.is_some_and(|kinds| kinds.placements == object.key.resource)
                && selector.closeness(&object.key.namespace, &object.key.name, &*object.labels).is_some()
        })
    }

    fn selects(&self, object: &Object) -> bool {
        if self.policies.iter().any(|selector| is_empty(&selector.namespace) && is_empty(&selector.name)) {
            return true;
        }
        let content = object.text.content();
        let Ok(binding) = PartialBinding::of(&content) else { return false };
        let by_policy = || {
            let managers = self.ids.managing(object, &binding);
            managers.iter().any(|policy| self.policies.iter().any(|selector| selects_policy(selector, policy)))
        };
        let by_resource = || {
            let Some(resource) = binding.workload(&object.key) else { return false };
            self.resources.iter().any(|selector| selects_resource(selector, &resource, object))
        };
        (!self.resources.is_empty() && by_resource()) || (!self.policies.is_empty() && by_policy())
    }
}

/// An empty namespace selects cluster-wide policies and those of every namespace (C6).
fn selects_policy(selector: &PolicySelector, policy: &Key) -> bool {
    let fits = |wanted: &Option<String>, is: &str| is_empty(wanted) || wanted.as_deref() == Some(is);
    fits(&selector.namespace, &policy.namespace) && fits(&selector.name, &policy.name)
}

/// An empty namespace selects cluster-scoped resources and those of every namespace (C6). An empty
/// name selects all names, or those with the labels (R15).
fn selects_resource(selector: &LoweredSelector, resource: &ObjectReference, object: &Object) -> bool {
    let namespace = resource.namespace.as_deref().unwrap_or_default();
    selector.is_of_kind(&resource.api_version, &resource.kind)
        && selector.closeness(namespace, &resource.name, &*object.labels).is_some()
}

fn is_empty(text: &Option<String>) -> bool {
    text.as_deref().unwrap_or_default().is_empty()
}
