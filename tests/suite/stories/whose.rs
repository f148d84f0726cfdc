//! Isolation of namespaces: a user with rights in one namespace can neither read from nor affect
//! other namespaces (WH7 to WH10). The user's bindings are in `default`.

use ballast::k8s::{GroupResource, Key};
use serde_json::{Value, json};

use super::fleet::{binding, by_room, cluster};
use super::world::World;

const EVENTS: GroupResource = GroupResource::new("events");

/// Returns a policy of another namespace for every Deployment.
fn hidden() -> Value {
    json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": "hidden", "namespace": "other"},
        "spec": {
            "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}],
            "schedulerName": "secret-scheduler",
            "placement": {"clusterAffinity": {"clusterNames": ["secret-cluster"]}},
        },
    })
}

/// Returns a cluster-wide policy for the Deployments of another namespace.
fn hidden_wide() -> Value {
    let mut policy = hidden();
    policy["kind"] = json!("ClusterPropagationPolicy");
    policy["metadata"] = json!({"name": "hidden"});
    policy["spec"]["resourceSelectors"][0]["namespace"] = json!("other");
    policy
}

/// Returns a binding that names a policy in every supported way, to obtain its placement.
fn claiming(name: &str, annotations: Value, labels: Value) -> Value {
    let mut object = binding(name, 2, Value::Null);
    object["spec"].as_object_mut().unwrap().remove("placement");
    object["metadata"]["annotations"] = annotations;
    object["metadata"]["labels"] = labels;
    object
}

#[tokio::test]
async fn wh8_a_binding_learns_nothing_of_a_policy_that_does_not_select_it() {
    let mut world = World::new().await;
    world.given(cluster("secret-cluster")).await;
    let policies = [world.given(hidden()).await, world.given(hidden_wide()).await];
    let id = |policy: &Key, label: &str| world.get(policy).unwrap()["metadata"]["labels"][label].clone();
    let (own, wide) = ("propagationpolicy.karmada.io/permanent-id", "clusterpropagationpolicy.karmada.io/permanent-id");
    let names =
        json!({"propagationpolicy.karmada.io/namespace": "other", "propagationpolicy.karmada.io/name": "hidden"});
    let bindings = vec![
        claiming("by-name", names.clone(), json!({})),
        claiming("by-old-labels", json!({}), names),
        claiming("by-id", json!({}), json!({own: id(&policies[0], own)})),
        claiming("wide", json!({"clusterpropagationpolicy.karmada.io/name": "hidden"}), json!({})),
        claiming("wide-by-id", json!({}), json!({wide: id(&policies[1], wide)})),
    ];
    let keys = world.given_all(bindings).await;
    world.settle().await;
    for policy in &policies {
        world
            .edit(policy, |policy| policy["spec"]["placement"]["clusterTolerations"] = json!([{"key": "secret"}]))
            .await;
    }
    world.task(json!({"targetRefPolicy": [{"name": "hidden"}]})).await.unwrap();
    world.settle().await;
    world.crash().await;
    world.settle().await;
    for key in keys {
        let spec = world.get(&key).unwrap()["spec"].clone();
        assert!(!spec.to_string().contains("secret"), "{key}: {spec}");
        assert!(
            spec.get("forceRescheduling").is_none() && spec.get("rescheduleTriggeredAt").is_none(),
            "{key}: {spec}"
        );
    }
}

#[tokio::test]
async fn wh8_a_policy_of_all_namespaces_manages_what_its_selectors_take() {
    let mut world = World::new().await;
    world.given(cluster("secret-cluster")).await;
    let mut policy = hidden_wide();
    policy["spec"]["resourceSelectors"][0]["namespace"] = json!("default");
    policy["spec"].as_object_mut().unwrap().remove("schedulerName");
    world.given(policy).await;
    let named = json!({"clusterpropagationpolicy.karmada.io/name": "hidden"});
    let mut bare = claiming("web", named, json!({}));
    // Absent means the binding's own namespace.
    bare["spec"]["resource"].as_object_mut().unwrap().remove("namespace");
    let key = world.given(bare).await;
    world.settle().await;
    assert_eq!(world.placed(&key), "secret-cluster:2");
}

#[tokio::test]
async fn wh10_a_stored_binding_of_a_workload_elsewhere_stays_as_it_is_and_has_no_effect() {
    let mut world = World::new().await;
    world.given(cluster("member1")).await;
    world.given(cluster("member2")).await;
    world.given(hidden()).await;
    let mut stray = binding("payments", 2, by_room());
    stray["spec"]["resource"]["namespace"] = json!("other");
    stray["metadata"]["annotations"]["propagationpolicy.karmada.io/namespace"] = json!("other");
    stray["metadata"]["annotations"]["propagationpolicy.karmada.io/name"] = json!("hidden");
    let mut placed = stray.clone();
    placed["metadata"]["name"] = json!("placed-deployment");
    placed["spec"]["clusters"] = json!([{"name": "gone", "replicas": 2}]);
    let keys = world.stored([stray, placed]).await;
    let before: Vec<Value> = keys.iter().map(|key| world.get(key).unwrap()).collect();
    world.settle().await;
    let everything = json!({"apiVersion": "apps/v1", "kind": "Deployment"});
    world.task(json!({"targetRefResource": [everything]})).await.unwrap();
    world.pass_seconds(600).await;
    world.settle().await;
    let after: Vec<Value> = keys.iter().map(|key| world.get(key).unwrap()).collect();
    assert_eq!(after, before);
    let view = world.client().view();
    let events: Vec<&Key> = view.list(EVENTS, Some("other")).map(|event| &event.key).collect();
    assert!(events.is_empty(), "{events:?}");
}
