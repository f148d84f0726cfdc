//! Reads events that the windows have forgotten from the log, page by page, until the window has
//! the rest. A watch resumes this way after a long absence or a restart.
//!
//! *Invariants.* A catch-up read returns the same events as a subscriber, and none that is not in
//! the view yet. It holds one page of limited size. Pages are read over a separate connection, so
//! commits do not wait for them. Dropping the future of `next` loses no event, because the page
//! that is being read is kept.

use std::io;
use std::sync::Arc;

use tokio::task::JoinHandle;

use ballast_k8s::Revision;
use ballast_store::{self as store, HistoryOf, Replacement, Span};

use super::load;
use super::window::{Event, Expired};
use super::{Cache, Limits, Subscriber};

pub struct CatchUpRead {
    pages: Pages,
}

/// The rows of a kind after a revision, page by page.
struct Pages {
    cache: Cache,
    of: HistoryOf,
    /// The revision up to which all rows of the kind or key were returned.
    position: Revision,
    /// Rows of the next page, derived from the size of the last one.
    rows: usize,
    reading: Option<Reading>,
}

struct Reading {
    span: Span,
    rows: usize,
    page: JoinHandle<Result<Vec<Replacement>, store::Error>>,
}

/// The reason why a catch-up read cannot continue.
#[derive(Debug, thiserror::Error)]
pub enum CatchUpError {
    #[error(transparent)]
    Expired(#[from] Expired),
    #[error("the log cannot be read now")]
    Unreadable(#[source] store::Error),
}

/// Rows of the first page, while their size is unknown.
pub(super) const ROWS_AT_FIRST: usize = 32;

impl Cache {
    /// Reads the events of a kind or a key after a revision that the window of the kind has
    /// forgotten.
    pub fn catch_up_read(&self, of: HistoryOf, after: Revision) -> CatchUpRead {
        CatchUpRead::new(self.clone(), of, after)
    }
}

impl CatchUpRead {
    fn new(cache: Cache, of: HistoryOf, after: Revision) -> CatchUpRead {
        CatchUpRead { pages: Pages::new(cache, of, after) }
    }

    /// Returns the revision up to which all events of the kind or key were returned.
    pub fn position(&self) -> Revision {
        self.pages.position
    }

    /// Returns a subscriber that continues from `position`; `None` until the window reaches back to
    /// it.
    pub fn join(&self) -> Option<Subscriber> {
        self.pages.cache.subscribe_coalesced(self.pages.of.resource(), self.pages.position).ok()
    }

    /// Returns the events of the next page, oldest first. The page may be empty.
    pub async fn next(&mut self) -> Result<Vec<Arc<Event>>, CatchUpError> {
        let newest = self.pages.cache.view().revision;
        let page = self.pages.next(newest).await?;
        page.into_iter().map(load::event_of).collect::<Result<Vec<_>, _>>().map_err(CatchUpError::Unreadable)
    }
}

impl Pages {
    fn new(cache: Cache, of: HistoryOf, after: Revision) -> Pages {
        Pages { cache, of, position: after, rows: ROWS_AT_FIRST, reading: None }
    }

    /// Returns the rows of the next page up to a revision, oldest first. The page may be empty.
    async fn next(&mut self, through: Revision) -> Result<Vec<Replacement>, CatchUpError> {
        if self.reading.is_none() {
            self.reading = Some(self.read(through));
        }
        let reading = self.reading.as_mut().expect("just made sure of it");
        let page = (&mut reading.page).await;
        let Reading { span, rows, .. } = self.reading.take().expect("it was there");
        let page = match page {
            Ok(Ok(page)) => page,
            Ok(Err(store::Error::Compacted { asked, compacted })) => {
                return Err(Expired { asked, oldest: compacted }.into());
            }
            Ok(Err(error)) => return Err(CatchUpError::Unreadable(error)),
            Err(stopped) => return Err(CatchUpError::Unreadable(unreadable(Arc::new(stopped)))),
        };
        self.rows = rows_that_fit(self.cache.limits(), page.len(), weight(&page)).unwrap_or(self.rows);
        self.position = match page.last() {
            Some(last) if page.len() == rows => last.change.revision,
            _ => span.through,
        };
        Ok(page)
    }

    /// Starts to read a page, in a separate task, because dropping a query halfway would cost its
    /// connection.
    fn read(&self, through: Revision) -> Reading {
        let revisions = i64::try_from(self.cache.limits().catch_up_revisions_max).unwrap_or(i64::MAX);
        let end = Revision(self.position.0.saturating_add(revisions));
        let span = Span { after: self.position, through: end.min(through) };
        let (store, of, rows) = (self.cache.store(), self.of.clone(), self.rows);
        let page = tokio::spawn(async move {
            match store {
                Some(store) => store.history(&of, span, rows).await,
                None => Err(stopped()),
            }
        });
        Reading { span, rows, page }
    }
}

/// Returns the number of rows for the next page, after one with `rows` rows of `bytes` bytes.
/// `None` if the page was empty, and so gives no estimate.
pub(super) fn rows_that_fit(limits: &Limits, rows: usize, bytes: usize) -> Option<usize> {
    let fitting = (rows * limits.catch_up_page_bytes).checked_div(bytes)?;
    Some(fitting.clamp(1, limits.catch_up_rows_max))
}

/// Returns the error of a read after the task of the log has ended.
pub(super) fn stopped() -> store::Error {
    unreadable(Arc::new(io::Error::other("the writer has stopped")))
}

fn unreadable(source: Arc<dyn std::error::Error + Send + Sync>) -> store::Error {
    store::Error::Unavailable { action: "failed to read the log", source }
}

fn weight(page: &[Replacement]) -> usize {
    let before = |row: &Replacement| row.before.as_ref().map_or(0, |before| before.len());
    page.iter().map(|row| row.change.object.len() + before(row)).sum()
}
