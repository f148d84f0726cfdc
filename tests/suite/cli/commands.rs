//! The commands: their output and their exit status (0 done, 1 failed, 2 wrong usage).

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use sqlx::Connection;

use crate::process::ServerProcess;
use crate::support::objects;
use crate::support::postgres::Cluster;

fn ballast(folder: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ballast")).current_dir(folder).args(words).output().expect("the binary runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Runs a demo in an empty folder, and returns its output.
fn played(story: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let done = ballast(folder.path(), &["demo", "--story", story]);
    let told = text(&done.stdout);
    assert!(done.status.success(), "{told}\n{}", text(&done.stderr));
    assert_eq!(text(&done.stderr), "", "nothing is worth a warning");
    assert!(std::fs::read_dir(folder.path()).unwrap().next().is_none(), "a demo leaves nothing behind");
    told
}

#[test]
fn r44_the_demo_brings_the_replicas_home_with_a_rebalancer() {
    let told = played("rebalance");
    for row in
        ["default/demo-deploy-1-deployment         2         2", "default/demo-deploy-1-deployment         -         4"]
    {
        assert!(told.contains(row), "no row {row:?} in\n{told}");
    }
    assert!(told.contains("reason: ReferencedBindingNotFound"), "{told}");
}

/// The demo's fleet can be used by hand, and is removed completely.
#[test]
fn a_demo_that_is_held_keeps_its_fleet_until_a_signal() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_ballast"));
    command.args(["demo", "--hold-after", "3"]).env("TMPDIR", folder.path()).stdout(Stdio::piped());
    let mut demo = command.spawn().unwrap();
    let mut lines = BufReader::new(demo.stdout.take().unwrap()).lines().map(Result::unwrap);
    let told: Vec<String> = lines.by_ref().take_while(|line| !line.contains("stays until Ctrl-C")).collect();
    let told = told.join("\n");
    assert!(told.contains("\n3. member1 is lost") && !told.contains("\n4. "), "{told}");
    let kubeconfig = told.split("export KUBECONFIG=").nth(1).unwrap_or_else(|| panic!("{told}")).trim();
    let why = ballast(folder.path(), &["why", "deployment/demo-deploy-1", "--kubeconfig", kubeconfig]);
    assert!(text(&why.stdout).contains("is on member2:4"), "{}{}", text(&why.stdout), text(&why.stderr));
    rustix::process::kill_process(rustix::process::Pid::from_child(&demo), rustix::process::Signal::TERM).unwrap();
    assert!(demo.wait().unwrap().success());
    assert!(std::fs::read_dir(folder.path()).unwrap().next().is_none(), "a demo leaves nothing behind");
}

#[test]
fn r5_the_demo_brings_nginx_back_to_the_primary_with_a_task() {
    let told = played("task");
    assert!(told.contains("rescheduletask.task.karmada.io/demo-task created"), "{told}");
    assert!(told.trim_end().ends_with("The replicas are home."), "{told}");
}

#[test]
fn pl1_the_demo_keeps_a_fleet_in_shape() {
    let told = played("balance");
    for line in ["  REPLICAS  member1: 12  member2: 12  member3: 12", "  REPLICAS  member1: 18  member2: 18"] {
        assert!(told.contains(line), "no line {line:?} in\n{told}");
    }
    assert!(told.contains("lost: ") && told.contains("rebalanceschedule.ballast.dev/nightly created"), "{told}");
    assert!(told.trim_end().ends_with("The fleet is in shape."), "{told}");
}

#[test]
fn the_demo_places_over_a_fleet_and_moves_only_when_the_policy_does() {
    let told = played("fleet");
    let rows: Vec<Vec<&str>> =
        told.lines().filter(|line| line.starts_with("  shop ")).map(|line| line.split_whitespace().collect()).collect();
    let (on, off, yes) = ("Bound", "-", "True");
    let expected: [&[&str]; 5] = [
        &["shop", off, on, on, off, yes, yes],
        &["shop", on, on, on, off, yes, yes],
        &["shop", on, on, on, yes, yes],
        &["shop", on, on, on, yes, yes],
        &["shop", off, on, on, yes, yes],
    ];
    assert_eq!(rows, expected, "{told}");
}

#[test]
fn r43_the_demo_evicts_from_a_lost_cluster_and_returns_to_it_when_asked() {
    let told = played("failover");
    for row in [
        "default/shop-deployment         2         2         2",
        "default/shop-deployment         -         3         3",
    ] {
        assert!(told.contains(row), "no row {row:?} in\n{told}");
    }
    assert!(told.contains("reason: TaintUntolerated") && told.contains("EvictWorkloadFromClusterSucceed"), "{told}");
}

#[test]
fn r108_r109_the_demo_prefers_the_first_group_and_returns_to_it_when_asked() {
    let told = played("groups");
    for row in ["default/small-deployment         -         3", "default/small-deployment         3         -"] {
        assert!(told.contains(row), "no row {row:?} in\n{told}");
    }
    assert!(told.contains("schedulerObservingAffinityName: local-data-center"), "{told}");
}

#[test]
fn r134_r135_the_demo_places_by_the_numbers_of_each_region() {
    let told = played("regions");
    for row in ["         3         3         5", "         1         -         2"] {
        assert!(told.contains(row), "no row {row:?} in\n{told}");
    }
}

#[test]
fn s4_1_the_demo_moves_hundreds_of_workloads_home_and_takes_a_failed_wave_back() {
    let told = played("safe");
    assert!(told.contains("At most ") && told.contains("phase: Aborted"), "{told}");
    assert!(told.trim_end().ends_with("Two teams are home, and the third is where it was."), "{told}");
}

#[tokio::test]
async fn the_demo_goes_on_when_the_replica_that_leads_is_killed() {
    let Some(cluster) = Cluster::shared() else { return };
    let folder = tempfile::tempdir().unwrap();
    let done = ballast(folder.path(), &["demo", "--replicas", "3", "--database-url", &cluster.url()]);
    let told = text(&done.stdout);
    assert!(done.status.success(), "{told}\n{}", text(&done.stderr));
    for row in [
        "default/demo-deploy-1-deployment         -         4",
        "default/demo-deploy-1-deployment         2         2",
        "$ kill -9 ",
        "each once, and in order",
    ] {
        assert!(told.contains(row), "no {row:?} in\n{told}");
    }
    assert!(told.trim_end().ends_with("The replicas are home."), "{told}");
    assert!(std::fs::read_dir(folder.path()).unwrap().next().is_none(), "a demo leaves nothing behind");
    let mut database = sqlx::PgConnection::connect(&cluster.url()).await.unwrap();
    let sql = "SELECT count(*) FROM information_schema.schemata WHERE schema_name LIKE 'ballast_demo%'";
    let schemas: i64 = sqlx::query_scalar(sql).fetch_one(&mut database).await.unwrap();
    assert_eq!(schemas, 0, "nor in the database");
}

#[test]
fn wrong_usage_exits_with_2_and_says_what_is_wrong() {
    let folder = tempfile::tempdir().unwrap();
    for words in [
        &["serve", "--no-such-flag"][..],
        &["serve", "--secure-port", "70000"],
        &["serve", "--database-url", "mysql://here"],
        &["serve", "--tls-cert-file", "only.crt"],
        &["serve", "--max-requests-inflight", "0"],
        &["serve", "--failover-eviction-timeout=-5s"],
        &["serve", "--controllers=*,policy", "--beneath-karmada"],
        &["serve", "--attach", "karmada.kubeconfig", "--beneath-karmada"],
        &["serve", "--feature-gates=WorkloadAffinity"],
        &["serve", "--failover-eviction-timeout=9999999999999h"],
        &["demo", "--story", "unknown"],
        &["demo", "--replicas", "3"],
        &["demo", "--hold-after", "0"],
        &["demo", "--hold-after", "3", "--ui"],
        &["demo", "--replicas", "1", "--database-url", "postgres://ballast@db/ballast"],
        &["demo", "--replicas", "3", "--database-url", "sqlite://ballast.db"],
        &["no-such-command"],
    ] {
        let done = ballast(folder.path(), words);
        assert_eq!(done.status.code(), Some(2), "{words:?}: {}", text(&done.stderr));
        assert!(!done.stderr.is_empty() && done.stdout.is_empty(), "{words:?}");
    }
    assert!(std::fs::read_dir(folder.path()).unwrap().next().is_none(), "wrong usage makes no files");
}

#[test]
fn a_number_that_a_flag_cannot_take_is_wrong_usage_and_the_error_says_what_would_be_right() {
    let folder = tempfile::tempdir().unwrap();
    let flags = [
        ("--resource-eviction-rate", "a number of bindings a second", &["-1", "NaN", "inf", "1e-300", "fast"][..]),
        ("--secondary-resource-eviction-rate", "a number of bindings a second", &["-0.1", "nan"]),
        ("--unhealthy-cluster-threshold", "a number from 0 to 1", &["-0.5", "1.5", "NaN"]),
        ("--otlp-sampling-ratio", "a number from 0 to 1", &["-1", "2", "NaN"]),
        ("--large-cluster-num-threshold", "a number of clusters, 0 or more", &["-1", "1.5"]),
        ("--max-requests-inflight", "1..", &["-1", "0"]),
        ("--max-mutating-requests-inflight", "1..", &["-1"]),
        ("--audit-log-maxsize", "0..=4294967295", &["-1"]),
        ("--secure-port", "0..=65535", &["-1"]),
        ("--failover-eviction-timeout", "10s, 1m30s or 500ms", &["5", "5 minutes"]),
        ("--database-max-connections", "1..=262143", &["-1", "0", "262144", "4294967295"]),
        ("--history", "a duration from 1m to 8760h", &["59s", "8761h", "1d"]),
        ("--history-max-changes", "1000..", &["-1", "999"]),
        ("--history-max-bytes", "at least 16Mi", &["1Mi", "much"]),
        ("--max-namespace-bytes", "at least 1Mi", &["1Ki", "much"]),
        ("--database-timeout", "a duration from 100ms to 1h", &["0s", "2h"]),
        ("--controllers", "the nearest known name is \"rebalancer\"", &["*,-rebalancerr", "rebalncer"]),
        ("--feature-gates", "WorkloadAffinity", &["WorkloadAfinity=true", "All=true", "WorkloadAffinity=1"]),
    ];
    for (flag, expected, values) in flags {
        for value in values {
            // `--print-config` ends at once, even if the value is accepted.
            let done = ballast(folder.path(), &["serve", "--print-config", flag, value]);
            let told = text(&done.stderr);
            assert_eq!(done.status.code(), Some(2), "{flag} {value}: {told}");
            assert!(told.contains(flag) && told.contains(expected), "{flag} {value}: {told}");
        }
    }
    for good in ["0", "0.5", "1000"] {
        let done = ballast(folder.path(), &["serve", "--print-config", "--resource-eviction-rate", good]);
        assert!(done.status.success(), "{good}: {}", text(&done.stderr));
    }
}

/// r4-use-22: a hint of the parser that would be rejected as well is omitted.
#[test]
fn a_negative_number_is_a_wrong_value_of_its_flag() {
    let folder = tempfile::tempdir().unwrap();
    for flag in ["--max-concurrent", "--max-moved-replicas", "--abort-on-failed", "--budget", "--worth"] {
        let done = ballast(folder.path(), &["rebalance", "--displaced", "-A", flag, "-1"]);
        let told = text(&done.stderr);
        assert_eq!(done.status.code(), Some(2), "{flag}: {told}");
        assert!(told.contains(flag) && !told.contains("'-- -1'"), "{flag}: {told}");
    }
}

/// r4-use-13: a wrong value names its origin.
#[test]
fn a_wrong_value_names_the_file_or_the_variable_that_it_stands_in() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("server.yaml"), "secure-port: abc\n").unwrap();
    let done = ballast(folder.path(), &["serve", "--config", "server.yaml"]);
    let told = text(&done.stderr);
    assert_eq!(done.status.code(), Some(2), "{told}");
    assert!(told.contains("'--secure-port") && told.contains("it is not a whole number (in server.yaml)"), "{told}");
    let mut command = Command::new(env!("CARGO_BIN_EXE_ballast"));
    let done = command.arg("serve").env("BALLAST_SECURE_PORT", "abc").current_dir(folder.path()).output().unwrap();
    let told = text(&done.stderr);
    assert!(told.contains("(in the environment variable BALLAST_SECURE_PORT)"), "{told}");
    let given = ballast(folder.path(), &["serve", "--secure-port", "abc"]);
    assert!(!text(&given.stderr).contains("(in "), "{}", text(&given.stderr));
}

/// r4-use-23: the folder of a demo contains the key of an admin.
#[cfg(unix)]
#[test]
fn a_demo_that_is_ended_by_a_signal_leaves_nothing_behind() {
    use std::io::{BufRead, BufReader};

    // Under nohup, the demo ignores SIGHUP, which is the first bit.
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap_or_default();
    let is_nohup = u64::from_str_radix(ignored.trim(), 16).is_ok_and(|ignored| ignored & 1 == 1);
    for signal in ["-TERM", "-HUP", "-INT"].into_iter().filter(|signal| !is_nohup || *signal != "-HUP") {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_ballast"));
        let command = command.args(["demo", "--ui"]).env("TMPDIR", folder.path()).stdout(std::process::Stdio::piped());
        let mut demo = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(demo.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("Ballast serves at"), "{line}");
        assert!(std::fs::read_dir(folder.path()).unwrap().next().is_some());
        assert!(Command::new("kill").args([signal, &demo.id().to_string()]).status().unwrap().success());
        assert!(demo.wait().unwrap().success(), "{signal}");
        let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
        assert!(left.is_empty(), "{signal}: {left:?}");
    }
}

/// r4-use-08: the ready line and `/readyz` agree, and an unreachable Karmada does not flood the
/// log.
#[test]
fn a_server_beside_a_karmada_that_is_away_is_not_ready_and_its_log_is_bounded() {
    let folder = tempfile::tempdir().unwrap();
    let certs = ballast(folder.path(), &["certs", "--cert-dir", "other", "--server", "https://127.0.0.1:1"]);
    assert!(certs.status.success(), "{}", text(&certs.stderr));
    let (out, log) = (folder.path().join("out"), folder.path().join("log"));
    let mut serve = Command::new(env!("CARGO_BIN_EXE_ballast"));
    let line = ["serve", "--secure-port=0", "--database-url=memory:", "--attach=other/admin.kubeconfig"];
    let serve = serve.args(line).current_dir(folder.path());
    let mut serve = serve
        .stdout(std::fs::File::create(&out).unwrap())
        .stderr(std::fs::File::create(&log).unwrap())
        .spawn()
        .unwrap();
    let told = || std::fs::read_to_string(&log).unwrap();
    let began = std::time::Instant::now();
    while !told().contains("the server listens, and is not ready yet") {
        assert!(began.elapsed() < crate::process::WITHIN, "{}", told());
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert!(!std::fs::read_to_string(&out).unwrap().contains("is ready at"));
    let failures = told().matches("failed to follow a kind in Karmada").count();
    assert!((1..=2).contains(&failures) || began.elapsed().as_secs() > 10, "{}", told());
    assert!(Command::new("kill").arg(serve.id().to_string()).status().unwrap().success());
    assert!(serve.wait().unwrap().success(), "{}", told());
}

#[test]
fn a_file_that_is_no_database_is_refused_and_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("letter.db");
    std::fs::write(&file, "Dear reader, this is no database.\n".repeat(300)).unwrap();
    let before = std::fs::read(&file).unwrap();
    let done = ballast(folder.path(), &["serve", "--secure-port", "0", "--database-url", "sqlite://letter.db"]);
    assert_eq!(done.status.code(), Some(1));
    assert!(text(&done.stderr).contains("letter.db"), "{}", text(&done.stderr));
    assert_eq!(std::fs::read(&file).unwrap(), before);
}

#[test]
fn print_config_shows_what_flags_and_defaults_amount_to() {
    let folder = tempfile::tempdir().unwrap();
    let done = ballast(folder.path(), &["serve", "--secure-port", "8443", "--print-config"]);
    let shown = text(&done.stdout);
    assert!(done.status.success());
    assert!(shown.contains("secure-port: 8443") && shown.contains("scheduler-name: default-scheduler"), "{shown}");
    assert!(shown.contains("history: 3600s") && shown.contains("history-max-changes: null"), "{shown}");
    let line = ["serve", "--beneath-karmada", "--scheduling-profile=karmada", "--print-config"];
    let shown = text(&ballast(folder.path(), &[&line[..], &["--feature-gates=WorkloadAffinity=true"]].concat()).stdout);
    for part in ["- -policy", "- -failover", "MultiplePodTemplatesScheduling=false", "WorkloadAffinity=true"] {
        assert!(shown.contains(part), "{part} is missing in:\n{shown}");
    }
}

#[test]
fn the_committed_openapi_documents_are_what_is_served() {
    let done = ballast(Path::new(env!("CARGO_MANIFEST_DIR")), &["openapi", "--check"]);
    assert!(done.status.success(), "{}", text(&done.stderr));
    let empty = tempfile::tempdir().unwrap();
    let done = ballast(empty.path(), &["openapi", "--check"]);
    assert_eq!(done.status.code(), Some(1), "documents that are not there are not current");
}

#[test]
fn certs_are_made_once_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    assert!(ballast(folder.path(), &["certs", "--name", "ballast.example"]).status.success());
    let before = std::fs::read(folder.path().join("certs/admin.crt")).unwrap();
    assert!(ballast(folder.path(), &["certs"]).status.success());
    assert_eq!(std::fs::read(folder.path().join("certs/admin.crt")).unwrap(), before);
}

#[test]
fn simulate_answers_each_line_and_fails_at_the_end_for_a_malformed_one() {
    let folder = tempfile::tempdir().unwrap();
    let fleet = r#"{"id":"one","clusters":[{"metadata":{"name":"m1"},"spec":{"syncMode":"Push"},"status":{"apiEnablements":[{"groupVersion":"apps/v1","resources":[{"kind":"Deployment","name":"deployments"}]}]}}],"binding":{"apiVersion":"work.karmada.io/v1alpha2","kind":"ResourceBinding","metadata":{"name":"web-deployment","namespace":"shop","generation":1},"spec":{"resource":{"apiVersion":"apps/v1","kind":"Deployment","name":"web","namespace":"shop"},"replicas":2,"placement":{"clusterAffinity":{"clusterNames":["m1"]}}}}}"#;
    std::fs::write(folder.path().join("cases.jsonl"), format!("{fleet}\n{{\"id\":\"two\",\"clusters\":7}}\n")).unwrap();
    let done = ballast(folder.path(), &["simulate", "-f", "cases.jsonl"]);
    let lines: Vec<serde_json::Value> =
        text(&done.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(done.status.code(), Some(2));
    assert_eq!((lines[0]["id"].as_str(), &lines[0]["clusters"][0]["replicas"]), (Some("one"), &2.into()), "{lines:?}");
    assert_eq!(lines[1]["id"], "two");
    assert!(lines[1]["error"].is_string());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sigterm_drains_and_exits_with_0_and_the_tables_are_readable() {
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(folder.path(), &[]);
    let client = server.client().await;
    let cluster = objects::cluster("m1");
    client.post("/apis/cluster.karmada.io/v1alpha1/clusters", &cluster).await.unwrap();
    let database = server.database();
    drop(client);
    assert!(server.terminate().success());
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(database).read_only(true);
    let mut connection = sqlx::ConnectOptions::connect(&options).await.unwrap();
    let name: String = sqlx::query_scalar("select name from clusters").fetch_one(&mut connection).await.unwrap();
    assert_eq!(name, "m1");
    for view in ["resource_bindings", "cluster_resource_bindings", "workload_rebalancers", "propagation_policies"] {
        let sql = format!("select count(*) from {view}");
        let count: i64 = sqlx::query_scalar(sqlx::AssertSqlSafe(sql)).fetch_one(&mut connection).await.unwrap();
        assert_eq!(count, 0, "{view}");
    }
}

/// The author of the command line can correct it, and a retry would not help.
#[test]
fn a_file_that_a_flag_names_and_that_cannot_be_used_is_wrong_usage() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("nonsense"), "nonsense").unwrap();
    for flag in [
        "--tls-private-key-file=k --tls-cert-file",
        "--client-ca-file",
        "--requestheader-client-ca-file",
        "--token-auth-file",
        "--authorization-policy-file",
        "--audit-log-path=audit.log --audit-policy-file",
        "--kubeconfig",
        "--authentication-kubeconfig",
    ] {
        for file in ["missing", "nonsense"] {
            let line = format!("serve --secure-port=0 --database-url=memory: {flag}={file}");
            let done = ballast(folder.path(), &line.split(' ').collect::<Vec<_>>());
            let told = text(&done.stderr);
            assert_eq!(done.status.code(), Some(2), "{line}: {told}");
            assert!(told.starts_with("ballast: failed to ") && told.lines().count() < 6, "{line}: {told}");
            let is_named = told.contains(file) || flag.contains("private-key");
            assert!(is_named || file == "nonsense", "{line}: {told}");
            assert_eq!(
                told.matches("No such file").count(),
                usize::from(file == "missing" || flag.contains("=k")),
                "{told}"
            );
        }
    }
}
