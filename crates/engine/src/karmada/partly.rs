//! Schedules a part of the replicas if not all of them fit (`whenUnsatisfiable: ScheduleWhatFits`).
//!
//! Current replicas stay. Of several affinity groups, the first that accepts the most replicas is
//! used. A Steady pass decides this; it also follows a Fresh pass that cannot schedule all
//! replicas.
//!
//! Differs from Karmada (D103), which schedules all replicas or none.

use super::bounds;
use super::candidate::Candidate;
use super::decision::{Failed, Placed, Reason, Requeue};
use super::listing::counts_capacity;
use super::pass::Pass;
use super::placement::Placement;
use super::refused;
use super::request::{Mode, Request, Shared, Target};
use super::search::STEPS_MAX;
use super::settle::{self, Settlement};
use super::trace::{self, AttemptData};
use super::within::Divided;

/// The step limit of the search for a part. It follows a failed search for all replicas.
const PART_STEPS_MAX: usize = STEPS_MAX / 4;

/// The replicas that one group can take.
struct Part {
    term: Option<usize>,
    targets: Vec<Target>,
    placed: i64,
    /// `Some` only if the caller requested an explanation.
    trace: Option<trace::Attempt>,
}

impl Pass {
    /// Schedules a part of the replicas after a Steady pass failed to schedule all of them.
    pub(super) fn place_a_part(&mut self, request: &Request, placement: &Shared<Placement>, failed: Failed) -> Failed {
        let wanted = i64::from(request.replicas.max(0));
        if !placement.what_fits || !placement.divides_by_room() || !request.is_divisible() {
            return failed;
        }
        let staying: Vec<Target> =
            refused::staying(&self.context(request, placement, None, Mode::Steady)).cloned().collect();
        let there = staying.iter().map(|target| i64::from(target.replicas.max(0))).sum::<i64>();
        if there >= wanted {
            return failed;
        }
        let mut best: Option<Part> = None;
        for term in self.terms_in_order(request, placement, Mode::Steady) {
            let most = best.as_ref().map_or(there, |part| part.placed);
            let part = self.part(request, placement, term, &staying);
            best = part.filter(|part| part.placed > most).or(best);
        }
        if there == 0 && best.is_none() {
            return failed;
        }
        let Some(best) = best else {
            let message = format!("{there} of {wanted} replicas are placed, and the others wait: {}", failed.message);
            return Failed { reason: Reason::PartlyScheduled, message, requeue: Requeue::Unschedulable, ..failed };
        };
        let best = self.with_wishes_kept(request, placement, &staying, best);
        let Part { term, targets, placed, trace } = best;
        if let (Some(all), Some(attempt)) = (&mut self.trace, trace) {
            all.attempts.push(attempt);
        }
        let unkept = settle::unkept(&self.context(request, placement, term, Mode::Steady), &targets);
        let unkept = unkept.map_or_else(String::new, |what| format!("; {what}"));
        let message =
            format!("{placed} of {wanted} replicas are placed, and the others wait: {}{unkept}", failed.message);
        let term = term.map(|term| placement.terms[term].name.clone());
        let meanwhile = Some(Placed { targets, term, message: None });
        Failed { reason: Reason::PartlyScheduled, message, requeue: Requeue::Unschedulable, meanwhile }
    }

    /// Returns a part of the same size that satisfies all preferences, if there is one.
    fn with_wishes_kept(
        &mut self,
        request: &Request,
        placement: &Shared<Placement>,
        staying: &[Target],
        part: Part,
    ) -> Part {
        if placement.wishes.is_empty() {
            return part;
        }
        let strict = self.with_all_wishes(placement);
        let kept = self.part(request, &strict, part.term, staying);
        kept.filter(|kept| kept.placed == part.placed).unwrap_or(part)
    }

    /// Returns the largest part that one group can take while all retained targets stay. `None` if
    /// not all of them can stay.
    fn part(
        &mut self,
        request: &Request,
        placement: &Shared<Placement>,
        term: Option<usize>,
        staying: &[Target],
    ) -> Option<Part> {
        // Scheduling all replicas has failed already.
        let request = &Request { replicas: request.replicas - 1, ..request.clone() };
        let cache = self.list_candidates(request, placement, term, Mode::Steady);
        let mut candidates = std::mem::take(&mut self.candidates);
        let stay: Option<Vec<usize>> = staying
            .iter()
            .map(|target| candidates.binary_search_by_key(&self.fleet.index_of(&target.name)?, Candidate::index).ok())
            .collect();
        let context = self.context(request, placement, term, Mode::Steady);
        let cache = &self.filter_caches[cache];
        let divided = stay.and_then(|stay| {
            // Targets that the group in use forbids need not stay, and their capacity is free for
            // the workload.
            for (_, candidate) in candidates.iter_mut().enumerate().filter(|(at, _)| !stay.contains(at)) {
                candidate.free = candidate.free.max(0).saturating_add(candidate.own.max(0));
                candidate.own = 0;
            }
            let bounded = if bounds::apply(&context) { &*cache.bounded } else { &[] };
            Settlement::new(&context, &candidates, bounded).divide_most(&mut { PART_STEPS_MAX })
        });
        let part = divided.map(|Divided { targets, open }| {
            let explain = || {
                let (counted, weighted) = (counts_capacity(&context, cache), &*cache.weighted);
                let outcome = Ok(&*targets);
                let seen = AttemptData {
                    listed: &candidates,
                    counted,
                    answers: None,
                    selected: &open,
                    spread: None,
                    weighted,
                    outcome,
                    unlisted: None,
                };
                trace::attempt(&context, &seen)
            };
            let trace = self.trace.is_some().then(explain);
            let placed = targets.iter().map(|target| i64::from(target.replicas)).sum();
            Part { term, targets, placed, trace }
        });
        self.candidates = candidates;
        part
    }
}
