//! Warnings about unknown names in a selection: namespaces, kinds, names, policies, clusters, and
//! the rebalance that an undo names. Each contains the nearest known name.
//!
//! Such a selection is not refused, because the workloads may be created later. Names of a
//! namespaced object are compared only with those of its own namespace, so that no hint reveals
//! names that its author may not see. Pure.

use std::cell::{Cell, LazyCell};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use super::nameable::Nameable;
use super::unknown_names::{Known, shortened};
use ballast_api::ballast::v1alpha1::{PolicyRef, SelectEntry, Undo};
use ballast_api::fleet::placement::v1beta1::any::{PlacementKinds, SCOPES};
use ballast_api::karmada::policy::v1alpha1::{CLUSTER_PROPAGATION_POLICIES, PROPAGATION_POLICIES};
use ballast_api::karmada::work::v1alpha2::{BINDINGS, ObjectReference, PartialBinding, key_of_workload};
use ballast_k8s::suggestion::{Hints, with_suggestion};
use ballast_k8s::{Key, Object};
use ballast_watch::View;

/// The kinds that are usually propagated. Selecting one that has no binding yet is no typing error.
const USUAL_KINDS: [&str; 13] = [
    "ConfigMap",
    "CronJob",
    "DaemonSet",
    "Deployment",
    "Ingress",
    "Job",
    "PersistentVolumeClaim",
    "Pod",
    "ReplicaSet",
    "Secret",
    "Service",
    "ServiceAccount",
    "StatefulSet",
];
/// Maximum number of names that an unknown name is compared with.
const NAMES_COMPARED_MAX: usize = 10_000;
/// Maximum number of unknown workloads for which near names are collected. Each requires a check of
/// each binding.
const HINTED_MAX: usize = 20;

/// A selection with names to check.
#[derive(Clone, Copy, Debug)]
pub struct NamedSelection<'a> {
    /// The field path of the specification: `spec`.
    pub at: &'a str,
    pub select: &'a [SelectEntry],
    pub exclude: &'a [SelectEntry],
    /// The namespace of a namespaced object.
    pub scope: Option<&'a str>,
    /// Whether clusters are checked, too. A review refuses unknown ones.
    pub with_clusters: bool,
    /// The kinds of which hints may contain names.
    pub nameable: &'a Nameable,
}

impl NamedSelection<'_> {
    /// Returns whether bindings have to be read to check the names.
    pub fn needs_walk(&self, view: &View) -> bool {
        self.entries().any(|(_, _, entry)| self.question(view, String::new(), entry).is_some())
    }

    /// Returns a sentence for each unknown name, with its field path.
    pub fn unknown(&self, view: &View) -> Vec<String> {
        let mut warnings = Vec::new();
        let mut hints = Hints::default();
        if let Some(scope) = self.scope.filter(|scope| !has_workloads(view, scope)) {
            // Before the first binding, no namespace is a mistake.
            if view.list(BINDINGS[0], None).next().is_some() {
                warnings.push(format!("metadata.namespace: no binding is in namespace {scope:?}"));
            }
            return warnings;
        }
        let names_clusters = |entry: &SelectEntry| !entry.placed_on.is_empty() || !entry.not_placed_on.is_empty();
        let is_named = self.with_clusters && self.entries().any(|(_, _, entry)| names_clusters(entry));
        let known = is_named.then(|| Known::of(view, self.nameable));
        // Reading them walks all bindings, once for all entries.
        let all_namespaces = LazyCell::new(|| namespaces(view));
        let mut questions = Vec::new();
        for (list, index, entry) in self.entries() {
            let path = format!("{}.{list}[{index}]", self.at);
            for (field, names) in [("placedOn", &entry.placed_on), ("notPlacedOn", &entry.not_placed_on)] {
                for (at, name) in names.iter().enumerate() {
                    let unknown = known.as_ref().and_then(|known| {
                        known.cluster(&format!("{path}.{field}[{at}]"), name, self.scope.is_none(), &mut hints)
                    });
                    warnings.extend(unknown);
                }
            }
            let namespace = entry.namespace.as_deref().filter(|namespace| !has_workloads(view, namespace));
            if let Some(namespace) = namespace {
                let what = format!("{path}.namespace: no binding is in namespace {namespace:?}");
                warnings.push(match self.scope.is_none() && self.nameable.has(BINDINGS[0]) {
                    true => hints.with_suggestion(what, namespace, all_namespaces.iter().copied()),
                    false => what,
                });
                continue;
            }
            warnings.extend(entry.policy_ref.as_ref().and_then(|it| self.policy(view, &path, it, &mut hints)));
            questions.extend(self.question(view, path, entry));
        }
        if !questions.is_empty() {
            retain_unmet(view, &mut questions);
            let count = questions.len().min(HINTED_MAX);
            let (hinted, others) = questions.split_at_mut(count);
            find_near(view, hinted);
            warnings.extend(hinted.iter().chain(&*others).map(|it| it.warning(self.nameable, &mut hints)));
        }
        shortened(warnings, "names")
    }

    fn entries(&self) -> impl Iterator<Item = (&'static str, usize, &SelectEntry)> {
        let of = |list: &'static str, entries| {
            let numbered: std::iter::Enumerate<std::slice::Iter<'_, SelectEntry>> = entries;
            numbered.map(move |(index, entry)| (list, index, entry))
        };
        of("select", self.select.iter().enumerate()).chain(of("exclude", self.exclude.iter().enumerate()))
    }

    fn policy(&self, view: &View, path: &str, policy: &PolicyRef, hints: &mut Hints) -> Option<String> {
        let PolicyRef { kind, namespace, name } = policy;
        let (resource, namespace) = match &**kind {
            "PropagationPolicy" => (PROPAGATION_POLICIES, namespace.as_deref().or(self.scope).unwrap_or_default()),
            _ => (CLUSTER_PROPAGATION_POLICIES, ""),
        };
        let key = Key::namespaced(resource, namespace, &**name);
        if view.get(&key).is_some() {
            return None;
        }
        let shown = if namespace.is_empty() { name.clone() } else { format!("{namespace}/{name}") };
        let what = format!("{path}.policyRef.name: there is no {kind} {shown:?}");
        if self.scope.is_some_and(|scope| scope != namespace) || !self.nameable.has(resource) {
            return Some(what);
        }
        let near = view.list(resource, (!namespace.is_empty()).then_some(namespace)).take(NAMES_COMPARED_MAX);
        Some(hints.with_suggestion(what, name, near.map(|object| &*object.key.name)))
    }

    /// Returns the query for bindings that an entry requires. `None`: the key of a binding shows
    /// that there is one, or the entry names no workload.
    fn question<'e>(&'e self, view: &View, path: String, entry: &'e SelectEntry) -> Option<Question<'e>> {
        let SelectEntry { api_version, kind, name, namespace, .. } = entry;
        let namespace = namespace.as_deref().or(self.scope);
        let question = Question { path, entry, namespace, has_kind: false, near: BTreeSet::new() };
        match (kind.as_deref(), name.as_deref()) {
            (None, None) => api_version.is_some().then_some(question),
            (Some(kind), None) if is_usual(kind) && api_version.is_none() => None,
            (Some(kind), None) if placement_kinds(kind).is_some() => None,
            (Some(kind), Some(name)) => {
                let is_known = match (placement_kinds(kind), namespace) {
                    (Some(kinds), _) => {
                        view.list(kinds.placements, namespace).any(|placement| *placement.key.name == *name)
                    }
                    (None, Some(namespace)) => {
                        let object = view.get(&key_of_workload(kind, namespace, name));
                        object.is_some_and(|object| workload(object).is_some_and(|it| question.names(&it)))
                    }
                    (None, None) => false,
                };
                (!is_known).then_some(question)
            }
            _ => Some(question),
        }
    }
}

/// Returns a warning about an undo of a rebalance that does not exist. `own` is the key of the
/// undo.
pub fn unknown_undo(view: &View, own: &Key, undo: &Undo, at: &str, nameable: &Nameable) -> Option<String> {
    let undone = Key { name: undo.name.as_str().into(), ..own.clone() };
    if view.get(&undone).is_some() {
        return None;
    }
    let what = format!("{at}.undo.name: no rebalance is named {:?}", undo.name);
    if !nameable.has(own.resource) {
        return Some(what);
    }
    let namespace = (!own.namespace.is_empty()).then_some(&*own.namespace);
    let known = view.list(own.resource, namespace).take(NAMES_COMPARED_MAX).map(|object| &*object.key.name);
    Some(with_suggestion(what, &undo.name, known.filter(|name| *name != &*own.name)))
}

/// An entry for which bindings are read.
struct Question<'e> {
    path: String,
    entry: &'e SelectEntry,
    namespace: Option<&'e str>,
    /// Whether there is a workload of the kind.
    has_kind: bool,
    /// Candidates for a hint: kinds, or workloads of the kind.
    near: BTreeSet<String>,
}

impl Question<'_> {
    fn names(&self, workload: &ObjectReference) -> bool {
        let SelectEntry { api_version, kind, name, .. } = self.entry;
        let is = |wanted: &Option<String>, is: &str| wanted.as_deref().is_none_or(|wanted| wanted == is);
        self.is_in_scope(workload)
            && is(kind, &workload.kind)
            && is(name, &workload.name)
            && is(api_version, &workload.api_version)
    }

    fn is_in_scope(&self, workload: &ObjectReference) -> bool {
        self.namespace.is_none_or(|namespace| workload.namespace.as_deref() == Some(namespace))
    }

    /// Returns the pattern of the workloads that the entry names.
    fn pattern(&self) -> Pattern<'_> {
        let SelectEntry { api_version, kind, name, .. } = self.entry;
        let (kind, name, api_version) = (kind.as_deref(), name.as_deref(), api_version.as_deref());
        Pattern { namespace: self.namespace, kind, name, api_version }
    }

    /// Collects candidates for a hint.
    fn observe(&mut self, workload: &ObjectReference) {
        if !self.is_in_scope(workload) {
            return;
        }
        let is_of_kind = self.entry.kind.as_deref().is_none_or(|kind| kind == workload.kind);
        // As long as no workload has the kind, the kind may be misspelt.
        let near = if self.has_kind { is_of_kind.then_some(&workload.name) } else { Some(&workload.kind) };
        if let Some(near) = near.filter(|near| self.near.len() < NAMES_COMPARED_MAX && !self.near.contains(*near)) {
            self.near.insert(near.clone());
        }
    }

    fn warning(&self, nameable: &Nameable, hints: &mut Hints) -> String {
        let Question { path, entry, near, .. } = self;
        let place = self.namespace.map_or_else(String::new, |namespace| format!(" in namespace {namespace:?}"));
        let mut read = if self.namespace.is_some() { BINDINGS[..1].iter() } else { BINDINGS.iter() };
        let is_shown = read.all(|kind| nameable.has(*kind));
        let known = near.iter().filter(|_| is_shown).map(String::as_str);
        match (&entry.kind, &entry.name, &entry.api_version) {
            (Some(kind), _, _) if !self.has_kind && !is_usual(kind) => {
                let what = format!("{path}.kind: no binding{place} is of kind {kind:?}");
                hints.with_suggestion(what, kind, known.chain(USUAL_KINDS))
            }
            (kind, Some(name), _) => {
                let kind = kind.as_deref().unwrap_or("workload");
                let what = format!("{path}.name: no binding{place} is of a {kind} {name:?}");
                let known = known.filter(|_| self.has_kind).filter(|near| *near != &**name);
                hints.with_suggestion(what, name, known)
            }
            (_, _, version) => {
                let version = version.as_deref().unwrap_or_default();
                format!("{path}.apiVersion: no such binding{place} is of apiVersion {version:?}")
            }
        }
    }
}

/// A pattern of workloads. `None`: any value.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Pattern<'a> {
    namespace: Option<&'a str>,
    kind: Option<&'a str>,
    name: Option<&'a str>,
    api_version: Option<&'a str>,
}

/// The properties that a pattern has.
type Mask = [bool; 4];

impl<'a> Pattern<'a> {
    fn of_kind(self) -> Pattern<'a> {
        Pattern { name: None, api_version: None, ..self }
    }

    fn mask(&self) -> Mask {
        [self.namespace, self.kind, self.name, self.api_version].map(|it| it.is_some())
    }

    /// Returns the pattern with the properties of a workload that are in the mask.
    fn masked(workload: &'a ObjectReference, [namespace, kind, name, api_version]: Mask) -> Pattern<'a> {
        Pattern {
            namespace: workload.namespace.as_deref().filter(|_| namespace),
            kind: kind.then_some(&*workload.kind),
            name: name.then_some(&*workload.name),
            api_version: api_version.then_some(&*workload.api_version),
        }
    }
}

/// Removes the queries that a binding matches, and records which kinds exist. Each binding is
/// looked up once for each combination of properties, independent of the number of queries.
fn retain_unmet(view: &View, questions: &mut Vec<Question<'_>>) {
    let patterns = questions.iter().flat_map(|question| [question.pattern(), question.pattern().of_kind()]);
    let met: HashMap<Pattern<'_>, Cell<bool>> = patterns.map(|pattern| (pattern, Cell::new(false))).collect();
    let masks: HashSet<Mask> = met.keys().map(Pattern::mask).collect();
    let mut open = met.len();
    for object in bindings_of(view, questions) {
        if open == 0 {
            break;
        }
        let Some(workload) = workload(object) else { continue };
        for mask in &masks {
            if let Some(is_met) = met.get(&Pattern::masked(&workload, *mask)) {
                open -= usize::from(!is_met.replace(true));
            }
        }
    }
    let is_met = |pattern: Pattern<'_>| met.get(&pattern).is_some_and(Cell::get);
    let found: Vec<(bool, bool)> =
        questions.iter().map(|it| (is_met(it.pattern()), is_met(it.pattern().of_kind()))).collect();
    drop(met);
    let mut found = found.into_iter();
    questions.retain_mut(|question| {
        let (is_met, has_kind) = found.next().unwrap_or_default();
        question.has_kind = has_kind;
        !is_met
    });
}

/// Collects candidates for hints.
fn find_near(view: &View, questions: &mut [Question<'_>]) {
    if questions.is_empty() {
        return;
    }
    for workload in bindings_of(view, questions).filter_map(workload) {
        questions.iter_mut().for_each(|question| question.observe(&workload));
    }
}

/// Returns the bindings in the scope of the queries.
fn bindings_of<'v>(view: &'v View, questions: &[Question<'v>]) -> Box<dyn Iterator<Item = &'v Arc<Object>> + 'v> {
    let namespaces: Option<BTreeSet<&'v str>> = questions.iter().map(|question| question.namespace).collect();
    match namespaces {
        None => Box::new(BINDINGS.into_iter().flat_map(|kind| view.list(kind, None))),
        Some(namespaces) => {
            Box::new(namespaces.into_iter().flat_map(|namespace| view.list(BINDINGS[0], Some(namespace))))
        }
    }
}

fn workload(object: &Arc<Object>) -> Option<ObjectReference> {
    PartialBinding::of(&object.text.content()).ok()?.workload(&object.key)
}

fn is_usual(kind: &str) -> bool {
    USUAL_KINDS.contains(&kind)
}

fn placement_kinds(kind: &str) -> Option<&'static PlacementKinds> {
    SCOPES.into_iter().find(|kinds| kinds.kind == kind)
}

/// Returns whether a namespace has bindings, or placements of the KubeFleet family.
fn has_workloads(view: &View, namespace: &str) -> bool {
    let placements = SCOPES.into_iter().map(|kinds| kinds.placements);
    let kinds = [BINDINGS[0]].into_iter().chain(placements);
    let mut objects = kinds.flat_map(|kind| view.list(kind, Some(namespace)));
    objects.next().is_some()
}

/// Returns the namespaces with bindings, by name.
fn namespaces(view: &View) -> Vec<&str> {
    let mut names: Vec<&str> = view.list(BINDINGS[0], None).map(|object| &*object.key.namespace).collect();
    // Objects are in key order.
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use ballast_k8s::Revision;
    use serde_json::{Value, json};

    use super::*;

    fn view() -> View {
        let object =
            |key: Key, tree: Value| Arc::new(Object::decode(key, Revision(1), tree.to_string().into()).unwrap());
        let binding = |namespace: &str, kind: &str, name: &str| {
            let resource = json!({"apiVersion": "apps/v1", "kind": kind, "namespace": namespace, "name": name});
            let key = key_of_workload(kind, namespace, name);
            object(key, json!({"metadata": {"namespace": namespace}, "spec": {"resource": resource}}))
        };
        let policy = Key::namespaced(PROPAGATION_POLICIES, "shop", "web");
        View::of([
            binding("shop", "Deployment", "web"),
            binding("shop", "FlinkJob", "count"),
            binding("bank", "Deployment", "ledger"),
            object(policy, json!({"metadata": {"name": "web"}})),
        ])
    }

    fn unknown_in(scope: Option<&str>, entry: Value) -> Vec<String> {
        unknown_to(&Nameable::all(), scope, entry)
    }

    fn unknown_to(nameable: &Nameable, scope: Option<&str>, entry: Value) -> Vec<String> {
        let select = [serde_json::from_value(entry).unwrap()];
        let named = NamedSelection { at: "spec", select: &select, exclude: &[], scope, with_clusters: true, nameable };
        named.unknown(&view())
    }

    #[test]
    fn each_unknown_name_of_an_entry_has_the_nearest_known_one() {
        let near = |what: &str, name: &str| format!("spec.select[0].{what}; the nearest known name is {name:?}");
        for (entry, expected) in [
            (json!({"namespace": "shp"}), near("namespace: no binding is in namespace \"shp\"", "shop")),
            (json!({"kind": "Deploymnt"}), near("kind: no binding is of kind \"Deploymnt\"", "Deployment")),
            (json!({"kind": "FlinkJb"}), near("kind: no binding is of kind \"FlinkJb\"", "FlinkJob")),
            (
                json!({"kind": "Deployment", "namespace": "shop", "name": "wbe"}),
                near("name: no binding in namespace \"shop\" is of a Deployment \"wbe\"", "web"),
            ),
            (json!({"name": "ledgr"}), near("name: no binding is of a workload \"ledgr\"", "ledger")),
            (
                json!({"policyRef": {"kind": "PropagationPolicy", "namespace": "shop", "name": "wb"}}),
                near("policyRef.name: there is no PropagationPolicy \"shop/wb\"", "web"),
            ),
        ] {
            assert_eq!(unknown_in(None, entry.clone()), [&*expected], "{entry}");
            let told = unknown_to(&Nameable::nothing(), None, entry.clone());
            let what = expected.split("; the nearest").next().unwrap();
            assert!(told.len() == 1 && told[0].starts_with(what), "{told:?}");
            assert!(told[0] == what || told[0].ends_with("\"Deployment\""), "a usual kind is no secret: {told:?}");
        }
        let version = json!({"apiVersion": "apps/v2", "kind": "Deployment"});
        assert_eq!(
            unknown_in(None, version),
            ["spec.select[0].apiVersion: no such binding is of apiVersion \"apps/v2\""]
        );
    }

    #[test]
    fn known_and_usual_names_are_not_warned_about() {
        for entry in [
            json!({}),
            json!({"kind": "StatefulSet"}),
            json!({"kind": "FlinkJob"}),
            json!({"kind": "ClusterResourcePlacement"}),
            json!({"kind": "Deployment", "namespace": "shop", "name": "web", "apiVersion": "apps/v1"}),
            json!({"kind": "Deployment", "name": "ledger", "displaced": true}),
            json!({"policyRef": {"kind": "PropagationPolicy", "namespace": "shop", "name": "web"}}),
        ] {
            assert_eq!(unknown_in(None, entry.clone()), [""; 0], "{entry}");
        }
    }

    #[test]
    fn a_namespaced_object_gets_no_hint_from_elsewhere() {
        let told = unknown_in(Some("shop"), json!({"kind": "Deployment", "name": "ledgr"}));
        assert_eq!(told, ["spec.select[0].name: no binding in namespace \"shop\" is of a Deployment \"ledgr\""]);
        let told = unknown_in(Some("shp"), json!({}));
        assert_eq!(told, ["metadata.namespace: no binding is in namespace \"shp\""]);
    }

    #[test]
    fn an_undo_of_an_unknown_rebalance_names_the_nearest() {
        let key = |name: &str| Key::cluster(PROPAGATION_POLICIES, name);
        let object = |name: &str| {
            Arc::new(
                Object::decode(key(name), Revision(1), json!({"metadata": {"name": name}}).to_string().into()).unwrap(),
            )
        };
        let view = View::of([object("home"), object("home-undo")]);
        let undo = |name: &str| {
            let undo = Undo { name: name.to_owned(), ..Undo::default() };
            unknown_undo(&view, &key("home-undo"), &undo, "spec", &Nameable::all())
        };
        assert_eq!(undo("home"), None);
        let expected = "spec.undo.name: no rebalance is named \"hom\"; the nearest known name is \"home\"";
        assert_eq!(undo("hom").as_deref(), Some(expected));
    }
}
