//! The reference back end (`memory:`), for tests and for trying things.
//!
//! It shows in few lines what every back end must do. Its contents live as long as the process.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard};

use async_trait::async_trait;

use super::log::Heads;
use super::{Bounds, Change, Error, Operation, Replacement, Span, Store};
use crate::k8s::{GroupResource, Key, Revision};

#[derive(Debug, Default)]
pub struct MemoryStore {
    log: Mutex<Log>,
}

#[derive(Debug, Default)]
struct Log {
    changes: BTreeMap<Revision, Change>,
    heads: Heads,
    compacted: Revision,
    /// Compaction has looked at all changes up to this revision.
    swept: Revision,
}

impl MemoryStore {
    pub fn new() -> MemoryStore {
        MemoryStore::default()
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().expect("no holder of this lock can panic")
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn get(&self, key: &Key) -> Result<Option<Change>, Error> {
        let log = self.log();
        Ok(log.heads.newest.get(key).map(|revision| log.changes[revision].clone()))
    }

    async fn list(&self, resource: Option<GroupResource>) -> Result<Vec<Change>, Error> {
        let log = self.log();
        let newest = log.heads.newest.values().map(|revision| &log.changes[revision]);
        let wanted = newest.filter(|change| resource.is_none_or(|resource| change.key.resource == resource));
        let mut wanted: Vec<Change> = wanted.cloned().collect();
        wanted.sort_unstable_by(|one, other| one.key.cmp(&other.key));
        Ok(wanted)
    }

    async fn commit(&self, changes: &[Change]) -> Result<(), Error> {
        let mut log = self.log();
        log.heads.check(changes)?;
        log.heads.follow(changes);
        log.changes.extend(changes.iter().map(|change| (change.revision, change.clone())));
        Ok(())
    }

    async fn changes(&self, after: Revision, limit: usize) -> Result<Vec<Change>, Error> {
        let log = self.log();
        if after < log.compacted {
            return Err(Error::Compacted { asked: after, compacted: log.compacted });
        }
        Ok(log.changes.range(after.next()..).take(limit).map(|(_, change)| change.clone()).collect())
    }

    async fn history(&self, resource: GroupResource, span: Span, limit: usize) -> Result<Vec<Replacement>, Error> {
        let log = self.log();
        if span.after < log.compacted {
            return Err(Error::Compacted { asked: span.after, compacted: log.compacted });
        }
        // An empty span, as of a view that has nothing newer, would be an invalid range.
        let end = span.through.max(span.after).next();
        let changes = log.changes.range(span.after.next()..end).map(|(_, change)| change);
        let of_kind = changes.filter(|change| change.key.resource == resource).take(limit);
        let before = |change: &Change| log.changes.get(&change.previous).map(|before| before.object.clone());
        Ok(of_kind.map(|change| Replacement { change: change.clone(), before: before(change) }).collect())
    }

    async fn rows(&self, revisions: &[Revision]) -> Result<Vec<Change>, Error> {
        let log = self.log();
        let wanted: BTreeSet<&Revision> = revisions.iter().collect();
        Ok(wanted.into_iter().filter_map(|revision| log.changes.get(revision).cloned()).collect())
    }

    async fn compact(&self, through: Revision, limit: usize) -> Result<bool, Error> {
        let mut log = self.log();
        log.compacted = log.compacted.max(through.min(log.heads.last));
        let end = log.compacted.min(Revision(log.swept.0.saturating_add(limit as i64)));
        // A change is superseded when another one replaces it, so the replacements lead to it. A
        // deletion replaces the last state and is no state itself.
        let mut gone = Vec::new();
        for change in log.changes.range(log.swept.next()..end.next()).map(|(_, change)| change) {
            gone.push(change.previous);
            if change.operation == Operation::Delete {
                gone.push(change.revision);
            }
        }
        for revision in gone {
            log.changes.remove(&revision);
        }
        log.swept = end;
        Ok(log.swept < log.compacted)
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
