//! The README's rebalance with kubectl against the built server. The test prints so and passes if
//! kubectl is not installed.

use std::path::Path;
use std::process::Stdio;

use serde_json::Value;
use tokio::process::Command;

use crate::process::{ServerProcess, WITHIN, wait};

/// Runs kubectl in the folder of the example's manifests, and returns its output. It must succeed.
async fn kubectl(folder: &Path, line: &str) -> String {
    let mut command = Command::new("kubectl");
    command.arg("--kubeconfig").arg(folder.join("certs/admin.kubeconfig")).args(line.split_whitespace());
    command.current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/rebalance")).env("HOME", folder);
    let output = tokio::time::timeout(WITHIN, command.stdin(Stdio::null()).kill_on_drop(true).output()).await;
    let output = output.unwrap_or_else(|_| panic!("kubectl {line} does not end")).unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "kubectl {line}\n{out}{err}");
    out.into_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r67_r75_kubectl_asks_for_a_rebalance_and_describes_where_the_replicas_went() {
    if !Command::new("kubectl").args(["version", "--client"]).output().await.is_ok_and(|it| it.status.success()) {
        crate::support::skipped("kubectl is not on the PATH");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(folder.path(), &[]);
    let client = server.client().await;
    let run = async |line: &str| kubectl(folder.path(), line).await;
    let created = "cluster.cluster.karmada.io/member1 created\ncluster.cluster.karmada.io/member2 created\n";
    assert_eq!(run("apply -f clusters.yaml").await, created);
    for cluster in ["member1", "member2"] {
        let patch = "--subresource=status --type=merge --patch-file cluster-status.yaml";
        run(&format!("patch cluster {cluster} {patch}")).await;
    }
    run("apply -f bindings.yaml").await;
    run("wait --for=condition=Scheduled rb/demo-deploy-1-deployment --timeout=50s").await;
    let away = async |cluster: &str| {
        run(&format!("wait --for=jsonpath={{.spec.clusters[0].name}}={cluster} rb --all --timeout=50s")).await;
    };
    run("patch cluster member1 --type=merge --patch-file member1-fails.yaml").await;
    away("member2").await;
    run("patch cluster member1 --type=merge --patch-file member1-recovers.yaml").await;
    let asked = run("create -f rebalancer.yaml").await;
    assert_eq!(asked, "workloadrebalancer.apps.karmada.io/demo created\n");
    away("member1").await;
    let back = "Result: {member1:2, member2:2}";
    let is_told = |event: &Value| {
        let message = event["message"].as_str().unwrap_or_default();
        event["involvedObject"]["kind"] == "ResourceBinding" && message.contains(back) && event["count"] == 2
    };
    wait(&client, "/api/v1/namespaces/default/events", is_told).await;
    let description = run("describe rb demo-deploy-1-deployment").await;
    let told = description.lines().find(|line| line.contains(back)).unwrap_or_default();
    for word in ["Normal", "ScheduleBindingSucceed", "(x2 over ", "default-scheduler"] {
        assert!(told.contains(word), "no {word} in {description}");
    }
    let events = run("get events --field-selector involvedObject.kind=Deployment").await;
    assert!(events.contains("deployment/demo-deploy-1") && events.contains(back), "on the template, too: {events}");
}
