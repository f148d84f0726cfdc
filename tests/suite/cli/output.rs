//! Standard output as a pipe with a closed reader: each command ends without a message, with the
//! exit status of its work, or 141 if it stops in the middle.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use crate::process::ServerProcess;
use crate::support::objects::binding_in;

/// Runs a line in the folder. Nothing reads its output.
fn unread(folder: &Path, line: &str) -> Output {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = Command::new(env!("CARGO_BIN_EXE_ballast"));
    command.args(line.split_whitespace()).stdin(Stdio::null()).stdout(writer).current_dir(folder);
    command.env("KUBECONFIG", folder.join("certs/admin.kubeconfig")).output().expect("the binary runs")
}

fn check(folder: &Path, line: &str, status: i32) {
    let done = unread(folder, line);
    let told = String::from_utf8_lossy(&done.stderr);
    assert_eq!((done.status.code(), &*told), (Some(status), ""), "ballast {line}");
}

#[test]
fn a_command_whose_reader_has_left_ends_quietly() {
    let folder = tempfile::tempdir().unwrap();
    let binding = |number: usize| {
        let name = format!("web-{number}");
        binding_in("shop", &name, &name, json!({}))
    };
    let bindings: Vec<Value> = (0..2000).map(binding).collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": bindings});
    std::fs::write(folder.path().join("list.json"), list.to_string()).unwrap();
    for (line, status) in [
        ("--help", 0),
        ("openapi", 0),
        ("openapi --check", 0),
        ("completion bash", 0),
        ("man pages", 0),
        ("certs", 0),
        ("serve --print-config", 0),
        ("simulate -f list.json", 141),
        ("simulate -f list.json -o table", 141),
        ("demo", 141),
    ] {
        check(folder.path(), line, status);
    }
    assert!(folder.path().join("openapi").is_dir(), "the work is done");
    assert!(folder.path().join("pages/ballast.1").is_file());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_of_an_operator_whose_reader_has_left_ends_quietly() {
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(folder.path(), &[]);
    for (line, status) in [
        ("health", 0),
        ("top", 0),
        ("displaced", 0),
        ("preview -o json", 0),
        ("rebalance --all --yes", 0),
        ("check --database-url sqlite://ballast.db", 0),
        ("backup --database-url sqlite://ballast.db copy.db", 0),
    ] {
        check(folder.path(), line, status);
    }
    assert!(folder.path().join("copy.db").is_file(), "the work is done");
    assert!(server.terminate().success());
}

#[test]
fn openapi_says_in_one_line_what_it_has_written() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_ballast"));
    let done = command.args(["openapi", "--output-dir", "api"]).current_dir(&folder).output().unwrap();
    assert!(done.status.success());
    fn files(folder: &Path) -> usize {
        let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        entries.map(|path| if path.is_dir() { files(&path) } else { 1 }).sum()
    }
    let expected = format!("OpenAPI documents written to api: {}\n", files(&folder.path().join("api")));
    assert_eq!(String::from_utf8_lossy(&done.stdout), expected);
}
