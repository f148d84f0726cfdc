//! Preferred spread constraints (`whenUnsatisfiable: ScheduleAnyway`).
//!
//! The first affinity group that can take the workload without them is used. Within it, they are
//! enforced one after another, in their order, as long as that moves no further replica.
//!
//! Differs from Karmada (D102), which has no such constraints. With its rules they are required.

use super::attempt::Failure;
use super::pass::Pass;
use super::placement::{Division, Placement};
use super::request::{Mode, Request, Shared, Target};
use super::search::STEPS_MAX;
use super::{trace, zero};

/// The most preferred constraints of a placement. Each may cost an attempt. Further ones are
/// ignored.
const WISHES_MAX: usize = 16;

/// One attempt with some of the preferred constraints, and its explanation.
struct Tried {
    result: Result<Vec<Target>, Failure>,
    trace: Option<trace::Attempt>,
}

impl Pass {
    /// Attempts to schedule the workload with as many of the preferred constraints as possible.
    pub(super) fn attempt_with_wishes(
        &mut self,
        request: &Request,
        placement: &Shared<Placement>,
        term: Option<usize>,
        mode: Mode,
    ) -> Result<Vec<Target>, Failure> {
        // If spread constraints do not apply, preferred ones do not either.
        let count = !placement.ignores_spread() && !zero::is_asked(request, placement, &self.profile);
        let wishes = if count { placement.wishes.len().min(WISHES_MAX) } else { 0 };
        // All attempts together take no longer than one attempt.
        let steps = std::mem::replace(&mut self.steps, STEPS_MAX / (wishes + 2));
        let result = self.best_with_wishes(request, placement, wishes, term, mode);
        self.steps = steps;
        result
    }

    fn best_with_wishes(
        &mut self,
        request: &Request,
        placement: &Shared<Placement>,
        wishes: usize,
        term: Option<usize>,
        mode: Mode,
    ) -> Result<Vec<Target>, Failure> {
        let all = self.try_with(request, placement, &vec![true; wishes], term, mode);
        let leave =
            |tried: &Tried| tried.result.as_ref().ok().map(|targets| leaving(request, placement, mode, targets));
        if leave(&all) == Some(0) {
            return self.told(all);
        }
        let mut best = self.try_with(request, placement, &vec![false; wishes], term, mode);
        let Some(fewest) = leave(&best) else { return self.told(best) };
        if leave(&all).is_some_and(|leaving| leaving <= fewest) {
            return self.told(all);
        }
        let mut kept = vec![false; wishes];
        // A single constraint was tried above already.
        for wish in (0..wishes).filter(|_| wishes > 1) {
            kept[wish] = true;
            let tried = self.try_with(request, placement, &kept, term, mode);
            kept[wish] = leave(&tried).is_some_and(|leaving| leaving <= fewest);
            if kept[wish] {
                best = tried;
            }
        }
        self.told(best)
    }

    /// Attempts to schedule the workload with the constraints in `kept` as required ones, and
    /// without the others.
    fn try_with(
        &mut self,
        request: &Request,
        placement: &Shared<Placement>,
        kept: &[bool],
        term: Option<usize>,
        mode: Mode,
    ) -> Tried {
        let stricter = self.with_wishes(placement, kept);
        let result = self.attempt(request, &stricter, term, mode);
        Tried { result, trace: self.trace.as_mut().and_then(|trace| trace.attempts.pop()) }
    }

    /// Returns the placement with all preferred constraints as required ones, as Karmada's rules
    /// interpret them.
    pub(super) fn with_all_wishes(&mut self, placement: &Shared<Placement>) -> Shared<Placement> {
        self.with_wishes(placement, &vec![true; placement.wishes.len()])
    }

    /// Returns the placement with some of its preferred constraints as required ones, and without
    /// the others.
    fn with_wishes(&mut self, placement: &Shared<Placement>, kept: &[bool]) -> Shared<Placement> {
        let stricter = self.stricter.entry((placement.clone(), kept.to_vec())).or_insert_with(|| {
            let wished = placement.wishes.iter().zip(kept).filter(|(_, kept)| **kept).map(|(wish, _)| wish.clone());
            let spread = placement.spread.iter().cloned().chain(wished).collect();
            Shared::new(Placement { spread, wishes: Vec::new(), ..Placement::clone(placement) })
        });
        stricter.clone()
    }

    fn told(&mut self, tried: Tried) -> Result<Vec<Target>, Failure> {
        if let Some(trace) = &mut self.trace {
            trace.attempts.extend(tried.trace);
        }
        tried.result
    }
}

/// Returns the number of replicas that leave their clusters, or of clusters if replicas are
/// duplicated. Returns 0 in a Fresh pass.
fn leaving(request: &Request, placement: &Placement, mode: Mode, targets: &[Target]) -> i64 {
    if mode == Mode::Fresh {
        return 0;
    }
    let copies = !request.is_divisible() || placement.division == Division::Duplicated;
    let leaves = |before: &Target| {
        let after = targets.iter().find(|after| after.name == before.name);
        match after {
            _ if copies => i64::from(after.is_none()),
            None => i64::from(before.replicas.max(0)),
            Some(after) => i64::from((before.replicas - after.replicas).max(0)),
        }
    };
    request.targets.iter().map(leaves).sum()
}
