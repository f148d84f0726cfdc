//! The task that owns the log: it leads while the election wants it to, and follows otherwise.
//!
//! *Invariants.* It leads only from a view that includes all commits of earlier terms: the election
//! starts a term after the store has assigned it, so later commits of earlier terms fail, and
//! successful ones are read first. If the database has lost changes, the log is bumped before the
//! first write (`Follower::prepare`). While it follows, writes are refused.

use std::pin::pin;
use std::sync::Arc;

use tokio::sync::{mpsc, watch};

use ballast_store::{self as store, Term};

use super::follower::{Follower, RETRY_PAUSE};
use super::freshness::ReadIndexRequest;
use super::leader::{Ended, Leader, changed};
use super::writer::{Calls, WriteError};
use super::{coalesce, compaction, packing, read_index};

/// The interface between the election and the log's task: sets whether the task should lead, and
/// reports whether it does. Each shared log has one.
pub struct RoleHandle {
    wanted: watch::Sender<Option<Term>>,
    held: watch::Receiver<Option<Term>>,
}

/// The task of the log has ended, so this process cannot lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the log is closed")]
pub struct LogClosed;

impl RoleHandle {
    /// Leads in a term that the store has assigned to this process. Returns when the view has
    /// caught up and writes are accepted.
    pub async fn lead(&mut self, term: Term) -> Result<(), LogClosed> {
        self.wanted.send_replace(Some(term));
        self.held.wait_for(|held| *held == Some(term)).await.map(drop).map_err(|_| LogClosed)
    }

    /// Follows from now on. Returns when the commit in flight has ended. Waiting calls are refused.
    pub async fn follow(&mut self) -> Result<(), LogClosed> {
        self.wanted.send_replace(None);
        self.held.wait_for(Option::is_none).await.map(drop).map_err(|_| LogClosed)
    }

    /// Resolves when this process no longer leads, because the store refused a commit: another
    /// replica has a later term.
    pub async fn lost(&mut self) -> Result<(), LogClosed> {
        self.held.wait_for(Option::is_none).await.map(drop).map_err(|_| LogClosed)
    }
}

pub(super) struct Replica {
    log: Follower,
    calls: Calls,
    wanted: watch::Receiver<Option<Term>>,
    held: watch::Sender<Option<Term>>,
    /// Whether this process does not share the log. It then leads in term zero, without an
    /// election.
    is_alone: bool,
}

impl Replica {
    /// Creates the task of a log that no other process writes to: it leads from the start.
    pub fn alone(log: Follower, calls: Calls) -> Replica {
        // No election can change this.
        let (_, wanted) = watch::channel(Some(Term::default()));
        Replica { log, calls, wanted, held: watch::Sender::new(Some(Term::default())), is_alone: true }
    }

    /// Creates the task of a log that several processes share: it follows initially.
    pub fn shared(log: Follower, calls: Calls) -> (Replica, RoleHandle) {
        let (wants, wanted) = watch::channel(None);
        let (held, holds) = watch::channel(None);
        (Replica { log, calls, wanted, held, is_alone: false }, RoleHandle { wanted: wants, held: holds })
    }

    /// Runs until the last `Writer` is dropped, all queued writes are stored and the store is
    /// closed, or until an error.
    pub async fn run(mut self, asked: Option<mpsc::Receiver<ReadIndexRequest>>) -> Result<(), store::Error> {
        let Follower { store, clock, cache, .. } = &self.log;
        let (store, cache) = (Arc::clone(store), cache.clone());
        let coalescing = coalesce::run(cache.tip(), cache.clone(), cache.limits().clone());
        let compaction = compaction::run(store.clone(), clock.clone(), cache.clone(), self.held.subscribe());
        let packing = packing::run(cache.clone());
        let read_index = async {
            let Some(asked) = asked else { return std::future::pending().await };
            let answering = read_index::serve(asked, store.clone(), cache.clone());
            tokio::select! {
                never = answering => never,
                never = read_index::watch_age(cache.clone()) => never,
            }
        };
        tokio::select! {
            // Coalescing is polled after the leader. So it needs no separate wake-up, and on one
            // thread subscribers see a write before its caller gets the response.
            biased;
            ended = self.terms() => ended?,
            never = compaction => match never {},
            never = read_index => match never {},
            never = coalescing => match never {},
            never = packing => match never {},
        }
        if let Err(error) = store.close().await {
            // Everything is stored, but not all of it in the main file.
            let error = ballast_base::telemetry::with_causes(&error);
            tracing::warn!(error, "failed to tidy up the database at the end");
        }
        Ok(())
    }

    /// Follows and leads in turn, according to the election.
    async fn terms(&mut self) -> Result<(), store::Error> {
        let mut over = None;
        loop {
            let term = match self.is_alone {
                true => Some(Term::default()),
                false => self.follow(over).await?,
            };
            let Some(term) = term else { return Ok(()) };
            self.held.send_replace(Some(term));
            let mut leader = Leader::new(&mut self.log, term, self.is_alone);
            let ended = leader.run(&mut self.calls, &mut self.wanted).await;
            self.held.send_replace(None);
            over = match ended? {
                Ended::Closed => return Ok(()),
                Ended::Deposed => Some(term),
                Ended::Revoked => None,
            };
        }
    }

    /// Follows until the election wants this process to lead, in a term that has not ended, and the
    /// view has caught up; `None` once the last `Writer` is dropped.
    async fn follow(&mut self, over: Option<Term>) -> Result<Option<Term>, store::Error> {
        let Replica { log, calls, wanted, .. } = self;
        loop {
            let term = {
                let mut tail = pin!(log.tail());
                loop {
                    let next = *wanted.borrow_and_update();
                    if let Some(term) = next.filter(|&term| Some(term) != over) {
                        break term;
                    }
                    tokio::select! {
                        biased;
                        fault = &mut tail => return Err(fault),
                        () = changed(wanted) => {}
                        call = calls.next() => match call {
                            Some(call) => call.caller.answer(Err(WriteError::Following)),
                            None => return Ok(None),
                        },
                    }
                }
            };
            while *wanted.borrow() == Some(term) {
                match log.prepare(term).await {
                    Ok(()) => return Ok(Some(term)),
                    // The election will notice that the term has ended.
                    Err(
                        store::Error::Unavailable { .. }
                        | store::Error::NotSent { .. }
                        | store::Error::TakenBack { .. }
                        | store::Error::Deposed { .. },
                    ) => tokio::time::sleep(RETRY_PAUSE).await,
                    Err(fault) => return Err(fault),
                }
            }
        }
    }
}
