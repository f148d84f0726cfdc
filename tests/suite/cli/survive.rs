//! `ballast survive` and its exit status (SG21).

use super::operator::{after_an_outage, told};
use crate::process::ServerProcess;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sg21_survive_exits_with_3_where_something_is_stranded_and_2_for_a_domain_that_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(folder.path(), &[]);
    let _client = after_an_outage(&server).await;
    let run = |line: &str, status: i32| told(folder.path(), line, status);
    // It has fled to its last group.
    let shown = run("survive", 3);
    let why = "without cluster member2, 4 replicas of 1 workload would fit nowhere";
    assert!(shown.contains("default/demo-deploy-1") && shown.contains(why), "{shown}");
    run("survive member2", 3);
    assert!(run("survive member1", 0).contains("The loss of 1 of 1 cluster strands nothing."));
    assert!(run("survive member3", 2).contains("no cluster member3; did you mean member"));
    assert!(run("survive --by zone", 2).contains("no cluster says of which zone it is"));
}
