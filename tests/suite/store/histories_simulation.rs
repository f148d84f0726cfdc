//! Randomized simulation of several replicas over one memory store that loses commits: standbys
//! that lack the last commits are promoted while replicas follow, lead, are cut off or paused, die
//! and start. Some die between the mark of a lost history, the lift of the log and the first write.
//!
//! *Invariants*: no revision that a client has seen has two meanings: the state seen at a revision
//! exists in the end, or none does. Every watch ends with the state of the log, and receives at
//! most one 410 per lift. Losses are never silent: the log is lifted over lost revisions.
//!
//! A standby lags by less than the time until a report is forgotten, and no replica starts in that
//! time: the promoted database would not know of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ballast::k8s::{Key, Revision};
use ballast::store::{MemoryStore, Store};
use ballast::watch::{Atomicity, Interest};
use tokio::time::{Instant, sleep, timeout};

use super::fixtures::*;
use super::replicas_simulation::{Fleet, LEASE, PATIENCE, REPLICAS, Replica, at, ms};
use crate::support::dice::Dice;

const CLIENTS: usize = 4;
const WATCHERS: usize = 3;
const LIFE: Duration = Duration::from_secs(60);
/// The maximum lag of a standby, in milliseconds.
const LAG_MS: u64 = 3000;

/// Observations of clients: each revision with its object and its value; -1 is a deletion.
#[derive(Default)]
struct Meanings(Mutex<BTreeMap<Revision, (Key, i64)>>);

impl Meanings {
    fn saw(&self, seed: u64, revision: Revision, key: &Key, value: i64) {
        let mut known = self.0.lock().unwrap();
        let before = known.entry(revision).or_insert_with(|| (key.clone(), value));
        assert_eq!((&before.0, before.1), (key, value), "seed {seed}: revision {revision} has two meanings");
    }
}

async fn client(number: usize, seed: u64, life: u64, fleet: Fleet, meanings: Arc<Meanings>, end: Instant) -> usize {
    let (mut dice, key) = (Dice(seed), binding(&format!("client-{number}")));
    let (mut next, mut acknowledged) = (0, 0);
    while Instant::now() < end {
        sleep(ms(&mut dice, 300)).await;
        let Some((cache, _)) = at(&fleet, dice.roll(REPLICAS as u64)) else { continue };
        // Consistent reads, and reads that accept any state.
        let may_read = match dice.roll(2) {
            0 => matches!(timeout(PATIENCE, cache.fresh()).await, Ok(Ok(()))),
            _ => !cache.is_outdated(),
        };
        if !may_read {
            continue;
        }
        let known = cache.view().get(&key).cloned();
        if let Some(object) = &known {
            meanings.saw(life, object.revision, &key, value(object));
        }
        let Some((_, writer)) = at(&fleet, dice.roll(REPLICAS as u64)) else { continue };
        next += 1;
        let write = match known {
            None => create(&key, next),
            Some(object) => update(&key, object.revision, next),
        };
        if let Ok(Ok(outcomes)) = timeout(PATIENCE, writer.commit(vec![write], Atomicity::All)).await
            && let Some(Ok(object)) = outcomes.into_iter().next()
        {
            meanings.saw(life, object.revision, &key, next);
            acknowledged += 1;
        }
    }
    acknowledged
}

/// Lists and watches, and lists again after a 410. Returns its state, and the number of 410s.
async fn watcher(
    seed: u64,
    life: u64,
    fleet: Fleet,
    meanings: Arc<Meanings>,
    store: Arc<MemoryStore>,
    last: Arc<Mutex<Option<Revision>>>,
) -> (BTreeMap<Key, Revision>, usize) {
    let (mut dice, mut position) = (Dice(seed), None);
    let (mut state, mut told) = (BTreeMap::new(), 0);
    // A server reads the log as far as it reaches back, and no client receives a 410.
    let is_gone = async |after: Revision| usize::from(store.bounds().await.unwrap().compacted > after);
    while last.lock().unwrap().is_none_or(|last| position < Some(last)) {
        sleep(ms(&mut dice, 50)).await;
        let Some((cache, _)) = at(&fleet, dice.roll(REPLICAS as u64)) else { continue };
        let after = match position {
            Some(after) => after,
            None => {
                if !matches!(timeout(PATIENCE, cache.fresh()).await, Ok(Ok(()))) {
                    continue;
                }
                let view = cache.view();
                state = view.list(BINDINGS, None).map(|it| (it.key.clone(), it.revision)).collect();
                view.list(BINDINGS, None).for_each(|it| meanings.saw(life, it.revision, &it.key, value(it)));
                position = Some(view.revision);
                view.revision
            }
        };
        let Ok(mut subscriber) = cache.subscribe(Interest::All, after) else {
            (position, told) = (None, told + is_gone(after).await);
            continue;
        };
        let change = sleep(ms(&mut dice, 5000));
        tokio::pin!(change);
        loop {
            tokio::select! {
                () = &mut change => break,
                events = subscriber.next() => match events {
                    Ok(events) => for event in events {
                        let value = value(&event.object);
                        meanings.saw(life, event.revision, &event.object.key, value);
                        state.insert(event.object.key.clone(), event.revision);
                        position = Some(event.revision);
                    },
                    Err(expired) => {
                        (position, told) = (None, told + is_gone(expired.asked).await);
                        break;
                    }
                },
            }
        }
    }
    (state, told)
}

/// Counters of one simulation.
#[derive(Default)]
struct Fates {
    /// The log has lost commits.
    losses: usize,
    /// A replica died between the mark and the lift, or between the lift and the first write.
    deaths: [usize; 2],
}

/// Waits for a moment between the mark of a lost history, the lift of the log and the first write,
/// and kills the leader or any replica. `None` if that moment does not occur.
async fn kill_between(dice: &mut Dice, store: &MemoryStore, fleet: &Fleet) -> Option<usize> {
    let (is_lifted, end) = (dice.roll(2) as usize, Instant::now() + LEASE);
    let lift = store.tip(Revision::ZERO).await.unwrap().lift;
    let has_come = async || match is_lifted {
        0 => store.losses().await.unwrap().marked != Revision::ZERO,
        _ => store.tip(Revision::ZERO).await.unwrap().lift != lift,
    };
    while !has_come().await {
        if Instant::now() > end {
            return None;
        }
        sleep(Duration::from_millis(1)).await;
    }
    sleep(ms(dice, 5)).await;
    let leader = fleet.lock().unwrap().iter().flatten().position(Replica::leads);
    drop(fleet.lock().unwrap()[leader.unwrap_or(dice.roll(REPLICAS as u64) as usize)].take());
    Some(is_lifted)
}

/// Promotes standbys, cuts, kills and restarts until the end, then repairs everything.
async fn misfortune(seed: u64, store: Arc<MemoryStore>, fleet: Fleet, end: Instant) -> Fates {
    let (mut dice, mut born, mut fates) = (Dice(seed), REPLICAS, Fates::default());
    while Instant::now() < end {
        sleep(ms(&mut dice, 2000)).await;
        let leader = fleet.lock().unwrap().iter().flatten().position(Replica::leads);
        let victim = leader.filter(|_| dice.roll(3) > 0).unwrap_or(dice.roll(REPLICAS as u64) as usize);
        let link = fleet.lock().unwrap()[victim].as_ref().map(|it| it.link.clone());
        // A replica is cut off, dies or continues while the database fails over.
        let standby = store.standby();
        sleep(ms(&mut dice, LAG_MS)).await;
        let what = dice.roll(4);
        match (what, &link) {
            (0, Some(link)) => link.cut(),
            (1, _) => drop(fleet.lock().unwrap()[victim].take()),
            _ => {}
        }
        if dice.roll(3) > 0 {
            let before = store.bounds().await.unwrap().last;
            store.fail_over(standby);
            fates.losses += usize::from(store.bounds().await.unwrap().last < before);
            if dice.roll(2) == 0
                && let Some(moment) = kill_between(&mut dice, &store, &fleet).await
            {
                fates.deaths[moment] += 1;
            }
        }
        sleep(ms(&mut dice, 9000)).await;
        if let Some(link) = link {
            link.mend();
        }
        let down: Vec<usize> = (0..REPLICAS).filter(|seat| fleet.lock().unwrap()[*seat].is_none()).collect();
        for seat in &down {
            born += 1;
            let replica = Replica::start(&store, format!("replica-{born}")).await;
            fleet.lock().unwrap()[*seat] = Some(replica);
        }
        if !down.is_empty() {
            sleep(Duration::from_millis(LAG_MS)).await;
        }
    }
    fates
}

/// Records every lift, including those that a later failover reverts.
async fn count_lifts(store: Arc<MemoryStore>, lifts: Arc<Mutex<BTreeSet<i64>>>) {
    loop {
        let lift = store.tip(Revision::ZERO).await.unwrap().lift;
        if lift != 0 {
            lifts.lock().unwrap().insert(lift);
        }
        sleep(Duration::from_millis(2)).await;
    }
}

async fn live(life: u64) -> Fates {
    let (store, mut dice) = (Arc::new(MemoryStore::new()), Dice(life));
    let mut replicas = Vec::new();
    for number in 0..REPLICAS {
        replicas.push(Some(Replica::start(&store, format!("replica-{number}")).await));
    }
    let fleet: Fleet = Arc::new(Mutex::new(replicas));
    sleep(LEASE).await;
    let (end, meanings) = (Instant::now() + LIFE, Arc::<Meanings>::default());
    let last: Arc<Mutex<Option<Revision>>> = Arc::default();
    let watchers: Vec<_> = (0..WATCHERS)
        .map(|_| {
            let seed = dice.roll(u64::MAX);
            tokio::spawn(watcher(seed, life, fleet.clone(), meanings.clone(), store.clone(), last.clone()))
        })
        .collect();
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| {
            let seed = dice.roll(u64::MAX);
            tokio::spawn(client(number, seed, life, fleet.clone(), meanings.clone(), end))
        })
        .collect();
    let lifts = Arc::<Mutex<BTreeSet<i64>>>::default();
    let counting = tokio::spawn(count_lifts(store.clone(), lifts.clone()));
    let fates = misfortune(dice.roll(u64::MAX), store.clone(), fleet.clone(), end).await;
    let mut acknowledged = 0;
    for client in clients {
        acknowledged += client.await.unwrap();
    }
    assert!(acknowledged > 10, "seed {life}: hardly anything was written: {acknowledged}");

    // All replicas are healthy again: one leads, and all show the same.
    sleep(LEASE * 3).await;
    counting.abort();
    let bounds = store.bounds().await.unwrap();
    *last.lock().unwrap() = Some(bounds.last);
    let states: Vec<_> = store.page(bounds.last, Revision::ZERO, usize::MAX).await.unwrap();
    let newest: BTreeMap<Key, Revision> = states.iter().map(|row| (row.key.clone(), row.revision)).collect();
    for watcher in watchers {
        let (state, told) = timeout(PATIENCE * 6, watcher).await.unwrap().unwrap();
        assert_eq!(state, newest, "seed {life}: a watcher is wrong");
        let lifts = lifts.lock().unwrap().len();
        assert!(told <= lifts, "seed {life}: {told} times told, {lifts} lifts");
    }
    {
        let fleet = fleet.lock().unwrap();
        let replicas: Vec<&Replica> = fleet.iter().flatten().collect();
        assert_eq!(replicas.iter().filter(|replica| replica.leads()).count(), 1, "seed {life}");
        for replica in replicas {
            assert_eq!(replica.cache.view().revision, bounds.last, "seed {life}");
            assert!(!replica.cache.is_taken_back(), "seed {life}");
        }
    }
    // Every observed state exists, or was lost and is lifted over.
    let seen = std::mem::take(&mut *meanings.0.lock().unwrap());
    for (revision, (key, value)) in &seen {
        let Some(row) = store.rows(&[*revision]).await.unwrap().pop() else { continue };
        let object: serde_json::Value = serde_json::from_slice(&row.object).unwrap();
        assert_eq!((&row.key, &object["spec"]["value"]), (key, &(*value).into()), "seed {life}: revision {revision}");
    }
    fates
}

#[tokio::test(start_paused = true)]
async fn re11_no_revision_has_two_meanings_while_the_database_goes_back() {
    let (mut losses, mut deaths) = (0, [0, 0]);
    for life in 0..20 {
        let fates = live(life).await;
        losses += fates.losses;
        deaths = [deaths[0] + fates.deaths[0], deaths[1] + fates.deaths[1]];
    }
    assert!(losses > 20, "the database has lost changes {losses} times");
    assert!(deaths.iter().all(|deaths| *deaths > 5), "died before and after the lift: {deaths:?}");
}
