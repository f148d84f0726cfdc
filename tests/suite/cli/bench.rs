//! `ballast bench`: each row is measured, and no object remains at a peer.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::process::ServerProcess;

fn bench(flags: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ballast")).arg("bench").args(flags).output().unwrap()
}

#[tokio::test]
async fn a_peer_is_measured_with_the_same_requests_and_keeps_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let peer = ServerProcess::start(folder.path(), &[]);
    let kubeconfig = folder.path().join("certs/admin.kubeconfig");
    let output = bench(&["--bindings", "100", "--peer", kubeconfig.to_str().unwrap(), "-o", "json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = report["rows"].as_array().unwrap();
    let names: Vec<&str> = rows.iter().map(|row| row["what"].as_str().unwrap()).collect();
    let shared = ["create a binding", "read it", "patch an annotation", "list all: bindings"];
    let own = ["create and place: bindings", "review all: bindings", "rebalance all: bindings"];
    assert_eq!(names, [&shared[..], &own[..]].concat());
    for (row, name) in rows.iter().zip(names) {
        assert!(row["ballast"]["perSecond"].as_f64().unwrap() > 0.0, "{name}");
        assert_eq!(row["peer"]["perSecond"].as_f64().is_some_and(|it| it > 0.0), shared.contains(&name), "{name}");
    }
    let left = peer.client().await.get("/apis/work.karmada.io/v1alpha2/resourcebindings").await.unwrap();
    assert_eq!(left["items"], Value::Array(Vec::new()));
    assert!(peer.terminate().success());
}

#[test]
fn what_cannot_be_measured_is_said_before_anything_is() {
    let missing = Path::new("/nowhere/kubeconfig").display().to_string();
    for (flags, told) in [
        (&["--bindings", "99"][..], "99 is not in 100..=100000"),
        (&["--peer-context", "x"], "--peer <FILE>"),
        (&["--peer", &missing], "failed to use /nowhere/kubeconfig as kubeconfig"),
    ] {
        let output = bench(flags);
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), text.contains(told)), (Some(2), true), "{flags:?}: {text}");
        assert!(output.stdout.is_empty());
    }
}
