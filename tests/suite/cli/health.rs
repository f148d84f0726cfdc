//! `ballast health`, and the address at which a server is reached.

use std::path::Path;
use std::process::{Command, Output};

use crate::process::ServerProcess;
use crate::support::wait_for;

fn health(folder: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ballast"));
    command.current_dir(folder).arg("health").args(words).output().expect("the binary runs")
}

/// Returns the exit status and both outputs.
fn told(output: &Output) -> (Option<i32>, String) {
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout) + &text(&output.stderr))
}

#[tokio::test]
async fn health_tells_a_ready_server_from_one_that_drains_and_from_none() {
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(folder.path(), &["--shutdown-delay-duration=60s"]);
    let url = format!("https://{}", server.address);
    assert_eq!(told(&health(folder.path(), &[])), (Some(0), format!("{url} is ready\n")));

    server.ask_to_end();
    let (code, text) = wait_for("the server to drain", async || {
        Some(told(&health(folder.path(), &[]))).filter(|(code, _)| *code != Some(0))
    })
    .await;
    assert_eq!((code, &*text), (Some(1), &*format!("ballast: {url} is not ready: these checks fail: shutdown\n")));

    server.kill();
    let (code, text) = told(&health(folder.path(), &[]));
    assert!(code == Some(1) && text.contains(&format!("{url} is not reachable")), "{code:?} {text}");
    assert!(text.contains("refused") && text.lines().count() == 1, "{text}");
}

#[test]
fn health_trusts_the_development_ca_and_nothing_else_unless_told_otherwise() {
    let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = ServerProcess::start(folder.path(), &[]);
    let url = format!("https://localhost:{}", server.address.port());
    let by_url = ["--server", &*url];
    let insecure = ["--server", &*url, "--insecure-skip-tls-verify"];

    // There is no CA to trust.
    let (code, text) = told(&health(elsewhere.path(), &by_url));
    assert!(code == Some(1) && text.contains("--cert-dir") && text.contains("--kubeconfig"), "{code:?} {text}");
    assert_eq!(told(&health(elsewhere.path(), &insecure)).0, Some(0));

    // The CA alone suffices.
    let certs = elsewhere.path().join("certs");
    std::fs::create_dir(&certs).unwrap();
    std::fs::copy(folder.path().join("certs/ca.crt"), certs.join("ca.crt")).unwrap();
    assert_eq!(told(&health(elsewhere.path(), &by_url)), (Some(0), format!("{url} is ready\n")));

    // The CA of another server does not.
    let other = tempfile::tempdir().unwrap();
    let made = Command::new(env!("CARGO_BIN_EXE_ballast")).current_dir(other.path()).arg("certs").output().unwrap();
    assert!(made.status.success());
    let (code, text) = told(&health(other.path(), &by_url));
    assert!(code == Some(1) && text.contains("certificate"), "{code:?} {text}");
    let kubeconfig = folder.path().join("certs/admin.kubeconfig");
    let by_kubeconfig = ["--kubeconfig", kubeconfig.to_str().unwrap()];
    assert_eq!(told(&health(other.path(), &by_kubeconfig)).0, Some(0));
}

#[test]
fn a_server_on_every_address_names_one_that_its_certificate_holds() {
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(folder.path(), &["--bind-address=0.0.0.0"]);
    assert_eq!(server.address.ip().to_string(), "127.0.0.1", "the ready line");
    let kubeconfig = std::fs::read_to_string(folder.path().join("certs/admin.kubeconfig")).unwrap();
    assert!(kubeconfig.contains(&format!("server: https://127.0.0.1:{}\n", server.address.port())), "{kubeconfig}");
    assert_eq!(told(&health(folder.path(), &[])).0, Some(0), "the kubeconfig leads to it");
}

#[test]
fn a_server_on_one_address_is_verified_there_also_after_that_has_changed() {
    let folder = tempfile::tempdir().unwrap();
    for address in ["127.0.0.2", "127.0.0.3"] {
        let server = ServerProcess::start(folder.path(), &["--bind-address", address]);
        assert_eq!(server.address.ip().to_string(), address);
        assert_eq!(told(&health(folder.path(), &[])).0, Some(0), "{address}");
    }
}
