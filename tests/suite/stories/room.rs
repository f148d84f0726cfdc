//! Capacity is assigned once, also under concurrent decisions and conflicting writes, and its
//! message names only workloads that the reader may see.

use ballast::k8s::Key;
use serde_json::json;

use super::failover::{member1, tasks};
use super::fleet::{aggregated, binding, deployment, no_execute, small_cluster};
use super::safe::report;
use super::world::{CLUSTER, World, condition, without_a_rate};
use crate::support::objects::with;

#[tokio::test]
async fn rm5_a_write_that_conflicts_gives_its_room_back_and_takes_it_again() {
    let mut world = World::new().await;
    world.given(small_cluster("member1", 4)).await;
    world.settle().await;
    let first = world.given(binding("first", 3, aggregated())).await;
    let other = world.given(binding("other", 1, json!({"clusterAffinity": {"clusterNames": ["none"]}}))).await;
    // The scheduler decides the binding before the edit, and writes it after.
    world.race(&first, |binding| binding["metadata"]["labels"]["edited"] = "yes".into(), &other, "scheduler").await;
    world.settle().await;
    assert_eq!(world.placed(&first), "member1:3");
    let second = world.given(binding("second", 2, aggregated())).await;
    world.settle().await;
    assert_eq!(world.placed(&second), "", "one place is left");
    let third = world.given(binding("third", 1, aggregated())).await;
    world.settle().await;
    assert_eq!(world.placed(&third), "member1:1");

    // Capacity that a binding releases goes to the waiting one, also after a crash.
    world.crash().await;
    world.delete(&first).await;
    world.settle().await;
    assert_eq!(world.placed(&second), "member1:2");
}

#[tokio::test]
async fn rm6_a_condition_names_workloads_of_its_own_namespace_and_counts_the_others() {
    let mut world = World::new().await;
    world.given(small_cluster("member1", 10)).await;
    let elsewhere = json!({"metadata": {"namespace": "shop"}, "spec": {"resource": {"namespace": "shop"}}});
    world.given(binding("web", 4, aggregated())).await;
    world.given(with(binding("secret", 3, aggregated()), elsewhere)).await;
    world.settle().await;
    let late = world.given(binding("late", 5, aggregated())).await;
    world.settle().await;
    let late = world.get(&late).unwrap();
    let told = condition(&late, "Scheduled").unwrap()["message"].as_str().unwrap().to_owned();
    let sentence = "cluster member1: 10 free, 7 promised to others (default/web 4, other namespaces 3), 3 left";
    assert!(told.contains(sentence) && !told.contains("secret"), "{told}");
}

#[tokio::test]
async fn a_condition_names_holders_on_clusters_that_the_placement_selects() {
    let mut world = World::new().await;
    for (name, pods) in [("one", 20), ("two", 30), ("three", 30), ("four", 30)] {
        world.given(small_cluster(name, pods)).await;
    }
    let only = |name: &str| with(aggregated(), json!({"clusterAffinity": {"clusterNames": [name]}}));
    for (name, replicas) in [("one", 8), ("two", 3), ("three", 3), ("four", 3)] {
        world.given(binding(&format!("on-{name}"), replicas, only(name))).await;
    }
    world.settle().await;
    let big = world.given(binding("big", 30, only("one"))).await;
    world.settle().await;
    let big = world.get(&big).unwrap();
    let message = condition(&big, "Scheduled").unwrap()["message"].as_str().unwrap().to_owned();
    let sentence = "; cluster one: 20 free, 8 promised to others (default/on-one 8), 12 left";
    assert!(message.ends_with(sentence), "{message}");
}

#[tokio::test]
async fn a_condition_names_holders_of_the_scarce_resource_alone() {
    let mut world = World::new().await;
    let gpus = json!({"status": {"resourceSummary": {"allocatable": {"nvidia.com/gpu": "4"}}}});
    world.given(with(small_cluster("member1", 100), gpus)).await;
    for number in 0..3 {
        world.given(binding(&format!("web-{number}"), 5, aggregated())).await;
    }
    let gpu = |count: &str| json!({"spec": {"replicaRequirements": {"resourceRequest": {"nvidia.com/gpu": count}}}});
    world.given(with(binding("train-1", 2, aggregated()), gpu("1"))).await;
    world.given(with(binding("train-2", 1, aggregated()), gpu("2"))).await;
    world.settle().await;
    let late = world.given(with(binding("late", 1, aggregated()), gpu("1"))).await;
    world.settle().await;
    let late = world.get(&late).unwrap();
    let message = condition(&late, "Scheduled").unwrap()["message"].as_str().unwrap().to_owned();
    let sentence = "cluster member1: 4 free, 4 promised to others (default/train-1 2, default/train-2 2), 0 left";
    assert!(message.ends_with(sentence), "{message}");
}

/// Sets the allocated pods in the summary of the cluster.
async fn summed_up(world: &World, name: &str, pods: u32) {
    let taken = json!({"pods": pods.to_string()});
    let change = |cluster: &mut serde_json::Value| cluster["status"]["resourceSummary"]["allocated"] = taken.clone();
    world.edit(&Key::cluster(CLUSTER, name), change).await;
}

#[tokio::test]
async fn rm1_a_report_that_is_newer_than_the_summary_is_not_hidden_by_the_pods_of_others() {
    for (is_killed, is_written_between) in [(false, false), (true, false), (false, true)] {
        let mut world = World::new().await;
        world.given(small_cluster("member1", 20)).await;
        summed_up(&world, "member1", 10).await;
        let web = world.given(binding("web", 4, aggregated())).await;
        world.settle().await;
        if is_written_between {
            // The summary is older than the pods.
            let label = |cluster: &mut serde_json::Value| cluster["metadata"]["labels"]["zone"] = "z".into();
            world.edit(&Key::cluster(CLUSTER, "member1"), label).await;
        }
        report(&world, &web, &[("member1", 4)]).await;
        if is_killed {
            world.crash().await;
        }
        // 10 foreign pods, and 4 that the summary does not include.
        let large = world.given(binding("large", 7, aggregated())).await;
        world.settle().await;
        assert_eq!(world.placed(&large), "", "{is_killed} {is_written_between}");
        world.delete(&large).await;
        // The summary is newer than the report, so its numbers are exact.
        summed_up(&world, "member1", 14).await;
        let rest = world.given(binding("rest", 5, aggregated())).await;
        world.settle().await;
        assert_eq!(world.placed(&rest), "member1:5");
        // The summary before the report is exact as well.
        summed_up(&world, "member1", 19).await;
        report(&world, &rest, &[("member1", 5)]).await;
        let last = world.given(binding("last", 1, aggregated())).await;
        world.settle().await;
        assert_eq!(world.placed(&last), "member1:1", "{is_killed} {is_written_between}");
        let none = world.given(binding("none", 1, aggregated())).await;
        world.settle().await;
        assert_eq!(world.placed(&none), "");
    }
}

#[tokio::test]
async fn rm1_pods_of_others_that_leave_are_room_with_the_next_summary() {
    let mut world = World::new().await;
    world.given(small_cluster("member1", 20)).await;
    summed_up(&world, "member1", 10).await;
    let web = world.given(binding("web", 4, aggregated())).await;
    world.settle().await;
    report(&world, &web, &[("member1", 4)]).await;
    summed_up(&world, "member1", 6).await;
    let large = world.given(binding("large", 14, aggregated())).await;
    world.settle().await;
    assert_eq!(world.placed(&large), "member1:14");
}

#[tokio::test]
async fn rm3_a_pass_that_moves_nothing_makes_no_promise_last_longer() {
    for is_killed in [false, true] {
        let mut world = World::new().await;
        world.given(small_cluster("member1", 10)).await;
        let web = world.given(binding("web", 6, aggregated())).await;
        world.settle().await;
        let placed = world.now();
        for _ in 0..2 {
            world.clock.advance_seconds(100);
            world.task(json!({"targetRefResource": [deployment("web")]})).await.unwrap();
            world.settle().await;
        }
        let stored = world.get(&web).unwrap();
        assert_eq!(stored["status"]["lastScheduledTime"], world.now().to_string(), "the pass is told");
        let arrivals = json!({"member1": {"at": placed}}).to_string();
        assert_eq!(stored["metadata"]["annotations"]["ballast.dev/arrivals"], arrivals);
        let late = world.given(binding("late", 6, aggregated())).await;
        world.clock.advance_seconds(99);
        world.settle().await;
        assert_eq!(world.placed(&late), "", "web has its promise for a second more");
        if is_killed {
            world.crash().await;
        }
        world.delete(&late).await;
        world.pass_seconds(2).await;
        let later = world.given(binding("later", 6, aggregated())).await;
        world.settle().await;
        assert_eq!(world.placed(&later), "member1:6", "{is_killed}");
        // Once the replicas are reported, the message disappears.
        report(&world, &web, &[("member1", 6)]).await;
        world.task(json!({"targetRefResource": [deployment("web")]})).await.unwrap();
        world.settle().await;
        assert_eq!(world.get(&web).unwrap()["metadata"]["annotations"].get("ballast.dev/arrivals"), None);
    }
}

#[tokio::test]
async fn rm3_what_waits_for_promised_room_is_decided_when_the_promise_ends_by_the_clock() {
    for is_killed in [false, true] {
        let mut world = World::new().await;
        world.given(small_cluster("member1", 10)).await;
        world.given(binding("web", 6, aggregated())).await;
        world.settle().await;
        // Within five minutes of the end, the binding would be retried anyway.
        world.clock.advance_seconds(200);
        let late = world.given(binding("late", 6, aggregated())).await;
        world.settle().await;
        if is_killed {
            world.crash().await;
        }
        world.clock.advance_seconds(80);
        world.settle().await;
        let failed = world.revision(&late);
        world.pass_seconds(19).await;
        assert_eq!((world.placed(&late), world.revision(&late)), (String::new(), failed), "{is_killed}");
        world.pass_seconds(1).await;
        assert_eq!(world.placed(&late), "member1:6", "nothing but the clock has changed; {is_killed}");
    }
}

/// Returns a placement that tolerates a cluster that is down.
fn unmoved() -> serde_json::Value {
    with(aggregated(), json!({"clusterTolerations": [{"key": "down", "operator": "Exists"}]}))
}

async fn set_down(world: &mut World, is_down: bool) {
    let taints = if is_down { json!([no_execute("down")]) } else { json!([]) };
    world.edit(&member1(), |cluster| cluster["spec"]["taints"] = taints.clone()).await;
    world.settle().await;
}

#[tokio::test]
async fn rm1_what_is_being_evicted_holds_its_room_and_an_eviction_that_is_called_off_overfills_nothing() {
    for is_killed in [false, true] {
        let mut world = World::with_failover(without_a_rate()).await;
        world.given(small_cluster("member1", 4)).await;
        let web = world.given(binding("web", 3, aggregated())).await;
        world.settle().await;
        set_down(&mut world, true).await;
        assert_eq!((world.placed(&web), tasks(&world, &web).len()), (String::new(), 1));
        if is_killed {
            world.crash().await;
        }
        let large = world.given(binding("large", 2, unmoved())).await;
        let small = world.given(binding("small", 1, unmoved())).await;
        world.settle().await;
        assert_eq!((world.placed(&large), world.placed(&small)), (String::new(), "member1:1".to_owned()));
        set_down(&mut world, false).await;
        assert_eq!((world.placed(&web), tasks(&world, &web).len()), ("member1:3".to_owned(), 0));
        assert_eq!(world.placed(&large), "", "{is_killed}");
    }
}

#[tokio::test]
async fn rm4_room_that_a_workload_is_being_evicted_from_is_its_own_where_it_comes_home() {
    let mut world = World::with_failover(without_a_rate()).await;
    world.given(small_cluster("member1", 4)).await;
    let web = world.given(binding("web", 3, aggregated())).await;
    world.settle().await;
    world.given(small_cluster("member2", 3)).await;
    set_down(&mut world, true).await;
    set_down(&mut world, false).await;
    assert_eq!((world.placed(&web), tasks(&world, &web).len()), ("member2:3".to_owned(), 1));
    let large = world.given(binding("large", 2, aggregated())).await;
    let small = world.given(binding("small", 1, aggregated())).await;
    world.settle().await;
    assert_eq!((world.placed(&large), world.placed(&small)), (String::new(), "member1:1".to_owned()));
    world
        .given(json!({"apiVersion": "ballast.dev/v1alpha1", "kind": "ClusterRebalance",
            "metadata": {"name": "home"}, "spec": {"select": [{"displaced": true}], "mode": "AsBefore"}}))
        .await;
    world.settle().await;
    assert_eq!((world.placed(&web), tasks(&world, &web).len()), ("member1:3".to_owned(), 0));
}

/// A task written by a user may have no number of replicas; no capacity is reserved for it.
#[tokio::test]
async fn rm1_an_eviction_is_called_off_only_where_there_is_room() {
    for (other, back) in [(2, ""), (1, "member1:3")] {
        let mut world = World::with_failover(without_a_rate()).await;
        world.given(small_cluster("member1", 4)).await;
        let web = world.given(binding("web", 3, aggregated())).await;
        world.settle().await;
        set_down(&mut world, true).await;
        world.edit(&web, |binding| binding["spec"]["gracefulEvictionTasks"][0]["replicas"] = json!(null)).await;
        world.settle().await;
        let other = world.given(binding("other", other, unmoved())).await;
        world.settle().await;
        assert!(!world.placed(&other).is_empty());
        set_down(&mut world, false).await;
        assert_eq!(world.placed(&web), back);
    }
}
