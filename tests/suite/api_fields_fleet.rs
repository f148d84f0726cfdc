//! Compares the schemas of the Fleet family with upstream's. `tests/data/fleet.tsv` was generated
//! from upstream's definitions.

use std::collections::BTreeSet;

use ballast::api::fleet::{cluster, placement};
use ballast::resource::Kinds;
use serde_json::Value;

use super::api_fields::{check_full_objects, check_names, differences, find, list_paths, through};
use crate::support::fields::rows;

const TABLE: &str = include_str!("../data/fleet.tsv");

/// Short names shared with Karmada's kinds, which keep them (C17).
const CEDED_SHORT_NAMES: &[&str] = &["shortNames=crb", "shortNames=cluster"];

fn kinds() -> Kinds {
    Kinds::new(ballast::api::fleet::rows())
}

#[test]
fn every_field_of_upstream_is_in_the_schema_as_it_is_there() {
    let kinds = kinds();
    let mut faults = Vec::new();
    let mut seen = 0;
    for mut row in rows(TABLE) {
        seen += 1;
        // The `validate` hooks check rules across fields, and have separate tests.
        row.rules.remove("cel");
        let kind = kinds.rows().iter().find(|kind| kind.kind == row.kind).expect(row.kind);
        match find(kind.schema.root(), row.path) {
            None => faults.push(format!("{} {}: missing", row.kind, row.path)),
            Some(found) => {
                let differences = differences(&row, &found);
                faults.extend(differences.iter().map(|difference| format!("{} {}: {difference}", row.kind, row.path)));
            }
        }
    }
    assert_eq!(seen, 431, "rows of fields in the table");
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn there_is_no_field_that_upstream_has_not() {
    let table: BTreeSet<(&str, &str)> = rows(TABLE).map(|row| (row.kind, row.path)).collect();
    let is_known = |kind: &str, path: &str| {
        // Namespaced kinds have the fields of their cluster-scoped siblings. Only the latter are in
        // the table.
        table.contains(&(kind, path)) || table.contains(&(format!("Cluster{kind}").as_str(), path))
    };
    let mut strangers = Vec::new();
    for kind in kinds().rows() {
        for part in ["spec", "status"] {
            let field = kind.schema.root().field(part).expect(kind.kind);
            let mut paths = vec![part.to_owned()];
            list_paths(&field.node, part, &mut paths);
            let unknown = paths.iter().filter(|path| !is_known(kind.kind, path));
            strangers.extend(unknown.map(|path| format!("{} {path}", kind.kind)));
        }
    }
    assert!(strangers.is_empty(), "{strangers:#?}");
}

#[test]
fn names_scopes_and_columns_are_those_of_upstream() {
    let ceded =
        |table: &str| CEDED_SHORT_NAMES.iter().fold(table.to_owned(), |text, name| text.replace(name, "shortNames="));
    check_names(&kinds(), &ceded(TABLE));
}

#[test]
fn an_object_with_every_field_set_survives_the_typed_form() {
    check_full_objects(&kinds(), typed);
}

fn typed(kind: &str, object: &Value) -> Value {
    match kind {
        "MemberCluster" => through::<cluster::v1beta1::MemberCluster>(object),
        "ClusterResourceBinding" => through::<placement::v1beta1::ClusterResourceBinding>(object),
        "ClusterResourcePlacement" => through::<placement::v1beta1::ClusterResourcePlacement>(object),
        "ClusterResourceSnapshot" => through::<placement::v1beta1::ClusterResourceSnapshot>(object),
        "ClusterSchedulingPolicySnapshot" => through::<placement::v1beta1::ClusterSchedulingPolicySnapshot>(object),
        "ResourceBinding" => through::<placement::v1beta1::ResourceBinding>(object),
        "ResourcePlacement" => through::<placement::v1beta1::ResourcePlacement>(object),
        "ResourceSnapshot" => through::<placement::v1beta1::ResourceSnapshot>(object),
        "SchedulingPolicySnapshot" => through::<placement::v1beta1::SchedulingPolicySnapshot>(object),
        other => panic!("{other} is a new kind: name its type here"),
    }
}
