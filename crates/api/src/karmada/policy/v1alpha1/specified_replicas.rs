//! Alternative notations of specified replicas, and their translation into the fields that the
//! scheduler reads.
//!
//! The proposal "Specify replicas to schedule" has three solutions. The scheduler uses the first:
//! `specifyPreference`. The second (the `extend…` fields with a known strategy name) and the third
//! (an annotation with JSON) are translated when an object is admitted (C14). The original notation
//! is kept in the object.
//!
//! A translation sets only fields that are absent, or that still have the result of an older
//! translation. A field with another value stays, and validation rejects the object. So no input of
//! a user is overwritten.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use serde::Deserialize;
use serde_json::{Value, json};

use super::placement::Placement;
use super::replica_scheduling::{REGIONS, ReplicaSchedulingStrategy};
use crate::meta::ObjectMeta;
use crate::tree::{self, Object};
use ballast_k8s::{FieldErrors, FieldPath, json_fault};

/// The annotation of a policy that specifies replicas, as JSON in one of the forms of `Written`.
pub const ANNOTATION: &str = "scheduling.karmada.io/specified-replicas";

/// Names in `extendReplicaDivisionPreference` that this scheduler implements (R152).
pub const KNOWN_STRATEGIES: &[&str] = &["SpecifiedClusters", "SpecifiedRegions", REGIONS];

const DEFAULT_SCHEDULER: &str = "default-scheduler";

const STRATEGY: [&str; 3] = ["spec", "placement", "replicaScheduling"];

/// The content of the annotation: `{"specifiedClusters": [{"name": "member1", "replicas": 2}]}`, or
/// one of the two other forms (R154).
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Written {
    specified_clusters: Option<Vec<Share>>,
    /// Regions, each with the total of its clusters.
    specified_idcs: Option<Vec<Share>>,
    /// Regions that share one total.
    idcs: Option<Vec<Region>>,
    /// Total for `idcs`. Absent: the replicas of the workload.
    replicas: Option<i64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Share {
    name: String,
    replicas: i64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Region {
    name: String,
}

/// Translates the text of the annotation into the equivalent fields of `replicaScheduling`.
fn of_text(text: &str) -> Result<Object, String> {
    let written: Written =
        serde_json::from_str(text).map_err(|error| format!("cannot be read: {}", json_fault(&error)))?;
    let regions = |names: Vec<&str>| json!({"fieldSelector": {"matchExpressions": [{"key": "region", "operator": "In", "values": names}]}});
    let entry = |target: Value, replicas: i64| json!({"targetCluster": target, "replicas": replicas});
    if written.replicas.is_some() && written.idcs.is_none() {
        return Err("replicas belongs to idcs: the other forms have a number in each entry".to_owned());
    }
    let list: Vec<Value> = match (&written.specified_clusters, &written.specified_idcs, &written.idcs) {
        (Some(clusters), None, None) => {
            clusters.iter().map(|share| entry(json!({"clusterNames": [share.name]}), share.replicas)).collect()
        }
        (None, Some(shares), None) => {
            shares.iter().map(|share| entry(regions(vec![&share.name]), share.replicas)).collect()
        }
        (None, None, Some(listed)) if listed.is_empty() => Vec::new(),
        (None, None, Some(listed)) => {
            let target = regions(listed.iter().map(|region| region.name.as_str()).collect());
            match written.replicas {
                Some(total) => vec![entry(target, total)],
                None => return Ok(of_regions(&target)),
            }
        }
        _ => return Err("must have exactly one of specifiedClusters, specifiedIdcs and idcs".to_owned()),
    };
    if list.is_empty() {
        return Err("must name at least one cluster or region".to_owned());
    }
    Ok(of_list(list))
}

fn of_list(list: Vec<Value>) -> Object {
    let mut says = of_specified();
    says.insert("specifyPreference".to_owned(), json!({"staticSpecifyList": list}));
    says
}

/// Returns a strategy by which the clusters of `target` share all replicas of the workload,
/// whatever their number.
fn of_regions(target: &Value) -> Object {
    let mut says = of_specified();
    says.insert("extendReplicaDivisionPreference".to_owned(), json!(REGIONS));
    let list = json!({"extendStaticList": [{"targetCluster": target, "extendFields": {}}]});
    says.insert("extendClusterPreferences".to_owned(), list);
    says
}

fn of_specified() -> Object {
    let specified = [("replicaSchedulingType", "Divided"), ("replicaDivisionPreference", "Specified")];
    specified.into_iter().map(|(name, value)| (name.to_owned(), json!(value))).collect()
}

/// Translates the annotation of a policy. Returns `None` if it is absent or malformed.
fn of_annotation(policy: &Object) -> Option<Object> {
    let annotations = policy.get("metadata").and_then(|metadata| metadata.get("annotations"))?;
    of_text(annotations.get(ANNOTATION)?.as_str()?).ok()
}

/// Translates the `extend…` fields. Returns `None` if they are for another scheduler, or if an
/// entry has no number of replicas.
fn of_extension(scheduler_name: &str, strategy: &Object) -> Option<Object> {
    if !is_ours(scheduler_name, strategy) {
        return None;
    }
    let name = tree::text(strategy, "extendReplicaDivisionPreference");
    let entries = entries_of(strategy);
    if entries.is_empty() || (name == REGIONS && entries.iter().all(|entry| number_of(entry).is_none())) {
        return Some(of_specified());
    }
    let list: Option<Vec<Value>> = entries
        .iter()
        .map(|entry| Some(json!({"targetCluster": entry.get("targetCluster")?, "replicas": number_of(entry)?})))
        .collect();
    list.map(of_list)
}

/// Returns whether this scheduler implements the extended strategy.
fn is_ours(scheduler_name: &str, strategy: &Object) -> bool {
    let name = tree::text(strategy, "extendReplicaDivisionPreference");
    ["", DEFAULT_SCHEDULER].contains(&scheduler_name) && KNOWN_STRATEGIES.contains(&name)
}

fn entries_of(strategy: &Object) -> &[Value] {
    let entries = strategy.get("extendClusterPreferences").and_then(|preferences| preferences.get("extendStaticList"));
    entries.and_then(Value::as_array).map_or(&[][..], Vec::as_slice)
}

fn number_of(entry: &Value) -> Option<&Value> {
    entry.get("extendFields").and_then(|fields| fields.get("replicas"))
}

/// Adds a total to the annotation's text. Returns `None` if it already has a total, or if its form
/// has none.
pub fn with_total(text: &str, total: &Value) -> Option<String> {
    let mut written: Object = serde_json::from_str(text).ok()?;
    if !written.contains_key("idcs") || written.contains_key("replicas") {
        return None;
    }
    written.insert("replicas".to_owned(), total.clone());
    serde_json::to_string(&written).ok()
}

/// Translates the annotation of a policy. `old` is the stored policy, on an update.
pub fn prepare_annotation(policy: &mut Object, old: Option<&Object>) {
    let Some(says) = of_annotation(policy) else { return };
    let said = old.and_then(of_annotation);
    if let Some(strategy) = tree::object_or_new(policy, &STRATEGY) {
        translate(strategy, says, said);
    }
}

/// Translates the `extend…` fields of a policy or a binding. `old` is the stored object, on an
/// update.
pub fn prepare_extension(object: &mut Object, old: Option<&Object>) {
    let Some(says) = extension_of(object) else { return };
    let said = old.and_then(extension_of);
    if let Some(strategy) = tree::object(object, &STRATEGY) {
        translate(strategy, says, said);
    }
}

fn extension_of(object: &Object) -> Option<Object> {
    let spec = object.get("spec")?;
    let strategy = spec.get("placement")?.get("replicaScheduling")?.as_object()?;
    of_extension(tree::text(spec.as_object()?, "schedulerName"), strategy)
}

/// Writes the translation `says` into a strategy. `said` is the translation of the stored object. A
/// field that still has its value gets the new value. Other fields that are not empty stay.
fn translate(strategy: &mut Object, says: Object, said: Option<Object>) {
    for (name, value) in said.into_iter().flatten() {
        if strategy.get(&name) == Some(&value) && says.get(&name) != Some(&value) {
            strategy.remove(&name);
        }
    }
    for (name, value) in says {
        let field = strategy.entry(name).or_insert(Value::Null);
        if field.is_null() || *field == "" {
            *field = value;
        }
    }
}

/// Rejects an annotation that is malformed, or that the policy contradicts.
pub fn check_annotation(metadata: &ObjectMeta, placement: Option<&Placement>, errors: &mut FieldErrors) {
    let Some(text) = metadata.annotations.get(ANNOTATION) else { return };
    match of_text(text) {
        Ok(says) => {
            let strategy = placement.and_then(|placement| placement.replica_scheduling.as_ref());
            let path = FieldPath::new("spec.placement.replicaScheduling");
            contradictions(&says, &as_object(strategy), &format!("the annotation {ANNOTATION}"), &path, errors);
        }
        Err(fault) => errors.invalid(&FieldPath::new("metadata.annotations").key(ANNOTATION), text, fault),
    }
}

/// Rejects `extend…` fields that the rest of the strategy contradicts. `path` is the path of the
/// strategy.
pub fn check_extension(
    scheduler_name: Option<&str>,
    strategy: &ReplicaSchedulingStrategy,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    let name = strategy.extend_replica_division_preference.as_deref().unwrap_or_default();
    if !KNOWN_STRATEGIES.contains(&name) {
        return;
    }
    let strategy = as_object(Some(strategy));
    if let Some(says) = of_extension(scheduler_name.unwrap_or_default(), &strategy) {
        contradictions(&says, &strategy, &format!("extendReplicaDivisionPreference {name:?}"), path, errors);
    }
}

fn as_object(strategy: Option<&ReplicaSchedulingStrategy>) -> Object {
    match serde_json::to_value(strategy) {
        Ok(Value::Object(strategy)) => strategy,
        _ => Object::new(),
    }
}

fn contradictions(says: &Object, strategy: &Object, source: &str, path: &FieldPath, errors: &mut FieldErrors) {
    for (name, value) in says {
        let written = strategy.get(name).unwrap_or(&Value::Null);
        if written != value {
            let detail = format!("contradicts {source}, which means {value}: remove one of the two, or write the same");
            errors.invalid(&path.child(name), written, detail);
        }
    }
}

/// Returns warnings about the numbers in a policy that is accepted nevertheless.
pub fn advise(policy: &Object) -> Vec<String> {
    let mut warnings = overlaps(policy);
    warnings.extend(unnumbered(policy));
    warnings
}

/// Returns a warning about entries of `extendStaticList` without numbers. Such a list is not
/// translated, and a binding with such a strategy is not scheduled.
fn unnumbered(policy: &Object) -> Option<String> {
    const LIST: &str = "extendClusterPreferences.extendStaticList";
    let spec = policy.get("spec")?;
    let strategy = spec.pointer("/placement/replicaScheduling")?.as_object()?;
    let scheduler_name = tree::text(spec.as_object()?, "schedulerName");
    let is_served = !tree::text(strategy, "replicaDivisionPreference").is_empty();
    if is_served || !is_ours(scheduler_name, strategy) || of_extension(scheduler_name, strategy).is_some() {
        return None;
    }
    let index = entries_of(strategy).iter().position(|entry| number_of(entry).is_none())?;
    let name = tree::text(strategy, "extendReplicaDivisionPreference");
    Some(format!(
        "spec.placement.replicaScheduling.{LIST}[{index}]: {name} needs extendFields.replicas in each entry, \
         and nothing is scheduled without it"
    ))
}

/// Returns warnings about clusters that two entries name. Only the first entry applies to such a
/// cluster (C22).
fn overlaps(policy: &Object) -> Vec<String> {
    const LIST: &str = "/placement/replicaScheduling/specifyPreference/staticSpecifyList";
    let entries = policy.get("spec").and_then(|spec| spec.pointer(LIST)).and_then(Value::as_array);
    let mut first: BTreeMap<&str, usize> = BTreeMap::new();
    let mut warnings = Vec::new();
    for (index, entry) in entries.into_iter().flatten().enumerate() {
        let names = entry.pointer("/targetCluster/clusterNames").and_then(Value::as_array);
        for name in names.into_iter().flatten().filter_map(Value::as_str) {
            match first.entry(name) {
                Entry::Vacant(vacant) => drop(vacant.insert(index)),
                Entry::Occupied(known) if *known.get() == index => {}
                Entry::Occupied(known) => warnings.push(format!(
                    "spec{}[{index}]: cluster {name:?} is in entry {} already, which alone counts for it",
                    LIST.replace('/', "."),
                    known.get()
                )),
            }
        }
    }
    warnings
}
