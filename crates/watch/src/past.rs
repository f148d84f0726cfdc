//! States from before the windows: the newest state, taken back through the windows and then
//! through the log.
//!
//! *Invariants.* The result is the exact state of the kinds that were asked for, and has no others.
//! A read holds no lock while it waits, and queues with the catch-up reads of watches, not with the
//! writer. Memory is bounded: objects that have not changed since are shared with the newest state,
//! and the others may have `Limits::past_bytes_max` together.

use std::collections::HashSet;
use std::sync::Arc;

use ballast_k8s::{GroupResource, Key, Revision, Time};
use ballast_store as store;

use super::catch_up_read::{self, CatchUpError, Pages};
use super::window::Expired;
use super::{Cache, Interest, View, load};

/// Why a past state cannot be given.
#[derive(Debug, thiserror::Error)]
pub enum PastError {
    #[error(transparent)]
    Expired(#[from] Expired),
    /// Too many objects were different then.
    #[error("more than {bytes_max} bytes of objects have changed since revision {asked}")]
    TooMuch { asked: Revision, bytes_max: usize },
    #[error("the log cannot be read now")]
    Unreadable(#[source] store::Error),
}

impl Cache {
    /// The exact state of some kinds at a past revision, as far back as the windows or the log
    /// remember. It holds no other kinds. For a future revision it is the newest state.
    pub async fn past(&self, kinds: &[GroupResource], revision: Revision) -> Result<Arc<View>, PastError> {
        let (mut view, floor) = self.remembered(kinds, revision);
        let mut left = self.limits().past_bytes_max;
        for &kind in kinds.iter().filter(|_| revision < floor) {
            let mut pages = Pages::new(self.clone(), kind, revision);
            // The first change of a key after the revision has its state at the revision.
            let mut seen: HashSet<Key> = HashSet::new();
            while pages.position() < floor {
                let page = match pages.next(floor).await {
                    Ok(page) => page,
                    Err(CatchUpError::Expired(Expired { oldest, .. })) => {
                        return Err(Expired { asked: revision, oldest: oldest.min(floor) }.into());
                    }
                    Err(CatchUpError::Unreadable(error)) => return Err(PastError::Unreadable(error)),
                };
                for row in page.into_iter().filter(|row| !seen.contains(&row.change.key)).collect::<Vec<_>>() {
                    // A page may hold several changes of a key.
                    if !seen.insert(row.change.key.clone()) {
                        continue;
                    }
                    let (key, before) = load::before(row).map_err(PastError::Unreadable)?;
                    match before {
                        None => view.remove(&key),
                        Some(object) => {
                            let bytes = object.text.len();
                            let bytes_max = self.limits().past_bytes_max;
                            left = left.checked_sub(bytes).ok_or(PastError::TooMuch { asked: revision, bytes_max })?;
                            view.insert(Arc::new(object));
                        }
                    }
                }
            }
        }
        view.revision = view.revision.min(revision);
        Ok(Arc::new(view))
    }

    /// The newest revision that was written up to the end of a second. Times on the wire are whole
    /// seconds, so an object that says it was created then is there. `past` knows whether the log
    /// still reaches back to it.
    pub async fn revision_at(&self, time: Time) -> Result<Revision, PastError> {
        let end_ms = time.seconds().saturating_add(1).saturating_mul(1000);
        let store = self.store().ok_or_else(|| PastError::Unreadable(catch_up_read::stopped()))?;
        // In its own task, because dropping a query halfway would cost its connection.
        let reading = tokio::spawn(async move { store.revision_before(end_ms).await });
        match reading.await {
            Ok(found) => found.map_err(PastError::Unreadable),
            Err(_) => Err(PastError::Unreadable(catch_up_read::stopped())),
        }
    }

    /// When a revision was written. None if its row is gone.
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

    /// The state of some kinds at a revision, or the oldest that the windows can tell, and from
    /// which revision on they can.
    fn remembered(&self, kinds: &[GroupResource], revision: Revision) -> (View, Revision) {
        let interest = Interest::Kinds(kinds.to_vec());
        let (newest, floor, undo) = {
            let past = self.read();
            // Under the lock, under which views are exchanged: the windows end where it does.
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
