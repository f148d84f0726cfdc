//! States from before the windows: the newest state, reverted through the windows and then through
//! the log.
//!
//! *Invariants.* The result is the exact state of the requested kinds, and contains no others. A
//! read holds no lock while it waits, and queues with the catch-up reads of watches, not with the
//! writer. Memory is bounded: objects that have not changed since are shared with the newest state,
//! and the others are limited to `Limits::past_bytes_max` together.

use std::sync::Arc;

use tokio::task::spawn_blocking;

use ballast_k8s::{FieldErrors, FieldPath, GroupResource, Key, Object, Revision, Status, Time};
use ballast_store::{self as store, Span};

use super::catch_up_read;
use super::window::Expired;
use super::{Cache, Interest, View, load};

/// Why a past state is not available.
#[derive(Debug, thiserror::Error)]
pub enum PastError {
    #[error(transparent)]
    Expired(#[from] Expired),
    /// Too many objects have changed since.
    #[error("more than {bytes_max} bytes of objects have changed since revision {asked}")]
    TooMuch { asked: Revision, bytes_max: usize },
    #[error("the log cannot be read now")]
    Unreadable(#[source] store::Error),
}

impl PastError {
    /// Returns the response to a request about the past.
    fn status(self) -> Status {
        match self {
            PastError::Expired(_) | PastError::TooMuch { .. } => {
                Status::expired(format!("the past cannot be told: {self}; ask about a later revision"))
            }
            PastError::Unreadable(error) => {
                tracing::error!(error = &error as &dyn std::error::Error, "a review cannot read the past");
                Status::unavailable("the past cannot be read now").already_logged()
            }
        }
    }
}

impl Cache {
    /// Returns the exact state of some kinds at the moment that a request specifies in `spec.asOf`,
    /// by a revision or by a time, and the time of that moment. The inner errors are about the
    /// fields of the request.
    pub async fn state_as_of(
        &self,
        kinds: &[GroupResource],
        revision: Option<&str>,
        time: Option<Time>,
        now: Time,
    ) -> Result<Result<(Arc<View>, Time), FieldErrors>, Status> {
        let (at, now) = match self.moment(revision, time, now).await? {
            Ok(moment) => moment,
            Err(errors) => return Ok(Err(errors)),
        };
        match self.past(kinds, at).await {
            Ok(view) => Ok(Ok((view, now))),
            Err(PastError::Expired(expired)) => Err(self.forgotten(time, expired).await),
            Err(why) => Err(why.status()),
        }
    }

    /// Returns the error for a moment before the history, which states how far back it goes.
    async fn forgotten(&self, time: Option<Time>, Expired { asked, oldest }: Expired) -> Status {
        let asked = time.map_or_else(|| format!("revision {asked}"), |time| format!("the state at {time}"));
        // The state at that moment may have been written long before, so the time of the next
        // change is more useful.
        let since = self.time_of(oldest.next()).await.ok().flatten();
        let since = since.map(|since| format!(", just before {since}")).unwrap_or_default();
        Status::expired(format!(
            "{asked} is not remembered any more; the oldest that can be asked about is {oldest}{since} \
             (--history says how long the log remembers)"
        ))
    }

    async fn moment(
        &self,
        revision: Option<&str>,
        time: Option<Time>,
        now: Time,
    ) -> Result<Result<(Revision, Time), FieldErrors>, Status> {
        let newest = self.view().revision;
        let mut errors = FieldErrors::default();
        if let Some(text) = revision {
            let path = FieldPath::new("spec.asOf.revision");
            match text.parse::<i64>().map(Revision) {
                Ok(revision) if revision <= newest => {
                    let written = self.time_of(revision).await.map_err(PastError::status)?;
                    return Ok(Ok((revision, written.unwrap_or(now))));
                }
                Ok(_) => errors.invalid(&path, text, format!("the newest revision is {newest}")),
                Err(_) => errors.invalid(&path, text, "is no revision"),
            }
        } else if let Some(time) = time {
            if time <= now {
                return Ok(Ok((self.revision_at(time).await.map_err(PastError::status)?, time)));
            }
            errors.invalid(&FieldPath::new("spec.asOf.time"), time, format!("must not be in the future: it is {now}"));
        }
        Ok(Err(errors))
    }

    /// Returns the exact state of some kinds at a past revision, as far back as the windows or the
    /// log reach. Contains no other kinds. For a future revision it is the newest state.
    pub async fn past(&self, kinds: &[GroupResource], revision: Revision) -> Result<Arc<View>, PastError> {
        let (mut view, floor) = self.remembered(kinds, revision);
        let mut left = self.limits().past_bytes_max;
        let span = Span { after: revision, through: floor };
        for &kind in kinds.iter().filter(|_| revision < floor) {
            self.take_back(&mut view, kind, span, &mut left).await?;
        }
        view.revision = view.revision.min(revision);
        Ok(Arc::new(view))
    }

    /// Reverts a kind from the end of a span to its beginning. Reads only the states from before
    /// the first change of each key. `left` is the remaining number of bytes that may be read.
    async fn take_back(
        &self,
        view: &mut View,
        kind: GroupResource,
        span: Span,
        left: &mut usize,
    ) -> Result<(), PastError> {
        let limits = self.limits();
        let bytes_max = limits.past_bytes_max;
        // Objects written in the span do not exist at its beginning.
        let is_newer = |object: &&Arc<Object>| object.revision > span.after;
        let newer: Vec<Key> = view.list(kind, None).filter(is_newer).map(|object| object.key.clone()).collect();
        newer.iter().for_each(|key| view.remove(key));
        let (mut after, mut rows) = (Revision::ZERO, catch_up_read::ROWS_AT_FIRST);
        loop {
            let page = self.read_replaced(kind, span, after, rows).await?;
            let (count, bytes) = (page.len(), page.iter().map(|object| object.text.len()).sum::<usize>());
            *left = left.checked_sub(bytes).ok_or(PastError::TooMuch { asked: span.after, bytes_max })?;
            after = page.last().map_or(after, |last| last.revision);
            page.into_iter().for_each(|object| view.insert(object));
            if count < rows {
                return Ok(());
            }
            rows = catch_up_read::rows_that_fit(limits, count, bytes).unwrap_or(rows);
        }
    }

    /// Reads a page of `Store::replaced`, and parses it on a blocking thread.
    async fn read_replaced(
        &self,
        kind: GroupResource,
        span: Span,
        after: Revision,
        rows: usize,
    ) -> Result<Vec<Arc<Object>>, PastError> {
        let store = self.store().ok_or_else(|| PastError::Unreadable(catch_up_read::stopped()))?;
        // In a separate task, because dropping a query halfway would cost its connection.
        let reading = tokio::spawn(async move {
            let page = store.replaced(kind, span, after, rows).await?;
            let parsed = spawn_blocking(move || {
                page.into_iter().map(|change| load::object(change).map(Arc::new)).collect::<Result<Vec<_>, _>>()
            });
            parsed.await.unwrap_or_else(|_| Err(catch_up_read::stopped()))
        });
        match reading.await {
            Ok(Err(store::Error::Compacted { compacted, .. })) => {
                Err(Expired { asked: span.after, oldest: compacted.min(span.through) }.into())
            }
            Ok(page) => page.map_err(PastError::Unreadable),
            Err(_) => Err(PastError::Unreadable(catch_up_read::stopped())),
        }
    }

    /// Returns the newest revision that was written up to the end of a second. Times on the wire
    /// are whole seconds, so the result includes an object created in that second. `past` checks
    /// whether the log still reaches back to it.
    pub async fn revision_at(&self, time: Time) -> Result<Revision, PastError> {
        let end_ms = time.seconds().saturating_add(1).saturating_mul(1000);
        let store = self.store().ok_or_else(|| PastError::Unreadable(catch_up_read::stopped()))?;
        // In a separate task, because dropping a query halfway would cost its connection.
        let reading = tokio::spawn(async move { store.revision_before(end_ms).await });
        match reading.await {
            Ok(found) => found.map_err(PastError::Unreadable),
            Err(_) => Err(PastError::Unreadable(catch_up_read::stopped())),
        }
    }

    /// Returns when a revision was written; `None` if its row has been removed.
    pub async fn time_of(&self, revision: Revision) -> Result<Option<Time>, PastError> {
        let store = self.store().ok_or_else(|| PastError::Unreadable(catch_up_read::stopped()))?;
        let reading = tokio::spawn(async move { store.rows(&[revision]).await });
        match reading.await {
            Ok(rows) => {
                let time = |row: &store::Change| Time::from_seconds(row.time_ms.div_euclid(1000));
                Ok(rows.map_err(PastError::Unreadable)?.first().map(time))
            }
            Err(_) => Err(PastError::Unreadable(catch_up_read::stopped())),
        }
    }

    /// Returns the state of some kinds at a revision, or the oldest state that the windows contain,
    /// and the revision from which on they are complete.
    fn remembered(&self, kinds: &[GroupResource], revision: Revision) -> (View, Revision) {
        let interest = Interest::Kinds(kinds.to_vec());
        let (newest, floor, undo) = {
            let past = self.read();
            // Under the lock that guards the exchange of views, so that the windows end at the
            // view.
            let newest = self.view();
            let floor = past.floor(&interest).min(newest.revision);
            let undo = past.between(&interest, revision.max(floor), newest.revision);
            (newest, floor, undo)
        };
        let mut view = newest.only(kinds);
        undo.iter().rev().for_each(|event| view.undo(event));
        (view, floor)
    }
}
