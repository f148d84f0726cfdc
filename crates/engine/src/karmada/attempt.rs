//! One attempt among given candidates: selects clusters, divides the replicas, and searches if the
//! result violates spread constraints.

use super::assign::{Assigner, Scratch, Shortage};
use super::bounds::{self, Bounded};
use super::candidate::Candidate;
use super::filters::AttemptContext;
use super::request::Target;
use super::select;
use super::settle::{self, Settled, Settlement, give_to_core};
use super::trace::SpreadGroups;
use super::within::Divided;
use crate::bits::Bits;

/// Why one attempt failed.
pub(super) enum Failure {
    NoClusterFits,
    /// There is too little capacity. This may change.
    Capacity(String),
    Impossible(String),
}

/// The data of an attempt that an explanation shows.
#[derive(Default)]
pub(super) struct Seen {
    pub listed: Vec<Candidate>,
    pub selected: Vec<Candidate>,
    pub spread: Option<SpreadGroups>,
}

pub(super) struct Attempt<'a, 'b> {
    pub context: &'b AttemptContext<'a>,
    pub weighted: &'b [(Bits, i64)],
    pub bounded: &'b [Bounded],
    pub scratch: &'b mut Scratch,
    /// The steps that all searches may take in total.
    pub steps: usize,
    /// `Some` only if the caller requested an explanation.
    pub seen: Option<&'b mut Seen>,
}

impl Attempt<'_, '_> {
    pub fn targets(&mut self, candidates: &mut Vec<Candidate>) -> Result<Vec<Target>, Failure> {
        if bounds::apply(self.context) {
            return self.within_bounds(candidates);
        }
        if !settle::applies(self.context) {
            return self.select_and_assign(candidates);
        }
        let all = candidates.clone();
        let settlement = Settlement::new(self.context, &all, &[]);
        if let Some(there) = settlement.as_it_is() {
            *candidates = there;
            return self.assign(candidates);
        }
        let answer = self.select_and_assign(candidates);
        if answer.as_ref().is_ok_and(|targets| settlement.is_right(targets, candidates)) {
            return answer;
        }
        let mut steps = self.steps;
        match settlement.search(answer.as_deref().ok(), &mut steps) {
            Settled::AsItWas => answer,
            Settled::Use { mut open, core } => {
                self.choose_groups_of(&open);
                let mut targets = self.assign(&mut open)?;
                if !settlement.copies() {
                    give_to_core(&mut targets, &open, &core, self.context);
                }
                Ok(targets)
            }
            Settled::Nothing { exact } => Err(refusal(&settlement, answer, exact, &mut steps)),
        }
    }

    /// Divides so that each cluster with replicas keeps its bounds.
    fn within_bounds(&mut self, candidates: &[Candidate]) -> Result<Vec<Target>, Failure> {
        let settlement = Settlement::new(self.context, candidates, self.bounded);
        let mut steps = self.steps;
        match settlement.divide(&mut steps) {
            Ok(Divided { targets, open }) => {
                if let Some(seen) = &mut self.seen {
                    seen.selected = open;
                }
                Ok(targets)
            }
            Err(exact) => {
                let why = format!("failed to assign replicas: {}", settlement.beyond_bounds());
                Err(refusal(&settlement, Err(Failure::Capacity(why)), exact, &mut steps))
            }
        }
    }

    /// Marks the groups that the search has opened, for the explanation.
    fn choose_groups_of(&mut self, open: &[Candidate]) {
        let Some(spread) = self.seen.as_mut().and_then(|seen| seen.spread.as_mut()) else { return };
        for (group, members) in &mut spread.groups {
            group.chosen = open.iter().any(|candidate| members.contains(&candidate.index()));
        }
    }

    fn select_and_assign(&mut self, candidates: &mut Vec<Candidate>) -> Result<Vec<Target>, Failure> {
        select::select(self.context, candidates, self.seen.as_mut().map(|seen| &mut seen.spread))
            .map_err(|why| Failure::Impossible(format!("failed to select clusters: {why}")))?;
        if candidates.is_empty() {
            let why = "failed to assign replicas: no clusters available to schedule";
            return Err(Failure::Impossible(why.to_owned()));
        }
        self.assign(candidates)
    }

    fn assign(&mut self, candidates: &mut [Candidate]) -> Result<Vec<Target>, Failure> {
        if let Some(seen) = &mut self.seen {
            seen.selected = candidates.to_vec();
        }
        let mut assigner = Assigner { context: self.context, weighted: self.weighted, scratch: &mut *self.scratch };
        assigner.assign(candidates).map_err(|shortage| match shortage {
            Shortage::Capacity(why) => Failure::Capacity(format!("failed to assign replicas: {why}")),
            Shortage::Impossible(why) => Failure::Impossible(format!("failed to assign replicas: {why}")),
        })
    }
}

/// Builds the failure that names the constraints in conflict.
fn refusal(
    settlement: &Settlement<'_, '_>,
    answer: Result<Vec<Target>, Failure>,
    exact: bool,
    steps: &mut usize,
) -> Failure {
    let blamed = settlement.to_blame(steps);
    let (is_capacity, mut message) = match answer {
        Err(Failure::Capacity(why)) => (true, why),
        Err(Failure::Impossible(why)) => (settlement.lacks_room(steps), why),
        Err(Failure::NoClusterFits) | Ok(_) => {
            let all = settlement.constraints().join(" and ");
            let why = format!("failed to select clusters: no clusters keep the spread constraints by {all} together");
            (settlement.lacks_room(steps), why)
        }
    };
    let one = |constraint: &String| format!("the spread constraint by {constraint}");
    let mut blamed: Vec<String> = blamed.iter().map(one).collect();
    if settlement.bounds_are_to_blame(steps) {
        blamed.push("clusterBounds".to_owned());
    }
    if !blamed.is_empty() {
        message += &format!("; without {} there would be a place", blamed.join(", or without "));
    }
    if !exact {
        message += "; the search has ended at its bound, so this is no proof";
    }
    if is_capacity { Failure::Capacity(message) } else { Failure::Impossible(message) }
}
