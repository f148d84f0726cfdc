//! The commands of an operator with the built binary against a live server, as in the README.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use crate::process::{ServerProcess, wait};
use crate::support::fleet::{agent, member, placement};
use crate::support::skipped;

const BINDINGS: &str = "/apis/work.karmada.io/v1alpha2/namespaces/default/resourcebindings";
const BINDING: &str = "/apis/work.karmada.io/v1alpha2/namespaces/default/resourcebindings/demo-deploy-1-deployment";
const CLUSTERS: &str = "/apis/cluster.karmada.io/v1alpha1/clusters";

/// Runs a line as the administrator of the server in the folder, without a terminal.
pub fn ballast(folder: &Path, line: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ballast"));
    command.args(line.split_whitespace()).stdin(Stdio::null()).current_dir(folder);
    command.env("KUBECONFIG", folder.join("certs/admin.kubeconfig")).env_remove("NO_COLOR");
    command.output().expect("the binary runs")
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns the output of a line that exits with this status.
pub fn told(folder: &Path, line: &str, status: i32) -> String {
    let done = ballast(folder, line);
    let (out, err) = (text(&done.stdout), text(&done.stderr));
    assert_eq!(done.status.code(), Some(status), "ballast {line}\n{out}{err}");
    assert!(!out.contains('\u{1b}'), "colours where nobody looks: {out}");
    if status == 0 { out } else { out + &err }
}

fn example(name: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/rebalance").join(name);
    serde_saphyr::from_multiple(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Creates two clusters and the Deployment that has failed over to member2. member1 has recovered.
pub async fn after_an_outage(server: &ServerProcess) -> ballast::cli::client::Client {
    let client = server.client().await;
    for cluster in example("clusters.yaml") {
        client.post(CLUSTERS, &cluster).await.unwrap();
        let path = format!("{CLUSTERS}/{}/status", cluster["metadata"]["name"].as_str().unwrap());
        client.merge_patch(&path, &example("cluster-status.yaml")[0]).await.unwrap();
    }
    client.post(BINDINGS, &example("bindings.yaml")[0]).await.unwrap();
    let on =
        |count: usize| move |object: &Value| object["spec"]["clusters"].as_array().is_some_and(|it| it.len() == count);
    wait(&client, BINDINGS, on(2)).await;
    client.merge_patch(&format!("{CLUSTERS}/member1"), &example("member1-fails.yaml")[0]).await.unwrap();
    wait(&client, BINDINGS, |it| it["spec"]["clusters"] == json!([{"name": "member2", "replicas": 4}])).await;
    client.merge_patch(&format!("{CLUSTERS}/member1"), &example("member1-recovers.yaml")[0]).await.unwrap();
    told_of(&client, "because it was evicted from member1").await;
    client
}

/// Waits for an event with these words in its message: events are written asynchronously.
async fn told_of(client: &ballast::cli::client::Client, words: &str) {
    let is_told = |event: &Value| event["message"].as_str().is_some_and(|message| message.contains(words));
    wait(client, "/api/v1/namespaces/default/events", is_told).await;
}

/// Returns the words of the line that begins with this word.
fn row<'a>(table: &'a str, word: &str) -> Vec<&'a str> {
    let line = table.lines().find(|line| line.split_whitespace().next() == Some(word));
    line.unwrap_or_else(|| panic!("no {word} in\n{table}")).split_whitespace().collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_sees_the_outage_asks_why_and_brings_the_replicas_home() {
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(folder.path(), &[]);
    let client = after_an_outage(&server).await;
    let run = |line: &str| told(folder.path(), line, 0);

    let top = run("top");
    assert_eq!(row(&top, "member2")[..2], ["member2", "True"], "{top}");
    let since = row(&top, "member2")[2];
    assert!(!since.contains(['h', 'd', 'y']), "a cluster of a minute is not ready for {since}");
    assert!(row(&top, "member2").contains(&"8/32") && row(&top, "member2").contains(&"32Gi/128Gi"), "{top}");
    assert!(top.contains("2 of 2 clusters ready, 4 replicas"), "{top}");
    let data: Value = serde_json::from_str(&run("top -o json")).unwrap();
    assert_eq!((&data[1]["name"], &data[1]["replicas"]), (&json!("member2"), &json!(4)));

    let displaced = run("displaced");
    let found = row(&displaced, "deployment/demo-deploy-1");
    assert_eq!(found[1..4], ["member2:4", "member1:2,", "member2:2"], "{displaced}");
    assert!(
        displaced.contains("evicted from member1") && displaced.contains("1 of 1 workload displaced"),
        "{displaced}"
    );
    let all: Value = serde_json::from_str(&run("displaced -A -o json")).unwrap();
    assert_eq!((&all[0]["namespace"], &all[0]["replicas"]), (&json!("default"), &json!(2)), "{all}");

    let why = run("why deployment/demo-deploy-1");
    assert!(why.contains("is on member2:4 (4 replicas wanted)"), "{why}");
    assert!(why.contains("Displaced: it belongs on member1:2,member2:2"), "{why}");
    assert_eq!(row(&why, "member1")[..3], ["member1", "0", "2"], "{why}");
    let before = client.get(BINDING).await.unwrap();
    let history = run("history deploy demo-deploy-1");
    let lines: Vec<&str> = history.lines().collect();
    assert!(lines.len() >= 3 && lines[1].contains("nowhere") && history.contains("evicted from member1"), "{history}");
    let newest: Value = serde_json::from_str(&run("history rb/demo-deploy-1-deployment -o json")).unwrap();
    let last = newest.as_array().unwrap().last().unwrap();
    assert_eq!(last["to"], json!([{"name": "member2", "replicas": 4}]), "{newest}");
    let first = newest[0]["revision"].as_str().unwrap();
    let then = run(&format!("why deployment/demo-deploy-1 --at {first}"));
    assert!(then.contains("was on member1:2, member2:2") && then.contains("at revision"), "{then}");

    let summary = run("preview --displaced");
    assert!(summary.contains("1 of 1 workload would move, with 2 replicas"), "{summary}");
    assert_eq!(row(&summary, "member1")[1..], ["0", "2", "+2"], "{summary}");
    let diff = run("preview deployment/demo-deploy-1 -o diff");
    assert_eq!(diff, "deployment/demo-deploy-1: 2 replicas move\n- member2: 4\n+ member1: 2\n+ member2: 2\n");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/rebalance/home.yaml");
    let yaml = run(&format!("preview -f {} -o yaml", file.display()));
    assert!(yaml.contains("kind: PlacementReview") && yaml.contains("replicasToMove: 2"), "{yaml}");
    assert_eq!(client.get(BINDING).await.unwrap(), before, "asking changes nothing");

    let refused = told(folder.path(), "rebalance --displaced", 2);
    assert!(refused.contains("--yes") && refused.contains("would move, with 2 replicas"), "{refused}");
    // The prompt states the order, how many move at once, and the effect of failures.
    let sentence = "They move with new replicas before old ones go, at most 10% of the workloads at a time, at least \
                   90% of the replicas ready; no further move begins when 10% of them have failed.\n";
    assert!(refused.contains(sentence), "{refused}");
    let direct = told(folder.path(), "rebalance --displaced --direct --all-at-once", 2);
    let all_at_once = "They move with all replicas of a workload at once, all workloads at a time; no further move begins \
                    when 10% of them have failed.\n";
    assert!(direct.contains(all_at_once), "{direct}");
    for (line, refused) in [("--direct --surge", "--surge"), ("--all-at-once --max-concurrent 1", "--max-concurrent")] {
        assert!(told(folder.path(), &format!("rebalance --displaced {line}"), 2).contains(refused), "{line}");
    }
    // A manifest written by hand keeps the API's defaults, and a warning explains them.
    let manual = json!({"apiVersion": "ballast.dev/v1alpha1", "kind": "ClusterRebalance", "metadata": {"name": "all"},
        "spec": {"select": [{"displaced": true}]}});
    std::fs::write(folder.path().join("manual.yaml"), manual.to_string()).unwrap();
    let manual = folder.path().join("manual.yaml").display().to_string();
    let by_hand = told(folder.path(), &format!("rebalance -f {manual}"), 2);
    let warning = "old replicas go before new ones are ready, all workloads move at a time, moves that fail do not \
                   end it: add --surge --max-concurrent 10% --abort-on-failed 10% to begin carefully\n";
    assert!(by_hand.contains(warning), "{by_hand}");
    let flags = "--surge --max-concurrent 1 --abort-on-failed 1";
    let added = told(folder.path(), &format!("rebalance -f {manual} {flags}"), 2);
    assert!(!added.contains("Warning") && added.contains("at most 1 of the workloads at a time"), "{added}");
    let dry = run("rebalance --displaced -A --surge --max-concurrent 10% --name home --dry-run");
    assert!(dry.contains("kind: ClusterRebalance") && dry.contains("strategy: SurgeFirst"), "{dry}");
    let home = run("rebalance deployment/demo-deploy-1 --name home --yes --wait");
    assert!(
        home.contains("rebalance/home created") && home.contains("rebalance/home is completed: 2 replicas moved"),
        "{home}"
    );
    let two = json!([{"name": "member1", "replicas": 2}, {"name": "member2", "replicas": 2}]);
    assert_eq!(client.get(BINDING).await.unwrap()["spec"]["clusters"], two);
    assert_eq!(run("displaced"), "Nothing is displaced in namespace default.\n");
    told_of(&client, "because of Rebalance").await;
    let history = run("history deployment/demo-deploy-1");
    assert!(history.lines().last().unwrap().contains("  Rebalance default/home"), "{history}");

    let asked = told(folder.path(), "undo home", 2);
    assert!(asked.contains("1 of 1 workload would move") && asked.contains("--yes"), "the plan comes first: {asked}");
    let careful = run("undo home --surge --max-concurrent 1 --dry-run");
    assert!(careful.contains("strategy: SurgeFirst") && careful.contains("maxConcurrent: 1"), "{careful}");
    let undone = run("undo home --yes --wait");
    assert!(undone.contains(sentence), "as carefully as what it undoes: {undone}");
    assert!(undone.contains("is completed: 2 replicas moved"), "{undone}");
    let four = json!([{"name": "member2", "replicas": 4}]);
    assert_eq!(client.get(BINDING).await.unwrap()["spec"]["clusters"], four);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_displaced_workload_that_cannot_return_is_listed_with_its_reason() {
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(folder.path(), &[]);
    let client = after_an_outage(&server).await;
    let taint = json!({"spec": {"taints": [{"key": "maintenance", "effect": "NoSchedule"}]}});
    client.merge_patch(&format!("{CLUSTERS}/member1"), &taint).await.unwrap();
    let shown = told(folder.path(), "displaced", 0);
    let found = row(&shown, "deployment/demo-deploy-1");
    assert_eq!(found[1..3], ["member2:4", "0"], "WOULD BE ON is empty: {shown}");
    assert!(shown.contains("cluster member1 does not fit"), "{shown}");
    assert!(shown.contains("1 of 1 workload displaced: 0 replicas would move, 1 cannot return yet."), "{shown}");
    assert!(!shown.contains("ballast rebalance"), "nothing would move: {shown}");
    let listed: Value = serde_json::from_str(&told(folder.path(), "displaced -o json", 0)).unwrap();
    let only = &listed[0];
    assert_eq!((&only["to"], &only["reason"]), (&json!([]), &json!("NoClusterFits")), "{listed}");
    assert_eq!(only["from"], json!([{"name": "member2", "replicas": 4}]));
    let preview = told(folder.path(), "preview --displaced", 3);
    assert!(preview.contains("1 cannot return yet.") && !preview.contains("fit nowhere"), "{preview}");
    let why = told(folder.path(), "why deployment/demo-deploy-1", 0);
    assert!(why.contains("Displaced, and cannot return yet: cluster member1 does not fit"), "{why}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rm34_an_operator_empties_a_cluster_for_an_afternoon_and_brings_all_back() {
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(folder.path(), &[]);
    let client = after_an_outage(&server).await;
    let run = |line: &str| told(folder.path(), line, 0);
    let placed = async || client.get(BINDING).await.unwrap()["spec"]["clusters"].clone();
    let home = json!([{"name": "member1", "replicas": 2}, {"name": "member2", "replicas": 2}]);
    run("rebalance --displaced --yes --wait");
    assert_eq!(placed().await, home, "as it was before");

    assert!(told(folder.path(), "cordon member-1", 2).contains("no cluster member-1; did you mean member1?"));
    assert!(run("cordon member1").contains("cluster/member1 cordoned"));
    assert!(run("cordon member1").contains("was cordoned already"));
    assert!(run("uncordon member1").contains("cluster/member1 uncordoned"));
    assert!(run("uncordon member1").contains("was not cordoned"));

    let unknown = told(folder.path(), "drain member-1 --yes", 2);
    assert!(unknown.contains("no cluster member-1; did you mean member1?"), "{unknown}");
    let all = told(folder.path(), "drain member1 member2 --yes", 2);
    assert!(all.contains("no cluster would be left that takes workloads"), "{all}");
    let asked = told(folder.path(), "drain member1", 2);
    assert!(asked.contains("1 of 1 workload would move, with 2 replicas") && asked.contains("--yes"), "{asked}");
    let drained = run("drain member1 --name afternoon --yes --wait");
    assert!(drained.contains("member1 is closed to new workloads first."), "{drained}");
    assert!(drained.contains("clusterrebalance/afternoon is completed: 2 replicas moved"), "{drained}");
    assert_eq!(placed().await, json!([{"name": "member2", "replicas": 4}]));
    let cluster = client.get(&format!("{CLUSTERS}/member1")).await.unwrap();
    assert_eq!(cluster["spec"]["taints"][0]["key"], "cluster.karmada.io/unschedulable");
    assert_eq!(run("displaced"), "Nothing is displaced in namespace default.\n");

    let back = run("uncordon member1 --return --yes --wait");
    assert!(back.contains("cluster/member1 uncordoned") && back.contains("2 replicas moved"), "{back}");
    assert_eq!(placed().await, home);
    assert!(run("uncordon member1 --return --yes").contains("nothing is brought back"), "it is back already");
    // Without an alternative it stays, and the command fails.
    let full = json!({"status": {"resourceSummary": {"allocatable": {"cpu": "1", "memory": "1Gi", "pods": "1"},
        "allocated": {"cpu": "1", "memory": "1Gi", "pods": "1"}}}});
    client.merge_patch(&format!("{CLUSTERS}/member2/status"), &full).await.unwrap();
    let stays = told(folder.path(), "drain member1 --yes --wait", 3);
    assert!(stays.contains("1 workload failed") || stays.contains("NoRoom"), "{stays}");
    assert_eq!(placed().await, home);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t5_and_t6_an_operator_learns_why_nothing_moves_and_where_dispatching_is_suspended() {
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(folder.path(), &[]);
    let client = after_an_outage(&server).await;
    let suspended = json!({"spec": {"suspension": {"dispatchingOnClusters": {"clusterNames": ["member2"]}}}});
    client.merge_patch(BINDING, &suspended).await.unwrap();
    let home = told(folder.path(), "rebalance deployment/demo-deploy-1 --mode fresh --name home --yes --wait", 0);
    assert!(home.contains("is completed"), "{home}");
    let why = told(folder.path(), "why deployment/demo-deploy-1", 0);
    assert!(why.contains("dispatching to member2 is suspended: no change of it is sent there"), "{why}");
    let nothing = told(folder.path(), "rebalance --all --mode fresh --yes", 0);
    assert!(nothing.contains("Nothing would move, so nothing was created."), "nothing to do is well: {nothing}");
    let taint = json!({"spec": {"taints": [{"key": "x", "effect": "NoSchedule"}]}});
    for name in ["member1", "member2"] {
        client.merge_patch(&format!("{CLUSTERS}/{name}"), &taint).await.unwrap();
    }
    let why = told(folder.path(), "why deployment/demo-deploy-1", 0);
    assert!(why.contains("dispatching to member2 is suspended"), "however it stands: {why}");
    let why_not = told(folder.path(), "rebalance --all --mode fresh --yes", 3);
    assert!(why_not.contains("so nothing was created"), "{why_not}");
    assert!(why_not.contains("1 workload would fit nowhere: 1 for NoClusterFits"), "{why_not}");
    let preview = told(folder.path(), "preview", 3);
    assert!(preview.contains("1 would fit nowhere"), "{preview}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_approves_pauses_resumes_and_aborts() {
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(folder.path(), &[]);
    let client = after_an_outage(&server).await;
    let run = |line: &str| told(folder.path(), line, 0);
    let waits = run("rebalance -A --displaced --approval --name home --yes --wait");
    assert!(waits.contains("clusterrebalance/home is planned and waits for approval"), "{waits}");
    assert!(run("pause home").contains("clusterrebalance/home paused"));
    assert!(run("resume creb/home").contains("clusterrebalance/home resumed"));
    let approved = run("approve clusterrebalance/home --wait");
    assert!(approved.contains("approved") && approved.contains("is completed: 2 replicas moved"), "{approved}");
    let over = told(folder.path(), "abort home", 1);
    assert!(over.contains("is Completed already"), "{over}");

    let listed = run("status -A");
    let line = listed.lines().find(|line| line.contains("clusterrebalance/home")).unwrap();
    assert!(line.contains("Completed") && line.contains("1/1"), "{listed}");
    assert!(run("status home --wait").contains("is completed: 2 replicas moved"));
    let one: Value = serde_json::from_str(&run("status home -o json")).unwrap();
    assert_eq!((&one[0]["phase"], &one[0]["replicasMoved"]), (&json!("Completed"), &json!(2)));
    told(folder.path(), "displaced -A --exit-code", 0);

    let other = run("rebalance --all --mode steady --min-moved-replicas 0 --approval --name other --yes --no-wait -A");
    assert_eq!(other.lines().last(), Some("Nothing would move, so nothing was created."), "{other}");
    client
        .merge_patch(
            &format!("{CLUSTERS}/member2"),
            &json!({"spec": {"taints": [{"key": "x", "effect": "NoSchedule"}]}}),
        )
        .await
        .unwrap();
    assert!(run("rebalance --all --approval --name away --yes").contains("rebalance/away created"));
    let rebalances = "/apis/ballast.dev/v1alpha1/namespaces/default/rebalances";
    wait(&client, rebalances, |it| it["status"]["phase"] == "Planned").await;
    assert!(run("abort away").contains("rebalance/away aborted"));
    let aborted = wait(&client, rebalances, |it| it["status"]["phase"] == "Aborted").await;
    assert_eq!(aborted["spec"]["abort"], true);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_does_not_fit_ends_with_3_and_says_what_would_help() {
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(folder.path(), &[]);
    let client = after_an_outage(&server).await;
    let lost = told(folder.path(), "preview --suppose-lost member1,member2", 3);
    assert!(lost.contains("1 would fit nowhere") && lost.contains("NoClusterFits"), "{lost}");
    let large = told(folder.path(), "preview --suppose-replicas deployment/demo-deploy-1=5000", 3);
    assert!(large.contains("NoRoom"), "{large}");
    let taint = json!({"spec": {"taints": [{"key": "maintenance", "effect": "NoSchedule"}]}});
    client.merge_patch(&format!("{CLUSTERS}/member1"), &taint).await.unwrap();
    let why = told(folder.path(), "why deployment/demo-deploy-1", 0);
    let help = "for member1: a toleration for maintenance:NoSchedule (it would get 2)";
    assert!(why.contains(help) && why.contains("untolerated taint"), "{why}");
    let untainted = told(folder.path(), "preview --suppose-untainted member1 -o diff", 0);
    assert!(untainted.contains("+ member1: 2"), "{untainted}");
    let new = told(folder.path(), "preview --suppose-new member9=member2 --suppose-room member1:cpu=400", 0);
    assert!(new.contains("would move"), "{new}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refusals_say_what_would_be_right() {
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(folder.path(), &[]);
    let _client = after_an_outage(&server).await;
    let admin = std::fs::read_to_string(folder.path().join("certs/admin.kubeconfig")).unwrap();
    let is_credential = |line: &&str| !line.contains("client-certificate") && !line.contains("client-key");
    let stranger: Vec<&str> = admin.lines().filter(is_credential).collect();
    let stranger = format!("{} {{token: x}}\n", stranger.join("\n"));
    std::fs::write(folder.path().join("stranger"), stranger).unwrap();
    for (line, status, words) in [
        ("preview --suppose-lost member-1", 2, "no cluster member-1; did you mean member1?"),
        ("preview --placed-on membr2", 2, "no cluster membr2; did you mean member2?"),
        (
            "why deployment/demo-deploy-2",
            2,
            "no deployment/demo-deploy-2 has a binding in namespace default; did you mean deployment/demo-deploy-1?",
        ),
        (
            "why deployment/demo-deploy-1 -n shop",
            2,
            "no deployment/demo-deploy-1 has a binding in namespace shop; there is one in default: name it with -n",
        ),
        ("displaced -n shop", 0, "namespace shop: it has no bindings at all. See all namespaces: -A"),
        ("why demo-deploy-1", 2, "write TYPE/NAME, such as deployment/web"),
        ("history clusterresourceplacement/web", 2, "is a Fleet placement"),
        ("pause hom", 2, "no rebalance hom"),
        ("rebalance", 2, "say which workloads"),
        ("rebalance --all --max-concurrent 110%", 2, "a percentage from 0% to 100%"),
        ("preview --at yesterday", 2, "write how long ago (10m)"),
        ("preview --at 99999999", 2, "the newest revision is"),
        ("preview -l a=b=c", 2, "--selector"),
        ("preview -f missing.yaml", 2, "failed to read missing.yaml"),
        ("top --context admi", 2, "the kubeconfig has no context of this name"),
        ("top --kubeconfig missing", 2, "failed to use missing as kubeconfig"),
        ("top --no-such-flag", 2, "unexpected argument '--no-such-flag'"),
        ("top --kubeconfig stranger", 1, "does not know the credentials of this kubeconfig"),
        ("top --server https://127.0.0.1:1", 1, "https://127.0.0.1:1 is not reachable"),
        ("displaced --as bob", 1, "cannot create resource \"localplacementreviews\" in API group \"ballast.dev\""),
        ("top --as bob", 1, "cannot list resource \"clusters\""),
    ] {
        let told = told(folder.path(), line, status);
        assert!(told.contains(words), "ballast {line}: {told}");
    }
}

#[test]
fn kubectl_finds_the_plugin_by_its_name_and_the_definition_makes_the_pages() {
    let folder = tempfile::tempdir().unwrap();
    let plugin = folder.path().join("kubectl-ballast");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_ballast"), &plugin).unwrap();
    let help = Command::new(&plugin).args(["why", "-h"]).output().unwrap();
    assert!(text(&help.stdout).contains("Usage: kubectl ballast why"), "{}", text(&help.stdout));
    told(folder.path(), "man pages", 0);
    for page in ["ballast.1", "ballast-why.1", "ballast-serve.1"] {
        let page = std::fs::read_to_string(folder.path().join("pages").join(page)).unwrap();
        assert!(page.starts_with(".ie") && page.contains(".TH"), "{page}");
    }
    // Runs the command that `man` uses to format a page, with warnings enabled.
    let pages = std::fs::read_dir(folder.path().join("pages")).unwrap().map(|it| it.unwrap().path());
    let shown = Command::new("groff").args(["-man", "-ww", "-Tutf8"]).args(pages).output();
    match shown {
        Ok(shown) => assert!(shown.status.success() && shown.stderr.is_empty(), "{}", text(&shown.stderr)),
        Err(_) => skipped("no groff"),
    }
}

/// Runs a line on a terminal with `width` columns and the input `typed`.
fn on_terminal(folder: &Path, width: usize, line: &str, typed: &str) -> String {
    let command = format!("stty rows 40 cols {width}; {} {line}; echo \"status $?\"", env!("CARGO_BIN_EXE_ballast"));
    let mut script = Command::new("script")
        .args(["-qec", &command, "/dev/null"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .current_dir(folder)
        .env("KUBECONFIG", folder.join("certs/admin.kubeconfig"))
        .env("TERM", "xterm")
        .env_remove("NO_COLOR")
        .spawn()
        .expect("script, of Debian's bsdutils, makes the terminal");
    // Its input stays open until it has responded.
    let mut input = script.stdin.take().expect("piped");
    input.write_all(typed.as_bytes()).unwrap();
    let mut shown = String::new();
    script.stdout.take().expect("piped").read_to_string(&mut shown).unwrap();
    drop(input);
    script.wait().unwrap();
    shown.replace('\r', "")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn on_a_terminal_there_are_colours_questions_and_tables_that_fit() {
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(folder.path(), &[]);
    let _client = after_an_outage(&server).await;
    let run = |width: usize, line: &str, typed: &str| on_terminal(folder.path(), width, line, typed);

    let wide = run(120, "top", "");
    assert!(wide.contains("\u{1b}[32mTrue") && wide.contains("WORKLOADS"), "{wide}");
    let plain = run(120, "top --no-color", "");
    assert!(plain.contains("True") && !plain.contains('\u{1b}'), "{plain}");
    for (width, line) in
        [(60, "top --no-color"), (60, "displaced --no-color"), (60, "why deploy/demo-deploy-1 --no-color")]
    {
        let shown = run(width, line, "");
        assert!(shown.lines().all(|it| it.chars().count() <= width), "{line}:\n{shown}");
        assert!(shown.contains("status 0") && shown.contains("member1"), "{line}:\n{shown}");
    }
    let narrow = run(60, "top --no-color", "");
    assert!(narrow.contains("too narrow for SINCE") && narrow.contains("REPLICAS"), "{narrow}");

    let left = run(120, "rebalance --displaced --name home", "n\n");
    assert!(
        left.contains("Go ahead? [y/N]") && left.contains("nothing was created") && left.contains("status 1"),
        "{left}"
    );
    let done = run(120, "rebalance --displaced --name home", "y\n");
    assert!(done.contains("rebalance/home created") && done.contains("2 replicas moved"), "{done}");
    assert!(done.contains("\u{1b}[2K"), "one line tells how far it is: {done}");
}

#[test]
fn serve_takes_its_flags_from_a_file_and_the_command_line_wins() {
    let folder = tempfile::tempdir().unwrap();
    let config = |line: &str| told(folder.path(), &format!("serve --print-config {line}"), 0);
    let flags = "--secure-port 8443 --scheduling-profile karmada --v 3 --taint-unready-clusters false \
                 --requestheader-username-headers a,b --failover-eviction-timeout 90s --in-cluster";
    let printed = config(flags);
    std::fs::write(folder.path().join("ballast.yaml"), &printed).unwrap();
    assert_eq!(config("--config ballast.yaml"), printed, "what is printed is read");
    let other = config("--config ballast.yaml --secure-port 9443");
    assert_eq!(other, printed.replace("secure-port: 8443", "secure-port: 9443"));
    std::fs::write(folder.path().join("wrong.yaml"), "secure-prt: 1\n").unwrap();
    let wrong = told(folder.path(), "serve --config wrong.yaml", 2);
    assert!(wrong.contains("the nearest known name is \"secure-port\""), "{wrong}");
    let missing = told(folder.path(), "serve --config missing.yaml", 2);
    assert!(missing.contains("failed to read missing.yaml"), "{missing}");
    let short = told(folder.path(), "serve -h", 0);
    assert!(short.contains("--database-url") && !short.contains("--audit-log-maxage"), "{short}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn displaced_counts_all_workloads_and_advises_with_the_same_scope() {
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(folder.path(), &[]);
    let client = after_an_outage(&server).await;
    // It is placed when both clusters exist, so nothing would move it.
    let mut other = example("bindings.yaml")[0].clone();
    other["metadata"] = json!({"name": "web-deployment", "namespace": "shop"});
    (other["spec"]["resource"]["name"], other["spec"]["resource"]["namespace"]) = (json!("web"), json!("shop"));
    let path = "/apis/work.karmada.io/v1alpha2/namespaces/shop/resourcebindings";
    client.post(path, &other).await.unwrap();
    wait(&client, path, |it| it["spec"]["clusters"].as_array().is_some_and(|clusters| clusters.len() == 2)).await;
    for (scope, expected) in [
        (" -A", "1 of 2 workloads displaced: 2 replicas would move."),
        (" -n default", "1 of 1 workload displaced: 2 replicas would move."),
        ("", "1 of 1 workload displaced: 2 replicas would move."),
        (" -A -l app=other", "Nothing is displaced."),
    ] {
        let listed = told(folder.path(), &format!("displaced{scope}"), 0);
        assert!(listed.contains(expected), "{scope}: {listed}");
        let advice = "See them: ballast preview --displaced{}; move them: ballast rebalance --displaced{}\n";
        assert!(listed.ends_with(&advice.replace("{}", scope)) || scope.contains("-l"), "{scope}: {listed}");
        told(folder.path(), &format!("preview --displaced{scope}"), 0);
    }
    drop(client);
    assert!(server.terminate().success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_list_member2_before_member10() {
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(folder.path(), &[]);
    let client = server.client().await;
    let cluster = example("clusters.yaml")[0].clone();
    for name in ["member1", "member2", "member10"] {
        let mut cluster = cluster.clone();
        cluster["metadata"]["name"] = json!(name);
        client.post(CLUSTERS, &cluster).await.unwrap();
        client.merge_patch(&format!("{CLUSTERS}/{name}/status"), &example("cluster-status.yaml")[0]).await.unwrap();
    }
    let mut binding = example("bindings.yaml")[0].clone();
    binding["spec"]["replicas"] = json!(6);
    binding["spec"]["placement"]["clusterAffinity"]["clusterNames"] = json!(["member1", "member2", "member10"]);
    client.post(BINDINGS, &binding).await.unwrap();
    wait(&client, BINDINGS, |it| it["spec"]["clusters"].as_array().is_some_and(|clusters| clusters.len() == 3)).await;
    for line in ["top", "why deployment/demo-deploy-1", "preview --suppose-lost member10"] {
        let table = told(folder.path(), line, 0);
        let rows = table.lines().filter_map(|line| line.split_whitespace().next());
        let members: Vec<&str> = rows.filter(|word| word.starts_with("member")).collect();
        assert_eq!(members[..3], ["member1", "member2", "member10"], "{line}:\n{table}");
    }
    let history = told(folder.path(), "history deployment/demo-deploy-1", 0);
    assert!(history.contains("member1:2, member2:2, member10:2"), "{history}");
    drop(client);
    assert!(server.terminate().success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn why_says_of_a_fleet_placement_which_clusters_were_not_picked() {
    const MEMBERS: &str = "/apis/cluster.kubernetes-fleet.io/v1beta1/memberclusters";
    const PLACEMENTS: &str = "/apis/placement.kubernetes-fleet.io/v1beta1/clusterresourceplacements";
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(folder.path(), &[]);
    let client = server.client().await;
    for name in ["a", "b", "c"] {
        let mut member = member(name, "gold");
        member["status"] = json!({"agentStatus": [agent()]});
        client.post(MEMBERS, &member).await.unwrap();
        client.merge_patch(&format!("{MEMBERS}/{name}/status"), &json!({"status": member["status"]})).await.unwrap();
    }
    let policy = json!({"placementType": "PickN", "numberOfClusters": 1, "affinity": {"clusterAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": [
            {"labelSelector": {"matchLabels": {"tier": "gold"}}}]}}}});
    client.post(PLACEMENTS, &placement("shop", policy)).await.unwrap();
    let bindings = PLACEMENTS.replace("placements", "bindings");
    wait(&client, &bindings, |it| it["spec"]["state"] == "Bound").await;
    let table = told(folder.path(), "why clusterresourceplacement/shop", 0);
    assert!(table.starts_with("clusterresourceplacement/shop is on "), "{table}");
    assert!(table.contains("found 1 cluster(s)"), "{table}");
    assert_eq!(table.matches("does not score high enough").count(), 2, "{table}");
    assert_eq!(table.matches(" bound ").count(), 1, "{table}");
    let answer: Value = serde_json::from_str(&told(folder.path(), "why crp/shop -o json", 0)).unwrap();
    assert_eq!((answer["clusters"].as_array().unwrap().len(), &answer["scheduled"]["status"]), (3, &json!("True")));
    // Unknown placements, and one without clusters.
    let unknown = told(folder.path(), "why crp/none", 2);
    assert!(unknown.contains("no crp/none"), "{unknown}");
    let past = told(folder.path(), "why crp/shop --at 1m", 2);
    assert!(past.contains("--at is about workloads"), "{past}");
    client
        .post(PLACEMENTS, &placement("many", json!({"placementType": "PickN", "numberOfClusters": 4})))
        .await
        .unwrap();
    let snapshots = "/apis/placement.kubernetes-fleet.io/v1beta1/clusterschedulingpolicysnapshots";
    wait(&client, snapshots, |it| {
        it["metadata"]["name"] == "many-0" && it["status"]["conditions"][0]["status"] == "False"
    })
    .await;
    let lacks = told(folder.path(), "why crp/many", 3);
    assert!(lacks.contains("could not find all clusters") && lacks.contains("lacks clusters"), "{lacks}");
    drop(client);
    assert!(server.terminate().success());
}
