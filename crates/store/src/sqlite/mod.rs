//! Stores the log in a SQLite file, which `sqlite3` can read while the server runs.
//!
//! *Invariants.* Only one process has the file open. A commit is one transaction, and it returns
//! once its WAL frames are on the disk (`synchronous=FULL`). Checkpoints and compaction never run
//! inside a commit.
//!
//! There is no pool: one connection writes, one reads and makes checkpoints, and one reads history.
//! The file never shrinks; pages that compaction frees are reused.

mod audit;
mod backup;
mod checkpoint;
mod connection;
mod errors;
mod open;
mod packed_rows;
mod private_file;
mod quarantine;
mod replaced;
mod space;
mod statements;
mod tables;
mod interned_entries;
mod key_history;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::{Mutex, MutexGuard, watch};

use super::checksum::{DamagedRow, Examined};
use super::lease::Lease;
use super::log::{Heads, Newest};
use super::replica_list::{KnownReplica, ReplicaList, ReplicaReport};
use super::source_rows::{self, SourceRows};
use super::sqlite_codes::is_conflict;
use super::{
    Bounds, Candidate, Change, ElectionState, Error, HistoryOf, Losses, Replacement, Saved, Settings, Size, Span,
    Store, Table, Term, Tip,
};
use ballast_k8s::{GroupResource, Key, Revision};

use audit::Audit;
pub use audit::{Faults, check};
pub use backup::backup;
use checkpoint::Checkpointer;
use connection::SharedConnection;
use errors::classify;
use interned_entries::InternedEntries;
pub use open::check_header;

/// The remedy for a damaged file.
const RESTORE: &str = "restore it from a backup";
/// The error while commits are refused because of the size of the WAL.
const NO_ROOM: &str = "the WAL has reached its bound";
/// The remedy for a file that was moved or replaced.
const REPLACED: &str =
    "what is written now is lost when this program ends: stop the clients, and save the objects with `kubectl get`";

pub struct SqliteStore {
    path: PathBuf,
    /// The identity of the open file. Its path may lead to another one later.
    identity: space::Identity,
    connections: Arc<Connections>,
    interned: std::sync::RwLock<InternedEntries>,
    /// `None` before the first use, during a commit, and after a commit that failed.
    heads: Mutex<Option<Heads>>,
    gathering: Mutex<GatheredHeads>,
    lease: std::sync::Mutex<Lease>,
    replicas: std::sync::Mutex<ReplicaList>,
    newest: watch::Sender<Newest>,
    checkpointer: Checkpointer,
    audit: Audit,
    _lock: open::Lock,
}

/// The heads collected from the pages of the start, so that the keys are not read twice.
#[derive(Default)]
struct GatheredHeads {
    at: Revision,
    /// The revision of the last row of the last page.
    through: Revision,
    heads: Heads,
}

struct Connections {
    writer: SharedConnection,
    reader: SharedConnection,
    /// Reads history, which many watches may request at once. Commits and checkpoints do not queue
    /// behind them.
    historian: SharedConnection,
}

/// Runs a statement on a connection, returns the connection after success, and adds the action to
/// an error.
macro_rules! on {
    ($connection:expr, $action:literal, $statement:ident($($argument:expr),*)) => {{
        let failed = |error| classify($action, error);
        let mut lease = $connection.acquire().await.map_err(failed)?;
        let outcome = statements::$statement(&mut lease.connection $(, $argument)*).await;
        lease.end(outcome).await.map_err(failed)
    }};
}

impl SqliteStore {
    /// Opens or creates the file, with a view for each of `tables`.
    pub async fn open(path: &Path, tables: &[Table]) -> Result<SqliteStore, Error> {
        SqliteStore::open_with(path, tables, &Settings::default()).await
    }

    /// Opens the file like [`SqliteStore::open`], with other settings.
    pub async fn open_with(path: &Path, tables: &[Table], settings: &Settings) -> Result<SqliteStore, Error> {
        // A symbolic link to a file must not get a second lock.
        let target = path.is_symlink().then(|| path.canonicalize().ok()).flatten();
        let path = target.as_deref().unwrap_or(path);
        let opened = open::open(path, tables).await?;
        let identity =
            space::Identity::of(path).map_err(|error| open::unavailable("failed to open the file", error))?;
        let connections = Arc::new(Connections {
            writer: SharedConnection::new(opened.options.clone(), opened.writer),
            reader: SharedConnection::new(opened.options.clone(), opened.reader),
            historian: SharedConnection::unconnected(opened.options),
        });
        Ok(SqliteStore {
            path: path.to_owned(),
            identity,
            checkpointer: Checkpointer::start(connections.clone(), settings.wal_bytes_max),
            audit: Audit::due(opened.is_unclean),
            connections,
            interned: std::sync::RwLock::new(opened.interned),
            heads: Mutex::new(None),
            gathering: Mutex::default(),
            lease: std::sync::Mutex::default(),
            replicas: std::sync::Mutex::default(),
            newest: watch::Sender::default(),
            _lock: opened.lock,
        })
    }

    fn lease(&self) -> std::sync::MutexGuard<'_, Lease> {
        self.lease.lock().expect("no holder of this lock can panic")
    }

    fn replicas(&self) -> std::sync::MutexGuard<'_, ReplicaList> {
        self.replicas.lock().expect("no holder of this lock can panic")
    }

    /// Checks that the path still leads to the open file. Otherwise later writes are lost when this
    /// process ends.
    fn is_there(&self) -> Result<(), Error> {
        match space::Identity::of(&self.path) {
            Ok(found) if found == self.identity => Ok(()),
            Ok(_) => Err(errors::corrupt(format!("{} was replaced by another file; {REPLACED}", self.shown()), None)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(errors::corrupt(format!("{} was removed or moved away; {REPLACED}", self.shown()), None))
            }
            Err(error) => Err(open::unavailable("failed to look at the file", error)),
        }
    }

    fn shown(&self) -> std::path::Display<'_> {
        self.path.display()
    }

    /// Collects the keys of a page. After the last page they are the heads.
    async fn gather(&self, at: Revision, after: Revision, page: &[Change], is_last: bool) -> Result<(), Error> {
        let mut gathering = self.gathering.lock().await;
        if after == Revision::ZERO {
            *gathering = GatheredHeads { at, ..GatheredHeads::default() };
        }
        if (gathering.at, gathering.through) != (at, after) {
            return Ok(());
        }
        gathering.heads.newest.extend(page.iter().map(|state| (state.key.clone(), state.revision)));
        gathering.through = page.last().map_or(after, |last| last.revision);
        if !is_last {
            return Ok(());
        }
        let mut heads = std::mem::take(&mut *gathering).heads;
        heads.last = at;
        // Holding the slot blocks commits meanwhile.
        let mut slot = self.heads.lock().await;
        if slot.is_none() && self.bounds().await?.last == at {
            *slot = Some(heads);
        }
        Ok(())
    }

    /// Takes the heads, and reloads them if a failed commit has left them unknown.
    async fn heads(&self) -> Result<(MutexGuard<'_, Option<Heads>>, Heads), Error> {
        let mut slot = self.heads.lock().await;
        let heads = match slot.take() {
            Some(heads) => heads,
            None => on!(self.connections.reader, "failed to read the keys", heads())?,
        };
        Ok((slot, heads))
    }

    /// Fails if the log is compacted beyond `after`. To be called after reading, because compaction
    /// moves the bound before it removes rows.
    async fn still_there(&self, after: Revision) -> Result<(), Error> {
        match self.bounds().await?.compacted {
            compacted if after < compacted => Err(Error::Compacted { asked: after, compacted }),
            _ => Ok(()),
        }
    }

    /// Copies all rows into this empty log, in one transaction.
    pub(crate) async fn fill(&self, rows: &mut SourceRows<'_>) -> Result<(), Error> {
        const ACTION: &str = "failed to write the copy";
        let mut slot = self.heads.lock().await;
        source_rows::check_empty(self.bounds().await?)?;
        *slot = None;
        let mut lease = self.connections.writer.acquire().await.map_err(|error| classify(ACTION, error))?;
        // Without `end` the connection is closed, which rolls the transaction back.
        let connection = &mut lease.connection;
        statements::begin(connection).await.map_err(|error| classify(ACTION, error))?;
        loop {
            let page = rows.next().await?;
            if page.is_empty() {
                break;
            }
            statements::insert_all(connection, &page, &self.interned).await.map_err(|error| classify(ACTION, error))?;
        }
        let outcome = statements::end_copy(connection, rows.bounds(), &self.interned).await;
        lease.end(outcome).await.map_err(|error| classify(ACTION, error))
    }

    /// Examines the rows after a revision, at most `limit`.
    pub(crate) async fn examine(&self, after: Revision, limit: usize) -> Result<Examined, Error> {
        on!(self.connections.historian, "failed to read the log", examine(after, limit, &self.interned))
    }

    /// Moves damaged rows to the quarantine, in one transaction, and bumps the revision by one.
    pub(crate) async fn move_aside(&self, damaged: &[DamagedRow]) -> Result<Revision, Error> {
        let mut slot = self.heads.lock().await;
        *slot = None;
        let to = on!(self.connections.writer, "failed to set rows aside", set_aside(damaged))?;
        self.newest.send_modify(|newest| newest.last = to);
        Ok(to)
    }

    /// Appends rows, and returns the size of their objects as stored, in bytes.
    async fn append(&self, changes: &[Change]) -> Result<usize, Error> {
        const ACTION: &str = "failed to commit";
        let mut lease = self.connections.writer.acquire().await.map_err(|error| classify(ACTION, error))?;
        let outcome = statements::append(&mut lease.connection, changes, &self.interned).await;
        lease.end(outcome).await.map_err(|error| match changes.first() {
            Some(first) if is_conflict(&error) => Error::Conflict { key: first.key.clone() },
            _ => classify(ACTION, error),
        })
    }
}

#[async_trait]
impl Store for SqliteStore {
    async fn commit(&self, term: Term, changes: &[Change]) -> Result<(), Error> {
        self.lease().check(term)?;
        if changes.is_empty() {
            return Ok(());
        }
        let (mut slot, mut heads) = self.heads().await?;
        // A write to a removed file would be lost and must not be acknowledged.
        let has_room = || self.checkpointer.has_room().map_err(|error| open::unavailable(NO_ROOM, error).not_sent());
        if let Err(refused) = heads.check(changes).and_then(|()| self.is_there()).and_then(|()| has_room()) {
            *slot = Some(heads);
            return Err(refused);
        }
        // After a failure the rows may be stored or not, so the heads are not put back.
        let bytes = self.append(changes).await?;
        heads.follow(changes);
        self.newest.send_modify(|newest| newest.last = heads.last);
        *slot = Some(heads);
        self.checkpointer.wrote(changes.len(), bytes);
        Ok(())
    }

    async fn page(&self, at: Revision, after: Revision, limit: usize) -> Result<Vec<Change>, Error> {
        let page = on!(self.connections.reader, "failed to read the objects", page(at, after, limit, &self.interned))?;
        self.still_there(at).await?;
        let statements::Page { states, missing } = page;
        if let Some(missing) = missing {
            return Err(errors::corrupt(format!("the row of revision {missing} is missing; {RESTORE}"), None));
        }
        let is_last = states.len() < limit;
        self.gather(at, after, &states, is_last).await?;
        if is_last {
            self.audit.begin(&self.path);
        }
        Ok(states)
    }

    async fn changes(&self, after: Revision, limit: usize) -> Result<Vec<Change>, Error> {
        let changes = on!(self.connections.reader, "failed to read the log", changes(after, limit, &self.interned))?;
        self.still_there(after).await?;
        Ok(changes)
    }

    /// Waits for commits of this process, because no other one writes to the file.
    async fn news(&self, after: Revision) -> Result<(), Error> {
        if self.bounds().await?.last <= after {
            Newest::wait(&self.newest, after).await;
        }
        Ok(())
    }

    async fn history(&self, of: &HistoryOf, span: Span, limit: usize) -> Result<Vec<Replacement>, Error> {
        let interned = &self.interned;
        let changes = match of {
            HistoryOf::Kind(resource) => {
                let resource = *resource;
                on!(
                    self.connections.historian,
                    "failed to read the log",
                    kind_history(resource, span, limit, interned)
                )?
            }
            HistoryOf::Key(key) => {
                let newest = self.heads.lock().await.as_ref().and_then(|heads| heads.newest.get(key).copied());
                on!(
                    self.connections.historian,
                    "failed to read the log",
                    key_history(key, newest, span, limit, interned)
                )?
            }
        };
        self.still_there(span.after).await?;
        Ok(changes)
    }

    async fn replaced(
        &self,
        resource: GroupResource,
        span: Span,
        after: Revision,
        limit: usize,
    ) -> Result<Vec<Change>, Error> {
        let states = on!(
            self.connections.historian,
            "failed to read the log",
            replaced(resource, span, after, limit, &self.interned)
        )?;
        self.still_there(span.after).await?;
        Ok(states)
    }

    async fn rows(&self, revisions: &[Revision]) -> Result<Vec<Change>, Error> {
        on!(self.connections.reader, "failed to read the log", rows(revisions, &self.interned))
    }

    async fn compact(&self, through: Revision, limit: usize) -> Result<bool, Error> {
        let (bounds, swept) = on!(self.connections.writer, "failed to compact the log", bounds())?;
        let compacted = bounds.compacted.max(through.min(bounds.last));
        if compacted > bounds.compacted {
            on!(self.connections.writer, "failed to compact the log", set_compacted(compacted))?;
        }
        let end = compacted.min(Revision(swept.0.saturating_add(i64::try_from(limit).unwrap_or(i64::MAX))));
        if end > swept {
            on!(self.connections.writer, "failed to compact the log", sweep(swept, end))?;
        }
        Ok(end < compacted)
    }

    async fn bump_revision(&self, term: Term, to: Revision) -> Result<(), Error> {
        self.lease().check(term)?;
        let (mut slot, mut heads) = self.heads().await?;
        if heads.last < to {
            // After a failure the revision may be bumped or not, so the heads are not put back.
            on!(self.connections.writer, "failed to lift the log", bump_revision(to))?;
            heads.last = to;
            self.lease().lifted();
            self.newest.send_modify(|newest| newest.last = to);
            self.checkpointer.wrote_beside();
        }
        *slot = Some(heads);
        Ok(())
    }

    async fn bounds(&self) -> Result<Bounds, Error> {
        let (bounds, _) = on!(self.connections.reader, "failed to read the log", bounds())?;
        Ok(bounds)
    }

    async fn tip(&self, at: Revision) -> Result<Tip, Error> {
        let bounds = self.bounds().await?;
        let own = self.rows(&[at]).await?.pop();
        let lease = self.lease();
        Ok(Tip { bounds, own, lift: lease.lift(), timeline: 0, marked: lease.marked() })
    }

    /// Keeps the mark in memory, because only this process has the file open.
    async fn mark_lost(&self, term: Term, seen: Revision) -> Result<(), Error> {
        if seen >= self.bounds().await?.compacted {
            self.lease().mark_lost(term, seen);
            self.newest.send_modify(|newest| newest.resigned += 1);
        }
        Ok(())
    }

    async fn losses(&self) -> Result<Losses, Error> {
        let last = self.bounds().await?.last;
        let (lease, replicas) = (self.lease(), self.replicas());
        let awaited = lease.marked_at().map_or(0, |asked| replicas.awaited(asked));
        Ok(Losses { last, marked: lease.marked(), seen: replicas.seen(), is_promoted: false, awaited })
    }

    async fn accept(&self, term: Term) -> Result<(), Error> {
        self.lease().check(term)
    }

    /// Keeps the lease in memory, because only this process has the file open.
    async fn lead(&self, candidate: &Candidate, lease: Duration) -> Result<ElectionState, Error> {
        Ok(self.lease().lead(candidate, lease))
    }

    async fn lead_in(&self, candidate: &Candidate, term: Term, lease: Duration) -> Result<ElectionState, Error> {
        Ok(self.lease().lead_in(candidate, term, lease))
    }

    async fn resign(&self, term: Term) -> Result<(), Error> {
        self.lease().resign(term);
        self.newest.send_modify(|newest| newest.resigned += 1);
        Ok(())
    }

    /// Keeps the reports in memory, because only this process has the file open.
    async fn announce(&self, announcement: &ReplicaReport) -> Result<Vec<KnownReplica>, Error> {
        Ok(self.replicas().announce(announcement, self.lease().leader()))
    }

    async fn depart(&self, name: &str) -> Result<(), Error> {
        self.replicas().depart(name);
        Ok(())
    }

    async fn probe(&self) -> Result<(), Error> {
        if let Some(advice) = self.audit.fault() {
            return Err(errors::corrupt(advice, None));
        }
        self.is_there()?;
        self.checkpointer.has_room().map_err(|error| open::unavailable(NO_ROOM, error))?;
        on!(self.connections.writer, "failed to write", probe())?;
        self.checkpointer.wrote_beside();
        let beside = space::beside(&self.path);
        let tried = tokio::task::spawn_blocking(move || space::try_out(&beside)).await;
        let tried = tried.unwrap_or_else(|stopped| Err(io::Error::other(stopped)));
        tried.map_err(|error| open::unavailable("failed to write beside the file", error))
    }

    async fn mark(&self) -> Result<Option<i32>, Error> {
        on!(self.connections.reader, "failed to read the mark", mark()).map(Some)
    }

    async fn set_mark(&self, term: Term, mark: i32) -> Result<(), Error> {
        if self.lease().check(term).is_err() {
            return Ok(());
        }
        on!(self.connections.writer, "failed to write the mark", set_mark(mark))?;
        self.checkpointer.wrote_beside();
        Ok(())
    }

    async fn size(&self) -> Result<Option<Size>, Error> {
        let Size { bytes, free, .. } = on!(self.connections.reader, "failed to read the size", size())?;
        let wal = space::wal_bytes(&self.path);
        Ok(Some(Size { bytes: bytes + wal, free, wal: Some(wal) }))
    }

    async fn close(&self) -> Result<(), Error> {
        const ACTION: &str = "failed to checkpoint the file";
        self.checkpointer.stop();
        self.audit.stop().await;
        self.connections.reader.close().await;
        self.connections.historian.close().await;
        let is_whole = on!(self.connections.writer, "failed to checkpoint the file", truncate())?;
        self.connections.writer.close().await;
        match is_whole {
            true => Ok(()),
            false => Err(open::unavailable(ACTION, io::Error::other("another program is reading it"))),
        }
    }

    async fn set_aside(&self) -> Result<Vec<Key>, Error> {
        on!(self.connections.reader, "failed to read what was set aside", quarantined())
    }

    async fn pack(&self, span: Span) -> Result<Vec<Saved>, Error> {
        const STOPPED: &str = "failed to pack the past";
        let texts = on!(self.connections.historian, "failed to read the log", past_texts(span))?;
        let packed = tokio::task::spawn_blocking(move || packed_rows::pack_all(&texts)).await;
        let packed = packed.map_err(|stopped| open::unavailable(STOPPED, io::Error::other(stopped)))?;
        if packed.is_empty() {
            return Ok(Vec::new());
        }
        let saved = on!(self.connections.writer, "failed to pack the past", write_packed(packed))?;
        self.checkpointer.wrote_beside();
        Ok(saved)
    }

    async fn replaced_bytes(&self, after: Revision, limit: usize) -> Result<Vec<(Revision, u64)>, Error> {
        on!(self.connections.historian, "failed to read the log", replaced_bytes(after, limit))
    }

    async fn revision_before(&self, time_ms: i64) -> Result<Revision, Error> {
        // Times never decrease along the log, so a binary search suffices. An index would slow
        // every commit.
        let (mut older, mut younger) = (Revision::ZERO, self.bounds().await?.last.next());
        while older.next() < younger {
            let middle = Revision(older.0 + (younger.0 - older.0) / 2);
            match on!(self.connections.reader, "failed to read the log", row_from(middle))? {
                Some((revision, written_ms)) if written_ms < time_ms => older = revision,
                _ => younger = middle,
            }
        }
        Ok(older)
    }
}
