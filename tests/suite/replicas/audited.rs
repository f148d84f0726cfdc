//! A write that a replica forwards is in the audit logs of both replicas.

use std::path::Path;

use http::Method;
use serde_json::{Value, json};

use crate::process::ServerProcess;
use crate::support::objects::{REBALANCERS, rebalancer};
use crate::support::postgres::Cluster;
use crate::support::raw::Raw;
use crate::support::wait_for;

/// The last event about the request with this id, once it is in the file.
async fn event(log: &Path, id: &str) -> Value {
    wait_for("the event", async || {
        let text = std::fs::read_to_string(log).ok()?;
        let mut events = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        events.find(|event| event["auditID"] == id && event["stage"] == "ResponseComplete")
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wh3_a_forwarded_write_is_in_the_audit_log_of_the_leader_too() {
    let Some(cluster) = Cluster::shared() else { return };
    let folder = tempfile::tempdir().unwrap();
    let url = cluster.schema().await;
    let logs = ["first", "second"].map(|name| folder.path().join(name));
    let serve =
        |log: &Path| ServerProcess::start_on(folder.path(), &url, &["--audit-log-path", &log.display().to_string()]);
    // The first one leads.
    let (leader, follower) = (serve(&logs[0]), serve(&logs[1]));
    let files = ballast::node::certs::Files::in_dir(&folder.path().join("certs"));
    let admin = Raw::admin(follower.address, &files);
    // The origin of the follower's page; the leader accepts it.
    let headers = [
        ("content-type", "application/json"),
        ("origin", "https://localhost"),
        ("x-forwarded-for", "192.0.2.7"),
        ("impersonate-user", "jane"),
        ("impersonate-group", "system:masters"),
        ("audit-id", "forwarded-1"),
    ];
    let made = admin.send(Method::POST, REBALANCERS, &headers, rebalancer("one").to_string()).await;
    assert_eq!(made.code, 201, "{}", made.text());

    let there = event(&logs[1], "forwarded-1").await;
    assert_eq!(
        (&there["user"]["username"], &there["impersonatedUser"]["username"]),
        (&json!("ballast-admin"), &json!("jane"))
    );
    let here = event(&logs[0], "forwarded-1").await;
    assert_eq!((&here["user"]["username"], &here["verb"]), (&json!("jane"), &json!("create")));
    assert_eq!(
        (&here["responseStatus"]["code"], &here["objectRef"]["name"]),
        (&json!(201), &there["objectRef"]["name"])
    );
    assert_eq!(here["sourceIPs"], json!(["192.0.2.7", "127.0.0.1"]), "the client's, and the follower's");
    let reason = here["annotations"]["authorization.k8s.io/reason"].as_str().unwrap();
    assert!(reason.contains("forwards it"), "{reason}");

    // A client without the certificate of a replica is anonymous, also in the log.
    let forged = [
        ("x-ballast-forwarded", "1"),
        ("x-remote-user", "ghost"),
        ("x-remote-group", "system:masters"),
        ("content-type", "application/json"),
        ("audit-id", "forged-1"),
    ];
    let forger = Raw::admin(leader.address, &files);
    let refused = forger.send(Method::POST, REBALANCERS, &forged, rebalancer("two").to_string()).await;
    assert_eq!(refused.code, 401, "{}", refused.text());
    assert_eq!(event(&logs[0], "forged-1").await["responseStatus"]["code"], 401);
    assert!(follower.terminate().success() && leader.terminate().success());
}
