//! Repair of objects that follow the samples of the proposal "Specify replicas to schedule" (C15).
//!
//! The samples have mistakes, and users copy them. Each correction is reported as a warning of one
//! sentence that starts with the written field and contains the correct notation. The sentence has
//! one of these forms, so that programs can parse it:
//!
//! - `FIELD: was read as VALUE`: the field gets another value.
//! - `FIELD: "old" was read as VALUE`: the same, with the previous value.
//! - `FIELD: was read as OTHER`: the value moves to the field `OTHER`.
//! - `FIELD: was read as OTHER: VALUE`: `OTHER` gets this value, and `FIELD` is removed.
//! - `FIELD: … was left out`: the field is removed.
//!
//! Every field is named by its full path, and every value is YAML. The corrections apply in the
//! order of the sentences.
//!
//! The repair runs before unknown fields are dropped, because the samples use fields that do not
//! exist.

use serde_json::{Value, json};

use super::replica_scheduling::REGIONS;
use super::specified_replicas::{self, KNOWN_STRATEGIES};
use crate::tree::{self, Object};

/// Fields of an affinity. Some samples write them as siblings of `targetCluster` instead of inside
/// it.
const AFFINITY_FIELDS: &[&str] = &["labelSelector", "fieldSelector", "clusterNames", "exclude"];

const STRATEGY: &str = "spec.placement.replicaScheduling";

/// Repairs a policy, and returns the warnings.
pub fn mend_policy(object: &mut Object) -> Vec<String> {
    let mut notes = Vec::new();
    mend_annotation(object, &mut notes);
    mend_total(object, &mut notes);
    notes.extend(mend_placement(object));
    notes
}

/// Repairs the placement of an object that has one under `spec`, and returns the warnings.
pub fn mend_placement(object: &mut Object) -> Vec<String> {
    let mut notes = Vec::new();
    let Some(strategy) = tree::object(object, &["spec", "placement", "replicaScheduling"]) else { return notes };
    mend_preference(strategy, &mut notes);
    for list in LISTS {
        list.mend(strategy, &mut notes);
    }
    notes
}

/// Corrects `replicaDivisionPreference` where a sample has the name of an extended strategy in it.
fn mend_preference(strategy: &mut Object, notes: &mut Vec<String>) {
    const FIELD: &str = "replicaDivisionPreference";
    const EXTENDED: &str = "extendReplicaDivisionPreference";
    let preference = tree::text(strategy, FIELD).to_owned();
    if !KNOWN_STRATEGIES.contains(&preference.as_str()) {
        return;
    }
    // `Specified` alone means equal weights, so `Regions` without numbers has to keep its name.
    let keeps_name = preference == REGIONS && !has_list(strategy);
    if !keeps_name {
        strategy.insert(FIELD.to_owned(), json!("Specified"));
        notes.push(format!("{STRATEGY}.{FIELD}: {preference:?} was read as \"Specified\""));
    } else if tree::text(strategy, EXTENDED).is_empty() {
        strategy.remove(FIELD);
        notes.push(format!("{STRATEGY}.{FIELD}: was read as {STRATEGY}.{EXTENDED}: {preference:?}"));
        strategy.insert(EXTENDED.to_owned(), json!(preference));
    }
}

/// Returns whether `specifyPreference` has a list, under either name.
fn has_list(strategy: &Object) -> bool {
    let lists = strategy.get("specifyPreference").and_then(Value::as_object);
    lists.is_some_and(|lists| ["staticSpecifyList", "extendStaticList"].iter().any(|name| lists.contains_key(*name)))
}

/// A list of entries that have a `targetCluster` each.
struct List {
    owner: &'static str,
    name: &'static str,
    /// Name of the list in some samples.
    alias: &'static str,
    number: Number,
}

/// The field of an entry that contains its number of replicas.
enum Number {
    /// `replicas: 2`
    Own,
    /// `extendFields: {replicas: 2}`
    Extended,
    /// The entry has a weight instead.
    None,
}

const LISTS: &[List] = &[
    List { owner: "weightPreference", name: "staticWeightList", alias: "", number: Number::None },
    List { owner: "specifyPreference", name: "staticSpecifyList", alias: "extendStaticList", number: Number::Own },
    List {
        owner: "extendClusterPreferences",
        name: "extendStaticList",
        alias: "staticSpecifyList",
        number: Number::Extended,
    },
];

impl List {
    fn mend(&self, strategy: &mut Object, notes: &mut Vec<String>) {
        let Some(owner) = tree::object(strategy, &[self.owner]) else { return };
        if !owner.contains_key(self.name)
            && let Some(list) = owner.remove(self.alias)
        {
            owner.insert(self.name.to_owned(), list);
            let path = self.path();
            notes.push(format!("{path}.{}: was read as {path}.{}", self.alias, self.name));
        }
        for (index, entry) in tree::items(owner, self.name) {
            let hoisted = hoist(entry);
            let renamed = self.number.mend(entry);
            if hoisted || renamed {
                let shown = serde_json::to_string(entry).unwrap_or_default();
                notes.push(format!("{}.{}[{index}]: was read as {shown}", self.path(), self.name));
            }
        }
    }

    /// Returns the path of the object that contains the list, for messages.
    fn path(&self) -> String {
        format!("{STRATEGY}.{}", self.owner)
    }
}

impl Number {
    fn mend(&self, entry: &mut Object) -> bool {
        match self {
            Number::Own if !entry.contains_key("replicas") => {
                let Some(fields) = entry.remove("extendFields") else { return false };
                entry.extend(fields.get("replicas").cloned().map(|number| ("replicas".to_owned(), number)));
                true
            }
            Number::Extended if !entry.contains_key("extendFields") => {
                let Some(number) = entry.remove("replicas") else { return false };
                entry.insert("extendFields".to_owned(), json!({"replicas": number}));
                true
            }
            _ => false,
        }
    }
}

/// Moves the fields of an affinity into `targetCluster`. If the YAML has them at the same
/// indentation as `- targetCluster:`, then `targetCluster` is null and the fields are its siblings.
fn hoist(entry: &mut Object) -> bool {
    if entry.get("targetCluster").is_some_and(|target| !target.is_null()) {
        return false;
    }
    let stray: Object =
        AFFINITY_FIELDS.iter().filter_map(|name| Some(((*name).to_owned(), entry.remove(*name)?))).collect();
    if stray.is_empty() {
        return false;
    }
    entry.insert("targetCluster".to_owned(), Value::Object(stray));
    true
}

/// Moves `metadata.annotation: '<json>'` to the annotations.
fn mend_annotation(object: &mut Object, notes: &mut Vec<String>) {
    let Some(metadata) = tree::object(object, &["metadata"]) else { return };
    if !metadata.get("annotation").is_some_and(Value::is_string) {
        return;
    }
    let name = specified_replicas::ANNOTATION;
    let text = metadata.remove("annotation").unwrap_or_default();
    let Some(annotations) = tree::object_or_new(metadata, &["annotations"]) else { return };
    if annotations.contains_key(name) {
        let why = format!("there is no such field, and metadata.annotations[{name}] is there already");
        notes.push(format!("metadata.annotation: {why}: it was left out"));
    } else {
        annotations.insert(name.to_owned(), text);
        notes.push(format!("metadata.annotation: was read as metadata.annotations[{name}]"));
    }
}

/// Applies `spec.replicas: 4` of a policy as the total for all its clusters (R149).
fn mend_total(object: &mut Object, notes: &mut Vec<String>) {
    let Some(spec) = tree::object(object, &["spec"]) else { return };
    if !spec.get("replicas").is_some_and(Value::is_number) {
        return;
    }
    let total = spec.remove("replicas").unwrap_or_default();
    let note =
        if has_annotation(object) { total_of_annotation(object, &total) } else { total_of_strategy(object, &total) };
    notes.push(note.unwrap_or_else(|| {
        "spec.replicas: policies have no such field, and other fields say where replicas go: it was left out".to_owned()
    }));
}

fn has_annotation(object: &mut Object) -> bool {
    tree::object(object, &["metadata", "annotations"])
        .is_some_and(|annotations| annotations.contains_key(specified_replicas::ANNOTATION))
}

fn total_of_annotation(object: &mut Object, total: &Value) -> Option<String> {
    let name = specified_replicas::ANNOTATION;
    let annotation = tree::object(object, &["metadata", "annotations"])?.get_mut(name)?;
    let text = specified_replicas::with_total(annotation.as_str()?, total)?;
    let quoted = text.replace('\'', "''");
    *annotation = json!(text);
    Some(format!("spec.replicas: was read as metadata.annotations[{name}]: '{quoted}'"))
}

fn total_of_strategy(object: &mut Object, total: &Value) -> Option<String> {
    let affinity = tree::object(object, &["spec", "placement", "clusterAffinity"]).cloned().unwrap_or_default();
    let known = tree::object(object, &["spec", "placement", "replicaScheduling"]);
    if !known.is_none_or(|strategy| takes_total(strategy)) {
        return None;
    }
    let strategy = tree::object_or_new(object, &["spec", "placement", "replicaScheduling"])?;
    strategy.insert("replicaSchedulingType".to_owned(), json!("Divided"));
    strategy.insert("replicaDivisionPreference".to_owned(), json!("Specified"));
    let list = json!([{"targetCluster": affinity, "replicas": total}]);
    strategy.insert("specifyPreference".to_owned(), json!({"staticSpecifyList": list}));
    let shown = serde_json::to_string(strategy).unwrap_or_default();
    Some(format!("spec.replicas: was read as {STRATEGY}: {shown}"))
}

/// Returns whether the strategy can have a total: it has no numbers and no weights, and names no
/// other strategy.
fn takes_total(strategy: &Object) -> bool {
    let is_one_of = |name: &str, known: &[&str]| known.contains(&tree::text(strategy, name));
    let has = |name: &str| strategy.get(name).is_some_and(|value| !value.is_null());
    is_one_of("replicaSchedulingType", &["", "Divided"])
        && is_one_of("replicaDivisionPreference", &["", "Specified", "SpecifiedClusters", "SpecifiedRegions", REGIONS])
        && is_one_of("extendReplicaDivisionPreference", &["", "SpecifiedClusters", "SpecifiedRegions", REGIONS])
        && !["specifyPreference", "weightPreference", "extendClusterPreferences"].into_iter().any(has)
}
