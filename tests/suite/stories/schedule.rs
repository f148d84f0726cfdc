//! RebalanceSchedules in the whole system: clock, restarts, kills, and recovering clusters.
//!
//! Only the loop under test runs, so the rebalances it creates stay unchanged until the story ends
//! them.

use ballast::k8s::{GroupResource, Key};
use serde_json::{Value, json};

use super::world::{CLUSTER, REBS, World, condition};
use crate::support::objects;

const CREB: GroupResource = GroupResource::new("clusterrebalances.ballast.dev");

/// An upper bound on the turns of a story.
const TURNS_MAX: usize = 50;

fn schedule(spec: Value) -> Value {
    let mut object = json!({
        "apiVersion": "ballast.dev/v1alpha1", "kind": "RebalanceSchedule", "metadata": {"name": "nightly"},
        "spec": {"template": {"metadata": {"labels": {"team": "shop"}}, "spec": {"select": [{"displaced": true}]}}},
    });
    let Value::Object(members) = spec else { panic!("an object") };
    for (name, value) in members {
        object["spec"][name] = value;
    }
    object
}

fn cluster(name: &str, labels: Value) -> Value {
    objects::with(objects::cluster(name), json!({"metadata": {"labels": labels}}))
}

async fn look(world: &mut World) {
    for _ in 0..TURNS_MAX {
        if !world.turn_of("rebalance-schedule").await {
            return;
        }
    }
    panic!("the schedule does not come to rest");
}

/// Advances the clock in steps, with a turn after each.
async fn pass(world: &mut World, seconds: i64, step: i64) {
    for _ in 0..seconds / step {
        world.clock.advance_seconds(step);
        look(world).await;
    }
}

fn rebalance(name: &str) -> Key {
    Key::cluster(CREB, name)
}

fn made(world: &World) -> Vec<String> {
    world.client().view().list(CREB, None).map(|object| object.key.name.to_string()).collect()
}

/// Returns the scheduled times of the ClusterRebalances.
fn times(world: &World) -> Vec<String> {
    let mut times: Vec<String> = made(world)
        .iter()
        .map(|name| {
            let object = world.get(&rebalance(name)).unwrap();
            object["metadata"]["annotations"]["ballast.dev/scheduled-for"].as_str().unwrap().to_owned()
        })
        .collect();
    times.sort();
    times
}

async fn end(world: &World, name: &str, phase: &str) {
    let now = world.now().to_string();
    world
        .edit(&rebalance(name), |object| {
            object["status"]["phase"] = phase.into();
            object["status"]["finishTime"] = now.clone().into();
        })
        .await;
}

async fn report(world: &World, name: &str, ready: &str) {
    let now = world.now().to_string();
    let key = Key::cluster(CLUSTER, name);
    let ready = json!([{"type": "Ready", "status": ready, "lastTransitionTime": now, "reason": "R", "message": ""}]);
    world.edit(&key, |object| object["status"]["conditions"] = ready.clone()).await;
}

#[tokio::test]
async fn a_time_is_served_once_over_restarts_and_the_made_one_says_whose_it_is() {
    let mut world = World::new().await;
    let key = world.given(schedule(json!({"schedule": "*/5 * * * *"}))).await;
    look(&mut world).await;
    assert_eq!(world.get(&key).unwrap()["status"]["nextScheduleTime"], "2024-04-17T15:05:00Z");
    pass(&mut world, 290, 10).await;
    assert_eq!(made(&world), [""; 0]);
    world.crash().await;
    pass(&mut world, 10, 5).await;
    assert_eq!(times(&world), ["2024-04-17T15:05:00Z"]);
    world.crash().await;
    look(&mut world).await;
    let name = format!("nightly-{}", "2024-04-17T15:05:00Z".parse::<ballast::k8s::Time>().unwrap().seconds() / 60);
    assert_eq!(made(&world), [name.as_str()]);
    let object = world.get(&rebalance(&name)).unwrap();
    assert_eq!(object["metadata"]["labels"], json!({"ballast.dev/schedule": "nightly", "team": "shop"}));
    let uid = world.get(&key).unwrap()["metadata"]["uid"].clone();
    assert_eq!(object["metadata"]["ownerReferences"][0]["uid"], uid);
    assert_eq!(object["spec"]["select"], json!([{"displaced": true}]));
    assert_eq!(object["spec"]["mode"], "Fresh");
    let status = &world.get(&key).unwrap()["status"];
    assert_eq!((&status["lastScheduleTime"], &status["active"]), (&json!("2024-04-17T15:05:00Z"), &json!([name])));
    assert_eq!(condition(&world.get(&key).unwrap(), "Ready").unwrap()["status"], "True");
}

#[tokio::test]
async fn a_kill_between_any_two_commits_makes_nothing_twice_and_forgets_nothing() {
    let mut world = World::new().await;
    world.given(schedule(json!({"schedule": "* * * * *", "successfulHistoryLimit": 100}))).await;
    look(&mut world).await;
    for minute in 0..12 {
        world.clock.advance_seconds(60);
        world.fail_after(minute % 3);
        world.turn_of("rebalance-schedule").await;
        world.crash().await;
        look(&mut world).await;
    }
    assert_eq!(times(&world).len(), 12, "{:?}", times(&world));
    // The status and the created rebalances are one transaction, so they agree at each revision.
    let mut served: Vec<String> = Vec::new();
    for state in world.history(&Key::cluster(REBS, "nightly")).await {
        served.extend(state["status"]["lastScheduleTime"].as_str().map(str::to_owned));
    }
    served.dedup();
    assert_eq!(served, times(&world));
}

#[tokio::test]
async fn in_berlin_a_night_has_its_time_once_or_not_at_all_or_twice() {
    let mut world = World::new().await;
    let limits = json!({"schedule": "30 2 * * *", "timeZone": "Europe/Berlin"});
    world.given(schedule(limits)).await;
    // To 26 October 2024: clocks go back on the 27th at 01:00 UTC.
    let start = "2024-10-26T12:00:00Z".parse::<ballast::k8s::Time>().unwrap();
    world.clock.advance_seconds(start.seconds() - world.now().seconds());
    look(&mut world).await;
    for name in made(&world) {
        world.delete(&rebalance(&name)).await;
    }
    pass(&mut world, 2 * 86_400, 600).await;
    assert_eq!(times(&world), ["2024-10-27T00:30:00Z", "2024-10-27T01:30:00Z", "2024-10-28T01:30:00Z"]);
    for name in made(&world) {
        world.delete(&rebalance(&name)).await;
    }
    // In spring the hour is skipped: 30 March 2025 has no half past two.
    let start = "2025-03-29T12:00:00Z".parse::<ballast::k8s::Time>().unwrap();
    world.clock.advance_seconds(start.seconds() - world.now().seconds());
    look(&mut world).await;
    for name in made(&world) {
        world.delete(&rebalance(&name)).await;
    }
    pass(&mut world, 2 * 86_400, 600).await;
    assert_eq!(times(&world), ["2025-03-31T00:30:00Z"]);
}

#[tokio::test]
async fn forbid_waits_replace_aborts_and_histories_are_kept_short() {
    let mut world = World::new().await;
    let spec = json!({"schedule": "@hourly", "concurrencyPolicy": "Forbid", "successfulHistoryLimit": 1});
    let key = world.given(schedule(spec)).await;
    pass(&mut world, 3 * 3_600, 300).await;
    assert_eq!(times(&world), ["2024-04-17T16:00:00Z"]);
    let first = made(&world).remove(0);
    end(&world, &first, "Completed").await;
    look(&mut world).await;
    assert_eq!(times(&world), ["2024-04-17T16:00:00Z", "2024-04-17T18:00:00Z"]);
    world.edit(&key, |object| object["spec"]["concurrencyPolicy"] = "Replace".into()).await;
    pass(&mut world, 3_600, 300).await;
    let names = made(&world);
    assert_eq!(world.get(&rebalance(&names[1])).unwrap()["spec"]["abort"], true);
    assert_eq!(world.get(&rebalance(&names[2])).unwrap()["spec"]["abort"], false);
    end(&world, &names[1], "Aborted").await;
    end(&world, &names[2], "Completed").await;
    look(&mut world).await;
    // One successful and one failed rebalance are kept.
    assert_eq!(made(&world), names[1..]);
    assert_eq!(world.get(&key).unwrap()["status"].get("active"), None);
}

#[tokio::test]
async fn a_recovery_makes_one_over_restarts_and_flapping_makes_none() {
    let mut world = World::new().await;
    for (name, zone) in [("member1", "a"), ("member2", "b")] {
        world.given(cluster(name, json!({"zone": zone}))).await;
        report(&world, name, "True").await;
    }
    let on = json!({"clusterRecovered": {"clusterSelector": {"matchLabels": {"zone": "a"}}, "stableForSeconds": 60}});
    let key = world.given(schedule(json!({"on": on}))).await;
    look(&mut world).await;
    for _ in 0..4 {
        report(&world, "member1", "False").await;
        report(&world, "member2", "Unknown").await;
        pass(&mut world, 30, 10).await;
        report(&world, "member1", "True").await;
        report(&world, "member2", "True").await;
        pass(&mut world, 50, 10).await;
    }
    assert_eq!(made(&world), [""; 0]);
    world.crash().await;
    pass(&mut world, 20, 5).await;
    assert_eq!(made(&world).len(), 1);
    let object = world.get(&rebalance(&made(&world)[0])).unwrap();
    assert_eq!(object["metadata"]["annotations"]["ballast.dev/recovered"], "member1");
    world.crash().await;
    pass(&mut world, 600, 60).await;
    assert_eq!(made(&world).len(), 1);
    assert_eq!(world.get(&key).unwrap()["status"].get("recoveries"), None);
    // The next outage is handled again.
    report(&world, "member1", "Unknown").await;
    look(&mut world).await;
    world.crash().await;
    report(&world, "member1", "True").await;
    look(&mut world).await;
    pass(&mut world, 60, 10).await;
    assert_eq!(made(&world).len(), 2);
}

#[tokio::test]
async fn what_a_deleted_schedule_made_goes_and_a_new_one_of_the_name_begins_anew() {
    let mut world = World::new().await;
    let key = world.given(schedule(json!({"schedule": "* * * * *"}))).await;
    pass(&mut world, 60, 30).await;
    assert_eq!(made(&world).len(), 1);
    let foreign = json!({
        "apiVersion": "ballast.dev/v1alpha1", "kind": "ClusterRebalance",
        "metadata": {"name": "by-hand", "labels": {"ballast.dev/schedule": "nightly"}}, "spec": {"select": [{}]},
    });
    let Value::Object(foreign) = foreign else { unreachable!() };
    let create = ballast::registry::Change::Create(foreign);
    world.client().batch(vec![(CREB, create)], ballast::registry::Atomicity::All).await.unwrap();
    world.delete(&key).await;
    // The deletion has not been processed yet.
    world.crash().await;
    look(&mut world).await;
    assert_eq!(made(&world), ["by-hand"]);
    world.given(schedule(json!({"schedule": "* * * * *"}))).await;
    pass(&mut world, 60, 30).await;
    assert_eq!(made(&world).len(), 2);
}

#[tokio::test]
async fn lines_that_never_come_and_names_that_are_too_long_are_refused_with_their_path() {
    let world = World::new().await;
    let refused = async |object: Value| {
        let status = world.try_given(object).await.expect_err("refused");
        assert_eq!(status.code, 422);
        status.message
    };
    let never = refused(schedule(json!({"schedule": "0 0 31 2 *"}))).await;
    assert!(never.contains("spec.schedule: Invalid value: \"0 0 31 2 *\": never comes"), "{never}");
    let unread = refused(schedule(json!({"schedule": "0 0 * *"}))).await;
    assert!(unread.contains("spec.schedule: Invalid value: \"0 0 * *\": expected exactly 5 fields"), "{unread}");
    let nowhere = refused(schedule(json!({"schedule": "@daily", "timeZone": "Europe/Atlantis"}))).await;
    assert!(nowhere.contains("spec.timeZone: Invalid value: \"Europe/Atlantis\": unknown time zone"), "{nowhere}");
    let mut long = schedule(json!({"schedule": "@daily"}));
    long["metadata"]["name"] = "n".repeat(53).into();
    let long = refused(long).await;
    assert!(long.contains("metadata.name: Invalid value"), "{long}");
}
