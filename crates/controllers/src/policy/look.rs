//! A look at bindings for policies that have changed. Pure.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::managed::{Card, Managed, Place};
use super::plan::{self, Policy, Template};
use ballast_api::karmada::policy::v1alpha1::{
    CLUSTER_PROPAGATION_POLICIES, LoweredSelector, POLICIES, PROPAGATION_POLICIES, PolicyIds,
};
use ballast_api::karmada::work::v1alpha2::{BINDINGS, BindingSketch, RESOURCE_BINDINGS};
use ballast_k8s::{GroupResource, Key, Object};
use ballast_registry::{Change, Part};
use ballast_watch::View;

/// The living policies of a view, read.
pub struct Living {
    policies: BTreeMap<Key, (plan::Tree, Vec<LoweredSelector>)>,
    ids: PolicyIds,
    /// The permanent ids of those that have one.
    own_ids: BTreeMap<Key, String>,
}

/// What a look at some bindings has said.
#[derive(Default)]
pub struct Seen {
    pub looked_at: usize,
    /// The bindings to write.
    pub stale: Vec<(GroupResource, Change)>,
    /// Whether a living policy selects the binding.
    pub judged: Vec<(Key, Card, bool)>,
}

impl Living {
    pub fn of(view: &View) -> Living {
        let living = || POLICIES.into_iter().flat_map(|kind| view.list(kind, None)).filter(|policy| !policy.deleting);
        let policies = living().filter_map(|policy| {
            let tree = policy.value().ok()?;
            let selectors = plan::selectors(&tree);
            Some((policy.key.clone(), (tree, selectors)))
        });
        let own_ids = living().filter_map(|policy| Some((policy.key.clone(), PolicyIds::own(policy)?.to_owned())));
        let ids = PolicyIds::of(living().map(|policy| &**policy));
        Living { policies: policies.collect(), ids, own_ids: own_ids.collect() }
    }

    /// Whether there is a policy of all namespaces.
    pub fn has_cluster_wide(&self) -> bool {
        self.policies.keys().any(|key| key.resource == CLUSTER_PROPAGATION_POLICIES)
    }

    fn find(&self, key: &Key) -> Option<Policy<'_>> {
        let (key, (tree, selectors)) = self.policies.get_key_value(key)?;
        Some(Policy { key, tree, selectors })
    }

    fn of_place(&self, place: &Place) -> Vec<Policy<'_>> {
        let by_id = place.ids.iter().filter_map(|id| self.ids.find(id));
        place.policies.iter().chain(by_id).filter_map(|key| self.find(key)).collect()
    }
}

/// The bindings that these changes can affect: those of a changed policy's namespace, and those
/// that `managed` finds for a policy of all namespaces. A policy of a namespace selects nothing
/// elsewhere, and a binding is in the namespace of its template.
pub fn concerned(living: &Living, changed: &BTreeSet<Key>, managed: Option<&mut Managed>) -> Concerned {
    let of = |kind: GroupResource| changed.iter().filter(move |key| key.resource == kind);
    let mut keys: BTreeSet<Key> = changed.iter().filter(|key| BINDINGS.contains(&key.resource)).cloned().collect();
    if let Some(managed) = managed {
        for key in of(CLUSTER_PROPAGATION_POLICIES) {
            let id = living.own_ids.get(key).map(String::as_str);
            keys.extend(managed.concerned(key, living.find(key), id, |place| living.of_place(place)));
        }
    }
    let namespaces: BTreeSet<Arc<str>> = of(PROPAGATION_POLICIES).map(|key| Arc::clone(&key.namespace)).collect();
    keys.retain(|key| !namespaces.contains(&key.namespace));
    Concerned { namespaces, keys }
}

/// The bindings to look at.
pub struct Concerned {
    namespaces: BTreeSet<Arc<str>>,
    /// Those of other namespaces.
    keys: BTreeSet<Key>,
}

impl Concerned {
    #[cfg(test)]
    pub fn all(view: &View) -> Concerned {
        let bindings = BINDINGS.into_iter().flat_map(|kind| view.list(kind, None));
        Concerned { namespaces: BTreeSet::new(), keys: bindings.map(|binding| binding.key.clone()).collect() }
    }

    fn of<'a>(&'a self, view: &'a View) -> impl Iterator<Item = &'a Arc<Object>> {
        let whole = self.namespaces.iter().flat_map(|namespace| view.list(RESOURCE_BINDINGS, Some(namespace)));
        whole.chain(self.keys.iter().filter_map(|key| view.get(key)))
    }
}

/// Finds the bindings that differ from what the changed policies, or the policies before or after
/// them, want. For changed bindings, those without a placement.
pub fn look(view: &View, living: &Living, changed: &BTreeSet<Key>, concerned: &Concerned) -> Seen {
    let mut of_kind: HashMap<(&str, &str), Vec<Policy<'_>>> = HashMap::new();
    for policy in living.policies.keys().filter_map(|key| living.find(key)) {
        let kinds: BTreeSet<_> = policy.selectors.iter().map(|wanted| (wanted.api_version(), wanted.kind())).collect();
        for kind in kinds {
            of_kind.entry(kind).or_default().push(policy);
        }
    }
    let mut seen = Seen::default();
    for binding in concerned.of(view).filter(|binding| !binding.deleting) {
        seen.looked_at += 1;
        let content = binding.text.content();
        let Ok(sketch) = BindingSketch::of(&content) else { continue };
        let annotations = sketch.annotations();
        let named = living.ids.managers(binding, &annotations);
        if named.is_empty() && !PolicyIds::is_released(&annotations) {
            continue;
        }
        let Some(resource) = sketch.spec.resource() else { continue };
        let template = Template::new(&resource, binding.labels.iter().map(|(key, value)| (&**key, &**value)));
        let there = named.iter().filter_map(|key| living.find(key)).filter(|policy| policy.may_select(&template));
        let manager = there.max_by_key(Policy::standing);
        if living.has_cluster_wide()
            && let Some(card) = Card::of(binding, &sketch)
        {
            seen.judged.push((binding.key.clone(), card, manager.is_some()));
        }
        let kind = (resource.api_version.as_str(), resource.kind.as_str());
        let claims = of_kind.get(&kind).map_or(&[][..], Vec::as_slice);
        let renewed = match (plan::successor(manager, claims, &template), manager) {
            (Some(successor), _) => binding.value().ok().and_then(|object| plan::renewed(successor, object)),
            (None, Some(manager)) if sketch.spec.placement().is_none() => {
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
        seen.stale.extend(update.map(|update| (binding.key.resource, update)));
    }
    seen
}
