//! The reference back end (`memory:`), for tests and experiments.
//!
//! It is the shortest complete implementation of `Store`. Its contents live as long as the process.
//! Several replicas within one process may share it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;
use tokio::time::Instant;

use super::lease::Lease;
use super::log::{Heads, Newest};
use super::replica_list::{KnownReplica, ReplicaList, ReplicaReport};
use super::{
    Bounds, Candidate, Change, ElectionState, Error, HistoryOf, Losses, Operation, Replacement, Span, Store, Term, Tip,
};
use ballast_k8s::{GroupResource, Revision};

#[derive(Debug, Default)]
pub struct MemoryStore {
    log: Mutex<Log>,
    newest: watch::Sender<Newest>,
}

/// A snapshot of a log, as an asynchronous standby has it.
pub struct Standby(Log);

#[derive(Clone, Debug, Default)]
struct Log {
    changes: BTreeMap<Revision, Change>,
    heads: Heads,
    /// By the revision of a change, the revision of the change that replaced it.
    replaced: HashMap<Revision, Revision>,
    lease: Lease,
    replicas: ReplicaList,
    compacted: Revision,
    /// The revision up to which compaction has examined all changes.
    swept: Revision,
    /// The number of promotions of a standby, and that number when a leader last accepted it.
    timeline: i64,
    accepted: Option<i64>,
    promoted_at: Option<Instant>,
}

impl MemoryStore {
    pub fn new() -> MemoryStore {
        MemoryStore::default()
    }

    /// Returns a snapshot of the log.
    pub fn standby(&self) -> Standby {
        Standby(self.log().clone())
    }

    /// Replaces the log by a standby, which may lack acknowledged commits.
    pub fn fail_over(&self, to: Standby) {
        let mut log = self.log();
        let Standby(mut promoted) = to;
        promoted.timeline = log.timeline + 1;
        promoted.promoted_at = Some(Instant::now());
        // PostgreSQL distinguishes two leaders of one term by their session numbers.
        promoted.lease.outgrow(&log.lease);
        *log = promoted;
        self.newest.send_modify(|newest| {
            newest.last = log.heads.last;
            newest.resigned += 1;
        });
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().expect("no holder of this lock can panic")
    }
}

impl Log {
    /// Returns whether a standby was promoted that no leader has accepted yet.
    fn is_promoted(&self) -> bool {
        self.accepted.is_some_and(|accepted| accepted != self.timeline)
    }

    /// Implements `Store::compact`.
    fn compact(&mut self, through: Revision, limit: usize) -> bool {
        self.compacted = self.compacted.max(through.min(self.heads.last));
        let end = self.compacted.min(Revision(self.swept.0.saturating_add(limit as i64)));
        // The changes in the range refer to the superseded ones. A deletion supersedes the last
        // state and is no state itself.
        let mut gone = Vec::new();
        for change in self.changes.range(self.swept.next()..end.next()).map(|(_, change)| change) {
            gone.push(change.previous);
            if change.operation == Operation::Delete {
                gone.push(change.revision);
            }
        }
        for revision in gone {
            self.changes.remove(&revision);
            self.replaced.remove(&revision);
        }
        self.swept = end;
        self.swept < self.compacted
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn commit(&self, term: Term, changes: &[Change]) -> Result<(), Error> {
        let mut log = self.log();
        log.lease.check(term)?;
        if log.is_promoted() {
            return Err(Error::Deposed { asked: term, current: term });
        }
        log.heads.check(changes)?;
        log.heads.follow(changes);
        log.changes.extend(changes.iter().map(|change| (change.revision, change.clone())));
        let replacing = changes.iter().filter(|change| change.previous > Revision::ZERO);
        log.replaced.extend(replacing.map(|change| (change.previous, change.revision)));
        self.newest.send_modify(|newest| newest.last = log.heads.last);
        Ok(())
    }

    async fn page(&self, at: Revision, after: Revision, limit: usize) -> Result<Vec<Change>, Error> {
        let log = self.log();
        if at < log.compacted {
            return Err(Error::Compacted { asked: at, compacted: log.compacted });
        }
        let changes = log.changes.range(after.next()..at.max(after).next()).map(|(_, change)| change);
        let is_state = |change: &&Change| {
            let by = log.replaced.get(&change.revision);
            change.operation != Operation::Delete && by.is_none_or(|by| *by > at)
        };
        Ok(changes.filter(is_state).take(limit).cloned().collect())
    }

    async fn changes(&self, after: Revision, limit: usize) -> Result<Vec<Change>, Error> {
        let log = self.log();
        if after < log.compacted {
            return Err(Error::Compacted { asked: after, compacted: log.compacted });
        }
        Ok(log.changes.range(after.next()..).take(limit).map(|(_, change)| change.clone()).collect())
    }

    async fn history(&self, of: &HistoryOf, span: Span, limit: usize) -> Result<Vec<Replacement>, Error> {
        let log = self.log();
        if span.after < log.compacted {
            return Err(Error::Compacted { asked: span.after, compacted: log.compacted });
        }
        // An empty span, as of a view without newer changes, would be an invalid range.
        let end = span.through.max(span.after).next();
        let changes = log.changes.range(span.after.next()..end).map(|(_, change)| change);
        let is_asked = |change: &&Change| match of {
            HistoryOf::Kind(resource) => change.key.resource == *resource,
            HistoryOf::Key(key) => change.key == *key,
        };
        let asked = changes.filter(is_asked).take(limit);
        let before = |change: &Change| log.changes.get(&change.previous).map(|before| before.object.clone());
        Ok(asked.map(|change| Replacement { change: change.clone(), before: before(change) }).collect())
    }

    async fn replaced(
        &self,
        resource: GroupResource,
        span: Span,
        after: Revision,
        limit: usize,
    ) -> Result<Vec<Change>, Error> {
        let log = self.log();
        if span.after < log.compacted {
            return Err(Error::Compacted { asked: span.after, compacted: log.compacted });
        }
        let older = log.changes.range(after.next()..span.after.max(after).next()).map(|(_, change)| change);
        let is_replaced = |change: &&Change| {
            let by = log.replaced.get(&change.revision);
            by.is_some_and(|by| *by > span.after && *by <= span.through)
        };
        let of_kind = older.filter(|change| change.key.resource == resource);
        Ok(of_kind.filter(is_replaced).take(limit).cloned().collect())
    }

    async fn rows(&self, revisions: &[Revision]) -> Result<Vec<Change>, Error> {
        let log = self.log();
        let wanted: BTreeSet<&Revision> = revisions.iter().collect();
        Ok(wanted.into_iter().filter_map(|revision| log.changes.get(revision).cloned()).collect())
    }

    async fn replaced_bytes(&self, after: Revision, limit: usize) -> Result<Vec<(Revision, u64)>, Error> {
        let log = self.log();
        let bytes = |change: &Change| {
            let before = log.changes.get(&change.previous).map_or(0, |before| before.object.len());
            let own = if change.operation == Operation::Delete { change.object.len() } else { 0 };
            (before + own) as u64
        };
        let changes = log.changes.range(after.next()..).take(limit);
        Ok(changes.map(|(revision, change)| (*revision, bytes(change))).collect())
    }

    async fn compact(&self, through: Revision, limit: usize) -> Result<bool, Error> {
        Ok(self.log().compact(through, limit))
    }

    async fn bump_revision(&self, term: Term, to: Revision) -> Result<(), Error> {
        let mut log = self.log();
        log.lease.check(term)?;
        let last = log.heads.last;
        if last < to {
            log.compact(last, usize::MAX >> 1);
            (log.heads.last, log.compacted, log.swept) = (to, to, to);
            log.lease.lifted();
            self.newest.send_modify(|newest| newest.last = to);
        }
        Ok(())
    }

    async fn tip(&self, at: Revision) -> Result<Tip, Error> {
        let log = self.log();
        Ok(Tip {
            bounds: Bounds { last: log.heads.last, compacted: log.compacted },
            own: log.changes.get(&at).cloned(),
            lift: log.lease.lift(),
            timeline: log.timeline,
            marked: log.lease.marked(),
        })
    }

    async fn mark_lost(&self, term: Term, seen: Revision) -> Result<(), Error> {
        let mut log = self.log();
        if seen >= log.compacted {
            log.lease.mark_lost(term, seen);
            self.newest.send_modify(|newest| newest.resigned += 1);
        }
        Ok(())
    }

    async fn losses(&self) -> Result<Losses, Error> {
        let log = self.log();
        let is_promoted = log.is_promoted();
        let asked = log.lease.marked_at().into_iter().chain(is_promoted.then_some(log.promoted_at).flatten()).max();
        Ok(Losses {
            last: log.heads.last,
            marked: log.lease.marked(),
            seen: log.replicas.seen(),
            is_promoted,
            awaited: asked.map_or(0, |asked| log.replicas.awaited(asked)),
        })
    }

    async fn accept(&self, term: Term) -> Result<(), Error> {
        let mut log = self.log();
        log.lease.check(term)?;
        log.accepted = Some(log.timeline);
        Ok(())
    }

    async fn news(&self, after: Revision) -> Result<(), Error> {
        Newest::wait(&self.newest, after).await;
        Ok(())
    }

    async fn lead(&self, candidate: &Candidate, lease: Duration) -> Result<ElectionState, Error> {
        Ok(self.log().lease.lead(candidate, lease))
    }

    async fn lead_in(&self, candidate: &Candidate, term: Term, lease: Duration) -> Result<ElectionState, Error> {
        Ok(self.log().lease.lead_in(candidate, term, lease))
    }

    async fn resign(&self, term: Term) -> Result<(), Error> {
        self.log().lease.resign(term);
        self.newest.send_modify(|newest| newest.resigned += 1);
        Ok(())
    }

    async fn announce(&self, announcement: &ReplicaReport) -> Result<Vec<KnownReplica>, Error> {
        let Log { lease, replicas, .. } = &mut *self.log();
        Ok(replicas.announce(announcement, lease.leader()))
    }

    async fn depart(&self, name: &str) -> Result<(), Error> {
        self.log().replicas.depart(name);
        Ok(())
    }

    async fn probe(&self) -> Result<(), Error> {
        Ok(())
    }

    async fn bounds(&self) -> Result<Bounds, Error> {
        let log = self.log();
        Ok(Bounds { last: log.heads.last, compacted: log.compacted })
    }

    async fn revision_before(&self, time_ms: i64) -> Result<Revision, Error> {
        let log = self.log();
        let older = log.changes.values().rev().find(|change| change.time_ms < time_ms);
        Ok(older.map_or(Revision::ZERO, |change| change.revision))
    }
}
