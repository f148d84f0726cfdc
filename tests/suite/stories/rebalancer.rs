//! The writes and reports of the WorkloadRebalancer (R56-R83, R93, R95, C10-C12).

use ballast::k8s::Key;
use serde_json::{Value, json};

use super::fleet::{
    binding, by_room, cluster, cluster_binding, cluster_role, deployment, nginx, nginx_on_member2, rebalancer,
    small_cluster,
};
use super::world::World;
use crate::support::size::sized;

/// Returns `name result reason` of each observed workload.
fn observed(world: &World, key: &ballast::k8s::Key) -> Vec<String> {
    let rebalancer = world.get(key).unwrap();
    let list = rebalancer["status"]["observedWorkloads"].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    list.iter()
        .map(|entry| {
            format!("{} {} {}", text(&entry["workload"]["name"]), text(&entry["result"]), text(&entry["reason"]))
        })
        .collect()
}

#[tokio::test]
async fn r68_the_binding_gets_the_time_the_rebalancer_was_created_at() {
    let (mut world, key) = nginx_on_member2().await;
    let created = world.now();
    world.given(rebalancer("demo", vec![deployment("nginx")])).await;
    world.clock.advance_seconds(2);
    world.settle().await;
    assert_eq!(world.get(&key).unwrap()["spec"]["rescheduleTriggeredAt"], created.to_string());
}

#[tokio::test]
async fn r69_r28_a_namespaced_workload_has_a_resource_binding_another_a_cluster_resource_binding() {
    let (mut world, nginx) = nginx().await;
    let role = world.given(cluster_binding("demo-role", json!({}))).await;
    world.settle().await;
    world.clock.advance_seconds(10);
    let demo = world.given(rebalancer("demo", vec![deployment("nginx"), cluster_role("demo-role")])).await;
    world.settle().await;
    let timestamp = Value::from(world.now().to_string());
    assert_eq!(world.get(&nginx).unwrap()["spec"]["rescheduleTriggeredAt"], timestamp);
    assert_eq!(world.get(&role).unwrap()["spec"]["rescheduleTriggeredAt"], timestamp);
    assert_eq!(observed(&world, &demo), ["nginx Successful -", "demo-role Successful -"]);
}

#[tokio::test]
async fn r28_of_two_workloads_whose_names_meet_only_the_binding_s_own_is_triggered() {
    let mut world = World::new().await;
    let role = world.given(cluster_binding("foo", json!({}))).await;
    let demo = world.given(rebalancer("demo", vec![cluster_role("Foo")])).await;
    world.settle().await;
    assert_eq!(observed(&world, &demo), ["Foo Failed ReferencedBindingNotFound"]);
    assert!(world.get(&role).unwrap()["spec"].get("rescheduleTriggeredAt").is_none());
}

#[tokio::test]
async fn r61_a_workload_without_its_namespace_is_looked_up_as_cluster_scoped() {
    let (mut world, _) = nginx().await;
    let mut workload = deployment("nginx");
    workload.as_object_mut().unwrap().remove("namespace");
    let demo = world.given(rebalancer("demo", vec![workload])).await;
    world.settle().await;
    assert_eq!(observed(&world, &demo), ["nginx Failed ReferencedBindingNotFound"]);
}

#[tokio::test]
async fn r62_r64_r65_r66_the_status_is_the_seed_s_example() {
    let mut world = World::new().await;
    world.given(cluster("member1")).await;
    world.given(binding("demo-deploy-1", 3, by_room())).await;
    world.given(cluster_binding("demo-role", json!({}))).await;
    world.settle().await;
    world.clock.advance_seconds(300);
    let workloads = vec![deployment("demo-deploy-1"), cluster_role("demo-role"), deployment("demo-deploy-2")];
    let demo = world.given(rebalancer("demo", workloads)).await;
    world.settle().await;
    let expected = json!({
        "observedWorkloads": [
            {"result": "Successful", "workload": deployment("demo-deploy-1")},
            {"reason": "ReferencedBindingNotFound", "result": "Failed", "workload": deployment("demo-deploy-2")},
            {"result": "Successful", "workload": cluster_role("demo-role")},
        ],
        "observedGeneration": 1,
        "finishTime": world.now().to_string(),
    });
    assert_eq!(world.get(&demo).unwrap()["status"], expected);
}

#[tokio::test]
async fn r63_an_older_observed_generation_says_that_the_new_list_is_not_done() {
    let (mut world, _) = nginx().await;
    let demo = world.given(rebalancer("demo", vec![deployment("nginx")])).await;
    world.settle().await;
    world.edit(&demo, |demo| demo["spec"]["workloads"] = json!([deployment("nginx"), deployment("other")])).await;
    let edited = world.get(&demo).unwrap();
    assert_eq!((&edited["metadata"]["generation"], &edited["status"]["observedGeneration"]), (&json!(2), &json!(1)));
    world.settle().await;
    assert_eq!(world.get(&demo).unwrap()["status"]["observedGeneration"], 2);
}

#[tokio::test]
async fn r70_r71_one_trigger_makes_one_pass() {
    let (mut world, key) = nginx_on_member2().await;
    world.given(rebalancer("demo", vec![deployment("nginx")])).await;
    let before = world.history(&key).await.len();
    world.settle().await;
    let after = world.history(&key).await;
    // The timestamp, and the pass that serves it.
    assert_eq!(after.len(), before + 2);
    let last = after.last().unwrap();
    assert_eq!(last["spec"]["rescheduleTriggeredAt"], last["status"]["lastScheduledTime"]);
    world.pass_seconds(20).await;
    assert_eq!(world.history(&key).await.len(), before + 2);
}

#[tokio::test]
async fn r76_c12_the_list_is_sorted_by_the_slash_joined_text() {
    let mut world = World::new().await;
    let workload = |namespace: &str| {
        let mut workload = deployment("x");
        workload["namespace"] = Value::from(namespace);
        workload
    };
    let demo = world.given(rebalancer("demo", vec![workload("b"), workload("a"), workload("a-b")])).await;
    world.settle().await;
    let status = &world.get(&demo).unwrap()["status"];
    let order: Vec<&str> = status["observedWorkloads"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["workload"]["namespace"].as_str().unwrap())
        .collect();
    assert_eq!(order, ["a-b", "a", "b"]);
}

#[tokio::test]
async fn r77_a_binding_that_comes_later_is_found_only_once_the_spec_changes() {
    let mut world = World::new().await;
    world.given(cluster("member1")).await;
    let demo = world.given(rebalancer("demo", vec![deployment("nginx")])).await;
    world.settle().await;
    let key = world.given(binding("nginx", 1, by_room())).await;
    world.pass_seconds(20).await;
    assert_eq!(observed(&world, &demo), ["nginx Failed ReferencedBindingNotFound"]);
    assert!(world.get(&key).unwrap()["spec"].get("rescheduleTriggeredAt").is_none());
    world.edit(&demo, |demo| demo["spec"]["ttlSecondsAfterFinished"] = json!(3600)).await;
    world.settle().await;
    assert_eq!(observed(&world, &demo), ["nginx Successful -"]);
}

#[tokio::test]
async fn r78_r93_a_failing_store_is_retried_and_leaves_no_result_meanwhile() {
    let (mut world, key) = nginx_on_member2().await;
    let demo = world.given(rebalancer("demo", vec![deployment("nginx")])).await;
    world.fail_after(0);
    world.pass_seconds(5).await;
    assert_eq!(observed(&world, &demo), Vec::<String>::new());
    world.mend();
    world.pass_seconds(10).await;
    assert_eq!(observed(&world, &demo), ["nginx Successful -"]);
    assert_eq!(world.placed(&key), "member1:2 member2:2");
}

#[tokio::test]
async fn r78_a_binding_that_cannot_take_its_trigger_holds_up_no_other() {
    /// The limit of Kubernetes for the annotations of an object.
    const ANNOTATIONS_BYTES_MAX: usize = 262_144;
    let (mut world, key) = nginx_on_member2().await;
    let full = world.given(binding("full", 2, by_room())).await;
    world.settle().await;
    world
        .edit(&full, |binding| {
            let known = binding["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
            let bytes = |(name, value): (&String, &Value)| name.len() + value.as_str().unwrap_or_default().len();
            let used: usize = known.iter().map(bytes).sum();
            binding["metadata"]["annotations"]["filler"] = "x".repeat(ANNOTATIONS_BYTES_MAX - used - 6).into();
        })
        .await;
    world.settle().await;
    world.clock.advance_seconds(60);
    let demo = world.given(rebalancer("demo", vec![deployment("full"), deployment("nginx")])).await;
    world.pass_seconds(5).await;
    assert_eq!(observed(&world, &demo), ["full - -", "nginx Successful -"]);
    assert_eq!(world.placed(&key), "member1:2 member2:2");
}

#[tokio::test]
async fn r79_c11_a_workload_that_joins_an_old_rebalancer_is_rebalanced() {
    let (mut world, nginx) = nginx_on_member2().await;
    let demo = world.given(rebalancer("demo", vec![deployment("missing")])).await;
    world.settle().await;
    world.clock.advance_seconds(3600);
    // Scheduled long after the rebalancer was created.
    world.edit(&nginx, |binding| binding["spec"]["replicas"] = json!(6)).await;
    world.settle().await;
    world.edit(&nginx, |binding| binding["spec"]["clusters"] = json!([{"name": "member2", "replicas": 6}])).await;
    world.settle().await;
    world.edit(&demo, |demo| demo["spec"]["workloads"] = json!([deployment("nginx")])).await;
    world.settle().await;
    assert_eq!(observed(&world, &demo), ["nginx Successful -"]);
    assert_eq!(world.placed(&nginx), "member1:3 member2:3");
}

#[tokio::test]
async fn r80_r81_a_workload_that_leaves_the_list_stays_in_the_status_if_it_succeeded() {
    let (mut world, _) = nginx().await;
    let demo = world.given(rebalancer("demo", vec![deployment("nginx"), deployment("missing")])).await;
    world.settle().await;
    world.edit(&demo, |demo| demo["spec"]["workloads"] = json!([deployment("other")])).await;
    world.settle().await;
    assert_eq!(observed(&world, &demo), ["nginx Successful -", "other Failed ReferencedBindingNotFound"]);
}

#[tokio::test]
async fn r82_another_order_of_the_list_writes_no_binding() {
    let (mut world, nginx) = nginx().await;
    let other = world.given(binding("other", 2, by_room())).await;
    let demo = world.given(rebalancer("demo", vec![deployment("nginx"), deployment("other")])).await;
    world.settle().await;
    let before = (world.revision(&nginx), world.revision(&other), world.get(&demo).unwrap());
    world.clock.advance_seconds(10);
    world.edit(&demo, |demo| demo["spec"]["workloads"] = json!([deployment("other"), deployment("nginx")])).await;
    world.settle().await;
    assert_eq!((world.revision(&nginx), world.revision(&other)), (before.0, before.1));
    let mut expected = before.2["status"].clone();
    expected["observedGeneration"] = json!(2);
    assert_eq!(world.get(&demo).unwrap()["status"], expected);
}

#[tokio::test]
async fn r83_a_workload_named_twice_is_triggered_once() {
    let (mut world, nginx) = nginx().await;
    let before = world.history(&nginx).await.len();
    let demo = world.given(rebalancer("demo", vec![deployment("nginx"), deployment("nginx")])).await;
    world.settle().await;
    assert_eq!(observed(&world, &demo), ["nginx Successful -"]);
    assert_eq!(world.history(&nginx).await.len(), before + 2);
}

#[tokio::test]
async fn r95_a_rebalancer_that_finished_triggers_nothing_more() {
    let (mut world, key) = nginx().await;
    let demo = world.given(rebalancer("demo", vec![deployment("nginx")])).await;
    world.settle().await;
    world.edit(&key, |binding| binding["spec"]["clusters"] = json!([{"name": "member2", "replicas": 4}])).await;
    let revision = world.revision(&demo);
    world.given(cluster("member3")).await;
    world.pass_seconds(30).await;
    world.crash().await;
    world.settle().await;
    assert_eq!(world.placed(&key), "member2:4");
    assert_eq!(world.revision(&demo), revision);
}

#[tokio::test]
async fn c10_two_rebalancers_within_one_second_are_two_triggers() {
    let (mut world, key) = nginx_on_member2().await;
    world.given(rebalancer("first", vec![deployment("nginx")])).await;
    world.settle().await;
    let first = world.get(&key).unwrap();
    world.given(rebalancer("second", vec![deployment("nginx")])).await;
    world.settle().await;
    let second = world.get(&key).unwrap();
    assert_eq!(second["spec"]["rescheduleTriggeredAt"], first["spec"]["rescheduleTriggeredAt"]);
    let pending_pass = |binding: &Value| binding["metadata"]["annotations"]["ballast.dev/owed"].clone();
    let pending_passes: Vec<Value> = world.history(&key).await.iter().map(pending_pass).collect();
    assert_eq!(pending_passes.iter().filter(|pending_pass| !pending_pass.is_null()).count(), 2, "{pending_passes:?}");
    assert!(pending_pass(&second).is_null());
}

#[tokio::test]
async fn a_thousand_rebalancers_at_once_finish() {
    let (mut world, _) = nginx().await;
    let mut keys = Vec::new();
    for number in 0..1_000 {
        keys.push(world.given(rebalancer(&format!("demo-{number}"), vec![deployment("nginx")])).await);
    }
    world.settle_within(5_000).await;
    for key in keys {
        assert_eq!(observed(&world, &key), ["nginx Successful -"]);
    }
}

#[tokio::test]
async fn r93_a_large_rebalancer_tells_how_far_it_is_and_does_not_delay_the_others() {
    // Three commits of timestamps, or five.
    let count: usize = sized(5_000, 10_000);
    let mut world = World::new().await;
    world.given(small_cluster("member1", 20_000)).await;
    world.given(small_cluster("member2", 20_000)).await;
    let bindings = (0..count).map(|number| binding(&format!("web-{number}"), 2, by_room())).collect();
    world.given_all(bindings).await;
    world.settle().await;
    world.clock.advance_seconds(60);
    let workloads = (0..count).map(|number| deployment(&format!("web-{number}"))).collect();
    let demo = world.given(rebalancer("demo", workloads)).await;
    let small = world.given(rebalancer("small", vec![deployment("missing")])).await;
    let is_finished = |world: &World, key: &Key| world.get(key).unwrap()["status"]["finishTime"].is_string();
    while !is_finished(&world, &small) {
        assert!(world.turn().await, "it settles before the small one is finished");
    }
    assert!(!is_finished(&world, &demo), "the small one waited for the large one");
    world.settle().await;
    let timestamp = world.now().to_string();
    let view = world.client().view();
    let served = view.list(super::world::RB, None).filter(|object| {
        let binding: Value = serde_json::from_slice(&object.text.content()).unwrap();
        binding["spec"]["rescheduleTriggeredAt"] == *timestamp && binding["status"]["lastScheduledTime"] == *timestamp
    });
    assert_eq!(served.count(), count);
    let status = &world.get(&demo).unwrap()["status"];
    assert_eq!(status["observedWorkloads"].as_array().unwrap().len(), count);
    assert_eq!(status["observedGeneration"], 1);
    // Each intermediate write reports more results, and only the last one is finished.
    let told: Vec<(usize, bool)> = world
        .history(&demo)
        .await
        .iter()
        .map(|state| &state["status"])
        .map(|status| {
            let done = status["observedGeneration"] == 1 && status["finishTime"].is_string();
            (status["observedWorkloads"].as_array().map_or(0, Vec::len), done)
        })
        .collect();
    assert!(told.len() > 3 && told.is_sorted(), "{told:?}");
    assert_eq!(told.iter().filter(|(_, done)| *done).count(), 1, "{told:?}");
}

/// Many rebalancers of workloads with bindings that cannot be triggered, and one of a healthy
/// workload.
#[tokio::test]
async fn rebalancers_that_fail_again_and_again_cost_the_others_no_second_and_no_pass() {
    const TROUBLED: usize = 60;
    let (mut world, nginx) = nginx_on_member2().await;
    let broken = world.given(binding("broken", 2, by_room())).await;
    world.settle().await;
    let resource = world.get(&broken).unwrap()["spec"]["resource"].clone();
    world.damage(&broken, |binding| binding["spec"]["resource"] = json!("unreadable")).await;
    let mut troubled = Vec::new();
    for number in 0..TROUBLED {
        troubled.push(world.given(rebalancer(&format!("a-{number}"), vec![deployment("broken")])).await);
    }
    let first = world.given(rebalancer("first", vec![deployment("nginx")])).await;
    world.settle().await;
    let is_finished = |world: &World, key: &Key| world.get(key).unwrap()["status"]["finishTime"].is_string();
    assert!(is_finished(&world, &first), "in the second in which it was made, after all of the others");
    assert_eq!(world.history(&first).await.len(), 2, "it was made, and its status was written");
    assert_eq!(world.placed(&nginx), "member1:2 member2:2");
    // The failing ones retry with all their backoffs, without delaying others.
    for round in 0..5 {
        world.pass_seconds(7).await;
        let next = world.given(rebalancer(&format!("next-{round}"), vec![deployment("nginx")])).await;
        world.settle().await;
        assert!(is_finished(&world, &next), "round {round}");
        assert_eq!(world.history(&next).await.len(), 2);
    }
    for key in &troubled {
        assert!(!is_finished(&world, key));
        assert_eq!(world.get(key).unwrap()["status"]["observedWorkloads"][0]["result"], Value::Null, "no result yet");
    }
    world.damage(&broken, |binding| binding["spec"]["resource"] = resource.clone()).await;
    world.settle().await;
    for key in &troubled {
        assert_eq!(observed(&world, key), ["broken Successful -"]);
    }
}
