//! The content of manifests: the clusters and the bindings of a fleet, and the requests to move
//! them.
//!
//! Documents are read one by one and kept as text, so 100,000 bindings need little more memory than
//! their manifests.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::input::Malformed;
use crate::cli::manifest_check::{self, ManifestFaults};
use ballast_api::ballast::v1alpha1::RebalanceSpec;
use ballast_api::karmada::apps::v1alpha1::WorkloadRebalancer;
use ballast_api::karmada::cluster::v1alpha1::Cluster;
use ballast_api::karmada::policy::v1alpha1::POLICIES;
use ballast_api::karmada::task::v1alpha1::RescheduleTask;
use ballast_api::karmada::work::v1alpha2::BINDINGS;
use ballast_engine::karmada::ClusterSet;
use ballast_k8s::{Body, GroupResource, Key, Object, Revision, json_fault};
use ballast_rebalance::in_placement;
use ballast_rebalance::nameable::Nameable;
use ballast_rebalance::record::CLUSTERS;
use ballast_scheduler::convert::karmada as convert;
use ballast_watch::View;

/// The namespace of a namespaced object whose manifest names none.
const NAMESPACE: &str = "default";

/// The content of all manifests.
pub struct World {
    pub clusters: ClusterSet,
    pub view: View,
    /// The view after the passes, once there is one.
    settled: Option<View>,
    /// The bindings in the order of the manifests.
    pub bindings: Vec<Key>,
    pub asked: Vec<FreshRequest>,
    /// Objects that are ignored, by kind.
    pub ignored: BTreeMap<String, usize>,
    pub malformed: Vec<Malformed>,
    /// Unknown fields of a status, and duplicate objects.
    pub warnings: Vec<String>,
    /// The placements of bindings as texts, each with the first binding that has it.
    placements: HashMap<String, String>,
}

/// An object that requests new placements.
pub enum FreshRequest {
    Rebalancer(Box<WorkloadRebalancer>),
    Task(Box<RescheduleTask>),
    Rebalance { name: String, namespace: Option<String>, spec: Box<RebalanceSpec> },
}

/// A merge patch for clusters or bindings, from `--patch`.
#[derive(Clone, Debug)]
pub struct Patch {
    /// The plural resource, in lower case.
    pub resource: String,
    /// `None`: every object of the resource.
    pub name: Option<String>,
    pub patch: Value,
}

impl World {
    /// Reads the objects of a text. `files` are its parts, each with its start offset in bytes.
    pub fn read(text: &str, patches: &[Patch], files: &[(usize, String)]) -> World {
        let mut world = World {
            clusters: ClusterSet::default(),
            view: View::of([]),
            settled: None,
            bindings: Vec::new(),
            asked: Vec::new(),
            ignored: BTreeMap::new(),
            malformed: Vec::new(),
            warnings: Vec::new(),
            placements: HashMap::new(),
        };
        let mut objects: BTreeMap<Key, Arc<Object>> = BTreeMap::new();
        // The file of the last document, and the documents before that file.
        let (mut last_file, mut before) = (None, 0);
        each_document(text, &mut |number, offset, document| {
            let file = files.partition_point(|(start, _)| *start <= offset).checked_sub(1);
            if std::mem::replace(&mut last_file, file) != file {
                before = number - 1;
            }
            let taken = document.and_then(|object| world.take(object, patches, &mut objects));
            if let Err(why) = taken {
                let file = file.map_or_else(String::new, |file| format!("{}: ", files[file].1));
                let why = format!("{file}document {}: {why}", number - before);
                world.malformed.push(Malformed { id: None, why });
            }
        });
        world.view = View::of(objects.into_values());
        world.warn_of_clusters();
        world
    }

    /// Returns the view that rebalances plan on: after the passes, and after the previous
    /// rebalances.
    pub fn settled(&self) -> &View {
        self.settled.as_ref().unwrap_or(&self.view)
    }

    pub fn settle(&mut self, object: Arc<Object>) {
        let view = &self.view;
        self.settled.get_or_insert_with(|| view.clone()).put(object);
    }

    /// Warns about clusters and regions in placements that no cluster has.
    fn warn_of_clusters(&mut self) {
        let mut placements: Vec<_> = std::mem::take(&mut self.placements).into_iter().collect();
        placements.sort_by(|one, other| one.1.cmp(&other.1));
        for (placement, binding) in placements {
            let placement: Value = serde_json::from_str(&placement).unwrap_or_default();
            let unknown = in_placement(&self.view, &placement, None, &Nameable::all());
            self.warnings.extend(unknown.into_iter().map(|line| format!("{binding}: {line}")));
        }
    }

    /// Returns the faults that a server rejects under strict field validation.
    fn check(&mut self, object: &mut Map<String, Value>) -> Result<(), String> {
        let ManifestFaults { errors, warnings } = manifest_check::check(object);
        let name = || {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let metadata = object.get("metadata").unwrap_or(&Value::Null);
            format!("{} {}", object.get("kind").map(text).unwrap_or_default(), text(&metadata["name"]))
        };
        self.warnings.extend(warnings.into_iter().map(|warning| format!("{}: {warning}, ignored", name())));
        if errors.is_empty() { Ok(()) } else { Err(format!("{}: {}", name(), errors.join("; "))) }
    }

    fn take(
        &mut self,
        mut object: Map<String, Value>,
        patches: &[Patch],
        objects: &mut BTreeMap<Key, Arc<Object>>,
    ) -> Result<(), String> {
        let Some(kind) = object.get("kind").and_then(Value::as_str).map(str::to_owned) else {
            return Err("an object needs a kind".to_owned());
        };
        // KubeFleet's ClusterResourceBinding is not Karmada's, and Cluster API's Cluster is not
        // either.
        if let Some(group) = foreign_group(&kind, &object) {
            *self.ignored.entry(format!("{kind} of {group}")).or_default() += 1;
            return Ok(());
        }
        let [bindings, cluster_bindings] = BINDINGS;
        let [policies, cluster_policies] = POLICIES;
        let (resource, is_namespaced) = match &*kind {
            "Cluster" => (CLUSTERS, false),
            "ResourceBinding" => (bindings, true),
            "ClusterResourceBinding" => (cluster_bindings, false),
            "PropagationPolicy" => (policies, true),
            "ClusterPropagationPolicy" => (cluster_policies, false),
            "WorkloadRebalancer" => {
                self.check(&mut object)?;
                self.asked.push(FreshRequest::Rebalancer(typed(object)?));
                return Ok(());
            }
            "RescheduleTask" => {
                self.check(&mut object)?;
                self.asked.push(FreshRequest::Task(typed(object)?));
                return Ok(());
            }
            "Rebalance" | "ClusterRebalance" => {
                self.check(&mut object)?;
                let metadata = object.get("metadata").unwrap_or(&Value::Null);
                let name = metadata["name"].as_str().unwrap_or(&kind).to_owned();
                let namespace = metadata["namespace"].as_str().unwrap_or(NAMESPACE).to_owned();
                let namespace = (kind == "Rebalance").then_some(namespace);
                let spec = object.remove("spec").unwrap_or_default();
                let spec =
                    Box::new(RebalanceSpec::deserialize(spec).map_err(|error| format!("{kind} {name}: {error}"))?);
                self.asked.push(FreshRequest::Rebalance { name, namespace, spec });
                return Ok(());
            }
            _ => {
                *self.ignored.entry(kind).or_default() += 1;
                return Ok(());
            }
        };
        let key = key_of(resource, is_namespaced, &object);
        for patch in patches.iter().filter(|patch| patch.is_for(&key)) {
            merge(&mut object, &patch.patch);
        }
        self.check(&mut object)?;
        if resource == CLUSTERS {
            let name = key.name.to_string();
            let cluster: Box<Cluster> = typed(object.clone()).map_err(|error| format!("Cluster {name}: {error}"))?;
            self.clusters.upsert(convert::cluster(&cluster).0);
        }
        if POLICIES.contains(&resource) {
            // Bindings have their own placement. A policy only determines which bindings a request
            // selects.
            *self.ignored.entry(kind.clone()).or_default() += 1;
        }
        let is_binding = BINDINGS.contains(&resource);
        let shown = format!("{kind} {}{}{}", key.namespace, if key.namespace.is_empty() { "" } else { "/" }, key.name);
        if let Some(placement) = object.get("spec").and_then(|spec| spec.get("placement")).filter(|_| is_binding) {
            self.placements.entry(placement.to_string()).or_insert_with(|| shown.clone());
        }
        let stored = object_of(key.clone(), &object)?;
        match objects.insert(key.clone(), stored) {
            Some(_) => self.warnings.push(format!("{shown} is given twice, and the last one counts")),
            None if is_binding => self.bindings.push(key),
            None => {}
        }
        Ok(())
    }
}

/// The known kinds, with their groups.
const KINDS: [(&str, &str); 9] = [
    ("Cluster", "cluster.karmada.io"),
    ("ResourceBinding", "work.karmada.io"),
    ("ClusterResourceBinding", "work.karmada.io"),
    ("PropagationPolicy", "policy.karmada.io"),
    ("ClusterPropagationPolicy", "policy.karmada.io"),
    ("WorkloadRebalancer", "apps.karmada.io"),
    ("RescheduleTask", "task.karmada.io"),
    ("Rebalance", "ballast.dev"),
    ("ClusterRebalance", "ballast.dev"),
];

/// Returns the group of an object if its kind has the name of a known kind but another group. An
/// object without a group has the known kind.
fn foreign_group<'a>(kind: &str, object: &'a Map<String, Value>) -> Option<&'a str> {
    let (group, _) = object.get("apiVersion")?.as_str()?.split_once('/')?;
    let (_, own) = KINDS.iter().find(|(name, _)| *name == kind)?;
    (group != *own).then_some(group)
}

fn typed<T: DeserializeOwned>(object: Map<String, Value>) -> Result<Box<T>, String> {
    serde_json::from_value(Value::Object(object)).map(Box::new).map_err(|error| json_fault(&error))
}

fn key_of(resource: GroupResource, is_namespaced: bool, object: &Map<String, Value>) -> Key {
    let field = |name: &str| {
        let metadata = object.get("metadata").and_then(|metadata| metadata.get(name));
        metadata.and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    match is_namespaced {
        true => {
            let namespace = Some(field("namespace")).filter(|it| !it.is_empty());
            Key::namespaced(resource, namespace.unwrap_or_else(|| NAMESPACE.to_owned()), field("name"))
        }
        false => Key::cluster(resource, field("name")),
    }
}

/// Converts an object to the form in a view.
pub fn object_of(key: Key, object: &Map<String, Value>) -> Result<Arc<Object>, String> {
    let json = serde_json::to_vec(object).map_err(|error| error.to_string())?;
    Object::decode(key, Revision(1), json.into()).map(Arc::new).map_err(|error| error.source.to_string())
}

impl Patch {
    fn is_for(&self, key: &Key) -> bool {
        key.resource.resource() == self.resource && self.name.as_ref().is_none_or(|name| **name == *key.name)
    }
}

/// Merges a patch, as in RFC 7386.
fn merge(object: &mut Map<String, Value>, patch: &Value) {
    let mut whole = Value::Object(std::mem::take(object));
    json_patch::merge(&mut whole, patch);
    if let Value::Object(merged) = whole {
        *object = merged;
    }
}

/// A list with items that are parsed one by one.
#[derive(Deserialize)]
struct List<'a> {
    #[serde(borrow, default)]
    items: Option<Vec<&'a RawValue>>,
}

/// Reads a stream like kubectl: documents between lines of three dashes, or consecutive JSON
/// objects. The items of a list have the number and the offset of the list.
fn each_document(text: &str, take: &mut dyn FnMut(usize, usize, Result<Map<String, Value>, String>)) {
    let mut number = 0;
    let offset = |part: &str| part.as_ptr().addr() - text.as_ptr().addr();
    if text.trim_start().starts_with('{') {
        let whole: Result<Vec<&RawValue>, _> = serde_json::Deserializer::from_str(text).into_iter().collect();
        if let Ok(documents) = whole {
            for document in documents {
                number += 1;
                each_object(document.get(), &mut |object| take(number, offset(document.get()), object));
            }
            return;
        }
    }
    let says_nothing = |line: &str| line.trim().is_empty() || line.trim_start().starts_with('#');
    for document in documents(text) {
        if !document.lines().all(says_nothing) {
            number += 1;
            each_object(document, &mut |object| take(number, offset(document), object));
        }
    }
}

/// Returns the documents of a YAML stream, as parts of its text.
fn documents(text: &str) -> impl Iterator<Item = &str> {
    let is_separator = |line: &str| line.trim_end() == "---" || line.starts_with("--- ");
    let mut left = Some(text);
    std::iter::from_fn(move || {
        let rest = left?;
        let mut at = 0;
        for line in rest.split_inclusive('\n') {
            if is_separator(line) {
                left = Some(&rest[at + line.len()..]);
                return Some(&rest[..at]);
            }
            at += line.len();
        }
        left = None;
        Some(rest)
    })
}

fn each_object(document: &str, take: &mut dyn FnMut(Result<Map<String, Value>, String>)) {
    let body = |text: &str| {
        let body = Body::from_yaml(text.as_bytes()).map_err(|error| error.to_string())?;
        let repeated = body.strict_faults();
        if repeated.is_empty() { Ok(body.value) } else { Err(repeated.join("; ")) }
    };
    if document.trim_start().starts_with('{')
        && let Ok(List { items: Some(items) }) = serde_json::from_str(document)
    {
        for item in items {
            take(body(item.get()));
        }
        return;
    }
    let mut object = match body(document) {
        Ok(object) => object,
        Err(why) => return take(Err(why)),
    };
    match object.remove("items") {
        None => take(Ok(object)),
        Some(Value::Array(items)) => {
            for item in items {
                match item {
                    Value::Object(item) => take(Ok(item)),
                    _ => take(Err("an item of a list must be an object".to_owned())),
                }
            }
        }
        Some(_) => take(Err("items must be a list".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_parts_of_the_text() {
        let parts: Vec<&str> = documents("a\n---\nb\nc\n--- # d\ne").collect();
        assert_eq!(parts, ["a\n", "b\nc\n", "e"]);
        assert_eq!(documents("").collect::<Vec<_>>(), [""]);
    }

    #[test]
    fn a_patch_is_for_all_objects_of_a_resource_or_for_one() {
        let cluster = |name: &str| format!("kind: Cluster\nmetadata: {{name: {name}}}\nspec: {{syncMode: Push}}\n");
        let text = format!("{}---\n{}", cluster("m1"), cluster("m2"));
        let patch = |name: Option<&str>| Patch {
            resource: "clusters".to_owned(),
            name: name.map(str::to_owned),
            patch: serde_json::json!({"spec": {"region": "north"}}),
        };
        let regions = |name: Option<&str>| {
            let world = World::read(&text, &[patch(name)], &[]);
            assert!(world.malformed.is_empty(), "{:?}", world.malformed);
            let regions =
                world.view.list(CLUSTERS, None).filter(|it| it.typed::<Cluster>().unwrap().spec.region.is_some());
            regions.count()
        };
        assert_eq!((regions(None), regions(Some("m2"))), (2, 1));
    }

    #[test]
    fn kinds_of_other_groups_are_not_taken_for_karmadas() {
        let other =
            |group: &str, kind: &str| format!("apiVersion: {group}/v1\nkind: {kind}\nmetadata: {{name: a}}\n---\n");
        let text =
            other("placement.kubernetes-fleet.io", "ClusterResourceBinding") + &other("cluster.x-k8s.io", "Cluster");
        let world = World::read(&text, &[], &[]);
        assert!(world.malformed.is_empty() && world.bindings.is_empty(), "{:?}", world.malformed);
        let ignored: Vec<&str> = world.ignored.keys().map(String::as_str).collect();
        assert_eq!(ignored, ["Cluster of cluster.x-k8s.io", "ClusterResourceBinding of placement.kubernetes-fleet.io"]);
    }

    #[test]
    fn what_is_not_of_the_fleet_is_counted_by_kind() {
        let text = "kind: Deployment\n---\nkind: Deployment\n---\nspec: {}\n";
        let files = [(0, "a.yaml".to_owned()), (21, "b.yaml".to_owned())];
        let named = World::read(text, &[], &files);
        assert_eq!(named.malformed[0].why, "b.yaml: document 2: an object needs a kind");
        let world = World::read(text, &[], &[]);
        assert_eq!(world.ignored, BTreeMap::from([("Deployment".to_owned(), 2)]));
        assert_eq!(world.malformed[0].why, "document 3: an object needs a kind");
    }
}
