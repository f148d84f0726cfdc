//! Events about a binding and about its template (R73-R75).

use ballast::k8s::GroupResource;
use serde_json::{Value, json};

use super::fleet::{
    aggregated, binding, by_room, cluster, cluster_binding, deployment, nginx_on_member2, rebalancer, small_cluster,
};
use super::world::World;

pub const EVENTS: GroupResource = GroupResource::new("events");

/// Returns all events about objects of this kind as `Warning ScheduleBindingFailed Deployment/nginx
/// x2: message`.
pub fn events_about(world: &World, kind: &str) -> Vec<String> {
    let view = world.client().view();
    let events = view.list(EVENTS, None).map(|object| serde_json::from_slice::<Value>(&object.text.content()).unwrap());
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut told: Vec<String> = events
        .filter(|event| event["involvedObject"]["kind"] == kind)
        .map(|event| {
            let (about, count) = (text(&event["involvedObject"]["name"]), &event["count"]);
            format!("{} {} {about} x{count}: {}", text(&event["type"]), text(&event["reason"]), text(&event["message"]))
        })
        .collect();
    told.sort();
    told
}

#[tokio::test]
async fn r73_a_pass_is_told_on_the_template_and_on_the_binding() {
    let (mut world, _) = nginx_on_member2().await;
    world.given(rebalancer("demo", vec![deployment("nginx")])).await;
    world.pass_seconds(2).await;
    let back = "Binding has been scheduled successfully. Result: {member1:2, member2:2}";
    for (kind, name) in [("Deployment", "nginx"), ("ResourceBinding", "nginx-deployment")] {
        let told = events_about(&world, kind);
        let expected = format!("Normal ScheduleBindingSucceed {name} x2: {back}");
        assert!(told.contains(&expected), "the first placement and the way back: {told:#?}");
    }
    let view = world.client().view();
    let event = view.list(EVENTS, Some("default")).next().unwrap();
    let event: Value = serde_json::from_slice(&event.text.content()).unwrap();
    assert_eq!(event["source"], json!({"component": "default-scheduler"}));
    assert_eq!((&event["apiVersion"], &event["kind"]), (&json!("v1"), &json!("Event")));
}

#[tokio::test]
async fn r73_events_about_cluster_scoped_objects_are_kept_in_the_default_namespace() {
    let mut world = World::new().await;
    world.given(cluster("member1")).await;
    world.given(cluster_binding("demo-role", json!({}))).await;
    world.pass_seconds(2).await;
    let text = "Binding has been scheduled successfully. Result {member1:0}";
    assert_eq!(
        events_about(&world, "ClusterRole"),
        [format!("Normal ScheduleBindingSucceed demo-role x1: {text}")],
        "upstream writes no colon here"
    );
    assert_eq!(
        events_about(&world, "ClusterResourceBinding"),
        [format!("Normal ScheduleBindingSucceed demo-role-clusterrole x1: {text}")]
    );
}

#[tokio::test]
async fn r74_what_happens_again_is_counted_and_a_failure_that_lasts_is_told_every_five_minutes() {
    let mut world = World::new().await;
    let key = world.given(binding("nginx", 2, by_room())).await;
    world.settle().await;
    world.clock.advance_seconds(1);
    world.settle().await;
    let failed = |world: &World| events_about(world, "ResourceBinding");
    let told = failed(&world);
    assert!(told.len() == 1 && told[0].starts_with("Warning ScheduleBindingFailed nginx-deployment x1"), "{told:?}");
    for _ in 0..14 {
        world.clock.advance_seconds(60);
        world.settle().await;
    }
    let told = failed(&world);
    assert!(told.len() == 1 && told[0].contains(" x3:"), "tried again and again, told now and then: {told:?}");
    world.given(cluster("member1")).await;
    world.pass_seconds(2).await;
    assert_eq!(world.placed(&key), "member1:2");
    assert_eq!(failed(&world).len(), 2);
}

#[tokio::test]
async fn an_event_goes_an_hour_after_it_last_happened_also_over_a_restart() {
    let mut world = World::new().await;
    world.given(cluster("member1")).await;
    let key = world.given(binding("nginx", 2, by_room())).await;
    world.pass_seconds(2).await;
    assert_eq!(events_about(&world, "Deployment").len(), 1);
    world.clock.advance_seconds(1_800);
    world.crash().await;
    world.edit(&key, |binding| binding["spec"]["replicas"] = json!(3)).await;
    world.pass_seconds(2).await;
    assert_eq!(events_about(&world, "Deployment").len(), 2);
    world.clock.advance_seconds(1_850);
    world.settle().await;
    let told = events_about(&world, "Deployment");
    assert!(told.len() == 1 && told[0].contains("{member1:3}"), "{told:?}");
    world.clock.advance_seconds(1_800);
    world.settle().await;
    assert_eq!(events_about(&world, "Deployment"), [""; 0]);
}

#[tokio::test]
async fn events_are_lost_rather_than_waited_for() {
    let mut world = World::new().await;
    world.given(small_cluster("member1", 3_000)).await;
    let bindings = (0..3_000).map(|number| binding(&format!("web-{number}"), 1, aggregated())).collect();
    let keys = world.given_all(bindings).await;
    world.settle().await;
    assert!(keys.iter().all(|key| world.placed(key) == "member1:1"));
    let before = world.client().view().revision;
    world.pass_seconds(10).await;
    let written = world.client().view().revision.0 - before.0;
    assert!((500..=1_100).contains(&written), "{written} events for 3000 bindings, of which two each were possible");
}

#[tokio::test]
async fn a_store_that_fails_keeps_events_waiting_and_the_work_going() {
    let mut world = World::new().await;
    world.given(cluster("member1")).await;
    world.settle().await;
    world.given(binding("nginx", 2, by_room())).await;
    world.settle().await;
    world.fail_after(0);
    world.pass_seconds(3).await;
    assert_eq!(events_about(&world, "Deployment"), [""; 0]);
    world.mend();
    world.pass_seconds(11).await;
    assert_eq!(events_about(&world, "Deployment").len(), 1);
}
