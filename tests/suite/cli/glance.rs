//! The read-only commands and the page, on a Karmada without Ballast: a server inside their own
//! process serves them, and nothing is written to Karmada.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use http::{Method, StatusCode};
use serde_json::{Value, json};

use super::page::Ui;
use crate::support::karmada::Karmada;

const CLUSTERS: &str = "/apis/cluster.karmada.io/v1alpha1/clusters";
const BINDINGS: &str = "/apis/work.karmada.io/v1alpha2/namespaces/default/resourcebindings";

fn example(name: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/rebalance").join(name);
    serde_saphyr::from_multiple(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Creates two clusters with capacity, and a Deployment that has failed over to member2.
async fn after_an_outage() -> Karmada {
    let karmada = Karmada::start().await;
    let status = example("cluster-status.yaml").remove(0)["status"].take();
    for mut cluster in example("clusters.yaml") {
        cluster["status"] = status.clone();
        karmada.keep(CLUSTERS, &cluster).await;
    }
    let mut binding = example("bindings.yaml").remove(0);
    binding["spec"]["clusters"] = json!([{"name": "member2", "replicas": 4}]);
    // Karmada's scheduler ignores bindings without a policy.
    binding["metadata"]["labels"] = json!({"propagationpolicy.karmada.io/permanent-id": "1"});
    karmada.keep(BINDINGS, &binding).await;
    karmada
}

/// Runs a line with the kubeconfig of this Karmada, without a terminal.
async fn run(karmada: &Karmada, line: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ballast"));
    command.args(line.split_whitespace()).stdin(Stdio::null()).current_dir(karmada.folder());
    command.env("KUBECONFIG", karmada.kubeconfig());
    // The fake serves in this process, so its threads must not block.
    tokio::task::spawn_blocking(move || command.output().expect("the binary runs")).await.unwrap()
}

/// Returns standard output and error of a line that exits with this status.
async fn told(karmada: &Karmada, line: &str, status: i32) -> (String, String) {
    let done = run(karmada, line).await;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&done.stdout), text(&done.stderr));
    assert_eq!(done.status.code(), Some(status), "ballast {line}\n{out}{err}");
    (out, err)
}

/// Asserts that all requests since the last call were reads.
fn assert_only_read(karmada: &Karmada, line: &str) {
    let seen = karmada.seen();
    assert!(seen.iter().any(|(_, target)| target.contains("resourcebindings")), "{line}: {seen:?}");
    let writes: Vec<_> = seen.iter().filter(|(method, _)| *method != Method::GET).collect();
    assert!(writes.is_empty(), "{line} wrote: {writes:?}");
}

#[tokio::test]
async fn bs5_the_commands_that_look_answer_on_a_karmada_without_ballast_and_write_nothing() {
    let karmada = after_an_outage().await;
    let before = karmada.revision();
    let reading = "is a Karmada without Ballast: reading it into this command, which writes nothing there";
    for (line, expected) in [
        ("displaced --drifted", &["deployment/demo-deploy-1", "member2:4", "member1:2, member2:2"][..]),
        ("preview", &["1 of 1 workload would move, with 2 replicas"]),
        ("preview --drifted -o diff", &["- member2: 4", "+ member1: 2", "+ member2: 2"]),
        ("preview -A --suppose-lost member2", &["1 of 1 workload would move, with 4 replicas"]),
        ("why deployment/demo-deploy-1", &["is on member2:4 (4 replicas wanted)", "Drifted: a Fresh decision"]),
        ("top", &["member1", "member2", "2 of 2 clusters ready, 4 replicas"]),
    ] {
        let (out, err) = told(&karmada, line, 0).await;
        for part in expected {
            assert!(out.contains(part), "{line}: {part:?} is missing in\n{out}");
        }
        assert!(!out.contains("ballast rebalance"), "{line} promises what cannot be done: {out}");
        assert_eq!(err.lines().count(), 1, "{line}: one sentence, and no progress where nobody looks: {err}");
        assert!(err.starts_with("http://127.0.0.1:") && err.trim_end().ends_with(reading), "{err}");
        assert_only_read(&karmada, line);
    }
    assert_eq!(karmada.revision(), before, "nothing was written at home");
}

#[tokio::test]
async fn bs5_the_plan_of_a_rebalance_is_shown_and_what_needs_a_log_says_so() {
    let karmada = after_an_outage().await;
    let before = karmada.revision();
    let plan = json!({"apiVersion": "ballast.dev/v1alpha1", "kind": "ClusterRebalance", "metadata": {"name": "home"},
        "spec": {"select": [{"drifted": true}], "exclude": [{"name": "other", "kind": "Deployment"}]}});
    std::fs::write(karmada.folder().join("home.json"), plan.to_string()).unwrap();
    let (out, _) = told(&karmada, "preview -f home.json", 0).await;
    assert!(out.contains("1 of 1 workload would move, with 2 replicas"), "{out}");
    for line in [
        "rebalance --displaced --yes",
        "pause home",
        "resume home",
        "abort home",
        "approve home",
        "undo home --yes",
        "why deployment/demo-deploy-1 --at 5m",
        "preview --at 1",
    ] {
        let (out, err) = told(&karmada, line, 2).await;
        let what = match line.contains("--at") {
            true => "--at needs a log of the past".to_owned(),
            false => format!("{} needs a Ballast that carries out rebalances", line.split(' ').next().unwrap()),
        };
        assert!(err.contains(&what), "{line}: {err}");
        assert!(err.contains("`ballast serve --attach`") && out.is_empty(), "{line}: {out}{err}");
    }
    assert!(karmada.seen().iter().all(|(method, _)| *method == Method::GET));
    assert_eq!(karmada.revision(), before, "nothing was written at home");
}

#[tokio::test]
async fn bs5_the_history_is_told_from_the_events_at_home() {
    let karmada = after_an_outage().await;
    let (out, err) = told(&karmada, "history deployment/demo-deploy-1", 0).await;
    assert_eq!(out, "No event about default/deployment/demo-deploy-1 is left.\n");
    assert!(err.contains("Karmada keeps no log of default/deployment/demo-deploy-1"), "{err}");

    let binding = karmada.home.admin().get(&format!("{BINDINGS}/demo-deploy-1-deployment")).await;
    let about = json!({"kind": "ResourceBinding", "namespace": "default", "name": "demo-deploy-1-deployment",
        "uid": binding.json()["metadata"]["uid"]});
    let message = "Binding has been scheduled successfully. Result: {member2:4}";
    let event = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "demo.1", "namespace": "default"},
        "involvedObject": about, "reason": "ScheduleBindingSucceed", "message": message, "type": "Normal",
        "count": 1, "firstTimestamp": "2026-11-22T15:00:00Z", "lastTimestamp": "2026-11-22T15:00:00Z"});
    karmada.keep("/api/v1/namespaces/default/events", &event).await;
    let (out, _) = told(&karmada, "history deployment/demo-deploy-1", 0).await;
    assert!(out.contains("2026-11-22T15:00:00Z") && out.contains(message), "{out}");

    karmada.refuse("/events?", StatusCode::FORBIDDEN);
    let (_, err) = told(&karmada, "history deployment/demo-deploy-1", 1).await;
    assert!(err.contains("the right to list events in namespace default"), "{err}");
}

#[tokio::test]
async fn bs5_decisions_are_those_of_karmada_s_scheduler_or_with_a_flag_those_of_ballast() {
    let karmada = after_an_outage().await;
    let further = |name: &str, kind: &str| {
        let mut binding = example("bindings.yaml").remove(0);
        binding["metadata"]["name"] = json!(name);
        binding["spec"]["resource"]["name"] = json!(name);
        binding["spec"]["resource"]["kind"] = json!(kind);
        binding["spec"]["clusters"] = json!([{"name": "member2", "replicas": 4}]);
        binding
    };
    // No policy manages it. Attached to Karmada, that is respected (D5).
    karmada.keep(BINDINGS, &further("unmanaged", "Deployment")).await;
    // No cluster serves its kind. Only a Fresh pass of Ballast does not exempt the present one
    // (D1).
    let mut unserved = further("unserved", "Unserved");
    unserved["metadata"]["labels"] = json!({"propagationpolicy.karmada.io/permanent-id": "1"});
    karmada.keep(BINDINGS, &unserved).await;
    for (flag, expected) in [
        ("", "2 would stay"),
        (" --scheduling-profile karmada", "2 would stay"),
        (" --scheduling-profile default", "1 would stay"),
    ] {
        let done = run(&karmada, &format!("preview{flag}")).await;
        let out = String::from_utf8_lossy(&done.stdout).into_owned();
        assert!(out.contains("1 of 3 workloads would move") && out.contains(expected), "{flag}: {out}");
    }
    let (_, err) = told(&karmada, "displaced --scheduling-profile other", 2).await;
    assert!(err.contains("[possible values: default, karmada]"), "{err}");
    // A Ballast server has its own profile.
    let own = karmada.home.files.admin_kubeconfig.display().to_string();
    let (_, err) = told(&karmada, &format!("displaced --kubeconfig {own} --scheduling-profile karmada"), 2).await;
    assert!(err.contains("is a Ballast, which decides by the profile that it was started with"), "{err}");
}

#[tokio::test]
async fn bs5_who_may_read_one_namespace_gets_answers_about_it() {
    let karmada = after_an_outage().await;
    for part in [
        "GET /apis/work.karmada.io/v1alpha2/resourcebindings",
        "GET /apis/work.karmada.io/v1alpha2/clusterresourcebindings",
        "GET /apis/policy.karmada.io/v1alpha1/propagationpolicies",
        "GET /apis/policy.karmada.io/v1alpha1/clusterpropagationpolicies",
    ] {
        karmada.refuse(part, StatusCode::FORBIDDEN);
    }
    for (line, expected) in [
        ("displaced --drifted", "deployment/demo-deploy-1"),
        ("preview -n default", "1 of 1 workload would move, with 2 replicas"),
        ("why deployment/demo-deploy-1", "is on member2:4 (4 replicas wanted)"),
        ("top", "2 of 2 clusters ready, 4 replicas"),
    ] {
        let (out, err) = told(&karmada, line, 0).await;
        assert!(out.contains(expected), "{line}: {out}");
        let bounds = "your rights end at namespace default: the answer is about what is there alone, and without \
                      clusterpropagationpolicies.policy.karmada.io and clusterresourcebindings.work.karmada.io;";
        assert!(err.contains(bounds), "{line}: {err}");
        assert_only_read(&karmada, line);
    }
    // A query of all namespaces needs the rights for all of them.
    let (_, err) = told(&karmada, "displaced -A", 1).await;
    assert!(err.contains("list and watch resourcebindings.work.karmada.io in all namespaces"), "{err}");
    // Nothing can be scheduled without clusters.
    karmada.refuse("GET /apis/cluster.karmada.io/v1alpha1/clusters", StatusCode::FORBIDDEN);
    let (_, err) = told(&karmada, "displaced", 1).await;
    assert!(err.contains("does not let you list and watch clusters.cluster.karmada.io;"), "{err}");
}

#[tokio::test]
async fn bs5_missing_rights_are_named_all_at_once() {
    let karmada = after_an_outage().await;
    karmada.refuse("GET /apis/work.karmada.io/v1alpha2/resourcebindings", StatusCode::FORBIDDEN);
    karmada.refuse("/clusters?watch=true", StatusCode::FORBIDDEN);
    let (out, err) = told(&karmada, "displaced -A", 1).await;
    let expected = "does not let you watch clusters.cluster.karmada.io, nor list and watch \
                    resourcebindings.work.karmada.io in all namespaces; the ClusterRole in \
                    deploy/beside-karmada/reader.yaml has these rights and no others";
    assert!(err.contains(expected) && out.is_empty(), "{err}");

    let closed = Karmada::start().await;
    closed.refuse("?limit=1", StatusCode::UNAUTHORIZED);
    let (_, err) = told(&closed, "top", 1).await;
    assert!(err.contains("does not accept the credentials of the kubeconfig"), "{err}");
}

#[tokio::test]
async fn bs5_what_is_no_karmada_is_wrong_usage() {
    let karmada = Karmada::start().await;
    karmada.refuse("/apis/work.karmada.io/v1alpha2", StatusCode::NOT_FOUND);
    for line in ["displaced", "pause home", "ui"] {
        let (_, err) = told(&karmada, line, 2).await;
        assert!(err.contains("serves neither ballast.dev nor work.karmada.io/v1alpha2"), "{line}: {err}");
    }
}

impl Ui {
    /// Sends a request as the page does, and returns the stream.
    fn send(&self, method: &str, path: &str, more: &str, body: &str) -> TcpStream {
        let (host, credential) = (&self.address, self.credential());
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\n{credential}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n{more}",
            body.len()
        );
        let mut stream = self.open(&head);
        stream.write_all(body.as_bytes()).unwrap();
        stream
    }

    fn ask(&self, method: &str, path: &str, body: &Value) -> String {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let mut answer = String::new();
        self.send(method, path, "Connection: close", &body).read_to_string(&mut answer).unwrap();
        answer
    }
}

#[tokio::test]
async fn bs5_the_page_lives_over_a_karmada_without_ballast() {
    let karmada = after_an_outage().await;
    let kubeconfig = karmada.kubeconfig();
    let ui = tokio::task::spawn_blocking(move || Ui::start(&kubeconfig)).await.unwrap();
    let before = karmada.revision();

    let page = ui.ask("GET", "/ui/", &Value::Null);
    assert!(page.starts_with("HTTP/1.1 200"), "{page}");
    let bindings = ui.ask("GET", BINDINGS, &Value::Null);
    assert!(bindings.starts_with("HTTP/1.1 200") && bindings.contains("demo-deploy-1-deployment"), "{bindings}");
    let review = json!({"apiVersion": "ballast.dev/v1alpha1", "kind": "PlacementReview",
        "spec": {"select": [{"drifted": true}]}});
    let answer = ui.ask("POST", "/apis/ballast.dev/v1alpha1/placementreviews", &review);
    assert!(answer.starts_with("HTTP/1.1 201") && answer.contains("\"toMove\":1"), "{answer}");

    let may = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec":
        {"resourceAttributes": {"verb": "create", "group": "ballast.dev", "resource": "clusterrebalances"}}});
    let answer = ui.ask("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", &may);
    assert!(answer.contains("\"allowed\":false"), "the page offers no rebalance: {answer}");
    let rebalance = json!({"apiVersion": "ballast.dev/v1alpha1", "kind": "ClusterRebalance",
        "metadata": {"name": "home"}, "spec": {"select": [{"displaced": true}]}});
    let answer = ui.ask("POST", "/apis/ballast.dev/v1alpha1/clusterrebalances", &rebalance);
    assert!(
        answer.starts_with("HTTP/1.1 405") && answer.contains("clusterrebalances cannot be written here"),
        "{answer}"
    );
    let answer = ui.ask("DELETE", &format!("{BINDINGS}/demo-deploy-1-deployment"), &Value::Null);
    assert!(answer.starts_with("HTTP/1.1 405"), "{answer}");
    assert_eq!(karmada.revision(), before, "nothing was written at home");
    assert!(karmada.seen().iter().all(|(method, _)| *method == Method::GET));

    // Changes in Karmada are pushed to the page.
    let upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                   Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==";
    let watch = ui.send("GET", &format!("{CLUSTERS}?watch=1"), upgrade, "");
    let mut cluster = example("clusters.yaml").remove(0);
    cluster["metadata"]["name"] = json!("member3");
    karmada.keep(CLUSTERS, &cluster).await;
    let seen = tokio::task::spawn_blocking(move || {
        let (mut watch, mut line) = (BufReader::new(watch), Vec::new());
        while !String::from_utf8_lossy(&line).contains("member3") {
            line.clear();
            if watch.read_until(b'\n', &mut line).unwrap() == 0 {
                return false;
            }
        }
        true
    });
    assert!(seen.await.unwrap(), "the watch ended");
    drop(ui);
}
