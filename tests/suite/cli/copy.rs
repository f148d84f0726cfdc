//! `ballast copy`: a log goes from SQLite to PostgreSQL and back, and is the same.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};

use ballast::k8s::Revision;
use ballast::store::{self, Bounds, Change};
use http::Method;
use sqlx::Connection;

use crate::process::ServerProcess;
use crate::support::objects::{REBALANCERS, rebalancer};
use crate::support::postgres::Cluster;
use crate::support::raw::Raw;
use crate::support::wait_for;

const JSON: (&str, &str) = ("content-type", "application/json");

fn copy(from: &str, to: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ballast"));
    command.args(["copy", "--from", from, "--to", to]).output().unwrap()
}

fn file(folder: &Path, name: &str) -> String {
    format!("sqlite://{}", folder.join(name).display())
}

/// Returns all rows and the bounds of an unused log.
async fn contents(url: &str) -> (Vec<Change>, Bounds) {
    let store = store::open(url, &[]).await.unwrap();
    let bounds = store.bounds().await.unwrap();
    let all: Vec<Revision> = (1..=bounds.last.0).map(Revision).collect();
    let rows = store.rows(&all).await.unwrap();
    drop(store);
    (rows, bounds)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_is_the_same_after_a_copy_to_postgresql_and_back() {
    let Some(cluster) = Cluster::shared() else { return };
    let folder = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(folder.path(), &[]);
    let certs = ballast::node::certs::Files::in_dir(&folder.path().join("certs"));
    let admin = Raw::admin(server.address, &certs).connect().await;
    for name in ["one", "two", "three"] {
        let made = admin.send(Method::POST, REBALANCERS, &[JSON], rebalancer(name).to_string()).await;
        assert_eq!(made.code, 201);
    }
    let gone = admin.send(Method::DELETE, &format!("{REBALANCERS}/one"), &[], String::new()).await;
    assert_eq!(gone.code, 200);
    drop(admin);
    assert!(server.terminate().success());
    let (first, middle) = (file(folder.path(), "ballast.db"), cluster.schema().await);
    // Part of the log is compacted, so not all revisions exist.
    let store = store::open(&first, &[]).await.unwrap();
    while store.compact(Revision(3), 1000).await.unwrap() {}
    drop(store);
    let expected = contents(&first).await;
    assert!(expected.1.compacted == Revision(3) && expected.0.len() > 3, "{expected:?}");

    let copied = copy(&first, &middle);
    assert!(copied.status.success(), "{}", String::from_utf8_lossy(&copied.stderr));
    let said = String::from_utf8_lossy(&copied.stdout).into_owned();
    let rows = expected.0.len();
    assert!(said.contains(&format!("holds everything up to revision {} ({rows} rows)", expected.1.last)), "{said}");
    assert_eq!(contents(&middle).await, expected);
    let last = file(folder.path(), "again.db");
    assert!(copy(&middle, &last).status.success());
    assert_eq!(contents(&last).await, expected);

    let again = copy(&first, &middle);
    let said = String::from_utf8_lossy(&again.stderr).into_owned();
    assert_eq!(again.status.code(), Some(2), "{said}");
    assert!(said.contains("it is not empty"), "{said}");
    assert_eq!(contents(&middle).await, expected);
}

/// The key of this CA grants the rights of any user of a deployment of replicas. A file does not
/// need it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wh3_a_copy_to_sqlite_leaves_the_ca_of_the_replicas_out() {
    const CA: &str = "replicacertificates.internal.ballast.dev";
    let Some(cluster) = Cluster::shared() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (cluster.schema().await, cluster.schema().await);
    let ca_of = async |url: &str| {
        let mut database = sqlx::PgConnection::connect(url).await.unwrap();
        let sql = "SELECT object FROM changes WHERE kind = $1 ORDER BY revision DESC LIMIT 1";
        wait_for("the CA", async || {
            let found: Option<String> = sqlx::query_scalar(sql).bind(CA).fetch_optional(&mut database).await.unwrap();
            found.filter(|object| object.contains("PRIVATE KEY"))
        })
        .await
    };
    let server = ServerProcess::start_on(folder.path(), &first, &[]);
    let before = ca_of(&first).await;
    assert!(server.terminate().success());

    let copied = copy(&first, &file(folder.path(), "copy.db"));
    assert!(copied.status.success(), "{}", String::from_utf8_lossy(&copied.stderr));
    let bytes = std::fs::read(folder.path().join("copy.db")).unwrap();
    let has = |text: &str| bytes.windows(text.len()).any(|part| part == text.as_bytes());
    assert!(has(CA) && !has("PRIVATE KEY") && !has("BEGIN CERTIFICATE"), "the row is there without its content");
    let mode = std::fs::metadata(folder.path().join("copy.db")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    // In a database shared by replicas, the leader creates a new CA.
    let back = copy(&file(folder.path(), "copy.db"), &second);
    assert!(back.status.success(), "{}", String::from_utf8_lossy(&back.stderr));
    let server = ServerProcess::start_on(folder.path(), &second, &[]);
    assert_ne!(ca_of(&second).await, before);
    assert!(server.terminate().success());
}

#[tokio::test]
async fn a_database_that_is_led_is_not_copied() {
    let Some(cluster) = Cluster::shared() else { return };
    let folder = tempfile::tempdir().unwrap();
    let url = cluster.schema().await;
    let store = store::open(&url, &[]).await.unwrap();
    let leader = store::Candidate { name: "anna".into(), address: "anna:7443".into() };
    store.lead(&leader, std::time::Duration::from_secs(60)).await.unwrap();
    let refused = copy(&url, &file(folder.path(), "copy.db"));
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{said}");
    assert!(said.contains("anna leads") && said.contains("stop all replicas first"), "{said}");
}

#[tokio::test]
async fn a_database_server_without_a_log_is_refused_untouched() {
    let Some(cluster) = Cluster::shared() else { return };
    let folder = tempfile::tempdir().unwrap();
    let url = cluster.schema().await;
    let refused = copy(&url, &file(folder.path(), "copy.db"));
    let lift = Command::new(env!("CARGO_BIN_EXE_ballast")).args(["lift", "--database-url", &url]).output().unwrap();
    for refused in [refused, lift] {
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(2), "{said}");
        assert!(said.contains("there is no log at postgres://"), "{said}");
    }
    let mut connection = sqlx::PgConnection::connect(&url).await.unwrap();
    let there = "SELECT count(*) FROM information_schema.tables WHERE table_schema = current_schema()";
    let there: i64 = sqlx::query_scalar(there).fetch_one(&mut connection).await.unwrap();
    assert_eq!(there, 0);
}

#[test]
fn what_cannot_be_copied_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let there = file(folder.path(), "there.db");
    std::fs::write(folder.path().join("there.db"), "").unwrap();
    for (from, to, says) in [
        ("mysql://x", "memory:", "--from: "),
        (&*there, "mysql://x", "--to: "),
        ("memory:", &*there, "--from memory: is gone"),
        (&*there, &*there, "name the same database"),
        ("sqlite:///nowhere/a.db", &*there, "there is no database at /nowhere/a.db (--from)"),
    ] {
        let refused = copy(from, to);
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(2), "{from} {to}: {said}");
        assert!(said.contains(says), "{from} {to}: {said}");
    }
    let backup = Command::new(env!("CARGO_BIN_EXE_ballast"))
        .args(["backup", "--database-url", "postgres://a:s3cret@b/c"])
        .arg(folder.path().join("copy.db"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&backup.stderr).into_owned();
    assert!(backup.status.code() == Some(2) && said.contains("pg_dump") && said.contains("ballast copy"), "{said}");
}
