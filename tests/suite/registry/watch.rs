//! Watch: its start, its events, bookmarks, and its end.

use std::time::Duration;

use ballast::k8s::Revision;
use ballast::registry::{Watch, WatchEvent};
use ballast::store::Store;
use ballast::watch::Limits;
use serde_json::json;
use tokio::time::Instant;

use super::world::*;

fn labelled(name: &str, app: &str) -> Tree {
    with(rebalancer(name), json!({"metadata": {"labels": {"app": app}}}))
}

async fn relabel(world: &World, name: &str, app: &str) {
    world.merge(&rebalancer(name), json!({"metadata": {"labels": {"app": app}}})).await.unwrap();
}

/// Returns the next event, and the time until it arrived.
async fn next(watch: &mut Watch) -> (Option<String>, Duration) {
    let start = Instant::now();
    let event = watch.next().await.map(|event| told(&event));
    (event, start.elapsed())
}

#[tokio::test]
async fn wa3_and_wa18_every_change_after_a_revision_comes_once_and_in_order() {
    let world = World::new().await;
    world.create(rebalancer("a")).await;
    world.create(rebalancer("b")).await;
    let mut watch = world.watch(&world.all(REBALANCERS), "resourceVersion=1").await;
    world.create(binding("shop", "web")).await;
    relabel(&world, "a", "x").await;
    world.delete(&rebalancer("b")).await;
    assert_eq!(ready(&mut watch), ["ADDED b 2", "MODIFIED a 4", "DELETED b 5"]);
}

#[tokio::test]
async fn wa4_without_a_revision_the_state_comes_first() {
    let world = World::new().await;
    world.create(rebalancer("b")).await;
    world.create(rebalancer("a")).await;
    for query in ["", "resourceVersion=0"] {
        let mut watch = world.watch(&world.all(REBALANCERS), query).await;
        assert_eq!(ready(&mut watch), ["ADDED a 2", "ADDED b 1"]);
    }
    let mut watch = world.watch(&world.all(REBALANCERS), "allowWatchBookmarks=true").await;
    assert_eq!(ready(&mut watch), ["ADDED a 2", "ADDED b 1", "END 2"]);
}

/// The window holds two events, the log all of them.
async fn world_with_a_past() -> World {
    World::with_limits(Limits { window_events_max: 2, ..Limits::default() }).await
}

#[tokio::test]
async fn wa5_and_er15_what_the_log_has_forgotten_is_an_error_event_and_the_end() {
    let world = world_with_a_past().await;
    for name in ["a", "b", "c", "d"] {
        world.create(rebalancer(name)).await;
    }
    while world.store.compact(Revision(2), 10).await.unwrap() {}
    let mut watch = world.watch(&world.all(REBALANCERS), "resourceVersion=1").await;
    assert_eq!(next(&mut watch).await.0.unwrap(), "ERROR 410 too old resource version: 1 (2)");
    assert!(watch.next().await.is_none());
}

#[tokio::test]
async fn wa5_wa8_a_watch_goes_on_from_the_log_where_the_window_has_forgotten() {
    let world = world_with_a_past().await;
    world.create(labelled("a", "x")).await;
    world.create(labelled("b", "y")).await;
    relabel(&world, "a", "y").await;
    relabel(&world, "b", "x").await;
    world.delete(&rebalancer("b")).await;
    for name in ["c", "d", "e"] {
        world.create(labelled(name, "x")).await;
    }
    let expected = [
        ("", vec!["ADDED b 2", "MODIFIED a 3", "MODIFIED b 4", "DELETED b 5", "ADDED c 6", "ADDED d 7", "ADDED e 8"]),
        (
            "&labelSelector=app=x",
            vec!["DELETED a 3", "ADDED b 4", "DELETED b 5", "ADDED c 6", "ADDED d 7", "ADDED e 8"],
        ),
        ("&fieldSelector=metadata.name=b", vec!["ADDED b 2", "MODIFIED b 4", "DELETED b 5"]),
    ];
    for (selector, expected) in expected {
        let query = format!("resourceVersion=1{selector}");
        let mut watch = world.watch(&world.all(REBALANCERS), &query).await;
        for event in expected {
            assert_eq!(next(&mut watch).await.0.unwrap(), event, "{query}");
        }
    }
    let mut watch = world.watch(&world.all(REBALANCERS), "resourceVersion=7").await;
    assert_eq!(next(&mut watch).await.0.unwrap(), "ADDED e 8");
    world.create(rebalancer("f")).await;
    assert_eq!(next(&mut watch).await.0.unwrap(), "ADDED f 9");
}

#[tokio::test]
async fn wa6_a_revision_of_the_future_is_waited_for() {
    let world = World::new().await;
    let mut watch = world.watch(&world.all(REBALANCERS), "resourceVersion=2").await;
    for name in ["a", "b", "c"] {
        world.create(rebalancer(name)).await;
    }
    assert_eq!(ready(&mut watch), ["ADDED c 3"]);
}

#[tokio::test]
async fn wa8_what_stops_being_selected_is_deleted_as_it_was() {
    let world = World::new().await;
    let mut watch = world.watch(&world.all(REBALANCERS), "labelSelector=app=x&resourceVersion=0").await;
    world.create(labelled("a", "y")).await;
    relabel(&world, "a", "x").await;
    world.merge(&rebalancer("a"), json!({"spec": {"ttlSecondsAfterFinished": 1}})).await.unwrap();
    assert_eq!(ready(&mut watch), ["ADDED a 2", "MODIFIED a 3"]);

    relabel(&world, "a", "y").await;
    let Some(WatchEvent::Deleted(object)) = watch.next().await else { panic!("not deleted") };
    let seen = value(&object);
    assert_eq!(seen["metadata"]["labels"]["app"], "x", "the content that was selected");
    assert_eq!(seen["metadata"]["resourceVersion"], "4", "with the revision of the change");

    relabel(&world, "a", "z").await;
    world.delete(&rebalancer("a")).await;
    assert_eq!(ready(&mut watch), Vec::<String>::new());
}

#[tokio::test]
async fn wa7_a_deleted_object_has_the_revision_of_its_deletion() {
    let world = World::new().await;
    world.create(labelled("a", "x")).await;
    let mut watch = world.watch(&world.all(REBALANCERS), "labelSelector=app=x&resourceVersion=1").await;
    world.delete(&rebalancer("a")).await;
    assert_eq!(ready(&mut watch), ["DELETED a 2"]);
}

#[tokio::test]
async fn wa19_a_watch_may_be_of_a_namespace_or_of_one_object() {
    let world = World::new().await;
    let mut one = world.watch(&world.in_namespace(BINDINGS, "shop"), "fieldSelector=metadata.name=web").await;
    let mut all = world.watch(&world.all(BINDINGS), "").await;
    let mut shop = world.watch(&world.in_namespace(BINDINGS, "shop"), "").await;
    for (namespace, name) in [("shop", "web"), ("shop", "db"), ("bank", "web")] {
        world.create(binding(namespace, name)).await;
    }
    assert_eq!(ready(&mut one), ["ADDED web 1"]);
    assert_eq!(ready(&mut shop), ["ADDED web 1", "ADDED db 2"]);
    assert_eq!(ready(&mut all), ["ADDED web 1", "ADDED db 2", "ADDED web 3"]);
}

#[tokio::test(start_paused = true)]
async fn wa9_a_watch_ends_on_time_without_a_word() {
    let world = World::new().await;
    let mut watch = world.watch(&world.all(REBALANCERS), "timeoutSeconds=2").await;
    let (event, waited) = next(&mut watch).await;
    assert!(event.is_none());
    assert_eq!(waited.as_secs(), 2);

    let mut watch = world.watch(&world.all(REBALANCERS), "").await;
    let (event, waited) = next(&mut watch).await;
    assert!(event.is_none() && (1800..3600).contains(&waited.as_secs()), "{waited:?}");
    world.watch(&world.all(REBALANCERS), "timeoutSeconds=9223372036854775807").await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_read_only_after_its_end_tells_what_has_happened() {
    let world = World::new().await;
    let mut watch = world.watch(&world.all(REBALANCERS), "timeoutSeconds=2").await;
    world.create(rebalancer("a")).await;
    tokio::time::advance(Duration::from_secs(10)).await;
    assert_eq!(next(&mut watch).await.0.unwrap(), "ADDED a 1");
    assert!(watch.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn wa10_bookmarks_come_each_minute_and_before_the_end() {
    let world = World::new().await;
    world.create(rebalancer("a")).await;
    let query = "resourceVersion=1&allowWatchBookmarks=true&timeoutSeconds=125";
    let mut watch = world.watch(&world.all(REBALANCERS), query).await;
    let start = Instant::now();
    world.create(binding("shop", "web")).await;
    let mut told = Vec::new();
    while let (Some(event), _) = next(&mut watch).await {
        told.push((event, start.elapsed().as_secs()));
    }
    let bookmark = || "BOOKMARK 2".to_owned();
    assert_eq!(told, [(bookmark(), 60), (bookmark(), 120), (bookmark(), 123)]);
    assert_eq!(start.elapsed().as_secs(), 125);

    let mut watch = world.watch(&world.all(REBALANCERS), "resourceVersion=1&timeoutSeconds=125").await;
    assert!(watch.next().await.is_none(), "never unasked");
}

#[tokio::test]
async fn wa12_and_wa14_a_watch_list_marks_the_end_of_the_state() {
    let world = World::new().await;
    world.create(rebalancer("a")).await;
    let query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
    let mut watch = world.watch(&world.all(REBALANCERS), &format!("{query}&allowWatchBookmarks=true")).await;
    world.create(rebalancer("b")).await;
    assert_eq!(ready(&mut watch), ["ADDED a 1", "END 1", "ADDED b 2"]);
    let mut watch = world.watch(&world.all(REBALANCERS), &format!("{query}&resourceVersion=1")).await;
    assert_eq!(ready(&mut watch), ["ADDED a 1", "ADDED b 2"], "no bookmark unasked");
    let query = "sendInitialEvents=false&resourceVersionMatch=NotOlderThan";
    let mut watch = world.watch(&world.all(REBALANCERS), query).await;
    world.create(rebalancer("c")).await;
    assert_eq!(ready(&mut watch), ["ADDED c 3"]);
}

#[tokio::test(start_paused = true)]
async fn wa15_a_watch_list_of_the_future_is_refused() {
    let world = World::new().await;
    let query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=5";
    let refused = world.registry.watch(&world.all(REBALANCERS), &list_options(query)).await;
    assert_eq!(refused.err().unwrap().code, 504);
}

#[tokio::test]
async fn wa17_a_watcher_that_falls_behind_reads_on_from_the_log() {
    let world = World::with_limits(Limits { window_events_max: 3, ..Limits::default() }).await;
    let mut slow = world.watch(&world.all(REBALANCERS), "").await;
    for round in 0..3 {
        for i in 0..9 {
            world.create(rebalancer(&format!("r{round}-{i}"))).await;
        }
        for i in 0..9 {
            let name = format!("r{round}-{i}");
            let (told, _) = next(&mut slow).await;
            assert!(told.unwrap().contains(&name), "each once and in order");
        }
    }
}

#[tokio::test]
async fn wa17_a_watcher_that_falls_behind_the_log_is_told_and_ends() {
    let world = World::with_limits(Limits { window_events_max: 3, ..Limits::default() }).await;
    let mut slow = world.watch(&world.all(REBALANCERS), "").await;
    for i in 0..9 {
        world.create(rebalancer(&format!("r{i}"))).await;
    }
    while world.store.compact(Revision(5), 100).await.unwrap() {}
    let (told, _) = next(&mut slow).await;
    assert_eq!(told.unwrap(), "ERROR 410 too old resource version: 0 (5)");
    assert!(slow.next().await.is_none());
}
