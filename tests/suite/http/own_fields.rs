//! Fields that upstream does not have survive clients that do not know them, such as Karmada's
//! detector (D54). Each request is one of such a client.

use http::Method;
use serde_json::{Map, Value, json};

use crate::support::objects;
use crate::support::raw::Connection;
use crate::support::server::TestServer;

const POLICIES: &str = "/apis/policy.karmada.io/v1alpha1/namespaces/shop/propagationpolicies";
const BINDINGS: &str = "/apis/work.karmada.io/v1alpha2/namespaces/shop/resourcebindings";

fn numbers(replicas: i64) -> Value {
    json!({"staticSpecifyList": [{"targetCluster": {"clusterNames": ["m1"]}, "replicas": replicas}]})
}

fn placement(replicas: i64) -> Value {
    json!({"replicaScheduling": {
        "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Specified",
        "specifyPreference": numbers(replicas),
    }})
}

fn policy(replicas: i64) -> Value {
    json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy", "metadata": {"name": "p"},
        "spec": {"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}], "placement": placement(replicas)},
    })
}

/// Returns a binding of the policy, as the detector creates it from this placement.
fn binding(placement: &Value) -> Value {
    let policy = json!({"metadata": {"annotations": {
        "propagationpolicy.karmada.io/namespace": "shop", "propagationpolicy.karmada.io/name": "p"}}});
    let spec = json!({"replicas": 4, "placement": known(placement)});
    objects::with(objects::binding_in("shop", "web-deployment", "web", spec), policy)
}

/// Passes the placement through the types of a client without these fields.
fn known(placement: &Value) -> Value {
    let mut known = placement.clone();
    if let Some(strategy) = known["replicaScheduling"].as_object_mut() {
        strategy.retain(|name, _| ["replicaSchedulingType", "replicaDivisionPreference"].contains(&name.as_str()));
    }
    known
}

struct Api {
    server: TestServer,
    connection: Connection,
}

impl Api {
    async fn start() -> Api {
        let server = TestServer::start().await;
        let connection = server.admin().connect().await;
        Api { server, connection }
    }

    async fn send(&self, method: Method, path: &str, form: &str, body: &Value) -> Value {
        let reply = self.connection.send(method, path, &[("content-type", form)], body.to_string()).await;
        assert!(reply.code.is_success(), "{}", reply.text());
        reply.json()
    }

    /// Reads the object, changes it, and writes it back without the fields.
    async fn touch(&self, path: &str, change: impl Fn(&mut Value)) -> Value {
        let mut object = self.connection.send(Method::GET, path, &[], "").await.json();
        object["spec"]["placement"] = known(&object["spec"]["placement"]);
        change(&mut object);
        self.send(Method::PUT, path, "application/json", &object).await
    }

    async fn patch(&self, path: &str, change: Value) -> Value {
        self.send(Method::PATCH, path, "application/merge-patch+json", &change).await
    }
}

fn numbers_of(object: &Value) -> Option<&Value> {
    object["spec"]["placement"]["replicaScheduling"].get("specifyPreference")
}

fn without_numbers() -> Value {
    json!({"spec": {"placement": {"replicaScheduling": {"specifyPreference": null}}}})
}

#[tokio::test]
async fn a_touched_policy_keeps_its_numbers_and_can_be_rid_of_them() {
    let api = Api::start().await;
    api.send(Method::POST, POLICIES, "application/json", &policy(2)).await;
    let path = format!("{POLICIES}/p");
    let touched = api.touch(&path, |policy| policy["metadata"]["finalizers"] = json!(["example.com/x"])).await;
    assert_eq!(numbers_of(&touched), Some(&numbers(2)));
    let other = json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"});
    let changed = api.touch(&path, |policy| policy["spec"]["placement"]["replicaScheduling"] = other.clone()).await;
    assert_eq!(changed["spec"]["placement"]["replicaScheduling"], other, "another strategy means what it says");
    api.patch(&path, json!({"spec": policy(3)["spec"]})).await;
    let removed = api.patch(&path, without_numbers()).await;
    assert_eq!(numbers_of(&removed), None, "a patch says what goes");
    let touched = api.touch(&path, |policy| policy["metadata"]["finalizers"] = json!([])).await;
    assert_eq!(numbers_of(&touched), None);
    api.server.stop().await;
}

#[tokio::test]
async fn a_binding_gets_and_keeps_the_numbers_of_its_policy() {
    let api = Api::start().await;
    api.send(Method::POST, POLICIES, "application/json", &policy(2)).await;
    let made = api.send(Method::POST, BINDINGS, "application/json", &binding(&placement(2))).await;
    assert_eq!(numbers_of(&made), Some(&numbers(2)), "the detector's first write");
    let path = format!("{BINDINGS}/web-deployment");
    let touched = api.touch(&path, |binding| binding["spec"]["replicas"] = json!(5)).await;
    assert_eq!(numbers_of(&touched), Some(&numbers(2)), "a touched template");
    // The policy changes, and the detector copies the fields that it knows.
    let tolerations = json!([{"key": "a", "operator": "Exists"}]);
    let mut changed = policy(3);
    changed["spec"]["placement"]["clusterTolerations"] = tolerations.clone();
    api.patch(&format!("{POLICIES}/p"), json!({"spec": changed["spec"]})).await;
    let bring = |binding: &mut Value| binding["spec"]["placement"]["clusterTolerations"] = tolerations.clone();
    let touched = api.touch(&path, bring).await;
    assert_eq!(touched["spec"]["placement"]["clusterTolerations"], tolerations);
    assert_eq!(numbers_of(&touched), Some(&numbers(3)), "a touched policy");
    let removed = api.patch(&path, without_numbers()).await;
    assert_eq!(numbers_of(&removed), None, "a user who patches them off is heard");
    let touched = api.touch(&path, |binding| binding["spec"]["replicas"] = json!(6)).await;
    assert_eq!(numbers_of(&touched), None);
    api.server.stop().await;
}

/// Karmada's detector knows neither bounds nor `whenUnsatisfiable`, for any strategy (S7).
#[tokio::test]
async fn s7_a_binding_gets_and_keeps_the_bounds_and_wishes_of_its_policy() {
    let api = Api::start().await;
    let bare = json!({
        "spreadConstraints": [
            {"spreadByField": "cluster", "minGroups": 1}, {"spreadByField": "region", "minGroups": 2}],
        "replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"},
    });
    let mut own = bare.clone();
    own["spreadConstraints"][1]["whenUnsatisfiable"] = json!("ScheduleAnyway");
    own["replicaScheduling"]["whenUnsatisfiable"] = json!("ScheduleWhatFits");
    own["replicaScheduling"]["clusterBounds"] = json!([{"targetCluster": {}, "maxReplicas": 3}]);
    let mut policy = policy(2);
    policy["spec"]["placement"] = own.clone();
    api.send(Method::POST, POLICIES, "application/json", &policy).await;
    let made = api.send(Method::POST, BINDINGS, "application/json", &binding(&bare)).await;
    assert_eq!(made["spec"]["placement"], own, "the detector's first write");
    let path = format!("{BINDINGS}/web-deployment");
    let forget = |binding: &mut Value| {
        binding["spec"]["placement"] = bare.clone();
        binding["spec"]["replicas"] = json!(5);
    };
    let touched = api.touch(&path, forget).await;
    assert_eq!(touched["spec"]["placement"], own, "a touched template");
    let forget = |policy: &mut Value| policy["spec"]["placement"] = bare.clone();
    let touched = api.touch(&format!("{POLICIES}/p"), forget).await;
    assert_eq!(touched["spec"]["placement"], own, "a touched policy");
    // One of the fields shows that the client knows them.
    let strict = |binding: &mut Value| {
        binding["spec"]["placement"] = bare.clone();
        binding["spec"]["placement"]["replicaScheduling"]["whenUnsatisfiable"] = json!("DoNotSchedule");
    };
    let mut object = api.connection.send(Method::GET, &path, &[], "").await.json();
    strict(&mut object);
    let written = api.send(Method::PUT, &path, "application/json", &object).await;
    assert_eq!(written["spec"]["placement"], object["spec"]["placement"]);
    api.server.stop().await;
}

#[tokio::test]
async fn a_binding_of_no_policy_is_nobody_s_but_its_writer_s() {
    let api = Api::start().await;
    let mut own = binding(&placement(2));
    own["metadata"]["annotations"] = Value::Object(Map::new());
    own["spec"]["placement"] = placement(2);
    own["spec"]["forceRescheduling"] = json!(true);
    api.send(Method::POST, BINDINGS, "application/json", &own).await;
    let path = format!("{BINDINGS}/web-deployment");
    let lose = |binding: &mut Value| drop(binding["spec"].as_object_mut().unwrap().remove("forceRescheduling"));
    let touched = api.touch(&path, lose).await;
    assert_eq!((numbers_of(&touched), &touched["spec"]["forceRescheduling"]), (Some(&numbers(2)), &json!(true)));
    let withdrawn = api.touch(&path, |binding| binding["spec"]["forceRescheduling"] = json!(false)).await;
    assert_eq!(withdrawn["spec"]["forceRescheduling"], json!(false));
    api.server.stop().await;
}

/// A placement equal to that of a policy does not reveal the other fields of the policy.
#[tokio::test]
async fn wh9_a_binding_gets_the_fields_of_the_policy_that_manages_it_and_of_no_other() {
    let api = Api::start().await;
    let wide = "/apis/policy.karmada.io/v1alpha1/clusterpropagationpolicies";
    let elsewhere = POLICIES.replace("/shop/", "/other/");
    let named = |kind: &str, name: &str, selector: Value| {
        let mut policy = policy(3);
        (policy["kind"], policy["metadata"]["name"]) = (json!(kind), json!(name));
        policy["spec"]["resourceSelectors"] = json!([selector]);
        policy
    };
    let of_other = json!({"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "other"});
    let of_all = json!({"apiVersion": "apps/v1", "kind": "Deployment"});
    let secrets = json!({"apiVersion": "v1", "kind": "Secret"});
    for (path, policy) in [
        (&*elsewhere, named("PropagationPolicy", "hidden", of_all.clone())),
        (POLICIES, named("PropagationPolicy", "of-secrets", secrets)),
        (wide, named("ClusterPropagationPolicy", "of-other", of_other)),
        (wide, named("ClusterPropagationPolicy", "of-all", of_all)),
    ] {
        api.send(Method::POST, path, "application/json", &policy).await;
    }
    let (namespace, name) = ("propagationpolicy.karmada.io/namespace", "propagationpolicy.karmada.io/name");
    let cluster_name = "clusterpropagationpolicy.karmada.io/name";
    for (index, (annotations, expected)) in [
        (json!({namespace: "other", name: "hidden"}), None),
        (json!({namespace: "shop", name: "of-secrets"}), None),
        (json!({cluster_name: "of-other"}), None),
        (json!({cluster_name: "of-all"}), Some(numbers(3))),
        (json!({namespace: "other", name: "hidden", cluster_name: "of-all"}), Some(numbers(3))),
    ]
    .into_iter()
    .enumerate()
    {
        let mut claiming = binding(&placement(3));
        claiming["metadata"] = json!({"name": format!("web-{index}"), "annotations": annotations});
        // Absent means the policy's own namespace.
        claiming["spec"]["resource"].as_object_mut().unwrap().remove("namespace");
        let made = api.send(Method::POST, BINDINGS, "application/json", &claiming).await;
        assert_eq!(numbers_of(&made), expected.as_ref(), "{annotations}");
    }
    api.server.stop().await;
}
