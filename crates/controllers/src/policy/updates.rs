//! Finds the updates of bindings for policies that have changed. Pure.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, OnceLock};

use super::plan::{self, Policy};
use super::policy_index::{BindingEntry, GroupKey, PolicyIndex};
use ballast_api::karmada::policy::v1alpha1::{
    CLUSTER_PROPAGATION_POLICIES, POLICIES, PROPAGATION_POLICIES, PolicyIds, PolicyOutline, Template,
};
use ballast_api::karmada::work::v1alpha2::{BINDINGS, PartialBinding, RESOURCE_BINDINGS};
use ballast_k8s::{GroupResource, Key, Object};
use ballast_registry::{Change, Part};
use ballast_watch::View;

/// Maximum number of whole policies kept in memory while their bindings are found.
const WHOLE_MAX: usize = 16;

/// The live policies of a view. A policy is parsed when a binding of its namespace needs it.
pub struct LivePolicies {
    policies: BTreeMap<Key, LivePolicy>,
    ids: PolicyIds,
    /// The permanent ids of the policies.
    own_ids: BTreeMap<Key, String>,
}

struct LivePolicy {
    object: Arc<Object>,
    /// `None` if the policy cannot be parsed.
    outline: OnceLock<Option<Arc<PolicyOutline>>>,
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
        let policies = live()
            .map(|policy| (policy.key.clone(), LivePolicy { object: Arc::clone(policy), outline: OnceLock::new() }));
        let own_ids = live().filter_map(|policy| Some((policy.key.clone(), PolicyIds::own(policy)?.to_owned())));
        let ids = PolicyIds::without_selectors(live().map(|policy| &**policy));
        LivePolicies { policies: policies.collect(), ids, own_ids: own_ids.collect() }
    }

    /// Returns whether there is a cluster-wide policy.
    pub fn has_cluster_wide(&self) -> bool {
        self.policies.keys().any(|key| key.resource == CLUSTER_PROPAGATION_POLICIES)
    }

    fn find(&self, key: &Key) -> Option<Policy<'_>> {
        let (key, policy) = self.policies.get_key_value(key)?;
        policy.of(key)
    }

    fn whole(&self, key: &Key) -> Option<plan::Tree> {
        self.policies.get(key)?.object.value().ok()
    }

    /// Returns the policies of a namespace by selected kind. Cluster-wide policies have the
    /// namespace "".
    fn of_namespace(&self, namespace: &str) -> PoliciesByKind<'_> {
        let resource = if namespace.is_empty() { CLUSTER_PROPAGATION_POLICIES } else { PROPAGATION_POLICIES };
        let first = Key::namespaced(resource, namespace, "");
        let there = self.policies.range(first..);
        let there = there.take_while(|(key, _)| key.resource == resource && *key.namespace == *namespace);
        let mut of_kind = PoliciesByKind::new();
        for policy in there.filter_map(|(key, policy)| policy.of(key)) {
            let selectors = policy.outline.selectors().iter();
            let kinds: BTreeSet<_> = selectors.map(|wanted| (wanted.api_version(), wanted.kind())).collect();
            for kind in kinds {
                of_kind.entry(kind).or_default().push(policy);
            }
        }
        of_kind
    }

    fn of_place(&self, place: &GroupKey) -> Vec<Policy<'_>> {
        let by_id = place.ids.iter().flat_map(|id| self.ids.find(id));
        place.policies.iter().chain(by_id).filter_map(|key| self.find(key)).collect()
    }
}

/// Policies by the API version and the kind that they select.
type PoliciesByKind<'a> = HashMap<(&'a str, &'a str), Vec<Policy<'a>>>;

impl LivePolicy {
    fn of<'a>(&'a self, key: &'a Key) -> Option<Policy<'a>> {
        let outline = self.outline.get_or_init(|| PolicyOutline::read(&self.object));
        Some(Policy { key, outline: outline.as_deref()? })
    }
}

/// A cache of whole policies. Many bindings have the same policy.
struct WholePolicies<'a> {
    live: &'a LivePolicies,
    known: HashMap<&'a Key, plan::Tree>,
}

impl<'a> WholePolicies<'a> {
    /// Returns the binding with the fields of the policy, or `None` if nothing changes.
    fn renewed(&mut self, policy: Policy<'a>, binding: &Object) -> Option<plan::Tree> {
        if !self.known.contains_key(policy.key) {
            if self.known.len() == WHOLE_MAX {
                self.known.clear();
            }
            self.known.insert(policy.key, self.live.whole(policy.key)?);
        }
        plan::renewed(policy.key, self.known.get(policy.key)?, binding.value().ok()?)
    }
}

/// Returns the bindings that these changes can affect: all in a changed policy's namespace, and
/// those `index` finds for a cluster-wide policy. A namespaced policy selects nothing elsewhere,
/// and a binding is in the namespace of its template.
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

/// The bindings to evaluate.
pub struct AffectedBindings {
    namespaces: BTreeSet<Arc<str>>,
    /// Bindings in other namespaces.
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

/// Finds the bindings that differ from their policy, as far as the changed policies concern them,
/// and the changed bindings without a placement.
pub fn find(view: &View, live: &LivePolicies, changed: &BTreeSet<Key>, affected: &AffectedBindings) -> Updates {
    let mut namespaces: HashMap<Arc<str>, PoliciesByKind<'_>> = HashMap::new();
    let mut whole = WholePolicies { live, known: HashMap::new() };
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
        let mut claims = Vec::new();
        for namespace in BTreeSet::from(["", resource.namespace.as_deref().unwrap_or_default()]) {
            let of_kind = namespaces.entry(namespace.into()).or_insert_with_key(|name| live.of_namespace(name));
            claims.extend_from_slice(of_kind.get(&kind).map_or(&[][..], Vec::as_slice));
        }
        let renewed = match (plan::successor(manager, &claims, &template), manager) {
            (Some(successor), _) => whole.renewed(successor, binding),
            (None, Some(manager)) if partial.spec.placement().is_none() => whole.renewed(manager, binding),
            (None, Some(manager)) if changed.contains(manager.key) && manager.outline.is_active() => {
                whole.renewed(manager, binding)
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
