//! IV6: the inventory in the CRDs of the host cluster.

use std::path::Path;

use ballast::node::config::ServeArgs;
use http::Method;
use serde_json::{Value, json};

use crate::support::aggregated::Aggregated;
use crate::support::host::Host;
use crate::support::objects::binding;
use crate::support::wait_for;

const CRDS: &str = "/apis/multicluster.x-k8s.io/v1alpha1";
const PROFILES: &str = "/apis/multicluster.x-k8s.io/v1alpha1/namespaces/fleet/clusterprofiles";
const DECISIONS: &str = "/apis/multicluster.x-k8s.io/v1alpha1/namespaces/shop/placementdecisions";
const BINDINGS: &str = "/apis/work.karmada.io/v1alpha2/namespaces/shop/resourcebindings";
const MASTER: [(&str, &str); 3] =
    [("X-Remote-User", "admin"), ("X-Remote-Group", "system:masters"), ("Content-Type", "application/json")];
const CLUSTERS: &str = "/apis/cluster.karmada.io/v1alpha1/clusters";

/// Starts a host cluster with an API server that serves the two kinds.
fn with_crds(host: &Host) {
    let resource = |name: &str, kind: &str| json!({"name": name, "singularName": "", "namespaced": true, "kind": kind, "verbs": ["get"]});
    host.put(
        CRDS,
        json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "multicluster.x-k8s.io/v1alpha1",
        "resources": [resource("clusterprofiles", "ClusterProfile"),
            resource("placementdecisions", "PlacementDecision")]}),
    );
}

fn profile(manager: &str) -> Value {
    json!({"apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ClusterProfile",
        "metadata": {"namespace": "fleet", "labels": {"app.kubernetes.io/managed-by": manager}},
        "spec": {"clusterManager": {"name": manager}}})
}

fn with_inventory(args: &mut ServeArgs, folder: &Path) {
    args.inventory.cluster_inventory_namespace = Some("fleet".to_owned());
    args.host.namespace_lifecycle = false;
    args.database_url = format!("sqlite://{}", folder.join("ballast.db").display());
}

async fn send(server: &Aggregated, method: Method, path: &str, body: String) {
    let done = server.proxy().send(method, path, &MASTER, body).await;
    assert!(done.code.is_success(), "{}", done.json());
}

async fn make_cluster(server: &Aggregated, name: &str) {
    let cluster = json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster",
        "metadata": {"name": name, "labels": {"tier": "gold"}}, "spec": {"syncMode": "Pull", "region": "eu"}});
    send(server, Method::POST, CLUSTERS, cluster.to_string()).await;
}

#[tokio::test]
async fn iv6_profiles_and_decisions_are_in_the_hosts_crds_and_go_with_what_they_tell() {
    let host = Host::start().await;
    with_crds(&host);
    let taken = format!("{PROFILES}/taken");
    host.put(&taken, profile("ocm"));
    host.put(&format!("{PROFILES}/left"), profile("ballast"));
    let server = Aggregated::on(host, with_inventory).await;
    for name in ["member1", "taken"] {
        make_cluster(&server, name).await;
    }
    send(&server, Method::POST, BINDINGS, binding("web").to_string()).await;
    let told = wait_for("the profile", async || server.host.object(&format!("{PROFILES}/member1"))).await;
    assert_eq!(told["spec"]["clusterManager"]["name"], "ballast");
    assert_eq!(told["metadata"]["labels"]["tier"], "gold");
    assert_eq!(told["metadata"]["labels"]["app.kubernetes.io/managed-by"], "ballast");
    assert_eq!(told["metadata"]["uid"], Value::Null, "the host gives it a uid of its own");
    let region = |told: &Value| told["status"]["properties"][0]["value"].clone();
    wait_for("its status", async || {
        server.host.object(&format!("{PROFILES}/member1")).filter(|told| region(told) == "eu")
    })
    .await;
    let decision = format!("{DECISIONS}/web");
    wait_for("the decision", async || server.host.object(&decision)).await;
    wait_for("what nothing tells about to go", async || {
        server.host.object(&format!("{PROFILES}/left")).is_none().then_some(())
    })
    .await;
    assert_eq!(server.host.object(&taken).unwrap()["spec"], profile("ocm")["spec"], "it is another program's");

    send(&server, Method::DELETE, &format!("{BINDINGS}/web"), String::new()).await;
    wait_for("the decision to go", async || server.host.object(&decision).is_none().then_some(())).await;
    server.stop().await;
}

#[tokio::test]
async fn iv6_a_host_without_the_crds_gets_nothing_and_costs_nothing() {
    let server = Aggregated::with(with_inventory).await;
    make_cluster(&server, "member1").await;
    wait_for("the question", async || server.host.asked(CRDS).first().cloned()).await;
    make_cluster(&server, "member2").await;
    assert_eq!(server.host.objects_below(CRDS), [] as [Value; 0]);
    assert!(server.host.asked(&format!("{PROFILES}/member1")).is_empty());
    server.stop().await;
}
