//! When a finished WorkloadRebalancer is deleted (R84-R91).

use serde_json::json;

use super::fleet::{deployment, nginx, rebalancer, rebalancer_with_ttl};

#[tokio::test]
async fn r84_it_is_deleted_when_its_time_to_live_has_passed_since_it_finished() {
    let (mut world, _) = nginx().await;
    let demo = world.given(rebalancer_with_ttl("demo", vec![deployment("nginx")], 60)).await;
    let kept = world.given(rebalancer("kept", vec![deployment("nginx")])).await;
    let at_once = world.given(rebalancer_with_ttl("at-once", vec![deployment("nginx")], 0)).await;
    world.settle().await;
    assert!(world.get(&at_once).is_none());
    world.pass_seconds(59).await;
    assert!(world.get(&demo).is_some());
    world.pass_seconds(1).await;
    assert!(world.get(&demo).is_none());
    world.pass_seconds(600).await;
    assert!(world.get(&kept).is_some());
}

#[tokio::test]
async fn r85_a_new_workload_refreshes_the_finish_time_and_defers_the_deletion() {
    let (mut world, _) = nginx().await;
    let demo = world.given(rebalancer_with_ttl("demo", vec![deployment("nginx")], 60)).await;
    world.settle().await;
    world.pass_seconds(50).await;
    world.edit(&demo, |demo| demo["spec"]["workloads"] = json!([deployment("nginx"), deployment("other")])).await;
    world.settle().await;
    world.pass_seconds(11).await;
    assert!(world.get(&demo).is_some(), "61 s after it first finished");
    world.pass_seconds(49).await;
    assert!(world.get(&demo).is_none(), "60 s after it finished again");
}

#[tokio::test]
async fn r86_the_latest_time_to_live_counts() {
    for (ttl, alive_for) in [(Some(10), 10), (Some(100), 100), (None, i64::MAX)] {
        let (mut world, _) = nginx().await;
        let demo = world.given(rebalancer_with_ttl("demo", vec![deployment("nginx")], 60)).await;
        world.settle().await;
        world.pass_seconds(5).await;
        world
            .edit(&demo, |demo| match ttl {
                Some(ttl) => demo["spec"]["ttlSecondsAfterFinished"] = json!(ttl),
                None => drop(demo["spec"].as_object_mut().unwrap().remove("ttlSecondsAfterFinished")),
            })
            .await;
        for second in 6..=101 {
            world.pass_seconds(1).await;
            assert_eq!(world.get(&demo).is_some(), second < alive_for, "ttl {ttl:?}, second {second}");
        }
    }
}

#[tokio::test]
async fn r84_a_clock_that_is_set_back_does_not_lengthen_its_life() {
    let (mut world, _) = nginx().await;
    let demo = world.given(rebalancer_with_ttl("demo", vec![deployment("nginx")], 60)).await;
    world.settle().await;
    world.pass_seconds(10).await;
    world.clock.advance_seconds(-7_200);
    world.crash().await;
    world.settle().await;
    world.pass_seconds(59).await;
    assert!(world.get(&demo).is_some());
    world.pass_seconds(1).await;
    assert!(world.get(&demo).is_none());
}

#[tokio::test]
async fn r87_r91_an_edit_between_check_and_delete_keeps_the_object() {
    let (mut world, _) = nginx().await;
    let demo = world.given(rebalancer_with_ttl("demo", vec![deployment("nginx")], 60)).await;
    world.settle().await;
    let checked = world.revision(&demo);
    world.clock.advance_seconds(60);
    world.edit(&demo, |demo| demo["spec"]["ttlSecondsAfterFinished"] = json!(3600)).await;
    let refused = world.delete_at(&demo, checked).await.unwrap_err();
    assert_eq!((refused.code, refused.reason.as_str()), (409, "Conflict"));
    world.settle().await;
    assert!(world.get(&demo).is_some());
}

#[tokio::test]
async fn r87_r90_r91_the_controller_itself_loses_that_race_and_looks_again() {
    let (mut world, nginx) = nginx().await;
    let demo = world.given(rebalancer_with_ttl("demo", vec![deployment("nginx")], 60)).await;
    world.settle().await;
    world.clock.advance_seconds(60);
    // The controller finds the object expired, but the edit is stored before its delete.
    world.race(&demo, |demo| demo["spec"]["ttlSecondsAfterFinished"] = json!(90), &nginx, "ttl").await;
    assert!(world.get(&demo).is_some());
    world.settle().await;
    world.pass_seconds(29).await;
    assert!(world.get(&demo).is_some());
    world.pass_seconds(1).await;
    assert!(world.get(&demo).is_none(), "the latest time to live counts");
}

#[tokio::test]
async fn r88_an_edit_right_after_the_end_makes_it_unfinished() {
    let (mut world, _) = nginx().await;
    let demo = world.given(rebalancer_with_ttl("demo", vec![deployment("nginx")], 0)).await;
    while world.get(&demo).unwrap()["status"].get("finishTime").is_none() {
        world.turn_of("rebalancer").await;
    }
    world.edit(&demo, |demo| demo["metadata"]["labels"] = json!({"edited": "yes"})).await;
    world.edit(&demo, |demo| demo["spec"]["workloads"] = json!([deployment("nginx"), deployment("other")])).await;
    while world.turn_of("ttl").await {}
    assert!(world.get(&demo).is_some(), "the new workload has no result yet");
    world.settle().await;
    assert!(world.get(&demo).is_none());
}

#[tokio::test]
async fn r89_the_wait_survives_a_restart() {
    let (mut world, _) = nginx().await;
    let demo = world.given(rebalancer_with_ttl("demo", vec![deployment("nginx")], 60)).await;
    world.settle().await;
    world.pass_seconds(30).await;
    world.crash().await;
    world.pass_seconds(29).await;
    assert!(world.get(&demo).is_some());
    world.pass_seconds(1).await;
    assert!(world.get(&demo).is_none());
}

#[tokio::test]
async fn r90_a_delete_that_fails_is_tried_again() {
    let (mut world, _) = nginx().await;
    let demo = world.given(rebalancer_with_ttl("demo", vec![deployment("nginx")], 10)).await;
    world.settle().await;
    world.fail_after(0);
    world.pass_seconds(12).await;
    assert!(world.get(&demo).is_some());
    world.mend();
    world.pass_seconds(10).await;
    assert!(world.get(&demo).is_none());
}
