//! `ballast backup` while the server writes, and a server that starts from the copy.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::Method;
use serde_json::Value;

use crate::process::ServerProcess;
use crate::support::objects::{REBALANCERS, rebalancer};
use crate::support::raw::Raw;
use crate::support::wait_for;

const JSON: (&str, &str) = ("content-type", "application/json");

fn admin(process: &ServerProcess, folder: &std::path::Path) -> Raw {
    Raw::admin(process.address, &ballast::node::certs::Files::in_dir(&folder.join("certs")))
}

fn backup(database: &std::path::Path, copy: &std::path::Path) -> std::process::Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ballast"));
    command.arg("backup").arg("--database-url").arg(format!("sqlite://{}", database.display())).arg(copy);
    command.output().unwrap()
}

#[tokio::test]
async fn a_copy_taken_while_the_server_writes_holds_all_that_was_acknowledged_before() {
    let (folder, restored) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let process = ServerProcess::start(folder.path(), &[]);
    let (client, acknowledged) = (admin(&process, folder.path()), Arc::new(AtomicUsize::new(0)));
    let writing = tokio::spawn({
        let (connection, acknowledged) = (client.connect().await, Arc::clone(&acknowledged));
        async move {
            for number in 0.. {
                let object = rebalancer(&format!("n{number}")).to_string();
                let Ok(answer) = connection.open(Method::POST, REBALANCERS, &[JSON], object).await else { return };
                assert_eq!(answer.status(), 201);
                acknowledged.fetch_add(1, Ordering::SeqCst);
            }
        }
    });
    wait_for("a few objects", async || (acknowledged.load(Ordering::SeqCst) > 20).then_some(())).await;
    let before = acknowledged.load(Ordering::SeqCst);
    let (database, copy) = (process.database(), restored.path().join("ballast.db"));
    let output = tokio::task::spawn_blocking(move || (backup(&database, &copy), backup(&database, &copy)));
    let (first, second) = output.await.unwrap();
    assert!(first.status.success(), "{}", String::from_utf8_lossy(&first.stderr));
    assert!(String::from_utf8_lossy(&first.stdout).contains("holds everything up to revision "));
    assert_eq!(second.status.code(), Some(2), "a copy that is there is not overwritten");
    let after = acknowledged.load(Ordering::SeqCst);
    wait_for("it to go on", async || (acknowledged.load(Ordering::SeqCst) > after).then_some(())).await;
    writing.abort();
    let newest: Value = client.get(REBALANCERS).await.json();
    process.kill();

    // The same certificates and clients, with an older database.
    let certs = restored.path().join("certs");
    std::fs::rename(folder.path().join("certs"), &certs).unwrap();
    let process = ServerProcess::start(restored.path(), &[]);
    let client = admin(&process, restored.path());
    let listed = client.get(REBALANCERS).await.json();
    let names: Vec<&str> =
        listed["items"].as_array().unwrap().iter().map(|it| it["metadata"]["name"].as_str().unwrap()).collect();
    for number in 0..before {
        assert!(names.contains(&&*format!("n{number}")), "n{number} was acknowledged before the copy began");
    }
    // A client that has seen newer revisions than the copy must not wait for them: they will be
    // reassigned.
    let revision = |object: &Value| object["metadata"]["resourceVersion"].as_str().unwrap().parse::<i64>().unwrap();
    let seen = revision(&newest);
    let watch = client.get(&format!("{REBALANCERS}?watch=1&resourceVersion={seen}&timeoutSeconds=5")).await;
    assert!(watch.text().contains("\"code\":410"), "{:?}: {}", watch.code, watch.text());
    let made = client.send(Method::POST, REBALANCERS, &[JSON], rebalancer("later").to_string()).await.json();
    assert!(revision(&made) > seen, "{made}");
    assert!(process.terminate().success());
}

#[test]
fn what_is_no_database_of_ours_is_not_copied() {
    let folder = tempfile::tempdir().unwrap();
    let (missing, text, copy) =
        (folder.path().join("missing.db"), folder.path().join("text"), folder.path().join("copy"));
    std::fs::write(&text, "no database").unwrap();
    for (database, code, why) in [(missing, 2, "there is no database at"), (text, 1, "text")] {
        let output = backup(&database, &copy);
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(code) && told.contains(why), "{}: {told}", database.display());
        assert!(!copy.exists());
    }
    let memory =
        Command::new(env!("CARGO_BIN_EXE_ballast")).args(["backup", "--database-url", "memory:", "x"]).output();
    assert_eq!(memory.unwrap().status.code(), Some(2));
}
