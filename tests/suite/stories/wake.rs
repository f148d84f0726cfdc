//! A change of a cluster wakes the bindings that it can affect, and no others.

use ballast::engine::karmada::Profile;
use ballast::k8s::Key;
use serde_json::{Value, json};

use super::fleet::{aggregated, binding, by_room, cluster, primary_and_backup, small_cluster};
use super::world::{CLUSTER, World, condition};

#[tokio::test]
async fn a_binding_that_waits_for_one_cluster_is_not_tried_for_another() {
    let mut world = World::new().await;
    let mut placement = by_room();
    placement["clusterAffinity"] = json!({"clusterNames": ["member1"]});
    let key = world.given(binding("nginx", 2, placement)).await;
    world.settle().await;
    assert_eq!(condition(&world.get(&key).unwrap(), "Scheduled").unwrap()["reason"], "NoClusterFit");
    let failed = world.revision(&key);
    world.given(cluster("member2")).await;
    world.pass_seconds(30).await;
    assert_eq!(world.revision(&key), failed, "member2 is nothing it could use: it is not even decided");
    world.given(cluster("member1")).await;
    world.pass_seconds(2).await;
    assert_eq!(world.placed(&key), "member1:2");
}

#[tokio::test]
async fn what_is_not_divided_follows_the_labels_of_clusters() {
    let mut world = World::new().await;
    let labelled = |name: &str, tier: &str| {
        let mut cluster = cluster(name);
        cluster["metadata"]["labels"] = json!({"tier": tier});
        cluster
    };
    let one = world.given(labelled("member1", "gold")).await;
    let two = world.given(labelled("member2", "iron")).await;
    let placement = json!({"clusterAffinity": {"labelSelector": {"matchLabels": {"tier": "gold"}}}});
    let key = world.given(binding("nginx", 2, placement)).await;
    world.settle().await;
    assert_eq!(world.placed(&key), "member1:2");
    world.edit(&two, |cluster| cluster["metadata"]["labels"]["tier"] = json!("gold")).await;
    world.settle().await;
    assert_eq!(world.placed(&key), "member1:2 member2:2");
    world.edit(&one, |cluster| cluster["metadata"]["labels"]["tier"] = json!("iron")).await;
    world.settle().await;
    assert_eq!(world.placed(&key), "member2:2");
}

#[tokio::test]
async fn a_workload_that_shuns_another_is_placed_when_the_other_is_gone() {
    // With reservations, capacity that the other binding releases wakes it, too.
    for reserves in [true, false] {
        let mut world = World::with(Profile { reserves, ..Profile::ours() }).await;
        world.given(cluster("member1")).await;
        let shunning = |name: &str| {
            let mut binding = binding(name, 1, by_room());
            binding["spec"]["workloadAffinityGroups"] = json!({"antiAffinityGroup": "g"});
            binding
        };
        let first = world.given(shunning("first")).await;
        world.settle().await;
        let second = world.given(shunning("second")).await;
        world.settle().await;
        assert_eq!((world.placed(&first), world.placed(&second)), ("member1:1".into(), String::new()));
        world.delete(&first).await;
        world.pass_seconds(2).await;
        assert_eq!(world.placed(&second), "member1:1", "room is reserved: {reserves}");
    }
}

/// A fixed sequence of random numbers.
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }
}

fn placements() -> Vec<Value> {
    let region = |name: &str| json!({"key": "region", "operator": "In", "values": [name]});
    let mut in_region = by_room();
    in_region["clusterAffinity"] = json!({"fieldSelector": {"matchExpressions": [region("north")]}});
    let mut two_clusters = aggregated();
    two_clusters["spreadConstraints"] = json!([{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 2}]);
    let mut weighted = json!({"clusterTolerations": [{"operator": "Exists"}]});
    weighted["replicaScheduling"] =
        json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted"});
    vec![
        by_room(),
        in_region,
        two_clusters,
        weighted,
        aggregated(),
        primary_and_backup(),
        json!({}),
        json!({"clusterAffinity": {"labelSelector": {"matchLabels": {"tier": "gold"}}}}),
        json!({"clusterAffinity": {"exclude": ["member2"]}}),
    ]
}

/// Makes a random change of one of five clusters: creates or deletes it, or changes its label,
/// region, taint or capacity.
async fn change_a_cluster(world: &mut World, chance: &mut Chance) {
    let name = chance.pick(&["member1", "member2", "member3", "member4", "member5"]);
    let key = Key::cluster(CLUSTER, name);
    if world.get(&key).is_none() {
        world.given(small_cluster(name, 20)).await;
        return;
    }
    let what = chance.below(8);
    if what == 0 {
        return world.delete(&key).await;
    }
    let (tier, region) = (chance.pick(&["gold", "iron"]), chance.pick(&["north", "south"]));
    let (taints, pods) = (chance.pick(&[0, 0, 1]), chance.pick(&["0", "4", "20"]));
    world
        .edit(&key, |cluster| match what {
            1 | 2 => cluster["metadata"]["labels"] = json!({"tier": tier}),
            3 | 4 => cluster["spec"]["region"] = json!(region),
            5 => cluster["spec"]["taints"] = json!(vec![json!({"key": "k", "effect": "NoSchedule"}); taints]),
            _ => cluster["status"]["resourceSummary"]["allocatable"]["pods"] = json!(pods),
        })
        .await;
}

/// A restart decides every binding again. No result may differ from the one before.
#[tokio::test]
async fn whom_a_change_of_the_fleet_leaves_asleep_would_be_decided_as_before() {
    for seed in 0..4 {
        let mut chance = Chance(seed);
        let mut world = World::new().await;
        let mut keys = Vec::new();
        for (number, placement) in placements().into_iter().enumerate() {
            keys.push(world.given(binding(&format!("app{number}"), 3, placement)).await);
        }
        for step in 0..10 {
            change_a_cluster(&mut world, &mut chance).await;
            // Longer than any backoff.
            world.pass_seconds(12).await;
            let before: Vec<Value> = keys.iter().map(|key| world.get(key).unwrap()["spec"].clone()).collect();
            world.crash().await;
            world.pass_seconds(2).await;
            for (key, before) in keys.iter().zip(before) {
                assert_eq!(world.get(key).unwrap()["spec"], before, "seed {seed}, step {step}: {key}");
            }
        }
    }
}
