//! How each kind reads in SQL: `select name, triggered_at, clusters from resource_bindings`.
//!
//! Every kind has a table named after it; what people ask about most is a column. A kind without a
//! line here has the common columns alone.

use crate::resource::{Kinds, Lifetime, ResourceKind};
use crate::store::{Column, Table};

/// What the groups of the Fleet family end with.
const FLEET: &str = ".kubernetes-fleet.io";

/// One table per stored kind. Where both families have a kind of the same name, the table of
/// Fleet's says so.
pub fn tables(kinds: &Kinds) -> Vec<Table> {
    let mut tables: Vec<Table> = Vec::new();
    for row in kinds.rows().iter().filter(|row| row.lifetime == Lifetime::Stored && row.is_stored_version()) {
        let is_fleet = row.group.ends_with(FLEET);
        let name = table_name(row);
        let is_shared = kinds.rows().iter().any(|other| other.kind == row.kind && other.group != row.group);
        let name = if is_fleet && is_shared { format!("fleet_{name}") } else { name };
        let columns = if is_fleet { fleet_columns(row.kind) } else { karmada_columns(row.kind) };
        tables.push(Table { name, resource: row.resource, columns });
    }
    tables
}

fn karmada_columns(kind: &str) -> Vec<(&'static str, Column)> {
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

fn fleet_columns(kind: &str) -> Vec<(&'static str, Column)> {
    let placement = Column::Field(r#"$.metadata.labels."kubernetes-fleet.io/parent-CRP""#);
    match kind {
        "ResourceBinding" | "ClusterResourceBinding" => vec![
            ("placement", placement),
            ("cluster", Column::Field("$.spec.targetCluster")),
            ("state", Column::Field("$.spec.state")),
            ("policy_snapshot", Column::Field("$.spec.schedulingPolicySnapshotName")),
            ("available", Column::Condition("Available")),
        ],
        "ResourcePlacement" | "ClusterResourcePlacement" => vec![
            ("policy", Column::Field("$.spec.policy.placementType")),
            ("wanted", Column::Field("$.spec.policy.numberOfClusters")),
            (
                "scheduled",
                Column::Condition(if kind == "ResourcePlacement" {
                    "ResourcePlacementScheduled"
                } else {
                    "ClusterResourcePlacementScheduled"
                }),
            ),
        ],
        "SchedulingPolicySnapshot" | "ClusterSchedulingPolicySnapshot" => {
            vec![("placement", placement), ("scheduled", Column::Condition("Scheduled"))]
        }
        "ResourceSnapshot" | "ClusterResourceSnapshot" => vec![("placement", placement)],
        "MemberCluster" => vec![
            ("joined", Column::Condition("Joined")),
            ("heard_at", Column::Field("$.status.agentStatus[0].lastReceivedHeartbeat")),
        ],
        _ => Vec::new(),
    }
}

/// `resource_bindings` of kind `ResourceBinding` and plural `resourcebindings`: the kind tells
/// where the words begin, the plural how the last one ends.
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
        let distinct: std::collections::BTreeSet<&String> = names.iter().collect();
        assert_eq!(distinct.len(), names.len(), "{names:?}");
        assert!(names.iter().any(|name| name == "fleet_cluster_resource_bindings"), "{names:?}");
    }
}
