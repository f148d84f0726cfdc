//! The lease of a log within one process, and the mark of a lost history.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use super::{Candidate, ElectionState, Error, Term};
use ballast_k8s::Revision;

/// The leader and the end of its lease. Initially there is no leader, and the term is zero.
#[derive(Clone, Debug, Default)]
pub(super) struct Lease {
    term: Term,
    holder: String,
    address: String,
    until: Option<Instant>,
    /// The revision up to which a lost history was seen, and the time of the first mark.
    lost: Option<(Revision, Instant)>,
    lift: i64,
}

/// The number of revision bumps in this process.
static LIFTS: AtomicI64 = AtomicI64::new(0);

impl Lease {
    pub fn check(&self, asked: Term) -> Result<(), Error> {
        match self.term {
            current if current == asked => Ok(()),
            current => Err(Error::Deposed { asked, current }),
        }
    }

    /// Implements `Store::lead`.
    pub fn lead(&mut self, candidate: &Candidate, lease: Duration) -> ElectionState {
        let now = Instant::now();
        let is_own = self.holder == candidate.name;
        if is_own || self.until.is_none_or(|until| until <= now) {
            if !is_own {
                self.term = Term(self.term.0 + 1);
            }
            (self.holder, self.address) = (candidate.name.clone(), candidate.address.clone());
            self.until = Some(now + lease);
        }
        self.told(now)
    }

    /// Implements `Store::lead_in`.
    pub fn lead_in(&mut self, candidate: &Candidate, term: Term, lease: Duration) -> ElectionState {
        let now = Instant::now();
        if term > self.term || (term == self.term && self.holder == candidate.name) {
            let (holder, address) = (candidate.name.clone(), candidate.address.clone());
            *self = Lease { term, holder, address, until: Some(now + lease), ..*self };
        }
        self.told(now)
    }

    fn told(&self, now: Instant) -> ElectionState {
        ElectionState {
            term: self.term,
            holder: self.holder.clone(),
            address: self.address.clone(),
            remaining: self.until.map_or(Duration::ZERO, |until| until.saturating_duration_since(now)),
        }
    }

    /// Returns the name of the leader.
    pub fn leader(&self) -> Option<&str> {
        let lasts = self.until.is_some_and(|until| until > Instant::now());
        lasts.then_some(&*self.holder)
    }

    /// Implements `Store::resign`.
    pub fn resign(&mut self, term: Term) {
        if self.term == term {
            let Lease { lost, lift, .. } = *self;
            *self = Lease { term: Term(term.0 + 1), lost, lift, ..Lease::default() };
        }
    }

    /// Implements `Store::mark_lost`, for a `seen` that is not compacted.
    pub fn mark_lost(&mut self, term: Term, seen: Revision) {
        match &mut self.lost {
            Some((marked, _)) => *marked = seen.max(*marked),
            None => {
                if self.term != term {
                    self.resign(self.term);
                }
                self.lost = Some((seen, Instant::now()));
            }
        }
    }

    /// Makes this term greater than every term of `other`.
    pub fn outgrow(&mut self, other: &Lease) {
        if self.term < other.term {
            let Lease { lost, lift, .. } = *self;
            *self = Lease { term: Term(other.term.0 + 1), lost, lift, ..Lease::default() };
        }
    }

    /// Returns the revision that is marked as lost.
    pub fn marked(&self) -> Revision {
        self.lost.map_or(Revision::ZERO, |(seen, _)| seen)
    }

    /// Returns the time of the mark.
    pub fn marked_at(&self) -> Option<Instant> {
        self.lost.map(|(_, at)| at)
    }

    /// Records that the log was bumped beyond every mark.
    pub fn lifted(&mut self) {
        self.lost = None;
        self.lift = LIFTS.fetch_add(1, Ordering::Relaxed) + 1;
    }

    /// Returns the value of `Tip::lift`.
    pub fn lift(&self) -> i64 {
        self.lift
    }
}
