//! PostgreSQL failover: several hosts in the URL, dead connections, and the result of a commit
//! during the outage.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ballast::store::{self, Candidate, Error, Store, Term};

use super::conformance::Rows;
use super::fixtures::binding;
use crate::process::ServerProcess;
use crate::support::postgres::Cluster;
use crate::support::proxy::Proxy;
use crate::support::wait_for;

const FIRST: Term = Term(0);
/// Less than a statement may take.
const SOON: Duration = Duration::from_secs(12);

async fn open(url: &str) -> Arc<dyn Store> {
    store::open(url, &[]).await.unwrap()
}

#[tokio::test]
async fn re5_the_host_that_takes_writes_is_found_and_found_again() {
    let Some(primary) = Cluster::start() else { return };
    let standby = primary.standby().await;
    let hosts = format!("127.0.0.1:1,127.0.0.1:{},127.0.0.1:{}", standby.port, primary.port);
    let url = format!("postgres://ballast@{hosts}/postgres?target_session_attrs=read-write");
    let store = open(&url).await;
    store.commit(FIRST, &Rows::default().create(&binding("web")).rows).await.unwrap();
    store.probe().await.unwrap();

    primary.crash();
    let refused = store.commit(FIRST, &Rows::after(1).create(&binding("api")).rows).await.unwrap_err();
    assert!(refused.is_outage(), "{refused:?}");
    standby.promote().await;
    let began = Instant::now();
    let last = wait_for("the new primary", async || Some(store.bounds().await.ok()?.last)).await;
    assert_eq!(last.0, 1);
    // A leader accepts the promoted server first.
    store.accept(FIRST).await.unwrap();
    store.commit(FIRST, &Rows::after(1).create(&binding("api")).rows).await.unwrap();
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
    store.close().await.unwrap();
}

#[tokio::test]
async fn re2_a_standby_that_was_promoted_takes_no_commit_before_a_leader_has_accepted_it() {
    let Some(primary) = Cluster::start() else { return };
    let standby = primary.standby().await;
    let proxy = Proxy::before(primary.port).await;
    let store = open(&proxy.url(&primary.url())).await;
    store.accept(FIRST).await.unwrap();
    store.commit(FIRST, &Rows::default().create(&binding("web")).rows).await.unwrap();
    primary.crash();
    standby.promote().await;
    proxy.turn_to(standby.port);
    let rows = Rows::after(1).create(&binding("api")).rows;
    let refused = wait_for("an answer", async || match store.commit(FIRST, &rows).await {
        Err(error) if error.is_outage() => None,
        answer => Some(answer),
    })
    .await;
    assert!(matches!(refused, Err(Error::Deposed { .. })), "{refused:?}");
    assert!(store.losses().await.unwrap().is_promoted);
    store.accept(FIRST).await.unwrap();
    assert!(!store.losses().await.unwrap().is_promoted);
    store.commit(FIRST, &rows).await.unwrap();
}

/// ha-06: a lease that cannot be renewed over a connection is a reason to close all of them.
#[tokio::test]
async fn re5_connections_that_died_are_given_up_with_the_commit_that_waits_for_them() {
    let Some(cluster) = Cluster::shared() else { return };
    let proxy = Proxy::before(cluster.port).await;
    let store = open(&proxy.url(&cluster.schema().await)).await;
    let one = Candidate { name: "one".into(), address: String::new() };
    let lease = Duration::from_secs(2);
    let term = store.lead(&one, Duration::from_secs(600)).await.unwrap().term;
    store.commit(term, &Rows::default().create(&binding("web")).rows).await.unwrap();
    proxy.abandon();
    let began = Instant::now();
    let committing = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.commit(term, &Rows::after(1).create(&binding("api")).rows).await }
    });
    wait_for("the lease", async || store.lead(&one, lease).await.ok()).await;
    committing.await.unwrap().unwrap();
    assert!(began.elapsed() < SOON, "{:?}", began.elapsed());
}

/// ha-07: a start without a primary waits for one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn re5_a_start_without_a_primary_waits_for_one() {
    let Some(cluster) = Cluster::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    cluster.pause();
    let (home, url) = (folder.path().to_owned(), cluster.url());
    let starting = tokio::task::spawn_blocking(move || ServerProcess::start_on(&home, &url, &[]));
    let log = folder.path().join("log");
    wait_for("the process to wait", async || {
        std::fs::read_to_string(&log).ok()?.contains("the start waits for the database").then_some(())
    })
    .await;
    cluster.resume();
    let process = starting.await.unwrap();
    assert!(process.terminate().success());
}
