//! Builds a plan: decides bindings one by one against the capacity that earlier moves leave.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use super::cutting::{cut_clusters, cut_replicas, in_all, is_divided, weight};
use super::{Clearing, ParsedBinding, PlanningSnapshot};
use crate::asking::Asking;
use crate::cause::counted;
use crate::reservations::{Names, Room};
use ballast_api::ballast::v1alpha1::{self as api, Limits, MoveReason, Share};
use ballast_api::core::Taint;
use ballast_api::karmada::cluster::v1alpha1::Stay;
use ballast_api::karmada::work::v1alpha2::{AnyBinding, EVICTION_SUSPENDED};
use ballast_engine::karmada::{
    ClusterSet, DEFAULT_SCHEDULER, Decision, Failed, Mode, Outcome, Pass, Profile, Reason, Refusal, Request, Requeue,
    Rules, Skip, Target, TargetIndex, Trace, Workloads,
};
use ballast_k8s::{Object, Time, read_json};
use ballast_quota as quota;
use ballast_watch::View;

/// The reason why an undo does not move a binding.
const UNMOVED: &str = "it is where it was";
/// The message of a plan that refuses a decision which the scheduler would execute.
const PLACED_ALL_THE_SAME: &str =
    "the scheduler would place it all the same, because it divides this workload without regard to capacity";
/// The reason why a plan does not move a binding that is being deleted.
const DELETED: &str = "it is being deleted";

/// Options for decisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanOptions {
    pub mode: api::Mode,
    pub limits: Limits,
}

impl PlanOptions {
    fn engine_mode(self) -> Mode {
        match self.mode {
            api::Mode::Fresh => Mode::Fresh,
            api::Mode::Steady | api::Mode::AsBefore => Mode::Steady,
        }
    }
}

/// The plan for one binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proposal {
    Move {
        /// Sorted by name. Empty for a KubeFleet placement, which moves by being triggered; in an
        /// undo, its previous clusters.
        to: Vec<Target>,
        /// The affinity group of the targets, if there are groups.
        term: Option<Box<str>>,
        /// Replicas, counted where they arrive.
        arrivals: i64,
        /// Whether the limits removed a part of the decision.
        limited: bool,
        /// The reason why a part of the decision is missing, if no limit is the cause.
        short: Option<Shortfall>,
    },
    /// The binding stays. Without a reason, its targets are right, or it may not move now.
    Stay { reason: Option<MoveReason>, message: String },
    /// The binding should move, and fits nowhere.
    Unplaceable { reason: MoveReason, message: String },
}

/// The reason why a move is partial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortfall {
    pub reason: MoveReason,
    pub message: String,
}

/// A ledger of capacity over one [`PlanningSnapshot`]. The caller chooses the order of the
/// bindings. Accepted moves change the capacity for the bindings after them.
pub struct PlanBuilder {
    pub(super) pass: Pass,
    /// The pass without accepted moves. Created on the first failure, to detect whether the plan
    /// itself took the capacity.
    untouched: Option<Pass>,
    pub(super) clusters: ClusterSet,
    /// The holders of capacity at the start, and the ones named in messages.
    room: (Room, Names),
    /// Queries the estimators. `None`: no estimators.
    pub(super) asking: Option<Asking>,
    pub(super) view: Arc<View>,
    no_execute: Arc<BTreeMap<Arc<str>, Vec<Taint>>>,
    pub(super) unready: Arc<BTreeSet<Arc<str>>>,
    pub(super) profile: Arc<Profile>,
    now: Time,
    pub(super) clearing: Option<Arc<Clearing>>,
    /// The namespaces with known workload groups.
    pub(super) grouped: HashSet<Box<str>>,
    /// The remaining headroom of quotas. `None`: quotas are not enforced.
    quotas: Option<quota::QuotaLedger>,
    /// Whether messages name the workloads that reserve the capacity.
    names_holders: bool,
}

impl PlanBuilder {
    /// Returns a builder that does not name the holders of capacity in failures. A message costs a
    /// walk over all holders of a cluster, so counts of failures omit it.
    pub fn without_holders(snapshot: &PlanningSnapshot) -> PlanBuilder {
        PlanBuilder { names_holders: false, ..PlanBuilder::new(snapshot) }
    }

    pub fn new(snapshot: &PlanningSnapshot) -> PlanBuilder {
        let PlanningSnapshot { view, clusters, room, asking, names, no_execute, unready, profile, now, .. } =
            snapshot.clone();
        let pass = Pass::new(&clusters, &Workloads::default(), &profile);
        let (untouched, grouped, room, clearing) = (None, HashSet::new(), (room, names), snapshot.clearing.clone());
        let quotas = profile.federated_quotas.then(|| quota::QuotaLedger::new(Arc::clone(&view)));
        PlanBuilder {
            pass,
            untouched,
            clusters,
            room,
            asking,
            view,
            no_execute,
            unready,
            profile,
            now,
            clearing,
            grouped,
            quotas,
            names_holders: true,
        }
    }

    /// Returns the builder without quotas.
    #[must_use]
    pub fn without_quotas(self) -> PlanBuilder {
        PlanBuilder { quotas: None, ..self }
    }

    /// Returns the view that decisions are made from.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Returns the clusters with their remaining capacity.
    pub fn clusters(&self) -> &ClusterSet {
        self.pass.fleet()
    }

    pub fn propose(&mut self, parsed: &ParsedBinding, options: &PlanOptions) -> Proposal {
        if self.clearing.as_ref().is_some_and(|clearing| !clearing.drained().is_empty()) {
            return self.propose_drain(parsed, options);
        }
        if parsed.is_placement() {
            return of_placement(parsed);
        }
        if options.mode == api::Mode::AsBefore {
            return self.propose_home(parsed, None, &options.limits);
        }
        let decision = self.decide(parsed, options.engine_mode());
        self.bounded(parsed, options, decision)
    }

    /// Proposes like `propose`, with an explanation for each cluster, at a higher cost.
    pub fn explain(&mut self, parsed: &ParsedBinding, options: &PlanOptions) -> (Proposal, Trace) {
        if parsed.is_placement() {
            return (of_placement(parsed), Trace::default());
        }
        self.know_groups(&parsed.request);
        let mut request = self.request(parsed, options.engine_mode());
        self.learn(parsed, &mut request);
        let (decision, mut trace) = self.pass.explain_as(&request, options.engine_mode());
        let (room, names) = &self.room;
        for cluster in trace.attempts.iter_mut().flat_map(|attempt| &mut attempt.clusters) {
            if let Some(left) = self.clusters.find(&cluster.name).filter(|_| cluster.free.is_some()) {
                cluster.room = room.sentence(&request, left, &self.pass, &self.profile, *names);
            }
        }
        match options.mode {
            // The explanation contains the Steady decision about each cluster.
            api::Mode::AsBefore => (self.propose_home(parsed, None, &options.limits), trace),
            _ => (self.bounded(parsed, options, decision), trace),
        }
    }

    /// Proposes a return to `from`, within the limits, with today's filters and capacity.
    pub fn propose_return(&mut self, parsed: &ParsedBinding, from: &[Share], limits: &Limits) -> Proposal {
        if parsed.is_placement() {
            return return_of_placement(parsed, from);
        }
        self.know_groups(&parsed.request);
        let mut request = self.request(parsed, Mode::Fresh);
        self.learn(parsed, &mut request);
        if let Outcome::Skipped(skip) = self.pass.decide_as(&request, Mode::Steady).outcome {
            return stays(self.why_skipped(parsed, skip));
        }
        let wanted = match wanted(parsed, from) {
            Ok(wanted) => wanted,
            Err(message) => return Proposal::Unplaceable { reason: MoveReason::ReplicasChanged, message },
        };
        if parsed.is_at(&wanted) {
            return Proposal::Stay { reason: None, message: UNMOVED.to_owned() };
        }
        let to = match self.within_limits(parsed, limits, &wanted) {
            Ok(to) => to,
            Err(stays) => return stays,
        };
        match self.pass.admit(&request, &to) {
            Ok(term) => self.moves(parsed, to, &wanted, term),
            Err(refusal) => unplaceable(&refusal),
        }
    }

    /// Proposes an undo: like `propose_return`, with a reason for a workload that may not move at
    /// present.
    pub fn propose_undo(&mut self, parsed: &ParsedBinding, from: &[Share], limits: &Limits) -> Proposal {
        let proposal = self.propose_return(parsed, from, limits);
        let Proposal::Stay { reason: None, .. } = &proposal else { return proposal };
        let is_back = parsed.from() == from;
        let Outcome::Skipped(skip) = self.decide(parsed, Mode::Steady).outcome else { return proposal };
        match self.held_by(parsed, skip).filter(|_| !is_back && !parsed.is_placement()) {
            Some(reason) => Proposal::Stay { reason: Some(reason), message: self.why_skipped(parsed, skip) },
            None => proposal,
        }
    }

    /// Moves the binding to the targets `to` in the ledger, for the bindings after it.
    pub fn accept(&mut self, parsed: &ParsedBinding, to: &[Target]) {
        self.reassign(parsed, &parsed.request.targets, to);
        self.charge(&parsed.object, &parsed.request.targets, to);
    }

    /// Reserves capacity for arriving replicas, as passes do. Without reservations, nothing
    /// changes.
    pub fn give_away(&mut self, parsed: &ParsedBinding, to: &[Target]) {
        if self.profile.reserves && !parsed.is_placement() {
            self.pass.take_arrivals(&parsed.request, &parsed.request.targets, to);
        }
    }

    /// Charges the quotas, as a part of `accept`.
    pub fn charge(&mut self, binding: &Object, from: &[Target], to: &[Target]) {
        if let Some(quotas) = &mut self.quotas {
            quotas.take(binding, &counts(from), &counts(to));
        }
    }

    /// Returns the headroom of the quotas for a binding, in copies of `each`. `None`: no quota
    /// limits it.
    pub fn left_by_quotas(&mut self, binding: &Object, each: &[i32]) -> Option<quota::Headroom> {
        self.quotas.as_mut()?.headroom(binding, each)
    }

    /// Checks whether the quotas allow these targets for the binding.
    pub fn within_quotas(&mut self, parsed: &ParsedBinding, to: &[Target]) -> Result<(), quota::Exceeded> {
        let Some(quotas) = self.quotas.as_mut() else { return Ok(()) };
        quotas.check(&parsed.object, &counts(&parsed.request.targets), &counts(to))
    }

    /// Moves a binding from the targets `from`, like `accept` but without quotas. With `from`
    /// empty, pending replicas take the capacity that no cluster has reported as used yet.
    pub fn reassign(&mut self, parsed: &ParsedBinding, from: &[Target], to: &[Target]) {
        if !parsed.is_placement() {
            self.know_groups(&parsed.request);
            self.pass.reassign(&parsed.request, from, to);
        }
    }

    /// Takes or releases capacity for replicas of a workload that is not in the plan.
    pub fn move_capacity(&mut self, request: &Request, from: &[Target], to: &[Target]) {
        self.pass.move_capacity(request, from, to);
    }

    /// Takes all capacity for further replicas of the workload on a cluster, so that no later
    /// decision about the workload adds any there.
    pub(crate) fn fill(&mut self, parsed: &ParsedBinding, cluster: &Arc<str>) {
        self.know_groups(&parsed.request);
        let mut request = self.request(parsed, Mode::Steady);
        self.learn(parsed, &mut request);
        let request = request.into_owned();
        let replicas = self.pass.capacity(&request, cluster).clamp(0, i64::from(i32::MAX)) as i32;
        let all = Target { name: Arc::clone(cluster), replicas, components: Vec::new() };
        self.pass.move_capacity(&request, &[], &[all]);
    }

    /// Returns the number of additional copies of the workload that fit on a cluster.
    pub fn capacity(&self, request: &Request, cluster: &str) -> i64 {
        self.pass.capacity(request, cluster)
    }

    pub(crate) fn decide(&mut self, parsed: &ParsedBinding, mode: Mode) -> Decision {
        self.know_groups(&parsed.request);
        let mut request = self.request(parsed, mode);
        self.learn(parsed, &mut request);
        self.pass.decide_as(&request, mode)
    }

    /// Returns the request that the scheduler would use for a pass of this mode; see
    /// `Pass::decide_binding`.
    pub(super) fn request<'c>(&self, parsed: &'c ParsedBinding, mode: Mode) -> Cow<'c, Request> {
        let forgives = mode == Mode::Fresh && self.profile.rules == Rules::Default;
        let evicted_by_taint = parsed.evicted_by_taint.iter().map(|cluster| &**cluster).filter(|_| forgives);
        let recovered: Vec<&str> = evicted_by_taint.filter(|cluster| !self.no_execute.contains_key(*cluster)).collect();
        let limited = (!parsed.limited.is_empty()).then_some(&*self.no_execute).into_iter().flatten();
        let no_longer_tolerated: Vec<Box<str>> = limited
            .filter(|(_, taints)| Stay::of(taints, &parsed.limited, self.now).is_over(self.now))
            .map(|(name, _)| Box::from(&**name))
            .collect();
        let cleared = self.cleared(parsed, mode, &no_longer_tolerated);
        if recovered.is_empty() && no_longer_tolerated.is_empty() && cleared.is_empty() {
            return Cow::Borrowed(&parsed.request);
        }
        let mut request = parsed.request.clone();
        request.evicting.retain(|cluster| !recovered.contains(&&**cluster));
        request.outstayed.extend(no_longer_tolerated);
        request.targets.retain(|target| !cleared.contains(&*target.name));
        request.evicting.extend(cleared.into_iter().map(Box::from));
        let drained = self.clearing.as_ref().map(|clearing| clearing.drained()).into_iter().flatten();
        let more: Vec<Box<str>> = drained
            .filter(|name| mode == Mode::Steady && !request.targets.iter().any(|target| target.name == **name))
            .map(|name| Box::from(&**name))
            .collect();
        request.evicting.extend(more);
        Cow::Owned(request)
    }

    /// Returns the present clusters of the binding that the plan clears.
    fn cleared<'c>(
        &self,
        parsed: &'c ParsedBinding,
        mode: Mode,
        no_longer_tolerated: &[Box<str>],
    ) -> BTreeSet<&'c str> {
        let Some(clearing) = &self.clearing else { return BTreeSet::new() };
        let is_cleared = |name: &&str| {
            let found = self.clusters.find(name).filter(|cluster| !cluster.deleting);
            found.is_some_and(|cluster| clearing.clears(cluster, &parsed.request))
                || no_longer_tolerated.iter().any(|known| **known == **name)
        };
        let targets = parsed.request.targets.iter().map(|target| &*target.name);
        targets.filter(|_| mode == Mode::Steady).filter(is_cleared).collect()
    }

    /// Returns the number of replicas that need another cluster: replicas on clusters that do not
    /// exist or that the plan clears, and replicas that are not assigned.
    pub(super) fn needed(&self, parsed: &ParsedBinding) -> i64 {
        let request = &parsed.request;
        let cleared = self.cleared(parsed, Mode::Steady, &[]);
        let stays = |target: &&Target| self.clusters.find(&target.name).is_some() && !cleared.contains(&*target.name);
        let sum = |targets: &mut dyn Iterator<Item = &Target>| targets.map(|it| i64::from(it.replicas)).sum::<i64>();
        let assigned = sum(&mut request.targets.iter());
        let leave = assigned - sum(&mut request.targets.iter().filter(stays));
        let is_shared = request.is_divisible() && request.is_shared();
        leave + if is_shared { (i64::from(request.replicas) - assigned).max(0) } else { 0 }
    }

    /// Reduces a decision to the limits.
    pub(super) fn bounded(&mut self, parsed: &ParsedBinding, options: &PlanOptions, decision: Decision) -> Proposal {
        let placed = match decision.outcome {
            Outcome::Placed(placed) => self.off_the_unready(parsed, placed),
            Outcome::Skipped(skip) => return stays(self.why_skipped(parsed, skip)),
            Outcome::Failed(failed) => return self.fits_nowhere(parsed, options.engine_mode(), failed),
        };
        if parsed.is_at(&placed.targets) {
            return Proposal::Stay { reason: None, message: "it is where it belongs".to_owned() };
        }
        let to = match self.within_limits(parsed, &options.limits, &placed.targets) {
            Ok(to) => to,
            Err(stays) => return stays,
        };
        let looks = self.profile.rules == Rules::Default;
        if let Some(refusal) = looks.then(|| self.pass.overfilled(&parsed.request, &to)).flatten() {
            let (reason, message) = refused(&refusal);
            let message = format!("{message}; {PLACED_ALL_THE_SAME}");
            return Proposal::Unplaceable { reason, message };
        }
        self.moves(parsed, to, &placed.targets, placed.term)
    }

    /// Reduces the targets `wanted` to the limits, or returns why the binding stays.
    pub(super) fn within_limits(
        &self,
        parsed: &ParsedBinding,
        limits: &Limits,
        wanted: &[Target],
    ) -> Result<Vec<Target>, Proposal> {
        let stays = |reason, message| Err(Proposal::Stay { reason: Some(reason), message });
        let total = in_all(parsed, wanted);
        let fewest = limits.fewest(total);
        let decided = weight(parsed, wanted);
        if decided < fewest {
            let message = format!("{decided} of {total} replicas would move, and fewer than {fewest} are left alone");
            return stays(MoveReason::NotWorthwhile, message);
        }
        let to = self.limited(parsed, limits, wanted);
        let moved = weight(parsed, &to);
        if parsed.is_at(&to) {
            let message = format!("{decided} of {total} replicas would move, and the limits allow none of it");
            return stays(MoveReason::LimitReached, message);
        }
        if moved < fewest {
            let message = format!("the limits allow {moved} of {decided} replicas to move, fewer than {fewest}");
            return stays(MoveReason::NotWorthwhile, message);
        }
        Ok(to)
    }

    /// Proposes the move to `to`, a reduction of `wanted`, if no capacity or quota is exceeded.
    pub(super) fn moves(
        &mut self,
        parsed: &ParsedBinding,
        to: Vec<Target>,
        wanted: &[Target],
        term: Option<Box<str>>,
    ) -> Proposal {
        let looks = self.profile.rules == Rules::Default;
        if let Some(refusal) = looks.then(|| self.pass.overfilled(&parsed.request, &to)).flatten() {
            return unplaceable(&refusal);
        }
        if let Err(exceeded) = self.within_quotas(parsed, &to) {
            return self.over_quota(parsed, &to, exceeded);
        }
        let limited = to != wanted;
        Proposal::Move { arrivals: parsed.arrivals(&to), to, term, limited, short: None }
    }

    /// Reduces the decision to the limits. The result fits wherever the decision fits, because no
    /// cluster gets more.
    fn limited(&self, parsed: &ParsedBinding, limits: &Limits, wanted: &[Target]) -> Vec<Target> {
        let most = limits.most(in_all(parsed, wanted));
        let preserves = limits.preserves_available();
        if most.is_none_or(|most| weight(parsed, wanted) <= most) && !preserves {
            return wanted.to_vec();
        }
        let reports = preserves.then(|| parsed.reports());
        let may_leave = |cluster: &str, there: i64| match &reports {
            None => there,
            Some(reports) => there - parsed.available_on(cluster, reports, &self.unready),
        };
        if is_divided(parsed, wanted) {
            cut_replicas(parsed, wanted, most, may_leave)
        } else {
            cut_clusters(parsed, wanted, most, may_leave)
        }
    }

    /// Returns why no decision is made, if a user or another scheduler is the cause.
    pub(super) fn held_by(&self, parsed: &ParsedBinding, skip: Skip) -> Option<MoveReason> {
        match skip {
            Skip::Filtered if parsed.request.suspended => Some(MoveReason::SchedulingSuspended),
            Skip::Filtered => Some(MoveReason::OtherScheduler),
            Skip::Deleting | Skip::NoPlacement(_) | Skip::Unchanged => None,
        }
    }

    /// Returns a message about why no decision is made.
    pub(super) fn why_skipped(&self, parsed: &ParsedBinding, skip: Skip) -> String {
        let request = &parsed.request;
        match skip {
            Skip::Filtered if request.suspended => "its scheduling is suspended".to_owned(),
            Skip::Filtered if !request.managed && !self.profile.unmanaged => "no policy manages it".to_owned(),
            Skip::Filtered if request.scheduler_name.is_empty() => format!("scheduler {DEFAULT_SCHEDULER} places it"),
            Skip::Filtered => format!("scheduler {} places it", request.scheduler_name),
            Skip::Deleting => DELETED.to_owned(),
            Skip::NoPlacement(_) => "it has no placement".to_owned(),
            Skip::Unchanged => "nothing asks for a decision".to_owned(),
        }
    }

    /// Returns the constraints that the present placement violates without having to move: rules
    /// that its division ignores (T4), and clusters with suspended dispatching (T6).
    pub fn reservations(&mut self, parsed: &ParsedBinding) -> Vec<String> {
        let Ok(binding) = read_json::<AnyBinding>(&parsed.object.text.content()) else { return Vec::new() };
        let request = &parsed.request;
        let unkept = self.pass.unkept(request, &request.targets);
        let suspension = binding.spec.suspension.as_deref();
        let is_target = |name: &&str| request.targets.iter().any(|target| *target.name == **name);
        let paused: Vec<&str> = request.paused.iter().map(|name| &**name).filter(is_target).collect();
        let suspended = match suspension.and_then(|suspension| suspension.dispatching) {
            Some(true) => Some("dispatching is suspended: no cluster gets a change of it".to_owned()),
            _ if paused.is_empty() => None,
            _ => Some(format!("dispatching to {} is suspended: no change of it is sent there", paused.join(", "))),
        };
        let held = binding.status.conditions.iter().find(|it| it.type_ == EVICTION_SUSPENDED && it.status == "True");
        unkept.into_iter().chain(suspended).chain(held.map(|held| held.message.clone())).collect()
    }

    fn fits_nowhere(&mut self, parsed: &ParsedBinding, mode: Mode, failed: Failed) -> Proposal {
        let Failed { reason, message, requeue, .. } = failed;
        let is_of_capacity = match reason {
            Reason::NoClusterFit => false,
            // A failure that only an edit of the binding can end does not depend on capacity.
            Reason::Unschedulable => requeue == Requeue::Unschedulable || !self.deviates(),
            Reason::SchedulerError => message.contains("no enough resource"),
            Reason::PartlyScheduled => true,
        };
        if !is_of_capacity {
            return Proposal::Unplaceable { reason: MoveReason::NoClusterFits, message };
        }
        if !self.names_holders {
            return Proposal::Unplaceable { reason: MoveReason::NoRoom, message };
        }
        let mut request = self.request(parsed, mode);
        self.learn(parsed, &mut request);
        let answers = self.pass.answers().clone();
        let untouched =
            self.untouched.get_or_insert_with(|| Pass::new(&self.clusters, &Workloads::default(), &self.profile));
        untouched.add_answers(answers);
        // Without groups, because only capacity matters here.
        let would_fit = untouched.decide_as(&request, mode).is_success();
        let message = match would_fit {
            true => {
                let replicas = request.replicas;
                format!("moves planned before it take the room for its {replicas} replicas: {message}")
            }
            false => {
                let (room, names) = &self.room;
                room.told(&message, &request, untouched, &self.profile, *names).unwrap_or(message)
            }
        };
        Proposal::Unplaceable { reason: MoveReason::NoRoom, message }
    }

    /// Proposes that the binding stays because a quota does not allow these targets.
    fn over_quota(&self, parsed: &ParsedBinding, to: &[Target], exceeded: quota::Exceeded) -> Proposal {
        let mut unplanned = quota::QuotaLedger::new(Arc::clone(&self.view));
        let was_allowed = unplanned.check(&parsed.object, &counts(&parsed.request.targets), &counts(to)).is_ok();
        let quota::Exceeded { message, .. } = exceeded;
        let message =
            if was_allowed { format!("moves planned before it use what is left: {message}") } else { message };
        Proposal::Unplaceable { reason: MoveReason::NoRoom, message }
    }

    fn deviates(&self) -> bool {
        self.profile.rules == Rules::Default
    }
}

/// Returns the replicas on each cluster.
fn counts(targets: &[Target]) -> Vec<i32> {
    targets.iter().map(|target| target.replicas).collect()
}

pub(super) fn of_placement(parsed: &ParsedBinding) -> Proposal {
    match parsed.request.deleting {
        true => stays(DELETED.to_owned()),
        false => Proposal::Move { to: Vec::new(), term: None, arrivals: 0, limited: false, short: None },
    }
}

/// Returns the undo of a placement. Its own scheduler chooses the clusters, so the result is known
/// only afterwards.
fn return_of_placement(parsed: &ParsedBinding, from: &[Share]) -> Proposal {
    let target = |share: &Share| Target { name: share.name.as_str().into(), replicas: 0, components: Vec::new() };
    let to: Vec<Target> = from.iter().map(target).collect();
    if parsed.is_at(&to) {
        return Proposal::Stay { reason: None, message: UNMOVED.to_owned() };
    }
    match of_placement(parsed) {
        Proposal::Move { term, arrivals, limited, short, .. } => Proposal::Move { to, term, arrivals, limited, short },
        other => other,
    }
}

pub(super) fn stays(message: String) -> Proposal {
    Proposal::Stay { reason: None, message }
}

pub(super) fn unplaceable(refusal: &Refusal) -> Proposal {
    let (reason, message) = refused(refusal);
    Proposal::Unplaceable { reason, message }
}

pub(super) fn refused(refusal: &Refusal) -> (MoveReason, String) {
    match refusal {
        Refusal::Lost { cluster } => {
            (MoveReason::ClusterLost, format!("cluster {cluster} is gone, or is being deleted"))
        }
        Refusal::Unfit { cluster, objection } => {
            (MoveReason::NoClusterFits, format!("cluster {cluster} does not fit: {objection}"))
        }
        Refusal::NoCapacity { cluster, arriving, capacity } => (
            MoveReason::NoRoom,
            format!(
                "{} would arrive at {cluster}, which has room for {}",
                counted(*arriving, "replica"),
                capacity.max(&0)
            ),
        ),
        Refusal::Breaks { rule } => (MoveReason::NoClusterFits, format!("{rule} would no longer be kept")),
    }
}

/// Returns the targets that `from` names, for the present workload. Fails if the number of replicas
/// has changed.
fn wanted(parsed: &ParsedBinding, from: &[Share]) -> Result<Vec<Target>, String> {
    let request = &parsed.request;
    let mut from: Vec<&Share> = from.iter().collect();
    from.sort_unstable();
    let present = TargetIndex::new(&request.targets);
    let known = |name: &str| present.find(name);
    let components = request.targets.iter().map(|target| &target.components).find(|parts| !parts.is_empty());
    let target = |share: &&Share| Target {
        name: known(&share.name).map_or_else(|| share.name.as_str().into(), |target| Arc::clone(&target.name)),
        replicas: share.replicas,
        components: components.cloned().unwrap_or_default(),
    };
    let mut targets: Vec<Target> = from.iter().map(target).collect();
    if !is_divided(parsed, &targets) {
        let each = request.targets.first().map_or(0, |target| target.replicas);
        targets.iter_mut().for_each(|target| target.replicas = each);
        return Ok(targets);
    }
    let (was, is) = (from.iter().map(|share| i64::from(share.replicas)).sum::<i64>(), i64::from(request.replicas));
    if was != is {
        return Err(format!("it had {was} replicas then, and has {is} now"));
    }
    Ok(targets)
}
