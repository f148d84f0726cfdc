//! Executes a WorkloadRebalancer with 10,000 workloads: `cargo bench --bench load -- rebalance`.
//!
//! Measures the time from the POST until the last binding is rescheduled and durable, and for
//! comparison the time that SQLite alone needs for the same rows in the same batches.
//!
//! Then the same bindings are moved by a ClusterRebalance without bounds, and back by its undo:
//! from the POST until its status is finished, with a watch on it.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ballast::cli::bench::placed::Binding;

use super::preview::rebalanced;
use super::process::ServerProcess;
use super::setup::{REBALANCERS, await_scheduled, larger_clusters, make_bindings, make_fleet};
use serde_json::{Value, json};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
use sqlx::{AssertSqlSafe, ConnectOptions, Row, SqliteConnection};

const BINDINGS: usize = 10_000;
const CLUSTERS: usize = 20;
const ROUNDS: usize = 3;

pub async fn run() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let server = ServerProcess::start(folder.path(), &[]);
    let client = Arc::new(server.client().await);
    make_fleet(&client, CLUSTERS).await;
    make_bindings(&client, BINDINGS).await;
    println!("{BINDINGS} bindings over {CLUSTERS} clusters are scheduled");
    for round in 0..ROUNDS {
        let workloads: Vec<Value> = (0..BINDINGS)
            .map(|i| json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": format!("web-{i}"), "namespace": "default"}))
            .collect();
        let rebalancer = json!({"apiVersion": "apps.karmada.io/v1alpha1", "kind": "WorkloadRebalancer",
            "metadata": {"name": format!("all-{round}")}, "spec": {"workloads": workloads}});
        let size = serde_json::to_vec(&rebalancer).unwrap().len();
        let cpu_before = server.cpu();
        let begun = Instant::now();
        let created = client.post(REBALANCERS, &rebalancer).await.expect("created");
        let since: i64 = created["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
        let accepted = begun.elapsed();
        await_scheduled(&client, BINDINGS, since, Binding::is_decided_again).await;
        let whole = begun.elapsed();
        let cpu = server.cpu() - cpu_before;
        let batches = rows_since(&server.database(), since).await;
        let rows: usize = batches.iter().map(Vec::len).sum();
        let bytes: usize = batches.iter().flatten().map(LogRow::len).sum();
        let alone = sqlite_alone(&batches).await;
        println!(
            "round {round}: body {:.2} MB, accepted after {accepted:.1?}, all rescheduled after {whole:.2?} (server CPU {cpu:.2?}); \
             SQLite alone {alone:.2?} for {rows} rows of {} bytes in {} batches: ratio {:.2}",
            size as f64 / 1e6,
            bytes / rows.max(1),
            batches.len(),
            whole.as_secs_f64() / alone.as_secs_f64(),
        );
    }
    larger_clusters(&client, CLUSTERS..2 * CLUSTERS).await;
    for round in 0..ROUNDS {
        let there = format!("there-{round}");
        move_all(&server, &there, json!({"select": [{"all": true}], "mode": "Fresh"})).await;
        move_all(&server, &format!("back-{round}"), json!({"undo": {"name": there}})).await;
    }
}

/// Runs one ClusterRebalance over all bindings. Returns the time until it has finished.
pub async fn move_all(server: &ServerProcess, name: &str, spec: Value) -> Duration {
    let client = server.client().await;
    let (since, cpu, begun) = (newest(&server.database()).await, server.cpu(), Instant::now());
    let done = rebalanced(&client, name, spec).await;
    let (whole, cpu) = (begun.elapsed(), server.cpu() - cpu);
    let batches = rows_since(&server.database(), since).await;
    // Events only report the moves; they are not counted.
    let rows = batches.iter().flatten().filter(|row| row.key[0] != "events").count();
    let summary = &done["status"]["summary"];
    println!(
        "ClusterRebalance {name}: {} after {whole:.2?} (server CPU {cpu:.2?}), {} to move, {} settled, {} unchanged, {} failed; \
         {rows} rows in {} batches: {:.2} for a Move",
        done["status"]["phase"],
        summary["toMove"],
        summary["settled"],
        summary["unchanged"],
        summary["failed"],
        batches.len(),
        rows as f64 / summary["toMove"].as_f64().unwrap_or(1.0).max(1.0),
    );
    whole
}

async fn newest(database: &Path) -> i64 {
    let mut reader = SqliteConnectOptions::new().filename(database).read_only(true).connect().await.unwrap();
    sqlx::query("SELECT max(revision) FROM changes").fetch_one(&mut reader).await.unwrap().get(0)
}

pub struct LogRow {
    revision: i64,
    key: [String; 4],
    numbers: [i64; 3],
    object: String,
    managers: Option<String>,
}

impl LogRow {
    /// Returns the size of its texts in bytes.
    pub fn len(&self) -> usize {
        self.object.len() + self.managers.as_ref().map_or(0, String::len)
    }
}

/// Returns the batches that the server wrote after a revision. The rows of a transaction have the
/// same time.
pub async fn rows_since(database: &Path, since: i64) -> Vec<Vec<LogRow>> {
    let mut reader = SqliteConnectOptions::new().filename(database).read_only(true).connect().await.unwrap();
    let sql = "SELECT revision, kind, namespace, name, operation, created, previous, time_ms, object, managers \
               FROM changes WHERE revision > ? ORDER BY revision";
    let mut batches: Vec<Vec<LogRow>> = Vec::new();
    for row in sqlx::query(sql).bind(since).fetch_all(&mut reader).await.unwrap() {
        let row = LogRow {
            revision: row.get(0),
            key: [row.get(1), row.get(2), row.get(3), row.get(4)],
            numbers: [row.get(5), row.get(6), row.get(7)],
            object: row.get(8),
            managers: row.get(9),
        };
        match batches.last_mut() {
            Some(batch) if batch[0].numbers[2] == row.numbers[2] => batch.push(row),
            _ => batches.push(vec![row]),
        }
    }
    batches
}

/// Writes the same rows in the same transactions through sqlx alone: one connection, inserts of
/// many rows, the same durability, and a table with the same columns and the same index.
pub async fn sqlite_alone(batches: &[Vec<LogRow>]) -> Duration {
    const ROWS_PER_INSERT: usize = 256;
    let folder = tempfile::tempdir().unwrap();
    let options = SqliteConnectOptions::new()
        .filename(folder.path().join("alone.db"))
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full);
    let mut connection = options.connect().await.unwrap();
    let schema = "CREATE TABLE changes (revision INTEGER PRIMARY KEY, kind TEXT NOT NULL, namespace TEXT NOT NULL, \
                  name TEXT NOT NULL, operation TEXT NOT NULL, created INTEGER NOT NULL, previous INTEGER NOT NULL, \
                  time_ms INTEGER NOT NULL, object TEXT NOT NULL, managers TEXT) STRICT; \
                  CREATE UNIQUE INDEX by_key ON changes (kind, namespace, name, revision)";
    sqlx::raw_sql(schema).execute(&mut connection).await.unwrap();
    let begun = Instant::now();
    for batch in batches {
        sqlx::raw_sql("BEGIN IMMEDIATE").execute(&mut connection).await.unwrap();
        for chunk in batch.chunks(ROWS_PER_INSERT) {
            insert(&mut connection, chunk).await;
        }
        sqlx::raw_sql("COMMIT").execute(&mut connection).await.unwrap();
    }
    begun.elapsed()
}

async fn insert(connection: &mut SqliteConnection, rows: &[LogRow]) {
    let values = vec!["(?,?,?,?,?,?,?,?,?,?)"; rows.len()].join(",");
    let sql = format!("INSERT INTO changes VALUES {values}");
    let mut query = sqlx::query(AssertSqlSafe(sql));
    for row in rows {
        query = query.bind(row.revision);
        for part in &row.key {
            query = query.bind(part.as_str());
        }
        for number in row.numbers {
            query = query.bind(number);
        }
        query = query.bind(row.object.as_str()).bind(row.managers.as_deref());
    }
    query.execute(connection).await.unwrap();
}
