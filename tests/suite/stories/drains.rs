//! A drain ends when its clusters are empty, or reports each workload that remains.

use ballast::k8s::Key;
use serde_json::{Value, json};

use super::fleet::{binding, by_room, small_cluster};
use super::safe::{move_of, phase, rebalance, report, summary};
use super::safe_reviews::post;
use super::world::{CLUSTER, CREB, MOVES, World, condition};

fn drain(name: &str, more: Value) -> Value {
    let mut drain = rebalance(name, json!({"drain": {"clusters": ["member3"]}}));
    let spec = drain["spec"].as_object_mut().unwrap();
    spec.remove("select");
    spec.extend(more.as_object().unwrap().clone());
    drain
}

/// Creates three clusters, and a divided workload with two replicas on each.
async fn three() -> (World, Key) {
    let mut world = World::new().await;
    for name in ["member1", "member2", "member3"] {
        world.given(small_cluster(name, 1_000)).await;
    }
    let web = world.given(binding("web-0", 6, by_room())).await;
    world.settle().await;
    assert_eq!(world.placed(&web), "member1:2 member2:2 member3:2");
    (world, web)
}

/// Creates a divided workload with two replicas, both on member3.
async fn arrive(world: &World, name: &str) -> Key {
    let mut late = binding(name, 2, by_room());
    late["spec"]["clusters"] = json!([{"name": "member3", "replicas": 2}]);
    world.given(late).await
}

fn is_closed(world: &World) -> bool {
    let taints = world.get(&Key::cluster(CLUSTER, "member3")).unwrap()["spec"]["taints"].clone();
    taints.as_array().is_some_and(|taints| taints.iter().any(|it| it["key"] == "cluster.karmada.io/unschedulable"))
}

async fn open(world: &World) {
    let open = |cluster: &mut Value| cluster["spec"]["taints"] = json!([]);
    world.edit(&Key::cluster(CLUSTER, "member3"), open).await;
}

fn creb(name: &str) -> Key {
    Key::cluster(CREB, name)
}

fn completed(world: &World, name: &str) -> String {
    let object = world.get(&creb(name)).unwrap();
    condition(&object, "Completed").unwrap()["message"].as_str().unwrap().to_owned()
}

/// Returns the Moves of the drain as `workload phase reason`, sorted by workload.
fn moves(world: &World, of: &str) -> Vec<String> {
    let all = world.client().view().list(MOVES, None).filter_map(|object| world.get(&object.key)).collect::<Vec<_>>();
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let own = all.iter().filter(|it| it["spec"]["rebalance"] == of);
    let line = |it: &Value| {
        let (status, name) = (&it["status"], &it["spec"]["workload"]["name"]);
        format!("{} {} {}", text(name), text(&status["phase"]), text(&status["reason"]))
    };
    let mut lines: Vec<String> = own.map(line).collect();
    lines.sort();
    lines
}

#[tokio::test]
async fn a_drain_names_each_workload_that_may_not_move() {
    let (mut world, web) = three().await;
    let held = arrive(&world, "held").await;
    let mut theirs = binding("theirs", 2, by_room());
    theirs["spec"]["clusters"] = json!([{"name": "member3", "replicas": 2}]);
    theirs["spec"]["schedulerName"] = "theirs".into();
    world.given(theirs).await;
    world.given(binding("copy", 1, json!({}))).await;
    world.settle().await;
    world.edit(&held, |binding| binding["spec"]["suspension"] = json!({"scheduling": true})).await;
    world.settle().await;
    world.given(drain("out", json!({}))).await;
    world.settle().await;
    assert_eq!(
        (phase(&world, &creb("out")), summary(&world, &creb("out"))),
        ("Completed".into(), "settled 1, failed 3".into())
    );
    assert_eq!(
        moves(&world, "out"),
        [
            "copy Failed Duplicated",
            "held Failed SchedulingSuspended",
            "theirs Failed OtherScheduler",
            "web-0 Settled -"
        ]
    );
    assert_eq!(world.placed(&web), "member1:3 member2:3");
    let reasons = world.get(&creb("out")).unwrap()["status"]["reasons"].clone();
    let named: Vec<&Value> = reasons.as_array().unwrap().iter().map(|it| &it["workload"]["name"]).collect();
    assert!(named.contains(&&json!("held")) && named.contains(&&json!("copy")), "{reasons}");
}

#[tokio::test]
async fn what_the_limits_keep_on_a_drained_cluster_is_named() {
    let (mut world, web) = three().await;
    world.given(drain("out", json!({"limits": {"maxMovedReplicas": 1}}))).await;
    world.settle().await;
    assert_eq!((phase(&world, &creb("out")), summary(&world, &creb("out"))), ("Completed".into(), "failed 1".into()));
    assert_eq!(moves(&world, "out"), ["web-0 Failed LimitReached"]);
    assert!(world.placed(&web).ends_with("member3:1"), "{}", world.placed(&web));
    assert_eq!(world.get(&creb("out")).unwrap()["status"]["summary"]["replicasMoved"], 1);
}

#[tokio::test]
async fn a_drain_moves_what_came_before_its_approval() {
    let (mut world, web) = three().await;
    world.given(drain("out", json!({"approval": "Required"}))).await;
    world.settle().await;
    let late = arrive(&world, "late").await;
    world.settle().await;
    assert_eq!((world.placed(&late), is_closed(&world)), ("member3:2".to_owned(), false));
    world.edit(&creb("out"), |object| object["spec"]["approved"] = true.into()).await;
    world.settle().await;
    assert_eq!((phase(&world, &creb("out")), summary(&world, &creb("out"))), ("Completed".into(), "settled 2".into()));
    assert_eq!(world.placed(&web), "member1:3 member2:3");
    assert!(!world.placed(&late).contains("member3"), "{}", world.placed(&late));
    let status = world.get(&creb("out")).unwrap()["status"].clone();
    assert_eq!((&status["summary"]["selected"], &status["summary"]["toMove"]), (&json!(2), &json!(2)));
    let counts = status["clusters"].as_array().unwrap();
    let third = counts.iter().find(|it| it["name"] == "member3").unwrap();
    assert_eq!((&third["before"], &third["planned"], &third["now"]), (&json!(4), &json!(0), &json!(0)), "{status}");
    // Also if no workload was there when the drain was planned.
    open(&world).await;
    world.given(drain("empty", json!({"approval": "Required"}))).await;
    world.settle().await;
    assert_eq!(phase(&world, &creb("empty")), "Planned");
    let later = arrive(&world, "later").await;
    world.settle().await;
    world.edit(&creb("empty"), |object| object["spec"]["approved"] = true.into()).await;
    world.settle().await;
    assert_eq!(phase(&world, &creb("empty")), "Completed");
    assert!(!world.placed(&later).contains("member3"), "{}", world.placed(&later));
}

#[tokio::test]
async fn what_is_scaled_during_a_drain_leaves_as_well() {
    for steps in 0..8 {
        let (mut world, web) = three().await;
        report(&world, &web, &[("member1", 2), ("member2", 2), ("member3", 2)]).await;
        world.given(drain("out", json!({}))).await;
        for _ in 0..steps {
            world.turn_of("rebalance").await;
        }
        world.edit(&web, |binding| binding["spec"]["replicas"] = 8.into()).await;
        for _ in 0..10 {
            world.pass_seconds(2).await;
            let there = world.get(&web).unwrap()["spec"]["clusters"].as_array().unwrap().clone();
            let ready: Vec<(String, i64)> = there
                .iter()
                .map(|it| (it["name"].as_str().unwrap().to_owned(), it["replicas"].as_i64().unwrap()))
                .collect();
            let ready: Vec<(&str, i64)> = ready.iter().map(|(name, count)| (&**name, *count)).collect();
            report(&world, &web, &ready).await;
        }
        world.settle().await;
        assert_eq!(phase(&world, &creb("out")), "Completed", "{steps}");
        let placed = world.placed(&web);
        assert!(!placed.contains("member3"), "{steps}: {placed} {:?}", moves(&world, "out"));
        // An undo needs the cluster where the workload was before its first move.
        let first = move_of(&world, "out", 0);
        assert_eq!(first["spec"]["from"].as_array().unwrap().len(), 3, "{steps}: {first}");
    }
}

#[tokio::test]
async fn arrivals_without_end_do_not_keep_a_drain_in_progress() {
    let (mut world, web) = three().await;
    world.given(drain("out", json!({"rollout": {"settle": {"when": "Scheduled"}}}))).await;
    let back = json!([{"name": "member1", "replicas": 3}, {"name": "member3", "replicas": 3}]);
    let mut turns = 0;
    while phase(&world, &creb("out")) != "Completed" {
        turns += 1;
        assert!(turns < 1_000, "{:?}", moves(&world, "out"));
        if !world.placed(&web).contains("member3") {
            world.edit(&web, |binding| binding["spec"]["clusters"] = back.clone()).await;
        }
        world.turn_of("rebalance").await;
    }
    let moves = moves(&world, "out");
    assert_eq!(moves.last().map(String::as_str), Some("web-0 Settled -"), "{moves:?}");
    assert!(moves.contains(&"web-0 Failed CameBack".to_owned()) && moves.len() <= 22, "{moves:?}");
    // The undo restores the placement before the first move.
    open(&world).await;
    world.given(rebalance("back", json!({"undo": {"name": "out"}}))).await;
    world.settle().await;
    assert_eq!(world.placed(&web), "member1:2 member2:2 member3:2");
}

#[tokio::test]
async fn a_drain_waits_for_evictions_and_names_those_that_do_not_end() {
    for ends in [true, false] {
        let (mut world, web) = three().await;
        let task = json!([{"fromCluster": "member3", "reason": "TaintUntolerated", "producer": "TaintManager",
            "replicas": 2, "creationTimestamp": "2024-04-17T15:00:05Z", "suppressDeletion": true}]);
        let evict = |binding: &mut Value| {
            binding["spec"]["clusters"] =
                json!([{"name": "member1", "replicas": 3}, {"name": "member2", "replicas": 3}]);
            binding["spec"]["gracefulEvictionTasks"] = task.clone();
        };
        world.edit(&web, evict).await;
        world.given(drain("out", json!({"rollout": {"settle": {"timeoutSeconds": 30}}}))).await;
        world.settle().await;
        assert_eq!(phase(&world, &creb("out")), "Running");
        assert!(completed(&world, "out").contains("leaving"), "{}", completed(&world, "out"));
        if ends {
            world.edit(&web, |binding| binding["spec"]["gracefulEvictionTasks"] = json!([])).await;
            world.pass_seconds(1).await;
            assert_eq!((phase(&world, &creb("out")), moves(&world, "out").len()), ("Completed".into(), 0));
            continue;
        }
        world.pass_seconds(31).await;
        assert_eq!(phase(&world, &creb("out")), "Completed");
        assert_eq!(moves(&world, "out"), ["web-0 Failed StillLeaving"]);
        assert_eq!(summary(&world, &creb("out")), "failed 1");
    }
}

#[tokio::test]
async fn a_drain_without_a_plan_leaves_its_cluster_open() {
    let (mut world, _) = three().await;
    let other = json!({"expectPlan": "5e3fa2cb34a37d4d3b6a94ab0ee0d4e0-150-300"});
    let unknown = json!({"objective": {"goal": "Balance", "resource": "example.com/gpu"}});
    for (name, more) in [("changed", other), ("unknown", unknown)] {
        world.given(drain(name, more)).await;
        world.settle().await;
        assert_eq!((phase(&world, &creb(name)), is_closed(&world)), ("Aborted".to_owned(), false), "{name}");
    }
}

#[tokio::test]
async fn an_aborted_drain_names_the_clusters_that_stay_closed() {
    let (mut world, web) = three().await;
    report(&world, &web, &[("member1", 2), ("member2", 2), ("member3", 2)]).await;
    world.given(drain("out", json!({}))).await;
    world.settle().await;
    world.edit(&creb("out"), |object| object["spec"]["abort"] = true.into()).await;
    report(&world, &web, &[("member1", 3), ("member2", 3), ("member3", 0)]).await;
    world.settle().await;
    assert_eq!(phase(&world, &creb("out")), "Aborted");
    let told = completed(&world, "out");
    assert!(told.contains("member3 stays closed to new workloads: `ballast uncordon member3` opens it"), "{told}");
}

#[tokio::test]
async fn a_drain_ends_when_its_cluster_is_opened() {
    for is_paused in [false, true] {
        let (mut world, _) = three().await;
        let late = arrive(&world, "web-1").await;
        world.settle().await;
        for key in [&late] {
            report(&world, key, &[("member3", 2)]).await;
        }
        let rollout = json!({"maxConcurrent": 1, "intervalSeconds": 60, "order": "Name"});
        world.given(drain("out", json!({"rollout": rollout}))).await;
        world.settle().await;
        assert_eq!(summary(&world, &creb("out")), "pending 1, settled 1");
        if is_paused {
            world.edit(&creb("out"), |object| object["spec"]["paused"] = true.into()).await;
            world.settle().await;
        }
        open(&world).await;
        world.pass_seconds(120).await;
        assert_eq!(phase(&world, &creb("out")), "Aborted", "{is_paused}");
        assert_eq!(summary(&world, &creb("out")), "settled 1, unchanged 1");
        assert!(completed(&world, "out").contains("member3 was opened"), "{}", completed(&world, "out"));
        assert_eq!((world.placed(&late), is_closed(&world)), ("member3:2".to_owned(), false));
    }
}

#[tokio::test]
async fn a_dry_run_of_a_drain_names_what_would_stay() {
    let (mut world, _) = three().await;
    world.given(binding("copy", 1, json!({}))).await;
    world.settle().await;
    let status = post(&world, drain("out", json!({})), true).await.0.unwrap()["status"].clone();
    assert_eq!((&status["summary"]["toMove"], &status["summary"]["failed"]), (&json!(1), &json!(1)));
    assert_eq!(
        (&status["reasons"][0]["reason"], &status["reasons"][0]["workload"]["name"]),
        (&json!("Duplicated"), &json!("copy"))
    );
}
