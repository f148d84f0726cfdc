//! The host cluster's webhooks, over TLS, for requests that its kube-apiserver forwards to Ballast.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::kube_apiserver::Cluster;
use crate::support::wait_for;

/// `/label` adds a label to each object, and `/guard` rejects objects named `bad`.
fn answer(path: &str, review: &Value) -> Value {
    let request = &review["request"];
    let mut response = json!({"uid": request["uid"], "allowed": true, "warnings": [format!("{path} was here")]});
    if path == "/label" {
        let patch = json!([{"op": "add", "path": "/metadata/labels", "value": {"by": "hook"}}]);
        response["patchType"] = json!("JSONPatch");
        response["patch"] = json!(STANDARD.encode(patch.to_string()));
    } else if request["name"] == "bad" {
        response["allowed"] = json!(false);
        response["status"] = json!({"message": "not this one", "code": 403});
    }
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
}

/// Serves webhooks as long as the set exists. Returns the port.
async fn serve(cluster: &Cluster) -> (u16, JoinSet<()>) {
    let (cert, key) = cluster.serving_certificate();
    let chain = CertificateDer::pem_file_iter(cert).unwrap().collect::<Result<Vec<_>, _>>().unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_no_client_auth().with_single_cert(chain, PrivateKeyDer::from_pem_file(key).unwrap());
    let acceptor = TlsAcceptor::from(Arc::new(config.unwrap()));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut serving = JoinSet::new();
    serving.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            connections.spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else { return };
                let service = service_fn(|request: http::Request<hyper::body::Incoming>| async move {
                    let path = request.uri().path().to_owned();
                    let body = request.into_body().collect().await?.to_bytes();
                    let review: Value = serde_json::from_slice(&body).unwrap_or_default();
                    let body = Full::new(Bytes::from(answer(&path, &review).to_string()));
                    Ok::<_, hyper::Error>(http::Response::new(body))
                });
                let http1 = hyper::server::conn::http1::Builder::new();
                let _gone = http1.serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
    (port, serving)
}

fn configuration(cluster: &Cluster, kind: &str, path: &str, port: u16) -> Value {
    json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": "fleet"},
        "webhooks": [{"name": "fleet.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": format!("https://127.0.0.1:{port}{path}"), "caBundle": STANDARD.encode(cluster.ca_pem())},
            "rules": [{"apiGroups": ["apps.karmada.io", "placement.kubernetes-fleet.io"], "apiVersions": ["v1alpha1", "v1beta1"],
                "operations": ["CREATE", "UPDATE"], "resources": ["workloadrebalancers", "clusterresourceplacements"]}]}]})
}

#[tokio::test(flavor = "multi_thread")]
async fn ad3_the_host_clusters_webhooks_change_and_refuse_what_kubectl_sends() {
    let Some(cluster) = Cluster::start().await else { return };
    let _ballast = cluster.install_ballast().await;
    let (port, _serving) = serve(&cluster).await;
    let configurations = [
        configuration(&cluster, "MutatingWebhookConfiguration", "/label", port),
        configuration(&cluster, "ValidatingWebhookConfiguration", "/guard", port),
    ];
    cluster.apply(configurations.iter()).await;
    let rebalancer = |name: &str| {
        let object = json!({"apiVersion": "apps.karmada.io/v1alpha1", "kind": "WorkloadRebalancer",
            "metadata": {"name": name},
            "spec": {"workloads": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "namespace": "shop"}]}});
        cluster.file("rebalancer.json", &object.to_string())
    };
    let refused = wait_for("the guard", async || {
        let output = cluster.try_kubectl("admin", &["create", "-f", &rebalancer("bad")]);
        cluster.try_kubectl("admin", &["delete", "workloadrebalancer", "bad"]);
        let said = String::from_utf8(output.stderr).unwrap();
        said.contains("denied the request").then_some(said)
    });
    let refused = refused.await;
    assert!(refused.contains("admission webhook \"fleet.example.com\" denied the request: not this one"), "{refused}");
    assert!(refused.contains("Warning: /guard was here"), "{refused}");
    let by = "jsonpath={.metadata.labels.by}";
    for verb in [&["create"][..], &["apply", "--server-side", "--force-conflicts"], &["apply", "--server-side"]] {
        let file = rebalancer("good");
        cluster.kubectl("admin", &[verb, &["-f", &file]].concat());
        assert_eq!(cluster.kubectl("admin", &["get", "workloadrebalancer", "good", "-o", by]), "hook", "{verb:?}");
    }
    // The rules contain v1beta1; the client uses v1.
    let placement = json!({"apiVersion": "placement.kubernetes-fleet.io/v1", "kind": "ClusterResourcePlacement",
        "metadata": {"name": "all"}, "spec": {"policy": {"placementType": "PickAll"},
            "resourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": "shop"}]}});
    cluster.kubectl("admin", &["create", "-f", &cluster.file("placement.json", &placement.to_string())]);
    assert_eq!(cluster.kubectl("admin", &["get", "clusterresourceplacements", "all", "-o", by]), "hook");
}
