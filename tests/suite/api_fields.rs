//! Compares the schemas with upstream's: every field has the same type and bounds, and survives a
//! round trip through the typed form. `tests/data/karmada.tsv` and `karmada-policy.tsv` were
//! generated from upstream's definitions.

use std::collections::{BTreeMap, BTreeSet};

use ballast::api;
use ballast::k8s::FieldErrors;
use ballast::resource::schema::{Format, ListType, Node, Shape, Text, Width};
use ballast::resource::{Kinds, ResourceKind, Scope};
use serde_json::{Map, Value, json};

use crate::support::fields::{Row, rows};

const TABLE: &str = include_str!("../data/karmada.tsv");
/// The other kinds of `policy.karmada.io`.
const POLICY_TABLE: &str = include_str!("../data/karmada-policy.tsv");

/// Fields that are not upstream's (D54).
const ADDITIONS: &[&str] = &[
    "ResourceBinding spec.forceRescheduling",
    "ClusterResourceBinding spec.forceRescheduling",
    "* spec.placement.replicaScheduling.specifyPreference",
    "* spec.placement.replicaScheduling.extendReplicaDivisionPreference",
    "* spec.placement.replicaScheduling.extendClusterPreferences",
    "* spec.placement.replicaScheduling.whenUnsatisfiable",
    "* spec.placement.replicaScheduling.clusterBounds",
    "* spec.placement.spreadConstraints[].whenUnsatisfiable",
];

/// Values that the seed documents and older versions (D127) add to upstream's enums.
const ADDED_VALUES: &[(&str, &str)] = &[
    ("spec.placement.replicaScheduling.replicaDivisionPreference", "Specified"),
    ("spec.failover.application.purgeMode", "Immediately"),
    ("spec.failover.application.purgeMode", "Graciously"),
    ("spec.gracefulEvictionTasks[].purgeMode", "Immediately"),
    ("spec.gracefulEvictionTasks[].purgeMode", "Graciously"),
];

fn kinds() -> Kinds {
    Kinds::new(api::karmada::rows())
}

#[test]
fn every_field_of_upstream_is_in_the_schema_as_it_is_there() {
    let kinds = kinds();
    let mut faults = Vec::new();
    let mut seen = 0;
    for row in rows(TABLE).chain(rows(POLICY_TABLE)) {
        seen += 1;
        let kind = kinds.rows().iter().find(|kind| kind.kind == row.kind).expect(row.kind);
        match find(kind.schema.root(), row.path) {
            None => faults.push(format!("{} {}: missing", row.kind, row.path)),
            Some(found) => {
                for difference in differences(&row, &found) {
                    faults.push(format!("{} {}: {difference}", row.kind, row.path));
                }
            }
        }
    }
    assert_eq!(seen, 1341, "rows of fields in the table");
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn what_is_not_upstream_is_what_the_seeds_add() {
    let table: BTreeSet<(&str, &str)> = rows(TABLE).chain(rows(POLICY_TABLE)).map(|row| (row.kind, row.path)).collect();
    let mut strangers = Vec::new();
    for kind in kinds().rows() {
        if kind.kind == "RescheduleTask" {
            continue;
        }
        let mut paths = Vec::new();
        for part in ["spec", "status"] {
            if let Some(field) = kind.schema.root().field(part) {
                paths.push(part.to_owned());
                list_paths(&field.node, part, &mut paths);
            }
        }
        strangers.extend(
            paths
                .iter()
                .filter(|path| !table.contains(&(kind.kind, path.as_str())) && !is_addition(kind.kind, path))
                .map(|path| format!("{} {path}", kind.kind)),
        );
    }
    assert!(strangers.is_empty(), "{strangers:#?}");
}

#[test]
fn names_scopes_and_columns_are_those_of_upstream() {
    // Upstream has no short name for the one kind that needs it most (D50).
    check_names(&kinds(), &TABLE.replacen("shortNames=\tcategories=\tscope", "shortNames=wr\tcategories=\tscope", 1));
    check_names(&kinds(), POLICY_TABLE);
}

#[track_caller]
pub fn check_names(kinds: &Kinds, table: &str) {
    let mut kind: Option<&ResourceKind> = None;
    let mut columns: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for line in table.lines() {
        let cells: Vec<&str> = line.split('\t').collect();
        match cells.as_slice() {
            ["# kind", api_version, name, facts @ ..] => {
                let row = kinds.rows().iter().find(|row| row.kind == *name).expect(name);
                kind = Some(row);
                let known = [
                    format!("plural={}", row.plural),
                    format!("singular={}", row.singular),
                    format!("shortNames={}", row.short_names.join(",")),
                    format!("categories={}", row.categories.join(",")),
                    format!("scope={}", if row.scope == Scope::Cluster { "Cluster" } else { "Namespaced" }),
                    format!("statusSubresource={}", row.status_subresource),
                ];
                assert_eq!((row.api_version().as_str(), known.as_slice()), (*api_version, own(facts).as_slice()));
            }
            ["# column", name, title, column_type, path, priority] => {
                columns.entry(name).or_default().push([*title, *column_type, *path, *priority].join(" "));
            }
            _ => {}
        }
    }
    assert!(kind.is_some());
    for (name, columns) in columns {
        let row = kinds.rows().iter().find(|row| row.kind == name).expect(name);
        let mut ours: Vec<String> = row
            .columns
            .iter()
            .map(|column| format!("{} {} {} priority={}", column.name, column.kind, column.path, column.priority))
            .collect();
        // Additional columns are shown with `-o wide` only (D50).
        ours.retain(|column| columns.contains(column) || !column.ends_with("priority=1"));
        assert_eq!(ours, columns, "{name}");
    }
}

#[test]
fn an_object_with_every_field_set_survives_the_typed_form() {
    check_full_objects(&kinds(), typed);
}

/// Checks an object that has every field set: nothing is pruned, no default is missing, it is
/// valid, and `typed`, which sends it through the type of its kind, does not change it.
pub fn check_full_objects(kinds: &Kinds, typed: fn(&str, &Value) -> Value) {
    for kind in kinds.rows().iter().filter(|kind| kind.is_stored_version()) {
        let mut full = full_object(kind);
        let sent = full.clone();
        assert_eq!(kind.schema.prune(&mut full).paths, Vec::<String>::new(), "{}", kind.kind);
        kind.schema.default(&mut full);
        assert_eq!(full, sent, "{}: nothing is left to default", kind.kind);
        assert_eq!(kind.schema.validate(&full), FieldErrors::default(), "{}", kind.kind);
        assert_eq!(typed(kind.kind, &Value::Object(full)), Value::Object(sent), "{}", kind.kind);
    }
}

/// Sends the object through the type of its kind.
fn typed(kind: &str, object: &Value) -> Value {
    use api::karmada::{apps, cluster, policy, task, work};
    match kind {
        "Event" => through::<api::core::Event>(object),
        "WorkloadRebalancer" => through::<apps::v1alpha1::WorkloadRebalancer>(object),
        "Cluster" => through::<cluster::v1alpha1::Cluster>(object),
        "ClusterOverridePolicy" => through::<policy::v1alpha1::ClusterOverridePolicy>(object),
        "ClusterTaintPolicy" => through::<policy::v1alpha1::ClusterTaintPolicy>(object),
        "FederatedResourceQuota" => through::<policy::v1alpha1::FederatedResourceQuota>(object),
        "OverridePolicy" => through::<policy::v1alpha1::OverridePolicy>(object),
        "ClusterPropagationPolicy" => through::<policy::v1alpha1::ClusterPropagationPolicy>(object),
        "PropagationPolicy" => through::<policy::v1alpha1::PropagationPolicy>(object),
        "RescheduleTask" => through::<task::v1alpha1::RescheduleTask>(object),
        "ClusterResourceBinding" => through::<work::v1alpha2::ClusterResourceBinding>(object),
        "ResourceBinding" => through::<work::v1alpha2::ResourceBinding>(object),
        other => panic!("{other} is a new kind: name its type here"),
    }
}

pub fn through<T: serde::de::DeserializeOwned + serde::Serialize>(object: &Value) -> Value {
    let from_text: T = serde_json::from_str(&object.to_string()).unwrap();
    let from_tree: T = serde_json::from_value(object.clone()).unwrap();
    let written = serde_json::to_value(&from_text).unwrap();
    assert_eq!(written, serde_json::to_value(&from_tree).unwrap());
    written
}

fn own(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

/// A node of a schema, with the constraints of its parent.
pub struct Found {
    pub node: Node,
    required: bool,
    default: Option<Value>,
}

pub fn find(root: &Node, path: &str) -> Option<Found> {
    let mut found = Found { node: root.clone(), required: false, default: None };
    for step in path.split('.') {
        let name = step.trim_end_matches("[]").trim_end_matches("{}");
        let field = found.node.field(name)?;
        found = Found { node: (*field.node).clone(), required: field.required, default: field.default.clone() };
        if step.len() > name.len() {
            let inner = match &found.node.shape {
                Shape::Array(array) => array.items.clone(),
                Shape::Object(object) => object.values.clone()?,
                _ => return None,
            };
            found = Found { node: (*inner).clone(), required: false, default: None };
        }
    }
    Some(found)
}

pub fn differences(row: &Row, found: &Found) -> Vec<String> {
    let mut differences = Vec::new();
    let mut compare = |what: &str, ours: Value, theirs: Value| {
        if ours != theirs {
            differences.push(format!("{what} is {ours}, upstream {theirs}"));
        }
    };
    compare("type", json!(type_name(&found.node)), json!(row.field_type));
    compare("required", json!(found.required), json!(row.required));
    let mut ours = rules_of(&found.node);
    if let Some(default) = &found.default {
        ours.insert("default", default.clone());
    }
    let mut theirs = row.rules.clone();
    for (path, value) in ADDED_VALUES {
        if row.path == *path {
            theirs.get_mut("enum").and_then(Value::as_array_mut).expect(path).push(json!(value));
        }
    }
    for name in ours.keys().chain(theirs.keys()).copied().collect::<BTreeSet<_>>() {
        let (ours, theirs) = (ours.get(name), theirs.get(name));
        compare(name, ours.cloned().unwrap_or_default(), theirs.cloned().unwrap_or_default());
    }
    differences
}

fn type_name(node: &Node) -> String {
    let name = match &node.shape {
        Shape::Any => "any",
        Shape::Object(_) => "object",
        Shape::Array(_) => "array",
        Shape::Text(text) if text.format == Some(Format::DateTime) => "string(date-time)",
        Shape::Text(Text { format: Some(Format::Other(format)), .. }) => return format!("string({format})"),
        Shape::Text(_) => "string",
        Shape::Integer(integer) => match integer.width {
            Width::Int32 => "integer(int32)",
            Width::Int64 => "integer(int64)",
            Width::Unstated => "integer",
        },
        Shape::Number(_) => "number",
        Shape::Boolean => "boolean",
        Shape::IntOrString(_) => "int-or-string",
    };
    name.to_owned()
}

/// The bounds of a node, under the names of the table.
fn rules_of(node: &Node) -> BTreeMap<&'static str, Value> {
    let mut rules = BTreeMap::new();
    if !node.one_of.is_empty() {
        rules.insert("enum", Value::Array(node.one_of.to_vec()));
    }
    match &node.shape {
        Shape::Object(object) => {
            if object.atomic {
                rules.insert("map-type", json!("atomic"));
            }
            if object.preserve_unknown {
                rules.insert("preserve-unknown-fields", json!(true));
            }
        }
        Shape::Array(array) => {
            rules.extend(array.min_items.map(|min| ("minItems", json!(min))));
            rules.extend(array.max_items.map(|max| ("maxItems", json!(max))));
            match &array.list_type {
                None => {}
                Some(ListType::Atomic) => drop(rules.insert("list-type", json!("atomic"))),
                Some(ListType::Set) => drop(rules.insert("list-type", json!("set"))),
                Some(ListType::Map(keys)) => {
                    rules.insert("list-type", json!("map"));
                    rules.insert("list-map-keys", keys.iter().map(|key| json!(**key)).collect());
                }
            }
        }
        Shape::Text(text) | Shape::IntOrString(text) => {
            rules.extend(text.min_length.map(|min| ("minLength", json!(min))));
            rules.extend(text.max_length.map(|max| ("maxLength", json!(max))));
            rules.extend(text.pattern.as_ref().map(|pattern| ("pattern", json!(pattern.as_str()))));
        }
        Shape::Integer(integer) => {
            let whole = |bound: f64| json!(bound as i64);
            rules.extend(integer.bounds.minimum.map(|min| ("minimum", whole(min))));
            rules.extend(integer.bounds.maximum.map(|max| ("maximum", whole(max))));
        }
        Shape::Any => drop(rules.insert("preserve-unknown-fields", json!(true))),
        Shape::Number(_) | Shape::Boolean => {}
    }
    rules
}

pub fn list_paths(node: &Node, at: &str, paths: &mut Vec<String>) {
    match &node.shape {
        Shape::Object(object) => {
            for field in &object.fields {
                let path = format!("{at}.{}", field.name);
                paths.push(path.clone());
                list_paths(&field.node, &path, paths);
            }
            if let Some(values) = &object.values {
                let path = format!("{at}{{}}");
                paths.push(path.clone());
                list_paths(values, &path, paths);
            }
        }
        Shape::Array(array) => {
            let path = format!("{at}[]");
            paths.push(path.clone());
            list_paths(&array.items, &path, paths);
        }
        _ => {}
    }
}

fn is_addition(kind: &str, path: &str) -> bool {
    ADDITIONS.iter().any(|addition| {
        let (its_kind, its_path) = addition.split_once(' ').expect("kind and path");
        let rest = path.strip_prefix(its_path);
        (its_kind == "*" || its_kind == kind)
            && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[', '{']))
    })
}

/// An object in which every field of the kind's schema is set.
pub fn full_object(kind: &ResourceKind) -> Map<String, Value> {
    let Value::Object(mut object) = full_value(kind.schema.root()) else { panic!("a kind is an object") };
    object.insert("apiVersion".to_owned(), json!(kind.api_version()));
    object.insert("kind".to_owned(), json!(kind.kind));
    let mut object = Value::Object(object);
    if let Some(result) = object.pointer_mut("/status/observedWorkloads/0/result") {
        // The schema allows any text, as upstream's does. The type accepts two values (R65).
        *result = json!("Successful");
    }
    let Value::Object(object) = object else { unreachable!("made above") };
    object
}

fn full_value(node: &Node) -> Value {
    if let Some(first) = node.one_of.first() {
        return first.clone();
    }
    match &node.shape {
        Shape::Any => json!({"any": ["thing", 1, true]}),
        Shape::Object(object) => {
            let mut full: Map<String, Value> =
                object.fields.iter().map(|field| (field.name.to_string(), full_value(&field.node))).collect();
            if let Some(values) = &object.values {
                full.insert("key".to_owned(), full_value(values));
            }
            if object.preserve_unknown {
                full.insert("free".to_owned(), json!({"form": ["thing", 1, true, {"x": "y"}]}));
            }
            Value::Object(full)
        }
        Shape::Array(array) => json!([full_value(&array.items)]),
        Shape::Text(text) if text.format == Some(Format::DateTime) => json!("2024-04-17T15:04:05Z"),
        Shape::Text(text) => json!(sample_text(text.pattern.as_ref().map(regex::Regex::as_str))),
        Shape::IntOrString(text) if text.pattern.as_ref().is_none_or(|pattern| pattern.is_match("500m")) => {
            json!("500m")
        }
        Shape::IntOrString(_) => json!("25%"),
        Shape::Integer(_) => json!(7),
        Shape::Number(_) => json!(7.5),
        Shape::Boolean => json!(true),
    }
}

fn sample_text(pattern: Option<&str>) -> &'static str {
    const SAMPLES: [&str; 3] = ["Sample", "7", "5e3fa2cb34a37d4d3b6a94ab0ee0d4e0-1-2"];
    let mut sample = SAMPLES[0];
    if let Some(pattern) = pattern {
        let fits = regex::Regex::new(pattern).unwrap();
        sample = SAMPLES.into_iter().find(|sample| fits.is_match(sample)).unwrap_or_else(|| panic!("{pattern}"));
    }
    sample
}
