//! A leader that is stopped (SIGSTOP) past its lease and continues (SIGCONT) stores nothing more,
//! and a leader that shuts down loses no write.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ballast::cli::client::Client;
use http::Method;
use http_body_util::BodyExt;
use tokio_util::sync::CancellationToken;

use super::checker::{History, Log};
use super::clients::{self, BINDINGS};
use super::fleet::{Doors, Fleet};
use crate::process::Signal;
use crate::support::size::sized;
use crate::support::{metric, wait_for};

const REPLICAS: usize = 3;
/// Concurrent callers.
const CALLERS: usize = 16;
/// Acknowledged writes before the event.
const WRITES: usize = 60;
const PATIENCE: Duration = Duration::from_secs(60);

/// Creates bindings at one replica alone, from many callers, until `stop`.
fn write_at(
    doors: &Arc<Doors>,
    seat: usize,
    round: usize,
    history: &Arc<History>,
    stop: &CancellationToken,
) -> Vec<tokio::task::JoinHandle<()>> {
    let caller = |caller: usize| {
        let (doors, history, stop) = (Arc::clone(doors), Arc::clone(history), stop.clone());
        tokio::spawn(async move {
            let client = doors.enter(seat).await.expect("it is there");
            for number in 0.. {
                if stop.is_cancelled() || client.is_closed() {
                    return;
                }
                let (name, begin) = (format!("paused-{round}-{caller}-{number}"), Instant::now());
                match client.post(BINDINGS, &clients::binding(&name)).await {
                    Ok(made) => history.acknowledge(&name, clients::revision(&made), begin),
                    Err(error) => history.failed(&name, &error),
                }
            }
        })
    };
    (0..CALLERS).map(caller).collect()
}

async fn acknowledged(history: &History, more: usize) {
    let mut progress = history.progress();
    let enough = progress.borrow().acknowledged + more;
    let moves = progress.wait_for(|progress| progress.acknowledged >= enough);
    tokio::time::timeout(PATIENCE, moves).await.expect("writes are acknowledged").unwrap();
}

async fn says_that_it_leads(client: &Client) -> bool {
    let (_, body) = client.send(Method::GET, "/metrics", None, Default::default()).await.unwrap();
    let body = body.collect().await.unwrap().to_bytes();
    metric(std::str::from_utf8(&body).unwrap(), "ballast_leader") == 1.0
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn re2_a_leader_that_was_stopped_past_its_lease_stores_nothing() {
    let Some(fleet) = Fleet::start(REPLICAS).await else { return };
    let history = Arc::new(History::new());
    for round in 0..sized(1, 5) {
        let (leader, term) = fleet.leader().await;
        let stop = CancellationToken::new();
        let callers = write_at(&fleet.doors, leader, round, &history, &stop);
        acknowledged(&history, WRITES).await;
        fleet.process(leader).signal(Signal::Stop);
        stop.cancel();

        // The lease ends by the clock of the database, and another replica writes.
        let other = (leader + 1) % REPLICAS;
        let client = fleet.doors.enter(other).await.unwrap();
        let (name, begin) = (format!("between-{round}"), Instant::now());
        let binding = clients::binding(&name);
        // An attempt forwarded to the stopped process has an unknown result.
        let made = wait_for("a write elsewhere", async || client.post(BINDINGS, &binding).await.ok()).await;
        history.acknowledge(&name, clients::revision(&made), begin);
        let (next, next_term) = fleet.leader().await;
        assert!(next != leader && next_term > term, "{next} leads in {next_term} after {leader} in {term}");

        // Requests that waited in the stopped process receive their response now.
        fleet.process(leader).signal(Signal::Continue);
        for caller in callers {
            tokio::time::timeout(PATIENCE, caller).await.expect("every caller is answered").unwrap();
        }
        let client = fleet.doors.enter(leader).await.unwrap();
        let found = client.get(&format!("{BINDINGS}/{name}")).await.unwrap();
        assert_eq!(clients::revision(&found), clients::revision(&made), "it follows, and is not behind");
        wait_for("news at the old leader", async || (!says_that_it_leads(&client).await).then_some(())).await;
        assert_eq!(fleet.leader().await, (next, next_term), "nobody else has taken the lease");
    }
    history.check(&Log::read(&mut fleet.database().await).await);
    eprintln!("{}", history.summary());
}

/// Without a shutdown delay, a write that is forwarded while the leader ends is done or not, and
/// its caller receives the result.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn re5_a_leader_that_is_asked_to_end_leaves_no_write_in_doubt() {
    let Some(mut fleet) = Fleet::start(REPLICAS).await else { return };
    let history = Arc::new(History::new());
    for round in 0..sized(2, 10) {
        let (leader, _) = fleet.leader().await;
        let stop = CancellationToken::new();
        // Through the others, which forward the writes.
        let mut callers = write_at(&fleet.doors, (leader + 1) % REPLICAS, round * 2, &history, &stop);
        callers.extend(write_at(&fleet.doors, (leader + 2) % REPLICAS, round * 2 + 1, &history, &stop));
        acknowledged(&history, WRITES).await;
        let asked = Instant::now();
        fleet.terminate(leader);
        let mut progress = history.progress();
        let goes_on = progress.wait_for(|progress| progress.latest_begin > asked);
        tokio::time::timeout(PATIENCE, goes_on).await.expect("writes go on").unwrap();
        acknowledged(&history, WRITES).await;
        stop.cancel();
        for caller in callers {
            tokio::time::timeout(PATIENCE, caller).await.expect("every caller is answered").unwrap();
        }
        fleet.restart(leader);
    }
    history.check(&Log::read(&mut fleet.database().await).await);
    assert_eq!(history.doubtful(), Vec::<String>::new(), "nobody is told that a write may have been done");
    // The last one has no successor, and does not wait.
    for seat in 0..REPLICAS {
        let client = fleet.doors.enter(seat).await.unwrap();
        let write =
            tokio::spawn(
                async move { client.post(BINDINGS, &clients::binding(&format!("last-{seat}"))).await.is_ok() },
            );
        let asked = Instant::now();
        fleet.terminate(seat);
        assert!(asked.elapsed() < Duration::from_secs(20), "{:?}", asked.elapsed());
        let _done_or_refused = write.await.unwrap();
    }
}
