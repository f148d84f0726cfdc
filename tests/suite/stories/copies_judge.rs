//! Checks the whole log: no eviction removes replicas that are not ready elsewhere (RM20), and a
//! cancelled eviction restores the cluster as a target in the same write (RM23).

use std::collections::BTreeMap;

use ballast::k8s::{Key, Revision};
use ballast::store::Operation;
use serde_json::Value;

use super::world::{CLUSTER, CRB, RB, World};

/// Returns the first violation in the log.
pub async fn judge(world: &World) -> Result<(), String> {
    let mut bindings: BTreeMap<Key, (Revision, Value)> = BTreeMap::new();
    // The last time that each cluster was absent or being deleted. A worker may decide on a
    // slightly older state.
    let mut gone: BTreeMap<String, Revision> = BTreeMap::new();
    let mut is_there: BTreeMap<String, bool> = BTreeMap::new();
    for change in world.written_since(Revision::ZERO).await {
        let object: Value = serde_json::from_slice(&change.object).unwrap();
        let is_deleted = change.operation == Operation::Delete;
        if change.key.resource == CLUSTER {
            let stays = !is_deleted && object["metadata"]["deletionTimestamp"].is_null();
            let name = change.key.name.to_string();
            if !stays || is_there.get(&name) == Some(&false) {
                gone.insert(name.clone(), change.revision);
            }
            is_there.insert(name, stays);
        }
        if ![RB, CRB].contains(&change.key.resource) {
            continue;
        }
        if is_deleted {
            bindings.remove(&change.key);
            continue;
        }
        if let Some((revision, before)) = bindings.get(&change.key) {
            let was_gone = |cluster: &str| {
                is_there.get(cluster) != Some(&true) || gone.get(cluster).is_some_and(|gone| gone > revision)
            };
            if let Some(cluster) = taken(before, &object).into_iter().find(|cluster| !was_gone(cluster)) {
                return Err(format!("a copy is taken from {cluster}: {before}\n{object}"));
            }
        }
        bindings.insert(change.key, (change.revision, object));
    }
    Ok(())
}

fn list<'a>(binding: &'a Value, name: &str) -> &'a [Value] {
    binding["spec"][name].as_array().map_or(&[], Vec::as_slice)
}

/// Returns the clusters of evictions that end with this write although their replicas are not ready
/// elsewhere.
fn taken<'a>(before: &'a Value, after: &Value) -> Vec<&'a str> {
    let is_in = |binding: &Value, listed: &str, member: &str, cluster: &str| {
        list(binding, listed).iter().any(|it| it[member] == cluster)
    };
    let ended = list(before, "gracefulEvictionTasks").iter().filter_map(|task| task["fromCluster"].as_str());
    let left = ended.filter(|cluster| {
        !is_in(after, "gracefulEvictionTasks", "fromCluster", cluster) && !is_in(after, "clusters", "name", cluster)
    });
    let reports = before["status"]["aggregatedStatus"].as_array().map_or(&[][..], Vec::as_slice);
    let health = |cluster: &Value| {
        let report = reports.iter().find(|report| report["clusterName"] == *cluster);
        report.map_or("", |report| report["health"].as_str().unwrap_or_default())
    };
    let is_ready = |target: &&Value| reports.is_empty() || health(&target["name"]) == "Healthy";
    let wanted = before["spec"]["replicas"].as_i64().unwrap_or_default();
    let ready: i64 = list(before, "clusters").iter().filter(is_ready).filter_map(|it| it["replicas"].as_i64()).sum();
    let is_divided = before["spec"]["placement"]["replicaScheduling"]["replicaSchedulingType"] == "Divided";
    let is_whole = match is_divided {
        _ if wanted == 0 => true,
        true => ready >= wanted,
        false => list(before, "clusters").iter().any(|target| is_ready(&target)),
    };
    left.filter(|cluster| !is_whole && health(&Value::from(*cluster)) != "Unhealthy").collect()
}
