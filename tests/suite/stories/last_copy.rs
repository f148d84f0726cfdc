//! Evictions of replicas that cannot be placed, or are not ready, elsewhere (RM20 to RM28): which
//! replicas remain, how they end, and in which order.

use ballast::controllers::{EvictionRate, FailoverOptions, LastCopy, TaintEviction};
use ballast::engine::karmada::Profile;
use ballast::k8s::Key;
use serde_json::{Value, json};

use super::events::events_about;
use super::failover::{member1, set_ready, taint, tasks, untaint};
use super::fleet::{binding, by_room, cluster, cluster_binding, no_execute, small_cluster};
use super::world::{CLUSTER, World, condition, without_a_rate};

fn member2() -> Key {
    Key::cluster(CLUSTER, "member2")
}

/// Places `web` with three replicas on member1, the only cluster.
async fn alone(failover: FailoverOptions) -> (World, Key) {
    let mut world = World::with_failover(failover).await;
    world.given(cluster("member1")).await;
    let key = world.given(binding("web", 3, by_room())).await;
    world.settle().await;
    assert_eq!(world.placed(&key), "member1:3");
    (world, key)
}

/// Advances the clock in steps of a minute.
async fn pass_minutes(world: &mut World, minutes: i64) {
    for _ in 0..minutes {
        world.clock.advance_seconds(60);
        world.settle().await;
    }
}

/// Returns the message of the condition; empty if there is none.
fn kept(world: &World, key: &Key) -> String {
    let binding = world.get(key).unwrap();
    let message =
        condition(&binding, "LastCopyKept").map(|condition| condition["message"].as_str().unwrap().to_owned());
    message.unwrap_or_default()
}

/// Reports the ready replicas of each cluster.
pub(super) async fn say_ready(world: &mut World, key: &Key, ready: &[(&str, i64)]) {
    let item = |(cluster, ready): &(&str, i64)| {
        let health = if *ready > 0 { "Healthy" } else { "Unhealthy" };
        json!({"clusterName": cluster, "applied": true, "health": health,
               "status": {"replicas": 3, "readyReplicas": ready}})
    };
    let items: Vec<Value> = ready.iter().map(item).collect();
    world.edit(key, |binding| binding["status"]["aggregatedStatus"] = json!(items)).await;
    world.settle().await;
}

#[tokio::test]
async fn a_replacement_that_is_not_healthy_replaces_nothing() {
    let (mut world, key) = alone(without_a_rate()).await;
    world.given(cluster("member2")).await;
    taint(&mut world, &member1()).await;
    world.settle().await;
    assert_eq!(world.placed(&key), "member2:3");
    // All replicas are ready, but the application is unhealthy.
    let report = |cluster: &str, health: &str| {
        json!({"clusterName": cluster, "applied": true, "health": health,
               "status": {"replicas": 3, "readyReplicas": 3}})
    };
    let unhealthy = json!([report("member1", "Healthy"), report("member2", "Unhealthy")]);
    world.edit(&key, |binding| binding["status"]["aggregatedStatus"] = unhealthy.clone()).await;
    pass_minutes(&mut world, 30).await;
    assert_eq!(tasks(&world, &key).len(), 1, "the old copy stays beyond its grace period");
    assert_eq!(kept(&world, &key), "3 replicas are not ready elsewhere; kept on member1");
    let healthy = json!([report("member1", "Healthy"), report("member2", "Healthy")]);
    world.edit(&key, |binding| binding["status"]["aggregatedStatus"] = healthy.clone()).await;
    world.settle().await;
    assert!(tasks(&world, &key).is_empty());
}

/// Asserts that the cluster is a target or being evicted at every revision.
async fn has_target_or_task_always(world: &World, key: &Key, cluster: &str) {
    let history = world.history(key).await;
    let is_there = |binding: &Value| {
        let names = |list: &str, name: &str| {
            binding["spec"][list].as_array().is_some_and(|list| list.iter().any(|it| it[name] == cluster))
        };
        names("clusters", "name") || names("gracefulEvictionTasks", "fromCluster")
    };
    let placed = history.iter().position(&is_there).expect("it was placed there");
    for binding in &history[placed..] {
        assert!(is_there(binding), "neither target nor task: {binding}");
    }
}

fn told(world: &World, reason: &str) -> Vec<String> {
    let events = events_about(world, "ResourceBinding").into_iter();
    events.filter(|event| event.contains(&format!(" {reason} "))).collect()
}

#[tokio::test]
async fn rm20_sched_16_what_has_no_other_place_is_kept_beyond_its_grace_period() {
    let (mut world, key) = alone(without_a_rate()).await;
    taint(&mut world, &member1()).await;
    pass_minutes(&mut world, 9).await;
    assert_eq!(kept(&world, &key), "", "the grace period is not over");
    pass_minutes(&mut world, 2).await;
    let sentence = "3 replicas have no other place; kept on member1";
    assert_eq!(kept(&world, &key), sentence);
    world.crash().await;
    pass_minutes(&mut world, 24 * 60).await;
    assert_eq!((tasks(&world, &key).len(), kept(&world, &key)), (1, sentence.to_owned()));
    let (mut world, key) = alone(without_a_rate()).await;
    taint(&mut world, &member1()).await;
    pass_minutes(&mut world, 11).await;
    world.pass_seconds(2).await;
    assert_eq!(told(&world, "LastCopyKept"), [format!("Warning LastCopyKept web-deployment x1: {sentence}")]);
    assert!(told(&world, "EvictWorkloadFromClusterSucceed").is_empty());
    world.given(cluster("member2")).await;
    world.pass_seconds(12).await;
    assert_eq!(world.placed(&key), "member2:3");
    assert_eq!((tasks(&world, &key).len(), kept(&world, &key).as_str()), (0, ""), "no cluster reports: targets count");
}

#[tokio::test]
async fn rm20_it_is_kept_until_the_replacement_is_ready() {
    let (mut world, key) = alone(without_a_rate()).await;
    say_ready(&mut world, &key, &[("member1", 3)]).await;
    world.given(cluster("member2")).await;
    world.settle().await;
    taint(&mut world, &member1()).await;
    assert_eq!(world.placed(&key), "member2:3");
    say_ready(&mut world, &key, &[("member1", 3), ("member2", 1)]).await;
    pass_minutes(&mut world, 60).await;
    assert_eq!(kept(&world, &key), "2 replicas are not ready elsewhere; kept on member1");
    say_ready(&mut world, &key, &[("member1", 3), ("member2", 3)]).await;
    world.pass_seconds(2).await;
    assert_eq!((tasks(&world, &key).len(), kept(&world, &key).as_str()), (0, ""));
}

#[tokio::test]
async fn rm20_of_copies_one_is_the_last_while_no_other_is_ready() {
    let mut world = World::new().await;
    for name in ["member1", "member2"] {
        world.given(cluster(name)).await;
    }
    let key = world.given(cluster_binding("demo-role", json!({}))).await;
    world.settle().await;
    assert_eq!(world.placed(&key), "member1 member2");
    let say = |applied: [bool; 2]| {
        let item =
            |(at, applied): (usize, &bool)| json!({"clusterName": format!("member{}", at + 1), "applied": applied});
        json!(applied.iter().enumerate().map(item).collect::<Vec<Value>>())
    };
    world.edit(&key, |binding| binding["status"]["aggregatedStatus"] = say([true, false])).await;
    taint(&mut world, &member1()).await;
    pass_minutes(&mut world, 11).await;
    assert_eq!(kept(&world, &key), "the object is not ready elsewhere; kept on member1");
    world.edit(&key, |binding| binding["status"]["aggregatedStatus"] = say([true, true])).await;
    world.settle().await;
    assert_eq!((tasks(&world, &key).len(), kept(&world, &key).as_str()), (0, ""));
}

#[tokio::test]
async fn rm21_it_ends_when_a_user_allows_it_and_when_the_cluster_is_deleted() {
    for is_deleted in [false, true] {
        let (mut world, key) = alone(without_a_rate()).await;
        taint(&mut world, &member1()).await;
        pass_minutes(&mut world, 11).await;
        assert_eq!(tasks(&world, &key).len(), 1);
        match is_deleted {
            true => world.delete(&member1()).await,
            false => {
                let allow = |binding: &mut Value| {
                    binding["spec"]["gracefulEvictionTasks"][0]["suppressDeletion"] = json!(false);
                };
                drop(world.edit(&key, allow).await);
            }
        }
        world.pass_seconds(2).await;
        assert_eq!((tasks(&world, &key).len(), kept(&world, &key).as_str()), (0, ""), "deleted: {is_deleted}");
        let lost = "Warning LastCopyLost web-deployment x1: 3 replicas were not ready elsewhere, and left member1";
        let lost: &[String] = if is_deleted { &[] } else { &[lost.to_owned()] };
        assert_eq!(told(&world, "LastCopyLost"), lost);
    }
}

#[tokio::test]
async fn rm21_a_bound_ends_it_and_zero_is_upstream_s_way() {
    let bounded = LastCopy::Stays { at_most_seconds: Some(120) };
    for (last_copy, minutes) in [(bounded, 12), (LastCopy::Leaves, 10)] {
        let (mut world, key) = alone(FailoverOptions { last_copy, ..without_a_rate() }).await;
        taint(&mut world, &member1()).await;
        pass_minutes(&mut world, minutes - 1).await;
        assert_eq!(tasks(&world, &key).len(), 1, "{last_copy:?}");
        pass_minutes(&mut world, 1).await;
        assert_eq!(tasks(&world, &key).len(), 0, "{last_copy:?}");
        world.pass_seconds(2).await;
        assert_eq!(told(&world, "LastCopyLost").len(), 1, "{last_copy:?}");
    }
}

#[tokio::test]
async fn rm22_and_rm23_a_cluster_that_comes_back_keeps_what_was_kept_and_at_no_revision_it_has_neither() {
    for minutes in [1, 30] {
        let (mut world, key) = alone(without_a_rate()).await;
        taint(&mut world, &member1()).await;
        pass_minutes(&mut world, minutes).await;
        world.crash().await;
        untaint(&mut world, &member1()).await;
        world.pass_seconds(2).await;
        assert_eq!((world.placed(&key).as_str(), tasks(&world, &key).len()), ("member1:3", 0));
        assert_eq!(kept(&world, &key), "");
        has_target_or_task_always(&world, &key, "member1").await;
        let binding = world.get(&key).unwrap();
        assert_eq!(condition(&binding, "Scheduled").unwrap()["status"], "True");
        assert_eq!(binding["status"]["schedulerObservedGeneration"], binding["metadata"]["generation"]);
        let stays = "Normal EvictionCalledOff web-deployment x1: 3 replicas stay on member1: the reason of the \
                     eviction has ended.";
        assert_eq!(told(&world, "EvictionCalledOff"), [stays]);
    }
}

#[tokio::test]
async fn rm23_a_copy_that_stays_is_a_target_in_the_same_write() {
    let mut world = World::new().await;
    for name in ["member1", "member2"] {
        world.given(cluster(name)).await;
    }
    let key = world.given(cluster_binding("demo-role", json!({}))).await;
    world.settle().await;
    taint(&mut world, &member1()).await;
    assert_eq!(world.placed(&key), "member2");
    untaint(&mut world, &member1()).await;
    world.pass_seconds(1).await;
    assert_eq!((world.placed(&key).as_str(), tasks(&world, &key).len()), ("member1 member2", 0));
    has_target_or_task_always(&world, &key, "member1").await;
}

#[tokio::test]
async fn rm23_a_cluster_that_the_placement_no_longer_selects_is_left_when_there_is_another() {
    let (mut world, key) = alone(without_a_rate()).await;
    taint(&mut world, &member1()).await;
    world
        .edit(&key, |binding| binding["spec"]["placement"]["clusterAffinity"] = json!({"clusterNames": ["member2"]}))
        .await;
    world.settle().await;
    untaint(&mut world, &member1()).await;
    pass_minutes(&mut world, 11).await;
    assert_eq!((world.placed(&key).as_str(), tasks(&world, &key).len()), ("", 1), "kept, and no target");
    world.given(cluster("member2")).await;
    pass_minutes(&mut world, 1).await;
    assert_eq!((world.placed(&key).as_str(), tasks(&world, &key).len()), ("member2:3", 0));
}

#[tokio::test]
async fn rm24_sre_10_a_cluster_that_is_back_and_well_keeps_what_is_ready_there_while_the_replacement_is_not() {
    let (mut world, key) = alone(without_a_rate()).await;
    world.given(cluster("member2")).await;
    world.settle().await;
    set_ready(&mut world, &member1(), "True").await;
    say_ready(&mut world, &key, &[("member1", 3)]).await;
    set_ready(&mut world, &member1(), "False").await;
    world.pass_seconds(301).await;
    say_ready(&mut world, &key, &[("member1", 3), ("member2", 0)]).await;
    assert_eq!((world.placed(&key).as_str(), tasks(&world, &key).len()), ("member2:3", 1));
    set_ready(&mut world, &member1(), "True").await;
    world.pass_seconds(2).await;
    assert_eq!((world.placed(&key).as_str(), tasks(&world, &key).len()), ("member1:3", 0));
    has_target_or_task_always(&world, &key, "member1").await;
    pass_minutes(&mut world, 30).await;
    assert_eq!(world.placed(&key), "member1:3", "it comes to rest");
}

#[tokio::test]
async fn rm24_what_is_ready_in_the_replacement_stays_there() {
    let (mut world, key) = alone(without_a_rate()).await;
    world.given(cluster("member2")).await;
    say_ready(&mut world, &key, &[("member1", 3)]).await;
    taint(&mut world, &member1()).await;
    say_ready(&mut world, &key, &[("member1", 3), ("member2", 2)]).await;
    untaint(&mut world, &member1()).await;
    world.pass_seconds(1).await;
    assert_eq!((world.placed(&key).as_str(), tasks(&world, &key).len()), ("member1:1 member2:2", 0));
}

fn application(key: &str) -> Value {
    let mut binding = binding(key, 3, by_room());
    binding["spec"]["failover"] = json!({"application": {
        "decisionConditions": {"tolerationSeconds": 10}, "purgeMode": "Gracefully", "gracePeriodSeconds": 30,
    }});
    binding
}

#[tokio::test]
async fn rm25_sched_16_application_failover_does_not_begin_where_there_is_nowhere_to_go() {
    let mut world = World::new().await;
    world.given(cluster("member1")).await;
    let key = world.given(application("web")).await;
    world.settle().await;
    say_ready(&mut world, &key, &[("member1", 0)]).await;
    world.pass_seconds(300).await;
    assert_eq!((world.placed(&key).as_str(), tasks(&world, &key).len()), ("member1:3", 0));
    let kept = told(&world, "LastCopyKept");
    assert!(kept[0].ends_with("3 replicas have no other place; kept on member1"), "{kept:?}");
    // Capacity for two of three replicas does not suffice.
    world.given(small_cluster("member2", 2)).await;
    world.pass_seconds(120).await;
    assert_eq!((world.placed(&key).as_str(), tasks(&world, &key).len()), ("member1:3", 0));
    world.given(cluster("member3")).await;
    world.pass_seconds(61).await;
    assert!(!world.placed(&key).contains("member1"), "{}", world.placed(&key));
}

#[tokio::test]
async fn rm25_a_quota_that_refuses_the_replacement_is_no_place_either() {
    let mut world = World::new().await;
    for name in ["member1", "member2"] {
        world.given(cluster(name)).await;
    }
    let key = world.given(application("web")).await;
    world.settle().await;
    let before = world.placed(&key);
    world.given(super::fleet::quota("small", "300m")).await;
    world.settle().await;
    // Moving the same number of replicas does not increase the use of the quota, so this succeeds.
    say_ready(&mut world, &key, &[("member1", 0), ("member2", 1)]).await;
    world.pass_seconds(12).await;
    assert_eq!((before.contains("member1"), world.placed(&key).as_str()), (true, "member2:3"));
}

#[tokio::test]
async fn rm26_attempts_wait_longer_each_time_also_over_a_crash() {
    let mut world = World::new().await;
    for name in ["member1", "member2"] {
        world.given(cluster(name)).await;
    }
    let mut wanted = application("web");
    wanted["spec"]["placement"]["replicaScheduling"]["replicaDivisionPreference"] = json!("Aggregated");
    wanted["spec"]["placement"]["replicaScheduling"].as_object_mut().unwrap().remove("weightPreference");
    let key = world.given(wanted).await;
    world.settle().await;
    let mut times = Vec::new();
    let mut placed = world.placed(&key);
    for second in 0..1_200 {
        if second % 97 == 0 {
            world.crash().await;
        }
        // The workload is ready nowhere.
        let unwell = [("member1", 0), ("member2", 0)];
        if second % 5 == 0 {
            say_ready(&mut world, &key, &unwell).await;
        }
        world.pass_seconds(1).await;
        let now = world.placed(&key);
        if now != placed && !now.is_empty() {
            times.push(world.now().seconds());
            placed = now;
        }
    }
    let waits: Vec<i64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(waits.len() >= 3, "{waits:?}");
    for (attempt, wait) in waits.iter().enumerate() {
        let least = 60 << attempt;
        assert!((least..least + 45).contains(wait), "{waits:?}");
    }
}

#[tokio::test]
async fn rm27_what_leaves_directly_leaves_when_there_is_a_place() {
    for is_the_default in [false, true] {
        let TaintEviction::By { purge_mode, rate } = without_a_rate().taints else { unreachable!() };
        let direct = ballast::api::karmada::policy::v1alpha1::PurgeMode::Directly;
        let purge_mode = if is_the_default { direct } else { purge_mode };
        let taints = TaintEviction::By { purge_mode, rate };
        let mut world = World::with_failover(FailoverOptions { taints, ..without_a_rate() }).await;
        world.given(cluster("member1")).await;
        let mut wanted = binding("web", 3, by_room());
        if !is_the_default {
            wanted["spec"]["failover"] = json!({"cluster": {"purgeMode": "Directly"}});
        }
        let key = world.given(wanted).await;
        world.settle().await;
        taint(&mut world, &member1()).await;
        world.pass_seconds(130).await;
        assert_eq!((world.placed(&key).as_str(), tasks(&world, &key).len()), ("member1:3", 0), "no task would keep it");
        assert!(told(&world, "LastCopyKept")[0].ends_with("3 replicas have no other place; kept on member1"));
        world.given(cluster("member2")).await;
        world.pass_seconds(61).await;
        assert_eq!(world.placed(&key), "member2:3");
    }
}

#[tokio::test]
async fn rm28_a_pass_takes_no_target_away_that_waits_for_its_turn_to_be_evicted() {
    let TaintEviction::By { purge_mode, rate } = without_a_rate().taints else { unreachable!() };
    let rate = EvictionRate { per_second: 1e-6, ..rate };
    let failover = FailoverOptions { taints: TaintEviction::By { purge_mode, rate }, ..without_a_rate() };
    let mut world = World::with_failover(failover).await;
    for name in ["member1", "member2"] {
        world.given(cluster(name)).await;
    }
    let mut placement = by_room();
    placement["clusterTolerations"] =
        json!([{"key": "down", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}]);
    let keys =
        [world.given(binding("first", 4, placement.clone())).await, world.given(binding("web", 4, placement)).await];
    world.settle().await;
    world.edit(&member1(), |cluster| cluster["spec"]["taints"] = json!([no_execute("down")])).await;
    world.pass_seconds(10).await;
    assert_eq!(
        keys.each_ref().map(|key| world.placed(key)),
        ["member2:4", "member1:2 member2:2"],
        "one has had its turn"
    );
    world.edit(&keys[1], |binding| binding["spec"]["replicas"] = json!(6)).await;
    world.pass_seconds(2).await;
    assert_eq!(world.placed(&keys[1]), "member1:2 member2:4", "what it has on member1 has no task yet");
}

#[tokio::test]
async fn rm29_sre_11_evictions_go_by_priority_and_then_by_how_little_is_left_elsewhere() {
    let TaintEviction::By { purge_mode, rate } = without_a_rate().taints else { unreachable!() };
    let rate = EvictionRate { per_second: 1.0, ..rate };
    let failover = FailoverOptions { taints: TaintEviction::By { purge_mode, rate }, ..without_a_rate() };
    let mut world = World::with_failover(failover).await;
    for name in ["member1", "member2"] {
        world.given(cluster(name)).await;
    }
    let mut keys = Vec::new();
    for (name, priority, here, there) in [
        ("a-half", 0, 2, 2),
        ("b-tenth", 0, 9, 1),
        ("c-none", 0, 4, 0),
        ("low", -5, 4, 0),
        ("zz-ledger", 1_000_000, 2, 2),
    ] {
        let mut wanted = binding(name, here + there, by_room());
        wanted["spec"]["schedulePriority"] = json!({"priority": priority});
        wanted["metadata"]["annotations"]["policy.karmada.io/applied-placement"] = json!(by_room().to_string());
        wanted["spec"]["clusters"] = match there {
            0 => json!([{"name": "member1", "replicas": here}]),
            there => json!([{"name": "member1", "replicas": here}, {"name": "member2", "replicas": there}]),
        };
        keys.push(world.given(wanted).await);
    }
    world.settle().await;
    taint(&mut world, &member1()).await;
    let mut order: Vec<String> = Vec::new();
    for second in 0..8 {
        let left = |key: &&Key| !tasks(&world, key).is_empty() && !order.contains(&key.name.to_string());
        let gone: Vec<String> = keys.iter().filter(left).map(|key| key.name.to_string()).collect();
        assert!(gone.len() <= 1, "at second {second}: {gone:?}");
        order.extend(gone);
        world.pass_seconds(1).await;
    }
    let wanted = ["zz-ledger", "c-none", "b-tenth", "a-half", "low"].map(|name| format!("{name}-deployment"));
    assert_eq!(order, wanted);
}

#[tokio::test]
async fn rm20_beneath_the_profile_karmada_workloads_leave_as_upstream_s_do() {
    let mut world = World::with(Profile::karmada()).await;
    world.given(cluster("member1")).await;
    let key = world.given(application("web")).await;
    world.settle().await;
    say_ready(&mut world, &key, &[("member1", 0)]).await;
    world.pass_seconds(12).await;
    assert_eq!((world.placed(&key).as_str(), tasks(&world, &key).len()), ("", 1));
}

#[tokio::test]
async fn rm20_what_a_user_evicts_is_kept_too_until_the_user_says_so() {
    let (mut world, key) = alone(without_a_rate()).await;
    say_ready(&mut world, &key, &[("member1", 3)]).await;
    world.given(small_cluster("member2", 1)).await;
    let evict = |binding: &mut Value| {
        binding["spec"]["clusters"] = json!([]);
        binding["spec"]["gracefulEvictionTasks"] = json!([{
            "fromCluster": "member1", "reason": "Maintenance", "producer": "me", "gracePeriodSeconds": 60,
        }]);
    };
    world.edit(&key, evict).await;
    pass_minutes(&mut world, 30).await;
    assert_eq!(kept(&world, &key), "3 replicas have no other place; kept on member1");
    world.edit(&member2(), |cluster| cluster["status"]["resourceSummary"]["allocatable"]["pods"] = json!("50")).await;
    world.pass_seconds(10).await;
    say_ready(&mut world, &key, &[("member1", 3), ("member2", 3)]).await;
    assert_eq!((world.placed(&key).as_str(), tasks(&world, &key).len()), ("member2:3", 0));
}
