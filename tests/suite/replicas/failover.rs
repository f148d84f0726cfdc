//! The database itself fails over: its server crashes under load, and a synchronous standby takes
//! its place at the same address.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::checker::{History, Log};
use super::clients::{self, BINDINGS};
use super::fleet::Fleet;
use crate::support::postgres::Cluster;
use crate::support::proxy::Proxy;

const REPLICAS: usize = 2;
const WRITERS: usize = 4;
/// Writes that are acknowledged before and after the crash.
const WRITES: usize = 80;
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn re1_a_standby_that_is_promoted_has_every_acknowledged_write_and_goes_on() {
    let Some(primary) = Cluster::start() else { return };
    let standby = primary.standby().await;
    let proxy = Proxy::before(primary.port).await;
    let fleet = Fleet::over(proxy.url(&primary.url()), REPLICAS, &[]);
    let first = fleet.doors.enter(0).await.unwrap();
    clients::prepare(&first).await;
    let start = clients::revision(&first.get(BINDINGS).await.unwrap());
    let (history, stop) = (Arc::new(History::new()), CancellationToken::new());
    let (watching, mut load) = (CancellationToken::new(), Vec::new());
    for writer in 0..WRITERS {
        load.push(tokio::spawn(clients::write(fleet.doors.clone(), writer, history.clone(), stop.clone())));
    }
    let mut watchers = Vec::new();
    for seat in 0..REPLICAS {
        load.push(tokio::spawn(clients::read(fleet.doors.clone(), seat, history.clone(), stop.clone())));
        let (told, at) = tokio::sync::watch::channel(start);
        let task = clients::watch(fleet.doors.clone(), seat, start, history.clone(), watching.clone(), told);
        watchers.push((tokio::spawn(task), at));
    }
    let mut progress = history.progress();
    let enough = progress.wait_for(|progress| progress.acknowledged >= WRITES);
    tokio::time::timeout(PATIENCE, enough).await.expect("writes are acknowledged").unwrap();

    // In the midst of the load, and without a goodbye to the standby.
    primary.crash();
    let before = progress.borrow_and_update().acknowledged;
    standby.promote().await;
    proxy.turn_to(standby.port);
    let goes_on = progress.wait_for(|progress| progress.acknowledged >= before + WRITES);
    tokio::time::timeout(PATIENCE, goes_on).await.expect("writes go on").unwrap();
    stop.cancel();
    for task in load {
        tokio::time::timeout(PATIENCE, task).await.expect("it stops").unwrap();
    }

    let log = Log::read(&mut fleet.database().await).await;
    for (_, at) in &mut watchers {
        // Where one does not get there, the comparison below says what it lacks.
        let _late = tokio::time::timeout(PATIENCE, at.wait_for(|at| *at >= log.last_of_bindings())).await;
    }
    watching.cancel();
    for (number, (task, _)) in watchers.into_iter().enumerate() {
        let seen = tokio::time::timeout(PATIENCE, task).await.expect("it stops").unwrap();
        log.check_watch(&format!("watcher {number}"), start, &seen);
    }
    history.check(&log);
    eprintln!("the database failed over: {}; the log has {} changes", history.summary(), log.last);
}
