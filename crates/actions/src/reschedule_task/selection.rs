//! The selection of a RescheduleTask (R11-R16, C6).

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use ballast_api::fleet::placement::v1beta1::any::SCOPES;
use ballast_api::fleet::placement::v1beta1::trigger;
use ballast_api::karmada::policy::v1alpha1::{LoweredSelector, POLICIES, PolicyIds, ResourceSelector};
use ballast_api::karmada::task::v1alpha1::{PolicySelector, RescheduleTaskSpec};
use ballast_api::karmada::work::v1alpha2::{BINDINGS, ObjectReference, PartialBinding};
use ballast_k8s::{GroupResource, Key, Object};
use ballast_watch::View;

/// Returns the bindings and placements that a task selects, in the order of `Selection::after`.
pub fn selected(spec: &RescheduleTaskSpec, view: &View) -> Vec<Key> {
    Selection::new(spec, view).after(view, None).map(|object| object.key.clone()).collect()
}

/// Returns whether each of the tasks selects anything. Each binding is read once for all of them.
pub fn selects_any(specs: &[RescheduleTaskSpec], view: &View) -> Vec<bool> {
    let asks = specs.iter().any(|spec| !spec.target_ref_policy.is_empty());
    let ids = Arc::new(if asks { all_ids(view) } else { PolicyIds::default() });
    let mut open: Vec<_> = specs.iter().map(|spec| Selection::with_ids(spec, Arc::clone(&ids))).enumerate().collect();
    let mut found = vec![false; specs.len()];
    for object in kinds().flat_map(|kind| view.list(kind, None)) {
        if open.is_empty() {
            break;
        }
        let content = object.text.content();
        let candidate = Candidate::new(object, &content);
        open.retain(|(index, selection)| {
            found[*index] = selection.selects(&candidate);
            !found[*index]
        });
    }
    found
}

fn all_ids(view: &View) -> PolicyIds {
    PolicyIds::of(POLICIES.into_iter().flat_map(|kind| view.list(kind, None)))
}

/// The kinds that a task can select, in the order in which they are marked.
pub(super) fn kinds() -> impl Iterator<Item = GroupResource> {
    BINDINGS.into_iter().chain(SCOPES.into_iter().map(|kinds| kinds.placements))
}

/// The selection of a task, indexed to test each binding quickly.
pub(super) struct Selection<'a> {
    policies: PolicyIndex<'a>,
    resources: ResourceIndex,
    /// The policy of each permanent id, for bindings that carry only the id.
    ids: Arc<PolicyIds>,
}

/// An object that may be selected.
struct Candidate<'a> {
    object: &'a Object,
    /// `None` if the object is a placement or cannot be decoded.
    binding: Option<PartialBinding<'a>>,
    workload: Option<ObjectReference>,
}

impl<'a> Candidate<'a> {
    fn new(object: &'a Object, content: &'a [u8]) -> Candidate<'a> {
        let is_binding = BINDINGS.contains(&object.key.resource);
        let binding = is_binding.then(|| PartialBinding::of(content).ok()).flatten();
        let workload = binding.as_ref().and_then(|binding| binding.workload(&object.key));
        Candidate { object, binding, workload }
    }
}

impl<'a> Selection<'a> {
    pub fn new(spec: &'a RescheduleTaskSpec, view: &View) -> Selection<'a> {
        let ids = if spec.target_ref_policy.is_empty() { PolicyIds::default() } else { all_ids(view) };
        Selection::with_ids(spec, Arc::new(ids))
    }

    fn with_ids(spec: &'a RescheduleTaskSpec, ids: Arc<PolicyIds>) -> Selection<'a> {
        Selection {
            policies: PolicyIndex::new(&spec.target_ref_policy),
            resources: ResourceIndex::new(&spec.target_ref_resource),
            ids,
        }
    }

    /// Returns the union of both lists, each binding once (R16), from the objects after a key, in
    /// the order of `kinds` and then of the view. `None` starts at the beginning.
    pub fn after<'v>(&self, view: &'v View, place: Option<&Key>) -> impl Iterator<Item = &'v Arc<Object>> {
        let passed = place.and_then(|place| kinds().position(|kind| kind == place.resource)).unwrap_or_default();
        let objects = kinds().skip(passed).flat_map(move |kind| {
            let within = place.filter(|place| place.resource == kind);
            let from = within.map_or(("", ""), |place| (&*place.namespace, &*place.name));
            view.list_after(kind, None, from)
        });
        objects.filter(|object| {
            let content = object.text.content();
            self.selects(&Candidate::new(object, &content))
        })
    }

    fn selects_placement(&self, object: &Object) -> bool {
        let kinds = SCOPES.into_iter().find(|kinds| kinds.placements == object.key.resource);
        let named = kinds.and_then(|kinds| self.resources.placements.get(kinds.kind));
        named.is_some_and(|entries| entries.selects(&object.key.namespace, &object.key.name, object))
    }

    fn selects(&self, Candidate { object, binding, workload }: &Candidate<'_>) -> bool {
        if !BINDINGS.contains(&object.key.resource) {
            return self.selects_placement(object);
        }
        if self.policies.selects_all {
            return true;
        }
        let Some(binding) = binding else { return false };
        let by_policy = || self.ids.managing(object, binding).iter().any(|policy| self.policies.selects(policy));
        let by_resource = || {
            let Some(resource) = workload else { return false };
            let entries = self.resources.kinds.get(&*resource.kind).and_then(|it| it.get(&*resource.api_version));
            let namespace = resource.namespace.as_deref().unwrap_or_default();
            entries.is_some_and(|entries| entries.selects(namespace, &resource.name, object))
        };
        by_resource() || (!self.policies.is_empty() && by_policy())
    }
}

/// The selected policies. An empty namespace selects cluster-wide policies and policies of every
/// namespace (C6).
#[derive(Default)]
struct PolicyIndex<'a> {
    selects_all: bool,
    /// By namespace and name, of which one may be empty.
    selected: HashSet<(&'a str, &'a str)>,
}

impl<'a> PolicyIndex<'a> {
    fn new(selectors: &'a [PolicySelector]) -> PolicyIndex<'a> {
        let pair = |it: &'a PolicySelector| (text(&it.namespace), text(&it.name));
        let selected: HashSet<_> = selectors.iter().map(pair).collect();
        PolicyIndex { selects_all: selected.contains(&("", "")), selected }
    }

    fn is_empty(&self) -> bool {
        self.selected.is_empty()
    }

    fn selects(&self, policy: &Key) -> bool {
        let (namespace, name) = (&*policy.namespace, &*policy.name);
        [(namespace, name), ("", name), (namespace, "")].iter().any(|pair| self.selected.contains(pair))
    }
}

/// The resource selectors of a task, indexed so that a binding is compared with few of them. The
/// client determines their number.
#[derive(Default)]
struct ResourceIndex {
    /// By kind, then by API version.
    kinds: HashMap<String, HashMap<String, KindEntries>>,
    /// Selectors of placements of the KubeFleet family, by kind.
    placements: HashMap<&'static str, KindEntries>,
}

/// The selectors of one kind. An empty namespace selects cluster-scoped resources and resources of
/// every namespace (C6). An empty name selects all names, or the ones with the labels (R15).
#[derive(Default)]
struct KindEntries {
    named: HashMap<String, HashSet<String>>,
    /// The namespaces in which all objects are selected.
    whole: HashSet<String>,
    /// At most `LABEL_SELECTORS_MAX` (`api`): each is matched with each binding of the kind.
    labelled: Vec<LoweredSelector>,
}

impl ResourceIndex {
    fn new(selectors: &[ResourceSelector]) -> ResourceIndex {
        let mut index = ResourceIndex::default();
        for selector in selectors {
            if let Some(kinds) = trigger::kinds_named(&selector.api_version, &selector.kind) {
                index.placements.entry(kinds.kind).or_default().insert(selector);
            }
            let versions = index.kinds.entry(selector.kind.clone()).or_default();
            versions.entry(selector.api_version.clone()).or_default().insert(selector);
        }
        index
    }
}

impl KindEntries {
    fn insert(&mut self, selector: &ResourceSelector) {
        let namespace = text(&selector.namespace).to_owned();
        match text(&selector.name) {
            "" if selector.label_selector.is_none() => drop(self.whole.insert(namespace)),
            "" => self.labelled.push(selector.clone().lowered()),
            name => drop(self.named.entry(name.to_owned()).or_default().insert(namespace)),
        }
    }

    fn selects(&self, namespace: &str, name: &str, object: &Object) -> bool {
        let has = |namespaces: &HashSet<String>| namespaces.contains("") || namespaces.contains(namespace);
        has(&self.whole)
            || self.named.get(name).is_some_and(has)
            || self.labelled.iter().any(|selector| selector.closeness(namespace, name, &*object.labels).is_some())
    }
}

fn text(text: &Option<String>) -> &str {
    text.as_deref().unwrap_or_default()
}
