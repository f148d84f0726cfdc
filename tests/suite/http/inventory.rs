//! ClusterProfiles and PlacementDecisions of a server with `--cluster-inventory-namespace` (IV1 to
//! IV4).

use ballast::node::certs::Files;
use http::Method;
use serde_json::{Value, json};

use crate::process::{ServerProcess, wait};
use crate::support::objects::{BINDINGS, CLUSTERS, binding, cluster, with};
use crate::support::raw::{Raw, Reply};

const FLAG: &str = "--cluster-inventory-namespace=fleet";
const GROUP: &str = "/apis/multicluster.x-k8s.io/v1alpha1";
const PROFILES: &str = "/apis/multicluster.x-k8s.io/v1alpha1/namespaces/fleet/clusterprofiles";
const DECISIONS: &str = "/apis/multicluster.x-k8s.io/v1alpha1/namespaces/shop/placementdecisions";
const FLEET_DECISIONS: &str = "/apis/multicluster.x-k8s.io/v1alpha1/namespaces/fleet/placementdecisions";
const CLUSTER_BINDINGS: &str = "/apis/work.karmada.io/v1alpha2/clusterresourcebindings";
const MEMBERS: &str = "/apis/cluster.kubernetes-fleet.io/v1beta1/memberclusters";
const PLACEMENTS: &str = "/apis/placement.kubernetes-fleet.io/v1beta1/clusterresourceplacements";
const FLEET_BINDINGS: &str = "/apis/placement.kubernetes-fleet.io/v1beta1/clusterresourcebindings";
const JSON: (&str, &str) = ("content-type", "application/json");
const MERGE: (&str, &str) = ("content-type", "application/merge-patch+json");

/// A client of the process's admin.
fn admin(server: &ServerProcess, home: &std::path::Path) -> Raw {
    Raw::admin(server.address, &Files::in_dir(&home.join("certs")))
}

async fn done(client: &Raw, method: Method, path: &str, body: &Value) -> Value {
    let media = if method == Method::PATCH { MERGE } else { JSON };
    let reply = client.send(method, path, &[media], body.to_string()).await;
    assert!(reply.code.is_success(), "{path}: {}", reply.text());
    reply.json()
}

async fn list(client: &Raw, path: &str) -> Vec<Value> {
    client.get(path).await.json()["items"].as_array().expect("a list").clone()
}

fn names(objects: &[Value]) -> Vec<&str> {
    objects.iter().map(|object| object["metadata"]["name"].as_str().unwrap()).collect()
}

/// No worker moves a binding with suspended scheduling.
fn placed(name: &str, clusters: &[&str]) -> Value {
    let targets: Vec<Value> = clusters.iter().map(|name| json!({"name": name, "replicas": 1})).collect();
    with(binding(name), json!({"spec": {"clusters": targets, "suspension": {"scheduling": true}}}))
}

fn chosen(decision: &Value) -> Vec<&str> {
    let decisions = decision["decisions"].as_array().expect("the list is there");
    decisions.iter().map(|it| it["clusterProfileRef"]["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn iv1_iv2_a_profile_follows_its_cluster() {
    let home = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(home.path(), &[FLAG, "--controllers=*,-cluster-taints"]);
    let admin = admin(&server, home.path());
    let given = json!({
        "metadata": {"labels": {"tier": "edge"}},
        "spec": {"apiEndpoint": "https://m1:6443", "region": "eu", "zones": ["a", "b"], "provider": "own"},
    });
    let made = done(&admin, Method::POST, CLUSTERS, &with(cluster("m1"), given)).await;
    let profile = admin.get(&format!("{PROFILES}/m1")).await.json();
    assert_eq!(profile["spec"], json!({"displayName": "m1", "clusterManager": {"name": "ballast"}}));
    let labels = &profile["metadata"]["labels"];
    assert_eq!((&labels["tier"], &labels["x-k8s.io/cluster-manager"]), (&json!("edge"), &json!("ballast")));
    let access = json!([{"name": "ballast", "cluster": {"server": "https://m1:6443"}}]);
    assert_eq!(profile["status"]["accessProviders"], access);
    let properties = profile["status"]["properties"].as_array().unwrap();
    assert!(properties.contains(&json!({"name": "topology.kubernetes.io/zone", "value": "a,b"})), "{properties:?}");
    // One transaction has both, so their revisions follow each other.
    let revision = |object: &Value| object["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap();
    assert_eq!(revision(&profile), revision(&made) + 1);

    let ready = json!({"status": {"kubernetesVersion": "v1.36.2", "conditions": [{
        "type": "Ready", "status": "False", "reason": "ClusterNotReachable", "message": "no route",
        "lastTransitionTime": "2026-11-27T01:00:00Z",
    }]}});
    done(&admin, Method::PATCH, &format!("{CLUSTERS}/m1/status"), &ready).await;
    let profile = admin.get(&format!("{PROFILES}/m1")).await.json();
    let health = &profile["status"]["conditions"][0];
    assert_eq!((&health["type"], &health["status"]), (&json!("ControlPlaneHealthy"), &json!("False")));
    assert_eq!(profile["status"]["version"]["kubernetes"], "v1.36.2");
    assert_eq!(profile["metadata"]["generation"], 1);

    // A MemberCluster with the same name gets another profile name, and the name is released once
    // it is the only one.
    let member = json!({"metadata": {"name": "m1"}, "spec": {"identity": {"kind": "User", "name": "agent"}}});
    let member = with(json!({"apiVersion": "cluster.kubernetes-fleet.io/v1beta1", "kind": "MemberCluster"}), member);
    done(&admin, Method::POST, MEMBERS, &member).await;
    assert_eq!(names(&list(&admin, PROFILES).await), ["m1", "m1-fleet"]);
    done(&admin, Method::DELETE, &format!("{CLUSTERS}/m1"), &Value::Null).await;
    let client = server.client().await;
    wait(&client, PROFILES, |profile| {
        profile["metadata"]["name"] == "m1" && profile["status"].get("accessProviders").is_none()
    })
    .await;
    assert_eq!(names(&list(&admin, PROFILES).await), ["m1"]);
    server.terminate();
}

#[tokio::test]
async fn iv3_a_decision_follows_its_binding_in_slices() {
    let home = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(home.path(), &[FLAG]);
    let admin = admin(&server, home.path());
    let made = done(&admin, Method::POST, BINDINGS, &placed("web", &["m2", "m1"])).await;
    let decision = admin.get(&format!("{DECISIONS}/web")).await.json();
    assert_eq!(chosen(&decision), ["m1", "m2"]);
    assert_eq!(decision["schedulerName"], "default-scheduler");
    assert_eq!(decision["decisions"][0]["clusterProfileRef"]["namespace"], "fleet");
    let labels = json!({
        "multicluster.x-k8s.io/decision-key": made["metadata"]["uid"],
        "multicluster.x-k8s.io/decision-index": "0",
        "multicluster.x-k8s.io/placement-key": "Deployment.web",
    });
    assert_eq!(decision["metadata"]["labels"], labels);

    let many: Vec<String> = (0..205).map(|number| format!("m{number:03}")).collect();
    let many: Vec<Value> = many.iter().map(|name| json!({"name": name})).collect();
    let at = format!("{BINDINGS}/web");
    done(&admin, Method::PATCH, &at, &json!({"spec": {"clusters": many.clone()}})).await;
    let slices = list(&admin, DECISIONS).await;
    assert_eq!(names(&slices), ["web", "web.slice-1", "web.slice-2"]);
    assert_eq!(slices.iter().map(|slice| chosen(slice).len()).collect::<Vec<_>>(), [100, 100, 5]);
    assert_eq!(slices[2]["metadata"]["labels"]["multicluster.x-k8s.io/decision-index"], "2");
    assert_eq!(slices[0]["metadata"]["uid"], decision["metadata"]["uid"], "the first slice stays");

    // A joining cluster is added to a slice with space, and moves no other one.
    let versions = |slices: &[Value]| -> Vec<Value> {
        slices.iter().map(|slice| slice["metadata"]["resourceVersion"].clone()).collect()
    };
    let joined: Vec<Value> = std::iter::once(json!({"name": "a"})).chain(many.clone()).collect();
    done(&admin, Method::PATCH, &at, &json!({"spec": {"clusters": joined}})).await;
    let with_it = list(&admin, DECISIONS).await;
    assert_eq!(versions(&with_it)[..2], versions(&slices)[..2]);
    assert_eq!(chosen(&with_it[2]), ["a", "m200", "m201", "m202", "m203", "m204"]);
    let slices = with_it;

    // A change without another cluster writes no decision.
    let before = slices[0]["metadata"]["resourceVersion"].clone();
    done(&admin, Method::PATCH, &at, &json!({"metadata": {"labels": {"a": "b"}}})).await;
    assert_eq!(list(&admin, DECISIONS).await[0]["metadata"]["resourceVersion"], before);
    done(&admin, Method::PATCH, &at, &json!({"spec": {"clusters": []}})).await;
    let slices = list(&admin, DECISIONS).await;
    assert_eq!((slices.len(), chosen(&slices[0]).len()), (1, 0));
    done(&admin, Method::DELETE, &at, &Value::Null).await;
    assert_eq!(list(&admin, DECISIONS).await.len(), 0);
    server.terminate();
}

/// Consumers of decisions remove a workload from the clusters that are not listed.
#[tokio::test]
async fn a_decision_lists_a_cluster_until_its_eviction_ends() {
    let home = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(home.path(), &[FLAG, "--controllers=events"]);
    let admin = admin(&server, home.path());
    done(&admin, Method::POST, BINDINGS, &placed("web", &["m1"])).await;
    let decided = async |spec: Value| {
        done(&admin, Method::PATCH, &format!("{BINDINGS}/web"), &json!({"spec": spec})).await;
        let decision = admin.get(&format!("{DECISIONS}/web")).await.json();
        let decisions = decision["decisions"].as_array().unwrap().iter();
        let each = |it: &Value| format!("{} {}", it["clusterProfileRef"]["name"], it["reason"]).replace('"', "");
        decisions.map(each).collect::<Vec<_>>()
    };
    let task =
        |cluster: &str, mode: &str| json!({"fromCluster": cluster, "purgeMode": mode, "reason": "r", "producer": "p"});
    let graceful = json!([task("m2", "Gracefully"), task("m0", "Directly")]);
    let evicted = decided(json!({"gracefulEvictionTasks": graceful})).await;
    assert_eq!(evicted, ["m1 Scheduled", "m2 BeingEvicted"]);
    // The last copy remains, too; a cluster to which the workload returns is a target.
    assert_eq!(decided(json!({"clusters": []})).await, ["m2 BeingEvicted"]);
    assert_eq!(decided(json!({"clusters": [{"name": "m2", "replicas": 1}]})).await, ["m2 Scheduled"]);
    assert_eq!(decided(json!({"gracefulEvictionTasks": []})).await, ["m2 Scheduled"]);
    server.terminate();
}

#[tokio::test]
async fn iv3_a_decision_follows_cluster_bindings_and_all_bindings_of_a_fleet_placement() {
    let home = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(home.path(), &[FLAG, "--controllers=events"]);
    let admin = admin(&server, home.path());
    let of_cluster =
        json!({"kind": "ClusterResourceBinding", "spec": {"resource": {"kind": "ClusterRole", "namespace": null}}});
    done(&admin, Method::POST, CLUSTER_BINDINGS, &with(placed("roles", &["m1"]), of_cluster)).await;
    let placement = json!({
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterResourcePlacement",
        "metadata": {"name": "roles"},
        "spec": {"resourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": "shop"}]},
    });
    done(&admin, Method::POST, PLACEMENTS, &placement).await;
    for (name, state) in [("f1", "Bound"), ("f2", "Scheduled"), ("f3", "Unscheduled")] {
        let binding = json!({
            "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterResourceBinding",
            "metadata": {"name": format!("roles-{name}-0"), "labels": {"kubernetes-fleet.io/parent-CRP": "roles"}},
            "spec": {
                "state": state, "resourceSnapshotName": "", "schedulingPolicySnapshotName": "s",
                "targetCluster": name,
                "clusterDecision": {"clusterName": name, "selected": true, "reason": "picked"},
            },
        });
        done(&admin, Method::POST, FLEET_BINDINGS, &binding).await;
    }
    let decisions = list(&admin, FLEET_DECISIONS).await;
    assert_eq!(names(&decisions), ["roles", "roles-cluster-fleet"]);
    assert_eq!(chosen(&decisions[0]), ["m1"]);
    assert_eq!(chosen(&decisions[1]), ["f1", "f2"]);
    assert_eq!(decisions[1]["decisions"][0]["reason"], "picked");
    server.terminate();
}

#[tokio::test]
async fn iv4_clients_only_read_and_a_start_tells_what_was_not_told() {
    let home = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(home.path(), &[]);
    let without = admin(&server, home.path());
    assert_eq!(without.get(GROUP).await.code, 404, "it is off by default");
    done(&without, Method::POST, BINDINGS, &placed("early", &["m1"])).await;
    server.terminate();

    let server = ServerProcess::start(home.path(), &[FLAG]);
    let admin = admin(&server, home.path());
    wait(&server.client().await, DECISIONS, |decision| decision["metadata"]["name"] == "early").await;
    let refused = async |method: Method, path: &str, media| -> Reply {
        let body = json!({"apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "PlacementDecision",
            "metadata": {"name": "early"}, "decisions": []});
        admin.send(method, path, &[media], body.to_string()).await
    };
    let early = format!("{DECISIONS}/early");
    for (method, path, media) in [
        (Method::POST, DECISIONS, JSON),
        (Method::PUT, &*early, JSON),
        (Method::PATCH, &*early, MERGE),
        (Method::DELETE, &*early, JSON),
    ] {
        let reply = refused(method.clone(), path, media).await;
        assert_eq!(reply.code, 405, "{method}: {}", reply.text());
    }
    // Objects that a client has deleted are written again at once.
    done(&admin, Method::DELETE, DECISIONS, &Value::Null).await;
    assert_eq!(names(&list(&admin, DECISIONS).await), ["early"]);
    server.terminate();
}
