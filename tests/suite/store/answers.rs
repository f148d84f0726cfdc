//! Messages to clients and the log when a write cannot be stored.

use std::time::Instant;

use ballast::node::certs::Files;
use http::Method;
use sqlx::ConnectOptions;
use sqlx::sqlite::SqliteConnectOptions;

use crate::process::ServerProcess;
use crate::support::objects::{REBALANCERS, rebalancer};
use crate::support::raw::Raw;
use crate::support::wait_for;

const JSON: (&str, &str) = ("content-type", "application/json");

#[tokio::test]
async fn a_client_hears_in_a_word_why_its_write_failed_and_the_log_one_line_for_all() {
    let home = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(home.path(), &["--log-format=json"]);
    let admin = Raw::admin(server.address, &Files::in_dir(&home.path().join("certs"))).connect().await;
    let mut beside = SqliteConnectOptions::new().filename(server.database()).connect().await.unwrap();
    let logged = || std::fs::read_to_string(home.path().join("log")).unwrap();
    let before = logged().len();

    sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut beside).await.unwrap();
    let refused = admin.send(Method::POST, REBALANCERS, &[JSON], rebalancer("one").to_string()).await;
    let told = Instant::now();
    let status = refused.json();
    assert_eq!((refused.code.as_u16(), &status["reason"]), (503, &"ServiceUnavailable".into()));
    assert_eq!(status["message"], "nothing can be written now: the database is locked by another program");
    let since = || Some(logged()[before..].to_owned());
    let lines = wait_for("the refusal", async || since().filter(|lines| lines.contains("failed to store"))).await;
    assert_eq!(lines.matches("ERROR").count(), 1, "{lines}");
    let line = lines.lines().find(|line| line.contains("failed to store changes")).unwrap();
    let line: serde_json::Value = serde_json::from_str(line).unwrap();
    assert!(line["error"].as_str().unwrap().ends_with("database is locked"), "{line}");
    // A rejection takes as long as the wait for the lock, and the log reports the next one ten
    // seconds later.
    let again = admin.send(Method::POST, REBALANCERS, &[JSON], rebalancer("two").to_string()).await;
    assert_eq!(again.code, 503);
    let most = 1 + usize::try_from(told.elapsed().as_secs() / 10).unwrap();
    let lines = logged()[before..].to_owned();
    assert!(lines.matches("ERROR").count() <= most, "{lines}");
    sqlx::raw_sql("ROLLBACK").execute(&mut beside).await.unwrap();

    let accepted = admin.send(Method::POST, REBALANCERS, &[JSON], rebalancer("one").to_string()).await;
    assert_eq!(accepted.code, 201);
    let lines = wait_for("the end of it", async || since().filter(|lines| lines.contains("stored again"))).await;
    let over = lines.lines().find(|line| line.contains("changes are stored again")).unwrap();
    let over: serde_json::Value = serde_json::from_str(over).unwrap();
    assert_eq!(over["calls"], 2, "{over}");
    assert!(server.terminate().success());
}
