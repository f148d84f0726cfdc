//! `ballast preview --out` and `ballast rebalance -f` (SG3).

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use super::operator::after_an_outage;
use crate::process::ServerProcess;

const CREB: &str = "/apis/ballast.dev/v1alpha1/clusterrebalances";
const BINDING: &str = "/apis/work.karmada.io/v1alpha2/namespaces/default/resourcebindings/demo-deploy-1-deployment";

fn ballast(folder: &Path, line: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ballast"));
    command.args(line.split_whitespace()).stdin(Stdio::null()).current_dir(folder);
    command.env("KUBECONFIG", folder.join("certs/admin.kubeconfig")).output().expect("the binary runs")
}

/// Returns the output of a line that exits with this status.
fn told(folder: &Path, line: &str, status: i32) -> String {
    let done = ballast(folder, line);
    let text = [done.stdout, done.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    assert_eq!(done.status.code(), Some(status), "ballast {line}\n{text}");
    text
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sg3_a_plan_in_a_file_runs_while_it_is_the_plan_and_exits_with_1_where_it_has_changed() {
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(folder.path(), &[]);
    let client = after_an_outage(&server).await;
    let run = |line: &str, status: i32| told(folder.path(), line, status);

    let shown = run("preview --displaced -A --out plan.yaml", 0);
    assert!(shown.contains("ballast rebalance -f plan.yaml"), "{shown}");
    let file = std::fs::read_to_string(folder.path().join("plan.yaml")).unwrap();
    let plan: Value = serde_saphyr::from_str(&file).unwrap();
    assert_eq!((&plan["kind"], &plan["spec"]["mode"]), (&json!("ClusterRebalance"), &json!("AsBefore")));
    assert!(plan["spec"]["expectPlan"].as_str().unwrap().ends_with("-1-2"), "{file}");

    // The plan begins cautiously, and flags change that, here and where it runs.
    let rollout = |plan: &Value| {
        let rollout = &plan["spec"]["rollout"];
        json!([rollout["strategy"], rollout["maxConcurrent"], rollout["abortOn"]["failed"]])
    };
    assert_eq!(rollout(&plan), json!(["SurgeFirst", "10%", "10%"]), "{file}");
    run("preview --displaced -A --direct --max-concurrent 2 --out direct.yaml", 0);
    let direct = std::fs::read_to_string(folder.path().join("direct.yaml")).unwrap();
    assert_eq!(rollout(&serde_saphyr::from_str(&direct).unwrap()), json!(["Direct", 2, "10%"]), "{direct}");
    let tried = run("rebalance -f direct.yaml --surge --all-at-once --approval --dry-run", 0);
    let tried: Value = serde_saphyr::from_str(&tried).unwrap();
    assert_eq!(rollout(&tried), json!(["SurgeFirst", null, "10%"]), "{tried}");
    assert_eq!(
        (&tried["spec"]["approval"], &tried["spec"]["expectPlan"]),
        (&json!("Required"), &plan["spec"]["expectPlan"])
    );
    assert!(run("preview --displaced -A --order name --out named.yaml", 0).contains("named.yaml"));
    let named = std::fs::read_to_string(folder.path().join("named.yaml")).unwrap();
    assert!(named.contains("order: Name") && named.contains("maxConcurrent: 10%"), "{named}");

    // A supposed plan cannot be run, and the limits are in the file.
    assert!(run("preview -A --suppose-lost member1 --out no.yaml", 2).contains("--out"));
    assert!(!folder.path().join("no.yaml").exists());
    assert!(run("rebalance -f plan.yaml --max-moved-replicas 1 --yes", 2).contains("in the file"));
    assert!(run("rebalance -f missing.yaml --yes", 2).contains("missing.yaml"));

    // The plan has changed: the workload has another size.
    client.merge_patch(BINDING, &json!({"spec": {"replicas": 2}})).await.unwrap();
    let sized = |object: &Value| {
        let clusters = object["spec"]["clusters"].as_array().cloned().unwrap_or_default();
        clusters.iter().filter_map(|it| it["replicas"].as_i64()).sum::<i64>() == 2
    };
    crate::process::wait(&client, BINDING.rsplit_once('/').unwrap().0, sized).await;
    let refused = run("rebalance -f plan.yaml --yes --wait", 1);
    assert!(refused.contains("PlanChanged") && refused.contains("expected 1 move (2 replicas)"), "{refused}");
    assert_eq!(client.get(CREB).await.unwrap()["items"], json!([]), "nothing is created");

    run("preview --displaced -A --out plan.yaml", 0);
    let done = run("rebalance -f plan.yaml --yes --wait", 0);
    assert!(done.contains("is completed"), "{done}");
    let made = client.get(CREB).await.unwrap()["items"][0].clone();
    assert_eq!(rollout(&made), json!(["SurgeFirst", "10%", "10%"]));
    // The same plan is now out of date.
    assert!(run("rebalance -f plan.yaml --yes --wait", 1).contains("PlanChanged"));

    // A file without a plan is pinned to the shown one, and flags override the inherited rollout of
    // an undo.
    let undo = json!({"apiVersion": "ballast.dev/v1alpha1", "kind": "ClusterRebalance", "metadata": {"name": "back"},
        "spec": {"undo": {"name": made["metadata"]["name"]}}});
    std::fs::write(folder.path().join("undo.yaml"), undo.to_string()).unwrap();
    run("rebalance -f undo.yaml --max-concurrent 3 --yes --wait", 0);
    let back = client.get(&format!("{CREB}/back")).await.unwrap();
    assert_eq!(rollout(&back), json!(["SurgeFirst", 3, "10%"]));
    assert!(back["spec"]["expectPlan"].as_str().is_some_and(|plan| plan.contains("-1-")), "{back}");
    assert!(server.terminate().success());
}
