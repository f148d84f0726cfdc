//! The log in a SQLite file, where `sqlite3` can read it beside the running server.
//!
//! *Invariants.* One process has the file. A commit is one transaction and returns after its WAL frames
//! are on the disk (`synchronous=FULL`). Checkpoints and compaction never run inside a commit.
//!
//! Deliberately absent: a pool (one connection writes, one reads and checkpoints), and shrinking the
//! file: the pages that compaction frees are used again.

mod checkpoint;
mod connection;
mod errors;
mod open;
mod statements;
mod tables;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;

use super::{Bounds, Change, Error, Store, Table, log};
use crate::k8s::{GroupResource, Key, Revision};

use checkpoint::Checkpointer;
use connection::Line;
use errors::{classify, is_conflict};

pub struct SqliteStore {
    lines: Arc<Lines>,
    checkpointer: Checkpointer,
    _lock: open::Lock,
}

struct Lines {
    writer: Line,
    reader: Line,
}

/// Runs statements on a line that is given back after success, and names what failed.
macro_rules! on {
    ($line:expr, $action:literal, $statement:ident($($argument:expr),*)) => {{
        let failed = |error| classify($action, error);
        let mut lease = $line.lease().await.map_err(failed)?;
        let outcome = statements::$statement(&mut lease.connection $(, $argument)*).await;
        lease.end(outcome).await.map_err(failed)
    }};
}

impl SqliteStore {
    /// Opens or makes the file, with a readable view for each of `tables`.
    pub async fn open(path: &Path, tables: &[Table]) -> Result<SqliteStore, Error> {
        let opened = open::open(path, tables).await?;
        let lines = Arc::new(Lines {
            writer: Line::new(opened.options.clone(), opened.writer),
            reader: Line::new(opened.options, opened.reader),
        });
        Ok(SqliteStore { checkpointer: Checkpointer::start(lines.clone()), lines, _lock: opened.lock })
    }

    /// The log refused a row; finds out which.
    async fn conflict(&self, changes: &[Change]) -> Result<(), Error> {
        let bounds = self.bounds().await?;
        let mut newest: HashMap<&Key, Revision> = HashMap::new();
        for change in changes {
            let state = self.get(&change.key).await?;
            newest.insert(&change.key, state.map_or(Revision::ZERO, |state| state.revision));
        }
        log::check(changes, bounds.last, |key| newest[key])
    }
}

#[async_trait]
impl Store for SqliteStore {
    async fn get(&self, key: &Key) -> Result<Option<Change>, Error> {
        on!(self.lines.reader, "failed to read an object", get(key))
    }

    async fn list(&self, resource: Option<GroupResource>) -> Result<Vec<Change>, Error> {
        on!(self.lines.reader, "failed to read the objects", list(resource))
    }

    async fn commit(&self, changes: &[Change]) -> Result<(), Error> {
        if changes.is_empty() {
            return Ok(());
        }
        const ACTION: &str = "failed to commit";
        let mut lease = self.lines.writer.lease().await.map_err(|error| classify(ACTION, error))?;
        let outcome = statements::append(&mut lease.connection, changes).await;
        match lease.end(outcome).await {
            Ok(()) => {
                self.checkpointer.wrote(changes);
                Ok(())
            }
            Err(error) if is_conflict(&error) => {
                self.conflict(changes).await?;
                // The log and the shared rule disagree: never seen as success.
                Err(classify(ACTION, error))
            }
            Err(error) => Err(classify(ACTION, error)),
        }
    }

    async fn changes(&self, after: Revision, limit: usize) -> Result<Vec<Change>, Error> {
        let changes = on!(self.lines.reader, "failed to read the log", changes(after, limit))?;
        // Asked last: compaction says what it will forget before it does.
        let compacted = self.bounds().await?.compacted;
        if after < compacted {
            return Err(Error::Compacted { asked: after, compacted });
        }
        Ok(changes)
    }

    async fn rows(&self, revisions: &[Revision]) -> Result<Vec<Change>, Error> {
        on!(self.lines.reader, "failed to read the log", rows(revisions))
    }

    async fn compact(&self, through: Revision, limit: usize) -> Result<bool, Error> {
        let (bounds, swept) = on!(self.lines.writer, "failed to compact the log", bounds())?;
        let compacted = bounds.compacted.max(through.min(bounds.last));
        if compacted > bounds.compacted {
            on!(self.lines.writer, "failed to compact the log", set_compacted(compacted))?;
        }
        let end = compacted.min(Revision(swept.0.saturating_add(i64::try_from(limit).unwrap_or(i64::MAX))));
        if end > swept {
            on!(self.lines.writer, "failed to compact the log", sweep(swept, end))?;
        }
        Ok(end < compacted)
    }

    async fn bounds(&self) -> Result<Bounds, Error> {
        let (bounds, _) = on!(self.lines.reader, "failed to read the log", bounds())?;
        Ok(bounds)
    }

    async fn revision_before(&self, time_ms: i64) -> Result<Revision, Error> {
        // Times never decrease along the log, so bisecting it saves an index that every commit would pay.
        let (mut older, mut younger) = (Revision::ZERO, self.bounds().await?.last.next());
        while older.next() < younger {
            let middle = Revision(older.0 + (younger.0 - older.0) / 2);
            match on!(self.lines.reader, "failed to read the log", row_from(middle))? {
                Some((revision, written_ms)) if written_ms < time_ms => older = revision,
                _ => younger = middle,
            }
        }
        Ok(older)
    }
}
