//! Reads what the samples of the proposal "Specify replicas to schedule" mean rather than what they
//! say (mission C15): people copy them. Each change is told in a sentence that shows what to write
//! instead.
//!
//! Runs before unknown fields are dropped, because the meaning sits in fields that do not exist.

use serde_json::{Value, json};

use super::specified_replicas;
use crate::api::tree::{self, Object};

/// What selects clusters, when it is written beside `targetCluster` and not in it.
const AFFINITY_FIELDS: &[&str] = &["labelSelector", "fieldSelector", "clusterNames", "exclude"];

/// Names that the proposal's samples give to the preference `Specified`.
const SPECIFIED_ALIASES: &[&str] = &["SpecifiedClusters", "SpecifiedRegions", "Regions"];

const STRATEGY: &str = "spec.placement.replicaScheduling";

/// For both policies.
pub fn mend_policy(object: &mut Object) -> Vec<String> {
    let mut notes = Vec::new();
    mend_annotation(object, &mut notes);
    mend_total(object, &mut notes);
    notes.extend(mend_placement(object));
    notes
}

/// For everything that has a placement under `spec`.
pub fn mend_placement(object: &mut Object) -> Vec<String> {
    let mut notes = Vec::new();
    let Some(strategy) = tree::object(object, &["spec", "placement", "replicaScheduling"]) else { return notes };
    let preference = tree::text(strategy, "replicaDivisionPreference").to_owned();
    if SPECIFIED_ALIASES.contains(&preference.as_str()) {
        strategy.insert("replicaDivisionPreference".to_owned(), json!("Specified"));
        notes.push(format!("{STRATEGY}.replicaDivisionPreference: {preference:?} was read as \"Specified\""));
    }
    for list in LISTS {
        list.mend(strategy, &mut notes);
    }
    notes
}

/// A list of entries with a `targetCluster` each.
struct List {
    owner: &'static str,
    name: &'static str,
    /// The name that some samples give it.
    alias: &'static str,
    number: Number,
}

/// Where an entry has its number of replicas.
enum Number {
    /// `replicas: 2`
    Own,
    /// `extendFields: {replicas: 2}`
    Extended,
    /// It has a weight instead.
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
        let path = format!("{STRATEGY}.{}", self.owner);
        let Some(owner) = tree::object(strategy, &[self.owner]) else { return };
        if !owner.contains_key(self.name)
            && let Some(list) = owner.remove(self.alias)
        {
            owner.insert(self.name.to_owned(), list);
            notes.push(format!("{path}.{}: was read as {}", self.alias, self.name));
        }
        for (index, entry) in tree::items(owner, self.name) {
            let hoisted = hoist(entry);
            let renamed = self.number.mend(entry);
            if hoisted || renamed {
                let shown = serde_json::to_string(entry).unwrap_or_default();
                notes.push(format!("{path}.{}[{index}]: was read as {shown}", self.name));
            }
        }
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

/// `- targetCluster:` with its fields at its own indentation leaves it null and them beside it.
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

/// `metadata.annotation: '<json>'`
fn mend_annotation(object: &mut Object, notes: &mut Vec<String>) {
    let Some(metadata) = tree::object(object, &["metadata"]) else { return };
    if !metadata.get("annotation").is_some_and(Value::is_string) {
        return;
    }
    let text = metadata.remove("annotation").unwrap_or_default();
    let name = specified_replicas::ANNOTATION;
    if let Some(annotations) = tree::object_or_new(metadata, &["annotations"]) {
        annotations.entry(name).or_insert(text);
        notes.push(format!("metadata.annotation: was read as metadata.annotations[{name}]"));
    }
}

/// `spec.replicas: 4` on a policy is the number that all its clusters have together.
fn mend_total(object: &mut Object, notes: &mut Vec<String>) {
    let Some(spec) = tree::object(object, &["spec"]) else { return };
    if !spec.get("replicas").is_some_and(Value::is_number) {
        return;
    }
    let total = spec.remove("replicas").unwrap_or_default();
    if let Some(annotation) = tree::object(object, &["metadata", "annotations"])
        .and_then(|annotations| annotations.get_mut(specified_replicas::ANNOTATION))
    {
        if let Some(text) = annotation.as_str().and_then(|text| specified_replicas::with_total(text, &total)) {
            *annotation = json!(text);
            notes.push(format!("spec.replicas: was read as part of the annotation: {text}"));
        } else {
            notes.push("spec.replicas: policies have no such field, and it was left out".to_owned());
        }
        return;
    }
    let affinity = tree::object(object, &["spec", "placement", "clusterAffinity"]).cloned().unwrap_or_default();
    let strategy = tree::object_or_new(object, &["spec", "placement", "replicaScheduling"]);
    let Some(strategy) = strategy.filter(|strategy| takes_total(strategy)) else {
        notes.push("spec.replicas: policies have no such field, and it was left out".to_owned());
        return;
    };
    strategy.insert("replicaSchedulingType".to_owned(), json!("Divided"));
    strategy.insert("replicaDivisionPreference".to_owned(), json!("Specified"));
    let preference = json!({"staticSpecifyList": [{"targetCluster": affinity, "replicas": total}]});
    notes.push(format!("spec.replicas: was read as {STRATEGY}.specifyPreference: {preference}"));
    strategy.insert("specifyPreference".to_owned(), preference);
}

/// Nothing that is written down says otherwise.
fn takes_total(strategy: &Object) -> bool {
    let preference = tree::text(strategy, "replicaDivisionPreference");
    let divided = ["", "Divided"].contains(&tree::text(strategy, "replicaSchedulingType"));
    let preferred = ["", "Specified"].contains(&preference) || SPECIFIED_ALIASES.contains(&preference);
    divided && preferred && !strategy.contains_key("specifyPreference")
}
