//! Rebalances of every scope and size: one namespace, KubeFleet placements, thousands of bindings,
//! and rebalances made by a schedule (BD10, BD12).

use ballast::k8s::Key;
use serde_json::{Value, json};

use super::fleet::{aggregated, binding, by_room, cluster, cluster_binding, rebalancer};
use super::safe::{fled, mark, outcome, phase, rebalance, summary};
use super::safe_faults::told;
use super::world::{CREB, FLEET_BINDINGS, MEMBER, MOVES, World, condition};
use crate::support::objects;
use crate::support::size::sized;

/// More Moves than one transaction writes.
const MANY: usize = 2_100;

#[tokio::test]
async fn a_rebalance_of_a_namespace_moves_what_is_in_it_and_nothing_else() {
    let (mut world, keys) = fled(1).await;
    let mut elsewhere = binding("web-0", 4, by_room());
    elsewhere["metadata"]["namespace"] = "shop".into();
    elsewhere["spec"]["resource"]["namespace"] = "shop".into();
    let elsewhere = world.given(elsewhere).await;
    let role = world.given(cluster_binding("viewer", by_room())).await;
    world.settle().await;
    world.edit(&elsewhere, |binding| binding["spec"]["clusters"] = json!([{"name": "member2", "replicas": 4}])).await;
    world.settle().await;
    let before = world.placed(&role);
    let mut home = rebalance("home", json!({}));
    home["kind"] = "Rebalance".into();
    home["metadata"]["namespace"] = "default".into();
    let home = world.given(home).await;
    world.settle().await;
    assert_eq!(phase(&world, &home), "Completed");
    assert_eq!(summary(&world, &home), "settled 1");
    assert_eq!(world.placed(&keys[0]), "member1:2 member2:2");
    assert_eq!((world.placed(&elsewhere), world.placed(&role)), ("member2:4".to_owned(), before));
    assert_eq!(outcome(&world, "home", 0), "Settled -");
    let mut undo = rebalance("back", json!({"undo": {"name": "home"}}));
    undo["kind"] = "Rebalance".into();
    undo["metadata"]["namespace"] = "default".into();
    let undo = world.given(undo).await;
    world.settle().await;
    assert_eq!(summary(&world, &undo), "settled 1");
    assert_eq!(world.placed(&keys[0]), "member2:4");
}

/// Creates `count` workloads of one replica on member2 that may only run on member1.
async fn apart(count: usize) -> (World, Vec<Key>) {
    let mut world = World::new().await;
    world.given(cluster("member1")).await;
    world.given(cluster("member2")).await;
    let apart = |index: usize| {
        let mut binding = binding(&format!("web-{index}"), 1, aggregated());
        binding["spec"]["placement"]["clusterAffinity"] = json!({"clusterNames": ["member1"]});
        binding["spec"]["clusters"] = json!([{"name": "member2", "replicas": 1}]);
        binding
    };
    let mut small = cluster("member1");
    small["status"]["resourceSummary"]["allocatable"]["pods"] = "100000".into();
    world
        .edit(&Key::cluster(super::world::CLUSTER, "member1"), |object| object["status"] = small["status"].clone())
        .await;
    let keys = world.stored((0..count).map(apart)).await;
    (world, keys)
}

#[tokio::test]
async fn a_plan_of_several_transactions_is_whole_also_after_a_kill_between_two() {
    let (mut world, _) = apart(MANY).await;
    let home = world.given(rebalance("home", json!({"approval": "Required"}))).await;
    world.fail_after(1);
    while world.turn_of("rebalance").await {}
    assert_eq!(phase(&world, &home), "Planning");
    let begun = world.client().view().count(MOVES, None);
    assert!(begun > 0 && begun < MANY, "{begun}");
    world.crash().await;
    while world.turn_of("rebalance").await {}
    assert_eq!(phase(&world, &home), "Planned");
    assert_eq!(summary(&world, &home), format!("pending {MANY}"));
    assert_eq!(world.client().view().count(MOVES, None), MANY);
    // The rebalance is deleted while no server runs.
    world.delete(&home).await;
    world.crash().await;
    while world.turn_of("rebalance").await {}
    assert_eq!(world.client().view().count(MOVES, None), 0, "what lost its rebalance is collected");
}

#[tokio::test]
async fn s4_12_more_than_a_hundred_thousand_bindings_are_refused_with_their_number() {
    let mut world = World::new().await;
    let small =
        |index: usize| objects::binding_in("default", &format!("w{index}-deployment"), &format!("w{index}"), json!({}));
    world.stored((0..100_001).map(small)).await;
    let all = world.given(rebalance("all", json!({}))).await;
    while world.turn_of("rebalance").await {}
    assert_eq!(phase(&world, &all), "Aborted");
    let planned = condition(&world.get(&all).unwrap(), "Planned").unwrap().clone();
    assert_eq!((&planned["status"], &planned["reason"]), (&json!("False"), &json!("TooMany")));
    assert_eq!(planned["message"], "100001 workloads selected, at most 100000 may be");
    let goal = json!({"goal": "Balance"});
    let review = json!({"apiVersion": "ballast.dev/v1alpha1", "kind": "PlacementReview", "metadata": {},
        "spec": {"select": [{}], "objective": goal}});
    let refused = super::safe_reviews::post(&world, review, false).await.0.unwrap_err();
    assert_eq!(refused.details.unwrap().causes[0].field, "spec.select", "for an objective, too");
    let even = world.given(rebalance("even", json!({"objective": goal}))).await;
    while world.turn_of("rebalance").await {}
    assert_eq!(condition(&world.get(&even).unwrap(), "Planned").unwrap()["reason"], "TooMany");
    assert_eq!(world.client().view().count(MOVES, None), 0);
    if !sized(false, true) {
        return;
    }
    // With one fewer, the plan is possible.
    let most = world.given(rebalance("most", json!({"exclude": [{"name": "w7"}]}))).await;
    while world.turn_of("rebalance").await {}
    assert_eq!(world.get(&most).unwrap()["status"]["summary"]["selected"], 100_000);
}

#[tokio::test]
async fn a_change_in_the_middle_of_a_step_is_decided_anew_and_the_others_move_once() {
    let (mut world, keys) = fled(4).await;
    let home = world.given(rebalance("home", json!({"approval": "Required"}))).await;
    world.settle().await;
    world.edit(&home, |object| object["spec"]["approved"] = true.into()).await;
    let other = world.given(cluster("member9")).await;
    let grow = |binding: &mut Value| binding["spec"]["replicas"] = 8.into();
    world.race(&keys[1], grow, &other, "rebalance").await;
    world.settle().await;
    assert_eq!(phase(&world, &home), "Completed");
    for (index, key) in keys.iter().enumerate() {
        let expected = if index == 1 { "member1:4 member2:4" } else { "member1:2 member2:2" };
        assert_eq!(world.placed(key), expected);
        assert_eq!(mark(&world, key), None);
    }
}

#[tokio::test]
async fn a_step_that_loses_a_race_is_made_again_half_as_large() {
    // More than half of a step, and less than a whole one.
    const COUNT: usize = 560;
    let (mut world, keys) = apart(COUNT).await;
    let home = world.given(rebalance("home", json!({"approval": "Required"}))).await;
    while world.turn_of("rebalance").await {}
    world.edit(&home, |object| object["spec"]["approved"] = true.into()).await;
    let other = world.given(cluster("member9")).await;
    let start = world.client().view().revision;
    world.race(&keys[1], |binding| binding["metadata"]["labels"]["changed"] = "yes".into(), &other, "rebalance").await;
    while world.turn_of("rebalance").await {}
    // The rebalance is written last in each transaction.
    let (mut steps, mut moves) = (Vec::new(), 0);
    for change in world.written_since(start).await {
        moves += usize::from(change.key.resource == MOVES);
        if change.key == home {
            steps.push(std::mem::take(&mut moves));
        }
    }
    assert_eq!(steps.into_iter().filter(|moves| *moves > 0).collect::<Vec<_>>(), [500, 60]);
    assert_eq!(summary(&world, &home), format!("settled {COUNT}"));
}

#[tokio::test]
async fn what_a_schedule_makes_is_carried_out_and_bears_its_approval() {
    let (mut world, keys) = fled(1).await;
    world
        .given(json!({
            "apiVersion": "ballast.dev/v1alpha1", "kind": "RebalanceSchedule",
            "metadata": {"name": "nightly", "annotations": {"ballast.dev/approved-by": "jane",
                "ballast.dev/created-by": "otto", "ballast.dev/changed-by": "[\"otto\",\"anna\"]"}},
            "spec": {"schedule": "* * * * *", "concurrencyPolicy": "Forbid", "template": {
                "metadata": {"annotations": {"ballast.dev/approved-by": "mallory", "ballast.dev/created-by": "mallory",
                    "ballast.dev/recovered": "member9", "team": "shop"}, "labels": {"ballast.dev/undoes": "other"}},
                "spec": {"select": [{"drifted": true}], "approval": "Required", "approved": true}}},
        }))
        .await;
    world.settle().await;
    assert_eq!(world.placed(&keys[0]), "member2:4");
    world.pass_seconds(62).await;
    assert_eq!(world.placed(&keys[0]), "member1:2 member2:2");
    let view = world.client().view();
    let made: Vec<Value> = view.list(CREB, None).map(|object| world.get(&object.key).unwrap()).collect();
    assert_eq!(made.len(), 1);
    assert_eq!(made[0]["status"]["phase"], "Completed");
    let annotations = &made[0]["metadata"]["annotations"];
    assert_eq!(annotations["ballast.dev/approved-by"], "jane");
    // The last writer of the schedule counts as the creator; the template cannot forge this.
    assert_eq!(annotations["ballast.dev/created-by"], "anna");
    assert_eq!(annotations["ballast.dev/changed-by"], r#"["otto","anna"]"#);
    assert_eq!((&annotations["ballast.dev/recovered"], &annotations["team"]), (&json!(null), &json!("shop")));
    assert_eq!(made[0]["metadata"]["labels"], json!({"ballast.dev/schedule": "nightly"}));
    assert!(told(&world, "ClusterRebalance").iter().any(|told| told == "Approved approved by jane"));
    // A minute later nothing has drifted any more.
    world.pass_seconds(60).await;
    assert_eq!(world.client().view().count(CREB, None), 2);
    assert_eq!(world.placed(&keys[0]), "member1:2 member2:2");
}

async fn member(world: &World, name: &str, tier: &str) -> Key {
    let now = world.now().to_string();
    let condition =
        |kind: &str| json!({"type": kind, "status": "True", "reason": kind, "message": "", "lastTransitionTime": now});
    let member = json!({
        "apiVersion": "cluster.kubernetes-fleet.io/v1beta1", "kind": "MemberCluster",
        "metadata": {"name": name, "labels": {"tier": tier}},
        "spec": {"identity": {"kind": "User", "name": name}},
        "status": {"agentStatus": [{"type": "MemberAgent", "lastReceivedHeartbeat": now,
                                    "conditions": [condition("Joined"), condition("Healthy")]}]},
    });
    world.given(member).await
}

/// Reports bound clusters as available, as the agents do.
async fn agents(world: &mut World) {
    for _ in 0..5 {
        let keys: Vec<Key> = world.client().view().list(FLEET_BINDINGS, None).map(|it| it.key.clone()).collect();
        for key in keys {
            let now = world.now().to_string();
            let binding = world.get(&key).unwrap();
            if binding["spec"]["state"] != "Bound" || !binding["metadata"]["deletionTimestamp"].is_null() {
                continue;
            }
            let generation = binding["metadata"]["generation"].clone();
            let all = ["WorkSynchronized", "Applied", "Available"].map(|kind| {
                json!({"type": kind, "status": "True", "reason": kind, "message": "",
                       "observedGeneration": generation, "lastTransitionTime": now})
            });
            world.edit(&key, |binding| binding["status"]["conditions"] = json!(all)).await;
        }
        world.settle().await;
    }
}

fn bound(world: &World) -> String {
    let view = world.client().view();
    let mut list: Vec<String> = view
        .list(FLEET_BINDINGS, None)
        .map(|object| world.get(&object.key).unwrap()["spec"]["targetCluster"].as_str().unwrap().to_owned())
        .collect();
    list.sort();
    list.join(" ")
}

fn crp(name: &str, policy: Value) -> Value {
    json!({
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterResourcePlacement",
        "metadata": {"name": name},
        "spec": {
            "resourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": name}],
            "policy": policy,
        },
    })
}

fn cluster_move(world: &World, name: &str) -> Value {
    let key = Key::cluster(ballast::k8s::GroupResource::new("clustermoves.ballast.dev"), name);
    world.get(&key).unwrap_or_else(|| panic!("{key} is not there"))
}

#[tokio::test]
async fn s4_10_a_placement_moves_by_its_own_rollout_and_one_that_is_not_scheduled_has_not_settled() {
    let mut world = World::new().await;
    let a = member(&world, "a", "gold").await;
    let b = member(&world, "b", "tin").await;
    let gold = json!({"placementType": "PickN", "numberOfClusters": 1, "affinity": {"clusterAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 50, "preference": {"labelSelector": {"matchLabels": {"tier": "gold"}}}}]}}});
    let mut shop = crp("shop", gold);
    // New resources are available before old ones are removed.
    shop["spec"]["strategy"] = json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}});
    world.given(shop).await;
    world.given(crp("wide", json!({"placementType": "PickN", "numberOfClusters": 3}))).await;
    world.settle().await;
    agents(&mut world).await;
    assert_eq!(bound(&world), "a a b");
    // The tiers change, which moves nothing.
    for (key, tier) in [(&a, "tin"), (&b, "gold")] {
        assert_eq!(key.resource, MEMBER);
        world.edit(key, |member| member["metadata"]["labels"]["tier"] = tier.into()).await;
    }
    world.settle().await;
    assert_eq!(bound(&world), "a a b");
    let select = json!([{"kind": "ClusterResourcePlacement"}]);
    let spec = json!({"select": select, "rollout": {"settle": {"timeoutSeconds": 120}}});
    let home = world.given(rebalance("home", spec)).await;
    world.settle().await;
    assert_eq!((bound(&world), summary(&world, &home)), ("a a b b".to_owned(), "moving 2".to_owned()));
    let shop = cluster_move(&world, "home.shop");
    assert!(shop["status"]["startedAt"].is_string(), "{shop}");
    agents(&mut world).await;
    world.clock.advance_seconds(80);
    world.settle().await;
    agents(&mut world).await;
    world.pass_seconds(5).await;
    assert_eq!(bound(&world), "a b b");
    assert_eq!(summary(&world, &home), "moving 1, settled 1");
    let shop = cluster_move(&world, "home.shop");
    assert_eq!((&shop["status"]["phase"], &shop["status"]["observed"]), (&json!("Settled"), &json!(true)));
    assert_eq!(shop["spec"]["to"], json!([{"name": "b", "replicas": 0}]), "now it can be said");
    world.clock.advance_seconds(120);
    world.settle().await;
    let wide = cluster_move(&world, "home.wide")["status"].clone();
    assert_eq!((&wide["phase"], &wide["reason"]), (&json!("Failed"), &json!("SettleTimeout")));
    assert!(wide["message"].as_str().unwrap().contains("the scheduler does not find all clusters"), "{wide}");
    assert_eq!(phase(&world, &home), "Completed");
    assert_eq!(summary(&world, &home), "settled 1, failed 1");
}

/// Creates a placement on one of the clusters a and b that prefers gold ones, bound to a.
async fn prefers_gold() -> (World, Key) {
    let mut world = World::new().await;
    for (name, tier) in [("a", "gold"), ("b", "tin")] {
        member(&world, name, tier).await;
    }
    let policy = json!({"placementType": "PickN", "numberOfClusters": 1, "affinity": {"clusterAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 50, "preference": {"labelSelector": {"matchLabels": {"tier": "gold"}}}}]}}});
    let shop = world.given(crp("shop", policy)).await;
    world.settle().await;
    agents(&mut world).await;
    (world, shop)
}

/// Makes one of the clusters a and b gold, and the other one tin.
async fn make_gold(world: &mut World, gold: &str) {
    for name in ["a", "b"] {
        let tier = if name == gold { "gold" } else { "tin" };
        world.edit(&Key::cluster(MEMBER, name), |member| member["metadata"]["labels"]["tier"] = tier.into()).await;
    }
    world.settle().await;
}

#[tokio::test]
async fn rm39_placements_leave_a_member_cluster_that_is_closed_when_they_are_triggered() {
    let (mut world, _) = prefers_gold().await;
    world.given(crp("other", json!({"placementType": "PickFixed", "clusterNames": ["b"]}))).await;
    world.settle().await;
    agents(&mut world).await;
    assert_eq!(bound(&world), "a b");
    let mut drain = rebalance("drain", json!({"drain": {"clusters": ["a"]}}));
    drain["spec"].as_object_mut().unwrap().remove("select");
    let status = super::safe_reviews::post(&world, drain, false).await.0.unwrap_err();
    assert_eq!((status.code, &*status.details.unwrap().causes[0].field), (422, "spec.drain.clusters[0]"));
    assert!(status.message.contains("is a MemberCluster"), "{}", status.message);
    // The taint that `ballast cordon` sets. It moves nothing.
    let taint = json!([{"key": "cordon-key", "value": "cordon-value", "effect": "NoSchedule"}]);
    world.edit(&Key::cluster(MEMBER, "a"), |member| member["spec"]["taints"] = taint.clone()).await;
    world.settle().await;
    assert_eq!(bound(&world), "a b");
    let select = json!([{"kind": "ClusterResourcePlacement", "placedOn": ["a"]}]);
    let owner = world.given(rebalance("leave", json!({"select": select}))).await;
    world.settle().await;
    agents(&mut world).await;
    world.clock.advance_seconds(80);
    world.settle().await;
    agents(&mut world).await;
    world.pass_seconds(5).await;
    assert_eq!((bound(&world), summary(&world, &owner)), ("b b".to_owned(), "settled 1".to_owned()));
}

#[tokio::test]
async fn s4_10_an_undo_of_a_placement_says_whether_it_is_back() {
    let (mut world, _) = prefers_gold().await;
    let moved = async |world: &mut World, name: &str, spec: Value| {
        let owner = world.given(rebalance(name, spec)).await;
        world.settle().await;
        agents(world).await;
        world.clock.advance_seconds(80);
        world.settle().await;
        agents(world).await;
        world.pass_seconds(5).await;
        assert_eq!(phase(world, &owner), "Completed");
        summary(world, &owner)
    };
    make_gold(&mut world, "b").await;
    let select = json!({"select": [{"kind": "ClusterResourcePlacement"}]});
    assert_eq!(moved(&mut world, "home", select).await, "settled 1");
    assert_eq!(bound(&world), "b");
    // The scheduler still prefers b, so the placement stays there, and the undo reports this.
    let undo = json!({"undo": {"name": "home"}});
    assert_eq!(moved(&mut world, "early", undo.clone()).await, "failed 1");
    assert_eq!(bound(&world), "b");
    let early = cluster_move(&world, "early.shop");
    assert_eq!(early["spec"]["to"], json!([{"name": "a", "replicas": 0}]));
    assert_eq!(early["status"]["reason"], "NoClusterFits");
    assert_eq!(early["status"]["message"], "its own scheduler places it on b, and not back on a");
    make_gold(&mut world, "a").await;
    assert_eq!(moved(&mut world, "late", undo.clone()).await, "settled 1");
    assert_eq!(bound(&world), "a");
    assert_eq!(moved(&mut world, "again", undo).await, "unchanged 1");
}

#[tokio::test]
async fn s4_10_a_placement_that_failed_counts_for_the_abort_also_after_a_restart() {
    let mut world = World::new().await;
    member(&world, "a", "gold").await;
    for name in ["w1", "w2", "w3"] {
        world.given(crp(name, json!({"placementType": "PickN", "numberOfClusters": 2}))).await;
    }
    world.settle().await;
    let rollout = json!({
        "maxConcurrent": 1, "order": "Name", "settle": {"timeoutSeconds": 60}, "abortOn": {"failed": 2},
    });
    let spec = json!({"select": [{"kind": "ClusterResourcePlacement"}], "rollout": rollout});
    let home = world.given(rebalance("home", spec)).await;
    world.settle().await;
    world.clock.advance_seconds(61);
    world.settle().await;
    assert_eq!(summary(&world, &home), "pending 1, moving 1, failed 1");
    world.crash().await;
    world.settle().await;
    world.clock.advance_seconds(61);
    world.settle().await;
    assert_eq!(phase(&world, &home), "Aborted");
    assert_eq!(summary(&world, &home), "unchanged 1, failed 2");
}

#[tokio::test]
async fn s4_11_a_placement_says_why_its_clusters_change() {
    let (mut world, shop) = prefers_gold().await;
    let causes = |world: &World| -> Vec<String> {
        let all = told(world, "ClusterResourcePlacement").into_iter();
        all.filter_map(|told| told.strip_prefix("ReplicasMoved ").map(str::to_owned)).collect()
    };
    world.pass_seconds(2).await;
    assert_eq!(causes(&world), [""; 0], "a first placement moves nothing");
    let mut expected = Vec::new();
    let mut check = async |world: &mut World, cause: &str| {
        agents(world).await;
        world.pass_seconds(2).await;
        expected.push(cause.to_owned());
        let mut seen = causes(world);
        expected.sort();
        seen.sort();
        assert_eq!(seen, expected);
    };
    make_gold(&mut world, "b").await;
    world.given(rebalance("home", json!({"select": [{"kind": "ClusterResourcePlacement"}]}))).await;
    world.settle().await;
    check(&mut world, "Clusters changed: leaves a, joins b, because of ClusterRebalance home.").await;
    make_gold(&mut world, "a").await;
    let workload = json!({
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterResourcePlacement", "name": "shop",
    });
    world.given(rebalancer("demo", vec![workload])).await;
    // The requester is known after a restart, too.
    while world.turn_of("rebalancer").await {}
    world.crash().await;
    world.settle().await;
    check(&mut world, "Clusters changed: joins a, leaves b, because of WorkloadRebalancer demo.").await;
    world.edit(&shop, |shop| shop["spec"]["policy"]["numberOfClusters"] = 2.into()).await;
    world.settle().await;
    check(&mut world, "Clusters changed: joins b, because 2 clusters are wanted, not 1.").await;
    world
        .edit(&shop, |shop| {
            let gold = json!([{"labelSelector": {"matchLabels": {"tier": "gold"}}}]);
            let affinity = json!({"requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": gold}});
            shop["spec"]["policy"]["affinity"] = json!({"clusterAffinity": affinity});
        })
        .await;
    world.settle().await;
    check(&mut world, "Clusters changed: leaves b, because its policy changed.").await;
    world.delete(&Key::cluster(MEMBER, "a")).await;
    world.settle().await;
    check(&mut world, "Clusters changed: leaves a, because a went away.").await;
}

#[tokio::test]
async fn s4_11_who_asks_for_placements_hears_what_came_of_them() {
    let mut world = World::new().await;
    for (name, tier) in [("a", "gold"), ("b", "tin")] {
        member(&world, name, tier).await;
    }
    let required = |tier: &str| {
        let terms = json!([{"labelSelector": {"matchLabels": {"tier": tier}}}]);
        let affinity = json!({"requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": terms}});
        json!({"placementType": "PickN", "numberOfClusters": 1, "affinity": {"clusterAffinity": affinity}})
    };
    for (name, tier) in [("moves", "gold"), ("stays", "tin")] {
        world.given(crp(name, required(tier))).await;
    }
    world.settle().await;
    agents(&mut world).await;
    world.edit(&Key::cluster(MEMBER, "a"), |member| member["metadata"]["labels"]["tier"] = "tin".into()).await;
    member(&world, "c", "gold").await;
    world.settle().await;
    assert_eq!(bound(&world), "a b", "nothing moves by itself");
    let workload = |name: &str| json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterResourcePlacement", "name": name});
    let answers = |world: &World, kind: &str| -> Vec<String> {
        let all = told(world, kind).into_iter();
        all.filter_map(|told| told.strip_prefix("RescheduleAnswered ").map(str::to_owned)).collect()
    };
    world.given(rebalancer("demo", vec![workload("moves"), workload("stays")])).await;
    world.settle().await;
    world.pass_seconds(2).await;
    assert_eq!(
        answers(&world, "WorkloadRebalancer"),
        ["2 answered: 1 moved with 1 cluster (moves), 1 stayed, 0 fit nowhere."]
    );
    // No cluster is gold any more. The server dies between the trigger and its pass.
    agents(&mut world).await;
    world.edit(&Key::cluster(MEMBER, "c"), |member| member["metadata"]["labels"]["tier"] = "tin".into()).await;
    world.settle().await;
    world.task(json!({"targetRefResource": [workload("moves")]})).await.unwrap();
    world.crash().await;
    world.settle().await;
    world.pass_seconds(2).await;
    assert_eq!(
        answers(&world, "RescheduleTask"),
        ["1 answered since a restart: 0 moved with 0 replicas, 0 stayed, 1 fit nowhere (moves)."]
    );
    // Served triggers remain served over a restart.
    world.crash().await;
    world.settle().await;
    world.pass_seconds(2).await;
    assert_eq!((answers(&world, "WorkloadRebalancer").len(), answers(&world, "RescheduleTask").len()), (1, 1));
}

#[tokio::test]
async fn a_binding_and_a_placement_of_one_name_both_move() {
    let mut world = World::new().await;
    world.given(cluster("member1")).await;
    world.given(cluster("member2")).await;
    member(&world, "a", "gold").await;
    // A workload of a kind without replicas, with replicas.
    let mut role = cluster_binding("viewer", by_room());
    role["spec"]["replicas"] = 4.into();
    role["spec"]["replicaRequirements"] = json!({"resourceRequest": {"cpu": "100m"}});
    let role = world.given(role).await;
    world.given(crp("viewer-clusterrole", json!({"placementType": "PickAll"}))).await;
    world.settle().await;
    world.edit(&role, |binding| binding["spec"]["clusters"] = json!([{"name": "member2", "replicas": 4}])).await;
    world.settle().await;
    assert_eq!(world.placed(&role), "member2:4");
    let select = json!([{"kind": "ClusterRole"}, {"kind": "ClusterResourcePlacement"}]);
    let home = world.given(rebalance("home", json!({"select": select}))).await;
    world.settle().await;
    agents(&mut world).await;
    world.pass_seconds(2).await;
    assert_eq!(phase(&world, &home), "Completed", "{}", summary(&world, &home));
    assert_eq!(summary(&world, &home), "settled 2");
    assert_eq!(world.placed(&role), "member1:2 member2:2");
}
