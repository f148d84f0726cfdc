//! Ballast as the API server of Karmada: Karmada's controllers write the same objects (BK3).
//!
//! `Karmada` simulates the detector and the cluster, taint manager, graceful eviction and binding
//! status controllers, with their upstream defaults. Where one side decides on information that the
//! other lacks, the two differ; with all controllers enabled on both sides, they would revert each
//! other's writes forever.

use ballast::k8s::Key;
use ballast::node::config::ServeArgs;
use serde_json::{Value, json};

use super::fleet::{binding, by_room, cluster, deployment, rebalancer};
use super::world::{CLUSTER, RB, World};

const NOT_READY: &str = "cluster.karmada.io/not-ready";
const FINALIZER: &str = "karmada.io/cluster-controller";
/// An upper bound on the rounds until both sides agree.
const ROUNDS_MAX: usize = 30;

/// Karmada's controllers, as far as they write these objects. All templates use the policy given
/// here: Karmada sees the labels of templates, Ballast does not.
struct Karmada {
    policy: Key,
}

impl Karmada {
    /// Runs one pass over all objects. Returns the number of writes.
    async fn act(&self, world: &World) -> usize {
        let mut writes = 0;
        for key in keys(world, CLUSTER) {
            writes += change(world, &key, keep_cluster).await;
        }
        let policy = world.get(&self.policy).unwrap();
        let hostile = hostile(world);
        for key in keys(world, RB) {
            writes += change(world, &key, |binding| claim(binding, &policy)).await;
            writes += change(world, &key, |binding| evict(binding, &hostile)).await;
            writes += change(world, &key, report).await;
            writes += change(world, &key, end_evictions).await;
        }
        writes
    }
}

fn keys(world: &World, resource: ballast::k8s::GroupResource) -> Vec<Key> {
    world.client().view().list(resource, None).map(|object| object.key.clone()).collect()
}

/// Writes an object if the change modifies it.
async fn change(world: &World, key: &Key, change: impl Fn(&mut Value)) -> usize {
    let before = world.get(key).unwrap();
    let mut after = before.clone();
    change(&mut after);
    if after == before {
        return 0;
    }
    world.edit(key, |object| *object = after.clone()).await;
    1
}

/// The cluster controller: sets its finalizer, and a taint that keeps workloads away from a cluster
/// that is not ready. By default it evicts nothing.
fn keep_cluster(cluster: &mut Value) {
    let conditions = cluster["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let is_unready = conditions.iter().any(|it| it["type"] == "Ready" && it["status"] == "False");
    let mut taints = cluster["spec"]["taints"].as_array().cloned().unwrap_or_default();
    taints.retain(|taint| taint["key"] != NOT_READY || (is_unready && taint["effect"] == "NoSchedule"));
    if is_unready && taints.iter().all(|taint| taint["key"] != NOT_READY) {
        taints.push(json!({"key": NOT_READY, "effect": "NoSchedule"}));
    }
    match taints.is_empty() {
        true => drop(cluster["spec"].as_object_mut().unwrap().remove("taints")),
        false => cluster["spec"]["taints"] = json!(taints),
    }
    cluster["metadata"]["finalizers"] = json!([FINALIZER]);
}

/// Returns the clusters with NoExecute taints.
fn hostile(world: &World) -> Vec<String> {
    let clusters = keys(world, CLUSTER).into_iter().map(|key| (key.name.to_string(), world.get(&key).unwrap()));
    let evicts = |cluster: &Value| {
        let taints = cluster["spec"]["taints"].as_array().cloned().unwrap_or_default();
        taints.iter().any(|taint| taint["effect"] == "NoExecute")
    };
    clusters.filter(|(_, cluster)| evicts(cluster)).map(|(name, _)| name).collect()
}

/// The detector: copies name and placement of the policy to the binding of a template.
fn claim(binding: &mut Value, policy: &Value) {
    let metadata = &policy["metadata"];
    let prefix = "propagationpolicy.karmada.io";
    binding["metadata"]["labels"][format!("{prefix}/permanent-id")] =
        metadata["labels"][format!("{prefix}/permanent-id")].clone();
    for name in ["name", "namespace"] {
        binding["metadata"]["annotations"][format!("{prefix}/{name}")] = metadata[name].clone();
    }
    binding["spec"]["placement"] = policy["spec"]["placement"].clone();
}

/// The taint manager: evicts a binding from clusters with a NoExecute taint.
fn evict(binding: &mut Value, hostile: &[String]) {
    let clusters = binding["spec"]["clusters"].as_array().cloned().unwrap_or_default();
    let is_left = |target: &Value| hostile.iter().any(|name| target["name"] == **name);
    let (left, kept): (Vec<Value>, Vec<Value>) = clusters.into_iter().partition(is_left);
    if left.is_empty() {
        return;
    }
    let task = |target: Value| {
        json!({"fromCluster": target["name"], "replicas": target["replicas"], "purgeMode": "Gracefully",
            "reason": "TaintUntolerated", "producer": "TaintManager", "creationTimestamp": "2024-04-17T15:00:00Z"})
    };
    let mut tasks = binding["spec"]["gracefulEvictionTasks"].as_array().cloned().unwrap_or_default();
    tasks.extend(left.into_iter().map(task));
    binding["spec"]["gracefulEvictionTasks"] = json!(tasks);
    binding["spec"]["clusters"] = json!(kept);
}

/// The binding status controller: reports everything as applied and healthy at once.
fn report(binding: &mut Value) {
    let clusters = binding["spec"]["clusters"].as_array().cloned().unwrap_or_default();
    let healthy = |target: &Value| json!({"clusterName": target["name"], "applied": true, "health": "Healthy"});
    let reports: Vec<Value> = clusters.iter().map(healthy).collect();
    if !reports.is_empty() {
        binding["status"]["aggregatedStatus"] = json!(reports);
    }
}

/// The graceful eviction controller: ends an eviction once every replica runs elsewhere.
fn end_evictions(binding: &mut Value) {
    let clusters = binding["spec"]["clusters"].as_array().cloned().unwrap_or_default();
    let placed: i64 = clusters.iter().filter_map(|target| target["replicas"].as_i64()).sum();
    let is_observed = binding["status"]["schedulerObservedGeneration"] == binding["metadata"]["generation"];
    if is_observed && binding["spec"]["replicas"].as_i64() == Some(placed) {
        binding["spec"].as_object_mut().unwrap().remove("gracefulEvictionTasks");
    }
}

/// Runs both sides until neither writes. Returns whether they converge.
async fn come_to_rest(world: &mut World, karmada: &Karmada) -> bool {
    for _ in 0..ROUNDS_MAX {
        world.settle().await;
        if karmada.act(world).await == 0 {
            return true;
        }
    }
    false
}

/// Returns the writes of 15 seconds without user changes. Events are excluded: they are recorded
/// late, and no controller reads them.
async fn writes_at_rest(world: &mut World, karmada: &Karmada) -> Vec<String> {
    let before = world.client().view().revision;
    for _ in 0..15 {
        world.clock.advance_seconds(1);
        world.settle().await;
        karmada.act(world).await;
    }
    let written = world.written_since(before).await;
    written.iter().map(|change| change.key.to_string()).filter(|key| !key.starts_with("events")).collect()
}

/// Creates two clusters, one of them unready for longer than Ballast's timeout, and a policy that
/// selects by a label of the template.
async fn given(args: ServeArgs) -> (World, Karmada, Key) {
    let mut world = World::with_flags(args).await;
    world.given(cluster("member1")).await;
    world.given(cluster("member2")).await;
    let policy = json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "resourceSelectors": [
                {"apiVersion": "apps/v1", "kind": "Deployment", "labelSelector": {"matchLabels": {"app": "web"}}}],
            "placement": by_room(),
        },
    });
    let policy = world.given(policy).await;
    let mut object = binding("nginx", 4, by_room());
    object["metadata"]["labels"]["team"] = json!("blue");
    let key = world.given(object).await;
    let karmada = Karmada { policy };
    assert!(come_to_rest(&mut world, &karmada).await);
    assert_eq!(world.placed(&key), "member1:2 member2:2");
    let member1 = Key::cluster(CLUSTER, "member1");
    let unready = json!([{"type": "Ready", "status": "False", "reason": "Said", "message": "",
        "lastTransitionTime": world.now().to_string()}]);
    world.edit(&member1, |cluster| cluster["status"]["conditions"] = unready.clone()).await;
    world.clock.advance_seconds(600);
    (world, karmada, key)
}

#[tokio::test]
async fn bk3_beneath_karmada_the_two_sides_never_undo_each_other_s_writes() {
    let mut args = ServeArgs::default();
    args.controllers.beneath_karmada = true;
    let (mut world, karmada, key) = given(args).await;
    assert!(come_to_rest(&mut world, &karmada).await, "the cluster that is not ready");
    assert_eq!(writes_at_rest(&mut world, &karmada).await, [""; 0]);
    assert_eq!(world.placed(&key), "member1:2 member2:2", "Karmada evicts from no cluster by itself");
    // Karmada's policy and taint, with Ballast's scheduler and rebalancer.
    let only = json!({"clusterNames": ["member2"]});
    world.edit(&karmada.policy, |policy| policy["spec"]["placement"]["clusterAffinity"] = only.clone()).await;
    assert!(come_to_rest(&mut world, &karmada).await, "another placement");
    assert_eq!(world.placed(&key), "member2:4");
    let both = json!({"clusterNames": ["member1", "member2"]});
    world.edit(&karmada.policy, |policy| policy["spec"]["placement"]["clusterAffinity"] = both.clone()).await;
    let member2 = Key::cluster(CLUSTER, "member2");
    world
        .edit(&Key::cluster(CLUSTER, "member1"), |cluster| cluster["status"]["conditions"][0]["status"] = json!("True"))
        .await;
    assert!(come_to_rest(&mut world, &karmada).await, "the cluster is ready again");
    world.edit(&member2, |cluster| cluster["spec"]["taints"] = json!([{"key": "down", "effect": "NoExecute"}])).await;
    assert!(come_to_rest(&mut world, &karmada).await, "an eviction");
    assert_eq!(world.placed(&key), "member1:4");
    world.edit(&member2, |cluster| drop(cluster["spec"].as_object_mut().unwrap().remove("taints"))).await;
    world.given(rebalancer("home", vec![deployment("nginx")])).await;
    assert!(come_to_rest(&mut world, &karmada).await, "a rebalance");
    assert_eq!(world.placed(&key), "member1:2 member2:2");
    assert_eq!(writes_at_rest(&mut world, &karmada).await, [""; 0]);
}

/// Proves that the preset is necessary.
#[tokio::test]
async fn bk3_with_all_controllers_on_both_sides_they_never_rest() {
    let (mut world, karmada, _) = given(ServeArgs::default()).await;
    assert!(!come_to_rest(&mut world, &karmada).await);
    assert!(writes_at_rest(&mut world, &karmada).await.len() >= 15);
}

/// Karmada's detector ignores a change of these fields and writes no binding for it.
#[tokio::test]
async fn d54_numbers_that_only_ballast_knows_reach_the_bindings_of_a_policy_beneath_karmada() {
    let mut args = ServeArgs::default();
    args.controllers.beneath_karmada = true;
    let mut world = World::with_flags(args).await;
    for name in ["member1", "member2"] {
        world.given(cluster(name)).await;
    }
    let list = |one: i32, two: i32| {
        let entry =
            |name: &str, replicas: i32| json!({"targetCluster": {"clusterNames": [name]}, "replicas": replicas});
        json!({"staticSpecifyList": [entry("member1", one), entry("member2", two)]})
    };
    let placement = json!({"replicaScheduling": {"replicaSchedulingType": "Divided",
        "replicaDivisionPreference": "Specified", "specifyPreference": list(1, 3)}});
    let policy = json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": "nginx", "namespace": "default"},
        "spec": {"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}], "placement": placement},
    });
    let policy = world.given(policy).await;
    let (web, mut other) = (binding("web", 4, placement.clone()), binding("other", 4, placement));
    other["spec"]["placement"]["clusterTolerations"] = json!([{"key": "a", "operator": "Exists"}]);
    let (web, other) = (world.given(web).await, world.given(other).await);
    world.settle().await;
    assert_eq!(
        (world.placed(&web), world.placed(&other)),
        ("member1:1 member2:3".into(), "member1:1 member2:3".into())
    );

    let strategy = "/spec/placement/replicaScheduling/specifyPreference";
    world.edit(&policy, |policy| *policy.pointer_mut(strategy).unwrap() = list(3, 1)).await;
    world.settle().await;
    assert_eq!(world.placed(&web), "member1:3 member2:1");
    assert_eq!(world.placed(&other), "member1:1 member2:3", "a placement that is not the policy's is left alone");
}
