//! Copies a whole log into an empty one, revisions kept. Clients go on where they were: a watch
//! that was at the old log resumes at the new one.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::{Bounds, Candidate, Change, Error, PostgresStore, Settings, SqliteStore, Store, Table, Term};
use ballast_k8s::Revision;

/// Rows that are read at once. Where they are large, fewer are.
const PAGE_ROWS: usize = 250;
/// The text of the rows that are written at once, unless one alone has more.
const PART_BYTES: usize = 8 << 20;
/// A server that is led by a copy waits for so long after the copy was killed.
const LEASE: Duration = Duration::from_secs(30);
const RENEW_EVERY: Duration = Duration::from_secs(5);
const CLOSE_TRIES: usize = 20;
const CLOSE_PAUSE: Duration = Duration::from_millis(100);

/// What was copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copied {
    pub rows: u64,
    pub bounds: Bounds,
}

/// The rows of a log in their order, part by part.
pub(super) struct Rows<'a> {
    from: &'a dyn Store,
    bounds: Bounds,
    after: Revision,
    /// What was read, and is in no part yet.
    read: VecDeque<Change>,
    /// Rows of the next page.
    limit: usize,
    copied: u64,
}

impl<'a> Rows<'a> {
    async fn of(from: &'a dyn Store) -> Result<Rows<'a>, Error> {
        let bounds = from.bounds().await?;
        Ok(Rows { from, bounds, after: Revision::ZERO, read: VecDeque::new(), limit: PAGE_ROWS, copied: 0 })
    }

    /// The bounds of the log that is read.
    pub fn bounds(&self) -> Bounds {
        self.bounds
    }

    /// The rows of the next part, which can be written in one statement; empty after the last one.
    pub async fn next(&mut self) -> Result<Vec<Change>, Error> {
        if self.read.is_empty() {
            let page = self.page().await?;
            self.limit = fitting(&page);
            self.read = page.into();
        }
        let part = part(&mut self.read);
        self.copied += part.len() as u64;
        Ok(part)
    }

    async fn page(&mut self) -> Result<Vec<Change>, Error> {
        let Bounds { last, compacted } = self.bounds;
        let mut page = Vec::new();
        if self.after < compacted {
            page = self.from.page(compacted, self.after, self.limit).await?;
            if page.is_empty() {
                self.after = compacted;
            }
        }
        if page.is_empty() {
            page = self.from.changes(self.after, self.limit).await?;
            page.retain(|change| change.revision <= last);
        }
        self.after = page.last().map_or(self.after, |change| change.revision);
        Ok(page)
    }
}

/// How many rows like these make one part.
fn fitting(page: &[Change]) -> usize {
    let bytes: usize = page.iter().map(|change| change.object.len()).sum();
    (PART_BYTES * page.len() / bytes.max(1)).clamp(1, PAGE_ROWS)
}

/// Takes the first rows of those that were read: one, and as many more as a part may have.
fn part(read: &mut VecDeque<Change>) -> Vec<Change> {
    let mut bytes = 0;
    let fits = |change: &&Change| {
        bytes += change.object.len();
        bytes <= PART_BYTES
    };
    let rows = read.iter().take_while(fits).count().max(1);
    read.drain(..rows.min(read.len())).collect()
}

/// A log that can be filled.
enum Target {
    Sqlite(Box<SqliteStore>),
    Postgres(Box<PostgresStore>),
}

/// Copies the log at one URL to the other, whose log must be empty. Nobody may lead either of them:
/// meanwhile the copy does, under a name that no other process has. A copy that fails leaves the
/// target empty.
pub async fn copy(from: &str, to: &str, tables: &[Table], settings: &Settings, name: String) -> Result<Copied, Error> {
    super::check_log(from, settings).await?;
    let source = super::open_with(from, tables, settings).await?;
    let target = match to.strip_prefix("sqlite://") {
        Some(path) => Target::Sqlite(Box::new(SqliteStore::open(path.as_ref(), tables).await?)),
        None => Target::Postgres(Box::new(PostgresStore::open(to, tables, settings).await?)),
    };
    let as_store: &dyn Store = match &target {
        Target::Sqlite(store) => &**store,
        Target::Postgres(store) => &**store,
    };
    let candidate = Candidate { name, address: String::new() };
    let source_term = lead(&*source, from, &candidate).await?;
    let term = match lead(as_store, to, &candidate).await {
        Ok(term) => term,
        Err(error) => {
            let _ = source.resign(source_term).await;
            return Err(error);
        }
    };
    let copied = tokio::select! {
        copied = fill(&target, term, &*source) => copied,
        lost = keep_leading(&*source, &candidate, source_term) => Err(lost),
    };
    // A lease that cannot be given back ends by itself.
    let _ = as_store.resign(term).await;
    let _ = source.resign(source_term).await;
    let copied = copied?;
    tidy_up(as_store).await?;
    tidy_up(&*source).await?;
    Ok(copied)
}

/// Closes a store, whose last checkpoint may still be under way.
pub(super) async fn tidy_up(store: &dyn Store) -> Result<(), Error> {
    let mut tries = 0;
    loop {
        tries += 1;
        match store.close().await {
            Err(_) if tries < CLOSE_TRIES => tokio::time::sleep(CLOSE_PAUSE).await,
            outcome => return outcome,
        }
    }
}

async fn fill(target: &Target, term: Term, source: &dyn Store) -> Result<Copied, Error> {
    let mut rows = Rows::of(source).await?;
    match target {
        Target::Sqlite(store) => store.fill(&mut rows).await?,
        Target::Postgres(store) => store.fill(term, &mut rows).await?,
    }
    Ok(Copied { rows: rows.copied, bounds: rows.bounds })
}

/// Keeps others from writing.
pub(super) async fn lead(store: &dyn Store, url: &str, candidate: &Candidate) -> Result<Term, Error> {
    let state = store.lead(candidate, LEASE).await?;
    match state.is_held_by(candidate) {
        true => Ok(state.term),
        false => {
            let text = format!(
                "{} leads {}; stop all replicas first (a command that was interrupted leads for up to {} more seconds)",
                state.holder,
                super::shown(url),
                LEASE.as_secs()
            );
            Err(Error::Unavailable { action: "others use it", source: Arc::new(io::Error::other(text)) })
        }
    }
}

/// Ends when the lead is lost.
pub(super) async fn keep_leading(store: &dyn Store, candidate: &Candidate, term: Term) -> Error {
    loop {
        tokio::time::sleep(RENEW_EVERY).await;
        match store.lead(candidate, LEASE).await {
            Ok(led) if led.is_held_by(candidate) && led.term == term => {}
            Ok(led) => return Error::Deposed { asked: term, current: led.term },
            Err(error) => return error,
        }
    }
}

/// What a log that is to be filled must be.
pub(super) fn check_empty(bounds: Bounds) -> Result<(), Error> {
    match bounds.last {
        Revision::ZERO => Ok(()),
        last => {
            let advice = format!("it is not empty (it is at revision {last}); copy to a new database");
            Err(Error::Misplaced { advice })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MemoryStore, Operation};
    use ballast_k8s::{GroupResource, Key};

    #[tokio::test]
    async fn a_part_has_as_much_text_as_one_statement_can_write() {
        const KIND: GroupResource = GroupResource::new("clusters.cluster.karmada.io");
        const LARGE: usize = 800_000;
        // Small rows, large ones, and one that is larger than a part may be.
        let lengths = [&[100_usize; 600][..], &[LARGE; 30], &[2 * PART_BYTES, 100]].concat();
        let changes: Vec<Change> = (1..)
            .zip(&lengths)
            .map(|(revision, length)| Change {
                revision: Revision(revision),
                key: Key::cluster(KIND, format!("member-{revision}")),
                operation: Operation::Create,
                created: Revision(revision),
                previous: Revision::ZERO,
                time_ms: revision,
                object: "x".repeat(*length).into(),
            })
            .collect();
        let store = MemoryStore::new();
        store.commit(Term::default(), &changes).await.unwrap();
        let mut rows = Rows::of(&store).await.unwrap();
        let (mut copied, mut parts) = (Vec::new(), 0);
        loop {
            let part = rows.next().await.unwrap();
            if part.is_empty() {
                break;
            }
            let bytes: usize = part.iter().map(|change| change.object.len()).sum();
            assert!(bytes <= PART_BYTES || part.len() == 1, "{} rows of {bytes} bytes", part.len());
            parts += 1;
            copied.extend(part);
        }
        assert!(copied == changes && rows.copied == changes.len() as u64);
        assert!(parts < 20, "{parts} parts");
    }
}
