//! kill -9 of whoever leads, again and again, under load.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::checker::{History, Log, Seen};
use super::clients::{self, BINDINGS, REBALANCERS, TARGETS, Turns};
use super::fleet::{Fleet, LEASE};
use crate::support::size::sized;
use crate::support::wait_for;

const REPLICAS: usize = 3;
const WRITERS: usize = 6;
/// Writes between two kills. The number differs, so that the kill meets every step of a write.
const WRITES: usize = 40;
/// How long anything may take on a machine that is busy with other tests.
const PATIENCE: Duration = Duration::from_secs(60);

/// A watcher at work, and how far it has come.
struct Watcher {
    task: JoinHandle<Vec<Seen>>,
    at: tokio::sync::watch::Receiver<i64>,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn re1_and_re4_and_re5_leaders_that_are_killed_take_no_acknowledged_write_no_trigger_and_no_event_with_them() {
    let Some(mut fleet) = Fleet::start(REPLICAS).await else { return };
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
        watchers.push(Watcher { task: tokio::spawn(task), at });
    }

    let (rounds, mut pauses, mut term) = (sized(3, 50), Vec::new(), 0);
    for round in 0..rounds {
        let mut progress = history.progress();
        let enough = progress.borrow().acknowledged + WRITES + (round * 7) % 30;
        let moves = progress.wait_for(|progress| progress.acknowledged >= enough);
        tokio::time::timeout(PATIENCE, moves).await.expect("writes are acknowledged").unwrap();
        let (leader, its_term) = fleet.leader().await;
        assert!(its_term > term, "another term after each kill");
        term = its_term;
        fleet.kill(leader);
        let killed = Instant::now();
        let goes_on = progress.wait_for(|progress| progress.latest_begin > killed);
        tokio::time::timeout(PATIENCE, goes_on).await.expect("writes go on").unwrap();
        pauses.push(killed.elapsed());
        fleet.restart(leader);
    }
    stop.cancel();
    for task in load {
        tokio::time::timeout(PATIENCE, task).await.expect("it stops").unwrap();
    }

    triggers_are_served(&fleet, &history).await;
    let log = Log::read(&mut fleet.database().await).await;
    for watcher in &mut watchers {
        // Where one does not get there, the comparison below says what it lacks.
        let _late = tokio::time::timeout(PATIENCE, watcher.at.wait_for(|at| *at >= log.last_of_bindings())).await;
    }
    watching.cancel();
    for (number, watcher) in watchers.into_iter().enumerate() {
        let seen = tokio::time::timeout(PATIENCE, watcher.task).await.expect("it stops").unwrap();
        log.check_watch(&format!("watcher {number}"), start, &seen);
    }
    history.check(&log);
    pauses.sort();
    let (longest, middle) = (pauses[rounds - 1], pauses[rounds / 2]);
    eprintln!(
        "{rounds} leaders killed: writes went on after {middle:?}, at most {longest:?}, with a lease of {LEASE:?}"
    );
    eprintln!("{}; the log has {} changes", history.summary(), log.last);
}

/// Every rebalancer that was acknowledged has finished, and its targets were scheduled afresh.
async fn triggers_are_served(fleet: &Fleet, history: &History) {
    let rebalancers = history.names("rebalancer-");
    assert!(!rebalancers.is_empty(), "there were triggers");
    let mut turns = Turns::new(&fleet.doors, 0);
    for name in &rebalancers {
        wait_for(name, async || {
            let found = turns.next().await.get(&format!("{REBALANCERS}/{name}")).await.ok()?;
            found["status"]["finishTime"].is_string().then_some(())
        })
        .await;
    }
    for target in 0..TARGETS {
        let path = format!("{BINDINGS}/target-{target}-deployment");
        wait_for(&path, async || is_served(&turns.next().await.get(&path).await.ok()?).then_some(())).await;
    }
}

fn is_served(binding: &Value) -> bool {
    let triggered = binding["spec"]["rescheduleTriggeredAt"].as_str();
    let is_owed = !binding["metadata"]["annotations"]["ballast.dev/owed"].is_null();
    triggered.is_some() && !is_owed && triggered <= binding["status"]["lastScheduledTime"].as_str()
}
