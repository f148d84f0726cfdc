//! A WorkloadRebalancer over all workloads every night: its second run moves nothing (S8).

use std::collections::BTreeMap;

use ballast::k8s::Key;
use serde_json::{Value, json};

use super::fleet::{binding, cluster, deployment, no_execute, rebalancer};
use super::simulation::Dice;
use super::world::{CLUSTER, World};
use crate::support::size::sized;

const CLUSTERS: usize = 12;
const REGIONS: usize = 4;
/// The first night moves replicas back, the second moves nothing.
const NIGHTS: usize = 2;

fn workloads() -> usize {
    sized(300, 1_000)
}

fn name(number: usize) -> String {
    format!("member{:02}", number + 1)
}

fn key(number: usize) -> Key {
    Key::namespaced(super::world::RB, "default", format!("web-{number}-deployment"))
}

/// Returns placements of every division, some with regions, some limited to a part of the fleet.
fn placement(dice: &mut Dice) -> Value {
    let mut divided = json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"});
    match dice.roll(4) {
        0 | 1 => divided["weightPreference"] = json!({"dynamicWeight": "AvailableReplicas"}),
        2 => divided["replicaDivisionPreference"] = "Aggregated".into(),
        _ => {
            let weight =
                |name: String, weight: u64| json!({"targetCluster": {"clusterNames": [name]}, "weight": weight});
            let list = Vec::from_iter((0..3).map(|_| weight(name(dice.below(CLUSTERS)), 1 + dice.roll(3))));
            divided["weightPreference"] = json!({"staticWeightList": list});
        }
    }
    let mut placement = json!({"replicaScheduling": divided});
    if dice.roll(3) == 0 {
        placement["spreadConstraints"] =
            json!([{"spreadByField": "region", "minGroups": 1 + dice.roll(2), "maxGroups": 3}]);
    }
    if dice.roll(3) == 0 {
        let names = Vec::from_iter((0..CLUSTERS).filter(|_| dice.roll(3) > 0).map(name));
        placement["clusterAffinity"] = json!({ "clusterNames": names });
    }
    placement
}

/// The content of the agents' reports.
#[derive(Clone, Copy, PartialEq)]
enum Reports {
    /// The replicas of each workload, and the pods of the cluster.
    Replicas,
    /// Only the pods of the cluster.
    Sums,
}

/// Applies the assigned replicas, and reports them.
async fn carry_out(world: &mut World, reports: Reports) {
    let mut pods = BTreeMap::from_iter((0..CLUSTERS).map(|number| (name(number), 0)));
    for number in 0..workloads() {
        let clusters = world.get(&key(number)).unwrap()["spec"]["clusters"].clone();
        let mut items = Vec::new();
        for target in clusters.as_array().into_iter().flatten() {
            let (at, replicas) = (target["name"].as_str().unwrap(), target["replicas"].as_i64().unwrap());
            *pods.get_mut(at).unwrap() += replicas;
            items.push(json!({"clusterName": at, "applied": true, "health": "Healthy",
                              "status": {"replicas": replicas, "readyReplicas": replicas}}));
        }
        if reports == Reports::Replicas {
            world.edit(&key(number), |binding| binding["status"]["aggregatedStatus"] = items.clone().into()).await;
        }
    }
    for (cluster, pods) in pods {
        let allocated = json!({"cpu": format!("{}m", pods * 100), "pods": pods.to_string()});
        let key = Key::cluster(CLUSTER, cluster);
        world.edit(&key, |cluster| cluster["status"]["resourceSummary"]["allocated"] = allocated.clone()).await;
    }
    world.clock.advance_seconds(60);
    world.settle().await;
}

fn placed(world: &World) -> Vec<String> {
    (0..workloads()).map(|number| world.placed(&key(number))).collect()
}

/// Places the workloads while one cluster is down, then recovers it.
async fn fleet(seed: u64, reports: Reports) -> World {
    let mut dice = Dice(seed);
    let mut world = World::new().await;
    for number in 0..CLUSTERS {
        let mut object = cluster(&name(number));
        object["spec"]["region"] = format!("region-{}", number % REGIONS).into();
        object["status"]["resourceSummary"]["allocatable"]["pods"] = (1_000 + 100 * dice.roll(5)).to_string().into();
        object["spec"]["taints"] = if number == 0 { json!([no_execute("down")]) } else { json!([]) };
        world.given(object).await;
    }
    let wanted = (0..workloads()).map(|number| {
        let replicas = 1 + dice.roll(9) as i32;
        binding(&format!("web-{number}"), replicas, placement(&mut dice))
    });
    let wanted = Vec::from_iter(wanted);
    world.given_all(wanted).await;
    world.settle().await;
    carry_out(&mut world, reports).await;
    world.edit(&Key::cluster(CLUSTER, name(0)), |cluster| cluster["spec"]["taints"] = json!([])).await;
    world.settle().await;
    world
}

/// Runs a rebalancer over all workloads each night, and checks that the second moves nothing.
async fn nights(reports: Reports) {
    let mut world = fleet(7, reports).await;
    let mut before = placed(&world);
    for night in 0..NIGHTS {
        world.clock.advance_seconds(86_400);
        let all = (0..workloads()).map(|number| deployment(&format!("web-{number}"))).collect();
        world.given(rebalancer(&format!("night-{night}"), all)).await;
        world.settle().await;
        let after = placed(&world);
        let moved = Vec::from_iter(before.iter().zip(&after).filter(|(before, after)| before != after));
        assert!(if night == 0 { moved.len() > workloads() / 10 } else { moved.is_empty() }, "night {night}: {moved:?}");
        before = after;
        carry_out(&mut world, reports).await;
    }
}

#[tokio::test]
async fn s8_a_nightly_rebalancer_over_a_thousand_workloads_moves_nothing_at_its_second_run() {
    nights(Reports::Replicas).await;
}

/// No reservation lasts until the next night (`--reservation-ttl`), so each replica counts once
/// then.
#[tokio::test]
async fn s8_nor_where_clusters_report_sums_and_nothing_of_a_workload() {
    nights(Reports::Sums).await;
}
