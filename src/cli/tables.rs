//! How each kind reads in SQL: `select name, triggered_at, clusters from resource_bindings`.
//!
//! Every kind has a table named after it; what people ask about most is a column. A kind without a line
//! here has the common columns alone.

use crate::resource::{Kinds, Lifetime, ResourceKind};
use crate::store::{Column, Table};

/// One table per stored kind.
pub fn tables(kinds: &Kinds) -> Vec<Table> {
    let stored = kinds.rows().iter().filter(|row| row.lifetime == Lifetime::Stored);
    stored.map(|row| Table { name: table_name(row), resource: row.resource, columns: columns(row.kind) }).collect()
}

fn columns(kind: &str) -> Vec<(&'static str, Column)> {
    let clusters = Column::Named { list: "$.spec.clusters", name: "$.name", count: "$.replicas" };
    match kind {
        "ResourceBinding" | "ClusterResourceBinding" => vec![
            ("triggered_at", Column::Field("$.spec.rescheduleTriggeredAt")),
            ("last_scheduled_at", Column::Field("$.status.lastScheduledTime")),
            ("replicas", Column::Field("$.spec.replicas")),
            ("clusters", clusters),
            ("scheduled", Column::Condition("Scheduled")),
        ],
        "Cluster" => vec![("ready", Column::Condition("Ready"))],
        "WorkloadRebalancer" => vec![("finished_at", Column::Field("$.status.finishTime"))],
        _ => Vec::new(),
    }
}

/// `resource_bindings` of kind `ResourceBinding` and plural `resourcebindings`: the kind tells where the
/// words begin, the plural how the last one ends.
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

    #[test]
    fn tables_are_named_after_their_kinds() {
        let names: Vec<String> = tables(&crate::api::kinds()).into_iter().map(|table| table.name).collect();
        for expected in ["resource_bindings", "cluster_propagation_policies", "clusters", "workload_rebalancers"] {
            assert!(names.iter().any(|name| name == expected), "{expected} is not among {names:?}");
        }
        assert!(!names.iter().any(|name| name.contains("task")), "an action has no table");
    }
}
