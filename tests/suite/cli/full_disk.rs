//! A server on a full disk reports this in responses to writes and in `/readyz`, and writes again
//! once there is space. The disk is a small file system in a separate mount namespace. If the
//! machine does not support that, the test prints so and passes.

use std::path::Path;

use http::{Method, StatusCode};

use crate::process::ServerProcess;
use crate::support::objects::{BINDINGS, binding};
use crate::support::small_disk::run_on_small_disk;
use crate::support::wait_for;

/// Set in the child process on the small disk, to its path.
const SMALL_DISK: &str = "BALLAST_TEST_SERVER_DISK";

#[test]
fn he6_a_server_on_a_full_disk_says_so_and_writes_again_when_there_is_space() {
    run_on_small_disk("cli::full_disk::on_the_small_disk", SMALL_DISK, 8);
}

/// Runs in the child process on the small disk. Without its variable it does nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_the_small_disk() {
    let Ok(place) = std::env::var(SMALL_DISK) else { return };
    let filler = Path::new(&place).join("filler");
    std::fs::write(&filler, vec![0; 3 << 20]).unwrap();
    let server = ServerProcess::start(Path::new(&place), &[]);
    let client = server.client().await;
    let mut made = 0;
    let error = loop {
        let mut object = binding(&format!("web-{made}"));
        object["metadata"]["annotations"] = serde_json::json!({"words": "x".repeat(10_000)});
        match client.post(BINDINGS, &object).await {
            Ok(_) => made += 1,
            Err(error) => break error.to_string(),
        }
        assert!(made < 2000, "eight megabytes cannot hold that");
    };
    assert!(error.starts_with("503") && error.contains("the disk is full"), "{error}");
    let readiness = async || client.send(Method::GET, "/readyz", None, Default::default()).await.unwrap().0;
    let storage = async || client.send(Method::GET, "/readyz/storage", None, Default::default()).await.unwrap().0;
    wait_for("readiness to fail", async || (readiness().await != StatusCode::OK).then_some(())).await;
    assert_ne!(storage().await, StatusCode::OK, "it is this check that fails");
    assert!(client.get(BINDINGS).await.is_ok(), "what is there can be read");

    std::fs::remove_file(&filler).unwrap();
    wait_for("readiness to return", async || (readiness().await == StatusCode::OK).then_some(())).await;
    client.post(BINDINGS, &binding("after")).await.expect("there is space again");
}

/// Standard error often goes to a file on the same disk.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_that_cannot_be_written_stops_nobody() {
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("/dev/full", folder.path().join("log")).unwrap();
    let server = ServerProcess::start(folder.path(), &["-v", "2"]);
    let client = server.client().await;
    for number in 0..20 {
        client.post(BINDINGS, &binding(&format!("web-{number}"))).await.unwrap();
    }
    assert!(client.get(BINDINGS).await.is_ok());
    assert!(server.terminate().success());
}
