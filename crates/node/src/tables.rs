//! The SQL view of each kind: `select name, triggered_at, clusters from resource_bindings`.
//!
//! Every kind has a table that is named after it. The kind's row lists the fields that are columns
//! in addition to the common ones.

use ballast_resource::{Kinds, Lifetime, ResourceKind};
use ballast_store::Table;

/// The suffix of the API groups of the KubeFleet family.
const FLEET: &str = ".kubernetes-fleet.io";

/// Returns one table for each stored kind. If both families have a kind of the same name,
/// KubeFleet's table has the prefix `fleet_`.
pub fn tables(kinds: &Kinds) -> Vec<Table> {
    let mut tables: Vec<Table> = Vec::new();
    for row in kinds.rows().iter().filter(|row| row.lifetime == Lifetime::Stored && row.is_stored_version()) {
        let is_fleet = row.group.ends_with(FLEET);
        let name = table_name(row);
        let is_shared = kinds.rows().iter().any(|other| other.kind == row.kind && other.group != row.group);
        let name = if is_fleet && is_shared { format!("fleet_{name}") } else { name };
        let columns = row.sql_columns.iter().map(|column| (column.name, column.value)).collect();
        tables.push(Table { name, resource: row.resource, columns });
    }
    tables
}

/// Returns the name of the table: `resource_bindings` for the kind `ResourceBinding` and the plural
/// `resourcebindings`. The kind shows where words begin, and the plural how the last one ends.
fn table_name(row: &ResourceKind) -> String {
    let shared = row.kind.bytes().zip(row.plural.bytes()).take_while(|(a, b)| a.eq_ignore_ascii_case(b)).count();
    let mut name = String::with_capacity(row.plural.len() + 4);
    for (at, letter) in row.kind[..shared].char_indices() {
        if letter.is_ascii_uppercase() && at > 0 {
            name.push('_');
        }
        name.push(letter.to_ascii_lowercase());
    }
    name + &row.plural[shared..]
}

#[cfg(test)]
mod tests {
    use super::*;
    use ballast_k8s::JsonColumn;

    #[test]
    fn tables_are_named_after_their_kinds() {
        let names: Vec<String> = tables(&ballast_api::kinds()).into_iter().map(|table| table.name).collect();
        for expected in ["resource_bindings", "cluster_propagation_policies", "clusters", "workload_rebalancers"] {
            assert!(names.iter().any(|name| name == expected), "{expected} is not among {names:?}");
        }
        assert!(!names.iter().any(|name| name.contains("task")), "an action has no table");
        let distinct: std::collections::BTreeSet<&String> = names.iter().collect();
        assert_eq!(distinct.len(), names.len(), "{names:?}");
        assert!(names.iter().any(|name| name == "fleet_cluster_resource_bindings"), "{names:?}");
    }

    /// A column with a misspelled path would always be empty.
    #[test]
    fn columns_are_fields_that_the_kind_has() {
        let kinds = ballast_api::kinds();
        let mut columns = 0;
        for row in kinds.rows() {
            for column in row.sql_columns {
                columns += 1;
                let paths: Vec<Vec<&str>> = match column.value {
                    // The schema does not list single labels.
                    JsonColumn::Field(["metadata", "labels", _]) => Vec::new(),
                    JsonColumn::Field(path) => vec![path.to_vec()],
                    JsonColumn::OfFirst { list, member } => vec![[list, &[member]].concat()],
                    JsonColumn::Named { list, name, count } => {
                        vec![[list, &[name]].concat(), [list, &[count]].concat()]
                    }
                    JsonColumn::Condition(_) => vec![vec!["status", "conditions", "status"]],
                };
                for path in paths {
                    assert!(row.schema.node(&path).is_some(), "{} {}: no field {path:?}", row.kind, column.name);
                }
                let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
                assert!(column.name.bytes().all(is_plain), "{}", column.name);
            }
        }
        assert!(columns > 10, "{columns}");
    }
}
