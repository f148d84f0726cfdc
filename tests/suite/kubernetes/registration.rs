//! How kube-apiserver handles the registrations of Ballast's API groups.

use http::Method;
use serde_json::{Value, json};

use crate::kube_apiserver::Cluster;
use crate::support::wait_for;

const SERVICE: &str = "v1alpha1.apps.karmada.io";
const MANAGED: &str = "kube-aggregator.kubernetes.io/automanaged";

fn definition() -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "workloadrebalancers.apps.karmada.io"},
        "spec": {"group": "apps.karmada.io", "scope": "Cluster",
            "names": {"kind": "WorkloadRebalancer", "plural": "workloadrebalancers", "singular": "workloadrebalancer",
                "listKind": "WorkloadRebalancerList"},
            "versions": [{"name": "v1alpha1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}})
}

async fn registered(cluster: &Cluster) -> Value {
    let path = format!("/apis/apiregistration.k8s.io/v1/apiservices/{SERVICE}");
    cluster.admin().send(Method::GET, &path, &[], "").await.json()
}

async fn is_the_definitions(cluster: &Cluster) -> bool {
    let service = registered(cluster).await;
    service["spec"]["service"].is_null() && service["metadata"]["labels"][MANAGED] == "true"
}

#[tokio::test(flavor = "multi_thread")]
async fn ag2_an_apiservice_is_available_when_its_server_answers_and_says_why_when_not() {
    let Some(cluster) = Cluster::start().await else { return };
    let ballast = cluster.install_ballast().await;
    assert_eq!(cluster.availability(SERVICE).await["message"], "all checks passed");
    let served = cluster.kubectl("admin", &["api-resources", "--api-group=apps.karmada.io", "-o", "name"]);
    assert_eq!(served, "workloadrebalancers.apps.karmada.io\n");
    for kind in ["workloadrebalancers.spec.workloads", "resourcebindings.spec", "clusters.spec"] {
        // The aggregator fetches descriptions at its own pace.
        let explained = wait_for(kind, async || {
            Some(cluster.try_kubectl("admin", &["explain", kind])).filter(|it| it.status.success())
        });
        let explained = String::from_utf8(explained.await.stdout).unwrap();
        assert!(explained.contains("FIELDS:"), "{explained}");
    }
    // The aggregator's own documents contain our kinds, and the rest of them is unchanged.
    let merged = cluster.admin().get("/openapi/v2").await.json();
    let definitions = merged["definitions"].as_object().unwrap();
    assert!(definitions.contains_key("com.github.karmada-io.karmada.pkg.apis.work.v1alpha2.ResourceBinding"));
    let pod = &definitions["io.k8s.api.core.v1.Pod"]["properties"]["metadata"]["$ref"];
    assert_eq!(pod, "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta");

    assert!(ballast.terminate().success());
    // Otherwise the aggregator checks it twice a minute.
    cluster.kubectl("admin", &["label", "service", "ballast", "-n", "ballast-system", "looked=at"]);
    let reason = wait_for("it to be missed", async || {
        let condition = cluster.availability(SERVICE).await;
        (condition["status"] == "False").then(|| condition["reason"].clone())
    });
    assert_eq!(reason.await, "FailedDiscoveryCheck");
}

#[tokio::test(flavor = "multi_thread")]
async fn ag15_registrations_take_a_group_over_from_its_definitions_and_give_it_back() {
    let Some(cluster) = Cluster::start().await else { return };
    cluster.apply([definition()].iter()).await;
    wait_for("the definition's registration", async || is_the_definitions(&cluster).await.then_some(())).await;
    let theirs = json!({"apiVersion": "apps.karmada.io/v1alpha1", "kind": "WorkloadRebalancer",
        "metadata": {"name": "theirs"}, "spec": {}});
    wait_for("the definition to be served", async || {
        let reply = cluster.admin().get("/apis/apps.karmada.io/v1alpha1/workloadrebalancers").await;
        (reply.code == 200).then_some(())
    })
    .await;
    cluster.apply([theirs].iter()).await;
    let list = ["get", "workloadrebalancers", "-o", "name"];
    let _ballast = cluster.install_ballast().await;
    assert_eq!(registered(&cluster).await["spec"]["service"]["name"], "ballast");
    assert_eq!(cluster.kubectl("admin", &list), "", "theirs is kept by kube-apiserver, and shown by nobody");
    // A change of the definition makes the aggregator check its registrations again.
    cluster.kubectl("admin", &["label", "crd", "workloadrebalancers.apps.karmada.io", "looked=at"]);
    cluster.kubectl("admin", &["create", "-f", &cluster.file("ours.json", &json!({
        "apiVersion": "apps.karmada.io/v1alpha1", "kind": "WorkloadRebalancer", "metadata": {"name": "ours"},
        "spec": {"workloads": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "namespace": "shop"}]},
    }).to_string())]);
    assert_eq!(cluster.kubectl("admin", &list), "workloadrebalancer.apps.karmada.io/ours\n");
    assert_eq!(registered(&cluster).await["metadata"]["labels"][MANAGED], "false");

    cluster.kubectl("admin", &["delete", "apiservice", SERVICE]);
    wait_for("the definition's registration", async || is_the_definitions(&cluster).await.then_some(())).await;
    let shown = wait_for("what it kept", async || {
        let output = cluster.try_kubectl("admin", &list);
        String::from_utf8(output.stdout).ok().filter(|it| it.contains("theirs"))
    });
    assert_eq!(shown.await, "workloadrebalancer.apps.karmada.io/theirs\n");
}
