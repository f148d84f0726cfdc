//! Policies and the placement of their bindings (R7, R49, R119, R121).

use ballast::k8s::Key;
use serde_json::{Value, json};

use super::fleet::{binding, by_room, cluster, cluster_binding, deployment, rebalancer};
use super::world::World;

/// The policy that `fleet::binding` names as its manager.
fn policy(placement: Value) -> Value {
    json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": "nginx", "namespace": "default"},
        "spec": {
            "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "nginx"}],
            "placement": placement,
        },
    })
}

fn only(cluster: &str) -> Value {
    let mut placement = by_room();
    placement["clusterAffinity"] = json!({"clusterNames": [cluster]});
    placement
}

/// nginx on member1, where its policy wants it.
async fn nginx(activation: Option<&str>) -> (World, Key, Key) {
    let mut world = World::new().await;
    world.given(cluster("member1")).await;
    world.given(cluster("member2")).await;
    let mut object = policy(only("member1"));
    if let Some(activation) = activation {
        object["spec"]["activationPreference"] = json!(activation);
    }
    let policy = world.given(object).await;
    let key = world.given(binding("nginx", 2, only("member1"))).await;
    world.settle().await;
    assert_eq!(world.placed(&key), "member1:2");
    (world, policy, key)
}

#[tokio::test]
async fn r121_an_edited_policy_moves_its_bindings() {
    let (mut world, policy, key) = nginx(None).await;
    world.edit(&policy, |policy| policy["spec"]["placement"] = only("member2")).await;
    world.settle().await;
    assert_eq!(world.placed(&key), "member2:2");
}

#[tokio::test]
async fn r7_r49_after_a_lazy_policy_s_edit_a_trigger_goes_by_the_binding_s_own_placement() {
    let (mut world, policy, key) = nginx(Some("Lazy")).await;
    world.edit(&policy, |policy| policy["spec"]["placement"] = only("member2")).await;
    world.given(rebalancer("demo", vec![deployment("nginx")])).await;
    world.settle().await;
    world.task(json!({"targetRefResource": [deployment("nginx")]})).await.unwrap();
    world.settle().await;
    assert_eq!(world.placed(&key), "member1:2");
}

#[tokio::test]
async fn r119_a_cluster_wide_policy_reaches_cluster_scoped_bindings() {
    let mut world = World::new().await;
    world.given(cluster("member1")).await;
    world.given(cluster("member2")).await;
    let key = world.given(cluster_binding("role", json!({"clusterAffinity": {"clusterNames": ["member1"]}}))).await;
    world.settle().await;
    assert_eq!(world.placed(&key), "member1");
    world
        .given(json!({
            "apiVersion": "policy.karmada.io/v1alpha1", "kind": "ClusterPropagationPolicy",
            "metadata": {"name": "roles"},
            "spec": {
                "resourceSelectors": [{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole"}],
                "placement": {"clusterAffinity": {"clusterNames": ["member2"]}},
            },
        }))
        .await;
    world.settle().await;
    assert_eq!(world.placed(&key), "member2");
}

#[tokio::test]
async fn a_policy_edited_while_nobody_looked_reaches_its_bindings_after_a_restart() {
    let (mut world, policy, key) = nginx(None).await;
    world.edit(&policy, |policy| policy["spec"]["placement"] = only("member2")).await;
    world.crash().await;
    world.settle().await;
    assert_eq!(world.placed(&key), "member2:2");
}

/// A policy of the namespace for every Deployment, which wants them on member2.
fn rival(priority: i64, preemption: &str) -> Value {
    let mut rival = policy(only("member2"));
    rival["metadata"]["name"] = json!("rival");
    rival["spec"]["resourceSelectors"] = json!([{"apiVersion": "apps/v1", "kind": "Deployment"}]);
    rival["spec"]["priority"] = json!(priority);
    rival["spec"]["preemption"] = json!(preemption);
    // Upstream wants a name where preemption is Always.
    rival["spec"]["resourceSelectors"][0]["name"] = json!("nginx");
    rival
}

#[tokio::test]
async fn r121_a_policy_keeps_its_bindings_from_a_higher_one_that_does_not_preempt() {
    let (mut world, _, key) = nginx(None).await;
    world.given(rival(9, "Never")).await;
    world.settle().await;
    assert_eq!(world.placed(&key), "member1:2");
}

#[tokio::test]
async fn r121_a_higher_policy_that_preempts_takes_the_binding_with_its_name_and_its_placement() {
    let (mut world, _, key) = nginx(None).await;
    let rival = world.given(rival(9, "Always")).await;
    world.settle().await;
    assert_eq!(world.placed(&key), "member2:2");
    let binding = world.get(&key).unwrap();
    let label = "propagationpolicy.karmada.io/permanent-id";
    assert_eq!(binding["metadata"]["annotations"]["propagationpolicy.karmada.io/name"], "rival");
    assert_eq!(binding["metadata"]["labels"][label], world.get(&rival).unwrap()["metadata"]["labels"][label]);
}

#[tokio::test]
async fn a_binding_whose_policy_is_deleted_goes_to_the_next_that_selects_it() {
    let (mut world, policy, key) = nginx(None).await;
    world.given(rival(0, "Never")).await;
    world.settle().await;
    assert_eq!(world.placed(&key), "member1:2");
    world.delete(&policy).await;
    world.settle().await;
    assert_eq!(world.placed(&key), "member2:2");
}

#[tokio::test]
async fn a_binding_whose_last_policy_is_deleted_stays_as_it_is() {
    let (mut world, policy, key) = nginx(None).await;
    world.delete(&policy).await;
    world.settle().await;
    assert_eq!(world.placed(&key), "member1:2");
}
