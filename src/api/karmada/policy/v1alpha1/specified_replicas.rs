//! The other two ways of the proposal "Specify replicas to schedule" to write numbers of replicas:
//! an annotation with JSON, and the `extend…` fields with a name that we know. Both are written out
//! as `specifyPreference`, the one form that is scheduled by (mission C14); what the user wrote
//! stays beside it.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::api::meta::ObjectMeta;
use crate::api::tree::{self, Object};
use crate::k8s::{FieldErrors, FieldPath};

/// The annotation, with one of the forms of `Written` in it.
pub const ANNOTATION: &str = "scheduling.karmada.io/specified-replicas";

/// Names of strategies in `extendReplicaDivisionPreference` that mean what `Specified` means.
const KNOWN_STRATEGIES: &[&str] = &["SpecifiedClusters", "SpecifiedRegions", "Regions"];

const DEFAULT_SCHEDULER: &str = "default-scheduler";

/// `{"specifiedClusters": [{"name": "member1", "replicas": 2}]}` and its two sisters.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Written {
    specified_clusters: Option<Vec<Share>>,
    /// Regions, each with the number that its clusters have together.
    specified_idcs: Option<Vec<Share>>,
    /// Regions whose clusters have `replicas` together.
    idcs: Option<Vec<Region>>,
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

/// `staticSpecifyList` of the annotation's text.
fn parse(text: &str) -> Result<Vec<Value>, String> {
    let written: Written = serde_json::from_str(text).map_err(|error| format!("cannot be read: {error}"))?;
    let region = |names: Vec<&str>| json!({"fieldSelector": {"matchExpressions": [{"key": "region", "operator": "In", "values": names}]}});
    let entry = |target: Value, replicas: i64| json!({"targetCluster": target, "replicas": replicas});
    match (&written.specified_clusters, &written.specified_idcs, &written.idcs) {
        (Some(clusters), None, None) => {
            Ok(clusters.iter().map(|share| entry(json!({"clusterNames": [share.name]}), share.replicas)).collect())
        }
        (None, Some(regions), None) => {
            Ok(regions.iter().map(|share| entry(region(vec![&share.name]), share.replicas)).collect())
        }
        (None, None, Some(regions)) => {
            let names = regions.iter().map(|region| region.name.as_str()).collect();
            Ok(written.replicas.map(|total| entry(region(names), total)).into_iter().collect())
        }
        _ => Err("must have exactly one of specifiedClusters, specifiedIdcs and idcs".to_owned()),
    }
}

/// The annotation's text with the total that was written elsewhere, if it has room for one.
pub fn with_total(text: &str, total: &Value) -> Option<String> {
    let mut written: Object = serde_json::from_str(text).ok()?;
    if !written.contains_key("idcs") || written.contains_key("replicas") {
        return None;
    }
    written.insert("replicas".to_owned(), total.clone());
    serde_json::to_string(&written).ok()
}

/// Writes the annotation of a policy out. One that cannot be read is left to `check`.
pub fn prepare_annotation(policy: &mut Object) {
    let annotations = policy.get("metadata").and_then(|metadata| metadata.get("annotations"));
    let text = annotations.and_then(|annotations| annotations.get(ANNOTATION)).and_then(Value::as_str);
    let Some(list) = text.and_then(|text| parse(text).ok()) else { return };
    if let Some(strategy) = tree::object_or_new(policy, &["spec", "placement", "replicaScheduling"]) {
        write_out(strategy, list);
    }
}

/// Writes the `extend…` fields out, where the default scheduler is to serve them.
pub fn prepare_extension(spec: &mut Object) {
    if !["", DEFAULT_SCHEDULER].contains(&tree::text(spec, "schedulerName")) {
        return;
    }
    let Some(strategy) = tree::object(spec, &["placement", "replicaScheduling"]) else { return };
    if !KNOWN_STRATEGIES.contains(&tree::text(strategy, "extendReplicaDivisionPreference")) {
        return;
    }
    let entries = strategy.get("extendClusterPreferences").and_then(|preferences| preferences.get("extendStaticList"));
    let entries = entries.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let list: Option<Vec<Value>> = entries
        .iter()
        .map(|entry| {
            let replicas = entry.get("extendFields")?.get("replicas")?;
            Some(json!({"targetCluster": entry.get("targetCluster")?, "replicas": replicas}))
        })
        .collect();
    if let Some(list) = list {
        write_out(strategy, list);
    }
}

fn write_out(strategy: &mut Object, list: Vec<Value>) {
    strategy.insert("replicaSchedulingType".to_owned(), json!("Divided"));
    strategy.insert("replicaDivisionPreference".to_owned(), json!("Specified"));
    if list.is_empty() {
        strategy.remove("specifyPreference");
    } else {
        strategy.insert("specifyPreference".to_owned(), json!({"staticSpecifyList": list}));
    }
}

/// Clusters that two entries name: the first entry has them, and whoever wrote the second may not
/// know (C22).
pub fn overlaps(policy: &Object) -> Vec<String> {
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

/// Refuses an annotation that cannot be read: the policy would do something else than it says.
pub fn check(metadata: &ObjectMeta, errors: &mut FieldErrors) {
    if let Some(text) = metadata.annotations.get(ANNOTATION)
        && let Err(fault) = parse(text)
    {
        errors.invalid(&FieldPath::new("metadata.annotations").key(ANNOTATION), text, fault);
    }
}
