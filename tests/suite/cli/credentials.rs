//! Certificates of clients and servers, and their log lines.

use std::path::Path;
use std::process::Command;

use ballast::clock::{Clock, SystemClock};
use ballast::node::certs::{self, Files};

use crate::process::ServerProcess;
use crate::support::raw::Raw;

/// api-12: the line that explains expired certificates to an operator.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_says_why_a_credential_is_refused_once_in_a_while() {
    let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = ServerProcess::start(folder.path(), &[]);
    let files = Files::in_dir(&folder.path().join("certs"));
    let foreign = certs::ensure(elsewhere.path(), &[], SystemClock.now()).unwrap();
    let eve = Raw::with_certificate(server.address, &files, &foreign.admin_cert, &foreign.admin_key);
    for _ in 0..3 {
        assert_eq!(eve.get("/apis").await.code, 401);
    }
    assert!(server.terminate().success());
    let log = std::fs::read_to_string(folder.path().join("log")).unwrap();
    let told: Vec<&str> = log.lines().filter(|line| line.contains("answered 401 Unauthorized")).collect();
    assert_eq!(told.len(), 1, "{log}");
    assert!(told[0].contains("WARN") && told[0].contains("no CA of this server has signed it"), "{}", told[0]);
    assert!(told[0].contains(" address=127.0.0.1:"), "{}", told[0]);
    assert!(told[0].contains("O=system:masters") && told[0].contains(", serial "), "{}", told[0]);
}

/// api-07: `--cert-dir` is unused, so nothing is created there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_with_certificates_of_its_own_needs_no_folder_for_others() {
    let folder = tempfile::tempdir().unwrap();
    let files = certs::ensure(&folder.path().join("certs"), &[], SystemClock.now()).unwrap();
    let path = |path: &Path| path.to_str().unwrap().to_owned();
    let nowhere = folder.path().join("nowhere");
    std::fs::write(&nowhere, "a file").unwrap();
    let (certificate, key, ca) = (path(&files.server_cert), path(&files.server_key), path(&files.ca_cert));
    let own = ["--tls-cert-file", &certificate, "--tls-private-key-file", &key, "--client-ca-file", &ca];
    let server = ServerProcess::start_with_certs(folder.path(), &nowhere, &own);
    assert_eq!(Raw::admin(server.address, &files).get("/readyz").await.code, 200);
    assert!(server.terminate().success());
    let mut command = Command::new(env!("CARGO_BIN_EXE_ballast"));
    let refused = command.args(["serve", "--database-url", "memory:", "--cert-dir"]).arg(&nowhere).output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains(&format!("failed to create {} (--cert-dir)", nowhere.display())), "{said}");
}
