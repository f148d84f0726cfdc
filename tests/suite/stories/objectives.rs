//! Plans for all clusters together (PL1 to PL8): they choose among the permitted placements, report
//! the remaining distance, and their placements are stable.

use ballast::api::karmada::work::v1alpha2::RESOURCE_BINDINGS;
use ballast::k8s::Key;
use serde_json::{Value, json};

use super::fleet::{binding, by_room, cluster};
use super::safe::{phase, rebalance};
use super::safe_reviews::{post, reviewed};
use super::world::{World, condition};
use ballast::rebalance::record::CLUSTERS;

/// Creates a cluster with `cores` cores, and ample other capacity.
fn sized(name: &str, cores: u32) -> Value {
    let mut cluster = cluster(name);
    cluster["status"]["resourceSummary"]["allocatable"]["cpu"] = Value::from(cores.to_string());
    cluster
}

fn aggregated_or_by_room(index: usize) -> Value {
    let mut placement = by_room();
    if index.is_multiple_of(3) {
        placement["replicaScheduling"] =
            json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"});
    }
    placement
}

/// Creates nine Deployments of four replicas with four cores each on member1 and member2, then adds
/// member3 with the same size.
pub async fn grown() -> (World, Vec<Key>) {
    let mut world = World::new().await;
    world.given(sized("member1", 4)).await;
    world.given(sized("member2", 4)).await;
    let mut keys = Vec::new();
    for index in 0..9 {
        keys.push(world.given(binding(&format!("web-{index}"), 4, aggregated_or_by_room(index))).await);
    }
    world.settle().await;
    world.given(sized("member3", 4)).await;
    world.settle().await;
    world.clock.advance_seconds(60);
    world.settle().await;
    (world, keys)
}

/// Returns the replicas on each cluster.
pub fn spread(world: &World, keys: &[Key]) -> Vec<(String, i64)> {
    let mut sums = std::collections::BTreeMap::<String, i64>::new();
    for key in keys {
        for target in world.get(key).unwrap()["spec"]["clusters"].as_array().unwrap() {
            let name = target["name"].as_str().unwrap().to_owned();
            *sums.entry(name).or_default() += target["replicas"].as_i64().unwrap();
        }
    }
    sums.into_iter().collect()
}

fn balance(more: Value) -> Value {
    let mut objective = json!({"goal": "Balance", "resource": "cpu"});
    objective.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"objective": objective})
}

/// Returns the bindings in this standing that an objective has placed.
async fn placed_and(world: &World, standing: &str) -> Vec<String> {
    let status = reviewed(world, json!({"select": [{standing: true}], "mode": "AsIs"})).await;
    let found = status["moves"].as_array().into_iter().flatten().map(|it| it["binding"]["name"].as_str().unwrap());
    let is_placed = |name: &&str| {
        let binding = world.get(&Key::namespaced(RESOURCE_BINDINGS, "default", *name)).unwrap();
        binding["metadata"]["annotations"]["ballast.dev/objective"].is_string()
    };
    found.filter(is_placed).map(str::to_owned).collect()
}

#[tokio::test]
async fn pl1_a_new_cluster_takes_its_share_and_what_is_placed_stays() {
    let (mut world, keys) = grown().await;
    assert_eq!(spread(&world, &keys).iter().map(|(_, count)| count).sum::<i64>(), 36);
    let review = json!({"select": [{}], "objective": balance(json!({}))["objective"]});
    let before = reviewed(&world, review.clone()).await;

    let key = world.given(rebalance("even", balance(json!({})))).await;
    world.settle().await;
    let done = world.get(&key).unwrap();
    assert_eq!(phase(&world, &key), "Completed", "{done}");
    let objective = &done["status"]["objective"];
    assert_eq!(objective, &before["objective"], "the review tells what comes");
    assert_eq!((&objective["before"], &objective["after"]), (&json!(0.2), &json!(0)), "{objective}");
    assert_eq!((&objective["bound"], &objective["moved"]), (&json!(0), &json!(12)), "{objective}");
    assert_eq!(done["status"]["summary"]["replicasMoved"], 12);
    assert!(spread(&world, &keys).iter().all(|(_, count)| *count == 12), "{:?}", spread(&world, &keys));
    for key in keys.iter().step_by(3) {
        assert!(world.get(key).unwrap()["spec"]["clusters"].as_array().unwrap().len() <= 2, "as few as before");
    }

    // Its placements are neither displaced nor drifted, also after a crash.
    world.crash().await;
    world.settle().await;
    for standing in ["displaced", "drifted"] {
        assert_eq!(placed_and(&world, standing).await, Vec::<String>::new(), "{standing}");
    }
    let again = world.given(rebalance("again", balance(json!({})))).await;
    world.settle().await;
    let again = world.get(&again).unwrap();
    assert_eq!(again["status"]["summary"]["toMove"], 0);
    let completed = condition(&again, "Completed").unwrap();
    assert_eq!(completed["reason"], "NothingToGain", "{completed:?}");

    // After a change of replicas, the scheduler decides again.
    let aimed =
        keys.iter().find(|key| world.get(key).unwrap()["metadata"]["annotations"]["ballast.dev/objective"].is_string());
    let aimed = aimed.expect("some have moved").clone();
    world.edit(&aimed, |binding| binding["spec"]["replicas"] = 5.into()).await;
    world.settle().await;
    assert_eq!(
        world.get(&aimed).unwrap()["spec"]["clusters"]
            .as_array()
            .unwrap()
            .iter()
            .map(|target| target["replicas"].as_i64().unwrap())
            .sum::<i64>(),
        5
    );
}

#[tokio::test]
async fn a_cluster_that_nothing_relieves_does_not_stop_a_balance() {
    let (mut world, keys) = grown().await;
    let mut hot = sized("hot", 10);
    hot["status"]["resourceSummary"]["allocated"] = json!({"cpu": "9"});
    world.given(hot).await;
    world.settle().await;
    let key = world.given(rebalance("even", balance(json!({})))).await;
    world.settle().await;
    let objective = world.get(&key).unwrap()["status"]["objective"].clone();
    assert_eq!(objective["unrelieved"], json!(["hot"]), "{objective}");
    assert_eq!((&objective["before"], &objective["after"]), (&json!(0.2), &json!(0)), "{objective}");
    assert_eq!(objective["bound"], 0, "{objective}");
    assert!(spread(&world, &keys).iter().all(|(_, count)| *count == 12), "{:?}", spread(&world, &keys));
}

#[tokio::test]
async fn a_gain_within_the_tolerance_moves_nothing() {
    let (mut world, _) = grown().await;
    let key = world.given(rebalance("small", balance(json!({"tolerance": "20%"})))).await;
    world.settle().await;
    let done = world.get(&key).unwrap();
    let objective = &done["status"]["objective"];
    assert_eq!((&objective["after"], &objective["bound"]), (&json!(0.2), &json!(0)), "{objective}");
    assert_eq!((&objective["moved"], &objective["withinTolerance"]), (&json!(0), &json!("20%")), "{objective}");
    let completed = condition(&done, "Completed").unwrap();
    assert_eq!(completed["reason"], "NothingToGain", "{completed:?}");
    assert!(completed["message"].as_str().unwrap().ends_with("within the tolerance of 20%"), "{completed:?}");
    let status =
        reviewed(&world, json!({"select": [{}], "objective": balance(json!({"tolerance": "19%"}))["objective"]})).await;
    assert_eq!((&status["objective"]["moved"], status["objective"].get("withinTolerance")), (&json!(12), None));
}

#[tokio::test]
async fn a_resource_without_a_price_is_not_free() {
    let (world, keys) = grown().await;
    for (cluster, resource, price) in [("member1", "cpu", "4"), ("member1", "memory", "1"), ("member3", "cpu", "5")] {
        let at = format!("ballast.dev/price-{resource}");
        let change = |cluster: &mut Value| cluster["metadata"]["annotations"][&at] = price.into();
        world.edit(&Key::cluster(CLUSTERS, cluster), change).await;
    }
    for key in &keys {
        let requests = json!({"cpu": "100m", "memory": "8Gi"});
        world.edit(key, |it| it["spec"]["replicaRequirements"]["resourceRequest"] = requests.clone()).await;
    }
    let status = reviewed(&world, json!({"select": [{}], "objective": {"goal": "Cost", "worth": 0}})).await;
    assert_eq!(
        (&status["objective"]["moved"], &status["cost"]["unpricedClusters"]),
        (&json!(0), &json!(2)),
        "{status}"
    );
    assert_eq!(status["cost"]["differencePerHour"], 0, "{status}");
    // The saving and the cost of another plan that moves there are unknown.
    let status = reviewed(&world, json!({"select": [{}], "objective": balance(json!({}))["objective"]})).await;
    assert_eq!(
        (&status["objective"]["moved"], &status["cost"]["differencePerHour"]),
        (&json!(12), &json!(0)),
        "{status}"
    );
}

#[tokio::test]
async fn pl2_a_budget_bounds_all_moves_together() {
    let (world, _) = grown().await;
    for (budget, moved) in [(json!(0), 0), (json!(5), 4), (json!("10%"), 3), (json!("100%"), 12)] {
        let objective = json!({"goal": "Balance", "resource": "cpu", "maxMovedReplicas": budget, "worth": 0});
        let status = reviewed(&world, json!({"select": [{}], "objective": objective})).await;
        assert_eq!(status["objective"]["moved"], moved, "{budget}: {status}");
        let [after, bound] = ["after", "bound"].map(|name| status["objective"][name].as_f64().unwrap());
        assert!(bound <= after && after - bound < 0.03, "{budget}: {status}");
    }
}

#[tokio::test]
async fn pl4_prices_are_told_and_cost_goes_where_it_is_cheap() {
    let (world, _) = grown().await;
    for (name, price) in [("member1", "4"), ("member2", "2")] {
        let key = Key::cluster(CLUSTERS, name);
        world.edit(&key, |cluster| cluster["metadata"]["annotations"]["ballast.dev/price-cpu"] = price.into()).await;
    }
    let plain = reviewed(&world, json!({"select": [{}]})).await;
    assert_eq!(plain["cost"]["unpricedClusters"], 1, "{plain}");
    let status = reviewed(&world, json!({"select": [{}], "objective": {"goal": "Cost", "worth": 0}})).await;
    let cost = &status["cost"];
    // Two cores on member1 and 1.6 on member2, which has capacity for 2.4 more.
    assert_eq!((&cost["beforePerHour"], &cost["afterPerHour"]), (&json!(11.2), &json!(7.2)), "{status}");
    assert_eq!(cost["differencePerHour"], -4);
    assert_eq!(status["objective"]["after"], 7.2);
}

#[tokio::test]
async fn pl5_as_few_clusters_as_possible_carry_the_workloads() {
    let (mut world, keys) = grown().await;
    let key = world.given(rebalance("pack", json!({"objective": {"goal": "Pack"}}))).await;
    world.settle().await;
    let done = world.get(&key).unwrap();
    assert_eq!((&done["status"]["objective"]["before"], &done["status"]["objective"]["after"]), (&json!(2), &json!(1)));
    assert_eq!(spread(&world, &keys).len(), 1);
    assert_eq!(placed_and(&world, "drifted").await, Vec::<String>::new());
}

#[tokio::test]
async fn pl1_beside_a_drain_it_decides_where_what_leaves_goes() {
    let (mut world, keys) = grown().await;
    let spec =
        json!({"drain": {"clusters": ["member1"]}, "objective": {"goal": "Balance", "resource": "cpu", "worth": 0}});
    let mut object = rebalance("out", spec);
    object["spec"].as_object_mut().unwrap().remove("select");
    let key = world.given(object).await;
    world.settle().await;
    assert_eq!(phase(&world, &key), "Completed", "{}", world.get(&key).unwrap());
    let status = world.get(&key).unwrap()["status"].clone();
    let spread = spread(&world, &keys);
    assert_eq!(spread, [("member2".to_owned(), 18), ("member3".to_owned(), 18)], "{status}");
}

#[tokio::test]
async fn pl8_what_could_run_elsewhere_leaves_the_only_refuge_of_others() {
    let mut world = World::new().await;
    for (name, region) in [("member1", "west"), ("member2", "west"), ("member3", "east")] {
        let mut cluster = sized(name, 4);
        cluster["spec"]["region"] = json!(region);
        world.given(cluster).await;
    }
    // Workloads bound to the west would need member2 if member1 failed, and vice versa.
    let mut west = by_room();
    west["clusterAffinity"] = json!({"clusterNames": ["member1", "member2"]});
    let mut keys = Vec::new();
    for index in 0..3 {
        keys.push(world.given(binding(&format!("west-{index}"), 10, west.clone())).await);
    }
    for index in 0..4 {
        keys.push(world.given(binding(&format!("web-{index}"), 8, west.clone())).await);
    }
    world.settle().await;
    // Now the rules of the second half permit the east, too.
    for key in &keys[3..] {
        world.edit(key, |binding| binding["spec"]["placement"] = by_room()).await;
    }
    world.settle().await;
    let survive = |by: &str| json!({"select": [{}], "survive": {"by": by}});
    let stranded = |status: &Value| -> i64 {
        let domains = status["survival"].as_array().unwrap().iter();
        domains.map(|domain| domain["strandedReplicas"].as_i64().unwrap_or_default()).sum()
    };
    let before = stranded(&reviewed(&world, survive("Cluster")).await);
    assert!(before > 0, "{before}");

    let objective = json!({"goal": "Survive", "worth": 0});
    let review = reviewed(&world, json!({"select": [{}], "objective": objective})).await;
    let key = world.given(rebalance("n-plus-1", json!({"objective": objective}))).await;
    world.settle().await;
    let done = world.get(&key).unwrap();
    assert_eq!(phase(&world, &key), "Completed", "{done}");
    let told = &done["status"]["objective"];
    assert_eq!(told, &review["objective"]);
    let after = stranded(&reviewed(&world, survive("Cluster")).await);
    assert_eq!((&told["before"], &told["after"]), (&json!(before), &json!(after)), "{told}");
    assert_eq!((after, &told["bound"]), (0, &json!(0)), "{told}");

    // No move helps against a failure of the whole west, so none is made.
    let regions = stranded(&reviewed(&world, survive("Region")).await);
    let objective = json!({"goal": "Survive", "by": "Region", "worth": 0});
    let status = reviewed(&world, json!({"select": [{}], "objective": objective})).await;
    let told = &status["objective"];
    assert_eq!(
        (&told["before"], &told["after"], &told["moved"]),
        (&json!(regions), &json!(regions), &json!(0)),
        "{told}"
    );
    assert!(told["bound"].as_i64().unwrap() >= 30, "{told}");
}

#[tokio::test]
async fn pl7_what_contradicts_an_objective_is_refused_at_its_field() {
    let world = World::new().await;
    let field = |refused: ballast::k8s::Status| refused.details.unwrap().causes[0].field.clone();
    let cost = json!({"goal": "Cost", "resource": "cpu"});
    for (spec, at) in [
        (json!({"undo": {"name": "x"}, "objective": {"goal": "Balance"}}), "spec.objective"),
        (json!({"mode": "AsBefore", "objective": {"goal": "Balance"}}), "spec.objective"),
        (json!({"mode": "Steady", "objective": {"goal": "Pack"}}), "spec.objective"),
        (json!({"objective": cost}), "spec.objective.resource"),
        (json!({"objective": {"goal": "Balance", "resource": "c p u"}}), "spec.objective.resource"),
        (json!({"objective": {"goal": "Balance", "by": "Zone"}}), "spec.objective.by"),
        (json!({"objective": {"goal": "Survive", "by": "Rack"}}), "spec.objective.by"),
        (json!({"objective": {"goal": "Survive", "resource": "cpu"}}), "spec.objective.resource"),
        (json!({"objective": {"goal": "Balance", "worth": -1}}), "spec.objective.worth"),
        (json!({"objective": {"goal": "Balance", "maxMovedReplicas": -1}}), "spec.objective.maxMovedReplicas"),
        (json!({"objective": {"goal": "Even"}}), "spec.objective.goal"),
        (json!({"objective": {"goal": "Balance", "tolerance": "-1%"}}), "spec.objective.tolerance"),
        (json!({"objective": {"goal": "Balance", "tolerance": "101%"}}), "spec.objective.tolerance"),
        (json!({"objective": {"goal": "Balance", "tolerance": 2}}), "spec.objective.tolerance"),
        (json!({"objective": {"goal": "Cost", "tolerance": true}}), "spec.objective.tolerance"),
        (json!({"objective": {"goal": "Survive", "tolerance": "2%"}}), "spec.objective.tolerance"),
        (json!({"objective": {"goal": "Pack", "tolerance": -1}}), "spec.objective.tolerance"),
        (
            json!({"limits": {"minMovedReplicas": 9}, "objective": {"goal": "Balance", "maxMovedReplicas": 5}}),
            "spec.objective.maxMovedReplicas",
        ),
    ] {
        let (answer, _) = post(&world, rebalance("odd", spec.clone()), false).await;
        let refused = answer.expect_err(&spec.to_string());
        assert_eq!((refused.code, &*field(refused)), (422, at), "{spec}");
    }
    for mode in ["AsIs", "Steady", "AsBefore"] {
        let spec = json!({"select": [{}], "mode": mode, "objective": {"goal": "Balance"}});
        let review =
            json!({"apiVersion": "ballast.dev/v1alpha1", "kind": "PlacementReview", "metadata": {}, "spec": spec});
        let refused = post(&world, review, false).await.0.expect_err(mode);
        assert_eq!(field(refused), "spec.objective", "{mode}");
    }
}
