//! Placement when not all replicas fit, not all constraints can be met, and clusters have bounds
//! (S7).

use ballast::k8s::Key;
use ballast::worker::BACKOFF_MAX_MS;
use serde_json::{Value, json};

use super::fleet::{binding, rebalancer, small_cluster};
use super::world::{World, condition};

fn aggregated(more: Value) -> Value {
    let mut strategy = json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"});
    strategy.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"replicaScheduling": strategy})
}

fn what_fits() -> Value {
    aggregated(json!({"whenUnsatisfiable": "ScheduleWhatFits"}))
}

/// Reports free capacity of the clusters, in addition to what runs there.
async fn reported(world: &mut World, rooms: &[(&Key, u32)]) {
    for (cluster, pods) in rooms {
        let pods = pods.to_string();
        let set = move |cluster: &mut Value| {
            cluster["status"]["resourceSummary"]["allocatable"]["pods"] = json!(pods);
        };
        world.edit(cluster, set).await;
    }
    world.settle().await;
}

fn told(world: &World, key: &Key) -> (String, String, String) {
    let binding = world.get(key).unwrap();
    let condition = condition(&binding, "Scheduled").unwrap();
    let text = |name: &str| condition[name].as_str().unwrap().to_owned();
    (text("status"), text("reason"), text("message"))
}

#[tokio::test]
async fn what_fits_is_placed_and_the_rest_when_room_comes_and_nothing_is_taken_back() {
    let mut world = World::new().await;
    let m1 = world.given(small_cluster("m1", 2)).await;
    let m2 = world.given(small_cluster("m2", 1)).await;
    let key = world.given(binding("web", 5, what_fits())).await;
    world.settle().await;
    assert_eq!(world.placed(&key), "m1:2 m2:1");
    let (status, reason, message) = told(&world, &key);
    assert_eq!((&*status, &*reason), ("False", "PartlyScheduled"));
    assert!(message.starts_with("3 of 5 replicas are placed, and the others wait: "), "{message}");
    let before = world.get(&key).unwrap();
    assert_eq!(before["status"]["lastScheduledTime"], Value::Null, "no pass has succeeded");
    // Nothing fits, and no replica is removed.
    reported(&mut world, &[(&m1, 0), (&m2, 0)]).await;
    assert_eq!(world.placed(&key), "m1:2 m2:1");
    world.pass_seconds(600).await;
    assert_eq!(world.get(&key).unwrap()["spec"], before["spec"]);
    reported(&mut world, &[(&m1, 9)]).await;
    // A binding that was just tried waits for its backoff.
    world.pass_seconds(BACKOFF_MAX_MS / 1_000).await;
    assert_eq!(world.placed(&key), "m1:4 m2:1");
    assert_eq!(told(&world, &key).1, "Success");
}

#[tokio::test]
async fn what_fits_ends_when_the_workload_is_scaled_to_what_is_there() {
    let mut world = World::new().await;
    let m1 = world.given(small_cluster("m1", 2)).await;
    let key = world.given(binding("web", 5, what_fits())).await;
    world.settle().await;
    reported(&mut world, &[(&m1, 0)]).await;
    assert_eq!((world.placed(&key), told(&world, &key).1), ("m1:2".to_owned(), "PartlyScheduled".to_owned()));
    world.edit(&key, |binding| binding["spec"]["replicas"] = json!(2)).await;
    world.settle().await;
    assert_eq!((world.placed(&key), told(&world, &key).1), ("m1:2".to_owned(), "Success".to_owned()));
}

#[tokio::test]
async fn a_trigger_that_finds_no_place_for_all_places_what_fits_and_stays_pending() {
    let mut world = World::new().await;
    let m1 = world.given(small_cluster("m1", 2)).await;
    let key = world.given(binding("web", 5, what_fits())).await;
    world.settle().await;
    reported(&mut world, &[(&m1, 0)]).await;
    world.given(rebalancer("demo", vec![super::fleet::deployment("web")])).await;
    world.settle().await;
    assert_eq!((world.placed(&key), told(&world, &key).1), ("m1:2".to_owned(), "PartlyScheduled".to_owned()));
    reported(&mut world, &[(&m1, 9)]).await;
    world.pass_seconds(600).await;
    assert_eq!((world.placed(&key), told(&world, &key).1), ("m1:5".to_owned(), "Success".to_owned()));
}

#[tokio::test]
async fn s4_a_wish_that_is_not_kept_is_told_by_the_condition() {
    let mut world = World::new().await;
    let in_region = |name: &str, region: &str, pods| {
        let mut cluster = small_cluster(name, pods);
        cluster["spec"]["region"] = json!(region);
        cluster
    };
    world.given(in_region("m1", "east", 9)).await;
    let m2 = world.given(in_region("m2", "west", 0)).await;
    let mut placement = aggregated(json!({}));
    placement["spreadConstraints"] = json!([
        {"spreadByField": "cluster", "minGroups": 1},
        {"spreadByField": "region", "minGroups": 2, "whenUnsatisfiable": "ScheduleAnyway"}]);
    let key = world.given(binding("web", 4, placement)).await;
    world.settle().await;
    assert_eq!(world.placed(&key), "m1:4");
    let (status, _, message) = told(&world, &key);
    assert_eq!(status, "True");
    assert!(message.ends_with("But the spread constraint by region (at least 2) is not kept."), "{message}");
    // A preference moves nothing. The next replica goes where it is met.
    reported(&mut world, &[(&m2, 9)]).await;
    assert_eq!(world.placed(&key), "m1:4");
    world.edit(&key, |binding| binding["spec"]["replicas"] = json!(5)).await;
    world.settle().await;
    assert_eq!(world.placed(&key), "m1:4 m2:1");
    assert!(!told(&world, &key).2.contains("not kept"));
}

#[tokio::test]
async fn s7_bounds_hold_and_a_refusal_says_which_bound_is_in_the_way() {
    let mut world = World::new().await;
    for name in ["m1", "m2", "m3"] {
        world.given(small_cluster(name, 9)).await;
    }
    let bounds = json!([{"targetCluster": {}, "minReplicas": 2, "maxReplicas": 3}]);
    let key = world.given(binding("web", 7, aggregated(json!({"clusterBounds": bounds})))).await;
    world.settle().await;
    let placed = world.get(&key).unwrap();
    let shares: Vec<i64> =
        placed["spec"]["clusters"].as_array().unwrap().iter().map(|it| it["replicas"].as_i64().unwrap()).collect();
    assert!(shares.len() == 3 && shares.iter().all(|share| (2..=3).contains(share)), "{shares:?}");
    world.edit(&key, |binding| binding["spec"]["replicas"] = json!(10)).await;
    world.settle().await;
    let (status, reason, message) = told(&world, &key);
    assert_eq!((&*status, &*reason), ("False", "Unschedulable"));
    assert!(message.contains("clusterBounds let 3 of 3 clusters have 9 of 10 replicas at most"), "{message}");
    assert_eq!(world.get(&key).unwrap()["spec"]["clusters"].as_array().unwrap().len(), 3, "what is there stays");
}
