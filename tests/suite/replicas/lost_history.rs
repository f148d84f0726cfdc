//! The database fails over to an asynchronous standby, and acknowledged commits are lost.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use ballast::cli::client::Client;
use ballast::store::REVISIONS_SKIPPED;
use serde_json::Value;
use sqlx::{Connection, PgConnection, Row};

use super::clients::{BINDINGS, binding, revision};
use super::fleet::Fleet;
use super::presence::metrics;
use crate::process::Signal;
use crate::support::postgres::Cluster;
use crate::support::proxy::Proxy;
use crate::support::{metric, wait_for};

const REPLICAS: usize = 2;
/// The limit until writes continue, with the lease of these tests and a loaded machine.
const SOON: Duration = Duration::from_secs(10);

/// Starts processes over a primary with a lagging standby, and a proxy to the primary.
struct Scene {
    primary: Cluster,
    standby: Cluster,
    proxy: Proxy,
    fleet: Fleet,
    /// Returns the revisions of acknowledged but lost objects, by name.
    lost: BTreeMap<String, i64>,
}

impl Scene {
    async fn set() -> Option<Scene> {
        let primary = Cluster::start()?;
        let standby = primary.standby().await;
        let proxy = Proxy::before(primary.port).await;
        let fleet = Fleet::over(proxy.url(&primary.url()), REPLICAS, &[]);
        let client = fleet.doors.enter(0).await.unwrap();
        create(&client, "kept").await;
        standby.falls_behind(&primary).await;
        let mut lost = BTreeMap::new();
        for number in 0..10 {
            let name = format!("lost-{number}");
            lost.insert(name.clone(), create(&client, &name).await);
        }
        let newest = lost.values().copied().max().unwrap();
        for seat in 0..REPLICAS {
            let client = fleet.doors.enter(seat).await.unwrap();
            let list = client.get(&format!("{BINDINGS}?resourceVersion={newest}")).await.unwrap();
            assert_eq!(list["items"].as_array().unwrap().len(), 11);
        }
        Some(Scene { primary, standby, proxy, fleet, lost })
    }

    async fn fail_over(&self) {
        self.primary.crash();
        self.standby.promote().await;
        self.proxy.turn_to(self.standby.port);
    }

    fn newest(&self) -> i64 {
        self.lost.values().copied().max().unwrap()
    }

    /// Every replica shows the state of the log, and nothing resumes from before.
    async fn is_one_history(&self, first: i64) {
        let newest = self.newest();
        assert!(first > newest.max(REVISIONS_SKIPPED), "{first} after {newest}");
        let mut database = self.fleet.database().await;
        let sql = "SELECT name, max(revision) FROM changes WHERE kind LIKE 'resourcebindings.%' GROUP BY name";
        let rows = sqlx::query(sql).fetch_all(&mut database).await.unwrap();
        let log: BTreeMap<String, i64> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
        for seat in 0..REPLICAS {
            let client = self.fleet.doors.enter(seat).await.unwrap();
            let list = wait_for("a consistent list", async || client.get(BINDINGS).await.ok()).await;
            let items = list["items"].as_array().unwrap().iter();
            let shown: BTreeMap<String, i64> =
                items.map(|item| (item["metadata"]["name"].as_str().unwrap().to_owned(), revision(item))).collect();
            assert_eq!(shown, log, "replica {seat}");
            let resumed = client.watch(&format!("{BINDINGS}?resourceVersion={newest}"), |_| false).await;
            assert!(resumed.unwrap_err().to_string().contains("too old resource version"), "replica {seat}");
            for name in self.lost.keys().filter(|name| !log.contains_key(*name)) {
                assert!(client.get(&format!("{BINDINGS}/{name}")).await.is_err(), "{name} at replica {seat}");
            }
        }
    }
}

async fn create(client: &Client, name: &str) -> i64 {
    revision(&client.post(BINDINGS, &binding(name)).await.unwrap())
}

/// Creates a binding as soon as possible. Returns its revision.
async fn create_soon(fleet: &Fleet, seat: usize, name: &str) -> i64 {
    let began = Instant::now();
    let made: Value =
        wait_for("writes to go on", async || fleet.doors.enter(seat).await?.post(BINDINGS, &binding(name)).await.ok())
            .await;
    assert!(began.elapsed() < SOON, "writes went on after {:?}", began.elapsed());
    eprintln!("writes went on after {:?}", began.elapsed());
    revision(&made)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn re11_and_re12_what_a_failover_has_lost_is_lifted_over_and_told() {
    let Some(scene) = Scene::set().await else { return };
    let newest = scene.newest();
    // A watch at each replica, from before.
    let watches: Vec<_> = (0..REPLICAS)
        .map(|seat| {
            let doors = scene.fleet.doors.clone();
            tokio::spawn(async move {
                let client = doors.enter(seat).await.unwrap();
                client.watch(&format!("{BINDINGS}?resourceVersion={newest}"), |_| false).await
            })
        })
        .collect();
    scene.fail_over().await;
    let first = create_soon(&scene.fleet, 0, "lost-3").await;
    scene.is_one_history(first).await;
    for watch in watches {
        let told = tokio::time::timeout(SOON, watch).await.expect("every watch is told").unwrap();
        assert!(told.unwrap_err().to_string().contains("too old resource version"));
    }

    let mut counted = 0.0;
    for seat in 0..REPLICAS {
        let client = scene.fleet.doors.enter(seat).await.unwrap();
        let metrics = metrics(&client).await;
        counted += metric(&metrics, "ballast_history_lost_total");
        assert!(metric(&metrics, "ballast_history_lost_revisions") >= 10.0, "{metrics}");
    }
    assert!(counted >= REPLICAS as f64, "{counted}");
    // Log lines are written by a separate thread.
    let is_told = |line: &&str| line.contains("the database has lost changes that");
    wait_for("a line of each replica", async || {
        (scene.fleet.logged().lines().filter(is_told).count() >= REPLICAS).then_some(())
    })
    .await;
    let logged = scene.fleet.logged();
    let lines: Vec<&str> = logged.lines().filter(is_told).collect();
    assert_eq!(lines.len(), REPLICAS, "one line of each replica: {lines:?}");
    assert!(lines.iter().all(|line| line.contains("revisions=") && line.contains("from=") && line.contains("to=")));
    assert!(!logged.contains("restore the database"), "the log is whole");
    let client = scene.fleet.doors.enter(0).await.unwrap();
    wait_for("the event", async || {
        let events = client.get("/api/v1/namespaces/default/events").await.ok()?;
        let told = |event: &Value| event["reason"] == "HistoryLost" && event["type"] == "Warning";
        events["items"].as_array()?.iter().any(told).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn re11_who_is_killed_between_the_mark_the_lift_and_the_first_write_is_followed_by_another() {
    let Some(mut scene) = Scene::set().await else { return };
    scene.fail_over().await;
    // As soon as the mark exists or the log is lifted, the leader is killed.
    let newest = scene.newest();
    let mut database = wait_for("the database", async || {
        let url = scene.standby.url();
        PgConnection::connect(&url).await.ok()
    })
    .await;
    wait_for("the mark or the lift", async || {
        let row = sqlx::query("SELECT lost, last FROM head").fetch_one(&mut database).await.ok()?;
        (row.get::<i64, _>(0) >= newest || row.get::<i64, _>(1) > newest).then_some(())
    })
    .await;
    for seat in 0..REPLICAS {
        scene.fleet.kill(seat);
    }
    for seat in 0..REPLICAS {
        scene.fleet.restart(seat);
    }
    let first = create_soon(&scene.fleet, 1, "first").await;
    scene.is_one_history(first).await;
}

/// `run.sh silent`: a replica is stopped while the database fails over and the log continues.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn re10_a_replica_that_slept_through_a_failover_shows_nothing_that_the_log_lacks() {
    let Some(mut scene) = Scene::set().await else { return };
    scene.fleet.process(1).signal(Signal::Stop);
    scene.fleet.kill(0);
    scene.fail_over().await;
    scene.fleet.restart(0);
    let first = create_soon(&scene.fleet, 0, "lost-3").await;
    for number in 0..30 {
        create_soon(&scene.fleet, 0, &format!("more-{number}")).await;
    }
    scene.fleet.process(1).signal(Signal::Continue);
    scene.is_one_history(first).await;
}
