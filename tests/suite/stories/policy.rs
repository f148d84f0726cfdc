//! Policies and the placement of their bindings (R7, R49, R119, R121).

use ballast::k8s::Key;
use serde_json::{Value, json};

use super::fleet::{binding, by_room, cluster, cluster_binding, deployment, rebalancer};
use super::world::World;

/// Returns the policy that manages the bindings of `fleet::binding`.
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

fn policy_named(name: &str, placement: Value) -> Value {
    let mut policy = policy(placement);
    policy["metadata"]["name"] = json!(name);
    policy
}

fn only(cluster: &str) -> Value {
    let mut placement = by_room();
    placement["clusterAffinity"] = json!({"clusterNames": [cluster]});
    placement
}

/// Creates nginx on member1, as its policy specifies.
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
async fn a_binding_that_is_labelled_placement_gets_its_policy_s_placement_too() {
    let mut world = World::new().await;
    world.given(cluster("member1")).await;
    world.given(policy(only("member1"))).await;
    world.settle().await;
    let mut bare = binding("nginx", 2, Value::Null);
    bare["spec"].as_object_mut().unwrap().remove("placement");
    bare["metadata"]["labels"]["placement"] = json!("edge");
    let key = world.given(bare).await;
    world.settle().await;
    assert_eq!(world.placed(&key), "member1:2");
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

/// Returns a policy in the same namespace that places every Deployment on member2.
fn rival(priority: i64, preemption: &str) -> Value {
    let mut rival = policy_named("rival", only("member2"));
    rival["spec"]["resourceSelectors"] = json!([{"apiVersion": "apps/v1", "kind": "Deployment"}]);
    rival["spec"]["priority"] = json!(priority);
    rival["spec"]["preemption"] = json!(preemption);
    // Upstream requires a name if preemption is Always.
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

/// Upstream removes the claim, so that the binding looks unmanaged.
#[tokio::test]
async fn a_binding_whose_last_policy_is_gone_stays_where_it_is_and_says_that_it_is_nobody_s() {
    type Leave = fn(&mut Value);
    let other_name: Leave = |policy| policy["spec"]["resourceSelectors"][0]["name"] = json!("other");
    for (activation, leave) in
        [(None, None), (Some("Lazy"), None), (None, Some(other_name)), (Some("Lazy"), Some(other_name))]
    {
        let (mut world, policy, key) = nginx(activation).await;
        let before = world.get(&key).unwrap();
        match leave {
            None => world.delete(&policy).await,
            Some(leave) => drop(world.edit(&policy, leave).await),
        }
        world.settle().await;
        let after = world.get(&key).unwrap();
        assert_eq!(after["spec"], before["spec"]);
        let named = |binding: &Value| binding["metadata"].to_string().contains("\"propagationpolicy.karmada.io/");
        assert_eq!((named(&before), named(&after)), (true, false), "{}", after["metadata"]);
        assert!(after["metadata"]["annotations"]["policy.karmada.io/applied-placement"].is_string());
        assert_eq!(after["status"]["lastScheduledTime"], before["status"]["lastScheduledTime"]);
        world.crash().await;
        world.settle().await;
        assert_eq!(world.get(&key).unwrap(), after);
        // The next policy that selects the binding claims it, as upstream's detector does for the
        // template.
        let next = policy_named("next", only("member2"));
        world.given(next).await;
        world.settle().await;
        assert_eq!(world.placed(&key), "member2:2");
        assert!(!world.get(&key).unwrap()["metadata"].to_string().contains("released"));
    }
}

#[tokio::test]
async fn a_binding_that_is_made_without_a_placement_gets_its_policy_s() {
    for activation in [None, Some("Lazy")] {
        let (mut world, policy, key) = nginx(activation).await;
        world.delete(&key).await;
        world.settle().await;
        let mut bare = binding("nginx", 2, json!({}));
        bare["spec"].as_object_mut().unwrap().remove("placement");
        world.given(bare).await;
        world.settle().await;
        assert_eq!(world.placed(&key), "member1:2");
        let label = "propagationpolicy.karmada.io/permanent-id";
        let ids = [&key, &policy].map(|key| world.get(key).unwrap()["metadata"]["labels"][label].clone());
        assert_eq!(ids[0], ids[1], "and says by whose it is, as upstream does");
    }
}

/// A server that serves only bindings, while the policies are served elsewhere.
#[tokio::test]
async fn a_policy_that_was_never_here_is_no_reason_to_take_its_claim_away() {
    let mut world = World::new().await;
    world.given(cluster("member1")).await;
    let key = world.given(binding("nginx", 2, only("member1"))).await;
    let mut other = policy_named("other", only("member1"));
    other["spec"]["resourceSelectors"][0]["name"] = json!("other");
    let other = world.given(other).await;
    world.settle().await;
    world.crash().await;
    world.delete(&other).await;
    world.settle().await;
    let binding = world.get(&key).unwrap();
    assert_eq!(binding["metadata"]["annotations"]["propagationpolicy.karmada.io/name"], "nginx");
}

#[tokio::test]
async fn r121_a_binding_that_its_policy_selects_no_longer_goes_to_the_next() {
    let (mut world, policy, key) = nginx(None).await;
    world.given(rival(0, "Never")).await;
    world.settle().await;
    assert_eq!(world.placed(&key), "member1:2");
    world.edit(&policy, |policy| policy["spec"]["resourceSelectors"][0]["name"] = json!("other")).await;
    world.settle().await;
    assert_eq!(world.placed(&key), "member2:2");
    // A binding without a next policy is unchanged, also when a policy that no longer selects it
    // changes.
    let (mut world, policy, key) = nginx(None).await;
    let leave = |policy: &mut Value| {
        policy["spec"]["resourceSelectors"][0]["name"] = json!("other");
        policy["spec"]["placement"] = only("member2");
    };
    world.edit(&policy, leave).await;
    world.settle().await;
    assert_eq!(world.placed(&key), "member1:2");
}
