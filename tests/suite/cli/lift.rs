//! A log is raised above the revisions that clients have seen elsewhere: by an import, and by
//! `ballast lift` after a restore. Existing watches must list again instead of waiting forever.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use ballast::k8s::Revision;
use ballast::node::REPLICA_CERTIFICATES;
use ballast::node::certs::Files;
use ballast::store::{self, Bounds, Candidate, REVISIONS_SKIPPED};
use http::Method;
use serde_json::{Value, json};

use crate::process::ServerProcess;
use crate::support::objects::{self, CLUSTERS, with};
use crate::support::postgres::Cluster;
use crate::support::raw::Raw;

const JSON: (&str, &str) = ("content-type", "application/json");
/// Only the test writes.
const STILL: &str = "--controllers=events";

/// Returns the output of a command that exits with this status.
fn told(words: &[&str], status: i32) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ballast"));
    let done = command.args(words).stdin(Stdio::null()).output().expect("the binary runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let all = text(&done.stdout) + &text(&done.stderr);
    assert_eq!(done.status.code(), Some(status), "ballast {words:?}\n{all}");
    all
}

fn url(folder: &Path) -> String {
    format!("sqlite://{}", folder.join("ballast.db").display())
}

fn start(folder: &Path) -> ServerProcess {
    ServerProcess::start(folder, &[STILL])
}

fn admin(server: &ServerProcess, folder: &Path) -> Raw {
    Raw::admin(server.address, &Files::in_dir(&folder.join("certs")))
}

fn version(object: &Value) -> i64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

/// Creates a cluster, and returns its revision.
async fn make(server: &Raw, name: &str) -> i64 {
    let cluster = objects::cluster(name);
    let made = server.send(Method::POST, CLUSTERS, &[JSON], cluster.to_string()).await;
    assert_eq!(made.code, 201, "{}", made.text());
    version(&made.json())
}

async fn list(server: &Raw) -> (i64, Vec<String>) {
    let list = server.get(CLUSTERS).await.json();
    let name = |item: &Value| item["metadata"]["name"].as_str().unwrap().to_owned();
    (version(&list), list["items"].as_array().unwrap().iter().map(name).collect())
}

/// Returns the events of a watch that resumes from a revision.
async fn resumed(server: &Raw, from: i64) -> Vec<Value> {
    let watch = server.get(&format!("{CLUSTERS}?watch=1&resourceVersion={from}&timeoutSeconds=1")).await;
    watch.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Asserts that a watch from each of these revisions must list again, and that one from the new
/// list receives the next change with a later revision.
async fn lists_anew_and_goes_on(server: &Raw, seen: &[i64], name: &str) {
    for &from in seen {
        let lines = resumed(server, from).await;
        let is_told = lines.len() == 1 && lines[0]["type"] == "ERROR" && lines[0]["object"]["code"] == 410;
        assert!(is_told, "from {from}: {lines:?}");
    }
    let (listed, _) = list(server).await;
    let made = make(server, name).await;
    assert!(seen.iter().all(|seen| made > *seen), "{made} after {seen:?}");
    let lines = resumed(server, listed).await;
    let added: Vec<&Value> = lines.iter().filter(|line| line["type"] == "ADDED").collect();
    assert!(added.len() == 1 && version(&added[0]["object"]) == made, "{lines:?}");
}

#[tokio::test]
async fn bk10_a_client_that_lives_through_an_import_lists_anew_and_never_waits_in_silence() {
    let (old, new) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let source = start(old.path());
    let client = admin(&source, old.path());
    let first = make(&client, "member1").await;
    // Deleted objects have advanced the revisions of the source, too.
    for number in 0..20 {
        make(&client, &format!("gone{number}")).await;
        let path = format!("{CLUSTERS}/gone{number}");
        assert!(client.send(Method::DELETE, &path, &[], "").await.code.is_success());
    }
    let last = make(&client, "member2").await;
    let (from, database) = (old.path().join("certs/admin.kubeconfig").display().to_string(), url(new.path()));
    let import = ["import", "--from", &from, "--database-url", &database];
    let dry = told(&[&import[..], &["--dry-run"]].concat(), 3);
    assert!(dry.contains("The log would be lifted to revision 1000000"), "{dry}");
    let said = told(&import, 0);
    assert!(said.contains("The log is lifted to revision 1000000"), "{said}");
    // The source and its clients continue for a while.
    let late = make(&client, "member3").await;
    let again = told(&import, 0);
    assert!(again.contains("Objects written: 1;") && !again.contains("lifted"), "{again}");
    told(&[&import[..], &["--dry-run"]].concat(), 0);
    let later = make(&client, "member4").await;
    drop(client);
    assert!(source.terminate().success());

    let server = start(new.path());
    let client = admin(&server, new.path());
    let (_, names) = list(&client).await;
    assert_eq!(names, ["member1", "member2", "member3"]);
    let seen = [first, last - 7, last, late, later, later + 1000];
    lists_anew_and_goes_on(&client, &seen, "member5").await;
    let path = format!("{CLUSTERS}?resourceVersion={later}&resourceVersionMatch=NotOlderThan");
    let not_older = client.get(&path).await;
    assert_eq!(not_older.code, 200, "a list waits for nothing: {}", not_older.text());
    drop(client);
    server.kill();
    let server = start(new.path());
    lists_anew_and_goes_on(&admin(&server, new.path()), &seen, "member6").await;
    assert!(server.terminate().success());
}

#[tokio::test]
async fn bk10_a_log_of_its_own_past_is_lifted_above_the_source_and_a_file_of_its_own_does_not_lift_it() {
    let (old, new) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let source = start(old.path());
    let seen = make(&admin(&source, old.path()), "member1").await;
    let server = start(new.path());
    let client = admin(&server, new.path());
    for number in 0..20 {
        make(&client, &format!("own{number}")).await;
    }
    let (own, _) = list(&client).await;
    assert!(own > seen, "here {seen} is of the past, and means something else");
    drop(client);
    assert!(server.terminate().success());
    let (database, file) = (url(new.path()), new.path().join("own.json").display().to_string());
    told(&["export", "--database-url", &database, "--to-file", &file], 0);
    let said = told(&["import", "--from-file", &file, "--database-url", &database], 0);
    assert!(!said.contains("lifted"), "its past is kept: {said}");
    let from = old.path().join("certs/admin.kubeconfig").display().to_string();
    let said = told(&["import", "--from", &from, "--database-url", &database], 0);
    assert!(said.contains("The log is lifted to revision 1000000"), "{said}");
    assert!(source.terminate().success());
    let server = start(new.path());
    lists_anew_and_goes_on(&admin(&server, new.path()), &[seen, own], "later").await;
    assert!(server.terminate().success());
}

#[test]
fn bk10_a_version_that_is_no_revision_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let (file, database) = (folder.path().join("one.json"), url(folder.path()));
    for strange in ["1795419252000000000", "a-7"] {
        let cluster = with(
            objects::cluster("m"),
            json!({"metadata": {"uid": "u", "creationTimestamp": "2024-04-17T15:00:00Z", "resourceVersion": strange}}),
        );
        std::fs::write(&file, cluster.to_string()).unwrap();
        let said = told(&["import", "--from-file", &file.display().to_string(), "--database-url", &database], 0);
        let words: String = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains(&format!("has a version that is no revision, {strange}")), "{said}");
        assert!(!said.contains("is lifted"), "{said}");
    }
}

#[tokio::test]
async fn re8_a_restored_backup_is_lifted_and_whoever_has_seen_more_lists_anew() {
    let folder = tempfile::tempdir().unwrap();
    let (path, database) = (folder.path().join("ballast.db"), url(folder.path()));
    let server = start(folder.path());
    make(&admin(&server, folder.path()), "member1").await;
    assert!(server.terminate().success());
    let copy = std::fs::read(&path).unwrap();
    let server = start(folder.path());
    let client = admin(&server, folder.path());
    let backed_up = list(&client).await.0;
    let seen = make(&client, "lost").await;
    let busy = told(&["lift", "--database-url", &database], 1);
    assert!(busy.contains("another process has the file"), "{busy}");
    drop(client);
    assert!(server.terminate().success());
    std::fs::write(&path, copy).unwrap();

    let said = told(&["lift", "--database-url", &database], 0);
    let moved = format!("is lifted from revision {backed_up} to {}: ", backed_up + REVISIONS_SKIPPED);
    assert!(said.contains(&moved), "{said}");
    let already = told(&["lift", "--database-url", &database, "--above", &seen.to_string()], 0);
    assert!(already.contains("list again already"), "{already}");
    assert_eq!(told(&["check", "--database-url", &database], 0).lines().count(), 1);
    let server = start(folder.path());
    let client = admin(&server, folder.path());
    assert_eq!(list(&client).await, (backed_up + REVISIONS_SKIPPED, vec!["member1".to_owned()]));
    lists_anew_and_goes_on(&client, &[backed_up, seen], "found").await;
    drop(client);
    assert!(server.terminate().success());
    // Above a revision that is known to be later.
    let above = 3 * REVISIONS_SKIPPED;
    told(&["lift", "--database-url", &database, "--above", &above.to_string()], 0);
    let store = store::open(&database, &[]).await.unwrap();
    let to = Revision(above + REVISIONS_SKIPPED);
    assert_eq!(store.bounds().await.unwrap(), Bounds { last: to, compacted: to });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn re8_a_database_of_postgresql_is_lifted_and_copied_as_it_is() {
    let Some(cluster) = Cluster::shared() else { return };
    let (folder, database) = (tempfile::tempdir().unwrap(), cluster.schema().await);
    let server = ServerProcess::start_on(folder.path(), &database, &[STILL]);
    let seen = make(&admin(&server, folder.path()), "member1").await;
    assert!(server.terminate().success());
    let store = store::open(&database, &[]).await.unwrap();
    let leader = Candidate { name: "anna".into(), address: "anna:7443".into() };
    let term = store.lead(&leader, Duration::from_secs(60)).await.unwrap().term;
    let before = store.bounds().await.unwrap();
    let refused = told(&["lift", "--database-url", &database], 1);
    assert!(refused.contains("anna leads") && refused.contains("stop all replicas first"), "{refused}");
    assert_eq!(store.bounds().await.unwrap(), before);
    store.resign(term).await.unwrap();
    told(&["lift", "--database-url", &database], 0);
    let lifted = Revision(before.last.0 + REVISIONS_SKIPPED);
    let bounds = Bounds { last: lifted, compacted: lifted };
    assert_eq!(store.bounds().await.unwrap(), bounds);
    let copy = url(folder.path());
    told(&["copy", "--from", &database, "--to", &copy], 0);
    let copied = store::open(&copy, &[]).await.unwrap();
    assert_eq!(copied.bounds().await.unwrap(), bounds);
    // The CA of the replicas stays where it is (WH3).
    let all = async |store: &dyn store::Store| {
        let mut rows = store.page(lifted, Revision::ZERO, 1000).await.unwrap();
        rows.retain(|row| row.key.resource != REPLICA_CERTIFICATES);
        rows
    };
    assert_eq!(all(&*copied).await, all(&*store).await);
    drop(copied);
    let server = ServerProcess::start_on(folder.path(), &database, &[STILL]);
    lists_anew_and_goes_on(&admin(&server, folder.path()), &[seen, before.last.0], "member2").await;
    assert!(server.terminate().success());
}

#[test]
fn what_cannot_be_lifted_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let nowhere = url(folder.path());
    for (words, says) in [
        (&["--database-url", "memory:"][..], "is gone when the process ends"),
        (&["--database-url", "mysql://x"], "is none of sqlite://PATH"),
        (&["--database-url", &nowhere], "there is no database at"),
        (&["--database-url", &nowhere, "--above", "-1"], "--above"),
        (&["--database-url", &nowhere, "--above", "4503599627370496"], "4503598627370496"),
    ] {
        let said = told(&[&["lift"], words].concat(), 2);
        assert!(said.contains(says), "{words:?}: {said}");
    }
    assert!(!folder.path().join("ballast.db").exists());
}
