//! `--history-max-bytes` of the built binary, on SQLite.

use ballast::cli::client::Client;
use http::Method;
use http_body_util::BodyExt;
use serde_json::{Value, json};

use crate::process::ServerProcess;
use crate::support::objects::{BINDINGS, binding};
use crate::support::{metric, wait_for};

/// The minimum of the flag.
const QUOTA: usize = 16 << 20;
const TEXT: usize = 200_000;

/// The log warns before the quota is reached. Then the oldest changes are removed, but no state.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn li13_the_oldest_changes_go_when_the_history_has_no_room_and_no_state_does() {
    let folder = tempfile::tempdir().unwrap();
    let flags = ["--history-max-bytes", "16Mi", "--history", "1h"];
    let server = ServerProcess::start(folder.path(), &flags);
    let client = server.client().await;
    let logged = async |words: &str| {
        let log = std::fs::read_to_string(folder.path().join("log")).unwrap();
        log.contains(words).then_some(())
    };
    let measured = async |name: &str| {
        let (_, body) = client.send(Method::GET, "/metrics", None, Default::default()).await.unwrap();
        let text = body.collect().await.unwrap().to_bytes();
        metric(std::str::from_utf8(&text).unwrap(), name)
    };
    let kept = client.post(BINDINGS, &binding("kept")).await.unwrap();
    client.post(BINDINGS, &binding("large")).await.unwrap();
    let mut turn = 0;
    let mut write = async |times: usize| {
        let mut newest = Value::Null;
        for _ in 0..times {
            turn += 1;
            let text = format!("{turn} {}", "x".repeat(TEXT));
            let patch = json!({"metadata": {"annotations": {"text": text}}});
            newest = client.merge_patch(&format!("{BINDINGS}/large"), &patch).await.unwrap();
        }
        newest["metadata"]["resourceVersion"].as_str().unwrap().to_owned()
    };
    let asked = async |client: &Client, revision: &str| {
        let spec = json!({"select": [{}], "asOf": {"revision": revision}, "mode": "AsIs"});
        let review = json!({"apiVersion": "ballast.dev/v1alpha1", "kind": "PlacementReview", "spec": spec});
        client.post("/apis/ballast.dev/v1alpha1/placementreviews", &review).await.map_err(|error| error.to_string())
    };

    let early = write(1).await;
    write(QUOTA * 9 / 10 / TEXT).await;
    wait_for("the warning", async || logged("the past nearly takes --history-max-bytes").await).await;
    assert!(logged("the past is shorter").await.is_none(), "it is told before");
    asked(&client, &early).await.expect("everything is remembered so far");

    let young = write(QUOTA / 3 / TEXT).await;
    let newest = write(QUOTA / 8 / TEXT).await;
    wait_for("the oldest to go", async || logged("there was more than --history-max-bytes keeps").await).await;
    wait_for("the event", async || {
        let events = client.get("/api/v1/namespaces/default/events").await.ok()?;
        let told = |event: &Value| event["reason"] == "HistoryCutShort" && event["type"] == "Warning";
        events["items"].as_array()?.iter().any(told).then_some(())
    })
    .await;
    wait_for("the quota to hold", async || {
        (measured("ballast_store_history_bytes").await <= QUOTA as f64).then_some(())
    })
    .await;
    assert!(measured("ballast_store_history_bytes").await > QUOTA as f64 / 2.0, "and no more than that");
    assert!((measured("ballast_store_history_bytes_limit").await - QUOTA as f64).abs() < 1.0);

    // A restarted server has no history in memory.
    server.kill();
    let server = ServerProcess::start(folder.path(), &flags);
    let client = server.client().await;
    let refused = asked(&client, &early).await.unwrap_err();
    assert!(refused.contains("not remembered any more"), "{refused}");
    asked(&client, &young).await.expect("the youngest is remembered");
    let large = client.get(&format!("{BINDINGS}/large")).await.unwrap();
    assert_eq!(large["metadata"]["resourceVersion"], newest);
    let again = client.get(&format!("{BINDINGS}/kept")).await.unwrap();
    assert_eq!(again["metadata"]["resourceVersion"], kept["metadata"]["resourceVersion"]);
}
