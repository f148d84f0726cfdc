//! Estimators of member clusters, queried by the built binary (RM10 to RM16).

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use bytes::Bytes;
use http::Method;
use http_body_util::BodyExt;
use serde_json::{Value, json};

use crate::process::{ServerProcess, wait};
use crate::support::estimator::{Asked, Estimator, Manner, Tls, addresses};
use crate::support::objects::{CLUSTERS, binding_in, cluster, room, with};
use crate::support::pki::Ca;
use crate::support::{metric, wait_for};

const BINDINGS: &str = "/apis/work.karmada.io/v1alpha2/namespaces/shop/resourcebindings";

type Client = ballast::cli::client::Client;

fn ballast(folder: &Path, line: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ballast"));
    command.args(line.split_whitespace()).current_dir(folder);
    command.env("KUBECONFIG", folder.join("certs/admin.kubeconfig")).env_remove("NO_COLOR");
    command.output().expect("the binary runs")
}

fn why(folder: &Path, name: &str) -> String {
    let told = ballast(folder, &format!("why deployment/{name} -n shop"));
    String::from_utf8_lossy(&told.stdout).into_owned() + &String::from_utf8_lossy(&told.stderr)
}

fn log(folder: &Path) -> String {
    std::fs::read_to_string(folder.join("log")).unwrap_or_default()
}

/// Returns the number of log lines with both texts.
fn told(folder: &Path, one: &str, other: &str) -> usize {
    log(folder).lines().filter(|line| line.contains(one) && line.contains(other)).count()
}

/// Waits until the log has `times` lines with both texts: a thread writes them after the response.
async fn wait_told(folder: &Path, one: &str, other: &str, times: usize) {
    let what = format!("{times} times {one}, {other}");
    wait_for(&what, async || (told(folder, one, other) >= times).then_some(())).await;
    assert_eq!(told(folder, one, other), times, "{}", log(folder));
}

/// Starts a server with the clusters member1 and member2, each with reported capacity for 48
/// replicas.
async fn fleet(folder: &Path, file: &Path, flags: &[&str]) -> (ServerProcess, Client) {
    let file = format!("--scheduler-estimator-addresses-file={}", file.display());
    let flags = [&["--enable-scheduler-estimator", &file], flags].concat();
    let server = ServerProcess::start(folder, &flags);
    let client = server.client().await;
    for name in ["member1", "member2"] {
        client.post(CLUSTERS, &cluster(name)).await.unwrap();
        client.merge_patch(&format!("{CLUSTERS}/{name}/status"), &room("48", "480Gi", "480")).await.unwrap();
    }
    (server, client)
}

/// Returns a workload with one CPU per replica, aggregated on few clusters.
fn workload(name: &str, replicas: i32) -> Value {
    let spec = json!({
        "replicas": replicas,
        "replicaRequirements": {"resourceRequest": {"cpu": "1"}},
        "placement": {"replicaScheduling": {
            "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated",
        }},
    });
    binding_in("shop", name, name, spec)
}

/// Places a workload, and returns its targets, or the reason why there are none.
async fn place(client: &Client, name: &str, replicas: i32) -> Value {
    client.post(BINDINGS, &workload(name, replicas)).await.unwrap();
    placed(client, name).await
}

async fn placed(client: &Client, name: &str) -> Value {
    let is_decided = |object: &Value| {
        object["metadata"]["name"] == name && object["status"]["conditions"].as_array().is_some_and(|it| !it.is_empty())
    };
    let object = wait(client, BINDINGS, is_decided).await;
    let condition = &object["status"]["conditions"][0];
    if condition["status"] == "True" { object["spec"]["clusters"].clone() } else { condition["message"].clone() }
}

fn on(targets: &[(&str, i32)]) -> Value {
    targets.iter().map(|(name, replicas)| json!({"name": name, "replicas": replicas})).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rm10_and_rm12_an_answer_counts_once_and_what_is_given_away_is_deducted() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (Estimator::start(Manner::Say(3)).await, Estimator::start(Manner::Say(4)).await);
    let file = addresses(folder.path(), &[("member1", &one), ("member2", &two)]);
    let (_server, client) = fleet(folder.path(), &file, &[]).await;
    assert_eq!(place(&client, "web", 7).await, on(&[("member1", 3), ("member2", 4)]));
    let told = why(folder.path(), "web");
    assert!(told.contains("estimator of member1: 3, 0 left after what was given away since"), "{told}");
    // The estimates are recent, so no request is sent, and they have no capacity left.
    let refused = place(&client, "api", 1).await;
    assert!(refused.is_string(), "{refused}");
    let cpu = (Some("1".to_owned()), Some("1".to_owned()));
    for (name, estimator) in [("member1", &one), ("member2", &two)] {
        let (method, cluster) = ("MaxAvailableReplicas".to_owned(), name.to_owned());
        let asked = Asked { method, cluster, cpu: cpu.clone(), assumed: Vec::new() };
        assert!(estimator.asked().iter().all(|known| *known == asked) && !estimator.asked().is_empty());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rm10_why_tells_what_each_estimator_says() {
    let folder = tempfile::tempdir().unwrap();
    let one = Estimator::start(Manner::ByCpu(BTreeMap::from([("1".to_owned(), 3)]))).await;
    let file = addresses(folder.path(), &[("member1", &one)]);
    let (_server, client) = fleet(folder.path(), &file, &[]).await;
    // Only member2, which has no estimator, has capacity for all of it by its report.
    assert_eq!(place(&client, "web", 4).await, on(&[("member2", 4)]));
    let told = why(folder.path(), "web");
    assert!(told.contains("estimator of member1: 3\n"), "{told}");
    assert!(!told.contains("estimator of member2"), "{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rm15_one_that_hangs_or_ends_is_told_once_and_told_again_when_it_is_back() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (Estimator::start(Manner::Hang).await, Estimator::start(Manner::Say(9)).await);
    let file = addresses(folder.path(), &[("member1", &one), ("member2", &two)]);
    let (server, client) = fleet(folder.path(), &file, &["--scheduler-estimator-timeout=300ms"]).await;
    // Without an estimate of member1, its report counts.
    assert_eq!(place(&client, "web", 20).await, on(&[("member1", 20)]));
    assert_eq!(place(&client, "api", 21).await, on(&[("member1", 21)]));
    let path = folder.path();
    wait_told(path, "member1", "does not answer in time", 1).await;
    one.behave(Manner::Say(2));
    wait_for("the estimator to be back", async || (told(path, "member1", "answers again") > 0).then_some(())).await;
    assert_eq!(place(&client, "cache", 3).await, on(&[("member2", 3)]));
    let (_, body) = client.send(Method::GET, "/metrics", None, Bytes::new()).await.unwrap();
    let metrics = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
    assert!(metric(&metrics, r#"ballast_estimator_requests_total{cluster="member1",outcome="late"}"#) >= 1.0);
    assert_eq!(metric(&metrics, r#"ballast_estimator_answers{cluster="member1"}"#), 1.0);
    // A restart between two requests only loses the connection.
    one.behave(Manner::Say(100));
    let address = two.stop().await;
    let two = Estimator::start_at(address, Manner::Say(1), None).await;
    client
        .post(
            BINDINGS,
            &with(workload("jobs", 2), json!({"spec": {"replicaRequirements": {"resourceRequest": {"cpu": "2"}}}})),
        )
        .await
        .unwrap();
    assert_eq!(placed(&client, "jobs").await, on(&[("member1", 2)]));
    assert_eq!(two.asked().len(), 1, "{}", log(path));
    // A stopped estimator is excluded, and the others continue.
    two.stop().await;
    client
        .post(
            BINDINGS,
            &with(workload("late", 2), json!({"spec": {"replicaRequirements": {"resourceRequest": {"cpu": "3"}}}})),
        )
        .await
        .unwrap();
    placed(&client, "late").await;
    wait_for("the end to be told", async || (told(path, "member2", "does not answer") > 0).then_some(())).await;
    drop(server);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rm16_numbers_that_make_no_sense_are_no_answers() {
    let folder = tempfile::tempdir().unwrap();
    let numbers = [("1", -1), ("2", -7), ("3", i32::MAX), ("4", i32::MIN), ("5", 0)];
    let numbers: BTreeMap<String, i32> = numbers.iter().map(|(cpu, said)| ((*cpu).to_owned(), *said)).collect();
    let one = Estimator::start(Manner::ByCpu(numbers)).await;
    let file = addresses(folder.path(), &[("member1", &one)]);
    let (_server, client) = fleet(folder.path(), &file, &[]).await;
    client.merge_patch(&format!("{CLUSTERS}/member2/status"), &room("0", "0", "0")).await.unwrap();
    for cpu in ["1", "2", "3", "4", "5"] {
        let name = format!("web-{cpu}");
        let requests = json!({"spec": {"replicaRequirements": {"resourceRequest": {"cpu": cpu}}}});
        client.post(BINDINGS, &with(workload(&name, 2), requests)).await.unwrap();
        let found = placed(&client, &name).await;
        match cpu {
            "5" => assert!(found.is_string(), "none fits: {found}"),
            _ => assert_eq!(found, on(&[("member1", 2)]), "{cpu}"),
        }
    }
    wait_told(folder.path(), "member1", "a number that makes no sense", 2).await;
    one.behave(Manner::Refuse(12));
    let requests = json!({"spec": {"replicaRequirements": {"resourceRequest": {"cpu": "6"}}}});
    client.post(BINDINGS, &with(workload("refused", 2), requests)).await.unwrap();
    assert_eq!(placed(&client, "refused").await, on(&[("member1", 2)]));
    wait_told(folder.path(), "member1", "answers with an error", 1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rm14_certificates_of_both_sides_are_checked() {
    let folder = tempfile::tempdir().unwrap();
    let (ca, other) = (Ca::new("estimators"), Ca::new("another"));
    let clients = Ca::new("schedulers");
    let client_ca = Some(clients.pem.clone());
    let pair = ca.server(folder.path(), &["127.0.0.1"]);
    let one = Estimator::start_with(Manner::Say(1), Tls { pair, client_ca: client_ca.clone() }).await;
    let pair = other.server(folder.path(), &["127.0.0.1"]);
    let two = Estimator::start_with(Manner::Say(0), Tls { pair, client_ca }).await;
    let file = addresses(folder.path(), &[("member1", &one), ("member2", &two)]);
    let (certificate, key) = clients.client(folder.path(), "scheduler", &[], |_| {});
    std::fs::write(folder.path().join("ca.pem"), &ca.pem).unwrap();
    let flag = |name: &str, path: &Path| format!("--scheduler-estimator-{name}-file={}", path.display());
    let flags = [flag("ca", &folder.path().join("ca.pem")), flag("cert", &certificate), flag("key", &key)];
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let (server, client) = fleet(folder.path(), &file, &flags).await;
    // The certificate of member2 is from another CA, so its false estimate is ignored.
    assert_eq!(place(&client, "web", 4).await, on(&[("member2", 4)]));
    assert_eq!(one.asked().len(), 1, "{}", log(folder.path()));
    assert_eq!(two.asked().len(), 0);
    wait_told(folder.path(), "member2", "certificate", 1).await;
    drop(server);
    // Without the client certificate that member1 requires, it is excluded, which is logged once.
    let folder = tempfile::tempdir().unwrap();
    let file = addresses(folder.path(), &[("member1", &one)]);
    let (server, client) = fleet(folder.path(), &file, &flags[..1]).await;
    for (name, replicas) in [("web", 40), ("api", 40)] {
        assert!(place(&client, name, replicas).await.is_array(), "{}", log(folder.path()));
    }
    wait_told(folder.path(), "member1", "want another client certificate?", 1).await;
    assert_eq!(told(folder.path(), "member1", "answers with an error"), 0, "{}", log(folder.path()));
    assert_eq!(one.asked().len(), 1);
    drop(server);
    // Without verification, both are believed.
    let folder = tempfile::tempdir().unwrap();
    let file = addresses(folder.path(), &[("member1", &one), ("member2", &two)]);
    let (_server, client) =
        fleet(folder.path(), &file, &[flags[1], flags[2], "--insecure-skip-estimator-verify"]).await;
    assert!(place(&client, "web", 4).await.is_string());
    assert_eq!(two.asked().len(), 1, "{}", log(folder.path()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rm14_clusters_in_pull_mode_are_left_out_by_a_flag() {
    let folder = tempfile::tempdir().unwrap();
    let one = Estimator::start(Manner::Say(0)).await;
    let file = addresses(folder.path(), &[("member1", &one)]);
    let (_server, client) = fleet(folder.path(), &file, &["--disable-scheduler-estimator-in-pull-mode"]).await;
    client.merge_patch(&format!("{CLUSTERS}/member1"), &json!({"spec": {"syncMode": "Pull"}})).await.unwrap();
    client.merge_patch(&format!("{CLUSTERS}/member2/status"), &room("0", "0", "0")).await.unwrap();
    assert_eq!(place(&client, "web", 4).await, on(&[("member1", 4)]));
    assert_eq!(one.asked(), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rm18_what_is_on_its_way_is_told_by_a_flag_and_is_not_deducted_twice() {
    for tells in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let one = Estimator::start(Manner::SayBeside(6)).await;
        let file = addresses(folder.path(), &[("member1", &one)]);
        let flag = format!("--scheduler-estimator-assumed-workloads={tells}");
        let (_server, client) = fleet(folder.path(), &file, &[&flag]).await;
        client.merge_patch(&format!("{CLUSTERS}/member2/status"), &room("0", "0", "0")).await.unwrap();
        assert_eq!(place(&client, "web", 4).await, on(&[("member1", 4)]));
        // Another requirement is another request.
        let two_cpu = json!({"spec": {"replicaRequirements": {"resourceRequest": {"cpu": "2"}}}});
        client.post(BINDINGS, &with(workload("api", 2), two_cpu.clone())).await.unwrap();
        let told = placed(&client, "api").await;
        let asked: Vec<Asked> = one.asked().into_iter().filter(|it| it.cpu.0.as_deref() == Some("2")).collect();
        let assumed = ("shop".to_owned(), "web".to_owned(), 4, "1".to_owned());
        assert_eq!(asked[0].assumed, if tells { vec![assumed] } else { Vec::new() });
        // 6 fit. Either the estimator deducts the pods of web, or the server deducts their
        // requests.
        assert_eq!(told, on(&[("member1", 2)]), "{tells}");
        // Reservations after an estimate are deducted in both cases.
        client.post(BINDINGS, &with(workload("more", 3), two_cpu)).await.unwrap();
        assert!(placed(&client, "more").await.is_string(), "{tells}");
    }
}

#[test]
fn rm14_flags_that_cannot_be_used_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("wrong.yaml"), "member1: nowhere\n").unwrap();
    let told = |flags: &str| {
        let done = ballast(
            folder.path(),
            &format!("serve --database-url memory: --secure-port 0 --enable-scheduler-estimator {flags}"),
        );
        assert_eq!(done.status.code(), Some(2), "{flags}");
        String::from_utf8_lossy(&done.stderr).into_owned()
    };
    let wrong = told("--scheduler-estimator-addresses-file wrong.yaml");
    assert!(wrong.contains("wrong.yaml") && wrong.contains("\"nowhere\" is no HOST:PORT"), "{wrong}");
    let missing = told("--scheduler-estimator-ca-file missing.pem");
    assert!(missing.contains("missing.pem"), "{missing}");
    assert!(told("--scheduler-estimator-cert-file one.pem").contains("--scheduler-estimator-key-file"));
    assert!(told("--scheduler-estimator-timeout 0s").contains("give estimators time to answer"));
}

/// A batch sends one request per cluster and distinct requirement (RM11).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rm11_bindings_with_equal_requirements_share_one_question() {
    let folder = tempfile::tempdir().unwrap();
    let late = Manner::Late(1_000, Duration::from_millis(300));
    let (one, two) = (Estimator::start(late.clone()).await, Estimator::start(late).await);
    let file = addresses(folder.path(), &[("member1", &one), ("member2", &two)]);
    let (_server, client) = fleet(folder.path(), &file, &[]).await;
    // The first request blocks the later ones, which then form one batch.
    for number in 0..8 {
        let cpu = if number % 2 == 0 { "100m" } else { "200m" };
        let requests = json!({"spec": {"replicaRequirements": {"resourceRequest": {"cpu": cpu}}}});
        client.post(BINDINGS, &with(workload(&format!("web-{number}"), 1), requests)).await.unwrap();
    }
    for number in 0..8 {
        assert!(placed(&client, &format!("web-{number}")).await.is_array());
    }
    for estimator in [&one, &two] {
        let mut asked: Vec<_> = estimator.asked().into_iter().filter_map(|asked| asked.cpu.0).collect();
        asked.sort();
        assert_eq!(asked, ["100m", "200m"]);
    }
}

/// Four pods of one CPU take two of the four estimated replicas of two CPUs (RM12).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn small_reserved_pods_leave_capacity_for_large_ones() {
    let folder = tempfile::tempdir().unwrap();
    let by_cpu = [("1".to_owned(), 8), ("2".to_owned(), 4)];
    let one = Estimator::start(Manner::ByCpu(by_cpu.into())).await;
    let none = Estimator::start(Manner::Say(0)).await;
    let file = addresses(folder.path(), &[("member1", &one), ("member2", &none)]);
    let (_server, client) = fleet(folder.path(), &file, &[]).await;
    // The estimate for two CPUs is known before anything is reserved.
    let large = |name: &str, replicas: i32| {
        with(workload(name, replicas), json!({"spec": {"replicaRequirements": {"resourceRequest": {"cpu": "2"}}}}))
    };
    client.post(BINDINGS, &large("first", 4)).await.unwrap();
    assert_eq!(placed(&client, "first").await, on(&[("member1", 4)]));
    client.delete(&format!("{BINDINGS}/first")).await.unwrap();
    assert_eq!(place(&client, "small", 4).await, on(&[("member1", 4)]));
    client.post(BINDINGS, &large("larger", 3)).await.unwrap();
    let refused = placed(&client, "larger").await;
    let why = "cluster member1: 4 free, 2 promised to others (shop/small 2), 2 left";
    assert!(refused.as_str().is_some_and(|message| message.contains(why)), "{refused}");
    client.post(BINDINGS, &large("large", 2)).await.unwrap();
    assert_eq!(placed(&client, "large").await, on(&[("member1", 2)]));
}

/// Unschedulable replicas move to another cluster once one has capacity, and stay before (RM17).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rm17_replicas_that_a_cluster_cannot_schedule_go_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (Estimator::start(Manner::Say(4)).await, Estimator::start(Manner::Say(0)).await);
    let file = addresses(folder.path(), &[("member1", &one), ("member2", &two)]);
    let flags = ["--controllers=*,descheduler", "--descheduling-interval=200ms"];
    let (_server, client) = fleet(folder.path(), &file, &flags).await;
    assert_eq!(place(&client, "web", 4).await, on(&[("member1", 4)]));
    // Its estimator still counts capacity: the pods wait for a reason that it does not model.
    one.behave(Manner::Say(9));
    one.set_unschedulable(3);
    // Two are ready, so at most two can move.
    let report = json!({"status": {"aggregatedStatus": [
        {"clusterName": "member1", "applied": true, "status": {"replicas": 4, "readyReplicas": 2}},
    ]}});
    client.merge_patch(&format!("{BINDINGS}/web/status"), &report).await.unwrap();
    wait_for("a round", async || {
        one.asked().iter().any(|asked| asked.method == "GetUnschedulableReplicas").then_some(())
    })
    .await;
    let at = async || client.get(&format!("{BINDINGS}/web")).await.unwrap()["spec"]["clusters"].clone();
    assert_eq!(at().await, on(&[("member1", 4)]), "there is no place for them");
    two.behave(Manner::Say(9));
    let wanted = on(&[("member1", 2), ("member2", 2)]);
    wait_for("the rescue", async || (at().await == wanted).then_some(())).await;
    let told = |event: &Value| {
        let message = event["message"].as_str().unwrap_or_default();
        event["reason"] == "ReplicasMoved" && message.contains("because 2 replicas on member1 could not be scheduled")
    };
    wait(&client, "/api/v1/namespaces/shop/events", told).await;
    let alone = ballast(folder.path(), "serve --database-url memory: --secure-port 0 --controllers=*,descheduler");
    assert_eq!(alone.status.code(), Some(2));
}
