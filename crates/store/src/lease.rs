//! The lease of a log that lives within one process.

use std::time::Duration;

use tokio::time::Instant;

use super::{Candidate, ElectionState, Error, Term};

/// The leader, and the end of its lease. At first there is no leader, and the term is zero.
#[derive(Debug, Default)]
pub(super) struct Lease {
    term: Term,
    holder: String,
    address: String,
    until: Option<Instant>,
}

impl Lease {
    pub fn check(&self, asked: Term) -> Result<(), Error> {
        match self.term {
            current if current == asked => Ok(()),
            current => Err(Error::Deposed { asked, current }),
        }
    }

    /// `Store::lead`.
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

    /// `Store::lead_in`.
    pub fn lead_in(&mut self, candidate: &Candidate, term: Term, lease: Duration) -> ElectionState {
        let now = Instant::now();
        if term > self.term || (term == self.term && self.holder == candidate.name) {
            let (holder, address) = (candidate.name.clone(), candidate.address.clone());
            *self = Lease { term, holder, address, until: Some(now + lease) };
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

    /// The name of the leader.
    pub fn leader(&self) -> Option<&str> {
        let lasts = self.until.is_some_and(|until| until > Instant::now());
        lasts.then_some(&*self.holder)
    }

    /// `Store::resign`.
    pub fn resign(&mut self, term: Term) {
        if self.term == term {
            *self = Lease { term: Term(term.0 + 1), ..Lease::default() };
        }
    }
}
