//! Finds the updates of bindings for policies that have changed. Pure.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::plan::{self, Policy};
use super::policy_index::{BindingEntry, GroupKey, PolicyIndex};
use ballast_api::karmada::policy::v1alpha1::{
    self as v1alpha1, CLUSTER_PROPAGATION_POLICIES, LoweredSelector, POLICIES, PROPAGATION_POLICIES, PolicyIds,
    Template,
};
use ballast_api::karmada::work::v1alpha2::{BINDINGS, PartialBinding, RESOURCE_BINDINGS};
use ballast_k8s::{GroupResource, Key, Object};
use ballast_registry::{Change, Part};
use ballast_watch::View;

/// The parsed policies of a view that are not being deleted.
pub struct LivePolicies {
    policies: BTreeMap<Key, (plan::Tree, Vec<LoweredSelector>)>,
    ids: PolicyIds,
    /// The permanent ids of those that have one.
    own_ids: BTreeMap<Key, String>,
}

/// The result of a scan of bindings.
#[derive(Default)]
pub struct Updates {
    pub looked_at: usize,
    /// The bindings to write.
    pub stale: Vec<(GroupResource, Change)>,
    /// The evaluated bindings, and whether a live policy selects them.
    pub evaluated: Vec<(Key, BindingEntry, bool)>,
}

impl LivePolicies {
    pub fn of(view: &View) -> LivePolicies {
        let live = || POLICIES.into_iter().flat_map(|kind| view.list(kind, None)).filter(|policy| !policy.deleting);
        let policies = live().filter_map(|policy| {
            let tree = policy.value().ok()?;
            let selectors = v1alpha1::selectors(&tree);
            Some((policy.key.clone(), (tree, selectors)))
        });
        let own_ids = live().filter_map(|policy| Some((policy.key.clone(), PolicyIds::own(policy)?.to_owned())));
        let ids = PolicyIds::without_selectors(live().map(|policy| &**policy));
        LivePolicies { policies: policies.collect(), ids, own_ids: own_ids.collect() }
    }

    /// Whether there is a policy of all namespaces.
    pub fn has_cluster_wide(&self) -> bool {
        self.policies.keys().any(|key| key.resource == CLUSTER_PROPAGATION_POLICIES)
    }

    fn find(&self, key: &Key) -> Option<Policy<'_>> {
        let (key, (tree, selectors)) = self.policies.get_key_value(key)?;
        Some(Policy { key, tree, selectors })
    }

    fn of_place(&self, place: &GroupKey) -> Vec<Policy<'_>> {
        let by_id = place.ids.iter().flat_map(|id| self.ids.find(id));
        place.policies.iter().chain(by_id).filter_map(|key| self.find(key)).collect()
    }
}

/// The bindings that these changes can affect: those of a changed policy's namespace, and those
/// that `index` finds for a policy of all namespaces. A policy of a namespace selects nothing
/// elsewhere, and a binding is in the namespace of its template.
pub fn affected(live: &LivePolicies, changed: &BTreeSet<Key>, index: Option<&mut PolicyIndex>) -> AffectedBindings {
    let of = |kind: GroupResource| changed.iter().filter(move |key| key.resource == kind);
    let mut keys: BTreeSet<Key> = changed.iter().filter(|key| BINDINGS.contains(&key.resource)).cloned().collect();
    if let Some(index) = index {
        for key in of(CLUSTER_PROPAGATION_POLICIES) {
            let id = live.own_ids.get(key).map(String::as_str);
            keys.extend(index.affected(key, live.find(key), id, |place| live.of_place(place)));
        }
    }
    let namespaces: BTreeSet<Arc<str>> = of(PROPAGATION_POLICIES).map(|key| Arc::clone(&key.namespace)).collect();
    keys.retain(|key| !namespaces.contains(&key.namespace));
    AffectedBindings { namespaces, keys }
}

/// The bindings to look at.
pub struct AffectedBindings {
    namespaces: BTreeSet<Arc<str>>,
    /// Those of other namespaces.
    keys: BTreeSet<Key>,
}

impl AffectedBindings {
    #[cfg(test)]
    pub fn all(view: &View) -> AffectedBindings {
        let bindings = BINDINGS.into_iter().flat_map(|kind| view.list(kind, None));
        AffectedBindings { namespaces: BTreeSet::new(), keys: bindings.map(|binding| binding.key.clone()).collect() }
    }

    fn of<'a>(&'a self, view: &'a View) -> impl Iterator<Item = &'a Arc<Object>> {
        let whole = self.namespaces.iter().flat_map(|namespace| view.list(RESOURCE_BINDINGS, Some(namespace)));
        whole.chain(self.keys.iter().filter_map(|key| view.get(key)))
    }
}

/// Finds the bindings that differ from what the changed policies, or the policies before or after
/// them, want. For changed bindings, those without a placement.
pub fn find(view: &View, live: &LivePolicies, changed: &BTreeSet<Key>, affected: &AffectedBindings) -> Updates {
    let mut of_kind: HashMap<(&str, &str), Vec<Policy<'_>>> = HashMap::new();
    for policy in live.policies.keys().filter_map(|key| live.find(key)) {
        let kinds: BTreeSet<_> = policy.selectors.iter().map(|wanted| (wanted.api_version(), wanted.kind())).collect();
        for kind in kinds {
            of_kind.entry(kind).or_default().push(policy);
        }
    }
    let mut updates = Updates::default();
    for binding in affected.of(view).filter(|binding| !binding.deleting) {
        updates.looked_at += 1;
        let content = binding.text.content();
        let Ok(partial) = PartialBinding::of(&content) else { continue };
        let annotations = partial.annotations();
        let named = live.ids.managers(binding, &annotations);
        if named.is_empty() && !PolicyIds::is_released(&annotations) {
            continue;
        }
        let Some(resource) = partial.workload(&binding.key) else { continue };
        let template = Template::new(&resource, binding.labels.iter().map(|(key, value)| (&**key, &**value)));
        let there = named.iter().filter_map(|key| live.find(key)).filter(|policy| policy.may_select(&template));
        let manager = there.max_by_key(Policy::standing);
        if live.has_cluster_wide()
            && let Some(entry) = BindingEntry::of(binding, &partial)
        {
            updates.evaluated.push((binding.key.clone(), entry, manager.is_some()));
        }
        let kind = (resource.api_version.as_str(), resource.kind.as_str());
        let claims = of_kind.get(&kind).map_or(&[][..], Vec::as_slice);
        let renewed = match (plan::successor(manager, claims, &template), manager) {
            (Some(successor), _) => binding.value().ok().and_then(|object| plan::renewed(successor, object)),
            (None, Some(manager)) if partial.spec.placement().is_none() => {
                binding.value().ok().and_then(|object| plan::renewed(manager, object))
            }
            (None, Some(manager)) if changed.contains(manager.key) && plan::is_active(manager.tree) => {
                binding.value().ok().and_then(|object| plan::renewed(manager, object))
            }
            (None, None) => binding.value().ok().and_then(|mut object| {
                PolicyIds::release(named.iter().find(|policy| changed.contains(policy))?, &mut object);
                Some(object)
            }),
            _ => None,
        };
        let update = renewed.map(|object| Change::Update { part: Part::Main, object });
        updates.stale.extend(update.map(|update| (binding.key.resource, update)));
    }
    updates
}
