//! Karmada's kinds as CustomResourceDefinitions with structural schemas, generated from the tables
//! of upstream's fields (`tests/data`). Fields in no table are pruned, as in a Karmada.

use serde_json::{Map, Value, json};

use crate::support::fields::{Row, rows};

const TABLE: &str = include_str!("../../data/karmada.tsv");

/// Returns one definition for each kind of the table.
pub fn definitions() -> Vec<Value> {
    let kinds = TABLE.lines().filter_map(|line| line.strip_prefix("# kind\t"));
    kinds.map(|line| definition(&line.split('\t').collect::<Vec<_>>())).collect()
}

fn definition(cells: &[&str]) -> Value {
    let [api_version, kind, facts @ ..] = cells else { panic!("{cells:?}") };
    let fact = |name: &str| {
        let found = facts.iter().find_map(|fact| fact.strip_prefix(name)?.strip_prefix('='));
        found.unwrap_or_else(|| panic!("{kind}: {name} is missing"))
    };
    let words = |name: &str| fact(name).split(',').filter(|word| !word.is_empty()).collect::<Vec<_>>();
    let (group, version) = api_version.split_once('/').unwrap();
    let mut schema = json!({"type": "object", "properties": {
        "apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"}}});
    for row in rows(TABLE).filter(|row| row.kind == *kind) {
        insert(&mut schema, &row);
    }
    open_what_has_no_fields(&mut schema);
    let subresources = if fact("statusSubresource") == "true" { json!({"status": {}}) } else { json!({}) };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{}.{group}", fact("plural"))},
        "spec": {
            "group": group, "scope": fact("scope"),
            "names": {"kind": kind, "listKind": format!("{kind}List"), "plural": fact("plural"),
                "singular": fact("singular"), "shortNames": words("shortNames"), "categories": words("categories")},
            "versions": [{"name": version, "served": true, "storage": true, "subresources": subresources,
                "schema": {"openAPIV3Schema": schema}}],
        },
    })
}

/// Inserts a field at its path: `a.b` is a property, `a[]` an item, `a{}` a value of a map.
fn insert(root: &mut Value, row: &Row) {
    let (parent, last) = row.path.rsplit_once('.').unwrap_or(("", row.path));
    let mut node = root;
    for step in parent.split('.').filter(|step| !step.is_empty()) {
        node = inside(node, step);
    }
    if row.required {
        let required = node.as_object_mut().unwrap().entry("required").or_insert_with(|| json!([]));
        required.as_array_mut().unwrap().push(json!(last));
    }
    *inside(node, last) = field(row);
}

/// Returns the node that a step leads to.
fn inside<'a>(node: &'a mut Value, step: &str) -> &'a mut Value {
    let name = step.trim_end_matches(['[', ']', '{', '}']);
    let (mut node, mut rest) = (&mut node["properties"][name], &step[name.len()..]);
    while !rest.is_empty() {
        let (kind, after) = rest.split_at(2);
        node = &mut node[if kind == "[]" { "items" } else { "additionalProperties" }];
        rest = after;
    }
    node
}

fn field(row: &Row) -> Value {
    let mut schema = Map::new();
    match row.field_type.split_once('(') {
        _ if row.field_type == "int-or-string" => {
            schema.insert("x-kubernetes-int-or-string".to_owned(), json!(true));
        }
        Some((name, format)) => {
            schema.insert("type".to_owned(), json!(name));
            schema.insert("format".to_owned(), json!(format.trim_end_matches(')')));
        }
        None => drop(schema.insert("type".to_owned(), json!(row.field_type))),
    }
    // Karmada stores Clusters in a separate API server, not as a definition. The table has the
    // empty values of that server's Go types as defaults.
    let rules = row.rules.iter().filter(|(name, _)| **name != "default" || row.kind != "Cluster");
    for (name, value) in rules {
        let name = match *name {
            "list-type" | "list-map-keys" | "map-type" | "preserve-unknown-fields" => format!("x-kubernetes-{name}"),
            name => name.to_owned(),
        };
        schema.insert(name, value.clone());
    }
    Value::Object(schema)
}

/// An object without fields in the table may have any.
fn open_what_has_no_fields(node: &mut Value) {
    let Some(schema) = node.as_object_mut() else { return };
    let has_fields = schema.contains_key("properties") || schema.contains_key("additionalProperties");
    if schema.get("type").is_some_and(|it| it == "object") && !has_fields {
        schema.insert("x-kubernetes-preserve-unknown-fields".to_owned(), json!(true));
    }
    for name in ["items", "additionalProperties"] {
        if let Some(inner) = schema.get_mut(name) {
            open_what_has_no_fields(inner);
        }
    }
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        properties.iter_mut().filter(|(name, _)| *name != "metadata").for_each(|(_, it)| open_what_has_no_fields(it));
    }
}
