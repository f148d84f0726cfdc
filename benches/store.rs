//! Compares the write path with SQLite alone: `cargo bench --bench store [-- FOLDER]`.
//!
//! Rows are bindings of about 1.5 KB. "plain" is the time that sqlx needs to write the same rows in
//! the same batches to a table that has only a key. The ratio of the two is the price of the log,
//! the checks and the cache.

#![allow(clippy::print_stdout)]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ballast::clock::SystemClock;
use ballast::k8s::{Document, GroupResource, Key, Revision};
use ballast::store::{self, Store};
use ballast::watch::{self, Atomicity, Cache, Draft, Expect, Interest, Limits, Task, Write, WriteError, Writer};
use serde_json::{Value, json};
use sqlx::sqlite::{SqliteArguments, SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqliteSynchronous};
use sqlx::{Arguments, AssertSqlSafe, ConnectOptions};

const BINDINGS: GroupResource = GroupResource::new("resourcebindings.work.karmada.io");
const OBJECTS: usize = 100_000;
const UPDATES: usize = 20_000;

#[tokio::main]
async fn main() {
    let place = std::env::args().nth(1).filter(|argument| !argument.starts_with('-'));
    if let Ok(path) = std::env::var(START_UP) {
        return start_up(Path::new(&path)).await;
    }
    let home = match place {
        Some(place) => tempfile::tempdir_in(place).unwrap(),
        None => tempfile::tempdir().unwrap(),
    };
    println!("object: {} bytes", document(&key(0), 0).at(Revision(1)).len());
    for batch in [1, 32, 500] {
        let plain = plain(&home.path().join(format!("plain-{batch}.db")), batch).await;
        plain.print(&format!("plain, {batch} a transaction"));
    }
    let path = home.path().join("ballast.db");
    let (cache, writer, task) = open(&path).await;
    let calls = calls((0..OBJECTS).map(create));
    many(&writer, calls, "writer, create, 500 a call").await;
    println!("resident: {} MB with {OBJECTS} objects", resident_mb());

    // Spread over the keys, like the changes of users,
    let calls = self::calls((0..UPDATES).map(|number| update(&cache, number * 7919 % OBJECTS, 1)));
    many(&writer, calls, "writer, update here and there, 500 a call").await;
    // and in the order of the keys, like a pass over all bindings.
    let calls = self::calls((0..UPDATES).map(|number| update(&cache, number, 2)));
    many(&writer, calls, "writer, update in order, 500 a call").await;

    let writes: Vec<Write> = (0..1000).map(|number| update(&cache, number * 7919 % OBJECTS, 3)).collect();
    let start = Start::now();
    for write in writes {
        accepted(&writer, vec![write]).await;
    }
    start.stop(1000).print("writer, update, one after the other");

    for callers in [32, 256] {
        let mut watchers = tokio::task::JoinSet::new();
        for _ in 0..10 {
            let mut subscriber = cache.subscribe(Interest::Kinds(vec![BINDINGS]), cache.view().revision).unwrap();
            watchers.spawn(async move { while subscriber.next().await.is_ok() {} });
        }
        let mut tasks = tokio::task::JoinSet::new();
        let mut shares: Vec<Vec<Write>> = (0..callers).map(|_| Vec::new()).collect();
        for number in 0..UPDATES {
            shares[number % callers].push(update(&cache, number * 7919 % OBJECTS, 4));
        }
        let start = Start::now();
        for share in shares {
            let writer = writer.clone();
            tasks.spawn(async move {
                for write in share {
                    accepted(&writer, vec![write]).await;
                }
            });
        }
        tasks.join_all().await;
        start.stop(UPDATES).print(&format!("writer, update, {callers} callers, 10 watchers"));
        watchers.abort_all();
    }
    println!("resident: {} MB", resident_mb());

    let page: usize = cache.view().list(BINDINGS, None).map(|object| object.text.len()).sum();
    let start = Start::now();
    let again: usize = cache.view().list(BINDINGS, None).map(|object| object.text.len()).sum();
    assert_eq!(page, again);
    start.stop(OBJECTS).print("list");

    drop((cache, writer));
    task.await.unwrap().unwrap();
    // A separate process, so that only its memory is measured.
    let itself = std::env::current_exe().unwrap();
    assert!(std::process::Command::new(itself).env(START_UP, &path).status().unwrap().success());
}

/// Set in the child process, which only opens the database.
const START_UP: &str = "BALLAST_BENCH_START_UP";

async fn start_up(path: &Path) {
    let start = Start::now();
    let store: Arc<dyn Store> = store::open(&format!("sqlite://{}", path.display()), &[]).await.unwrap();
    start.stop(OBJECTS).print("start-up: open the file");
    let start = Start::now();
    let (cache, ..) = watch::open(store, Arc::new(SystemClock), Limits::default()).await.unwrap();
    assert_eq!(cache.view().count(BINDINGS, None), OBJECTS);
    start.stop(OBJECTS).print("start-up: load");
    println!("resident: {} MB, file: {} MB", resident_mb(), std::fs::metadata(path).unwrap().len() >> 20);
}

async fn open(path: &Path) -> (Cache, Writer, Task) {
    let store: Arc<dyn Store> = store::open(&format!("sqlite://{}", path.display()), &[]).await.unwrap();
    watch::open(store, Arc::new(SystemClock), Limits::default()).await.unwrap()
}

fn calls(writes: impl Iterator<Item = Write>) -> Vec<Vec<Write>> {
    let mut calls = vec![Vec::new()];
    for write in writes {
        if calls.last().is_some_and(|call| call.len() == 500) {
            calls.push(Vec::new());
        }
        calls.last_mut().expect("never empty").push(write);
    }
    calls
}

async fn many(writer: &Writer, calls: Vec<Vec<Write>>, what: &str) {
    let rows = calls.iter().map(Vec::len).sum();
    let start = Start::now();
    for call in calls {
        accepted(writer, call).await;
    }
    start.stop(rows).print(what);
}

async fn accepted(writer: &Writer, writes: Vec<Write>) {
    match writer.commit(writes, Atomicity::All).await {
        Ok(outcomes) => assert!(outcomes.iter().all(Result::is_ok), "{:?}", outcomes.iter().find(|one| one.is_err())),
        Err(WriteError::Busy) => panic!("the queue is full"),
        Err(error) => panic!("{error}"),
    }
}

fn key(number: usize) -> Key {
    Key::namespaced(BINDINGS, format!("team-{}", number % 50), format!("deployment-web-{number}"))
}

fn create(number: usize) -> Write {
    let key = key(number);
    let draft = Draft::Put(document(&key, 0));
    Write { key, expect: Expect::Absent, draft }
}

fn update(cache: &Cache, number: usize, round: usize) -> Write {
    let key = key(number);
    let at = cache.view().get(&key).unwrap().revision;
    let draft = Draft::Put(document(&key, round));
    Write { key, expect: Expect::At(at), draft }
}

/// Returns a typical binding, with labels, placement, result and conditions.
fn document(key: &Key, round: usize) -> Document {
    let clusters: Vec<Value> = (0..4).map(|n| json!({"name": format!("member-{n}"), "replicas": n + round})).collect();
    let Value::Object(object) = json!({
        "apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
        "metadata": {
            "namespace": *key.namespace, "name": *key.name, "uid": "c9b6ee2f-5d3a-4a27-8a44-5f3f6f8c6d11",
            "creationTimestamp": "2026-04-17T15:04:05Z", "generation": 3,
            "labels": {"propagationpolicy.karmada.io/permanent-id": "e8b9b1b7-51ee-4f1e-9f1c-8b7f8d7a9c21", "app": "web"},
            "annotations": {"policy.karmada.io/applied-placement": "{\"clusterAffinity\":{\"clusterNames\":[\"member-0\",\"member-1\",\"member-2\",\"member-3\"]},\"replicaScheduling\":{\"replicaSchedulingType\":\"Divided\"}}"},
        },
        "spec": {
            "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": *key.namespace, "name": *key.name, "uid": "6c5b1e0e-93a3-4b8a-a5a3-7e3a1e5f1f55", "resourceVersion": "123456"},
            "replicas": 12, "clusters": clusters, "schedulerName": "default-scheduler", "conflictResolution": "Abort",
            "placement": {"clusterAffinity": {"clusterNames": ["member-0", "member-1", "member-2", "member-3"]}, "replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted", "weightPreference": {"dynamicWeight": "AvailableReplicas"}}},
            "replicaRequirements": {"resourceRequest": {"cpu": "100m", "memory": "128Mi"}},
        },
        "status": {
            "schedulerObservedGeneration": 3, "lastScheduledTime": "2026-04-17T15:04:06Z",
            "conditions": [{"type": "Scheduled", "status": "True", "reason": "Success", "message": "Binding has been scheduled successfully.", "lastTransitionTime": "2026-04-17T15:04:06Z"}],
        },
    }) else {
        unreachable!("written as an object above")
    };
    Document::new(object)
}

/// Measures SQLite alone, through sqlx, with statements of up to 250 rows.
async fn plain(path: &PathBuf, batch: usize) -> Cost {
    let rows = if batch == 1 { 2000 } else { UPDATES };
    let mut connection = SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .disable_statement_logging()
        .connect()
        .await
        .unwrap();
    sqlx::raw_sql("CREATE TABLE plain (revision INTEGER PRIMARY KEY, namespace TEXT, name TEXT, object TEXT)")
        .execute(&mut connection)
        .await
        .unwrap();
    let objects: Vec<(Key, String)> = (0..rows)
        .map(|number| {
            let json = document(&key(number), 0).at(Revision(number as i64));
            (key(number), String::from_utf8(json.whole().to_vec()).unwrap())
        })
        .collect();
    let start = Start::now();
    let mut revision = 0i64;
    for group in objects.chunks(batch) {
        sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut connection).await.unwrap();
        for chunk in group.chunks(250) {
            revision = insert_plain(&mut connection, revision, chunk).await;
        }
        sqlx::raw_sql("COMMIT").execute(&mut connection).await.unwrap();
    }
    start.stop(rows)
}

async fn insert_plain(connection: &mut SqliteConnection, mut revision: i64, rows: &[(Key, String)]) -> i64 {
    let mut arguments = SqliteArguments::default();
    for (key, object) in rows {
        revision += 1;
        arguments.add(revision).unwrap();
        arguments.add(&*key.namespace).unwrap();
        arguments.add(&*key.name).unwrap();
        arguments.add(object).unwrap();
    }
    let statement = format!("INSERT INTO plain VALUES {}", vec!["(?, ?, ?, ?)"; rows.len()].join(", "));
    sqlx::query_with(AssertSqlSafe(statement), arguments).execute(connection).await.unwrap();
    revision
}

struct Start {
    wall: Instant,
    cpu: Duration,
}

struct Cost {
    rows: usize,
    wall: Duration,
    cpu: Duration,
}

impl Start {
    fn now() -> Start {
        Start { wall: Instant::now(), cpu: cpu() }
    }

    fn stop(self, rows: usize) -> Cost {
        Cost { rows, wall: self.wall.elapsed(), cpu: cpu() - self.cpu }
    }
}

impl Cost {
    fn print(&self, what: &str) {
        let per_row = |spent: Duration| spent.as_secs_f64() * 1e6 / self.rows as f64;
        let rate = self.rows as f64 / self.wall.as_secs_f64();
        println!("{what:<42} {rate:>9.0} rows/s  {:>7.1} us CPU/row", per_row(self.cpu));
    }
}

/// Returns the CPU time of all threads of this process.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks: u64 = after_name.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}

fn resident_mb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kb| kb.parse::<u64>().ok()).unwrap_or_default() / 1024
}
