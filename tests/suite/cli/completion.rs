//! Shell completion with the script that `ballast completion` prints.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::json;

use super::operator::{after_an_outage, told};
use crate::process::{ServerProcess, wait};
use crate::support::skipped;

const REBALANCES: &str = "/apis/ballast.dev/v1alpha1/clusterrebalances";

fn bash(folder: &Path, script: &str) -> Output {
    let program = Path::new(env!("CARGO_BIN_EXE_ballast")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap_or_default());
    let mut command = Command::new("bash");
    command.args(["--norc", "-c", script]).current_dir(folder).stdin(Stdio::null());
    command.env("PATH", path).env("KUBECONFIG", folder.join("certs/admin.kubeconfig"));
    command.output().expect("bash is installed")
}

/// Returns the completions of bash for the last word of a line, without flags, using the function
/// of the script.
fn offered(folder: &Path, line: &str) -> Vec<String> {
    let script = format!(
        r#"source <(ballast completion bash)
        words='{line}'
        IFS=' ' read -ra COMP_WORDS <<<"$words"
        [[ $words == *' ' ]] && COMP_WORDS+=('')
        COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)) COMP_TYPE=9
        _clap_complete_ballast ballast "${{COMP_WORDS[COMP_CWORD]}}" "${{COMP_WORDS[COMP_CWORD - 1]}}"
        printf '%s\n' "${{COMPREPLY[@]}}""#
    );
    let done = bash(folder, &script);
    assert!(done.stderr.is_empty(), "{line}: {}", String::from_utf8_lossy(&done.stderr));
    let text = String::from_utf8(done.stdout).unwrap();
    text.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty() && !line.starts_with('-')).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tab_completes_contexts_clusters_workloads_and_rebalances() {
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(folder.path(), &[]);
    let client = after_an_outage(&server).await;
    let rebalance = json!({"apiVersion": "ballast.dev/v1alpha1", "kind": "ClusterRebalance",
        "metadata": {"name": "home"}, "spec": {"select": [{"kind": "Deployment"}], "approval": "Required"}});
    client.post(REBALANCES, &rebalance).await.unwrap();
    let offered = |line: &str| offered(folder.path(), line);

    assert_eq!(offered("ballast dra"), ["drain"]);
    assert_eq!(offered("ballast drain mem"), ["member1", "member2"]);
    assert_eq!(offered("ballast preview --suppose-lost member1,mem"), ["member1,member1", "member1,member2"]);
    assert_eq!(offered("ballast why dep"), ["deployment/demo-deploy-1"]);
    assert_eq!(offered("ballast why deploy dem"), ["demo-deploy-1"], "the type is a word of its own");
    assert_eq!(offered("ballast approve "), ["home"], "a rebalance that waits");
    assert_eq!(offered("ballast top --context "), ["ballast"]);
    assert!(offered("ballast why -n elsewhere dep").is_empty(), "no workload is in that namespace");
    // Errors are suppressed during completion.
    assert!(offered("ballast drain --server https://127.0.0.1:1 mem").is_empty());
    told(folder.path(), "abort home", 0);
    wait(&client, REBALANCES, |it| it["status"]["phase"] == "Aborted").await;
    assert!(offered("ballast approve ").is_empty(), "it is over");
    assert_eq!(offered("ballast undo ").len(), 1);
}

#[test]
fn each_shell_reads_its_script() {
    let folder = tempfile::tempdir().unwrap();
    for (shell, check) in [("bash", ["bash", "-n"]), ("zsh", ["zsh", "-n"]), ("fish", ["fish", "--no-execute"])] {
        let script = told(folder.path(), &format!("completion {shell}"), 0);
        assert!(script.contains("BALLAST_COMPLETE"), "{script}");
        std::fs::write(folder.path().join(shell), script).unwrap();
        let Ok(read) = Command::new(check[0]).args([check[1], shell]).current_dir(folder.path()).output() else {
            assert_ne!(shell, "bash", "bash is needed");
            skipped(&format!("no {shell}"));
            continue;
        };
        assert!(read.status.success() && read.stderr.is_empty(), "{check:?}: {read:?}");
    }
}
