//! Behavior specific to files: they are reopened, read by others, or are no database.

use std::fs;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ballast::k8s::{JsonColumn, Revision};
use ballast::store::{self, Error, Table};
use ballast::watch::{self, Limits};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{ConnectOptions, Connection};

use super::fixtures::*;
use crate::process::ServerProcess;
use crate::support::objects::{REBALANCERS, rebalancer};
use crate::support::wait_for;

pub async fn sql(home: &tempfile::TempDir) -> SqliteConnection {
    SqliteConnectOptions::new().filename(file(home)).connect().await.unwrap()
}

async fn refusal(home: &tempfile::TempDir) -> String {
    let before = fs::read(file(home)).unwrap();
    let Err(error) = store::open(&url(home), &[]).await else { panic!("the file was opened") };
    assert_eq!(fs::read(file(home)).unwrap(), before, "a refused file stays as it is");
    assert!(matches!(error, Error::Corrupt { .. }), "{error}");
    error.to_string()
}

#[tokio::test]
async fn the_state_and_the_log_are_there_after_a_restart() {
    let home = tempfile::tempdir().unwrap();
    let room = Room::open(store::open(&url(&home), &[]).await.unwrap(), Limits::default()).await;
    let web = room.put(create(&binding("web"), 1)).await;
    room.put(update(&binding("web"), web.revision, 2)).await;
    room.close().await;
    let room = Room::open(store::open(&url(&home), &[]).await.unwrap(), Limits::default()).await;
    assert_eq!(value(room.cache.view().get(&binding("web")).unwrap()), 2);
    assert_eq!(room.put(create(&binding("api"), 1)).await.revision, Revision(3));
}

#[tokio::test]
async fn a_second_process_is_told_who_has_the_file() {
    let home = tempfile::tempdir().unwrap();
    let first = store::open(&url(&home), &[]).await.unwrap();
    let Err(error) = store::open(&url(&home), &[]).await else { panic!("the file was opened twice") };
    assert!(matches!(error, Error::Unavailable { .. }), "{error}");
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(source.starts_with(&format!("process {} serves from ", std::process::id())), "{source}");
    drop(first);
    store::open(&url(&home), &[]).await.unwrap();
}

#[tokio::test]
async fn a_second_name_of_the_file_is_the_same_file() {
    let home = tempfile::tempdir().unwrap();
    let first = store::open(&url(&home), &[]).await.unwrap();
    let link = home.path().join("link.db");
    std::os::unix::fs::symlink(file(&home), &link).unwrap();
    let by_link = format!("sqlite://{}", link.display());
    assert!(store::open(&by_link, &[]).await.is_err(), "the file was opened twice");
    drop(first);
    store::open(&by_link, &[]).await.unwrap();
}

#[tokio::test]
async fn a_file_that_was_moved_away_is_missed() {
    let home = tempfile::tempdir().unwrap();
    let store = store::open(&url(&home), &[]).await.unwrap();
    store.probe().await.unwrap();
    let (path, elsewhere) = (file(&home), home.path().join("elsewhere.db"));
    fs::rename(&path, &elsewhere).unwrap();
    let error = store.probe().await.unwrap_err().to_string();
    assert!(error.contains("removed or moved away"), "{error}");
    fs::write(&path, "").unwrap();
    let error = store.probe().await.unwrap_err().to_string();
    assert!(error.contains("replaced by another file"), "{error}");
    fs::rename(&elsewhere, &path).unwrap();
    store.probe().await.unwrap();
}

#[tokio::test]
async fn people_read_the_live_objects_as_tables_while_the_server_runs() {
    let home = tempfile::tempdir().unwrap();
    let columns = vec![
        ("triggered_at", JsonColumn::Field(&["spec", "rescheduleTriggeredAt"])),
        ("clusters", JsonColumn::Named { list: &["spec", "clusters"], name: "name", count: "replicas" }),
        ("scheduled", JsonColumn::Condition("Scheduled")),
        ("heard_at", JsonColumn::OfFirst { list: &["status", "agents"], member: "heard" }),
        ("placement", JsonColumn::Field(&["metadata", "labels", "example.com/parent"])),
    ];
    let bindings = Table { name: "resource_bindings".into(), resource: BINDINGS, columns };
    let clusters = Table { name: "clusters".into(), resource: CLUSTERS, columns: Vec::new() };
    let room =
        Room::open(store::open(&url(&home), &[bindings, clusters.clone()]).await.unwrap(), Limits::default()).await;
    let mut web = object(&binding("web"), 1);
    web["metadata"]["creationTimestamp"] = "2024-04-17T15:04:05Z".into();
    web["metadata"]["labels"] = serde_json::json!({"example.com/parent": "spread"});
    web["spec"] = serde_json::json!({
        "rescheduleTriggeredAt": "2024-04-17T15:04:06Z",
        "clusters": [{"name": "member2", "replicas": 2}, {"name": "member1"}],
    });
    let status = serde_json::json!({
        "conditions": [{"type": "Other", "status": "False"}, {"type": "Scheduled", "status": "True"}],
        "agents": [{"heard": "noon"}, {"heard": "one"}],
    });
    web.insert("status".into(), status);
    let made = room.put(put(&binding("web"), web)).await;
    let api = room.put(create(&binding("api"), 1)).await;
    room.put(delete(&binding("api"), api.revision)).await;
    let mut reader = sql(&home).await;
    type Row = (String, String, i64, String, String, String, String, String, String);
    let rows: Vec<Row> = sqlx::query_as(
        "SELECT namespace, name, revision, created, triggered_at, clusters, scheduled, heard_at, placement \
         FROM resource_bindings",
    )
    .fetch_all(&mut reader)
    .await
    .unwrap();
    let expected = ["shop", "web", "2024-04-17T15:04:05Z", "2024-04-17T15:04:06Z", "member2:2,member1", "True"];
    assert_eq!((&*rows[0].7, &*rows[0].8), ("noon", "spread"));
    let [row] = &rows[..] else { panic!("{rows:?}") };
    assert_eq!([&row.0, &row.1, &row.3, &row.4, &row.5, &row.6], expected);
    assert_eq!(Revision(row.2), made.revision);
    room.close().await;
    drop(store::open(&url(&home), &[clusters]).await.unwrap());
    let left: Vec<String> =
        sqlx::query_scalar("SELECT name FROM sqlite_schema WHERE type = 'view'").fetch_all(&mut reader).await.unwrap();
    assert_eq!(left, ["clusters"]);
}

#[tokio::test]
async fn a_file_that_is_no_database_is_refused_untouched() {
    let home = tempfile::tempdir().unwrap();
    fs::write(file(&home), "dear diary, today was a day of some length").unwrap();
    assert!(refusal(&home).await.contains("is not a SQLite database; name another file"));
}

/// r4-use-04: the mode of a foreign file is unchanged, and no other file is created.
#[cfg(unix)]
#[tokio::test]
async fn a_foreign_file_keeps_its_mode_and_stays_alone() {
    use std::os::unix::fs::PermissionsExt;

    let home = tempfile::tempdir().unwrap();
    let refused = async |what: &str| {
        fs::set_permissions(file(&home), fs::Permissions::from_mode(0o644)).unwrap();
        assert!(store::open(&url(&home), &[]).await.is_err(), "{what} was opened");
        assert_eq!(fs::metadata(file(&home)).unwrap().permissions().mode() & 0o777, 0o644, "{what}");
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1, "{what}: a file was left beside it");
    };
    fs::write(file(&home), "127.0.0.1 localhost").unwrap();
    refused("a text").await;
    fs::write(file(&home), "").unwrap();
    refused("an empty file").await;
    fs::remove_file(file(&home)).unwrap();
    let mut other = SqliteConnectOptions::new().filename(file(&home)).create_if_missing(true).connect().await.unwrap();
    sqlx::raw_sql("PRAGMA journal_mode = wal; CREATE TABLE bookmarks (url)").execute(&mut other).await.unwrap();
    other.close().await.unwrap();
    refused("a database of another program").await;
}

/// r4-use-15: a copy that failed leaves an empty file.
#[tokio::test]
async fn an_empty_file_is_refused_unless_this_program_began_it() {
    let home = tempfile::tempdir().unwrap();
    fs::write(file(&home), "").unwrap();
    let Err(error) = store::open(&url(&home), &[]).await else { panic!("an empty file was opened") };
    let told = error.to_string();
    assert!(matches!(error, Error::Misplaced { .. }) && told.contains("is empty (0 bytes)"), "{told}");
    assert!(told.contains("remove the file to begin with a new database"), "{told}");
    // A process that ended before its first write has left a note in the lock file.
    let lock = home.path().join(format!("{}-lock", file(&home).file_name().unwrap().to_str().unwrap()));
    fs::write(&lock, "1 creates\n").unwrap();
    drop(store::open(&url(&home), &[]).await.unwrap());
    assert!(!fs::read_to_string(&lock).unwrap().contains("creates"), "the database is complete now");
    fs::write(file(&home), "").unwrap();
    assert!(store::open(&url(&home), &[]).await.is_err(), "a database that became empty was opened");
}

#[tokio::test]
async fn a_file_of_another_program_is_refused_untouched() {
    let home = tempfile::tempdir().unwrap();
    let mut other = SqliteConnectOptions::new().filename(file(&home)).create_if_missing(true).connect().await.unwrap();
    sqlx::raw_sql("CREATE TABLE bookmarks (url)").execute(&mut other).await.unwrap();
    other.close().await.unwrap();
    assert!(refusal(&home).await.contains("belongs to another program; name another file"));
    let mut other = sql(&home).await;
    sqlx::raw_sql("PRAGMA application_id = 42").execute(&mut other).await.unwrap();
    other.close().await.unwrap();
    assert!(refusal(&home).await.contains("belongs to another program"));
}

#[tokio::test]
async fn a_file_of_a_newer_version_is_refused_untouched() {
    let home = tempfile::tempdir().unwrap();
    made_and_closed(&home).await;
    let mut newer = sql(&home).await;
    let future = "INSERT INTO _sqlx_migrations VALUES (9999, 'from the future', datetime(), TRUE, x'00', 0)";
    sqlx::raw_sql(future).execute(&mut newer).await.unwrap();
    newer.close().await.unwrap();
    let advice = refusal(&home).await;
    assert!(advice.contains("newer version") && advice.contains("its schema is 9999"), "{advice}");
}

/// Old rows contain their managers as text. New rows store them in a separate table.
#[tokio::test]
async fn a_file_of_the_first_schema_goes_on() {
    let home = tempfile::tempdir().unwrap();
    let managed = |name: &str, time: &str| {
        let mut made = object(&binding(name), 1);
        made["metadata"]["managedFields"] = serde_json::json!([{"manager": "kubectl", "time": time}]);
        put(&binding(name), made)
    };
    let room = Room::open(store::open(&url(&home), &[]).await.unwrap(), Limits::default()).await;
    room.put(managed("web", "2026-11-24T08:00:00Z")).await;
    room.close().await;
    let mut editor = sql(&home).await;
    let back = "ALTER TABLE changes DROP COLUMN packed;
                ALTER TABLE changes DROP COLUMN checksum; DROP TABLE quarantine;
                ALTER TABLE changes DROP COLUMN managers; DROP TABLE words;
                DELETE FROM _sqlx_migrations WHERE version > 1";
    sqlx::raw_sql(back).execute(&mut editor).await.unwrap();
    editor.close().await.unwrap();
    let room = Room::open(store::open(&url(&home), &[]).await.unwrap(), Limits::default()).await;
    for (name, revision) in [("api", 2), ("shop", 3)] {
        let made = room.put(managed(name, &format!("2026-11-24T09:00:0{revision}Z"))).await;
        assert_eq!(made.revision, Revision(revision));
    }
    room.close().await;
    let room = Room::open(store::open(&url(&home), &[]).await.unwrap(), Limits::default()).await;
    let view = room.cache.view();
    let times = ["web", "api", "shop"].map(|name| {
        let managers = view.get(&binding(name)).unwrap().text.managers().expect("managers").values();
        managers[0]["time"].as_str().unwrap().to_owned()
    });
    assert_eq!(times, ["2026-11-24T08:00:00Z", "2026-11-24T09:00:02Z", "2026-11-24T09:00:03Z"]);
    room.close().await;
    let mut reader = sql(&home).await;
    let rows: Vec<(bool, Option<String>)> =
        sqlx::query_as("SELECT object LIKE '%managedFields%', managers FROM changes ORDER BY revision")
            .fetch_all(&mut reader)
            .await
            .unwrap();
    assert_eq!(rows[0], (true, None));
    let words: Vec<String> = sqlx::query_scalar("SELECT text FROM words").fetch_all(&mut reader).await.unwrap();
    assert_eq!(words, [r#"{"manager":"kubectl","time":""#]);
    assert!(!rows[2].0 && rows[2].1.as_deref().is_some_and(|it| it.ends_with(r#",1,"2026-11-24T09:00:03Z"]"#)));
}

#[tokio::test]
async fn a_damaged_file_is_refused_untouched() {
    let home = tempfile::tempdir().unwrap();
    made_and_closed(&home).await;
    let whole = fs::read(file(&home)).unwrap();
    let mut scribbled = whole.clone();
    scribbled[16 << 10..].fill(0xaa);
    for damaged in [&whole[..whole.len() / 2], &whole[..200], &scribbled[..]] {
        fs::write(file(&home), damaged).unwrap();
        let advice = refusal(&home).await;
        assert!(advice.contains("damaged") && advice.contains("restore it from a backup"), "{advice}");
    }
}

#[tokio::test]
async fn a_row_that_is_missing_is_noticed_at_the_start() {
    let home = tempfile::tempdir().unwrap();
    made_and_closed(&home).await;
    let mut editor = sql(&home).await;
    sqlx::raw_sql("DELETE FROM changes WHERE revision = 25").execute(&mut editor).await.unwrap();
    editor.close().await.unwrap();
    let store = store::open(&url(&home), &[]).await.unwrap();
    let clock = Arc::new(ballast::clock::SystemClock);
    let Err(error) = watch::open(store, clock, Limits::default()).await else { panic!("a state was lost unseen") };
    assert!(matches!(error, Error::Corrupt { .. }), "{error}");
    assert!(error.to_string().contains("the row of revision 25 is missing; restore it from a backup"), "{error}");
}

/// A long replaced state, which no start reads, with an overwritten page.
async fn damaged_history(home: &tempfile::TempDir) {
    let room = Room::open(store::open(&url(home), &[]).await.unwrap(), Limits::default()).await;
    let key = binding("web");
    let mut long = object(&key, 1);
    long["spec"]["note"] = "x".repeat(40_000).into();
    let mut last = room.put(put(&key, long)).await.revision;
    for value in 2..5 {
        last = room.put(update(&key, last, value)).await.revision;
    }
    room.close().await;
    let_go(home).await;
    let mut bytes = fs::read(file(home)).unwrap();
    let page = bytes.chunks_mut(16 << 10).find(|page| page[4..].iter().all(|byte| *byte == b'x'));
    page.expect("a page of the long text alone").fill(0xaa);
    fs::write(file(home), bytes).unwrap();
}

#[tokio::test]
async fn after_an_unclean_end_every_page_is_checked_beside_the_server() {
    let home = tempfile::tempdir().unwrap();
    damaged_history(&home).await;
    let short = Limits { window_events_max: 1, ..Limits::default() };
    // A clean end: unneeded rows are not read.
    let store = store::open(&url(&home), &[]).await.unwrap();
    Room::open(Arc::clone(&store), short.clone()).await.close().await;
    store.probe().await.unwrap();
    drop(store);
    let_go(&home).await;
    // The leftovers of a killed server. SQLite recognizes them as invalid.
    fs::write(home.path().join("ballast.db-wal"), "half a header").unwrap();
    let store = store::open(&url(&home), &[]).await.unwrap();
    let room = Room::open(Arc::clone(&store), short).await;
    assert_eq!(value(room.cache.view().get(&binding("web")).unwrap()), 4, "the server serves meanwhile");
    let told = wait_for("the check to end", async || store.probe().await.err()).await;
    assert!(matches!(told, Error::Corrupt { .. }), "{told}");
    assert!(told.to_string().contains("is damaged (") && told.to_string().contains("restore it"), "{told}");
    room.close().await;
}

#[tokio::test]
async fn check_says_whether_a_file_is_whole() {
    let home = tempfile::tempdir().unwrap();
    let check = |url: &str| {
        let done = Command::new(env!("CARGO_BIN_EXE_ballast")).args(["check", "--database-url", url]).output().unwrap();
        (done.status.code(), String::from_utf8_lossy(&[done.stdout, done.stderr].concat()).into_owned())
    };
    let room = Room::open(store::open(&url(&home), &[]).await.unwrap(), Limits::default()).await;
    room.put(create(&binding("web"), 1)).await;
    let (code, said) = check(&url(&home));
    assert!(code == Some(0) && said.contains("is whole"), "while a server has it: {said}");
    room.close().await;
    let damaged = tempfile::tempdir().unwrap();
    damaged_history(&damaged).await;
    let (code, said) = check(&url(&damaged));
    assert!(code == Some(3) && said.contains("restore it from a backup"), "{said}");
    for (url, expected) in [
        ("sqlite://missing.db", "there is no database at missing.db"),
        ("memory:", "names neither a file (sqlite://PATH) nor a database server"),
    ] {
        let (code, said) = check(url);
        assert!(code == Some(2) && said.contains(expected), "{said}");
    }
}

/// api-06: a persistent reader prevents a checkpoint of the WAL.
#[tokio::test]
async fn the_wal_that_a_reader_holds_has_a_bound_and_shrinks_after_it() {
    const BOUND: u64 = 16 << 20;
    let home = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(home.path(), &["--database-wal-max-bytes", "16Mi"]);
    let (client, log) = (server.client().await, || fs::read_to_string(home.path().join("log")).unwrap());
    let wal = || fs::metadata(home.path().join("ballast.db-wal")).map_or(0, |found| found.len());
    let mut large = rebalancer("large");
    large["metadata"]["annotations"] = serde_json::json!({"note": "x".repeat(200_000)});
    client.post(REBALANCERS, &rebalancer("first")).await.unwrap();
    let mut reader = sql(&home).await;
    sqlx::raw_sql("BEGIN; SELECT count(*) FROM changes").execute(&mut reader).await.unwrap();
    let mut written = 0;
    let refused = loop {
        large["metadata"]["name"] = format!("r{written}").into();
        match client.post(REBALANCERS, &large).await {
            Ok(_) => written += 1,
            Err(error) => break error.to_string(),
        }
        assert!(wal() < 3 * BOUND, "the WAL has {} bytes", wal());
    };
    assert!(refused.contains("503") && refused.contains("another program keeps the WAL"), "{refused}");
    assert!(written > 30, "{written} writes");
    assert!(client.get(&format!("{REBALANCERS}/r0")).await.is_ok(), "reads go on");
    wait_for("a line about it", async || log().contains("writes are refused, because another program").then_some(()))
        .await;
    reader.close().await.unwrap();
    large["metadata"]["name"] = "after".into();
    wait_for("writes", async || client.post(REBALANCERS, &large).await.ok()).await;
    for number in 0..written {
        assert!(client.get(&format!("{REBALANCERS}/r{number}")).await.is_ok(), "r{number} was acknowledged");
    }
    let line = "the WAL can be moved into the database again";
    wait_for(line, async || log().contains(line).then_some(())).await;
    assert_eq!(log().matches("writes are refused, because").count(), 1, "{}", log());
    assert!(server.terminate().success());
    assert_eq!(wal(), 0);
}

/// api-11.
#[tokio::test]
async fn what_would_be_lost_is_not_acknowledged() {
    let home = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(home.path(), &[]);
    let client = server.client().await;
    client.post(REBALANCERS, &rebalancer("before")).await.unwrap();
    let (path, elsewhere) = (file(&home), home.path().join("elsewhere.db"));
    fs::rename(&path, &elsewhere).unwrap();
    let refused = client.post(REBALANCERS, &rebalancer("lost")).await.unwrap_err().to_string();
    assert!(refused.contains("503") || refused.contains("removed or moved away"), "{refused}");
    fs::rename(&elsewhere, &path).unwrap();
    wait_for("writes", async || client.post(REBALANCERS, &rebalancer("after")).await.ok()).await;
    server.kill();
    let server = ServerProcess::start(home.path(), &[]);
    let client = server.client().await;
    for (name, is_there) in [("before", true), ("lost", false), ("after", true)] {
        assert_eq!(client.get(&format!("{REBALANCERS}/{name}")).await.is_ok(), is_there, "{name}");
    }
}

/// api-17: a backup over a file with a remaining WAL.
#[tokio::test]
async fn the_wal_of_another_file_is_named_before_the_backup() {
    let home = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(home.path(), &[]);
    let backup = home.path().join("backup.db");
    store::backup(&file(&home), &backup).await.unwrap();
    let client = server.client().await;
    for number in 0..40 {
        client.post(REBALANCERS, &rebalancer(&format!("r{number}"))).await.unwrap();
    }
    server.kill();
    fs::copy(&backup, file(&home)).unwrap();
    let wal = format!("remove {0}-wal and {0}-shm", file(&home).display());
    for command in ["serve", "check"] {
        let done = Command::new(env!("CARGO_BIN_EXE_ballast"))
            .args([command, "--database-url", &url(&home)])
            .current_dir(home.path())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(!done.status.success() && said.contains(&wal), "{command}: {said}");
    }
    for suffix in ["-wal", "-shm"] {
        fs::remove_file(home.path().join(format!("ballast.db{suffix}"))).unwrap();
    }
    store::open(&url(&home), &[]).await.unwrap();
}

/// The other connection is idle but open: SQLite itself empties the WAL only when the last
/// connection is closed.
#[tokio::test]
async fn after_a_clean_stop_the_database_file_alone_has_everything() {
    let home = tempfile::tempdir().unwrap();
    let server = ServerProcess::start(home.path(), &[]);
    let client = server.client().await;
    for number in 0..20 {
        client.post(REBALANCERS, &rebalancer(&format!("r{number}"))).await.unwrap();
    }
    let mut beside = sql(&home).await;
    let rows: i64 = sqlx::query_scalar("SELECT count(*) FROM changes").fetch_one(&mut beside).await.unwrap();
    assert!(server.terminate().success());
    let wal = home.path().join("ballast.db-wal");
    assert_eq!(fs::metadata(wal).map_or(0, |found| found.len()), 0, "the WAL is empty or gone");
    let alone = tempfile::tempdir().unwrap();
    fs::copy(file(&home), file(&alone)).unwrap();
    let mut alone = sql(&alone).await;
    let copied: i64 = sqlx::query_scalar("SELECT count(*) FROM changes").fetch_one(&mut alone).await.unwrap();
    assert!(copied >= rows && rows >= 20, "{copied} of {rows}");
}

#[tokio::test]
async fn a_place_that_cannot_hold_a_database_says_why_and_what_to_do() {
    let home = tempfile::tempdir().unwrap();
    let at = |path: &str| home.path().join(path);
    fs::write(at("file"), "").unwrap();
    fs::create_dir(at("folder")).unwrap();
    for (path, expected) in [
        ("missing/ballast.db", "missing does not exist; create it, or name another place"),
        ("file/ballast.db", "file is not a folder; name a file in a folder"),
        ("folder", "folder is a folder; name a file in it"),
    ] {
        let url = format!("sqlite://{}", at(path).display());
        let Err(error) = store::open(&url, &[]).await else { panic!("{url:?} was opened") };
        assert!(matches!(&error, Error::Misplaced { .. }) && error.to_string().contains(expected), "{error}");
    }
    let output = Command::new(env!("CARGO_BIN_EXE_ballast"))
        .args(["serve", "--secure-port", "0", "--database-url"])
        .arg(format!("sqlite://{}", at("missing/ballast.db").display()))
        .arg("--cert-dir")
        .arg(at("certs"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    let says = format!("the folder {} does not exist; create it, or name another place", at("missing").display());
    assert!(said.contains("--database-url") && said.contains(&says), "{said}");
}

/// A read-only file system, mounted in a separate namespace. If the machine does not support that,
/// the test prints so and passes.
#[test]
fn a_folder_that_cannot_be_written_says_so() {
    let home = tempfile::tempdir().unwrap();
    let output = Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c"])
        .arg("mount -t tmpfs -o ro tmpfs \"$0\" || exit 77; exec \"$1\" serve --secure-port 0 --cert-dir \"$2\" --database-url \"sqlite://$0/ballast.db\"")
        .arg(home.path())
        .arg(env!("CARGO_BIN_EXE_ballast"))
        .arg(home.path().with_extension("certs"))
        .output();
    let Some(output) = output.ok().filter(|output| output.status.code() != Some(77)) else {
        crate::support::skipped("this machine does not allow mounting a file system");
        return;
    };
    let _ = fs::remove_dir_all(home.path().with_extension("certs"));
    let said = String::from_utf8_lossy(&output.stderr);
    if said.starts_with("unshare:") {
        crate::support::skipped("this machine does not allow a namespace");
        return;
    }
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("no file can be made in the folder") && said.contains("Read-only file system"), "{said}");
}

#[tokio::test]
async fn a_url_that_names_nothing_says_what_would() {
    for url in ["", "sqlite://", "mysql://x", "/var/lib/ballast.db"] {
        let Err(error) = store::open(url, &[]).await else { panic!("{url:?} was opened") };
        assert!(
            error.to_string().contains("is none of sqlite://PATH, postgres://USER@HOST/DATABASE and memory:"),
            "{error}"
        );
    }
}

async fn made_and_closed(home: &tempfile::TempDir) {
    let room = Room::open(store::open(&url(home), &[]).await.unwrap(), Limits::default()).await;
    for number in 0..50 {
        room.put(create(&binding(&format!("web-{number}")), number)).await;
    }
    room.close().await;
    let_go(home).await;
}

pub async fn let_go(home: &tempfile::TempDir) {
    // The connections of a closed store end on their own threads. Leaving WAL needs exclusive
    // access, and SQLite returns "locked" at once instead of waiting.
    let mut last = sql(home).await;
    let deadline = Instant::now() + Duration::from_secs(30);
    while let Err(error) = sqlx::raw_sql("PRAGMA journal_mode = DELETE").execute(&mut last).await {
        assert!(Instant::now() < deadline, "{error}");
        tokio::task::yield_now().await;
    }
    last.close().await.unwrap();
}
