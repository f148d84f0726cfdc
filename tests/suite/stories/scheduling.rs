//! When and in which mode a binding is scheduled, and the resulting writes (R1-R7, R26-R37,
//! R40-R55, R70-R72, C9, C19).

use ballast::engine::karmada::Profile;
use ballast::k8s::Key;
use serde_json::{Value, json};

use super::fleet::{
    binding, by_room, cluster, deployment, nginx, nginx_on_member2, primary_and_backup, rebalancer, small_cluster,
};
use super::world::{CLUSTER, World, condition, placed};
use crate::support::objects::with;

#[tokio::test]
async fn r1_the_distribution_is_inert_while_only_time_and_status_move() {
    let (mut world, key) = nginx_on_member2().await;
    let before = world.get(&key).unwrap();
    let aggregated = json!([{"clusterName": "member2", "applied": true, "health": "Healthy"}]);
    world.edit(&key, |binding| binding["status"]["aggregatedStatus"] = aggregated.clone()).await;
    world.pass_seconds(400).await;
    world.crash().await;
    world.settle().await;
    let after = world.get(&key).unwrap();
    assert_eq!(after["spec"], before["spec"]);
    assert_eq!(after["status"]["lastScheduledTime"], before["status"]["lastScheduledTime"]);
}

#[tokio::test]
async fn r4_r29_r30_a_hand_set_force_is_seen_and_is_unset_in_the_write_of_its_result() {
    let (mut world, key) = nginx_on_member2().await;
    world.edit(&key, |binding| binding["spec"]["forceRescheduling"] = json!(true)).await;
    assert_eq!(world.get(&key).unwrap()["spec"]["forceRescheduling"], true);
    let before = world.history(&key).await.len();
    world.settle().await;
    let history = world.history(&key).await;
    assert_eq!(history.len(), before + 1, "one write has it all");
    let last = history.last().unwrap();
    assert_eq!(placed(last), "member1:2 member2:2");
    assert!(last["spec"].get("forceRescheduling").is_none());
    assert_eq!(last["status"]["lastScheduledTime"], world.now().to_string());
    assert_eq!(last["status"]["schedulerObservedGeneration"], last["metadata"]["generation"]);
}

#[tokio::test]
async fn r6_r48_the_result_satisfies_the_placement_of_now_not_that_of_before() {
    let (mut world, key) = nginx_on_member2().await;
    world
        .edit(&key, |binding| {
            binding["spec"]["placement"]["clusterAffinity"] = json!({"clusterNames": ["member2", "member3"]});
            binding["spec"]["forceRescheduling"] = json!(true);
        })
        .await;
    world.given(cluster("member3")).await;
    world.settle().await;
    assert_eq!(world.placed(&key), "member2:2 member3:2");
}

#[tokio::test]
async fn r31_success_is_reported_in_upstream_s_words() {
    let (world, key) = nginx().await;
    let binding = world.get(&key).unwrap();
    let expected = json!({
        "type": "Scheduled", "status": "True", "reason": "Success",
        "message": "Binding has been scheduled successfully.", "lastTransitionTime": world.now().to_string(),
    });
    assert_eq!(&Value::Object(condition(&binding, "Scheduled").unwrap().clone()), &expected);
    let applied = binding["metadata"]["annotations"]["policy.karmada.io/applied-placement"].as_str().unwrap();
    assert_eq!(serde_json::from_str::<Value>(applied).unwrap(), binding["spec"]["placement"]);
}

#[tokio::test]
async fn r32_c19_a_failed_pass_keeps_the_trigger_and_is_tried_again_when_a_cluster_appears() {
    let mut world = World::new().await;
    let key = world.given(binding("nginx", 2, by_room())).await;
    world.edit(&key, |binding| binding["spec"]["forceRescheduling"] = json!(true)).await;
    world.settle().await;
    let failed = world.get(&key).unwrap();
    assert_eq!(condition(&failed, "Scheduled").unwrap()["status"], "False");
    assert_eq!(condition(&failed, "Scheduled").unwrap()["reason"], "NoClusterFit");
    assert_eq!(failed["spec"]["forceRescheduling"], true);
    assert!(failed["status"].get("lastScheduledTime").is_none());
    world.given(cluster("member1")).await;
    world.pass_seconds(2).await;
    let served = world.get(&key).unwrap();
    assert_eq!(placed(&served), "member1:2");
    assert!(served["spec"].get("forceRescheduling").is_none());
}

#[tokio::test]
async fn r32_a_fresh_pass_without_room_is_tried_again_as_fresh_when_there_is_room() {
    let (mut world, key) = nginx_on_member2().await;
    let clusters = ["member1", "member2"].map(|name| Key::cluster(super::world::CLUSTER, name));
    for cluster in &clusters {
        world.edit(cluster, |cluster| cluster["status"]["resourceSummary"]["allocatable"]["pods"] = json!("0")).await;
    }
    world.edit(&key, |binding| binding["spec"]["replicas"] = json!(8)).await;
    world.given(rebalancer("demo", vec![deployment("nginx")])).await;
    world.settle().await;
    let failed = world.get(&key).unwrap();
    assert_eq!(condition(&failed, "Scheduled").unwrap()["reason"], "Unschedulable");
    assert_eq!(placed(&failed), "member2:4", "what is there stays");
    for cluster in &clusters {
        world
            .edit(cluster, |cluster| cluster["status"]["resourceSummary"]["allocatable"]["pods"] = json!("1000"))
            .await;
    }
    world.pass_seconds(2).await;
    assert_eq!(world.placed(&key), "member1:4 member2:4", "afresh, though member2 had four");
}

/// All clusters are closed to new workloads, but tolerate the present one. Its removal was not
/// requested.
#[tokio::test]
async fn r32_a_fresh_pass_that_finds_no_cluster_leaves_the_workload_running_where_it_is() {
    let (mut world, key) = nginx_on_member2().await;
    let clusters = ["member1", "member2"].map(|name| Key::cluster(super::world::CLUSTER, name));
    for cluster in &clusters {
        let closed = json!([{"key": "maintenance", "effect": "NoSchedule"}]);
        world.edit(cluster, |cluster| cluster["spec"]["taints"] = closed.clone()).await;
    }
    world.given(rebalancer("demo", vec![deployment("nginx")])).await;
    world.settle().await;
    let failed = world.get(&key).unwrap();
    assert_eq!(condition(&failed, "Scheduled").unwrap()["reason"], "NoClusterFit", "the trigger is not served");
    assert_eq!(placed(&failed), "member2:4");
    world.edit(&key, |binding| binding["spec"]["replicas"] = json!(6)).await;
    world.settle().await;
    assert_eq!(world.placed(&key), "member2:4", "a closed cluster takes no more");
    world.edit(&key, |binding| binding["spec"]["replicas"] = json!(3)).await;
    world.settle().await;
    assert_eq!(world.placed(&key), "member2:3", "and it may shrink meanwhile");
    world.edit(&key, |binding| binding["spec"]["replicas"] = json!(6)).await;
    world.crash().await;
    world.settle().await;
    for cluster in &clusters {
        world.edit(cluster, |cluster| drop(cluster["spec"].as_object_mut().unwrap().remove("taints"))).await;
    }
    world.pass_seconds(2).await;
    assert_eq!(world.placed(&key), "member1:3 member2:3");
    assert_eq!(condition(&world.get(&key).unwrap(), "Scheduled").unwrap()["reason"], "Success");
    assert!(world.history(&key).await.iter().skip(2).all(|state| !placed(state).is_empty()), "in every state");
}

/// A failed cluster is tainted like one that is cordoned by hand (D128).
#[tokio::test]
async fn a_scale_up_goes_to_open_clusters_and_waits_where_there_are_none() {
    let (mut world, key) = nginx().await;
    let [member1, member2] = ["member1", "member2"].map(|name| Key::cluster(CLUSTER, name));
    let scale = async |world: &mut World, replicas: i32| {
        world.edit(&key, |binding| binding["spec"]["replicas"] = json!(replicas)).await;
        world.settle().await;
    };
    let closed = json!([{"key": "maintenance", "effect": "NoSchedule"}]);
    world.edit(&member1, |cluster| cluster["spec"]["taints"] = closed.clone()).await;
    scale(&mut world, 8).await;
    assert_eq!(world.placed(&key), "member1:2 member2:6");
    world.edit(&member2, |cluster| cluster["spec"]["taints"] = closed.clone()).await;
    scale(&mut world, 10).await;
    assert_eq!(world.placed(&key), "member1:2 member2:6");
    let binding = world.get(&key).unwrap();
    let scheduled = condition(&binding, "Scheduled").unwrap();
    assert_eq!((&scheduled["status"], &scheduled["reason"]), (&json!("False"), &json!("Unschedulable")));
    let closed = "no more replicas go to member1 (had untolerated taint {maintenance:NoSchedule}), member2 (";
    assert!(scheduled["message"].as_str().unwrap().contains(closed), "{scheduled:?}");
    world.edit(&member2, |cluster| drop(cluster["spec"].as_object_mut().unwrap().remove("taints"))).await;
    world.pass_seconds(11).await;
    assert_eq!(world.placed(&key), "member1:2 member2:8");
    assert_eq!(condition(&world.get(&key).unwrap(), "Scheduled").unwrap()["reason"], "Success");
}

#[tokio::test]
async fn what_breaks_a_spread_minimum_already_shrinks_and_succeeds() {
    let mut world = World::new().await;
    world.given(with(cluster("west"), json!({"spec": {"zones": ["z1"]}}))).await;
    let two_zones = |scheduling: Value| {
        json!({
            "spreadConstraints": [{"spreadByField": "zone", "minGroups": 2, "maxGroups": 2}],
            "replicaScheduling": scheduling,
        })
    };
    let on_west = |replicas: i32| json!({"spec": {"clusters": [{"name": "west", "replicas": replicas}]}});
    let divided = json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"});
    let shrunk = world.given(with(binding("web", 4, two_zones(divided)), on_west(6))).await;
    let copied = two_zones(json!({"replicaSchedulingType": "Duplicated"}));
    let idle = with(binding("idle", 0, copied), on_west(2));
    let stopped = world.given(with(idle, json!({"spec": {"replicaRequirements": null}}))).await;
    world.settle().await;
    assert_eq!((&*world.placed(&shrunk), &*world.placed(&stopped)), ("west:4", "west"));
    for key in [&shrunk, &stopped] {
        let binding = world.get(key).unwrap();
        let scheduled = condition(&binding, "Scheduled").unwrap();
        assert_eq!((&scheduled["status"], &scheduled["reason"]), (&json!("True"), &json!("Success")));
        let rule = "But the spread constraint by zone (at least 2, at most 2) is not kept.";
        assert!(scheduled["message"].as_str().unwrap().ends_with(rule), "{scheduled:?}");
        assert_eq!(binding["status"]["schedulerObservedGeneration"], binding["metadata"]["generation"]);
    }
}

#[tokio::test]
async fn r34_an_explicit_false_is_no_trigger() {
    let (mut world, key) = nginx_on_member2().await;
    world.edit(&key, |binding| binding["spec"]["forceRescheduling"] = json!(false)).await;
    world.settle().await;
    assert_eq!(world.placed(&key), "member2:4");
}

#[tokio::test]
async fn r37_clearing_the_force_by_hand_before_the_pass_cancels_it() {
    let (mut world, key) = nginx_on_member2().await;
    world.edit(&key, |binding| binding["spec"]["forceRescheduling"] = json!(true)).await;
    world.edit(&key, |binding| drop(binding["spec"].as_object_mut().unwrap().remove("forceRescheduling"))).await;
    world.settle().await;
    assert_eq!(world.placed(&key), "member2:4");
}

#[tokio::test]
async fn r40_more_replicas_move_none_of_those_that_are_there() {
    let mut world = World::new().await;
    world.given(cluster("member1")).await;
    world.given(cluster("member2")).await;
    let key = world.given(binding("nginx", 4, by_room())).await;
    world.settle().await;
    let uneven = json!([{"name": "member1", "replicas": 3}, {"name": "member2", "replicas": 1}]);
    world.edit(&key, |binding| binding["spec"]["clusters"] = uneven.clone()).await;
    world.settle().await;
    world.edit(&key, |binding| binding["spec"]["replicas"] = json!(5)).await;
    world.settle().await;
    let now = world.placed(&key);
    assert!(["member1:4 member2:1", "member1:3 member2:2"].contains(&now.as_str()), "{now}");
}

#[tokio::test]
async fn r41_a_trigger_disregards_where_the_replicas_are() {
    let (mut world, key) = nginx_on_member2().await;
    world.given(rebalancer("demo", vec![deployment("nginx")])).await;
    world.settle().await;
    assert_eq!(world.placed(&key), "member1:2 member2:2");
}

#[tokio::test]
async fn r53_only_a_time_later_than_the_last_pass_triggers() {
    let (mut world, key) = nginx_on_member2().await;
    let last = world.get(&key).unwrap()["status"]["lastScheduledTime"].as_str().unwrap().to_owned();
    let last: ballast::k8s::Time = last.parse().unwrap();
    for (offset, expected) in [(-1, "member2:4"), (0, "member2:4"), (1, "member1:2 member2:2")] {
        let at = last.plus_seconds(offset).to_string();
        world.edit(&key, |binding| binding["spec"]["rescheduleTriggeredAt"] = json!(at)).await;
        world.settle().await;
        assert_eq!(world.placed(&key), expected, "{offset}");
    }
}

#[tokio::test]
async fn r54_only_success_moves_the_last_scheduled_time() {
    let (mut world, key) = nginx().await;
    let first = world.get(&key).unwrap()["status"]["lastScheduledTime"].clone();
    world.clock.advance_seconds(10);
    let nowhere = json!({"clusterNames": ["nowhere"]});
    world.edit(&key, |binding| binding["spec"]["placement"]["clusterAffinity"] = nowhere.clone()).await;
    world.settle().await;
    let failed = world.get(&key).unwrap();
    assert_eq!(condition(&failed, "Scheduled").unwrap()["status"], "False");
    assert_eq!(failed["status"]["lastScheduledTime"], first);
    let back = json!({"clusterNames": ["member1"]});
    world.edit(&key, |binding| binding["spec"]["placement"]["clusterAffinity"] = back.clone()).await;
    world.settle().await;
    assert_eq!(world.get(&key).unwrap()["status"]["lastScheduledTime"], world.now().to_string());
}

#[tokio::test]
async fn r55_a_trigger_before_the_first_pass_makes_one_ordinary_pass() {
    let mut world = World::new().await;
    let key = world.given(binding("nginx", 2, by_room())).await;
    world.given(rebalancer("demo", vec![deployment("nginx")])).await;
    world.given(cluster("member1")).await;
    world.settle().await;
    let history = world.history(&key).await;
    let passes = history.iter().filter(|binding| placed(binding) == "member1:2").count();
    assert_eq!((passes, world.placed(&key).as_str()), (1, "member1:2"));
}

#[tokio::test]
async fn r72_the_transition_time_moves_only_with_the_status() {
    let (mut world, key) = nginx_on_member2().await;
    let before = world.get(&key).unwrap();
    world.given(rebalancer("demo", vec![deployment("nginx")])).await;
    world.settle().await;
    let after = world.get(&key).unwrap();
    let time = |binding: &Value| condition(binding, "Scheduled").unwrap()["lastTransitionTime"].clone();
    assert_eq!(time(&after), time(&before));
    assert_ne!(after["status"]["lastScheduledTime"], before["status"]["lastScheduledTime"]);
    // FullyApplied follows the reports of the clusters, and its transition time with it.
    let applied = |binding: &Value| {
        let condition = condition(binding, "FullyApplied").unwrap();
        (condition["status"].clone(), condition["lastTransitionTime"].clone())
    };
    let report = json!([{"clusterName": "member1", "applied": true}, {"clusterName": "member2", "applied": true}]);
    let one = json!([{"clusterName": "member1", "applied": true}]);
    let mut since = json!(null);
    for (reports, status, flips) in
        [(&report, "True", true), (&report, "True", false), (&one, "False", true), (&report, "True", true)]
    {
        world.clock.advance_seconds(10);
        world.edit(&key, |binding| binding["status"]["aggregatedStatus"] = reports.clone()).await;
        if flips {
            since = json!(world.now().to_string());
        }
        assert_eq!(applied(&world.get(&key).unwrap()), (json!(status), since.clone()));
    }
}

#[tokio::test]
async fn c9_steady_stays_in_the_observed_group_and_fresh_begins_with_the_first() {
    let mut world = World::new().await;
    world.given(cluster("member2")).await;
    let key = world.given(binding("nginx", 2, primary_and_backup())).await;
    world.settle().await;
    assert_eq!(world.get(&key).unwrap()["status"]["schedulerObservingAffinityName"], "backup");
    world.given(cluster("member1")).await;
    world.edit(&key, |binding| binding["spec"]["replicas"] = json!(3)).await;
    world.settle().await;
    assert_eq!(world.placed(&key), "member2:3");
    world.given(rebalancer("demo", vec![deployment("nginx")])).await;
    world.settle().await;
    let after = world.get(&key).unwrap();
    assert_eq!(
        (placed(&after).as_str(), &after["status"]["schedulerObservingAffinityName"]),
        ("member1:3", &json!("primary"))
    );
}

#[tokio::test]
async fn a_suspended_binding_keeps_its_trigger_until_it_is_resumed() {
    let (mut world, key) = nginx_on_member2().await;
    world.edit(&key, |binding| binding["spec"]["suspension"] = json!({"scheduling": true})).await;
    world.given(rebalancer("demo", vec![deployment("nginx")])).await;
    world.settle().await;
    assert_eq!(world.placed(&key), "member2:4");
    world.edit(&key, |binding| drop(binding["spec"].as_object_mut().unwrap().remove("suspension"))).await;
    world.settle().await;
    assert_eq!(world.placed(&key), "member1:2 member2:2");
}

#[tokio::test]
async fn a_binding_without_a_placement_is_looked_at_once_and_again_when_it_has_one() {
    let mut world = World::new().await;
    world.given(cluster("member1")).await;
    let mut bare = binding("nginx", 2, json!({}));
    bare["spec"].as_object_mut().unwrap().remove("placement");
    let key = world.given(bare).await;
    world.settle().await;
    world.clock.advance_seconds(3_600);
    assert!(!world.turn_of("scheduler").await, "nothing is due");
    world.edit(&key, |binding| binding["spec"]["placement"] = by_room()).await;
    world.settle().await;
    assert_eq!(world.placed(&key), "member1:2");
}

#[tokio::test]
async fn another_scheduler_s_binding_is_left_alone() {
    let mut world = World::new().await;
    world.given(cluster("member1")).await;
    let mut foreign = binding("nginx", 2, by_room());
    foreign["spec"]["schedulerName"] = json!("somebody-else");
    let key = world.given(foreign).await;
    world.settle().await;
    assert_eq!(world.history(&key).await.len(), 1);
    world.edit(&key, |binding| binding["metadata"]["labels"]["shade"] = "green".into()).await;
    world.edit(&key, |binding| binding["spec"]["replicas"] = 3.into()).await;
    world.settle().await;
    assert_eq!(world.history(&key).await.len(), 3, "nothing but what its user wrote");
    world.edit(&key, |binding| drop(binding["spec"].as_object_mut().unwrap().remove("schedulerName"))).await;
    world.settle().await;
    assert_eq!(world.placed(&key), "member1:3", "from now on it is ours");
}

#[tokio::test]
async fn a_placement_is_enough_except_for_karmada_which_wants_a_policy_s_label() {
    for (profile, expected) in [(Profile::ours(), "member1:2"), (Profile::karmada(), "")] {
        let mut world = World::with(profile).await;
        world.given(cluster("member1")).await;
        let mut bare = binding("nginx", 2, by_room());
        bare["metadata"].as_object_mut().unwrap().remove("labels");
        let key = world.given(bare).await;
        world.settle().await;
        assert_eq!(world.placed(&key), expected);
    }
}

/// A timestamp on a binding that no pass has placed yet: only Ballast's profile requires a pass for
/// it.
#[tokio::test]
async fn a_pass_is_owed_by_the_rules_of_the_profile_wherever_that_is_asked() {
    for (profile, is_pending) in [(Profile::ours(), true), (Profile::karmada(), false)] {
        let mut world = World::with(profile).await;
        world.given(cluster("member1")).await;
        // A duplicated workload is rescheduled at every opportunity, without a trigger.
        let key = world.given(binding("nginx", 2, json!({}))).await;
        world.settle().await;
        assert_eq!(world.placed(&key), "member1:2");
        // Bypass the server, so that no event triggers a pass.
        world
            .damage(&key, |binding| {
                binding["spec"]["rescheduleTriggeredAt"] = json!("2024-04-17T15:00:00Z");
                binding["status"].as_object_mut().unwrap().remove("lastScheduledTime");
            })
            .await;
        world.settle().await;
        let is_served = world.get(&key).unwrap()["status"]["lastScheduledTime"].is_string();
        assert_eq!(is_served, is_pending, "a pass that nobody is owed, and that changes nothing, leaves no trace");
    }
}

#[tokio::test]
async fn bk9_a_pass_that_an_event_asked_for_is_told_by_its_time_and_a_restart_asks_for_none() {
    let mut world = World::new().await;
    let member1 = world.given(cluster("member1")).await;
    let copied = world.given(binding("copied", 2, json!({}))).await;
    let divided = world.given(binding("divided", 2, by_room())).await;
    world.settle().await;
    let last = |world: &World, key: &Key| world.get(key).unwrap()["status"]["lastScheduledTime"].clone();
    let first = world.now().to_string();
    world.clock.advance_seconds(60);
    world.crash().await;
    world.settle().await;
    assert_eq!(last(&world, &copied), *first, "a restart is no event");
    world.edit(&member1, |cluster| cluster["metadata"]["labels"] = json!({"zone": "a"})).await;
    world.settle().await;
    let relabelled = world.now().to_string();
    assert_eq!((last(&world, &copied), world.placed(&copied)), (json!(relabelled), "member1:2".to_owned()));
    assert_eq!(last(&world, &divided), *first, "all its replicas are placed, and nothing asks for a pass");
    world.clock.advance_seconds(60);
    let heartbeat = json!([{"type": "Ready", "status": "True", "reason": "Said", "message": "",
        "lastTransitionTime": world.now().to_string()}]);
    world.edit(&member1, |cluster| cluster["status"]["conditions"] = heartbeat.clone()).await;
    world.settle().await;
    assert_eq!(last(&world, &copied), *relabelled, "what a cluster reports of itself asks for no pass");
    world.edit(&copied, |binding| binding["spec"]["propagateDeps"] = json!(true)).await;
    world.settle().await;
    assert_eq!(last(&world, &copied), *world.now().to_string(), "a changed binding does");
}

#[tokio::test]
async fn the_scheduler_s_own_write_does_not_make_it_look_again() {
    let (mut world, key) = nginx().await;
    let before = world.revision(&key);
    assert!(!world.turn().await);
    world.crash().await;
    world.settle().await;
    assert_eq!(world.revision(&key), before, "a restart writes nothing");
}

#[tokio::test]
async fn a_binding_that_is_scaled_back_to_what_fits_stops_complaining() {
    let mut world = World::new().await;
    world.given(small_cluster("member1", 4)).await;
    let key = world.given(binding("nginx", 4, by_room())).await;
    world.settle().await;
    world.edit(&key, |binding| binding["spec"]["replicas"] = json!(9)).await;
    world.settle().await;
    assert_eq!(condition(&world.get(&key).unwrap(), "Scheduled").unwrap()["reason"], "Unschedulable");
    world.edit(&key, |binding| binding["spec"]["replicas"] = json!(4)).await;
    world.settle().await;
    assert_eq!(condition(&world.get(&key).unwrap(), "Scheduled").unwrap()["reason"], "Success");
}
