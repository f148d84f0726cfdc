//! Decisions for many bindings over one view that fit together (BD1).

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::prices::Bill;
use super::{ObjectiveOutcome, ParsedBinding, PlanBuilder, PlanOptions, PlanningSnapshot, Proposal, Shortfall};
use ballast_api::ballast::v1alpha1::{ClusterCount, CostStatus, Limits, MoveReason, Order, Share, Summary};
use ballast_engine::karmada::Target;
use ballast_k8s::{GroupResource, Key};

/// The plan for the selected bindings.
#[derive(Clone, Debug, Default)]
pub struct MovePlan {
    /// Moves in the order in which they were decided.
    pub moves: Vec<PlannedMove>,
    pub unplaceable: Vec<UnplaceableBinding>,
    /// Bindings that stay although a decision would place them elsewhere.
    pub stays: Vec<StayingBinding>,
    /// The counts of all bindings, before any move.
    pub summary: Summary,
    /// Sorted by name.
    pub clusters: Vec<ClusterCount>,
    /// How near the plan comes to its objective, if it has one.
    pub objective: Option<ObjectiveOutcome>,
    /// The cost of the bindings, if any cluster has a price.
    pub cost: Option<CostStatus>,
}

/// A binding that moves.
#[derive(Clone, Debug)]
pub struct PlannedMove {
    pub parsed: ParsedBinding,
    /// Sorted by name. Empty for a KubeFleet placement, which moves by being triggered.
    pub to: Vec<Target>,
    pub term: Option<Box<str>>,
    /// Replicas, counted where they arrive.
    pub arrivals: i64,
    /// Whether the limits removed a part of the decision.
    pub limited: bool,
    /// The reason why the move is partial.
    pub short: Option<Shortfall>,
}

/// A binding that cannot move as requested.
#[derive(Clone, Debug)]
pub struct UnplaceableBinding {
    pub parsed: ParsedBinding,
    pub reason: MoveReason,
    pub message: String,
}

/// A binding that the limits prevent from moving.
#[derive(Clone, Debug)]
pub struct StayingBinding {
    pub parsed: ParsedBinding,
    pub reason: MoveReason,
    pub message: String,
}

/// Maximum number of retries of bindings without capacity in one plan. It bounds plans in which
/// each move frees capacity for one more.
const AGAIN_MAX: usize = 200_000;

/// Plans with these options. The plan of one binding without limits is the engine's decision.
pub fn plan(
    snapshot: &PlanningSnapshot,
    bindings: Vec<ParsedBinding>,
    options: &PlanOptions,
    order: Order,
) -> MovePlan {
    plan_by(snapshot, bindings, order, |builder, parsed| builder.propose(parsed, options), |_, _, _| {})
}

/// Plans the return of each binding to its previous targets, within the limits.
pub fn plan_return(
    snapshot: &PlanningSnapshot,
    bindings: Vec<(ParsedBinding, Vec<Share>)>,
    limits: &Limits,
    order: Order,
) -> MovePlan {
    let (bindings, from): (Vec<ParsedBinding>, Vec<_>) =
        bindings.into_iter().map(|(parsed, from)| (parsed.clone(), (parsed.object.key.clone(), from))).unzip();
    let from: BTreeMap<_, _> = from.into_iter().collect();
    let propose = |builder: &mut PlanBuilder, parsed: &ParsedBinding| {
        let from = from.get(&parsed.object.key).map_or(&[][..], Vec::as_slice);
        builder.propose_undo(parsed, from, limits)
    };
    plan_by(snapshot, bindings, order, propose, |_, _, _| {})
}

/// Plans with the proposals of `propose`, which may be called several times for a binding, because
/// later moves can free capacity for it. `tell` is called once for each binding, with its proposal
/// and the ledger that it was decided on, before the move is accepted.
pub fn plan_by(
    snapshot: &PlanningSnapshot,
    bindings: Vec<ParsedBinding>,
    order: Order,
    propose: impl FnMut(&mut PlanBuilder, &ParsedBinding) -> Proposal,
    tell: impl FnMut(&mut PlanBuilder, &ParsedBinding, &Proposal),
) -> MovePlan {
    decided(snapshot, bindings, order, propose, tell).0
}

pub(super) fn decided(
    snapshot: &PlanningSnapshot,
    mut bindings: Vec<ParsedBinding>,
    order: Order,
    propose: impl FnMut(&mut PlanBuilder, &ParsedBinding) -> Proposal,
    mut tell: impl FnMut(&mut PlanBuilder, &ParsedBinding, &Proposal),
) -> (MovePlan, PlanBuilder) {
    in_order(&mut bindings, order);
    let mut builder = PlanBuilder::new(snapshot);
    builder.ask_about(&bindings);
    let mut plan = MovePlan::default();
    let mut clusters = ReplicasByCluster::default();
    plan.summary.selected = bindings.len() as i64;
    bindings.iter().for_each(|parsed| clusters.count(parsed));
    let mut bill = Bill::of(snapshot);
    if let Some(bill) = &mut bill {
        bindings.iter().for_each(|parsed| bill.count(parsed));
    }
    plan.unplaceable = settled(&mut builder, bindings, propose, |builder, parsed, proposal| {
        tell(builder, &parsed, &proposal);
        match proposal {
            Proposal::Move { to, term, arrivals, limited, short } => {
                plan.add_move(builder, &mut clusters, PlannedMove { parsed, to, term, arrivals, limited, short });
            }
            Proposal::Stay { reason, message } => {
                plan.summary.unchanged += 1;
                plan.stays.extend(reason.map(|reason| StayingBinding { parsed, reason, message }));
            }
            Proposal::Unplaceable { .. } => {}
        }
    })
    .into_iter()
    .map(|(parsed, reason, message)| UnplaceableBinding { parsed, reason, message })
    .collect();
    for UnplaceableBinding { parsed, reason, message } in &plan.unplaceable {
        tell(&mut builder, parsed, &Proposal::Unplaceable { reason: *reason, message: message.clone() });
    }
    plan.summary.failed = plan.unplaceable.len() as i64;
    plan.summary.to_move = plan.moves.len() as i64;
    plan.summary.pending = plan.summary.to_move;
    plan.clusters = clusters.listed();
    plan.cost = bill.map(|mut bill| {
        plan.moves.iter().filter(|it| !it.parsed.is_placement()).for_each(|it| bill.count_move(&it.parsed, &it.to));
        bill.status()
    });
    (plan, builder)
}

/// Proposes for each binding, and repeats for bindings without capacity, as long as others move.
/// `take` receives each proposal except refusals, and accepts the moves. The final refusals are
/// returned with their reasons.
pub(super) fn settled<B: Borrow<ParsedBinding>>(
    builder: &mut PlanBuilder,
    mut bindings: Vec<B>,
    mut propose: impl FnMut(&mut PlanBuilder, &ParsedBinding) -> Proposal,
    mut take: impl FnMut(&mut PlanBuilder, B, Proposal),
) -> Vec<(B, MoveReason, String)> {
    let mut again = AGAIN_MAX;
    let mut refused = Vec::new();
    loop {
        let (mut has_moved, mut waiting) = (false, Vec::new());
        for binding in bindings {
            let parsed: &ParsedBinding = binding.borrow();
            match propose(builder, parsed) {
                Proposal::Unplaceable { reason, message } => {
                    let list = if parsed.waits(reason) { &mut waiting } else { &mut refused };
                    list.push((binding, reason, message));
                }
                proposal => {
                    has_moved |= matches!(proposal, Proposal::Move { .. });
                    take(builder, binding, proposal);
                }
            }
        }
        // Later moves may have freed capacity. Bindings that fit now are planned after them.
        if !has_moved || waiting.len() > again {
            refused.append(&mut waiting);
            return refused;
        }
        again -= waiting.len();
        bindings = waiting.into_iter().map(|(binding, _, _)| binding).collect();
    }
}

impl MovePlan {
    /// Adds bindings that the plan does not move, each with a reason.
    pub fn keep(&mut self, bindings: Vec<ParsedBinding>, why: impl Fn(&ParsedBinding) -> (MoveReason, String)) {
        let count = bindings.len() as i64;
        self.summary.selected += count;
        self.summary.unchanged += count;
        let mut there = ReplicasByCluster::default();
        for parsed in bindings {
            there.count(&parsed);
            let (reason, message) = why(&parsed);
            self.stays.push(StayingBinding { parsed, reason, message });
        }
        for count in there.listed() {
            match self.clusters.iter_mut().find(|known| known.name == count.name) {
                Some(known) => {
                    known.before += count.before;
                    known.planned += count.planned;
                    known.now += count.now;
                }
                None => self.clusters.push(count),
            }
        }
        self.clusters.sort_by(|one, other| one.name.cmp(&other.name));
    }

    fn add_move(&mut self, builder: &mut PlanBuilder, clusters: &mut ReplicasByCluster, planned: PlannedMove) {
        builder.accept(&planned.parsed, &planned.to);
        // The targets of a KubeFleet placement are not known in advance.
        if !planned.parsed.is_placement() {
            clusters.diff(&planned.parsed, &planned.to);
        }
        self.summary.replicas_to_move += planned.arrivals;
        self.moves.push(planned);
    }
}

/// Sorts bindings into the order in which they are decided and moved.
pub fn in_order<B: Borrow<ParsedBinding>>(bindings: &mut [B], order: Order) {
    bindings.sort_by_cached_key(|parsed| {
        let parsed: &ParsedBinding = parsed.borrow();
        rank(order, parsed.request.priority, parsed.request.replicas, &parsed.object.key)
    });
}

/// The sort key of a binding in an order. Keys decide among equals.
pub type MoveRank = (i64, Arc<str>, Arc<str>, GroupResource);

/// Returns the rank of a binding with this priority and number of replicas.
pub fn rank(order: Order, priority: i32, replicas: i32, binding: &Key) -> MoveRank {
    let first = match order {
        Order::Priority => -i64::from(priority),
        Order::FewestReplicas => i64::from(replicas),
        Order::Name => 0,
    };
    (first, Arc::clone(&binding.namespace), Arc::clone(&binding.name), binding.resource)
}

/// Returns the binding of a rank.
pub fn ranked((_, namespace, name, resource): &MoveRank) -> Key {
    Key { resource: *resource, namespace: Arc::clone(namespace), name: Arc::clone(name) }
}

/// The replicas of the selected workloads on each cluster, before and after the plan.
#[derive(Default)]
struct ReplicasByCluster(BTreeMap<Arc<str>, (i64, i64)>);

impl ReplicasByCluster {
    fn count(&mut self, parsed: &ParsedBinding) {
        for target in &parsed.request.targets {
            let (before, planned) = self.of(target);
            *before += i64::from(target.replicas);
            *planned += i64::from(target.replicas);
        }
    }

    fn diff(&mut self, parsed: &ParsedBinding, to: &[Target]) {
        for target in &parsed.request.targets {
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
