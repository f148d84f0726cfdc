//! Clients on all replicas: writers, and a reader and a watcher for each replica.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::checker::{History, Log, Seen};
use super::clients::{self, BINDINGS};
use super::fleet::Doors;

/// The timeout of anything on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub struct Load {
    pub history: Arc<History>,
    /// The revision after which the watchers watch.
    start: i64,
    writing: CancellationToken,
    writers_and_readers: Vec<JoinHandle<()>>,
    watching: CancellationToken,
    watchers: Vec<Watcher>,
}

/// An active watcher, and its progress.
struct Watcher {
    task: JoinHandle<Vec<Seen>>,
    at: tokio::sync::watch::Receiver<i64>,
}

impl Load {
    /// Creates the clients' objects, and starts the clients.
    pub async fn start(doors: &Arc<Doors>, writers: usize) -> Load {
        let first = doors.enter(0).await.expect("a replica takes clients in");
        clients::prepare(&first).await;
        let mut load = Load {
            history: Arc::new(History::new()),
            start: clients::revision(&first.get(BINDINGS).await.unwrap()),
            writing: CancellationToken::new(),
            writers_and_readers: Vec::new(),
            watching: CancellationToken::new(),
            watchers: Vec::new(),
        };
        let known = || (Arc::clone(doors), Arc::clone(&load.history));
        for writer in 0..writers {
            let (doors, history) = known();
            let task = clients::write(doors, writer, history, load.writing.clone());
            load.writers_and_readers.push(tokio::spawn(task));
        }
        for seat in 0..doors.count() {
            let (doors, history) = known();
            let task = clients::read(doors, seat, history, load.writing.clone());
            load.writers_and_readers.push(tokio::spawn(task));
            let (doors, history) = known();
            let (told, at) = tokio::sync::watch::channel(load.start);
            let task = clients::watch(doors, seat, load.start, history, load.watching.clone(), told);
            load.watchers.push(Watcher { task: tokio::spawn(task), at });
        }
        load
    }

    /// Waits until `count` more writes were acknowledged.
    pub async fn goes_on(&self, writes: usize) {
        let mut progress = self.history.progress();
        let enough = progress.borrow_and_update().acknowledged + writes;
        let moves = progress.wait_for(|progress| progress.acknowledged >= enough);
        tokio::time::timeout(PATIENCE, moves).await.expect("writes are acknowledged").unwrap();
    }

    pub async fn stop_writing(&mut self) {
        self.writing.cancel();
        for task in self.writers_and_readers.drain(..) {
            tokio::time::timeout(PATIENCE, task).await.expect("it stops").unwrap();
        }
    }

    /// Ends the watches when they have reached the end of the log, and checks all observations
    /// against the log.
    pub async fn check(mut self, log: &Log) {
        for watcher in &mut self.watchers {
            // If a watch does not get there, the comparison below reports the missing events.
            let _late = tokio::time::timeout(PATIENCE, watcher.at.wait_for(|at| *at >= log.last_of_bindings())).await;
        }
        self.watching.cancel();
        for (number, watcher) in self.watchers.into_iter().enumerate() {
            let seen = tokio::time::timeout(PATIENCE, watcher.task).await.expect("it stops").unwrap();
            log.check_watch(&format!("watcher {number}"), self.start, &seen);
        }
        self.history.check(log);
    }
}
