//! A user with rights in one namespace and without the right to list clusters.

use std::path::Path;

use serde_json::{Value, json};

use super::operator::{after_an_outage, told};
use crate::process::{ServerProcess, wait};

const TOKEN: &str = "dev-token";
const TOKENS: &str = "sha256:c91cbbedf8c712e8e2b7517ddeca8fe4fde839ebd8339e0b2001363002b37712,dev,1,\"developers\"";
const POLICY: &str = r#"rules:
- groups: [developers]
  namespaces: [default]
  verbs: ["*"]
  apiGroups: ["*"]
  resources: ["*"]
"#;
const CLUSTERS: &str = "/apis/cluster.karmada.io/v1alpha1/clusters";
const BINDING: &str = "/apis/work.karmada.io/v1alpha2/namespaces/default/resourcebindings/demo-deploy-1-deployment";

/// Writes a kubeconfig of the user as the default of commands in this folder.
fn become_developer(folder: &Path, server: &ServerProcess) {
    let certs = folder.join("certs");
    let config = json!({"apiVersion": "v1", "kind": "Config", "current-context": "dev",
        "clusters": [{"name": "b", "cluster": {"server": format!("https://{}", server.address),
            "certificate-authority": certs.join("ca.crt")}}],
        "users": [{"name": "dev", "user": {"token": TOKEN}}],
        "contexts": [{"name": "dev", "context": {"cluster": "b", "user": "dev", "namespace": "default"}}]});
    std::fs::write(certs.join("admin.kubeconfig"), config.to_string()).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_of_one_namespace_sees_what_is_down_there() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("tokens"), TOKENS).unwrap();
    std::fs::write(folder.path().join("policy"), POLICY).unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (tokens, policy) = (path("tokens"), path("policy"));
    let flags = ["--token-auth-file", &tokens, "--authorization-policy-file", &policy];
    let server = ServerProcess::start(folder.path(), &flags);
    let client = after_an_outage(&server).await;
    let whole = told(folder.path(), "survive member2", 3);
    become_developer(folder.path(), &server);
    let run = |line: &str, status: i32| told(folder.path(), line, status);

    let own = run("survive member2 -n default", 3);
    assert_eq!(own.lines().last(), whole.lines().last(), "all workloads are in his namespace");
    let report = json!({"status": {"aggregatedStatus": [{"clusterName": "member2", "applied": true,
        "health": "Healthy", "status": {"replicas": 4, "readyReplicas": 4}}]}});
    client.merge_patch(&format!("{BINDING}/status"), &report).await.unwrap();
    let row = |top: &str| -> Value {
        let rows: Value = serde_json::from_str(top).unwrap();
        let row = rows.as_array().unwrap().iter().find(|row| row["name"] == "member2").unwrap();
        json!([row["ready"], row["replicas"], row["counts"]])
    };
    let counts = |ready: i64| json!({"workloads": 1, "wanted": 4, "ready": ready, "missing": 4 - ready});
    assert_eq!(row(&run("top -n default -o json", 0)), json!(["True", 4, counts(4)]));
    let lost = json!({"status": {"conditions": [{"type": "Ready", "status": "False", "reason": "r", "message": "m",
        "lastTransitionTime": "2026-11-27T03:00:00Z"}]}});
    client.merge_patch(&format!("{CLUSTERS}/member2/status"), &lost).await.unwrap();
    wait(&client, CLUSTERS, |it| it["status"]["conditions"][0]["status"] == "False").await;
    assert_eq!(row(&run("top -n default -o json", 0)), json!(["False", 4, counts(0)]));
    let shown = run("top -n default", 0);
    assert!(shown.contains("0 of 4 wanted are ready, 4 missing"), "{shown}");
    assert!(shown.contains("Not shown: clusters.cluster.karmada.io is forbidden"), "{shown}");

    for line in ["top", "survive", "top -n shop", "survive -n shop"] {
        let refused = run(line, 1);
        assert!(refused.contains("forbidden") && !refused.contains("0 missing"), "{line}: {refused}");
    }
}
