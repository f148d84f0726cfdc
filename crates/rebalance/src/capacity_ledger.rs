//! The remaining capacity and quota in a step, and decisions about moves against them (BD2).
//!
//! Replicas of moves in progress, and replicas that no cluster reports, use capacity from the
//! start. Targets that the step has written so far count against the quotas.

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
    /// Whether the accounts of clusters contain assigned replicas.
    reserves: bool,
    /// The reservations of this step, for the claims of its writes.
    given: Vec<GivenRoom>,
}

impl CapacityLedger {
    /// Creates the ledger. `unreported` are the replicas of all rebalances in progress.
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
            // The plan contains the previous targets.
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

    /// Proposes the targets that a plan with an objective found for the binding, as far as today's
    /// rules and capacity allow. Decided alone, the binding would not move there.
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

    /// Uses the capacity of a move to `to` with the first targets `first`, for the decisions after
    /// it. Replicas that stay until others are ready release no capacity (RM31). With accounts,
    /// capacity is released once the view shows that the replicas have left.
    pub fn accept(&mut self, case: &ParsedBinding, first: &[Target], to: &[Target]) {
        let taken = either(first, to);
        match self.reserves {
            true => self.draft.give_away(case, &taken),
            false => self.draft.reassign(case, &case.request.targets, &taken),
        }
    }

    /// Charges the targets that this step writes to the quotas, and records arriving replicas.
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

    /// Returns the reservations of the step.
    pub fn into_given(self) -> Vec<GivenRoom> {
        self.given
    }

    /// Returns the headroom of the quotas for a surge of the binding.
    pub fn left_by_quotas(&mut self, binding: &Object, request: &Request) -> QuotaLeft {
        self.draft.left_by_quotas(binding, &[surge::counted_as_one(request)])
    }

    /// Returns the number of additional replicas of the workload that fit on a cluster, ignoring
    /// `own`, which this move has taken there already.
    pub fn capacity_besides(&mut self, request: &Request, cluster: &str, own: i64) -> i64 {
        let own =
            [Target { name: cluster.into(), replicas: i32::try_from(own).unwrap_or(i32::MAX), components: Vec::new() }];
        self.draft.move_capacity(request, &own, &[]);
        let room = self.draft.capacity(request, cluster);
        self.draft.move_capacity(request, &[], &own);
        room
    }
}

/// Returns the larger of both on each cluster.
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

/// Returns the targets of the binding before the undone rebalance, as far as the undo restores
/// them.
fn goes_back(input: &StepInput<'_>, undo: &Undo, case: &ParsedBinding) -> Option<Vec<Share>> {
    let key = Key { name: undo.name.as_str().into(), ..input.owner.key.clone() };
    let other = Owner::of(input.view.get(&key)?);
    let read = record::first_move(&other, &case.object, input.view)?;
    way_back(undo, read.spec.from, &case.from())
}

/// Returns the targets in the plan of this rebalance.
fn planned(input: &StepInput<'_>, key: &Key) -> Option<Vec<Share>> {
    Some(AnyMove::read(input.view.get(key)?)?.spec.to)
}
