//! Returns to the placement before the failure, displaced workloads, and drains (RM34-RM38).

use ballast::k8s::Key;
use serde_json::{Value, json};

use super::failover::set_ready;
use super::fleet::{binding, by_room, cluster, nginx, no_execute, primary_and_backup, small_cluster};
use super::safe::{move_of, outcome, phase, rebalance, report, summary};
use super::safe_reviews::{post, reviewed};
use super::world::{CLUSTER, CREB, World};

async fn taint(world: &World, name: &str, taints: Value) {
    world.edit(&Key::cluster(CLUSTER, name), |cluster| cluster["spec"]["taints"] = taints.clone()).await;
}

async fn room(world: &World, name: &str, pods: i64) {
    let change = |cluster: &mut Value| {
        cluster["status"]["resourceSummary"]["allocatable"]["pods"] = pods.to_string().into();
    };
    world.edit(&Key::cluster(CLUSTER, name), change).await;
}

/// Fails the cluster, waits for the failover, and recovers the cluster.
async fn outage(world: &mut World, name: &str) {
    taint(world, name, json!([no_execute("down")])).await;
    world.settle().await;
    // The evictions end.
    world.pass_seconds(700).await;
    world.settle().await;
    taint(world, name, json!([])).await;
    world.settle().await;
}

fn home_of(world: &World, key: &Key) -> Option<Value> {
    let text = world.get(key).unwrap()["metadata"]["annotations"]["ballast.dev/home"].as_str()?.to_owned();
    Some(serde_json::from_str::<Value>(&text).unwrap()["targets"].clone())
}

/// Returns the numbers of displaced and of drifted workloads.
async fn counts(world: &World) -> (i64, i64) {
    let mut found = Vec::new();
    for field in ["displaced", "drifted"] {
        let mut entry = json!({});
        entry[field] = true.into();
        let review = reviewed(world, json!({"select": [entry], "mode": "Steady", "limit": 0})).await;
        found.push(review["summary"]["selected"].as_i64().unwrap());
    }
    (found[0], found[1])
}

fn as_before(name: &str) -> Value {
    rebalance(name, json!({"select": [{"displaced": true}], "mode": "AsBefore"}))
}

#[tokio::test]
async fn rm36_the_first_eviction_writes_home_down_and_the_way_back_takes_it_away() {
    let (mut world, key) = nginx().await;
    assert_eq!(counts(&world).await, (0, 0), "nothing that was just placed is displaced");
    let before = world.client().view().revision;
    outage(&mut world, "member1").await;
    assert_eq!(world.placed(&key), "member2:4");
    let home = json!([{"name": "member1", "replicas": 2}, {"name": "member2", "replicas": 2}]);
    assert_eq!(home_of(&world, &key), Some(home.clone()));
    // The annotation is present at every revision at which a target is missing.
    for row in world.written_since(before).await.into_iter().filter(|row| row.key == key) {
        let object: Value = serde_json::from_slice(&row.object).unwrap();
        let targets = object["spec"]["clusters"].as_array().cloned().unwrap_or_default();
        let is_whole = targets.iter().any(|target| target["name"] == "member1");
        let is_known = !object["metadata"]["annotations"]["ballast.dev/home"].is_null();
        assert!(is_whole || is_known, "home is forgotten at {}", row.revision);
    }
    assert_eq!(counts(&world).await, (1, 0));
    // Neither a restart nor a compacted log changes the result.
    world.compact().await;
    world.crash().await;
    world.settle().await;
    let back = world.given(as_before("back")).await;
    world.settle().await;
    assert_eq!((phase(&world, &back), summary(&world, &back)), ("Completed".to_owned(), "settled 1".to_owned()));
    assert_eq!(world.placed(&key), "member1:2 member2:2");
    assert_eq!((home_of(&world, &key), counts(&world).await), (None, (0, 0)));
    // An undo of the return also reverts the former placement.
    world.given(rebalance("away", json!({"undo": {"name": "back"}}))).await;
    world.settle().await;
    assert_eq!((world.placed(&key), home_of(&world, &key)), ("member2:4".to_owned(), Some(home)));
    assert_eq!(counts(&world).await, (1, 0));
}

#[tokio::test]
async fn rm36_a_new_placement_that_is_rolled_back_is_no_new_home() {
    let (mut world, key) = nginx().await;
    outage(&mut world, "member1").await;
    report(&world, &key, &[("member2", 4)]).await;
    let home = home_of(&world, &key);
    assert!(home.is_some());
    let rollout = json!({"strategy": "SurgeFirst", "settle": {"when": "Healthy", "timeoutSeconds": 60}});
    let anew = world.given(rebalance("anew", json!({"mode": "Fresh", "rollout": rollout}))).await;
    world.settle().await;
    assert_eq!((world.placed(&key).as_str(), home_of(&world, &key)), ("member1:2 member2:4", None));
    // New replicas there never become ready.
    world.pass_seconds(61).await;
    assert_eq!(summary(&world, &anew), "failed 1");
    assert_eq!((world.placed(&key).as_str(), home_of(&world, &key)), ("member2:4", home));
}

#[tokio::test]
async fn rm36_a_new_placement_is_the_new_home() {
    let (mut world, key) = nginx().await;
    outage(&mut world, "member1").await;
    assert!(home_of(&world, &key).is_some());
    world.given(rebalance("fresh", json!({"select": [{}], "mode": "Fresh"}))).await;
    world.settle().await;
    assert_eq!((home_of(&world, &key), counts(&world).await), (None, (0, 0)));
    outage(&mut world, "member1").await;
    let only = json!({"clusterAffinity": {"clusterNames": ["member2"]}, "replicaScheduling":
        {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"}});
    world.edit(&key, |binding| binding["spec"]["placement"] = only.clone()).await;
    world.settle().await;
    assert_eq!((home_of(&world, &key), counts(&world).await), (None, (0, 0)));
}

#[tokio::test]
async fn rm36_what_falls_back_to_another_group_comes_home_to_the_first() {
    let mut world = World::new().await;
    for name in ["member1", "member2"] {
        world.given(cluster(name)).await;
    }
    let key = world.given(binding("web-0", 4, primary_and_backup())).await;
    world.settle().await;
    assert_eq!(world.placed(&key), "member1:4");
    outage(&mut world, "member1").await;
    assert_eq!(world.placed(&key), "member2:4");
    assert_eq!(counts(&world).await, (1, 0));
    world.given(as_before("back")).await;
    world.settle().await;
    assert_eq!((world.placed(&key), counts(&world).await), ("member1:4".to_owned(), (0, 0)));
}

#[tokio::test]
async fn rm37_all_are_home_after_one_rebalance_and_nothing_swings() {
    let mut world = World::new().await;
    for name in ["member1", "member2", "member3"] {
        world.given(small_cluster(name, 1_000)).await;
    }
    let mut keys = Vec::new();
    for index in 0..8 {
        keys.push(world.given(binding(&format!("web-{index}"), 6, by_room())).await);
        world.settle().await;
    }
    outage(&mut world, "member1").await;
    assert!(keys.iter().all(|key| world.placed(key) == "member2:3 member3:3"));
    assert_eq!(counts(&world).await, (8, 0));
    let back = world.given(as_before("back")).await;
    world.settle().await;
    assert_eq!(summary(&world, &back), "settled 8");
    assert!(keys.iter().all(|key| world.placed(key) == "member1:2 member2:2 member3:2"));
    assert_eq!(counts(&world).await, (0, 0));
}

#[tokio::test]
async fn rm37_another_number_is_shared_out_and_what_does_not_fit_goes_as_far_as_it_can() {
    let (mut world, key) = nginx().await;
    outage(&mut world, "member1").await;
    room(&world, "member1", 0).await;
    world.edit(&key, |binding| binding["spec"]["replicas"] = 8.into()).await;
    world.settle().await;
    assert_eq!(world.placed(&key), "member2:8");
    room(&world, "member1", 3).await;
    let review = reviewed(&world, json!({"select": [{"displaced": true}], "mode": "AsBefore"})).await;
    assert_eq!(review["moves"][0]["reason"], "NoRoom", "{review}");
    world.given(rebalance("some", json!({"select": [{"displaced": true}], "mode": "AsBefore"}))).await;
    world.settle().await;
    assert_eq!(world.placed(&key), "member1:3 member2:5");
    let view = world.client().view();
    let moved = view.list(super::world::MOVES, None).next().unwrap();
    let moved = world.get(&moved.key).unwrap();
    assert_eq!((&moved["status"]["phase"], &moved["status"]["reason"]), (&json!("Failed"), &json!("NoRoom")));
    let why = "1 replica is not home: 4 replicas would arrive at member1, which has room for 3";
    assert_eq!(moved["status"]["message"], why);
    assert_eq!(counts(&world).await, (1, 0), "it is not home yet");
    room(&world, "member1", 1_000).await;
    world.given(as_before("rest")).await;
    world.settle().await;
    assert_eq!((world.placed(&key), counts(&world).await), ("member1:4 member2:4".to_owned(), (0, 0)));
}

#[tokio::test]
async fn rm37_a_moment_of_the_log_comes_back_as_it_was() {
    let (mut world, key) = nginx().await;
    let then = world.client().view().revision.to_string();
    world.clock.advance_seconds(60);
    world.edit(&key, |binding| binding["spec"]["clusters"] = json!([{"name": "member2", "replicas": 4}])).await;
    world.settle().await;
    let spec = json!({"select": [{}], "mode": "AsBefore", "before": {"revision": then}});
    let review = reviewed(&world, spec.clone()).await;
    assert_eq!(review["summary"]["toMove"], 1, "{review}");
    let planned = post(&world, rebalance("then", spec.clone()), true).await.0.unwrap();
    assert_eq!(planned["status"]["summary"]["replicasToMove"], 2);
    world.given(rebalance("then", spec)).await;
    world.settle().await;
    assert_eq!(world.placed(&key), "member1:2 member2:2");
    let beyond = json!({"select": [{}], "mode": "AsBefore", "before": {"revision": "999999"}});
    let refused = post(&world, rebalance("beyond", beyond), true).await.0.unwrap();
    assert_eq!(refused["status"]["phase"], "Aborted", "{refused}");
    for wrong in [
        json!({"select": [{}], "before": {"revision": "1"}}),
        json!({"select": [{}], "mode": "AsBefore", "before": {}}),
    ] {
        let status = post(&world, rebalance("wrong", wrong), false).await.0.unwrap_err();
        assert_eq!(status.code, 422);
        assert_eq!(status.details.unwrap().causes[0].field, "spec.before");
    }
}

#[tokio::test]
async fn rm38_what_breaks_a_rule_is_displaced_and_what_is_only_uneven_has_drifted() {
    let (mut world, key) = nginx().await;
    world.edit(&key, |binding| binding["spec"]["clusters"] = json!([{"name": "member2", "replicas": 4}])).await;
    world.settle().await;
    assert_eq!(counts(&world).await, (0, 1));
    // A failed cluster violates a rule at once, a closed one does not.
    taint(&world, "member2", json!([{"key": "x", "effect": "NoSchedule"}])).await;
    assert_eq!(counts(&world).await.0, 0);
    taint(&world, "member2", json!([no_execute("down")])).await;
    assert_eq!(counts(&world).await.0, 1);
    let both = json!({"select": [{"displaced": true, "drifted": true}]});
    let status = post(&world, rebalance("both", both), false).await.0.unwrap_err();
    assert_eq!(status.details.unwrap().causes[0].field, "spec.select[0].drifted");
}

fn drain(name: &str, clusters: &[&str], more: Value) -> Value {
    let mut spec = json!({"clusters": clusters});
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let mut drain = rebalance(name, json!({"drain": spec, "select": []}));
    drain["spec"].as_object_mut().unwrap().remove("select");
    drain
}

/// Creates three clusters of `pods` pods, two divided workloads of six replicas, and one duplicated
/// workload.
async fn busy(pods: u32) -> (World, Vec<Key>) {
    let mut world = World::new().await;
    for name in ["member1", "member2", "member3"] {
        world.given(small_cluster(name, pods)).await;
    }
    let mut keys = Vec::new();
    for index in 0..2 {
        keys.push(world.given(binding(&format!("web-{index}"), 6, by_room())).await);
        world.settle().await;
    }
    keys.push(world.given(binding("web-2", 1, json!({}))).await);
    world.settle().await;
    let all = "member1:2 member2:2 member3:2";
    assert_eq!((world.placed(&keys[0]), world.placed(&keys[1])), (all.to_owned(), all.to_owned()));
    assert_eq!(world.placed(&keys[2]), "member1:1 member2:1 member3:1");
    (world, keys)
}

fn is_cordoned(world: &World, name: &str) -> bool {
    let taints = world.get(&Key::cluster(CLUSTER, name)).unwrap()["spec"]["taints"].clone();
    taints.as_array().is_some_and(|taints| taints.iter().any(|it| it["key"] == "cluster.karmada.io/unschedulable"))
}

#[tokio::test]
async fn rm34_a_drain_closes_its_cluster_takes_off_what_runs_there_and_moves_nothing_else() {
    let (mut world, keys) = busy(1_000).await;
    post(&world, drain("afternoon", &["member3"], json!({})), false).await.0.unwrap();
    let key = Key::cluster(CREB, "afternoon");
    assert_eq!(world.get(&key).unwrap()["spec"]["rollout"]["strategy"], "SurgeFirst");
    world.settle().await;
    assert!(is_cordoned(&world, "member3"));
    assert_eq!(
        (phase(&world, &key), summary(&world, &key)),
        ("Completed".to_owned(), "settled 2, failed 1".to_owned())
    );
    for key in &keys[..2] {
        assert_eq!(world.placed(key), "member1:3 member2:3");
    }
    assert_eq!(world.placed(&keys[2]), "member1:1 member2:1 member3:1", "a copy has no other place");
    assert_eq!(counts(&world).await.0, 0, "what a user moved is not displaced");
    // The return.
    taint(&world, "member3", json!([])).await;
    post(&world, rebalance("back", json!({"undo": {"name": "afternoon"}})), false).await.0.unwrap();
    world.settle().await;
    for key in &keys[..2] {
        assert_eq!(world.placed(key), "member1:2 member2:2 member3:2");
    }
    post(&world, drain("all", &["member3"], json!({"includeDuplicated": true})), false).await.0.unwrap();
    world.settle().await;
    assert_eq!(world.placed(&keys[2]), "member1:1 member2:1");
    assert_eq!(world.placed(&keys[0]), "member1:3 member2:3");
}

#[tokio::test]
async fn rm34_a_lost_cluster_keeps_what_it_has_and_gets_nothing_of_a_drain() {
    let (mut world, keys) = busy(1_000).await;
    set_ready(&mut world, &Key::cluster(CLUSTER, "member2"), "False").await;
    post(&world, drain("afternoon", &["member3"], json!({})), false).await.0.unwrap();
    world.settle().await;
    for key in &keys[..2] {
        assert_eq!(world.placed(key), "member1:4 member2:2");
    }
}

#[tokio::test]
async fn rm34_as_much_leaves_as_finds_a_place_and_what_stays_says_why() {
    let (mut world, keys) = busy(1_000).await;
    for key in &keys {
        let all = world.get(key).unwrap()["spec"]["clusters"].as_array().unwrap().clone();
        let ready: Vec<(String, i64)> =
            all.iter().map(|it| (it["name"].as_str().unwrap().to_owned(), it["replicas"].as_i64().unwrap())).collect();
        let ready: Vec<(&str, i64)> = ready.iter().map(|(name, count)| (name.as_str(), *count)).collect();
        report(&world, key, &ready).await;
    }
    // Five run on each: capacity for one more on member1, and for none on member2.
    room(&world, "member1", 6).await;
    room(&world, "member2", 5).await;
    let direct = json!({"strategy": "Direct", "settle": {"when": "Scheduled"}, "order": "Name"});
    let mut object = drain("tight", &["member3"], json!({}));
    object["spec"]["rollout"] = direct;
    post(&world, object, false).await.0.unwrap();
    world.settle().await;
    let key = Key::cluster(CREB, "tight");
    assert_eq!(phase(&world, &key), "Completed");
    assert_eq!(summary(&world, &key), "failed 3");
    assert_eq!(world.placed(&keys[0]), "member1:3 member2:2 member3:1");
    assert_eq!(outcome(&world, "tight", 0), "Failed NoRoom");
    let message = move_of(&world, "tight", 0)["status"]["message"].as_str().unwrap().to_owned();
    assert!(message.starts_with("1 of 2 replicas stay on member3: "), "{message}");
    assert_eq!(world.placed(&keys[1]), "member1:2 member2:2 member3:2");
    assert_eq!(world.get(&key).unwrap()["status"]["summary"]["replicasMoved"], 1);
}

#[tokio::test]
async fn rm35_what_cannot_be_drained_is_refused_by_its_field() {
    let (mut world, _keys) = busy(1_000).await;
    let refused = |object: Value| {
        let world = &world;
        async move {
            let status = post(world, object, false).await.0.unwrap_err();
            assert_eq!(status.code, 422, "{status}");
            let cause = status.details.unwrap().causes.remove(0);
            (cause.field, cause.message)
        }
    };
    let (field, message) = refused(drain("x", &["member-3"], json!({}))).await;
    assert_eq!(field, "spec.drain.clusters[0]");
    assert!(message.contains("the nearest known name is \"member3\""), "{message}");
    let (field, message) = refused(drain("x", &["member1", "member2", "member3"], json!({}))).await;
    assert_eq!(field, "spec.drain.clusters");
    assert!(message.contains("no cluster would be left that takes workloads"), "{message}");
    let mut both = drain("x", &["member1"], json!({}));
    both["spec"]["select"] = json!([{}]);
    assert_eq!(refused(both).await.0, "spec.drain");
    let mut local = drain("x", &["member1"], json!({}));
    local["kind"] = "Rebalance".into();
    local["metadata"]["namespace"] = "default".into();
    assert_eq!(refused(local).await.0, "spec.drain");
    // Two concurrent drains: the second may not close the last cluster.
    post(&world, drain("one", &["member1"], json!({})), false).await.0.unwrap();
    world.settle().await;
    post(&world, drain("two", &["member2"], json!({})), false).await.0.unwrap();
    world.settle().await;
    assert!(post(&world, drain("three", &["member3"], json!({})), false).await.0.is_err());
}

#[tokio::test]
async fn rm34_a_drain_goes_on_after_a_kill_at_any_step_and_waits_for_its_approval() {
    for steps in 0..12 {
        let (mut world, keys) = busy(1_000).await;
        let mut object = drain("afternoon", &["member3"], json!({}));
        object["spec"]["approval"] = "Required".into();
        post(&world, object, false).await.0.unwrap();
        world.settle().await;
        let key = Key::cluster(CREB, "afternoon");
        assert!(!is_cordoned(&world, "member3"), "it waits");
        world.edit(&key, |object| object["spec"]["approved"] = true.into()).await;
        for _ in 0..steps {
            world.turn_of("rebalance").await;
        }
        world.crash().await;
        world.settle().await;
        assert!(is_cordoned(&world, "member3"));
        assert_eq!(summary(&world, &key), "settled 2, failed 1");
        assert_eq!(world.placed(&keys[0]), "member1:3 member2:3");
    }
}

/// After a drain of two clusters, each is restored by a separate undo, which moves only the
/// replicas drained from its clusters.
#[tokio::test]
async fn rm40_one_of_two_drained_clusters_comes_back_alone_and_the_other_later() {
    let (mut world, keys) = busy(1_000).await;
    post(&world, drain("both", &["member1", "member3"], json!({"includeDuplicated": true})), false).await.0.unwrap();
    world.settle().await;
    assert_eq!(world.placed(&keys[0]), "member2:6");
    assert_eq!(world.placed(&keys[2]), "member2:1");
    let undo = |name: &str, clusters: &[&str]| {
        let mut undo = rebalance(name, json!({"undo": {"name": "both", "clusters": clusters}}));
        undo["spec"].as_object_mut().unwrap().remove("select");
        undo
    };
    let wrong = post(&world, undo("x", &["member3", "member3"]), false).await.0.unwrap_err();
    assert_eq!(wrong.details.unwrap().causes[0].field, "spec.undo.clusters[1]");
    taint(&world, "member3", json!([])).await;
    post(&world, undo("third", &["member3"]), false).await.0.unwrap();
    world.settle().await;
    assert_eq!(summary(&world, &Key::cluster(CREB, "third")), "settled 2, unchanged 1", "a copy comes anyway");
    assert_eq!(world.placed(&keys[0]), "member2:4 member3:2");
    assert_eq!(world.placed(&keys[2]), "member2:1 member3:1");
    taint(&world, "member1", json!([])).await;
    post(&world, undo("first", &["member1"]), false).await.0.unwrap();
    world.settle().await;
    for key in &keys[..2] {
        assert_eq!(world.placed(key), "member1:2 member2:2 member3:2");
    }
    assert_eq!(world.placed(&keys[2]), "member1:1 member2:1 member3:1");
    // Workloads that never ran there do not move there.
    post(&world, undo("none", &["member2"]), false).await.0.unwrap();
    world.settle().await;
    assert_eq!(phase(&world, &Key::cluster(CREB, "none")), "Completed");
}

#[tokio::test]
async fn rm34_a_drained_cluster_that_dies_meanwhile_and_a_second_drain_beside_it_end_well() {
    for steps in 0..8 {
        let (mut world, keys) = busy(1_000).await;
        // Once this time has passed, the drain reports the replicas being evicted from the failed
        // cluster.
        let of = |name: &str, cluster: &str| {
            let mut drain = drain(name, &[cluster], json!({}));
            drain["spec"]["rollout"] = json!({"settle": {"timeoutSeconds": 20}});
            drain
        };
        post(&world, of("one", "member3"), false).await.0.unwrap();
        for _ in 0..steps {
            world.turn().await;
        }
        let dead = json!([
            {"key": "cluster.karmada.io/unschedulable", "effect": "NoSchedule"}, no_execute("down"),
        ]);
        taint(&world, "member3", dead).await;
        post(&world, of("two", "member1"), false).await.0.unwrap();
        world.pass_seconds(30).await;
        for name in ["one", "two"] {
            assert_eq!(phase(&world, &Key::cluster(CREB, name)), "Completed", "{name} after {steps}");
        }
        for key in &keys[..2] {
            assert_eq!(world.placed(key), "member2:6", "{steps}");
        }
    }
}
