//! RescheduleTask: what it selects and how it marks (R2-R5, R11-R20, R25, R27, C5-C8).

use ballast::k8s::Key;
use serde_json::{Value, json};

use super::fleet::{binding, by_room, cluster, cluster_binding, deployment, nginx_on_member2};
use super::world::World;

/// Returns the names of the bindings that are marked.
fn marked(world: &World, keys: &[Key]) -> Vec<String> {
    let is_marked = |key: &&Key| world.get(key).unwrap()["spec"]["forceRescheduling"] == true;
    keys.iter().filter(is_marked).map(|key| key.name.to_string()).collect()
}

/// Returns a binding of `NAMESPACE/NAME`, managed by the given policy, if any.
fn managed(namespace: &str, name: &str, policy: Option<(&str, &str)>) -> Value {
    let mut binding = binding(name, 1, by_room());
    binding["metadata"]["namespace"] = json!(namespace);
    binding["spec"]["resource"]["namespace"] = json!(namespace);
    binding["metadata"]["labels"] = json!({});
    binding["metadata"]["annotations"] = match policy {
        None => json!({}),
        Some(("", name)) => json!({"clusterpropagationpolicy.karmada.io/name": name}),
        Some((namespace, name)) => json!({
            "propagationpolicy.karmada.io/namespace": namespace, "propagationpolicy.karmada.io/name": name,
        }),
    };
    binding
}

/// Creates bindings with policies of two namespaces, with a cluster-wide policy, and with none. One
/// binding is cluster-scoped.
async fn several() -> (World, Vec<Key>) {
    let world = World::new().await;
    let keys = world
        .given_all(vec![
            managed("a", "one", Some(("a", "pp"))),
            managed("a", "two", Some(("a", "other"))),
            managed("b", "three", Some(("b", "pp"))),
            managed("b", "four", Some(("", "cpp"))),
            managed("b", "five", None),
        ])
        .await;
    let role = world.given(cluster_binding("role", json!({}))).await;
    (world, keys.into_iter().chain([role]).collect())
}

#[tokio::test]
async fn r12_a_resource_selector_marks_its_binding_and_no_other() {
    let (world, keys) = several().await;
    let selector = json!({"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "a", "name": "one"});
    world.task(json!({"targetRefResource": [selector]})).await.unwrap();
    assert_eq!(marked(&world, &keys), ["one-deployment"]);
}

#[tokio::test]
async fn r11_r13_r14_c6_policy_selectors_select_by_namespace_and_name() {
    for (selector, expected) in [
        (json!({"namespace": "a", "name": "pp"}), vec!["one-deployment"]),
        (json!({"namespace": "a"}), vec!["one-deployment", "two-deployment"]),
        (json!({"name": "pp"}), vec!["one-deployment", "three-deployment"]),
        (json!({"name": "cpp"}), vec!["four-deployment"]),
        (json!({"name": "roles"}), vec!["role-clusterrole"]),
        (
            json!({}),
            vec![
                "one-deployment",
                "two-deployment",
                "three-deployment",
                "four-deployment",
                "five-deployment",
                "role-clusterrole",
            ],
        ),
        (json!({"namespace": "c"}), vec![]),
    ] {
        let (world, keys) = several().await;
        world.task(json!({"targetRefPolicy": [selector]})).await.unwrap();
        assert_eq!(marked(&world, &keys), expected, "{selector}");
    }
}

#[tokio::test]
async fn r13_a_binding_that_carries_only_its_policy_s_id_is_found_through_the_policy() {
    let world = World::new().await;
    let mut policy = json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": "pp", "namespace": "a", "labels": {"propagationpolicy.karmada.io/permanent-id": "id-1"}},
        "spec": {"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}], "placement": {}},
    });
    world.given(policy.take()).await;
    let mut bound = managed("a", "one", None);
    bound["metadata"]["labels"] = json!({"propagationpolicy.karmada.io/permanent-id": "id-1"});
    let keys = [world.given(bound).await, world.given(managed("a", "two", None)).await];
    world.task(json!({"targetRefPolicy": [{"namespace": "a", "name": "pp"}]})).await.unwrap();
    assert_eq!(marked(&world, &keys), ["one-deployment"]);
}

#[tokio::test]
async fn r15_without_a_name_all_of_the_kind_or_those_with_the_labels_with_a_name_labels_do_not_count() {
    for (selector, expected) in [
        (json!({"namespace": "a"}), vec!["one-deployment", "two-deployment"]),
        (json!({}), vec!["one-deployment", "two-deployment", "three-deployment"]),
        (json!({"labelSelector": {"matchLabels": {"tier": "gold"}}}), vec!["two-deployment"]),
        (json!({"name": "one", "labelSelector": {"matchLabels": {"tier": "gold"}}}), vec!["one-deployment"]),
    ] {
        let world = World::new().await;
        let mut gold = managed("a", "two", None);
        gold["metadata"]["labels"] = json!({"tier": "gold"});
        let keys = world.given_all(vec![managed("a", "one", None), gold, managed("b", "three", None)]).await;
        let mut wanted = json!({"apiVersion": "apps/v1", "kind": "Deployment"});
        wanted.as_object_mut().unwrap().extend(selector.as_object().unwrap().clone());
        world.task(json!({"targetRefResource": [wanted]})).await.unwrap();
        assert_eq!(marked(&world, &keys), expected, "{selector}");
    }
}

#[tokio::test]
async fn r16_a_binding_that_is_hit_twice_is_written_once() {
    let (world, keys) = several().await;
    let selector = json!({"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "a", "name": "one"});
    let policy = json!({"namespace": "a", "name": "pp"});
    world.task(json!({"targetRefPolicy": [policy], "targetRefResource": [selector, selector]})).await.unwrap();
    assert_eq!(world.history(&keys[0]).await.len(), 2);
}

#[tokio::test]
async fn r18_r20_nothing_is_stored_and_each_post_acts() {
    let (mut world, key) = nginx_on_member2().await;
    let task = json!({"targetRefResource": [deployment("nginx")]});
    let mut timestamps = Vec::new();
    for _ in 0..2 {
        world.task(task.clone()).await.unwrap();
        timestamps.push(world.get(&key).unwrap()["spec"]["rescheduleTriggeredAt"].as_str().unwrap().to_owned());
        world.settle().await;
    }
    assert_eq!(timestamps[0], timestamps[1], "both were asked for in the same second");
    let pending_pass =
        world.history(&key).await.into_iter().map(|it| it["metadata"]["annotations"]["ballast.dev/owed"].clone());
    assert_eq!(pending_pass.filter(|pending_pass| !pending_pass.is_null()).count(), 2);
    let revision = world.revision(&key);
    world.crash().await;
    world.settle().await;
    assert_eq!(world.revision(&key), revision, "nothing is replayed");
}

#[tokio::test]
async fn r23_r25_r27_c7_the_call_returns_when_force_and_stamp_are_there_and_waits_for_no_pass() {
    let (mut world, key) = nginx_on_member2().await;
    world.task(json!({"targetRefResource": [deployment("nginx")]})).await.unwrap();
    let marked = world.get(&key).unwrap();
    assert_eq!(marked["spec"]["forceRescheduling"], true);
    assert_eq!(marked["spec"]["rescheduleTriggeredAt"], world.now().to_string());
    assert_eq!(world.placed(&key), "member2:4");
    world.settle().await;
    assert_eq!(world.placed(&key), "member1:2 member2:2");
}

#[tokio::test]
async fn c1_a_dry_run_has_no_effect() {
    let (world, key) = nginx_on_member2().await;
    let revision = world.revision(&key);
    world.task_with(json!({"targetRefResource": [deployment("nginx")]}), true).await.unwrap();
    assert_eq!(world.revision(&key), revision);
}

#[tokio::test]
async fn a_store_that_cannot_write_is_the_caller_s_to_know() {
    let (mut world, key) = nginx_on_member2().await;
    world.given(cluster("member3")).await;
    world.settle().await;
    world.fail_after(0);
    let status = world.task(json!({"targetRefResource": [deployment("nginx")]})).await.unwrap_err();
    assert!(status.code >= 500, "{status}");
    world.mend();
    assert_eq!(marked(&world, &[key]), Vec::<String>::new());
}
