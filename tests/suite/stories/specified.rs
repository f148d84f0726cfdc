//! Stories of specified replicas (seed 003): the user specifies the numbers, and changes are
//! divided evenly.

use ballast::k8s::Key;
use serde_json::{Value, json};

use super::events::events_about;
use super::fleet::{binding, cluster, deployment, rebalancer};
use super::world::{World, condition};

/// Creates c1 in region A, and c2 and c3 in region B.
async fn world() -> World {
    let world = World::new().await;
    for (name, region) in [("c1", "A"), ("c2", "B"), ("c3", "B")] {
        let mut cluster = cluster(name);
        cluster["spec"]["region"] = json!(region);
        world.given(cluster).await;
    }
    world
}

fn regions(names: &[&str]) -> Value {
    json!({"fieldSelector": {"matchExpressions": [{"key": "region", "operator": "In", "values": names}]}})
}

fn specified(entries: &[(Value, i64)]) -> Value {
    let entries = entries.iter().map(|(target, replicas)| json!({"targetCluster": target, "replicas": replicas}));
    json!({"replicaScheduling": {
        "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Specified",
        "specifyPreference": {"staticSpecifyList": entries.collect::<Vec<_>>()},
    }})
}

/// Creates a binding with the seven replicas of the document: two, one and four.
async fn seven(world: &mut World) -> Key {
    let named = |name: &str, replicas: i64| (json!({"clusterNames": [name]}), replicas);
    let placement = specified(&[named("c1", 2), named("c2", 1), named("c3", 4)]);
    let key = world.given(binding("nginx", 7, placement)).await;
    world.settle().await;
    assert_eq!(world.placed(&key), "c1:2 c2:1 c3:4");
    key
}

async fn scale(world: &mut World, key: &Key, replicas: i64, entries: &[(Value, i64)]) {
    let placement = specified(entries);
    world
        .edit(key, |binding| {
            binding["spec"]["replicas"] = json!(replicas);
            binding["spec"]["placement"] = placement.clone();
        })
        .await;
    world.settle().await;
}

#[tokio::test]
async fn r133_r134_r135_r145_replicas_of_regions_grow_and_shrink_evenly_within_each() {
    let mut world = world().await;
    let key = seven(&mut world).await;
    scale(&mut world, &key, 11, &[(regions(&["A"]), 3), (regions(&["B"]), 8)]).await;
    assert_eq!(world.placed(&key), "c1:3 c2:3 c3:5");
    world.delete(&key).await;
    world.settle().await;
    let key = seven(&mut world).await;
    scale(&mut world, &key, 3, &[(regions(&["A"]), 1), (regions(&["B"]), 2)]).await;
    assert_eq!(world.placed(&key), "c1:1 c3:2", "C16: a cluster without replicas is no target");
}

#[tokio::test]
async fn r136_r149_a_list_of_regions_with_one_number_shares_the_difference_over_all_its_clusters() {
    for (replicas, expected) in [(11, "c1:3 c2:3 c3:5"), (3, "c1:1 c3:2")] {
        let mut world = world().await;
        let key = seven(&mut world).await;
        scale(&mut world, &key, replicas, &[(regions(&["A", "B"]), replicas)]).await;
        assert_eq!(world.placed(&key), expected);
    }
}

/// Returns the strategy `Regions` without a number, for the clusters of these entries.
fn listed_regions(entries: &[Value]) -> Value {
    let entries = entries.iter().map(|target| json!({"targetCluster": target, "extendFields": {}}));
    json!({"replicaScheduling": {
        "replicaSchedulingType": "Divided", "extendReplicaDivisionPreference": "Regions",
        "extendClusterPreferences": {"extendStaticList": entries.collect::<Vec<_>>()},
    }})
}

#[tokio::test]
async fn r136_r137_regions_without_a_number_share_the_difference_over_all_their_clusters() {
    let mut both_regions = listed_regions(&[]);
    both_regions["clusterAffinity"] = regions(&["A", "B"]);
    for placement in
        [both_regions, listed_regions(&[regions(&["A", "B"])]), listed_regions(&[regions(&["A"]), regions(&["B"])])]
    {
        for (replicas, expected) in [(7, "c1:2 c2:1 c3:4"), (11, "c1:3 c2:3 c3:5"), (3, "c1:1 c3:2")] {
            let mut world = world().await;
            let key = seven(&mut world).await;
            world
                .edit(&key, |binding| {
                    binding["spec"]["replicas"] = json!(replicas);
                    binding["spec"]["placement"] = placement.clone();
                })
                .await;
            world.settle().await;
            assert_eq!(world.placed(&key), expected, "{replicas} by {placement}");
        }
    }
}

#[tokio::test]
async fn r136_r149_the_total_that_a_policy_gives_its_regions_counts() {
    let mut world = world().await;
    let key = seven(&mut world).await;
    let total = json!([{"targetCluster": {}, "replicas": 11}]);
    let mut placement = listed_regions(&[]);
    let strategy = placement["replicaScheduling"].as_object_mut().unwrap();
    strategy.remove("extendClusterPreferences");
    strategy.insert("specifyPreference".to_owned(), json!({"staticSpecifyList": total}));
    let edit = |replicas: i64| {
        let placement = placement.clone();
        move |binding: &mut Value| {
            binding["spec"]["replicas"] = json!(replicas);
            binding["spec"]["placement"] = placement.clone();
        }
    };
    world.edit(&key, edit(11)).await;
    world.settle().await;
    assert_eq!(world.placed(&key), "c1:3 c2:3 c3:5");
    world.edit(&key, edit(12)).await;
    world.settle().await;
    let told = world.get(&key).unwrap();
    assert!(condition(&told, "Scheduled").unwrap()["message"].as_str().unwrap().contains("sum up to 11"), "{told}");
}

#[tokio::test]
async fn r154_regions_of_an_annotation_without_a_total_are_honoured() {
    let mut world = world().await;
    let policy = world
        .given(json!({
            "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
            "metadata": {"name": "p", "namespace": "default",
                "annotations": {"scheduling.karmada.io/specified-replicas": "{\"idcs\":[{\"name\":\"B\"}]}"}},
            "spec": {"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "nginx"}]},
        }))
        .await;
    let placement = world.get(&policy).unwrap()["spec"]["placement"].clone();
    let key = world.given(binding("nginx", 7, placement)).await;
    world.settle().await;
    assert_eq!(world.placed(&key), "c2:4 c3:3");
}

#[tokio::test]
async fn r142_without_a_list_all_clusters_weigh_the_same() {
    let mut world = world().await;
    let placement =
        json!({"replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Specified"}});
    let key = world.given(binding("nginx", 6, placement)).await;
    world.settle().await;
    assert_eq!(world.placed(&key), "c1:2 c2:2 c3:2");
}

#[tokio::test]
async fn r148_r156_afresh_a_region_s_replicas_are_split_evenly() {
    let mut world = world().await;
    let key = seven(&mut world).await;
    scale(&mut world, &key, 10, &[(regions(&["A"]), 2), (regions(&["B"]), 8)]).await;
    assert_eq!(world.placed(&key), "c1:2 c2:3 c3:5", "steady: the difference is shared");
    world.clock.advance_seconds(60);
    world.given(rebalancer("demo", vec![deployment("nginx")])).await;
    world.settle().await;
    assert_eq!(world.placed(&key), "c1:2 c2:4 c3:4");
}

#[tokio::test]
async fn c22_the_first_entry_has_a_cluster_that_two_entries_select() {
    let mut world = world().await;
    let entries = [(json!({"clusterNames": ["c2"]}), 1), (regions(&["B"]), 4)];
    let key = world.given(binding("nginx", 5, specified(&entries))).await;
    world.settle().await;
    assert_eq!(world.placed(&key), "c2:1 c3:4");
}

#[tokio::test]
async fn c22_replicas_of_an_entry_whose_cluster_takes_nothing_are_not_diverted() {
    let mut world = world().await;
    let entries = [(json!({"clusterNames": ["c1"]}), 1), (json!({"clusterNames": ["c9"]}), 4)];
    let key = world.given(binding("nginx", 5, specified(&entries))).await;
    world.settle().await;
    let failed = world.get(&key).unwrap();
    assert_eq!(world.placed(&key), "");
    assert_eq!(condition(&failed, "Scheduled").unwrap()["reason"], "Unschedulable");
}

#[tokio::test]
async fn r139_numbers_that_do_not_add_up_are_refused_once_and_not_tried_again() {
    let mut world = world().await;
    let key = seven(&mut world).await;
    world.edit(&key, |binding| binding["spec"]["replicas"] = json!(8)).await;
    world.settle().await;
    assert_eq!(condition(&world.get(&key).unwrap(), "Scheduled").unwrap()["status"], "False");
    assert_eq!(world.placed(&key), "c1:2 c2:1 c3:4", "nothing moves");
    let refused = world.revision(&key);
    world.pass_seconds(400).await;
    assert_eq!(world.revision(&key), refused);
}

#[tokio::test]
async fn r150_r152_a_strategy_of_one_s_own_is_passed_through_and_left_to_its_scheduler() {
    let mut world = world().await;
    let placement = json!({"replicaScheduling": {
        "replicaSchedulingType": "Divided", "extendReplicaDivisionPreference": "ByMoonPhase",
        "extendClusterPreferences": {"extendStaticList": [
            {"targetCluster": {"clusterNames": ["c1"]}, "extendFields": {"phase": 3}}]},
    }});
    let mut foreign = binding("foreign", 2, placement.clone());
    foreign["spec"]["schedulerName"] = json!("moon");
    let (foreign, ours) = (world.given(foreign).await, world.given(binding("ours", 2, placement.clone())).await);
    world.settle().await;
    assert_eq!(world.get(&foreign).unwrap()["spec"]["placement"], placement);
    assert!(condition(&world.get(&foreign).unwrap(), "Scheduled").is_none(), "it is not ours");
    let told = world.get(&ours).unwrap();
    let told = condition(&told, "Scheduled").unwrap();
    assert_eq!(told["status"], "False");
    assert!(told["message"].as_str().unwrap().contains("ByMoonPhase"), "{told:?}");
}

/// C22: overlaps of entries that select by region depend on the known clusters.
#[tokio::test]
async fn c22_a_cluster_that_two_entries_select_has_the_first_and_somebody_is_told() {
    let mut world = world().await;
    let entries = [(json!({"clusterNames": ["c2"]}), 1), (regions(&["B"]), 4), (regions(&["A"]), 2)];
    let key = world.given(binding("nginx", 7, specified(&entries))).await;
    world.pass_seconds(2).await;
    assert_eq!(world.placed(&key), "c1:2 c2:1 c3:4");
    let warning = "cluster \"c2\" is in entries [0, 1] of staticSpecifyList: the first entry alone counts";
    for (kind, name) in [("ResourceBinding", "nginx-deployment"), ("Deployment", "nginx")] {
        let told = events_about(&world, kind);
        let expected = format!("Warning SpecifiedReplicasOverlap {name} x1: {warning}");
        assert!(told.contains(&expected), "{told:#?}");
    }
    scale(
        &mut world,
        &key,
        7,
        &[(json!({"clusterNames": ["c2"]}), 1), (json!({"clusterNames": ["c3"]}), 4), (regions(&["A"]), 2)],
    )
    .await;
    world.pass_seconds(2).await;
    assert_eq!(events_about(&world, "Deployment").iter().filter(|told| told.contains("Overlap")).count(), 1);
}
