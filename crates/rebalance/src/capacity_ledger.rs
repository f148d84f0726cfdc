//! The capacity and quota that are left in a step, and decisions about moves over them (BD2).
//!
//! Replicas of moves under way, and replicas that no cluster reports, use capacity from the start.
//! What the step has written so far counts against the quotas.

use std::sync::Arc;

use super::record::{self, AnyMove, Owner};
use super::run::UnreportedReplicas;
use super::step_input::StepInput;
use super::surge::{self, QuotaLeft};
use super::way_back::way_back;
use ballast_api::ballast::v1alpha1::{Mode, Share, Undo};
use ballast_engine::karmada::{Needs, Request, Target};
use ballast_k8s::{Key, Object};
use ballast_scheduler::planning::{ParsedBinding, PlanBuilder, PlanOptions, PlanningSnapshot, Proposal, Shortfall};
use ballast_scheduler::reservations::GivenRoom;

pub struct CapacityLedger {
    draft: PlanBuilder,
    /// Whether clusters have accounts of what is assigned.
    reserves: bool,
    /// What this step gives away, for the claims of its writes.
    given: Vec<GivenRoom>,
}

impl CapacityLedger {
    /// `unreported` are those of all rebalances that are being carried out.
    pub fn new<'a>(
        present: &PlanningSnapshot,
        unreported: impl IntoIterator<Item = &'a UnreportedReplicas>,
    ) -> CapacityLedger {
        let mut draft = PlanBuilder::new(present);
        for unreported in unreported {
            unreported.apply(&mut draft);
        }
        CapacityLedger { draft, reserves: present.profile.reserves, given: Vec::new() }
    }

    pub fn propose(&mut self, input: &StepInput<'_>, move_key: &Key, case: &ParsedBinding) -> Proposal {
        let spec = &input.rebalance.spec;
        if spec.objective.is_some() {
            return self.propose_planned(input, move_key, case);
        }
        match &spec.undo {
            // The plan has found out where it was.
            None if spec.mode == Mode::AsBefore && spec.before.is_some() => {
                let was = planned(input, move_key).filter(|to| !to.is_empty());
                self.draft.propose_home(case, was.as_deref(), &spec.limits)
            }
            None => self.draft.propose(case, &PlanOptions { mode: spec.mode, limits: spec.limits }),
            Some(undo) => {
                let back = goes_back(input, undo, case).or_else(|| planned(input, move_key));
                self.draft.propose_undo(case, &back.unwrap_or_default(), &spec.limits)
            }
        }
    }

    /// Proposes what a plan with an objective has found for the binding, as far as the rules and
    /// the room of the present allow: alone it would not go there.
    fn propose_planned(&mut self, input: &StepInput<'_>, move_key: &Key, case: &ParsedBinding) -> Proposal {
        let Some(read) = input.view.get(move_key).and_then(|object| AnyMove::read(object)) else {
            return Proposal::Stay { reason: None, message: String::new() };
        };
        match self.draft.propose_return(case, &read.spec.to, &input.rebalance.spec.limits) {
            Proposal::Move { to, term, arrivals, limited, .. } => {
                let short = read.status.reason.map(|reason| Shortfall { reason, message: read.status.message });
                Proposal::Move { to, term, arrivals, limited, short }
            }
            other => other,
        }
    }

    /// Uses the capacity of a move to `to` whose first targets are `first`, for the decisions that
    /// follow. Replicas that stay until others are ready give no capacity to another workload
    /// (RM31). With accounts, what leaves is given back when the view shows that it has left.
    pub fn accept(&mut self, case: &ParsedBinding, first: &[Target], to: &[Target]) {
        let taken = either(first, to);
        match self.reserves {
            true => self.draft.give_away(case, &taken),
            false => self.draft.reassign(case, &case.request.targets, &taken),
        }
    }

    /// Counts the targets that this step writes against the quotas, and notes what arrives.
    pub fn charge(&mut self, binding: &Object, request: &Request, to: &[Target]) {
        self.draft.charge(binding, &request.targets, to);
        let Some(needs) = Needs::of(request).filter(|_| self.reserves) else { return };
        let copies = |targets: &[Target], name: &str| {
            targets.iter().filter(|target| *target.name == *name).map(|target| needs.copies(target)).sum::<i64>()
        };
        let arrivals = to.iter().map(|target| {
            let had = copies(&request.targets, &target.name).max(copies(&request.leaving, &target.name));
            let arriving = needs.copies(target) - had;
            (Arc::clone(&target.name), arriving)
        });
        let arrivals: Vec<_> = arrivals.filter(|(_, arriving)| *arriving > 0).collect();
        if !arrivals.is_empty() {
            self.given.push(GivenRoom { binding: binding.key.clone(), base: binding.revision, needs, arrivals });
        }
    }

    /// What the step gives away.
    pub fn into_given(self) -> Vec<GivenRoom> {
        self.given
    }

    /// What the quotas leave to a surge of the binding.
    pub fn left_by_quotas(&mut self, binding: &Object, request: &Request) -> QuotaLeft {
        self.draft.left_by_quotas(binding, &[surge::counted_as_one(request)])
    }

    /// How many more replicas of the workload fit on a cluster, besides `own` that are taken there
    /// for this very move.
    pub fn capacity_besides(&mut self, request: &Request, cluster: &str, own: i64) -> i64 {
        let own =
            [Target { name: cluster.into(), replicas: i32::try_from(own).unwrap_or(i32::MAX), components: Vec::new() }];
        self.draft.move_capacity(request, &own, &[]);
        let room = self.draft.capacity(request, cluster);
        self.draft.move_capacity(request, &[], &own);
        room
    }
}

/// On each cluster, the larger of both.
fn either(first: &[Target], to: &[Target]) -> Vec<Target> {
    let mut either = to.to_vec();
    for target in first {
        match either.iter_mut().find(|known| known.name == target.name) {
            Some(known) => known.replicas = known.replicas.max(target.replicas),
            None => either.push(target.clone()),
        }
    }
    either
}

/// The targets of the binding before the rebalance that is undone, as far as they come back.
fn goes_back(input: &StepInput<'_>, undo: &Undo, case: &ParsedBinding) -> Option<Vec<Share>> {
    let key = Key { name: undo.name.as_str().into(), ..input.owner.key.clone() };
    let other = Owner::of(input.view.get(&key)?);
    let read = record::first_move(&other, &case.object, input.view)?;
    way_back(undo, read.spec.from, &case.from())
}

/// The targets in the plan of this rebalance.
fn planned(input: &StepInput<'_>, key: &Key) -> Option<Vec<Share>> {
    Some(AnyMove::read(input.view.get(key)?)?.spec.to)
}
