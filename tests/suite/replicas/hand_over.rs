//! A leader that is asked to end loses no write, and leaves none in doubt.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::checker::{History, Log};
use super::fleet::{Doors, Fleet};
use crate::support::size::sized;

const BINDINGS: &str = "/apis/work.karmada.io/v1alpha2/namespaces/default/resourcebindings";
const REPLICAS: usize = 3;
/// Callers that write at the same moment.
const CALLERS: usize = 16;
/// Writes that are acknowledged before something happens.
const WRITES: usize = 60;
const PATIENCE: Duration = Duration::from_secs(60);

/// A binding that no worker acts on, because it has no placement.
fn binding(name: &str) -> Value {
    json!({"apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"replicas": 2,
            "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name, "namespace": "default"}}})
}

fn revision(object: &Value) -> i64 {
    object["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok()).expect("an object has one")
}

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
                match client.post(BINDINGS, &binding(&name)).await {
                    Ok(made) => history.acknowledge(&name, revision(&made), begin),
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

/// No delay of the shutdown is set: a write that is passed on in the very moment in which the
/// leader ends is done or not, and its caller is told which.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_is_asked_to_end_leaves_no_write_in_doubt() {
    let Some(mut fleet) = Fleet::start(REPLICAS).await else { return };
    let history = Arc::new(History::new());
    for round in 0..sized(2, 10) {
        let (leader, _) = fleet.leader().await;
        let stop = CancellationToken::new();
        // Through the others, which pass the writes on.
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
    // The last one that ends has nobody to hand over to, and does not wait for anybody.
    for seat in 0..REPLICAS {
        let client = fleet.doors.enter(seat).await.unwrap();
        let write = tokio::spawn(async move { client.post(BINDINGS, &binding(&format!("last-{seat}"))).await.is_ok() });
        let asked = Instant::now();
        fleet.terminate(seat);
        assert!(asked.elapsed() < Duration::from_secs(20), "{:?}", asked.elapsed());
        let _done_or_refused = write.await.unwrap();
    }
}
