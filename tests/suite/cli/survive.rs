//! `ballast survive` and its exit status (SG21).

use serde_json::json;

use super::operator::{after_an_outage, told};
use crate::process::ServerProcess;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sg21_survive_exits_with_3_where_something_is_stranded_and_2_for_a_domain_that_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(folder.path(), &[]);
    let client = after_an_outage(&server).await;
    let run = |line: &str, status: i32| told(folder.path(), line, status);
    // It has failed over to its last group.
    let shown = run("survive", 3);
    let why = "without cluster member2, 4 replicas of 1 workload would fit nowhere";
    assert!(shown.contains("default/demo-deploy-1") && shown.contains(why), "{shown}");
    run("survive member2", 3);
    assert!(shown.contains("1 of 2 clusters would strand workloads if lost alone."), "{shown}");
    assert!(run("survive member1", 0).contains("The loss of this cluster would strand no workload."));
    assert!(run("survive member3", 2).contains("no cluster member3; did you mean member"));
    // Goals and their tolerances.
    let balance = "preview -A --objective balance --resource cpu --tolerance";
    assert!(run(&format!("{balance} 0%"), 0).contains("Objective: "));
    assert!(run(&format!("{balance} 101%"), 2).contains("percentage from 0% to 100%"));
    assert!(run("preview -A --tolerance 2%", 2).contains("--objective"));
    assert!(run("survive --by zone", 2).contains("no cluster says of which zone it is"));
    // A cluster that is down cannot be supposed to fail.
    let path = "/apis/cluster.karmada.io/v1alpha1/clusters/member1/status";
    let lost = json!({"status": {"conditions": [{"type": "Ready", "status": "False", "reason": "r", "message": "m",
        "lastTransitionTime": "2026-11-27T03:00:00Z"}]}});
    client.merge_patch(path, &lost).await.unwrap();
    assert!(run("survive member1", 2).contains("cluster member1 is lost already"));
    let shown = run("survive", 3);
    assert!(!shown.contains("member1"), "{shown}");
}
