//! Copies a whole log into an empty one, revisions kept. Clients go on where they were: a watch
//! that was at the old log resumes at the new one.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::{Bounds, Candidate, Change, Error, PostgresStore, Settings, SqliteStore, Store, Table, Term};
use crate::k8s::Revision;

/// Rows that are read at once, about two megabytes.
const PAGE_ROWS: usize = 1000;
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

/// The rows of a log in their order, page by page.
pub(super) struct Rows<'a> {
    from: &'a dyn Store,
    bounds: Bounds,
    after: Revision,
    copied: u64,
}

impl<'a> Rows<'a> {
    async fn of(from: &'a dyn Store) -> Result<Rows<'a>, Error> {
        Ok(Rows { from, bounds: from.bounds().await?, after: Revision::ZERO, copied: 0 })
    }

    /// The bounds of the log that is read.
    pub fn bounds(&self) -> Bounds {
        self.bounds
    }

    /// The rows of the next page; empty after the last one.
    pub async fn next(&mut self) -> Result<Vec<Change>, Error> {
        let Bounds { last, compacted } = self.bounds;
        let mut page = Vec::new();
        if self.after < compacted {
            page = self.from.page(compacted, self.after, PAGE_ROWS).await?;
            if page.is_empty() {
                self.after = compacted;
            }
        }
        if page.is_empty() {
            page = self.from.changes(self.after, PAGE_ROWS).await?;
            page.retain(|change| change.revision <= last);
        }
        self.after = page.last().map_or(self.after, |change| change.revision);
        self.copied += page.len() as u64;
        Ok(page)
    }
}

/// A log that can be filled.
enum Target {
    Sqlite(Box<SqliteStore>),
    Postgres(Box<PostgresStore>),
}

/// Copies the log at one URL to the other, whose log must be empty. Nobody may lead either of them.
/// A copy that fails leaves the target empty.
pub async fn copy(from: &str, to: &str, tables: &[Table], settings: &Settings) -> Result<Copied, Error> {
    let source = super::open_with(from, tables, settings).await?;
    let target = match to.strip_prefix("sqlite://") {
        Some(path) => Target::Sqlite(Box::new(SqliteStore::open(path.as_ref(), tables).await?)),
        None => Target::Postgres(Box::new(PostgresStore::open(to, tables, settings).await?)),
    };
    let as_store: &dyn Store = match &target {
        Target::Sqlite(store) => &**store,
        Target::Postgres(store) => &**store,
    };
    let candidate = Candidate { name: format!("ballast-copy-{}", std::process::id()), address: String::new() };
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
    let leadership = store.lead(candidate, LEASE).await?;
    match leadership.is_held_by(candidate) {
        true => Ok(leadership.term),
        false => {
            let text = format!("{} leads {}; stop all replicas first", leadership.holder, super::shown(url));
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
