//! Requests to member clusters, with the secrets and the reviews of the host cluster.

use std::fs;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Method;
use serde_json::json;

use crate::support::aggregated::Aggregated;
use crate::support::host::Fault;
use crate::support::member::{Member, cluster};

const CLUSTERS: &str = "/apis/cluster.karmada.io/v1alpha1/clusters";
const THROUGH: &str = "/apis/cluster.karmada.io/v1alpha1/clusters/m1/proxy/api/v1/pods";
const SECRETS: &str = "/api/v1/namespaces/karmada-cluster/secrets";
const MASTER: [(&str, &str); 3] =
    [("X-Remote-User", "admin"), ("X-Remote-Group", "system:masters"), ("Content-Type", "application/json")];
const JANE: [(&str, &str); 2] = [("X-Remote-User", "jane"), ("X-Remote-Group", "staff")];

#[tokio::test]
async fn cp3_cp1_behind_a_host_cluster_its_secrets_and_its_reviews_count() {
    let member = Member::start().await;
    let server = Aggregated::start().await;
    let proxy = server.proxy();
    let made = proxy.send(Method::POST, CLUSTERS, &MASTER, cluster(member.address).to_string()).await;
    assert_eq!(made.code, 201, "{}", made.text());

    let missing = proxy.send(Method::GET, THROUGH, &MASTER, "").await;
    assert_eq!(missing.code, 503);
    assert!(missing.text().contains("secret karmada-cluster/m1: there is none"), "{}", missing.text());
    server.host.break_below(SECRETS, Fault::Code(403));
    let refused = proxy.send(Method::GET, THROUGH, &MASTER, "").await;
    assert_eq!(refused.code, 503);
    assert!(refused.text().contains("the host cluster did not give it"), "{}", refused.text());
    server.host.mend();

    let ca = STANDARD.encode(fs::read(&member.files.ca_cert).unwrap());
    let data = json!({"caBundle": ca, "token": STANDARD.encode("from-the-host")});
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "m1"}, "data": data});
    server.host.put(&format!("{SECRETS}/m1"), secret);
    let told = proxy.send(Method::GET, THROUGH, &MASTER, "").await;
    assert_eq!(told.code, 200, "{}", told.text());
    let heard = &told.json()["headers"];
    assert_eq!(heard["authorization"], json!(["Bearer from-the-host"]));
    assert_eq!(
        (&heard["impersonate-user"], &heard["impersonate-group"]),
        (&json!(["admin"]), &json!(["system:masters"]))
    );
    let read = server.host.asked(&format!("{SECRETS}/m1")).len();
    for _ in 0..5 {
        assert_eq!(proxy.send(Method::GET, THROUGH, &MASTER, "").await.code, 200);
    }
    assert_eq!(server.host.asked(&format!("{SECRETS}/m1")).len(), read, "secrets are not read with each request");

    assert_eq!(proxy.send(Method::DELETE, THROUGH, &JANE, "").await.code, 403);
    server.host.allow(|spec| {
        let asked = &spec["resourceAttributes"];
        asked["resource"] == "clusters"
            && asked["subresource"] == "proxy"
            && asked["name"] == "m1"
            && asked["verb"] == "get"
    });
    let told = proxy.send(Method::GET, THROUGH, &JANE, "").await;
    assert_eq!(told.code, 200, "{}", told.text());
    assert_eq!(told.json()["headers"]["impersonate-user"], json!(["jane"]));
    server.stop().await;
    member.stop().await;
}
