//! The decisions for many bindings over one view, which fit together (BD1).

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Case, Draft, How, Present, Proposal};
use ballast_api::ballast::v1alpha1::{ClusterCount, MoveReason, Order, Share, Summary};
use ballast_engine::karmada::Target;
use ballast_k8s::{GroupResource, Key};

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
    plan_by(present, cases, order, |draft, case| draft.propose(case, how), |_, _, _| {})
}

/// Plans to bring each binding back to where it was.
pub fn plan_return(present: &Present, cases: Vec<(Case, Vec<Share>)>, order: Order) -> Plan {
    let (cases, from): (Vec<Case>, Vec<_>) =
        cases.into_iter().map(|(case, from)| (case.clone(), (case.object.key.clone(), from))).unzip();
    let from: BTreeMap<_, _> = from.into_iter().collect();
    let propose = |draft: &mut Draft, case: &Case| {
        let from = from.get(&case.object.key).map_or(&[][..], Vec::as_slice);
        draft.propose_return(case, from)
    };
    plan_by(present, cases, order, propose, |_, _, _| {})
}

/// Plans as `propose` says. It may be asked about a binding several times, because moves that are
/// planned later can leave room for it. `tell` hears of each binding once: what became of it, and
/// the ledger as it was decided on, before the move is accepted.
pub fn plan_by(
    present: &Present,
    cases: Vec<Case>,
    order: Order,
    propose: impl FnMut(&mut Draft, &Case) -> Proposal,
    tell: impl FnMut(&mut Draft, &Case, &Proposal),
) -> Plan {
    decided(present, cases, order, propose, tell).0
}

pub(super) fn decided(
    present: &Present,
    mut cases: Vec<Case>,
    order: Order,
    mut propose: impl FnMut(&mut Draft, &Case) -> Proposal,
    mut tell: impl FnMut(&mut Draft, &Case, &Proposal),
) -> (Plan, Draft) {
    in_order(&mut cases, order);
    let mut draft = Draft::new(present);
    let mut plan = Plan::default();
    let mut clusters = Counts::default();
    plan.summary.selected = cases.len() as i64;
    cases.iter().for_each(|case| clusters.count(case));
    let mut again = AGAIN_MAX;
    loop {
        let moved = plan.moves.len();
        let mut waiting = Vec::new();
        for case in cases {
            let proposal = propose(&mut draft, &case);
            if !matches!(proposal, Proposal::Unplaceable { .. }) {
                tell(&mut draft, &case, &proposal);
            }
            match proposal {
                Proposal::Move { to, term, arrivals, limited } => {
                    plan.take_in(&mut draft, &mut clusters, Planned { case, to, term, arrivals, limited });
                }
                Proposal::Stay { reason, message } => {
                    plan.summary.unchanged += 1;
                    plan.stays.extend(reason.map(|reason| Stayed { case, reason, message }));
                }
                Proposal::Unplaceable { reason, message } => {
                    let may_fit = reason == MoveReason::NoRoom || case.is_grouped();
                    let refused = if may_fit { &mut waiting } else { &mut plan.unplaceable };
                    refused.push(Refused { case, reason, message });
                }
            }
        }
        // Moves that came later may have left room. Whoever fits now is planned after them.
        if plan.moves.len() == moved || waiting.len() > again {
            plan.unplaceable.append(&mut waiting);
            break;
        }
        again -= waiting.len();
        cases = waiting.into_iter().map(|refused| refused.case).collect();
    }
    for Refused { case, reason, message } in &plan.unplaceable {
        tell(&mut draft, case, &Proposal::Unplaceable { reason: *reason, message: message.clone() });
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
            clusters.diff(&planned.case, &planned.to);
        }
        self.summary.replicas_to_move += planned.arrivals;
        self.moves.push(planned);
    }
}

/// Sorts bindings into the order in which they are decided, and moved.
pub fn in_order(cases: &mut [Case], order: Order) {
    cases.sort_by_cached_key(|case| rank(order, case.request.priority, case.request.replicas, &case.object.key));
}

/// Where a binding stands in an order. Keys decide among equals.
pub type Rank = (i64, Arc<str>, Arc<str>, GroupResource);

/// The rank of a binding with this priority and so many replicas.
pub fn rank(order: Order, priority: i32, replicas: i32, binding: &Key) -> Rank {
    let first = match order {
        Order::Priority => -i64::from(priority),
        Order::FewestReplicas => i64::from(replicas),
        Order::Name => 0,
    };
    (first, Arc::clone(&binding.namespace), Arc::clone(&binding.name), binding.resource)
}

/// The binding of a rank.
pub fn ranked((_, namespace, name, resource): &Rank) -> Key {
    Key { resource: *resource, namespace: Arc::clone(namespace), name: Arc::clone(name) }
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

    fn diff(&mut self, case: &Case, to: &[Target]) {
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
