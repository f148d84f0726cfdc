//! SIGKILL of the leader, again and again, under load.

use std::time::Instant;

use serde_json::Value;

use super::checker::{History, Log};
use super::clients::{BINDINGS, REBALANCERS, TARGETS, Turns};
use super::fleet::{Fleet, LEASE};
use super::load::{Load, PATIENCE};
use crate::support::size::sized;
use crate::support::wait_for;

const REPLICAS: usize = 3;
const WRITERS: usize = 6;
/// Writes between two kills. The number varies, so that the kill meets every step of a write.
const WRITES: usize = 40;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn re1_and_re4_and_re5_leaders_that_are_killed_take_no_acknowledged_write_no_trigger_and_no_event_with_them() {
    let Some(mut fleet) = Fleet::start(REPLICAS).await else { return };
    let mut load = Load::start(&fleet.doors, WRITERS).await;
    let history = load.history.clone();

    let (rounds, mut pauses, mut term) = (sized(3, 50), Vec::new(), 0);
    for round in 0..rounds {
        load.goes_on(WRITES + (round * 7) % 30).await;
        let (leader, its_term) = fleet.leader().await;
        assert!(its_term > term, "another term after each kill");
        term = its_term;
        fleet.kill(leader);
        let killed = Instant::now();
        let mut progress = history.progress();
        let goes_on = progress.wait_for(|progress| progress.latest_begin > killed);
        tokio::time::timeout(PATIENCE, goes_on).await.expect("writes go on").unwrap();
        pauses.push(killed.elapsed());
        fleet.restart(leader);
    }
    load.stop_writing().await;

    triggers_are_served(&fleet, &history).await;
    let log = Log::read(&mut fleet.database().await).await;
    load.check(&log).await;
    pauses.sort();
    let (longest, middle) = (pauses[rounds - 1], pauses[rounds / 2]);
    eprintln!(
        "{rounds} leaders killed: writes went on after {middle:?}, at most {longest:?}, with a lease of {LEASE:?}"
    );
    eprintln!("{}; the log has {} changes", history.summary(), log.last);
}

/// Every acknowledged rebalancer has finished, and its targets were rescheduled.
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
    let is_pending = !binding["metadata"]["annotations"]["ballast.dev/owed"].is_null();
    triggered.is_some() && !is_pending && triggered <= binding["status"]["lastScheduledTime"].as_str()
}
