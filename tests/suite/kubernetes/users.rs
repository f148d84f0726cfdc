//! Which users reach Ballast, under which names, and what the host cluster records about it.

use http::Method;
use serde_json::{Value, json};

use crate::kube_apiserver::Cluster;
use crate::support::wait_for;

const BINDING: &str = "apiVersion: work.karmada.io/v1alpha2
kind: ResourceBinding
metadata: {name: web, namespace: shop}
spec:
  resource: {apiVersion: apps/v1, kind: Deployment, name: web, namespace: shop}
  replicas: 2
  placement: {clusterAffinity: {clusterNames: [member1]}}
";
const REBALANCER: &str = "apiVersion: apps.karmada.io/v1alpha1
kind: WorkloadRebalancer
metadata: {name: again}
spec: {workloads: [{apiVersion: apps/v1, kind: Deployment, name: web, namespace: shop}]}
";

/// The audit events of requests for this resource.
fn audited(cluster: &Cluster, resource: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(cluster.folder.path().join("audit.log")).unwrap_or_default();
    let events = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    events.filter(|event| event["objectRef"]["resource"] == resource).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn ag6_ag17_users_get_what_the_clusters_rbac_gives_them_under_their_own_names() {
    let Some(cluster) = Cluster::start().await else { return };
    let _ballast = cluster.install_ballast().await;
    cluster.kubeconfig("jane", &["fleet-admins"]);
    cluster.kubeconfig("joe", &["others"]);
    cluster.kubectl(
        "admin",
        &["create", "clusterrole", "fleet", "--verb=get,list,create", "--resource=workloadrebalancers.apps.karmada.io"],
    );
    cluster.kubectl("admin", &["create", "clusterrolebinding", "fleet", "--clusterrole=fleet", "--group=fleet-admins"]);
    let file = cluster.file("rebalancer.yaml", REBALANCER);
    let created = wait_for("her rights", async || {
        Some(cluster.try_kubectl("jane", &["create", "-f", &file])).filter(|it| it.status.success())
    });
    assert_eq!(String::from_utf8(created.await.stdout).unwrap(), "workloadrebalancer.apps.karmada.io/again created\n");
    let refused = cluster.kubectl_refused("jane", &["delete", "workloadrebalancer", "again"]);
    assert!(refused.contains("User \"jane\" cannot delete resource \"workloadrebalancers\""), "{refused}");
    let refused = cluster.kubectl_refused("joe", &["get", "workloadrebalancers"]);
    assert!(refused.contains("User \"joe\" cannot list resource \"workloadrebalancers\""), "{refused}");
    let as_jane = ["get", "workloadrebalancers", "-o", "name", "--as=jane", "--as-group=fleet-admins"];
    assert_eq!(cluster.kubectl("admin", &as_jane), "workloadrebalancer.apps.karmada.io/again\n");
    assert_eq!(cluster.kubectl("jane", &["auth", "can-i", "create", "workloadrebalancers.apps.karmada.io"]), "yes\n");

    // Joe never reached Ballast. Jane reached it as jane, and her other requests were denied
    // before.
    let events = wait_for("the audit log", async || {
        let events = audited(&cluster, "workloadrebalancers");
        events.iter().any(|it| it["verb"] == "list").then_some(events)
    })
    .await;
    let by = |name: &str| events.iter().filter(|it| it["user"]["username"] == name).collect::<Vec<_>>();
    assert!(by("joe").is_empty());
    let create = by("jane").into_iter().find(|it| it["verb"] == "create").unwrap().clone();
    let groups = create["user"]["groups"].as_array().unwrap();
    assert!(groups.contains(&json!("fleet-admins")) && groups.contains(&json!("system:authenticated")), "{groups:?}");
    assert_eq!(create["annotations"]["authorization.k8s.io/decision"], "allow");
    assert!(create["userAgent"].as_str().unwrap().starts_with("kubectl/"));
    assert!(by("jane").iter().all(|it| it["verb"] != "delete"));

    // A client that bypasses kube-apiserver with a certificate of the cluster is authorized too.
    let metrics =
        cluster.kubectl_refused("joe", &["get", "--raw", "/apis/apps.karmada.io/v1alpha1/workloadrebalancers"]);
    assert!(metrics.contains("forbidden"), "{metrics}");
}

#[tokio::test(flavor = "multi_thread")]
async fn ad2_kubectl_lives_with_our_kinds_as_with_any_other() {
    let Some(cluster) = Cluster::start().await else { return };
    let _ballast = cluster.install_ballast().await;
    let binding = cluster.file("binding.yaml", BINDING);
    let refused = cluster.kubectl_refused("admin", &["create", "-f", &binding]);
    assert!(refused.contains("namespaces \"shop\" not found"), "{refused}");
    cluster.kubectl("admin", &["create", "namespace", "shop"]);
    let admin = |args: &[&str]| cluster.kubectl("admin", &[args, &["-n", "shop"]].concat());
    wait_for("the namespace", async || {
        Some(cluster.try_kubectl("admin", &["apply", "-f", &binding])).filter(|it| it.status.success())
    })
    .await;
    assert_eq!(admin(&["apply", "-f", &binding]), "resourcebinding.work.karmada.io/web unchanged\n");
    assert!(admin(&["get", "rb"]).starts_with("NAME   SCHEDULED"));
    assert_eq!(admin(&["get", "rb", "-o", "jsonpath={.items[*].metadata.name}"]), "web");
    admin(&["label", "rb", "web", "team=a"]);
    admin(&["annotate", "rb", "web", "note=b"]);
    admin(&["patch", "rb", "web", "--type=merge", "-p", r#"{"spec":{"replicas":3}}"#]);
    admin(&["patch", "rb", "web", "--type=json", "-p", r#"[{"op":"replace","path":"/spec/replicas","value":4}]"#]);
    assert_eq!(admin(&["get", "rb", "web", "-o", "jsonpath={.metadata.labels.team} {.spec.replicas}"]), "a 4");
    let diff = cluster.try_kubectl("admin", &["diff", "-f", &binding]);
    assert_eq!(diff.status.code(), Some(1), "{diff:?}");
    let conflict =
        cluster.kubectl_refused("admin", &["apply", "--server-side", "--field-manager=other", "-f", &binding]);
    assert!(conflict.contains("\"kubectl-patch\""), "{conflict}");
    cluster.kubectl("admin", &["apply", "--server-side", "--force-conflicts", "--field-manager=other", "-f", &binding]);
    assert_eq!(admin(&["get", "rb", "web", "-o", "jsonpath={.spec.replicas}"]), "2");
    // The watch ends at its timeout, which kubectl reports as a failure.
    let watch = ["get", "rb", "-n", "shop", "--watch", "-o", "name", "--request-timeout=3s"];
    let watched = String::from_utf8(cluster.try_kubectl("admin", &watch).stdout).unwrap();
    assert!(watched.contains("resourcebinding.work.karmada.io/web"), "{watched}");
    let unknown = cluster.file("unknown.yaml", &REBALANCER.replace("spec:", "spek:"));
    let strict = cluster.kubectl_refused("admin", &["create", "--validate=true", "-f", &unknown]);
    assert!(strict.contains("spek"), "{strict}");
    let rebalancer = cluster.file("rebalancer.yaml", REBALANCER);
    cluster.kubectl("admin", &["create", "-f", &rebalancer]);
    cluster.kubectl(
        "admin",
        &["wait", "--for=jsonpath={.status.observedGeneration}=1", "workloadrebalancer/again", "--timeout=30s"],
    );

    // The host cluster has the events, and the workers hold its lease.
    wait_for("the event", async || {
        let told = admin(&["get", "events", "-o", "jsonpath={.items[*].involvedObject.kind}"]);
        told.contains("ResourceBinding").then_some(())
    })
    .await;
    let holder = "jsonpath={.spec.holderIdentity}";
    assert_ne!(cluster.kubectl("admin", &["get", "lease", "ballast", "-n", "ballast-system", "-o", holder]), "");
    assert!(admin(&["delete", "rb", "web"]).contains("deleted"));
    cluster.kubectl("admin", &["delete", "workloadrebalancers", "--all"]);

    // There is no namespace controller here, so a namespace that is deleted stays terminating.
    cluster.kubectl("admin", &["delete", "namespace", "shop", "--wait=false"]);
    let refused = wait_for("its end", async || {
        let output = cluster.try_kubectl("admin", &["create", "-f", &binding]);
        let said = String::from_utf8(output.stderr).unwrap();
        cluster.try_kubectl("admin", &["delete", "-f", &binding]);
        said.contains("is forbidden").then_some(said)
    });
    assert!(refused.await.contains("namespace shop because it is being terminated"));
    let all = "/apis/work.karmada.io/v1alpha2/namespaces/shop/resourcebindings";
    let emptied = cluster.admin().send(Method::DELETE, all, &[], "").await;
    assert_eq!(emptied.code, 200, "what the namespace controller asks for");
}
