//! Detection of a lost history: a failover to an asynchronous standby discards acknowledged
//! commits.
//!
//! A replica detects the loss with `Tip`: the log is shorter than its view, or has another change
//! at the revision of its view. It marks the revision that it has seen (`Store::mark_lost`), and
//! the next leader bumps the log beyond all marks before it numbers anything.

use super::{Bounds, Change, Error, REVISION_BUMP_MAX, Store, Term, bump_target};
use ballast_k8s::Revision;

/// The end of the log, with the values that distinguish its history from a lost one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tip {
    pub bounds: Bounds,
    /// The change with the requested revision. `None` if the log has none.
    pub own: Option<Change>,
    /// A unique number of the last bump (`bump_revision`); zero if there was none.
    pub lift: i64,
    /// The timeline of the server, which changes when a standby is promoted. Zero if not known.
    pub timeline: i64,
    /// Same as `Losses::marked`.
    pub marked: Revision,
}

/// The known losses of history. A new leader reads them before it numbers changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// The end of the log.
    pub last: Revision,
    /// The highest marked revision of a lost history (`Store::mark_lost`); zero if none.
    pub marked: Revision,
    /// The highest revision that a replica has reported to have seen.
    pub seen: Revision,
    /// Whether a standby was promoted that no leader has accepted yet (`Store::accept`).
    pub is_promoted: bool,
    /// The number of replicas that were alive before the mark or the promotion, and have not
    /// reported since.
    pub awaited: usize,
}

impl Losses {
    /// Returns the revision beyond which the log has to be bumped; `None` if nothing was lost.
    /// `seen` is the revision up to which the caller has seen a lost history, or zero.
    pub fn lift_beyond(&self, seen: Revision) -> Option<Revision> {
        let reported = if self.seen > self.last { self.seen } else { Revision::ZERO };
        let beyond = self.marked.max(reported).max(seen);
        (beyond > Revision::ZERO).then_some(beyond)
    }

    /// Returns the revision to bump the log to, beyond a history that was seen up to `beyond`.
    pub fn lift_to(&self, beyond: Revision) -> Result<Revision, Error> {
        bump_target(self.last, beyond).ok_or_else(|| {
            let advice =
                format!("{beyond} was seen of a lost history, and no log is lifted beyond {REVISION_BUMP_MAX}");
            Error::Corrupt { advice, source: None }
        })
    }
}

/// Bumps the log beyond every lost history, and accepts the server, before a command writes. The
/// caller leads, and all replicas are stopped, so no further reports arrive. Returns the revision
/// that the log was bumped to.
pub async fn lift_lost(store: &dyn Store, term: Term) -> Result<Option<Revision>, Error> {
    let losses = store.losses().await?;
    let mut lifted = None;
    if let Some(beyond) = losses.lift_beyond(Revision::ZERO) {
        let to = losses.lift_to(beyond)?;
        store.bump_revision(term, to).await?;
        lifted = Some(to);
    }
    store.accept(term).await?;
    Ok(lifted)
}
