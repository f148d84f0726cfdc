//! The state of a rebalance between steps in the worker: the pending moves in their order, the
//! moves in progress, and the replicas that clusters do not report yet.
//!
//! It is loaded from the stored objects (`Run::load`) at the start, and again when a write fails.
//! It only saves the worker from reading all Moves for each step.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::binding_storage::BindingStorage;
use super::gates::{GateMemory, WaveId};
use super::intent::Intent;
use super::record::{self, AnyMove, Owner};
use super::waves::Arrivals;
use serde_json::Value;

use ballast_api::ballast::v1alpha1::{MovePhase, MoveStatus, Order, Share, ShareNow};
use ballast_api::karmada::work::v1alpha2::PartialBinding;
use ballast_engine::karmada::{Request, Requirements, Shared, Target};
use ballast_k8s::{Key, Time};
use ballast_scheduler::move_annotation::MoveAnnotation;
use ballast_scheduler::planning::{self, MoveRank, ParsedBinding, PlanBuilder, Shortfall};
use ballast_watch::View;

#[derive(Debug, Default)]
pub struct Run {
    /// The uid of the rebalance.
    pub owner: String,
    /// Whether the number of Moves is known to equal the summary.
    pub is_complete: bool,
    /// The pending moves, in their order. The rank of each names its binding.
    pub pending: BTreeMap<MoveRank, PendingMove>,
    /// The moves in progress, by binding.
    pub moving: HashMap<Key, ActiveMove>,
    /// The bindings in progress that the next step examines.
    pub dirty: BTreeSet<Key>,
    /// The deadlines of the moves in progress.
    pub deadlines: BTreeSet<(Time, Key)>,
    /// Moves that failed when or after they were due.
    pub failed: i64,
    /// The end of the last move that had begun, in milliseconds since 1970.
    pub wave_ended_ms: Option<i64>,
    /// Moves with unreported counts of ready replicas, and the earliest time to report them; see
    /// `ActiveMove::told`.
    pub untold: BTreeSet<(i64, Key)>,
    /// The responses of the gates for the present wave.
    pub gates: GateMemory,
    /// The request to webhooks about the present wave.
    pub question: Option<(WaveId, Arc<Value>)>,
    pub unreported: UnreportedReplicas,
    /// Whether the accounts of clusters contain assigned replicas (`reservations`). Then only
    /// replicas that are not assigned yet are counted here.
    pub reserves: bool,
    /// Whether the last wave has more moves than one step could begin.
    pub is_wave_open: bool,
    /// Bindings that another rebalance moves.
    pub held_up: BTreeSet<Key>,
    /// The time of the last examination of clusters by a waiting drain, in milliseconds since 1970.
    pub examined_ms: Option<i64>,
    /// The drained clusters.
    pub drained: Vec<String>,
    /// The clusters that moves have left, with the end of the last move. Their capacity may not be
    /// reported yet.
    pub vacated: BTreeMap<Arc<str>, Time>,
}

/// A pending move. There may be a hundred thousand.
#[derive(Clone, Debug)]
pub struct PendingMove {
    pub key: Key,
    /// The planned number of replicas that move.
    pub replicas: i64,
}

#[derive(Clone, Debug)]
pub struct ActiveMove {
    pub key: Key,
    /// The uid of the binding.
    pub uid: String,
    /// The content of the binding's move annotation.
    pub mark: MoveAnnotation,
    /// The pending write of the upstream binding. The move has no deadline until the outcome is
    /// known.
    pub intent: Option<Intent>,
    pub from: Vec<Share>,
    pub to: Vec<Share>,
    pub replicas: i64,
    pub started: Time,
    pub deadline: Time,
    /// The replicas that are not reported as ready.
    pub arriving: Arrivals,
    pub needs: Needs,
    /// The reason why the move is partial. It then ends as Failed, at the targets that it reached.
    pub short: Option<Shortfall>,
    /// The bound of the rollout that it exceeds, for its status. Empty: none.
    pub note: String,
    /// The published ready replicas of the Move's clusters, and the time of publication in
    /// milliseconds since 1970.
    pub told: (Vec<ShareNow>, i64),
    /// The wave in which it began, if the rollout has gates.
    pub wave: Option<i64>,
}

impl ActiveMove {
    /// Returns the status of a Move in progress.
    pub fn status(&self) -> MoveStatus {
        let status = record::moving_status(self.short.as_ref(), &self.note);
        MoveStatus { started_at: Some(self.started), wave: self.wave, ..status }
    }
}

/// The capacity that a replica takes on a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Needs {
    requirements: Option<Shared<Requirements>>,
    /// False for objects without pods.
    is_workload: bool,
}

/// Replicas that clusters do not report yet. A positive number is arriving, a negative one has
/// left.
#[derive(Clone, Debug, Default)]
pub struct UnreportedReplicas(HashMap<Needs, BTreeMap<Arc<str>, i64>>);

impl Needs {
    pub fn of(request: &Request) -> Needs {
        // Sets of several pod templates are excluded: their capacity is counted by the set.
        let is_workload = request.is_workload() && request.components.is_empty();
        Needs { requirements: request.requirements.clone().filter(|_| is_workload), is_workload }
    }

    fn request(&self) -> Request {
        Request { replicas: 1, requirements: self.requirements.clone(), ..Request::default() }
    }
}

impl UnreportedReplicas {
    pub fn add(&mut self, needs: &Needs, arrivals: &Arrivals) {
        self.change(needs, arrivals, 1);
    }

    pub fn remove(&mut self, needs: &Needs, arrivals: &Arrivals) {
        self.change(needs, arrivals, -1);
    }

    fn change(&mut self, needs: &Needs, arrivals: &Arrivals, sign: i64) {
        if !needs.is_workload || arrivals.0.is_empty() {
            return;
        }
        let known = self.0.entry(needs.clone()).or_default();
        for (cluster, replicas) in &arrivals.0 {
            let count = known.entry(Arc::clone(cluster)).or_default();
            *count += sign * replicas;
            if *count == 0 {
                known.remove(cluster);
            }
        }
        if known.is_empty() {
            self.0.remove(needs);
        }
    }

    /// Takes the capacity of arriving replicas, for the decisions of this pass.
    pub fn apply(&self, draft: &mut PlanBuilder) {
        for (needs, clusters) in &self.0 {
            let request = needs.request();
            let target = |(name, replicas): (&Arc<str>, i64)| Target {
                name: Arc::clone(name),
                replicas: i32::try_from(replicas).unwrap_or(i32::MAX),
                components: Vec::new(),
            };
            let counted = |sign: i64| clusters.iter().map(move |(name, count)| (name, sign * count));
            let arrived: Vec<Target> = counted(1).filter(|(_, count)| *count > 0).map(target).collect();
            let left: Vec<Target> = counted(-1).filter(|(_, count)| *count > 0).map(target).collect();
            draft.move_capacity(&request, &left, &arrived);
        }
    }
}

/// Returns the excess of `to` over `from`.
pub fn arrivals(from: &[Share], to: &[Share]) -> Arrivals {
    let to: Vec<(Arc<str>, i64)> =
        to.iter().map(|share| (share.name.as_str().into(), i64::from(share.replicas))).collect();
    let from = from.iter().map(|share| (share.name.as_str(), i64::from(share.replicas)));
    Arrivals::between(from, to.iter().map(|(name, replicas)| (name, *replicas)))
}

impl Run {
    /// Loads the state from the stored objects.
    pub fn load(
        view: &View,
        owner: &Owner,
        order: Order,
        timeout_seconds: i64,
        storage: &dyn BindingStorage,
        reserves: bool,
    ) -> Run {
        let mut run = Run { owner: owner.uid.clone(), reserves, ..Run::default() };
        for (key, read) in record::moves_of(view, &owner.key).filter(|(_, read)| read.owner().as_ref() == Some(owner)) {
            let binding = record::binding_key(&read.spec.binding);
            match read.status.phase {
                None | Some(MovePhase::Pending) => {
                    run.add_pending(view, order, &binding, PendingMove { key, replicas: read.spec.replicas });
                }
                Some(MovePhase::Moving) => {
                    run.load_moving(view, owner, (key, binding), &read, timeout_seconds, storage);
                }
                Some(phase) => {
                    // The targets of a placement are not known in advance.
                    let had_its_turn = read.status.started_at.is_some() || !read.spec.to.is_empty();
                    // A partial arrival is no failure for `abortOn`.
                    let is_partial = read.status.observed.is_some();
                    run.failed += i64::from(phase == MovePhase::Failed && had_its_turn && !is_partial);
                    if read.status.started_at.is_some() {
                        // It ended at some time within that second.
                        let ended = read.status.finished_at.map(|at| at.seconds().saturating_mul(1_000) + 999);
                        run.wave_ended_ms = run.wave_ended_ms.max(ended);
                    }
                    if read.status.observed == Some(false) {
                        run.note_unobserved(&needs_of(view, &binding), &read.spec.from, &read.spec.to);
                    }
                }
            }
        }
        run
    }

    /// Adds the pending move of a binding.
    pub fn add_pending(&mut self, view: &View, order: Order, binding: &Key, waiting: PendingMove) {
        let object = view.get(binding);
        let content = object.map(|object| object.text.content());
        let partial = content.as_deref().and_then(|content| PartialBinding::of(content).ok());
        let sizes = partial.map(|partial| (partial.spec.priority(), partial.spec.replicas()));
        let (priority, all) = sizes.unwrap_or_default();
        // Shares the strings of the object, which are in memory already.
        let rank = planning::rank(order, priority, all, object.map_or(binding, |object| &object.key));
        self.pending.insert(rank, waiting);
    }

    fn load_moving(
        &mut self,
        view: &View,
        owner: &Owner,
        (key, binding): (Key, Key),
        read: &AnyMove,
        timeout: i64,
        storage: &dyn BindingStorage,
    ) {
        let at = read.status.now.iter().map(|now| (now.name.clone(), i64::from(now.replicas))).collect();
        let object = view.get(&binding);
        let content = object.map(|object| object.text.content());
        let partial = content.as_deref().and_then(|content| PartialBinding::of(content).ok());
        let last_step = partial.and_then(|partial| partial.trigger().last_scheduled);
        let known = object.and_then(|object| MoveAnnotation::on(object));
        let known = known.filter(|mark| mark.by == owner.by() && mark.name == *key.name);
        // The intent of a confirmed start is over.
        let intent = Intent::of(&read.metadata.annotations);
        let intent = intent.filter(|intent| known.is_none() || intent.ends.is_some());
        let all = || read.spec.from.iter().map(|share| i64::from(share.replicas)).sum();
        let replicas = intent.as_ref().map_or_else(all, |intent| intent.replicas);
        let mark = match known {
            Some(known) => storage.loaded(known, at),
            None => MoveAnnotation { by: owner.by(), name: key.name.to_string(), replicas, at },
        };
        let started = read.status.started_at.unwrap_or_default();
        let arriving = arrivals(&read.spec.from, &read.spec.to);
        let moving = ActiveMove {
            key,
            uid: read.spec.binding.uid.clone(),
            mark,
            intent,
            from: read.spec.from.clone(),
            to: read.spec.to.clone(),
            replicas: read.spec.replicas,
            started,
            deadline: started.max(last_step.unwrap_or(started)).plus_seconds(timeout),
            arriving,
            needs: needs_of(view, &binding),
            short: read.status.reason.map(|reason| Shortfall { reason, message: read.status.message.clone() }),
            note: if read.status.reason.is_none() { read.status.message.clone() } else { String::new() },
            told: (read.status.now.clone(), 0),
            wave: read.status.wave,
        };
        self.insert(binding.clone(), moving);
        self.dirty.insert(binding);
    }

    /// Adds a move that has begun.
    pub fn insert(&mut self, binding: Key, moving: ActiveMove) {
        self.unreported.add(&moving.needs, &self.on_its_way(&moving));
        if moving.intent.is_none() {
            self.deadlines.insert((moving.deadline, binding.clone()));
        }
        self.moving.insert(binding, moving);
    }

    /// Records that a binding was written as intended, and starts the deadline of the move.
    pub fn confirm_written(&mut self, binding: &Key, deadline: Time) {
        let Some(mut moving) = self.remove(binding) else { return };
        (moving.intent, moving.deadline) = (None, deadline);
        self.insert(binding.clone(), moving);
    }

    /// Records that the end of a move was not written, and must be decided again.
    pub fn resume(&mut self, binding: &Key) {
        let Some(mut moving) = self.remove(binding) else { return };
        moving.intent = None;
        self.insert(binding.clone(), moving);
    }

    /// Bounds deadlines after the clock was set back: no move gets more time than from now on.
    pub fn bound_deadlines(&mut self, latest: Time) {
        while let Some((deadline, binding)) = self.deadlines.last().cloned().filter(|(deadline, _)| *deadline > latest)
        {
            self.deadlines.remove(&(deadline, binding.clone()));
            self.deadlines.insert((latest, binding.clone()));
            if let Some(moving) = self.moving.get_mut(&binding) {
                moving.deadline = latest;
            }
        }
    }

    /// Removes a move that has ended.
    pub fn remove(&mut self, binding: &Key) -> Option<ActiveMove> {
        let moving = self.moving.remove(binding)?;
        self.unreported.remove(&moving.needs, &self.on_its_way(&moving));
        self.deadlines.remove(&(moving.deadline, binding.clone()));
        self.dirty.remove(binding);
        Some(moving)
    }

    /// Records the clusters that a move has left.
    pub fn note_departures(&mut self, moving: &ActiveMove, now: Time) {
        let left = arrivals(&moving.to, &moving.from);
        self.vacated.extend(left.0.into_keys().map(|cluster| (cluster, now)));
    }

    /// Returns the arriving replicas of a move that clusters do not count yet.
    fn on_its_way(&self, moving: &ActiveMove) -> Arrivals {
        if !self.reserves {
            return moving.arriving.clone();
        }
        let assigned = moving.mark.at.iter().map(|(name, replicas)| (name.as_str(), *replicas));
        let to: Vec<(Arc<str>, i64)> =
            moving.to.iter().map(|share| (share.name.as_str().into(), i64::from(share.replicas))).collect();
        Arrivals::between(assigned, to.iter().map(|(name, replicas)| (name, *replicas)))
    }

    /// Records a move that no cluster reports: the reported capacity does not include it.
    pub fn note_unobserved(&mut self, needs: &Needs, from: &[Share], to: &[Share]) {
        // With accounts, the reservation of the binding contains it.
        if self.reserves {
            return;
        }
        self.unreported.add(needs, &arrivals(from, to));
        self.unreported.remove(needs, &arrivals(to, from));
    }
}

fn needs_of(view: &View, binding: &Key) -> Needs {
    view.get(binding).and_then(ParsedBinding::of).map(|case| Needs::of(&case.request)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use ballast_engine::karmada::Profile;
    use ballast_k8s::{GroupResource, Object, Revision};
    use ballast_scheduler::planning::Planner;
    use serde_json::json;

    use super::*;

    #[test]
    fn what_no_cluster_reports_yet_is_counted_until_all_of_it_is_taken_back() {
        let needs = Needs { requirements: None, is_workload: true };
        let three = Arrivals([("a".into(), 3)].into());
        let mut unreported = UnreportedReplicas::default();
        unreported.add(&needs, &three);
        unreported.add(&needs, &three);
        assert_eq!(unreported.0[&needs]["a"], 6);
        unreported.remove(&needs, &three);
        assert_eq!(unreported.0[&needs]["a"], 3);
        unreported.remove(&needs, &three);
        assert!(unreported.0.is_empty());
        unreported.add(&Needs { is_workload: false, ..needs }, &three);
        assert!(unreported.0.is_empty(), "what has no pods takes no room");
    }

    #[test]
    fn what_no_cluster_reports_yet_takes_the_room_of_each_of_its_replicas() {
        let cluster = |name: &str| {
            let key = Key::cluster(GroupResource::new("clusters.cluster.karmada.io"), name);
            let summary = json!({"allocatable": {"pods": "10"}, "allocated": {"pods": "2"}});
            let tree = json!({"metadata": {"name": name, "uid": name}, "spec": {"syncMode": "Push"},
                "status": {"resourceSummary": summary}});
            Arc::new(Object::decode(key, Revision(1), tree.to_string().into_bytes().into()).unwrap())
        };
        let view = View::of([cluster("a"), cluster("b")]);
        let snapshot = Planner::new(Profile::ours()).snapshot(Arc::new(view), Time::from_seconds(0));
        let mut draft = PlanBuilder::new(&snapshot);
        let mut unreported = UnreportedReplicas::default();
        let needs = Needs { requirements: None, is_workload: true };
        unreported.add(&needs, &Arrivals([("a".into(), 3)].into()));
        unreported.remove(&needs, &Arrivals([("b".into(), 1)].into()));
        unreported.apply(&mut draft);
        let pods = |name: &str| draft.clusters().find(name).unwrap().capacity.as_ref().unwrap().pods;
        assert_eq!((pods("a"), pods("b")), (5, 9));
    }
}
