//! KubeFleet placements from creation to deletion, through the registry and the KubeFleet workers.
//! The store is in memory, only the test advances the clock, and `agents` simulates the member
//! clusters.

use std::collections::BTreeMap;
use std::sync::Arc;

use ballast::actions::{MarkingLimits, RescheduleTasks};
use ballast::clock::{Clock, ManualClock};
use ballast::controllers::{self, FailoverOptions};
use ballast::events::Recorder;
use ballast::k8s::{GroupResource, Key, Revision, User};
use ballast::registry::{Action, Atomicity, Change, Client, Part, Registry};
use ballast::scheduler::FleetScheduler;
use ballast::store::{MemoryStore, Store};
use ballast::watch::{self, Limits};
use ballast::worker::{Runner, Work};
use serde_json::{Value, json};

const PLACEMENTS: GroupResource = GroupResource::new("clusterresourceplacements.placement.kubernetes-fleet.io");
const POLICIES: GroupResource = GroupResource::new("clusterschedulingpolicysnapshots.placement.kubernetes-fleet.io");
const RESOURCES: GroupResource = GroupResource::new("clusterresourcesnapshots.placement.kubernetes-fleet.io");
const BINDINGS: GroupResource = GroupResource::new("clusterresourcebindings.placement.kubernetes-fleet.io");
const REBALANCERS: GroupResource = GroupResource::new("workloadrebalancers.apps.karmada.io");
const CLUSTERS: GroupResource = GroupResource::new("memberclusters.cluster.kubernetes-fleet.io");

/// A world that is still busy after this many turns never settles.
const TURNS_MAX: usize = 2_000;

struct World {
    clock: Arc<ManualClock>,
    client: Client,
    runners: Vec<Runner>,
    store: Arc<MemoryStore>,
    _writer: watch::Task,
}

impl World {
    async fn new() -> World {
        let manual = ManualClock::at("2026-03-01T12:00:00Z".parse().unwrap());
        let clock: Arc<dyn Clock> = manual.clone();
        let store = Arc::new(MemoryStore::default());
        let (cache, writer, task) = watch::open(store.clone(), Arc::clone(&clock), Limits::default()).await.unwrap();
        let kinds = Arc::new(ballast::api::kinds());
        let registry = Arc::new(Registry::new(kinds, cache.clone(), writer, Arc::clone(&clock)));
        let client = registry.client(User::component("story"));
        let mut work: Vec<Box<dyn Work>> = controllers::fleet(&registry, &clock);
        // WorkloadRebalancer is a kind of Karmada. Its controller serves both families.
        let recorder = Recorder::new(Arc::clone(&clock));
        work.extend(controllers::karmada(
            &registry,
            &clock,
            &recorder,
            &ballast::engine::karmada::Profile::ours(),
            FailoverOptions::default(),
        ));
        work.push(Box::new(FleetScheduler::new(
            registry.client(User::component("scheduler")),
            Arc::clone(&clock),
            &Recorder::new(Arc::clone(&clock)),
        )));
        let runners = work.into_iter().map(|work| Runner::new(work, cache.clone(), Arc::clone(&clock))).collect();
        World { clock: manual, client, runners, store, _writer: task }
    }

    /// Creates a RescheduleTask.
    async fn task(&self, spec: Value) {
        let object = json!({"apiVersion": "task.karmada.io/v1alpha1", "kind": "RescheduleTask",
                            "metadata": {"name": "again"}, "spec": spec});
        let Value::Object(mut object) = object else { unreachable!() };
        let clock: Arc<dyn Clock> = self.clock.clone();
        let action =
            RescheduleTasks::new(self.client.clone(), clock.clone(), &Recorder::new(clock), MarkingLimits::default());
        action.create(&User::component("story"), &mut object, false).await.unwrap();
    }

    /// Runs the workers and the agents of the clusters until nothing changes.
    async fn settle(&mut self) {
        for _ in 0..TURNS_MAX {
            let mut busy = false;
            for runner in &mut self.runners {
                busy |= runner.turn().await;
            }
            if !busy && !self.agents().await {
                return;
            }
        }
        panic!("does not settle");
    }

    /// Reports the resources as applied and available on each cluster that has them.
    async fn agents(&self) -> bool {
        let mut busy = false;
        for (key, binding) in self.all(BINDINGS) {
            let generation = &binding["metadata"]["generation"];
            let is_done = condition(&binding, "Available").is_some_and(|c| c["observedGeneration"] == *generation);
            let is_there =
                binding["spec"]["state"] != "Scheduled" && binding["metadata"]["deletionTimestamp"].is_null();
            if !is_there || is_done {
                continue;
            }
            let now = self.clock.now().to_string();
            self.edit(&key, |binding| {
                for type_ in ["WorkSynchronized", "Applied", "Available"] {
                    let generation = binding["metadata"]["generation"].clone();
                    if binding["status"]["conditions"].is_null() {
                        binding["status"]["conditions"] = json!([]);
                    }
                    let conditions = binding["status"]["conditions"].as_array_mut().unwrap();
                    conditions.retain(|condition| condition["type"] != type_);
                    conditions.push(json!({"type": type_, "status": "True", "reason": type_, "message": "",
                                           "observedGeneration": generation, "lastTransitionTime": now}));
                }
            })
            .await;
            busy = true;
        }
        busy
    }

    async fn given(&self, resource: GroupResource, object: Value) -> Key {
        let status = object.get("status").cloned();
        let Value::Object(tree) = object else { panic!("an object") };
        let key = self.write(resource, Change::Create(tree)).await;
        if let Some(status) = status {
            self.edit(&key, |object| object["status"] = status.clone()).await;
        }
        key
    }

    async fn edit(&self, key: &Key, change: impl Fn(&mut Value)) {
        let mut object = self.get(key).unwrap_or_else(|| panic!("{key} is not there"));
        change(&mut object);
        let Value::Object(object) = object else { panic!("an object") };
        self.write(key.resource, Change::Update { part: Part::Whole, object }).await;
    }

    async fn delete(&self, key: &Key) {
        self.write(key.resource, Change::Delete { key: key.clone(), revision: None }).await;
    }

    async fn write(&self, resource: GroupResource, change: Change) -> Key {
        let outcomes = self.client.batch(vec![(resource, change)], Atomicity::Each).await.unwrap();
        outcomes.into_iter().next().unwrap().unwrap().key.clone()
    }

    fn get(&self, key: &Key) -> Option<Value> {
        self.client.view().get(key).map(|object| serde_json::from_slice(&object.text.content()).unwrap())
    }

    fn all(&self, resource: GroupResource) -> Vec<(Key, Value)> {
        let view = self.client.view();
        let read = |object: &Arc<ballast::k8s::Object>| {
            (object.key.clone(), serde_json::from_slice(&object.text.content()).unwrap())
        };
        view.list(resource, None).map(read).collect()
    }

    /// The bindings by cluster name, for example `a:Bound b:Bound`.
    fn placed(&self) -> String {
        let mut places: Vec<String> = self
            .all(BINDINGS)
            .into_iter()
            .map(|(_, binding)| {
                let text = |field: &str| binding["spec"][field].as_str().unwrap().to_owned();
                format!("{}:{}", text("targetCluster"), text("state"))
            })
            .collect();
        places.sort();
        places.join(" ")
    }

    fn versions(&self) -> BTreeMap<Key, Value> {
        let version = |object: Value| object["metadata"]["resourceVersion"].clone();
        self.all(BINDINGS).into_iter().map(|(key, binding)| (key, version(binding))).collect()
    }

    async fn cluster(&self, name: &str, region: &str, tier: &str) -> Key {
        let now = self.clock.now().to_string();
        let condition = |type_: &str| json!({"type": type_, "status": "True", "reason": type_, "message": "", "lastTransitionTime": now});
        let object = json!({
            "apiVersion": "cluster.kubernetes-fleet.io/v1beta1", "kind": "MemberCluster",
            "metadata": {"name": name, "labels": {"region": region, "tier": tier}},
            "spec": {"identity": {"kind": "User", "name": name}},
            "status": {"agentStatus": [{"type": "MemberAgent", "lastReceivedHeartbeat": now,
                                        "conditions": [condition("Joined"), condition("Healthy")]}]},
        });
        self.given(CLUSTERS, object).await
    }
}

fn condition<'a>(object: &'a Value, type_: &str) -> Option<&'a Value> {
    object["status"]["conditions"].as_array()?.iter().find(|condition| condition["type"] == type_)
}

fn placement(policy: Value) -> Value {
    json!({
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterResourcePlacement",
        "metadata": {"name": "shop"},
        "spec": {
            "resourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": "shop"}],
            "policy": policy,
        },
    })
}

/// Creates a placement on two of four clusters that prefers the tier gold, with a maximum skew of
/// one between regions.
async fn two_of_four() -> (World, Key) {
    let mut world = World::new().await;
    for (name, region, tier) in
        [("a", "east", "gold"), ("b", "east", "gold"), ("c", "west", "tin"), ("d", "west", "tin")]
    {
        world.cluster(name, region, tier).await;
    }
    let gold = json!([{"weight": 20, "preference": {"labelSelector": {"matchLabels": {"tier": "gold"}}}}]);
    let policy = json!({
        "placementType": "PickN", "numberOfClusters": 2,
        "affinity": {"clusterAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": gold}},
        "topologySpreadConstraints": [{"topologyKey": "region"}],
    });
    let key = world.given(PLACEMENTS, placement(policy)).await;
    world.settle().await;
    assert_eq!(world.placed(), "b:Bound d:Bound");
    (world, key)
}

#[tokio::test]
async fn r167_a_placement_is_scheduled_rolled_out_and_reported() {
    let (world, key) = two_of_four().await;
    let placement = world.get(&key).unwrap();
    let lines: Vec<String> = placement["status"]["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| format!("{}={}", c["type"].as_str().unwrap(), c["status"].as_str().unwrap()))
        .collect();
    assert_eq!(
        lines,
        ["Scheduled", "RolloutStarted", "Overridden", "WorkSynchronized", "Applied", "Available"]
            .map(|type_| format!("ClusterResourcePlacement{type_}=True"))
    );
    let names: Vec<&Value> =
        placement["status"]["placementStatuses"].as_array().unwrap().iter().map(|s| &s["clusterName"]).collect();
    assert_eq!(names.len(), 2);
    let (binding, _) = world.all(BINDINGS).remove(0);
    assert!(binding.name.starts_with("shop-b-") && binding.name.len() == "shop-b-".len() + 8, "{}", binding.name);
}

#[tokio::test]
async fn r161_a_cycle_is_one_commit() {
    let (world, _) = two_of_four().await;
    let changes = world.store.changes(Revision::ZERO, usize::MAX).await.unwrap();
    let written: Vec<GroupResource> = changes.iter().map(|change| change.key.resource).collect();
    let first = written.iter().position(|resource| *resource == BINDINGS).unwrap();
    // The topology constraint takes two scheduling cycles. Their bindings and the status that
    // reports them are one batch.
    assert_eq!(written[first..first + 3], [BINDINGS, BINDINGS, POLICIES]);
    assert_eq!(condition(&world.all(POLICIES)[0].1, "Scheduled").unwrap()["status"], "True");
}

#[tokio::test]
async fn r176_a_larger_number_adds_clusters_and_touches_no_other() {
    let (mut world, key) = two_of_four().await;
    let before = world.versions();
    world.edit(&key, |placement| placement["spec"]["policy"]["numberOfClusters"] = json!(3)).await;
    world.settle().await;
    assert_eq!(world.placed(), "a:Bound b:Bound d:Bound");
    assert_eq!(world.all(POLICIES).len(), 1);
    let after = world.versions();
    assert!(before.iter().all(|(key, version)| after.get(key) == Some(version)));
}

#[tokio::test]
async fn r174_a_label_that_changes_moves_nothing() {
    let (mut world, _) = two_of_four().await;
    let before = world.versions();
    world.edit(&Key::cluster(CLUSTERS, "b"), |cluster| cluster["metadata"]["labels"]["tier"] = json!("tin")).await;
    world.edit(&Key::cluster(CLUSTERS, "c"), |cluster| cluster["metadata"]["labels"]["tier"] = json!("gold")).await;
    world.settle().await;
    assert_eq!(world.versions(), before);
}

#[tokio::test]
async fn r179_a_cluster_that_leaves_is_replaced() {
    let (mut world, _) = two_of_four().await;
    world.delete(&Key::cluster(CLUSTERS, "b")).await;
    world.settle().await;
    assert_eq!(world.placed(), "a:Bound d:Bound");
}

#[tokio::test]
async fn r175_another_policy_moves_things_by_the_rollout_strategy() {
    let (mut world, key) = two_of_four().await;
    world
        .edit(&key, |placement| {
            let policy = json!({"placementType": "PickN", "numberOfClusters": 2, "affinity": {"clusterAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": [
                    {"labelSelector": {"matchLabels": {"region": "west"}}}]}}}});
            placement["spec"]["policy"] = policy;
        })
        .await;
    world.settle().await;
    assert_eq!(world.placed(), "c:Bound d:Bound");
    assert_eq!(world.all(POLICIES).len(), 2);
    let available = condition(&world.get(&key).unwrap(), "ClusterResourcePlacementAvailable").cloned();
    assert_eq!(available.unwrap()["status"], "True");
}

#[tokio::test]
async fn r177_pick_all_gains_a_cluster_that_joins() {
    let mut world = World::new().await;
    world.cluster("a", "east", "gold").await;
    world.given(PLACEMENTS, placement(json!({"placementType": "PickAll"}))).await;
    world.settle().await;
    assert_eq!(world.placed(), "a:Bound");
    world.cluster("b", "east", "gold").await;
    world.settle().await;
    assert_eq!(world.placed(), "a:Bound b:Bound");
}

#[tokio::test]
async fn r179_a_cluster_goes_when_no_placement_counts_on_it() {
    let (mut world, _) = two_of_four().await;
    let (used, unused) = (Key::cluster(CLUSTERS, "b"), Key::cluster(CLUSTERS, "c"));
    let joined = condition(&world.get(&used).unwrap(), "Joined").unwrap()["status"].clone();
    assert_eq!(joined, "True");
    world.delete(&used).await;
    assert!(world.get(&used).is_some_and(|cluster| cluster["metadata"]["deletionTimestamp"].is_string()));
    world.settle().await;
    assert_eq!((world.get(&used), world.placed().as_str()), (None, "a:Bound d:Bound"));
    world.delete(&unused).await;
    world.settle().await;
    assert_eq!(world.get(&unused), None);
}

#[tokio::test]
async fn a_heartbeat_that_is_late_is_said_and_moves_nothing() {
    let (mut world, _) = two_of_four().await;
    let heard = |world: &World| {
        let cluster = world.get(&Key::cluster(CLUSTERS, "b")).unwrap();
        condition(&cluster, "HeartbeatReceived").unwrap()["status"].clone()
    };
    let before = world.versions();
    assert_eq!(heard(&world), "True");
    world.clock.advance_seconds(301);
    world.settle().await;
    assert_eq!((heard(&world), world.versions()), (json!("False"), before));
}

/// Changes the labels, so that two other clusters would be picked. Nothing has moved yet.
async fn left_behind() -> (World, Key) {
    let (mut world, key) = two_of_four().await;
    for (name, tier) in [("a", "gold"), ("b", "tin"), ("c", "gold"), ("d", "tin")] {
        let cluster = Key::cluster(CLUSTERS, name);
        world.edit(&cluster, |cluster| cluster["metadata"]["labels"]["tier"] = json!(tier)).await;
    }
    world.settle().await;
    assert_eq!(world.placed(), "b:Bound d:Bound", "IgnoreDuringExecution is the rule");
    (world, key)
}

fn rebalancer(name: &str, kind: &str, placement: &str) -> Value {
    let workload = json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": kind, "name": placement});
    json!({"apiVersion": "apps.karmada.io/v1alpha1", "kind": "WorkloadRebalancer", "metadata": {"name": name},
           "spec": {"workloads": [workload]}})
}

#[tokio::test]
async fn a_rebalancer_that_names_a_placement_has_it_decided_afresh() {
    let (mut world, key) = left_behind().await;
    let rebalancer = world.given(REBALANCERS, rebalancer("again", "ClusterResourcePlacement", "shop")).await;
    world.settle().await;
    assert_eq!(world.placed(), "a:Bound c:Bound");
    let status = &world.get(&rebalancer).unwrap()["status"];
    assert_eq!(status["observedWorkloads"][0]["result"], "Successful");
    assert!(status["finishTime"].is_string());
    assert_eq!(condition(&world.get(&key).unwrap(), "ClusterResourcePlacementScheduled").unwrap()["status"], "True");
    // A trigger counts once. Later changes of the labels are ignored again.
    world.edit(&Key::cluster(CLUSTERS, "a"), |cluster| cluster["metadata"]["labels"]["tier"] = json!("tin")).await;
    world.settle().await;
    assert_eq!(world.placed(), "a:Bound c:Bound");
}

#[tokio::test]
async fn a_task_that_names_a_placement_has_it_decided_afresh_each_time() {
    let (mut world, _) = left_behind().await;
    let spec = json!({"targetRefResource": [
        {"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterResourcePlacement", "name": "shop"}]});
    // Two triggers arrive within one second, before the first is served. Neither is lost, and each
    // has a distinct timestamp.
    world.task(spec.clone()).await;
    world.task(spec.clone()).await;
    world.settle().await;
    assert_eq!(world.placed(), "a:Bound c:Bound");
    world.edit(&Key::cluster(CLUSTERS, "b"), |cluster| cluster["metadata"]["labels"]["tier"] = json!("gold")).await;
    world.edit(&Key::cluster(CLUSTERS, "a"), |cluster| cluster["metadata"]["labels"]["tier"] = json!("tin")).await;
    world.task(spec).await;
    world.settle().await;
    assert_eq!(world.placed(), "b:Bound c:Bound");
}

#[tokio::test]
async fn a_trigger_moves_things_by_the_rollout_strategy() {
    let (mut world, key) = left_behind().await;
    world
        .edit(&key, |placement| {
            placement["spec"]["strategy"] = json!({"type": "RollingUpdate", "rollingUpdate": {
                "maxUnavailable": 0, "maxSurge": 1}});
        })
        .await;
    world.settle().await;
    world.given(REBALANCERS, rebalancer("again", "ClusterResourcePlacement", "shop")).await;
    // At every step two or three clusters have the resources.
    let mut seen = Vec::new();
    for _ in 0..TURNS_MAX {
        let mut busy = false;
        for index in 0..world.runners.len() {
            busy |= world.runners[index].turn().await;
            let bindings = world.all(BINDINGS);
            let ready = bindings.iter().filter(|(_, binding)| condition(binding, "Available").is_some()).count();
            let placed = bindings.iter().filter(|(_, binding)| binding["spec"]["state"] != "Scheduled").count();
            assert!(ready >= 2 && placed <= 3, "{}", world.placed());
            seen.push(world.placed());
        }
        if !busy && !world.agents().await {
            break;
        }
    }
    assert_eq!(world.placed(), "a:Bound c:Bound");
    assert!(seen.iter().any(|state| state.contains(":Unscheduled")), "it went in steps");
}

#[tokio::test]
async fn a_placement_that_is_not_there_is_reported_and_one_of_a_strange_kind_too() {
    let (mut world, _) = two_of_four().await;
    for (name, kind, placement) in
        [("gone", "ClusterResourcePlacement", "no-such"), ("odd", "ClusterResourceOverride", "shop")]
    {
        let key = world.given(REBALANCERS, rebalancer(name, kind, placement)).await;
        world.settle().await;
        let observed = world.get(&key).unwrap()["status"]["observedWorkloads"][0].clone();
        assert_eq!((&observed["result"], &observed["reason"]), (&json!("Failed"), &json!("ReferencedBindingNotFound")));
    }
}

/// A second binding for a cluster was created by hand. The scheduler keeps one and reports it.
#[tokio::test]
async fn two_live_bindings_on_a_cluster_are_healed() {
    let (mut world, key) = two_of_four().await;
    let (_, mut twin) = world.all(BINDINGS).into_iter().find(|(key, _)| key.name.starts_with("shop-b-")).unwrap();
    twin["metadata"] = json!({"name": "shop-b-0000twin", "labels": twin["metadata"]["labels"],
                              "finalizers": twin["metadata"]["finalizers"]});
    twin.as_object_mut().unwrap().remove("status");
    world.given(BINDINGS, twin).await;
    world.edit(&key, |placement| placement["spec"]["policy"]["numberOfClusters"] = json!(3)).await;
    world.settle().await;
    assert_eq!(world.placed(), "a:Bound b:Bound d:Bound");
    let told =
        world.all(BINDINGS).into_iter().find_map(|(_, binding)| condition(&binding, "OnlyBindingOnCluster").cloned());
    assert_eq!(told.unwrap()["reason"], "SurplusBindingDeleted");
}

#[tokio::test]
async fn a_placement_that_is_deleted_mid_cycle_leaves_nothing_behind() {
    let mut world = World::new().await;
    for (name, region) in [("a", "east"), ("b", "west")] {
        world.cluster(name, region, "gold").await;
    }
    // The crash comes after each number of turns, so that it meets every half-finished step.
    for turns in 0..12 {
        let key = world.given(PLACEMENTS, placement(json!({"placementType": "PickAll"}))).await;
        for turn in 0..turns {
            let index = turn % world.runners.len();
            world.runners[index].turn().await;
        }
        world.delete(&key).await;
        world.settle().await;
        for resource in [PLACEMENTS, POLICIES, RESOURCES, BINDINGS] {
            assert_eq!(world.all(resource).len(), 0, "{resource} after {turns} turns");
        }
    }
}

/// The same story with a namespaced placement. All its objects are in its namespace.
#[tokio::test]
async fn a_namespaced_placement_is_kept_in_its_namespace() {
    const PLACEMENTS: GroupResource = GroupResource::new("resourceplacements.placement.kubernetes-fleet.io");
    const BINDINGS: GroupResource = GroupResource::new("resourcebindings.placement.kubernetes-fleet.io");
    let mut world = World::new().await;
    world.cluster("a", "east", "gold").await;
    world.cluster("b", "west", "gold").await;
    let mut object = placement(json!({"placementType": "PickN", "numberOfClusters": 1}));
    object["kind"] = json!("ResourcePlacement");
    object["metadata"]["namespace"] = json!("team-a");
    let key = world.given(PLACEMENTS, object.clone()).await;
    object["metadata"]["namespace"] = json!("team-b");
    world.given(PLACEMENTS, object).await;
    world.settle().await;
    for namespace in ["team-a", "team-b"] {
        let bindings = world.all(BINDINGS).into_iter().filter(|(key, _)| &*key.namespace == namespace);
        let states: Vec<Value> = bindings.map(|(_, binding)| binding["spec"]["state"].clone()).collect();
        assert_eq!(states, ["Bound"], "{namespace}");
    }
    assert_eq!(condition(&world.get(&key).unwrap(), "ResourcePlacementScheduled").unwrap()["status"], "True");
    assert_eq!(world.all(super::stories_fleet::BINDINGS).len(), 0);
    world.delete(&key).await;
    world.settle().await;
    let left: Vec<Key> = world.all(BINDINGS).into_iter().map(|(key, _)| key).collect();
    assert!(left.len() == 1 && &*left[0].namespace == "team-b", "{left:?}");
}

#[tokio::test]
async fn a_scale_to_zero_and_a_deletion_leave_nothing_behind() {
    let (mut world, key) = two_of_four().await;
    world.edit(&key, |placement| placement["spec"]["policy"]["numberOfClusters"] = json!(0)).await;
    world.settle().await;
    assert_eq!(world.placed(), "");

    let (mut world, key) = two_of_four().await;
    world.delete(&key).await;
    world.settle().await;
    for resource in [PLACEMENTS, POLICIES, RESOURCES, BINDINGS] {
        assert_eq!(world.all(resource).len(), 0, "{resource}");
    }
}
