//! The decisions for many bindings over one view, which fit together (BD1).

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Case, Draft, How, Present, Proposal};
use crate::api::ballast::v1alpha1::{ClusterCount, MoveReason, Order, Share, Summary};
use crate::engine::karmada::Target;

/// What is to become of the selected bindings.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// In the order in which they were decided.
    pub moves: Vec<Planned>,
    pub unplaceable: Vec<Refused>,
    /// Those that stay although they are not where a decision would place them.
    pub stays: Vec<Stayed>,
    /// All bindings, counted. Nothing has moved yet.
    pub summary: Summary,
    /// By name.
    pub clusters: Vec<ClusterCount>,
}

/// A binding that moves.
#[derive(Clone, Debug)]
pub struct Planned {
    pub case: Case,
    /// By name. Empty for a Fleet placement, which moves by being triggered.
    pub to: Vec<Target>,
    pub term: Option<Box<str>>,
    /// Replicas, counted where they arrive.
    pub arrivals: i64,
    /// Whether the limits left something of the decision undone.
    pub limited: bool,
}

/// A binding that fits nowhere.
#[derive(Clone, Debug)]
pub struct Refused {
    pub case: Case,
    pub reason: MoveReason,
    pub message: String,
}

/// A binding that the limits keep where it is.
#[derive(Clone, Debug)]
pub struct Stayed {
    pub case: Case,
    pub reason: MoveReason,
    pub message: String,
}

/// How often a plan tries again to place what found no room. It bounds plans in which each move
/// makes room for one more.
const AGAIN_MAX: usize = 200_000;

/// Plans as `how` says. The plan of one binding without limits is the engine's decision.
pub fn plan(present: &Present, cases: Vec<Case>, how: &How, order: Order) -> Plan {
    decided(present, cases, order, |draft, case| draft.propose(case, how)).0
}

/// Plans to bring each binding back to where it was.
pub fn plan_return(present: &Present, cases: Vec<(Case, Vec<Share>)>, order: Order) -> Plan {
    let (cases, from): (Vec<Case>, Vec<_>) =
        cases.into_iter().map(|(case, from)| (case.clone(), (case.object.key.clone(), from))).unzip();
    let from: BTreeMap<_, _> = from.into_iter().collect();
    decided(present, cases, order, |draft, case| {
        let from = from.get(&case.object.key).map_or(&[][..], Vec::as_slice);
        draft.propose_return(case, from)
    })
    .0
}

pub(super) fn decided(
    present: &Present,
    mut cases: Vec<Case>,
    order: Order,
    mut propose: impl FnMut(&mut Draft, &Case) -> Proposal,
) -> (Plan, Draft) {
    in_order(&mut cases, order);
    let mut draft = Draft::new(present);
    let mut plan = Plan::default();
    let mut clusters = Counts::default();
    plan.summary.selected = cases.len() as i64;
    for case in cases {
        clusters.count(&case);
        match propose(&mut draft, &case) {
            Proposal::Move { to, term, arrivals, limited } => {
                plan.take_in(&mut draft, &mut clusters, Planned { case, to, term, arrivals, limited });
            }
            Proposal::Stay { reason, message } => {
                plan.summary.unchanged += 1;
                plan.stays.extend(reason.map(|reason| Stayed { case, reason, message }));
            }
            Proposal::Unplaceable { reason, message } => plan.unplaceable.push(Refused { case, reason, message }),
        }
    }
    // Those that came later may have left room. Whoever fits now is planned after them.
    let mut attempts = AGAIN_MAX;
    let mut moved = usize::MAX;
    while moved != plan.moves.len() {
        moved = plan.moves.len();
        for refused in std::mem::take(&mut plan.unplaceable) {
            let may_fit = refused.reason == MoveReason::NoRoom || refused.case.is_grouped();
            if !may_fit || attempts == 0 {
                plan.unplaceable.push(refused);
                continue;
            }
            attempts -= 1;
            match propose(&mut draft, &refused.case) {
                Proposal::Move { to, term, arrivals, limited } => {
                    let planned = Planned { case: refused.case, to, term, arrivals, limited };
                    plan.take_in(&mut draft, &mut clusters, planned);
                }
                _ => plan.unplaceable.push(refused),
            }
        }
    }
    plan.summary.failed = plan.unplaceable.len() as i64;
    plan.summary.to_move = plan.moves.len() as i64;
    plan.summary.pending = plan.summary.to_move;
    plan.clusters = clusters.listed();
    (plan, draft)
}

impl Plan {
    fn take_in(&mut self, draft: &mut Draft, clusters: &mut Counts, planned: Planned) {
        draft.accept(&planned.case, &planned.to);
        // A Fleet placement does not say where it is going.
        if !planned.case.is_placement() {
            clusters.shift(&planned.case, &planned.to);
        }
        self.summary.replicas_to_move += planned.arrivals;
        self.moves.push(planned);
    }
}

/// Sorts bindings into the order in which they are decided, and moved. Keys decide among equals.
pub fn in_order(cases: &mut [Case], order: Order) {
    let rank = |case: &Case| match order {
        Order::Priority => -i64::from(case.request.priority),
        Order::FewestReplicas => i64::from(case.request.replicas),
        Order::Name => 0,
    };
    cases.sort_by(|a, b| {
        let place =
            |case: &Case| (rank(case), Arc::clone(&case.object.key.namespace), Arc::clone(&case.object.key.name));
        place(a).cmp(&place(b)).then_with(|| a.object.key.cmp(&b.object.key))
    });
}

/// The replicas of the selected workloads on each cluster, before and after.
#[derive(Default)]
struct Counts(BTreeMap<Arc<str>, (i64, i64)>);

impl Counts {
    fn count(&mut self, case: &Case) {
        for target in &case.request.targets {
            let (before, planned) = self.of(target);
            *before += i64::from(target.replicas);
            *planned += i64::from(target.replicas);
        }
    }

    fn shift(&mut self, case: &Case, to: &[Target]) {
        for target in &case.request.targets {
            self.of(target).1 -= i64::from(target.replicas);
        }
        for target in to {
            self.of(target).1 += i64::from(target.replicas);
        }
    }

    fn of(&mut self, target: &Target) -> &mut (i64, i64) {
        if !self.0.contains_key(&target.name) {
            self.0.insert(Arc::clone(&target.name), (0, 0));
        }
        self.0.get_mut(&target.name).expect("inserted if it was absent")
    }

    fn listed(self) -> Vec<ClusterCount> {
        let count = |(name, (before, planned)): (Arc<str>, (i64, i64))| ClusterCount {
            name: name.to_string(),
            before,
            planned,
            now: before,
        };
        self.0.into_iter().map(count).collect()
    }
}
