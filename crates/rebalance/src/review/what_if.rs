//! The hypothetical changes of a review: clusters that are absent, changed or new, and workloads of
//! other sizes. Pure: a private copy of the present is changed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::cluster_names::ClusterNames;
use crate::nameable::Nameable;
use crate::record::CLUSTERS;
use crate::suggestion::with_suggestion;
use ballast_api::Pairs;
use ballast_api::ballast::v1alpha1::{SelectEntry, SupposedCluster, SupposedWorkload};
use ballast_api::fleet::placement::v1beta1::any as fleet;
use ballast_api::karmada::cluster::v1alpha1::{Cluster, ResourceSummary, is_no_execute};
use ballast_api::karmada::work::v1alpha2::{
    BINDINGS, CLUSTER_RESOURCE_BINDINGS, ObjectReference, PartialBinding, RESOURCE_BINDINGS, key_of_workload,
};
use ballast_k8s::{FieldErrors, FieldPath, Key, Object, Quantity};
use ballast_scheduler::planning::{ParsedBinding, PlanningSnapshot};
use ballast_watch::View;

/// Changes the clusters of `present`. Each entry refers to the real cluster, independent of other
/// entries.
///
/// An additional loss applies on top of present ones: if an entry supposes a loss, clusters that
/// are lost already are removed, too, unless an entry names them.
pub fn clusters(
    present: &mut PlanningSnapshot,
    supposed: &[SupposedCluster],
    names: &ClusterNames<'_>,
    errors: &mut FieldErrors,
) {
    let path = FieldPath::new("spec.suppose.clusters");
    let view = Arc::clone(&present.view);
    if supposed.iter().any(|entry| entry.absent == Some(true)) {
        let named: BTreeSet<&str> = supposed.iter().map(|entry| &*entry.name).collect();
        let is_named = |name: &str| named.contains(name);
        let lost: Vec<Arc<str>> = present.lost().filter(|name| !is_named(name)).cloned().collect();
        lost.iter().for_each(|name| present.lose(name));
    }
    let mut named = BTreeSet::new();
    for (index, entry) in supposed.iter().enumerate() {
        let path = path.index(index);
        if !named.insert(&*entry.name) {
            errors.duplicate(&path.child("name"), &entry.name);
            continue;
        }
        let is_new = entry.like.is_some();
        if is_new && names.has(&entry.name) {
            errors.invalid(&path.child("name"), &entry.name, "a cluster of this name exists, so it cannot be new");
            continue;
        }
        let (field, model) = match &entry.like {
            Some(like) => ("like", like),
            None => ("name", &entry.name),
        };
        let Some(cluster) = find(&view, names, model, &path.child(field), errors) else { continue };
        if entry.absent == Some(true) {
            remove(present, &entry.name);
            continue;
        }
        let mut cluster = if is_new { like(&cluster, &entry.name) } else { Cluster::clone(&cluster) };
        change(&mut cluster, entry, &path, errors);
        put(present, &cluster);
    }
}

fn find(
    view: &View,
    names: &ClusterNames<'_>,
    name: &str,
    path: &FieldPath,
    errors: &mut FieldErrors,
) -> Option<Arc<Cluster>> {
    let object = view.get(&Key::cluster(CLUSTERS, name)).filter(|_| names.has(name));
    let cluster = object.and_then(|object| object.typed::<Cluster>().ok());
    if cluster.is_none() {
        errors.invalid(path, name, names.unknown(name));
    }
    cluster
}

/// Returns a new, empty cluster with the properties of `model`.
fn like(model: &Cluster, name: &str) -> Cluster {
    let mut cluster = model.clone();
    cluster.metadata.name = Some(name.to_owned());
    cluster.metadata.deletion_timestamp = None;
    if let Some(summary) = &mut cluster.status.resource_summary {
        (summary.allocated, summary.allocating) = (Pairs::default(), Pairs::default());
    }
    cluster
}

fn change(cluster: &mut Cluster, entry: &SupposedCluster, path: &FieldPath, errors: &mut FieldErrors) {
    if let Some(taints) = &entry.taints {
        cluster.spec.taints = taints.clone();
    }
    for (key, value) in entry.labels.iter().flat_map(Pairs::iter) {
        cluster.metadata.labels.insert(key.clone(), value.clone());
    }
    let Some(allocatable) = &entry.allocatable else { return };
    // The allocated resources stay, so the free capacity changes by the difference. The models
    // describe nodes of the former size, so only the sums are used.
    cluster.spec.resource_models.clear();
    let summary = cluster.status.resource_summary.get_or_insert_with(ResourceSummary::default);
    for (resource, amount) in allocatable.iter() {
        let path = path.child("allocatable").key(resource);
        match amount.text().parse::<Quantity>() {
            Ok(quantity) if quantity.is_negative() => errors.invalid(&path, amount, "must not be negative"),
            Ok(_) => drop(summary.allocatable.insert(resource.clone(), amount.clone())),
            Err(malformed) => errors.invalid(&path, amount, malformed),
        }
    }
}

pub(super) fn remove(present: &mut PlanningSnapshot, name: &str) {
    present.lose(name);
}

fn put(present: &mut PlanningSnapshot, cluster: &Cluster) {
    let name: Arc<str> = cluster.metadata.name.as_deref().unwrap_or_default().into();
    let no_execute: Vec<_> = cluster.spec.taints.iter().filter(|taint| is_no_execute(taint)).cloned().collect();
    let all = Arc::make_mut(&mut present.no_execute);
    match no_execute.is_empty() {
        true => all.remove(&name),
        false => all.insert(name, no_execute),
    };
    present.suppose(cluster);
}

/// Sets the hypothetical sizes of workloads, adding workloads that are not among `cases`.
pub fn workloads(
    cases: &mut Vec<ParsedBinding>,
    view: &View,
    scope: Option<&str>,
    supposed: &[SupposedWorkload],
    errors: &mut FieldErrors,
) {
    let path = FieldPath::new("spec.suppose.workloads");
    let mut place: BTreeMap<Key, usize> = BTreeMap::new();
    if !supposed.is_empty() {
        place = cases.iter().enumerate().map(|(index, case)| (case.object.key.clone(), index)).collect();
    }
    let mut named = BTreeSet::new();
    for (index, entry) in supposed.iter().enumerate() {
        let path = path.index(index);
        let namespace = scope.or(entry.namespace.as_deref()).unwrap_or_default();
        let Some(object) = find_binding(view, namespace, entry) else {
            errors.invalid(&path.child("name"), &entry.name, no_workload(view, namespace, entry));
            continue;
        };
        if !named.insert(object.key.clone()) {
            errors.duplicate(&path, &entry.name);
            continue;
        }
        let known = place.get(&object.key).copied();
        match known.map(|known| &mut cases[known]) {
            Some(case) => case.request.replicas = entry.replicas,
            None => cases.extend(ParsedBinding::of(object).map(|mut case| {
                case.request.replicas = entry.replicas;
                case
            })),
        }
    }
}

fn find_binding<'v>(view: &'v View, namespace: &str, wanted: &SupposedWorkload) -> Option<&'v Arc<Object>> {
    let is_it = |object: &Object| {
        let resource = PartialBinding::of(&object.text.content()).ok().and_then(|it| it.workload(&object.key));
        resource.is_some_and(|resource| {
            let fits = |api_version: &String| *api_version == resource.api_version;
            (&*resource.kind, &*resource.name) == (&*wanted.kind, &*wanted.name)
                && wanted.api_version.as_ref().is_none_or(fits)
        })
    };
    // Karmada names its bindings after their workloads.
    let usual = view.get(&key_of_workload(&wanted.kind, namespace, &wanted.name));
    usual.filter(|object| is_it(object)).or_else(|| bindings(view, namespace).find(|object| is_it(object)))
}

fn bindings<'v>(view: &'v View, namespace: &str) -> impl Iterator<Item = &'v Arc<Object>> {
    match namespace {
        "" => view.list(CLUSTER_RESOURCE_BINDINGS, None),
        namespace => view.list(RESOURCE_BINDINGS, Some(namespace)),
    }
}

fn no_workload(view: &View, namespace: &str, wanted: &SupposedWorkload) -> String {
    let place = if namespace.is_empty() { String::new() } else { format!(" in namespace {namespace:?}") };
    with_suggested_workload(
        format!("no {} of this name has a binding{place}", wanted.kind),
        view,
        namespace,
        &wanted.kind,
        &wanted.name,
        &Nameable::all(),
    )
}

/// Maximum number of bindings that are compared to find the closest name. Each costs microseconds,
/// and a caller waits.
const NAMES_READ_MAX: usize = 1_000;

/// Appends a suggestion to `what`: a binding of the workload under another name (T2), or the
/// nearest name of a bound workload of the kind in the namespace. A placement of the KubeFleet
/// family is bound itself.
pub fn with_suggested_workload(
    what: String,
    view: &View,
    namespace: &str,
    kind: &str,
    name: &str,
    nameable: &Nameable,
) -> String {
    if let Some(kinds) = fleet::SCOPES.into_iter().find(|kinds| kinds.kind == kind) {
        if !nameable.has(kinds.placements) {
            return what;
        }
        let placements = view.list(kinds.placements, (!namespace.is_empty()).then_some(namespace));
        return with_suggestion(what, name, placements.take(NAMES_READ_MAX).map(|object| &*object.key.name));
    }
    if !nameable.has(if namespace.is_empty() { CLUSTER_RESOURCE_BINDINGS } else { RESOURCE_BINDINGS }) {
        return what;
    }
    let resource = |object: &Arc<Object>| PartialBinding::of(&object.text.content()).ok()?.workload(&object.key);
    let of_kind = |resource: &ObjectReference| resource.kind == kind;
    let read = bindings(view, namespace).take(NAMES_READ_MAX).filter_map(resource);
    let known: Vec<String> = read.filter(of_kind).map(|resource| resource.name).collect();
    if known.iter().any(|known| known == name) {
        let is_about = |object: &&Arc<Object>| resource(object).is_some_and(|it| of_kind(&it) && it.name == name);
        let other = bindings(view, namespace).take(NAMES_READ_MAX).find(is_about);
        let wanted = key_of_workload(kind, namespace, name).name;
        if let Some(other) = other.filter(|other| other.key.name != wanted) {
            let other = &*other.key.name;
            return format!("{what}; the binding {other:?} is about it, and must be called {wanted:?} to be found");
        }
    }
    with_suggestion(what, name, known.iter().map(String::as_str))
}

/// Refuses names of clusters in the selection that neither exist nor have any workload.
pub fn check_places(select: &[SelectEntry], view: &View, known: &ClusterNames<'_>, errors: &mut FieldErrors) {
    let path = FieldPath::new("spec.select");
    let mut left: Option<BTreeSet<String>> = None;
    for (index, entry) in select.iter().enumerate() {
        for (field, names) in [("placedOn", &entry.placed_on), ("notPlacedOn", &entry.not_placed_on)] {
            for (position, name) in names.iter().enumerate().filter(|(_, name)| !known.has(name)) {
                // Bindings may still have a deleted cluster as a target.
                let is_left = match known.own() {
                    Some(own) => own.contains(&**name),
                    None => left.get_or_insert_with(|| targets(view)).contains(name),
                };
                if !is_left {
                    errors.invalid(&path.index(index).child(field).index(position), name, known.unknown(name));
                }
            }
        }
    }
}

/// Returns the names of all clusters that are targets of bindings.
fn targets(view: &View) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for object in BINDINGS.into_iter().flat_map(|kind| view.list(kind, None)) {
        let content = object.text.content();
        let Ok(partial) = PartialBinding::of(&content) else { continue };
        for target in partial.spec.clusters().iter().filter(|target| !names.contains(&*target.name)).collect::<Vec<_>>()
        {
            names.insert(target.name.to_string());
        }
    }
    names
}
