//! Servers that share a PostgreSQL on this machine: `cargo bench --bench load -- shared follower`.
//!
//! `shared` compares creates over HTTPS with sqlx alone: the same rows in the same transactions,
//! one after the other, without a fence and without a comparison of versions. The database flushes
//! each commit to the disk. `follower` reads from a replica that does not lead.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use http::Method;
use sqlx::{Connection, PgConnection, Row};

use super::create;
use super::objects;
use super::postgres::Cluster;
use super::process::ServerProcess;
use super::setup::{BINDINGS, body_of, make_idle_bindings, unscheduled};

const OBJECTS: usize = 1_000;
const GETS: usize = 50_000;
const ROUNDS: usize = 3;

/// The flags of replicas that start soon after one another.
const FLAGS: [&str; 2] = ["--leader-lease-seconds", "2"];

/// Measures creates through the server, and the same rows through sqlx.
pub async fn shared() {
    // PostgreSQL's default settings: each commit is on the disk before its response.
    let Some(cluster) = Cluster::start_with(&[]) else { return };
    for round in 0..ROUNDS {
        let url = cluster.schema().await;
        let folder = tempfile::tempdir().expect("a temporary folder");
        let server = ServerProcess::start_on(folder.path(), &url, &FLAGS);
        let client = Arc::new(server.client().await);
        println!("round {round}");
        // Without a scheduler, so that each create is one row.
        let (rate, begin) = create::measured(&server, &client, unscheduled).await;
        drop(server);
        let mut database = PgConnection::connect(&url).await.expect("PostgreSQL");
        let (raw, batches) = raw(&mut database, begin).await;
        println!(
            "sqlx alone, the same {batches} transactions: {raw:.0}/s; with the server {:.0} %",
            100.0 * rate / raw
        );
    }
}

/// Rows of one transaction, column by column.
#[derive(Default)]
struct Batch {
    revisions: Vec<i64>,
    texts: [Vec<String>; 5],
    numbers: [Vec<i64>; 3],
}

/// Stores the rows after a revision in an equal table, in the transactions of the server.
async fn raw(database: &mut PgConnection, begin: i64) -> (f64, usize) {
    // The rows of a transaction have its number.
    let sql = "SELECT xmin::text AS number, * FROM changes WHERE revision > $1 ORDER BY revision";
    let rows = sqlx::query(sql).bind(begin).fetch_all(&mut *database).await.expect("rows");
    let (mut batches, mut last) = (Vec::<Batch>::new(), String::new());
    for row in &rows {
        let number: String = row.get("number");
        if number != last {
            batches.push(Batch::default());
            last = number;
        }
        let batch = batches.last_mut().expect("one was pushed");
        batch.revisions.push(row.get("revision"));
        for (column, name) in batch.texts.iter_mut().zip(["kind", "namespace", "name", "operation", "object"]) {
            column.push(row.get(name));
        }
        for (column, name) in batch.numbers.iter_mut().zip(["created", "previous", "time_ms"]) {
            column.push(row.get(name));
        }
    }
    sqlx::raw_sql("CREATE TABLE raw (LIKE changes INCLUDING ALL)").execute(&mut *database).await.expect("a table");
    let begun = Instant::now();
    for batch in &batches {
        let [kinds, namespaces, names, operations, objects] = &batch.texts;
        let [created, previous, times_ms] = &batch.numbers;
        sqlx::query(
            "INSERT INTO raw (revision, kind, namespace, name, operation, object, created, previous, time_ms)
             SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[],
                 $7::bigint[], $8::bigint[], $9::bigint[])",
        )
        .bind(&batch.revisions)
        .bind(kinds)
        .bind(namespaces)
        .bind(names)
        .bind(operations)
        .bind(objects)
        .bind(created)
        .bind(previous)
        .bind(times_ms)
        .execute(&mut *database)
        .await
        .expect("stored");
    }
    (rows.len() as f64 / begun.elapsed().as_secs_f64(), batches.len())
}

/// Measures reads from a follower: consistent ones, which wait for the barrier, and stale ones.
pub async fn follower() {
    let Some(cluster) = Cluster::start_with(&[]) else { return };
    let url = cluster.schema().await;
    let folder = tempfile::tempdir().expect("a temporary folder");
    // The first replica becomes leader before the second one starts.
    let leader = ServerProcess::start_on(folder.path(), &url, &FLAGS);
    let client = Arc::new(leader.client().await);
    make_idle_bindings(&client, OBJECTS).await;
    let follower = ServerProcess::start_on(folder.path(), &url, &FLAGS);
    let client = Arc::new(follower.client().await);
    let metrics = body_of(&client, Method::GET, "/metrics", None, Bytes::new()).await;
    assert!(String::from_utf8_lossy(&metrics).contains("ballast_leader 0"), "it follows");
    for (name, query) in [("consistent GET", ""), ("GET of resourceVersion=0", "?resourceVersion=0")] {
        objects::measured(&follower, &client, name, GETS, move |i| {
            let path = format!("{BINDINGS}/web-{}-deployment{query}", i % OBJECTS);
            (Method::GET, path, None, Bytes::new())
        })
        .await;
    }
}
