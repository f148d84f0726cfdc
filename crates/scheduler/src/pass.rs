//! A pass: one view, many bindings, a decision for each, and at most one change for each.
//!
//! *Invariant:* clusters, groups and bindings come from one view. Therefore a pass that serves a
//! trigger has read everything that was written before the trigger was accepted.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use super::asking;
use super::cause::{self, Cause, TargetDiff};
use super::events::PassEvents;
use super::move_annotation::{MOVE, MoveAnnotation};
use super::reservations::{Claim, GivenRoom, Keeper, Moment, Names, Present, Room};
use super::{commit, convert, events, home, together};
use ballast_api::core::Taint;
use ballast_api::karmada::cluster::v1alpha1::Stay;
use ballast_api::karmada::work::v1alpha2::{AnyBinding, GracefulEvictionTask, LEFT_CLUSTERS, PartialBinding, Trigger};
use ballast_api::requester::ASKED_BY;
use ballast_engine::karmada::{
    self as engine, Answers, ClusterSet, Decision, Mode, Needs, Outcome, Profile, Reason, Requeue, Rules, Shortlist,
    Skip, Workloads,
};
use ballast_estimator::{Estimators, ToAsk};
use ballast_k8s::{Edit, Key, Object, Revision, Time, read_json};
use ballast_watch::{Cache, View};
use ballast_worker::events::{TriggerResult, TriggerTracker};
use ballast_worker::{Next, run_blocking};

/// The input of a pass.
#[derive(Clone)]
pub struct Pass {
    pub view: Arc<View>,
    pub fleet: ClusterSet,
    /// The capacity that is reserved on the clusters, with its holders.
    pub room: Room,
    /// The keeper that serializes decisions and records their reservations. `None`: nothing is
    /// reserved.
    pub keeper: Option<Arc<Keeper>>,
    /// The estimators, the queries of this pass, and the responses.
    pub estimators: Option<Estimators>,
    pub asked: Arc<ToAsk>,
    pub answers: Answers,
    pub workloads: Workloads,
    /// The clusters with NoExecute taints, and their taints.
    pub no_execute: Arc<BTreeMap<Arc<str>, Vec<Taint>>>,
    pub profile: Arc<Profile>,
    pub now: Time,
    /// Whether successes are recorded as events: the event queue has capacity left.
    pub records_successes: bool,
    pub triggers: TriggerTracker,
    /// The bindings that no event made dirty.
    pub initial: HashSet<Key>,
}

/// The result of a pass for one binding.
#[derive(Debug)]
pub struct PassResult {
    pub key: Key,
    /// The revision of the binding that was decided; `None` if the binding is gone.
    pub revision: Option<Revision>,
    /// The edits to write, and the version they are based on. `None`: nothing changes.
    pub change: Option<(Arc<Object>, Vec<Edit>)>,
    pub next: Next,
    /// The events to record once the change is written.
    pub events: Option<PassEvents>,
    /// Seconds that the trigger which this pass serves has waited.
    pub waited_seconds: Option<i64>,
    /// The pending pass of the trigger, and the result for its requester.
    pub trigger_result: Option<(Option<Revision>, TriggerResult)>,
    /// The label under which the metrics count the result once it is written: `scheduled` or
    /// `unschedulable`. `None`: nothing was decided.
    pub metric: Option<&'static str>,
    /// The capacity that the decision reserves until its outcome is known.
    pub claim: Option<Claim>,
}

impl PassResult {
    /// Returns the result for a binding that is deleted or invalid: all its triggers end with it.
    fn left_alone(key: Key, revision: Option<Revision>, next: Next) -> PassResult {
        let trigger_result = Some((Some(Revision(i64::MAX)), TriggerResult::LeftAlone));
        let (change, events, waited_seconds, metric, claim) = (None, None, None, None, None);
        PassResult { key, revision, change, next, events, waited_seconds, trigger_result, metric, claim }
    }
}

impl Pass {
    /// Queries the estimators for these bindings and returns the pass with the queries. Waits for
    /// the responses, so it must be called before the turn to decide is taken.
    pub async fn asked(self, cache: &Cache, keys: &[Key]) -> Pass {
        let Some(estimators) = self.estimators.clone() else { return self };
        let (cache, keys, pass) = (cache.clone(), keys.to_vec(), self.clone());
        let prepared = run_blocking(move || {
            let present = asking::present(&cache, &pass.profile, pass.now);
            let to_ask = pass.to_ask(&keys, &estimators);
            let held = asking::held_with_assumed(&present, &to_ask, &estimators);
            (to_ask, held, estimators)
        });
        let Some((to_ask, held, estimators)) = prepared.await else { return self };
        estimators.ask(&to_ask, &held).await;
        Pass { asked: Arc::new(to_ask), ..self }
    }

    fn to_ask(&self, keys: &[Key], estimators: &Estimators) -> ToAsk {
        let mut pass = engine::Pass::new(&self.fleet, &self.workloads, &self.profile);
        let mut list = Shortlist::default();
        for object in keys.iter().filter_map(|key| self.view.get(key)).filter(|object| !object.deleting) {
            let content = object.text.content();
            let Ok(ReadBinding { binding, mut request, .. }) = read(&content) else { continue };
            request.questions = Some(asking::questions(&binding.spec, &request));
            if pass.is_due(&request) {
                pass.shortlist(&request, &mut list);
            }
        }
        asking::to_ask(&pass, &list, &self.view, estimators)
    }

    /// Returns the pass over the newest view and its free capacity. Must be called while holding
    /// the turn to decide.
    #[must_use]
    pub fn renewed(self, cache: &Cache) -> Pass {
        let answers = match &self.estimators {
            Some(estimators) if !self.asked.is_empty() => {
                estimators.answers(&self.asked, &asking::present(cache, &self.profile, self.now).room.held())
            }
            _ => Answers::default(),
        };
        let Some(keeper) = &self.keeper else { return Pass { answers, ..self } };
        let Present { view, no_execute, left, room, .. } = keeper.present(cache, self.now);
        Pass { view, no_execute, fleet: left, room, answers, ..self }
    }

    /// Decides the bindings. Returns one result for each key, in the same order.
    pub fn run(&self, keys: Vec<Key>) -> Vec<PassResult> {
        let pass = engine::Pass::new(&self.fleet, &self.workloads, &self.profile);
        let mut pass = pass.with_answers(self.answers.clone());
        let objects = keys.iter().map(|key| self.view.get(key).filter(|object| !object.deleting));
        let objects: Vec<_> = objects.collect();
        let contents: Vec<_> = objects.iter().map(|object| object.map(|object| object.text.content())).collect();
        // Each binding is parsed once, for the sketch and for its decision.
        let read = |content| self.read(content);
        let mut bindings: Vec<_> = contents.iter().map(|content| content.as_deref().map(read)).collect();
        let sketched = self.sketch(&mut bindings);
        let found = objects.into_iter().zip(bindings);
        let results = keys.into_iter().zip(found).zip(sketched).map(|((key, found), sketch)| match found {
            (Some(object), Some(Ok(binding))) => self.decide_binding(&mut pass, key, object, binding, sketch),
            (Some(object), Some(Err(fault))) => {
                tracing::warn!(%key, %fault, "cannot be scheduled");
                PassResult::left_alone(key, Some(object.revision), Next::Unschedulable)
            }
            _ => PassResult::left_alone(key, None, Next::Done),
        });
        results.collect()
    }

    fn read<'t>(&self, content: &'t [u8]) -> Result<ReadBinding<'t>, serde_json::Error> {
        let mut read = read(content)?;
        if !self.answers.is_empty() {
            read.request.questions = Some(asking::questions(&read.binding.spec, &read.request));
        }
        self.complete(&read.binding, &mut read.request);
        Ok(read)
    }

    /// Decides the triggered workloads among the bindings jointly, if there are several.
    ///
    /// Differs from Karmada (D68), which decides each alone. Estimators report the capacity that is
    /// free now, not the capacity that other workloads would release. With their estimates, each
    /// workload is decided alone here as well.
    fn sketch(&self, bindings: &mut [Option<Result<ReadBinding<'_>, serde_json::Error>>]) -> Vec<Option<Decision>> {
        let asked = bindings.iter_mut().map(|read| {
            let ReadBinding { binding, request, .. } = read.as_mut()?.as_mut().ok()?;
            let is_asked = self.answers.is_empty()
                && request.is_triggered(&self.profile)
                && MoveAnnotation::of(&binding.metadata.annotations).is_none();
            is_asked.then_some(request)
        });
        together::sketch(&self.fleet, &self.profile, asked.collect())
    }

    /// Adds the input that depends on the time and on the taints of clusters to the request.
    fn complete(&self, binding: &AnyBinding, request: &mut engine::Request) {
        if request.is_triggered(&self.profile) && self.profile.rules == Rules::Default {
            request.evicting.retain(|cluster| !self.has_recovered(binding, cluster));
        }
        request.outstayed.extend(self.no_longer_tolerated(binding));
    }

    fn moment(&self) -> Moment<'_> {
        Moment { now: self.now, room: &self.room }
    }

    /// Decides one workload. `sketch` is its result in the joint decision.
    fn decide_binding(
        &self,
        pass: &mut engine::Pass,
        key: Key,
        object: &Arc<Object>,
        read: ReadBinding<'_>,
        sketch: Option<Decision>,
    ) -> PassResult {
        let ReadBinding { binding, placement, request } = read;
        let revision = Some(object.revision);
        let trigger = Trigger::of(&binding);
        let mark = MoveAnnotation::of(&binding.metadata.annotations);
        let is_left_alone = mark.as_ref().is_some_and(|mark| {
            mark.disturbance(&request, &self.fleet, &self.profile).is_none()
                && mark.is_carried_on(&object.key, &self.view)
        });
        let mut decision = match is_left_alone {
            true => Decision::skipped(Skip::Unchanged, Mode::Steady),
            false => match sketch.filter(|sketch| together::has_room(pass, &request, sketch)) {
                Some(sketch) => {
                    pass.record(&request, &sketch);
                    sketch
                }
                None => pass.decide(&request),
            },
        };
        if let Outcome::Placed(placed) = &decision.outcome
            && let Some(told) = pass.unkept(&request, &placed.targets)
        {
            decision.tell_unkept(&told);
        }
        let claim = self.give_away(pass, object, &request, &mut decision);
        let is_requested = !self.initial.contains(&key);
        let mut edits =
            commit::edits(&binding, placement, object.generation, trigger, &decision, is_requested, self.moment());
        // A binding that a pass has decided is no longer in a move (BD6).
        let is_looked_at = decision.is_scheduled() || decision.observes_generation();
        if mark.is_some() && !is_left_alone && is_looked_at {
            edits.push(Edit::remove(&["metadata", "annotations", MOVE]));
        }
        edits.extend(commit::left_clusters(&binding, &decision, &self.fleet, self.now));
        if !is_left_alone {
            let former = || home::former(&binding, &object.key, &self.view, self.now);
            edits.extend(home::edit_of_pass(&binding, &request, &decision, &self.fleet, former));
        }
        let diff = decision.targets().filter(|_| !edits.is_empty());
        let diff = diff.and_then(|targets| cause::difference(&request.targets, targets));
        let cause = diff.as_ref().map(|_| self.cause(object, &request, &binding, decision.mode));
        if let Some((cause, targets)) = cause.as_ref().zip(decision.targets()) {
            edits.extend(cause::record(&binding, targets, cause, self.now));
        }
        // A first placement moves nothing, so it has no event of a move.
        let moved = diff.as_ref().zip(cause.filter(|cause| !matches!(cause, Cause::First | Cause::Found)));
        let moved = moved.map(|(diff, cause)| (cause.word(), cause::sentence(diff, &cause)));
        let change = (!edits.is_empty()).then(|| (Arc::clone(object), edits));
        let (outcome, mode) = named(&decision);
        let (cause, replicas) = (moved.as_ref().map(|(cause, _)| *cause), diff.as_ref().map(|diff| diff.arriving));
        tracing::debug!(%key, outcome, mode, cause, replicas, "decided");
        let is_tracked = !self.triggers.is_empty();
        let trigger_result = is_tracked.then(|| (trigger.pending_pass, trigger_result(&decision, diff.as_ref())));
        let metric = match &decision.outcome {
            Outcome::Placed(_) => Some("scheduled"),
            Outcome::Failed(_) => Some("unschedulable"),
            Outcome::Skipped(_) => None,
        };
        let is_answer = decision.mode == Mode::Fresh && decision.is_success();
        let waited_seconds = is_answer.then(|| trigger.waited_seconds(self.now)).flatten();
        let events = events::of(&key, binding, &decision, change.is_some(), self.records_successes);
        let events =
            events.map(|events| events.warning_of(&pass.overlaps(&request)).of_move(moved.map(|(_, told)| told)));
        let claim = claim.filter(|_| change.is_some());
        let next = next(&decision);
        PassResult { key, revision, change, next, events, waited_seconds, trigger_result, metric, claim }
    }

    /// Reserves the capacity for arriving replicas, for the decisions that follow in this pass and
    /// in others. If capacity is the reason of a failure, the message names the workloads that
    /// reserve it.
    fn give_away(
        &self,
        pass: &mut engine::Pass,
        object: &Object,
        request: &engine::Request,
        decision: &mut Decision,
    ) -> Option<Claim> {
        let Some(keeper) = &self.keeper else {
            pass.take_answered(request, decision.targets()?);
            return None;
        };
        if let Outcome::Failed(failed) = &mut decision.outcome
            && failed.reason != Reason::NoClusterFit
            && let Some(message) = self.room.told(&failed.message, request, pass, &self.profile, Names::OfNamespace)
        {
            failed.message = message;
        }
        let arrivals = pass.take_arrivals(request, &request.targets, decision.targets()?);
        let needs = Needs::of(request).filter(|_| !arrivals.is_empty())?;
        let arrivals = arrivals.into_iter().map(|(target, copies)| (target.name, copies)).collect();
        Some(keeper.claim(GivenRoom { binding: object.key.clone(), base: object.revision, needs, arrivals }))
    }

    /// Returns the cause of a change of targets.
    fn cause(&self, object: &Object, request: &engine::Request, binding: &AnyBinding, mode: Mode) -> Cause {
        let spec = &binding.spec;
        let has_left = binding.metadata.annotations.contains_key(LEFT_CLUSTERS);
        let is_new = spec.clusters.is_empty() && spec.graceful_eviction_tasks.is_empty() && !has_left;
        if is_new && binding.status.last_scheduled_time.is_none() {
            return Cause::First;
        }
        if is_new && mode != Mode::Fresh {
            return Cause::Found;
        }
        let trigger = Trigger::of(binding);
        let known = self.triggers.requester(&object.key, trigger.pending_pass).map(|requester| (*requester).clone());
        let requester = known.or_else(|| trigger.requester(binding.metadata.annotations.get(ASKED_BY)));
        Cause::of(object, request, binding, &self.fleet, mode, requester)
    }

    /// Returns the clusters on which the binding's tolerations have expired. The binding must not
    /// return to them. The engine's taint filter has no clock, and treats such a taint as
    /// tolerated.
    fn no_longer_tolerated(&self, binding: &AnyBinding) -> impl Iterator<Item = Box<str>> {
        let tolerations = binding.spec.placement.as_ref().map_or(&[][..], |placement| &placement.cluster_tolerations);
        let is_limited = tolerations.iter().any(|toleration| toleration.toleration_seconds.is_some());
        let no_execute = is_limited.then_some(&*self.no_execute).into_iter().flatten();
        let is_over = |taints: &[Taint]| Stay::of(taints, tolerations, self.now).is_over(self.now);
        no_execute.filter(move |(_, taints)| is_over(taints)).map(|(name, _)| Box::from(&**name))
    }

    /// Returns whether the binding was evicted from the cluster only because of a taint that has
    /// been removed. Such an eviction does not block a trigger, which exists to bring workloads
    /// back (R44, R47).
    ///
    /// Differs from Karmada (D7), which excludes the cluster until the eviction task has ended.
    fn has_recovered(&self, binding: &AnyBinding, cluster: &str) -> bool {
        let mut tasks = binding.spec.graceful_eviction_tasks.iter().filter(|task| task.from_cluster == *cluster);
        !self.no_execute.contains_key(cluster) && tasks.all(GracefulEvictionTask::is_by_taint)
    }
}

/// Returns the result of a decision for the requester.
fn trigger_result(decision: &Decision, diff: Option<&TargetDiff>) -> TriggerResult {
    match (&decision.outcome, diff) {
        (Outcome::Skipped(_), _) => TriggerResult::LeftAlone,
        (Outcome::Failed(_), _) => TriggerResult::NoFit,
        (Outcome::Placed(_), None) => TriggerResult::Stayed,
        (Outcome::Placed(_), Some(diff)) => TriggerResult::Moved(diff.arriving),
    }
}

/// Returns one word each for the outcome and the mode of a decision, for the log.
fn named(decision: &Decision) -> (&'static str, &'static str) {
    let outcome = match &decision.outcome {
        Outcome::Skipped(_) => "skipped",
        Outcome::Placed(_) => "placed",
        Outcome::Failed(_) => "failed",
    };
    let mode = match decision.mode {
        Mode::Steady => "steady",
        Mode::Fresh => "fresh",
    };
    (outcome, mode)
}

fn next(decision: &Decision) -> Next {
    match decision.requeue() {
        Requeue::None => Next::Done,
        Requeue::Unschedulable => Next::Unschedulable,
        Requeue::Backoff => Next::Retry,
    }
}

/// A binding, the text of its placement, and the request to the engine.
struct ReadBinding<'t> {
    binding: AnyBinding,
    placement: Option<&'t str>,
    request: engine::Request,
}

fn read(content: &[u8]) -> Result<ReadBinding<'_>, serde_json::Error> {
    let (binding, placement) = (read_json::<AnyBinding>(content)?, PartialBinding::placement_of(content));
    let AnyBinding { metadata, spec, status, .. } = &binding;
    let request = convert::karmada::request_with(metadata, spec, status, placement);
    Ok(ReadBinding { binding, placement, request })
}
