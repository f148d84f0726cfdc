//! What tells the log from a history that was lost: a failover to an asynchronous standby takes
//! commits back that were acknowledged.
//!
//! A replica notices by `Tip`: the log is shorter than its view, or has another change at the
//! revision of its view. It marks the revision that it has seen (`Store::mark_lost`), and the next
//! leader lifts the log beyond all marks before it numbers anything.

use super::{Bounds, Change, Error, REVISION_BUMP_MAX, Store, Term, bump_target};
use ballast_k8s::Revision;

/// The end of the log, with what tells its history from another one that was lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tip {
    pub bounds: Bounds,
    /// The change with the revision that was asked about. `None` if the log has none.
    pub own: Option<Change>,
    /// A number of the last lift (`bump_revision`) that no other lift has; zero if there was none.
    pub lift: i64,
    /// The timeline of the server; another one after a standby was promoted. Zero if not known.
    pub timeline: i64,
    /// As `Losses::marked`.
    pub marked: Revision,
}

/// What is known of histories that were lost. A new leader asks before it numbers changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// The end of the log.
    pub last: Revision,
    /// The highest revision of a lost history that was marked (`Store::mark_lost`); zero if none.
    pub marked: Revision,
    /// The highest revision that a replica has reported to have seen.
    pub seen: Revision,
    /// Whether a standby was promoted that no leader has accepted yet (`Store::accept`).
    pub is_promoted: bool,
    /// The replicas that were there before the mark or the promotion, and have not reported since.
    pub awaited: usize,
}

impl Losses {
    /// The revision beyond which the log has to be lifted; `None` if nothing was lost. `seen` is
    /// what the caller itself has seen of a lost history, or zero.
    pub fn lift_beyond(&self, seen: Revision) -> Option<Revision> {
        let reported = if self.seen > self.last { self.seen } else { Revision::ZERO };
        let beyond = self.marked.max(reported).max(seen);
        (beyond > Revision::ZERO).then_some(beyond)
    }

    /// The revision that the log is lifted to, beyond a history that was seen up to `beyond`.
    pub fn lift_to(&self, beyond: Revision) -> Result<Revision, Error> {
        bump_target(self.last, beyond).ok_or_else(|| {
            let advice =
                format!("{beyond} was seen of a lost history, and no log is lifted beyond {REVISION_BUMP_MAX}");
            Error::Corrupt { advice, source: None }
        })
    }
}

/// Lifts the log beyond every history that was lost, and accepts the server, before a command
/// writes. The caller leads, and all replicas are stopped, so none has more to report. Returns the
/// revision that the log was lifted to.
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
