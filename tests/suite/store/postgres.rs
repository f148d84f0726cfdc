//! Faults specific to PostgreSQL: connections that are cut or stall, a server that restarts,
//! replicas that start at once, foreign databases.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use ballast::k8s::{JsonColumn, Revision};
use ballast::store::{self, Candidate, Change, Error, Operation, Settings, Store, Table, Term};
use ballast::watch::{Atomicity, Limits};
use bytes::Bytes;
use sqlx::{Connection, PgConnection};

use super::fixtures::*;
use crate::support::pgbouncer::PgBouncer;
use crate::support::pki::Ca;
use crate::support::postgres::Cluster;
use crate::support::proxy::Proxy;
use crate::support::wait_for;

const FIRST: Term = Term(0);

/// Settings with short waits.
fn hasty() -> Settings {
    Settings { answer_max: Duration::from_millis(800), ..Settings::default() }
}

/// Opens with these settings, with retries on a busy machine.
async fn open_hasty(url: &str) -> Arc<dyn Store> {
    wait_for("the database", async || store::open_with(url, &[], &hasty()).await.ok()).await
}

async fn open(url: &str) -> Arc<dyn Store> {
    store::open(url, &[]).await.unwrap()
}

fn row(revision: i64, name: &str) -> Change {
    Change {
        revision: Revision(revision),
        key: binding(name),
        operation: Operation::Create,
        created: Revision(revision),
        previous: Revision::ZERO,
        time_ms: revision * 1000,
        object: Bytes::from(format!(r#"{{"metadata":{{"name":"{name}","resourceVersion":"{revision}"}}}}"#)),
    }
}

/// Cuts all connections except its own.
const CUT: &str = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
     WHERE pid <> pg_backend_pid() AND application_name = 'ballast'";

/// A writer continues until there were enough cuts, however slow they are.
const CUT_WRITES_MAX: i64 = 5_000;

/// api-08: only the settings of docs/install.md.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pooler_that_gives_whole_sessions_needs_no_other_setting() {
    let Some(cluster) = Cluster::shared() else { return };
    let Some(pooler) = PgBouncer::before(&cluster, "session") else { return };
    cluster.run("CREATE DATABASE pooled").await;
    let url = pooler.url("pooled");
    let room = Room::open(open(&url).await, Limits::default()).await;
    let web = room.put(create(&binding("web"), 1)).await;
    room.put(update(&binding("web"), web.revision, 2)).await;
    room.close().await;
    let room = Room::open(open(&url).await, Limits::default()).await;
    assert_eq!(value(room.cache.view().get(&binding("web")).unwrap()), 2);
    room.close().await;
}

/// api-08: before version 1.21, pgBouncer does not carry prepared statements from one session to
/// the next.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pooler_that_gives_sessions_away_is_told_with_its_setting() {
    let Some(cluster) = Cluster::shared() else { return };
    let Some(pooler) = PgBouncer::before(&cluster, "transaction") else { return };
    cluster.run("CREATE DATABASE given_away").await;
    for _ in 0..4 {
        // The prepared statements of two sessions collide. A newer pgBouncer supports them.
        let Err(refused) = store::open_with(&pooler.url("given_away"), &[], &hasty()).await else { continue };
        let told = format!("{:#}", anyhow::Error::new(refused));
        let is_about_sessions = told.contains("prepared statement");
        assert!(!told.contains(" at line ") && is_about_sessions == told.contains("set pool_mode=session"), "{told}");
        if is_about_sessions {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_are_cut_cost_no_write_and_no_read() {
    let Some(cluster) = Cluster::start() else { return };
    let url = cluster.schema().await;
    let room = Room::open(open(&url).await, Limits::default()).await;
    let mut knife = PgConnection::connect(&cluster.url()).await.unwrap();
    let (ended, done) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let cuts = Arc::new(AtomicUsize::new(0));
    let cutting = tokio::spawn({
        let (ended, done, cuts) = (Arc::clone(&ended), Arc::clone(&done), Arc::clone(&cuts));
        async move {
            let mut seen = 0;
            while !ended.load(SeqCst) {
                // During the next writes, however fast they are.
                if done.load(SeqCst) >= seen + 20 {
                    seen = done.load(SeqCst);
                    let cut: i64 = sqlx::query_scalar(CUT).fetch_one(&mut knife).await.unwrap();
                    cuts.fetch_add(usize::from(cut > 0), SeqCst);
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    });
    let mut writers = tokio::task::JoinSet::new();
    for caller in 0..4 {
        let (writer, done, cuts) = (room.writer.clone(), Arc::clone(&done), Arc::clone(&cuts));
        writers.spawn(async move {
            let mut acknowledged = Vec::new();
            for number in 0..CUT_WRITES_MAX {
                if acknowledged.len() >= 50 && cuts.load(SeqCst) > 3 {
                    break;
                }
                let key = binding(&format!("web-{caller}-{number}"));
                // An error is allowed, a loss is not.
                if let Ok(done) = writer.commit(vec![create(&key, number)], Atomicity::All).await {
                    acknowledged.push((key, done[0].as_ref().unwrap().revision));
                }
                done.fetch_add(1, SeqCst);
            }
            acknowledged
        });
    }
    let acknowledged: Vec<_> = writers.join_all().await.into_iter().flatten().collect();
    ended.store(true, SeqCst);
    cutting.await.unwrap();
    let cuts = cuts.load(SeqCst);
    assert!(cuts > 3 && acknowledged.len() >= 200, "{cuts} cuts, {} acknowledged", acknowledged.len());
    room.close().await;
    let store = open(&url).await;
    let rows = store.changes(Revision::ZERO, 4 * CUT_WRITES_MAX as usize).await.unwrap();
    assert!(rows.iter().map(|row| row.revision.0).eq(1..=rows.len() as i64), "a gap, or a revision twice");
    for (key, revision) in acknowledged {
        assert_eq!(rows[revision.0 as usize - 1].key, key, "revision {revision}");
    }
}

#[tokio::test]
async fn a_server_that_restarts_is_used_again() {
    let Some(cluster) = Cluster::start() else { return };
    let store = open_hasty(&cluster.schema().await).await;
    store.commit(FIRST, &[row(1, "web")]).await.unwrap();
    store.news(Revision(0)).await.unwrap();
    cluster.pause();
    let refused = store.commit(FIRST, &[row(2, "api")]).await.unwrap_err();
    assert!(matches!(refused, Error::Unavailable { .. }), "{refused:?}");
    assert_eq!(refused.reason(), "the database cannot be reached");
    assert!(matches!(store.settle(FIRST, &[row(2, "api")]).await, Err(Error::Unavailable { .. })), "still unknown");
    assert!(matches!(store.probe().await, Err(Error::Unavailable { .. })));
    store.news(Revision(1)).await.unwrap();
    cluster.resume();
    let settled = wait_for("the server", async || store.settle(FIRST, &[row(2, "api")]).await.ok()).await;
    assert!(!settled);
    store.commit(FIRST, &[row(2, "api")]).await.unwrap();
    assert_eq!(store.bounds().await.unwrap().last, Revision(2));
    store.probe().await.unwrap();
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_commit_that_the_network_delivers_late_is_not_stored() {
    let Some(cluster) = Cluster::shared() else { return };
    let direct = cluster.schema().await;
    let proxy = Proxy::before(cluster.port).await;
    let store = open_hasty(&proxy.url(&direct)).await;
    let beside = open(&direct).await;
    store.commit(FIRST, &[row(1, "web")]).await.unwrap();

    proxy.holds_requests.store(true, SeqCst);
    let refused = store.commit(FIRST, &[row(2, "late")]).await.unwrap_err();
    assert_eq!(refused.reason(), "the database does not answer");
    assert_eq!(beside.bounds().await.unwrap().last, Revision(1));
    // The server's response is withheld now, so that only the old request arrives.
    proxy.holds_answers.store(true, SeqCst);
    proxy.holds_requests.store(false, SeqCst);
    let late = beside.settle(FIRST, &[row(2, "late")]).await.unwrap();
    proxy.holds_answers.store(false, SeqCst);
    // Whichever was first: the seat is taken, and the response is final.
    assert_eq!(store.settle(FIRST, &[row(2, "late")]).await.unwrap(), late);
    assert_eq!(beside.bounds().await.unwrap().last, Revision(1 + i64::from(late)));
    let next = 2 + i64::from(late);
    store.commit(FIRST, &[row(next, "api")]).await.unwrap();
    assert_eq!(beside.rows(&[Revision(next)]).await.unwrap(), [row(next, "api")]);
}

#[tokio::test]
async fn a_commit_whose_answer_is_lost_is_found_in_the_log() {
    let Some(cluster) = Cluster::shared() else { return };
    let direct = cluster.schema().await;
    let proxy = Proxy::before(cluster.port).await;
    let store = open_hasty(&proxy.url(&direct)).await;
    let beside = open(&direct).await;
    store.commit(FIRST, &[row(1, "web")]).await.unwrap();
    proxy.holds_answers.store(true, SeqCst);
    let committing = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.commit(FIRST, &[row(2, "api")]).await }
    });
    wait_for("the commit", async || (beside.bounds().await.unwrap().last == Revision(2)).then_some(())).await;
    let refused = committing.await.unwrap().unwrap_err();
    assert!(matches!(refused, Error::Unavailable { .. }), "{refused:?}");
    proxy.holds_answers.store(false, SeqCst);
    assert!(store.settle(FIRST, &[row(2, "api")]).await.unwrap());
    store.commit(FIRST, &[row(3, "db")]).await.unwrap();
    assert_eq!(beside.bounds().await.unwrap().last, Revision(3));
}

/// Returns the sessions that receive notifications of changes, in a separate cluster.
async fn listeners(cluster: &Cluster) -> i64 {
    let mut administrator = PgConnection::connect(&cluster.url()).await.unwrap();
    let listening = "SELECT count(*) FROM pg_stat_activity WHERE query ILIKE 'LISTEN%'";
    sqlx::query_scalar(listening).fetch_one(&mut administrator).await.unwrap()
}

/// Notifications for a session that never reads fill a queue shared by all databases of a server,
/// and once it is full no commit succeeds.
#[tokio::test]
async fn who_writes_listens_no_more() {
    let Some(cluster) = Cluster::start() else { return };
    let store = open(&cluster.schema().await).await;
    for revision in 1..=2 {
        wait_for("a listener", async || {
            store.news(Revision(revision - 1)).await.unwrap();
            (listeners(&cluster).await == 1).then_some(())
        })
        .await;
        store.commit(FIRST, &[row(revision, &format!("web-{revision}"))]).await.unwrap();
        wait_for("the end of the listener", async || (listeners(&cluster).await == 0).then_some(())).await;
    }
}

/// Silence after a notification does not mean a dead connection.
#[tokio::test]
async fn a_listener_that_has_told_everything_is_kept() {
    let Some(cluster) = Cluster::start() else { return };
    let url = cluster.schema().await;
    let (store, beside) = (open(&url).await, open(&url).await);
    let mut administrator = PgConnection::connect(&cluster.url()).await.unwrap();
    let mut listener = async || {
        let listening = "SELECT pid FROM pg_stat_activity WHERE query ILIKE 'LISTEN%'";
        sqlx::query_scalar::<_, i32>(listening).fetch_all(&mut administrator).await.unwrap()
    };
    store.news(Revision::ZERO).await.unwrap();
    let first = listener().await;
    assert_eq!(first.len(), 1);
    beside.commit(FIRST, &[row(1, "web")]).await.unwrap();
    store.news(Revision::ZERO).await.unwrap();
    // No further notifications.
    store.news(Revision(1)).await.unwrap();
    store.news(Revision(1)).await.unwrap();
    assert_eq!(listener().await, first);
}

#[tokio::test]
async fn a_listener_that_hears_nothing_is_replaced() {
    let Some(cluster) = Cluster::start() else { return };
    let direct = cluster.schema().await;
    let proxy = Proxy::before(cluster.port).await;
    let (store, beside) = (open_hasty(&proxy.url(&direct)).await, open(&direct).await);
    store.news(Revision::ZERO).await.unwrap();
    assert_eq!(listeners(&cluster).await, 1);
    proxy.abandon();
    beside.commit(FIRST, &[row(1, "web")]).await.unwrap();
    // The server is not aware of the first one's death, either.
    wait_for("another listener", async || {
        store.news(Revision(1)).await.unwrap();
        (listeners(&cluster).await == 2).then_some(())
    })
    .await;
}

#[tokio::test]
async fn reads_that_are_given_up_leave_their_place_to_others() {
    let Some(cluster) = Cluster::start() else { return };
    let direct = cluster.schema().await;
    let proxy = Proxy::before(cluster.port).await;
    let settings = Settings { connections_max: 2, ..Settings::default() };
    let store = store::open_with(&proxy.url(&direct), &[], &settings).await.unwrap();
    let read_twice = async || tokio::join!(store.bounds(), store.bounds());
    // Both connections are executing a statement when they die silently.
    let mut holder = PgConnection::connect(&direct).await.unwrap();
    sqlx::raw_sql("BEGIN; LOCK TABLE changes, compaction, head").execute(&mut holder).await.unwrap();
    let mut administrator = PgConnection::connect(&direct).await.unwrap();
    let are_held = wait_for("two reads that are held up", async || {
        let held = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
        let held: i64 = sqlx::query_scalar(held).fetch_one(&mut administrator).await.unwrap();
        (held == 2).then_some(())
    });
    tokio::select! {
        read = read_twice() => panic!("nobody can read: {read:?}"),
        () = are_held => proxy.abandon(),
    }
    sqlx::raw_sql("ROLLBACK").execute(&mut holder).await.unwrap();
    let (one, other) = read_twice().await;
    assert!(one.is_ok() && other.is_ok(), "{one:?}, {other:?}");
}

/// Reads continue over existing connections, so the probe must try what a commit needs.
#[tokio::test]
async fn a_store_that_can_only_read_says_so() {
    let Some(cluster) = Cluster::start() else { return };
    cluster.run("CREATE ROLE moody LOGIN; CREATE SCHEMA own AUTHORIZATION moody").await;
    let url = format!("postgres://moody@127.0.0.1:{}/postgres?options=-csearch_path%3Down", cluster.port);
    let store = open(&url).await;
    store.commit(FIRST, &[row(1, "web")]).await.unwrap();
    assert_eq!(store.bounds().await.unwrap().last, Revision(1));
    cluster.run("ALTER ROLE moody NOLOGIN").await;
    cluster
        .run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'moody' AND query LIKE '%INSERT INTO changes%'")
        .await;
    store.probe().await.expect("nobody has tried to commit");
    wait_for("a refusal", async || store.commit(FIRST, &[row(2, "api")]).await.err()).await;
    assert_eq!(store.bounds().await.unwrap().last, Revision(1), "it can still read");
    store.probe().await.unwrap_err();
    cluster.run("ALTER ROLE moody LOGIN").await;
    store.probe().await.unwrap();
    store.commit(FIRST, &[row(2, "api")]).await.unwrap();
}

#[tokio::test]
async fn replicas_that_start_at_once_on_an_empty_database_make_one_log() {
    let Some(cluster) = Cluster::shared() else { return };
    let url = cluster.schema().await;
    let tables = [table()];
    let starting = (0..4).map(|_| store::open(&url, &tables));
    let stores = futures_util::future::join_all(starting).await;
    let stores: Vec<Arc<dyn Store>> = stores.into_iter().map(Result::unwrap).collect();
    stores[0].commit(FIRST, &[row(1, "web")]).await.unwrap();
    for store in &stores {
        assert_eq!(store.changes(Revision::ZERO, 10).await.unwrap(), [row(1, "web")]);
        let refused = store.commit(FIRST, &[row(1, "api")]).await.unwrap_err();
        assert!(matches!(refused, Error::Conflict { .. }), "{refused:?}");
    }
}

/// A kind with each type of column.
fn table() -> Table {
    Table {
        name: "resource_bindings".into(),
        resource: BINDINGS,
        columns: vec![
            ("policy", JsonColumn::Field(&["metadata", "labels", "a.b/policy"])),
            ("first", JsonColumn::OfFirst { list: &["spec", "clusters"], member: "name" }),
            ("clusters", JsonColumn::Named { list: &["spec", "clusters"], name: "name", count: "replicas" }),
            ("scheduled", JsonColumn::Condition("Scheduled")),
        ],
    }
}

#[tokio::test]
async fn people_read_the_objects_with_sql() {
    let Some(cluster) = Cluster::shared() else { return };
    let url = cluster.schema().await;
    let store = store::open(&url, &[table()]).await.unwrap();
    let mut full = row(1, "web");
    full.object = Bytes::from(
        r#"{"metadata":{"creationTimestamp":"2026-01-02T03:04:05Z","labels":{"a.b/policy":"it's\u0000"}},
            "spec":{"clusters":[{"name":"m1","replicas":2},{"name":"m2"}]},
            "status":{"conditions":[{"type":"Other","status":"False"},{"type":"Scheduled","status":"True"}]}}"#,
    );
    let gone = Change { operation: Operation::Delete, created: Revision(3), previous: Revision(3), ..row(4, "gone") };
    store.commit(FIRST, &[full, row(2, "bare"), row(3, "gone"), gone]).await.unwrap();
    // A second start with the same definitions changes nothing, one with others replaces them.
    for tables in [vec![table()], vec![], vec![table()]] {
        store::open(&url, &tables).await.unwrap().close().await.unwrap();
    }
    let mut connection = PgConnection::connect(&url).await.unwrap();
    type Shown = (String, i64, Option<String>, String, Option<String>, Option<String>, Option<String>, Option<String>);
    let shown: Vec<Shown> = sqlx::query_as(
        "SELECT name, revision, created, updated, policy, first, clusters, scheduled
         FROM resource_bindings ORDER BY name",
    )
    .fetch_all(&mut connection)
    .await
    .unwrap();
    let some = |text: &str| Some(text.to_owned());
    let bare = ("bare".to_owned(), 2, None, "1970-01-01T00:00:02Z".to_owned(), None, None, None, None);
    let web = (
        "web".to_owned(),
        1,
        some("2026-01-02T03:04:05Z"),
        "1970-01-01T00:00:01Z".to_owned(),
        some("it's\u{fffd}"),
        some("m1"),
        some("m1:2,m2"),
        some("True"),
    );
    assert_eq!(shown, [bare, web]);
}

#[tokio::test]
async fn databases_that_are_not_ours_are_refused_untouched() {
    let Some(cluster) = Cluster::shared() else { return };
    let refused = async |url: &str| match store::open(url, &[]).await {
        Err(error) => error.to_string(),
        Ok(_) => panic!("{url} was opened"),
    };
    let url = cluster.schema().await;
    let mut connection = PgConnection::connect(&url).await.unwrap();
    sqlx::raw_sql("CREATE TABLE changes (id bigint)").execute(&mut connection).await.unwrap();
    assert!(refused(&url).await.contains("tables of another program"), "{}", refused(&url).await);

    // The name of a view is in use.
    let url = cluster.schema().await;
    let mut connection = PgConnection::connect(&url).await.unwrap();
    sqlx::raw_sql("CREATE TABLE resource_bindings (id bigint)").execute(&mut connection).await.unwrap();
    let Err(error) = store::open(&url, &[table()]).await else { panic!("{url} was opened") };
    assert!(error.to_string().contains("tables of another program"), "{error}");
    let there = "SELECT table_name::text FROM information_schema.tables WHERE table_schema = current_schema()";
    let there: Vec<String> = sqlx::query_scalar(there).fetch_all(&mut connection).await.unwrap();
    assert_eq!(there, ["resource_bindings"]);

    let url = cluster.schema().await;
    open(&url).await.close().await.unwrap();
    let mut connection = PgConnection::connect(&url).await.unwrap();
    let newer = "INSERT INTO ballast_migrations SELECT 99, description, installed_on, success, checksum,
        execution_time FROM ballast_migrations WHERE version = 1";
    sqlx::raw_sql(newer).execute(&mut connection).await.unwrap();
    assert!(refused(&url).await.contains("a newer version of this program (its schema is 99"));

    let standby = format!("{}%20-cdefault_transaction_read_only%3Don", cluster.schema().await);
    let Err(error) = store::open(&standby, &[]).await else { panic!("a standby was opened") };
    assert_eq!(error.reason(), "the database is read-only");
    let Err(error) = store::open("postgres://x@127.0.0.1:1/none", &[]).await else { panic!("nobody is there") };
    assert_eq!(error.reason(), "the database cannot be reached");
}

#[tokio::test]
async fn the_server_proves_who_it_is_and_the_password_is_read_anew() {
    let folder = tempfile::tempdir().unwrap();
    let ca = Ca::new("database-ca");
    let (certificate, key) = ca.server(folder.path(), &["localhost"]);
    let Some(cluster) = Cluster::start_guarded(&certificate, &key) else { return };
    cluster.run("CREATE ROLE guarded LOGIN PASSWORD 'first'; CREATE SCHEMA own AUTHORIZATION guarded").await;
    let (ours, others) = (folder.path().join("ca.crt"), folder.path().join("other.crt"));
    std::fs::write(&ours, &ca.pem).unwrap();
    std::fs::write(&others, &Ca::new("somebody-else").pem).unwrap();
    let password = folder.path().join("password");
    std::fs::write(&password, "first\n").unwrap();
    let url = |host: &str, ca: &std::path::Path| {
        let (port, ca) = (cluster.port, ca.display());
        format!(
            "postgres://guarded@{host}:{port}/postgres?options=-csearch_path%3Down&sslmode=verify-full&sslrootcert={ca}"
        )
    };
    let settings = Settings { password_file: Some(password.clone()), ..Settings::default() };
    let reason = async |url: &str, settings: &Settings| match store::open_with(url, &[], settings).await {
        Err(error) => error.reason(),
        Ok(_) => panic!("{url} was opened"),
    };
    assert_eq!(reason(&url("localhost", &others), &settings).await, "no trusted connection to the database");
    let store = store::open_with(&url("localhost", &ours), &[], &settings).await.unwrap();
    store.commit(FIRST, &[row(1, "web")]).await.unwrap();

    cluster.run("ALTER ROLE guarded PASSWORD 'second'").await;
    std::fs::write(&password, "second\n").unwrap();
    let cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'guarded'";
    cluster.run(cut).await;
    store.commit(FIRST, &[row(2, "api")]).await.unwrap();
    cluster.run(cut).await;
    assert_eq!(store.bounds().await.unwrap().last, Revision(2));

    // The last password is tried as long as there is no other one.
    std::fs::remove_file(&password).unwrap();
    cluster.run(cut).await;
    assert_eq!(store.bounds().await.unwrap().last, Revision(2));

    std::fs::write(&password, "wrong").unwrap();
    let refused = reason(&url("localhost", &ours), &settings).await;
    assert_eq!(refused, "the database refuses the user or the password");
}

/// Guarantee 2: leaders pause past their lease, return, and try to continue.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn re2_leaders_of_the_past_store_nothing() {
    const LEASE: Duration = Duration::from_millis(60);
    const COMMITS: i64 = 40;
    let Some(cluster) = Cluster::shared() else { return };
    let url = cluster.schema().await;
    let mut replicas = tokio::task::JoinSet::new();
    for replica in 0..3 {
        let store = open(&url).await;
        replicas.spawn(async move {
            let candidate = Candidate { name: format!("replica-{replica}"), address: String::new() };
            let (mut acknowledged, mut deposed) = (Vec::new(), 0);
            loop {
                let led = store.lead(&candidate, LEASE).await.unwrap();
                let last = store.bounds().await.unwrap().last;
                if last.0 >= COMMITS {
                    return (acknowledged, deposed);
                }
                if !led.is_held_by(&candidate) {
                    tokio::time::sleep(LEASE / 4).await;
                    continue;
                }
                // Every third time it is paused, and still believes in its term.
                if last.0 % 3 == replica {
                    tokio::time::sleep(LEASE * 2).await;
                }
                let change = row(last.0 + 1, &format!("{}-{}-{last}", led.term, candidate.name));
                match store.commit(led.term, std::slice::from_ref(&change)).await {
                    Ok(()) => acknowledged.push(change),
                    Err(Error::Deposed { .. }) => deposed += 1,
                    Err(error) => panic!("{error:?}"),
                }
            }
        });
    }
    let outcomes = replicas.join_all().await;
    let deposed: usize = outcomes.iter().map(|(_, deposed)| deposed).sum();
    let mut acknowledged: Vec<Change> = outcomes.into_iter().flat_map(|(acknowledged, _)| acknowledged).collect();
    acknowledged.sort_by_key(|change| change.revision);
    assert!(deposed > 0, "nobody was paused past its lease");
    // Each row was acknowledged to exactly one leader, and each acknowledged row exists.
    assert_eq!(open(&url).await.changes(Revision::ZERO, 1000).await.unwrap(), acknowledged);
}

/// A start reads the state, but not the rows of the history. The server counts the rows that it has
/// read.
#[tokio::test]
async fn the_states_are_found_without_reading_the_history() {
    const CHANGES: i64 = 40_000;
    const OBJECTS: i64 = 200;
    let Some(cluster) = Cluster::start() else { return };
    let url = cluster.schema().await;
    let store = open(&url).await;
    // One of two hundred changes creates an object that remains.
    let mut busy = Revision::ZERO;
    let changes: Vec<Change> = (1..=CHANGES)
        .map(|revision| {
            let is_new = revision % (CHANGES / OBJECTS) == 0;
            let name = if is_new { format!("web-{revision}") } else { "busy".to_owned() };
            let mut change = row(revision, &name);
            if !is_new {
                (change.created, change.previous) = (Revision(1), busy);
                change.operation = if busy == Revision::ZERO { Operation::Create } else { Operation::Update };
                busy = change.revision;
            }
            change
        })
        .collect();
    for batch in changes.chunks(2_000) {
        store.commit(FIRST, batch).await.unwrap();
    }
    // The server counts a connection's reads when it ends, and the last one ends with the store.
    store.close().await.unwrap();
    drop(store);
    cluster.is_left_alone().await;
    let mut administrator = PgConnection::connect(&url).await.unwrap();
    // As the server does itself after a while.
    sqlx::raw_sql("VACUUM ANALYZE changes").execute(&mut administrator).await.unwrap();
    let read = "SELECT seq_scan, idx_tup_fetch FROM pg_stat_user_tables
         WHERE relname = 'changes' AND schemaname = current_schema()";
    let (walks, rows): (i64, i64) = sqlx::query_as(read).fetch_one(&mut administrator).await.unwrap();

    let store = open(&url).await;
    let last = store.bounds().await.unwrap().last;
    let (mut found, mut after) = (Vec::new(), Revision::ZERO);
    loop {
        let page = store.page(last, after, 50).await.unwrap();
        after = page.last().map_or(after, |last| last.revision);
        found.extend(page.iter().map(|state| state.revision));
        if page.len() < 50 {
            break;
        }
    }
    assert_eq!(found.len() as i64, OBJECTS + 1);
    store.close().await.unwrap();
    drop(store);
    administrator.close().await.unwrap();
    cluster.is_left_alone().await;
    let mut administrator = PgConnection::connect(&url).await.unwrap();
    let (walks_now, rows_now): (i64, i64) = sqlx::query_as(read).fetch_one(&mut administrator).await.unwrap();
    assert!(rows_now >= rows + OBJECTS, "the rows are counted");
    assert_eq!(walks_now, walks, "no walk over the table");
    assert!(rows_now - rows < 10 * OBJECTS, "{} rows were read for {OBJECTS} objects", rows_now - rows);
}

#[tokio::test]
async fn a_mark_is_worth_nothing_once_a_program_has_led_that_knows_of_none() {
    let Some(cluster) = Cluster::shared() else { return };
    let url = cluster.schema().await;
    let store = open(&url).await;
    let lead = async |name: &str| {
        let candidate = Candidate { name: name.to_owned(), address: String::new() };
        store.lead(&candidate, Duration::from_millis(1)).await.unwrap().term
    };
    let mark = async || store.mark().await.unwrap();
    assert_eq!(mark().await, Some(0));
    let first = lead("anna").await;
    store.set_mark(first, 7).await.unwrap();
    assert_eq!((lead("anna").await, mark().await), (first, Some(7)), "renewed");
    store.resign(first).await.unwrap();
    let second = lead("berta").await;
    assert_eq!(mark().await, Some(7), "one that knows of marks follows another");
    store.set_mark(first, 8).await.unwrap();
    assert_eq!(mark().await, Some(7), "a term that is over leaves none");

    // The previous program takes the lead as it always did.
    let before = "UPDATE head SET term = term + 1, session = 0, holder = 'old', expires = clock_timestamp()";
    let mut old = PgConnection::connect(&url).await.unwrap();
    sqlx::raw_sql(before).execute(&mut old).await.unwrap();
    assert_eq!(mark().await, Some(0));
    store.set_mark(second, 9).await.unwrap();
    let third = lead("anna").await;
    assert_eq!((third.0, mark().await), (second.0 + 2, Some(0)));
    store.set_mark(third, 10).await.unwrap();
    assert_eq!(mark().await, Some(10));
}
