//! SIGKILL under write load, many times in a row: every acknowledged write is stored afterwards,
//! and the log has no gap.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write as _};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use ballast::clock::{Clock, SystemClock};
use ballast::k8s::{Key, Object, Revision};
use ballast::store::{self, Store};
use ballast::watch::{Atomicity, Limits};

use super::fixtures::*;
use crate::support::size::sized;

const CALLERS: usize = 8;
/// Set in the victim process, to its database.
const VICTIM: &str = "BALLAST_TEST_KILL_URL";

/// The acknowledged writes: the revision and the value of each key.
type Acknowledged = HashMap<Key, (Revision, i64)>;

#[tokio::test]
async fn every_acknowledged_write_survives_kill_9() {
    let home = tempfile::tempdir().unwrap();
    let mut acknowledged = Acknowledged::new();
    for round in 0..sized(12, 50) {
        run_and_kill(&url(&home), 1 + SystemClock.random() % 300, &mut acknowledged);
        let store = store::open(&url(&home), &[]).await.unwrap();
        check(&store, &acknowledged, round).await;
        // Opens windows too, and so finds missing rows.
        Room::open(store, limits()).await.close().await;
    }
    assert!(acknowledged.len() > CALLERS);
}

/// Starts this test binary as the victim, and kills it after some acknowledgements.
fn run_and_kill(url: &str, acknowledgements: u64, acknowledged: &mut Acknowledged) {
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "store::kill::victim", "--nocapture"])
        .env(VICTIM, url)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(victim.stdout.take().unwrap()).lines();
    let mut seen = 0;
    while seen < acknowledgements {
        let line = lines.next().expect("the victim writes until it is killed").unwrap();
        seen += u64::from(note(&line, acknowledged));
    }
    victim.kill().unwrap();
    victim.wait().unwrap();
    // Acknowledgements between the last line read and the end count as well.
    for line in lines.map_while(Result::ok) {
        note(&line, acknowledged);
    }
}

/// Reads `ack NAME REVISION VALUE;`. A line without its end does not count.
fn note(line: &str, acknowledged: &mut Acknowledged) -> bool {
    let Some(said) = line.strip_prefix("ack ").and_then(|line| line.strip_suffix(';')) else { return false };
    let [name, revision, value] = said.split(' ').collect::<Vec<_>>()[..] else { panic!("{line:?}") };
    let state = (Revision(revision.parse().unwrap()), value.parse().unwrap());
    let known = acknowledged.entry(binding(name)).or_insert(state);
    // Callers print in any order.
    *known = state.max(*known);
    true
}

async fn check(store: &Arc<dyn Store>, acknowledged: &Acknowledged, round: u64) {
    let bounds = store.bounds().await.unwrap();
    for (key, (revision, expected)) in acknowledged {
        let state = state(store, key).await.unwrap_or_else(|| panic!("round {round}: {key} is gone"));
        assert!(state.revision >= *revision, "round {round}: {key} went back to {}", state.revision);
        if state.revision == *revision {
            let object = Object::decode(state.key, state.revision, state.object).unwrap();
            assert_eq!(value(&object), *expected, "round {round}: {key}");
        }
    }
    let rows = store.changes(bounds.compacted, usize::MAX).await.unwrap();
    let expected = (bounds.compacted.0 + 1)..=bounds.last.0;
    assert!(rows.iter().map(|row| row.revision.0).eq(expected), "round {round}: the log has a gap");
    // Pairs are written in one call, so both halves exist or neither.
    let rows = states(store).await;
    let values: HashMap<&str, i64> = rows.iter().map(|row| (&*row.key.name, written(row))).collect();
    for (name, value) in values.iter().filter(|(name, _)| name.starts_with("left")) {
        assert_eq!(values.get(&*name.replace("left", "right")), Some(value), "round {round}: {name}");
    }
}

fn written(row: &store::Change) -> i64 {
    value(&Object::decode(row.key.clone(), row.revision, row.object.clone()).unwrap())
}

/// Limits with constant compaction, so that kills interrupt it as well.
fn limits() -> Limits {
    Limits {
        compaction_every: Duration::from_millis(5),
        log_rows_max: 500,
        log_rows_per_object: 0,
        compaction_rows_max: 20,
        ..Limits::default()
    }
}

/// The process that the other test kills. Without its variable it does nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn victim() {
    let Ok(url) = std::env::var(VICTIM) else { return };
    let room = Room::open(store::open(&url, &[]).await.unwrap(), limits()).await;
    let mut callers = tokio::task::JoinSet::new();
    for caller in 0..CALLERS {
        let (cache, writer) = (room.cache.clone(), room.writer.clone());
        callers.spawn(async move {
            loop {
                // Mostly new values of few keys, sometimes a new key.
                let number = SystemClock.random() % 40;
                let names = [format!("left-{caller}-{number}"), format!("right-{caller}-{number}")];
                let round = SystemClock.random() as i64 >> 20;
                let writes = names.iter().map(|name| {
                    let key = binding(name);
                    match cache.view().get(&key) {
                        Some(state) => update(&key, state.revision, round),
                        None => create(&key, round),
                    }
                });
                let outcomes = writer.commit(writes.collect(), Atomicity::All).await.unwrap();
                let mut said = String::new();
                for (name, outcome) in names.iter().zip(outcomes) {
                    said.push_str(&format!("ack {name} {} {round};\n", outcome.unwrap().revision));
                }
                std::io::stdout().lock().write_all(said.as_bytes()).unwrap();
            }
        });
    }
    callers.join_all().await;
}
