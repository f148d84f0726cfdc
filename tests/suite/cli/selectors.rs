//! Which policy claims a binding, by name, by labels or by kind, with the built server over HTTPS.

use ballast::cli::client::Client;
use serde_json::{Value, json};

use crate::process::{ServerProcess, wait};
use crate::support::objects::{BINDINGS, binding, with};

const POLICIES: &str = "/apis/policy.karmada.io/v1alpha1/namespaces/shop/propagationpolicies";

/// Returns a policy that selects Deployments by `selector`. A toleration with its name marks its
/// placement.
fn policy(name: &str, priority: i32, selector: Value) -> Value {
    let mut wanted = json!({"apiVersion": "apps/v1", "kind": "Deployment"});
    wanted.as_object_mut().unwrap().extend(selector.as_object().unwrap().clone());
    json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy", "metadata": {"name": name},
        "spec": {
            "priority": priority, "resourceSelectors": [wanted],
            "placement": {"clusterTolerations": [{"key": name, "operator": "Exists"}]},
        },
    })
}

/// Returns a binding of the Deployment `web` with a deleted policy.
fn orphan(name: &str, labels: Value) -> Value {
    let annotations =
        json!({"propagationpolicy.karmada.io/namespace": "shop", "propagationpolicy.karmada.io/name": "gone"});
    let metadata = json!({"labels": labels, "annotations": annotations});
    with(binding(name), json!({"metadata": metadata, "spec": {"replicas": 1, "placement": {}}}))
}

/// Waits until the binding has the name and the placement of this policy.
async fn goes_to(client: &Client, binding: &str, policy: &str) {
    let path = format!("{BINDINGS}?fieldSelector=metadata.name%3D{binding}");
    let is_there = |binding: &Value| {
        binding["metadata"]["annotations"]["propagationpolicy.karmada.io/name"] == policy
            && binding["spec"]["placement"]["clusterTolerations"][0]["key"] == policy
    };
    wait(client, &path, is_there).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r121_priority_goes_before_name_name_before_labels_and_labels_before_the_kind() {
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(folder.path(), &[]);
    let client = server.client().await;
    client.post(BINDINGS, &orphan("web", json!({"tier": "gold"}))).await.unwrap();
    client.post(BINDINGS, &orphan("api", json!({"tier": "silver"}))).await.unwrap();
    client.post(BINDINGS, &orphan("untold", json!({}))).await.unwrap();

    let gold = json!({"labelSelector": {"matchLabels": {"tier": "gold"}}});
    let not_gold = json!({"labelSelector": {"matchExpressions": [
        {"key": "tier", "operator": "NotIn", "values": ["gold"]}]}});
    let mut left = Vec::new();
    // The first remaining policy that matches gets the binding.
    for (name, priority, selector) in [
        ("a-high", 1, json!({"name": "web", "labelSelector": {"matchLabels": {"tier": "silver"}}})),
        ("b-named", 0, json!({"name": "web"})),
        ("c-gold", 0, gold.clone()),
        ("d-gold", 0, gold),
        ("e-not-gold", 0, not_gold),
        ("z-any", 0, json!({})),
    ] {
        left.push(policy(name, priority, selector));
    }
    // The first policy gets the binding and keeps it.
    client.post(POLICIES, &left.pop().unwrap()).await.unwrap();
    for binding in ["web", "untold", "api"] {
        goes_to(&client, binding, "z-any").await;
    }
    for policy in left.iter().rev() {
        client.post(POLICIES, policy).await.unwrap();
    }
    for binding in ["web", "untold", "api"] {
        goes_to(&client, binding, "z-any").await;
    }
    client.delete(&format!("{POLICIES}/z-any")).await.unwrap();
    goes_to(&client, "api", "e-not-gold").await;
    for name in ["a-high", "b-named", "c-gold", "d-gold"] {
        goes_to(&client, "web", name).await;
        client.delete(&format!("{POLICIES}/{name}")).await.unwrap();
    }
    // The labels of `untold` are unknown, so not even a selector for absent labels matches it.
    client.post(POLICIES, &policy("y-any", 0, json!({}))).await.unwrap();
    goes_to(&client, "untold", "y-any").await;
    goes_to(&client, "web", "y-any").await;
    goes_to(&client, "api", "e-not-gold").await;
}
