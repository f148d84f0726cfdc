//! A pass: one view, many bindings, a decision for each, and at most one change for each.
//!
//! *Invariant:* clusters, groups and bindings come from one view. So a pass that serves a trigger
//! knows everything that was written before the trigger was accepted.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use super::cause::{self, Cause, Shift};
use super::news::News;
use super::underway::{MOVE, UnderWay};
use super::{commit, lower, news};
use ballast_api::asker::ASKED_BY;
use ballast_api::core::Taint;
use ballast_api::karmada::cluster::v1alpha1::Stay;
use ballast_api::karmada::work::v1alpha2::{AnyBinding, BindingSketch, GracefulEvictionTask, Trigger};
use ballast_engine::karmada::{
    self as engine, ClusterSet, Decision, Mode, Outcome, Profile, Requeue, Rules, Skip, Workloads,
};
use ballast_k8s::{Edit, Key, Object, Revision, Time, read_json};
use ballast_watch::View;
use ballast_worker::Next;
use ballast_worker::events::{Answer, Asks};

/// Everything that decisions are made from.
#[derive(Clone)]
pub struct Pass {
    pub view: Arc<View>,
    pub fleet: ClusterSet,
    pub workloads: Workloads,
    /// The clusters with NoExecute taints, and their taints.
    pub hostile: Arc<BTreeMap<Arc<str>, Vec<Taint>>>,
    pub profile: Arc<Profile>,
    pub now: Time,
    /// Whether there is room for events about successes.
    pub tells: bool,
    pub asks: Asks,
    /// The bindings that no event asked to look at.
    pub unprompted: HashSet<Key>,
}

/// The result of a pass for one binding.
#[derive(Debug)]
pub struct Judged {
    pub key: Key,
    /// The revision of the binding that was decided; `None` if the binding is gone.
    pub revision: Option<Revision>,
    /// What to write, and the version it is based on. `None`: nothing changes.
    pub change: Option<(Arc<Object>, Vec<Edit>)>,
    pub next: Next,
    /// The events to record once the change is written.
    pub news: Option<News>,
    /// How long the trigger that this pass answers has waited.
    pub waited_seconds: Option<i64>,
    /// What it came to, for whoever wrote the trigger with this debt.
    pub answer: Option<(Option<Revision>, Answer)>,
    /// What the metrics count once the pass is over: `scheduled` or `unschedulable`. A pass that is
    /// not written is made again, and counts then. `None`: nothing was decided.
    pub result: Option<&'static str>,
}

impl Judged {
    /// The binding is gone or cannot be read, so no trigger of it will have another answer.
    fn left_alone(key: Key, revision: Option<Revision>, next: Next) -> Judged {
        let answer = Some((Some(Revision(i64::MAX)), Answer::LeftAlone));
        Judged { key, revision, change: None, next, news: None, waited_seconds: None, answer, result: None }
    }
}

impl Pass {
    /// One verdict per key, in their order.
    pub fn run(&self, keys: Vec<Key>) -> Vec<Judged> {
        let mut pass = engine::Pass::new(&self.fleet, &self.workloads, &self.profile);
        keys.into_iter().map(|key| self.judge(&mut pass, key)).collect()
    }

    fn judge(&self, pass: &mut engine::Pass, key: Key) -> Judged {
        let Some(object) = self.view.get(&key).filter(|object| !object.deleting) else {
            return Judged::left_alone(key, None, Next::Done);
        };
        let revision = Some(object.revision);
        let content = object.text.content();
        let (binding, placement, mut request) = match read(&content) {
            Ok(read) => read,
            Err(fault) => {
                tracing::warn!(%key, %fault, "cannot be scheduled");
                return Judged::left_alone(key, revision, Next::Park);
            }
        };
        let trigger = Trigger::of(&binding);
        if request.is_triggered(&self.profile) && self.profile.rules == Rules::Default {
            request.evicting.retain(|cluster| !self.has_recovered(&binding, cluster));
        }
        request.evicting.extend(self.outstayed(&binding));
        let mark = UnderWay::of(&binding.metadata.annotations);
        let is_left_alone = mark.as_ref().is_some_and(|mark| {
            mark.disturbance(&request, &self.fleet, &self.profile).is_none()
                && mark.is_carried_on(&object.key, &self.view)
        });
        let decision = match is_left_alone {
            true => Decision::skipped(Skip::Unchanged, Mode::Steady),
            false => pass.decide(&request),
        };
        let is_prompted = !self.unprompted.contains(&key);
        let mut edits =
            commit::edits(&binding, placement, object.generation, trigger, &decision, is_prompted, self.now);
        // Who is decided by a pass is in no move any more (BD6).
        let is_looked_at = decision.is_scheduled() || decision.observes_generation();
        if mark.is_some() && !is_left_alone && is_looked_at {
            edits.push(Edit::remove(&["metadata", "annotations", MOVE]));
        }
        let change = (!edits.is_empty()).then(|| (Arc::clone(object), edits));
        let shift = change.is_some().then(|| decision.targets()).flatten();
        let shift = shift.and_then(|targets| Shift::between(&request.targets, targets));
        let moved = shift.as_ref().and_then(|shift| self.moved(object, shift, &request, &binding, decision.mode));
        let (outcome, mode) = named(&decision);
        let (cause, replicas) = (moved.as_ref().map(|(cause, _)| *cause), shift.as_ref().map(|shift| shift.arriving));
        tracing::debug!(%key, outcome, mode, cause, replicas, "decided");
        let answer = (!self.asks.is_empty()).then(|| (trigger.owed, answer(&decision, shift.as_ref())));
        let result = match &decision.outcome {
            Outcome::Placed(_) => Some("scheduled"),
            Outcome::Failed(_) => Some("unschedulable"),
            Outcome::Skipped(_) => None,
        };
        let is_answer = decision.mode == Mode::Fresh && decision.is_success();
        let waited_seconds = is_answer.then(|| trigger.waited_seconds(self.now)).flatten();
        let news = news::of(&key, binding, &decision, change.is_some(), self.tells);
        let news = news.map(|news| news.warning_of(&pass.overlaps(&request)).of_move(moved.map(|(_, told)| told)));
        Judged { key, revision, change, next: next(&decision), news, waited_seconds, answer, result }
    }

    /// Why replicas move, in a word and in a sentence. `None` for a first placement: nothing moves.
    fn moved(
        &self,
        object: &Object,
        shift: &Shift,
        request: &engine::Request,
        binding: &AnyBinding,
        mode: Mode,
    ) -> Option<(&'static str, String)> {
        let spec = &binding.spec;
        if spec.clusters.is_empty() && spec.graceful_eviction_tasks.is_empty() {
            return None;
        }
        let trigger = Trigger::of(binding);
        let known = self.asks.asker(&object.key, trigger.owed).map(|asker| (*asker).clone());
        let asker = known.or_else(|| trigger.asker(binding.metadata.annotations.get(ASKED_BY)));
        let cause = Cause::of(object, request, binding, &self.fleet, mode, asker);
        Some((cause.word(), cause::sentence(shift, &cause)))
    }

    /// Clusters on which the binding's tolerations have run out. The binding must not return to
    /// where it was evicted from. The taint filter has no clock, so to it such a taint looks
    /// tolerated.
    fn outstayed(&self, binding: &AnyBinding) -> impl Iterator<Item = Box<str>> {
        let tolerations = binding.spec.placement.as_ref().map_or(&[][..], |placement| &placement.cluster_tolerations);
        let is_limited = tolerations.iter().any(|toleration| toleration.toleration_seconds.is_some());
        let hostile = is_limited.then_some(&*self.hostile).into_iter().flatten();
        let is_over = |taints: &[Taint]| Stay::of(taints, tolerations, self.now).is_over(self.now);
        hostile.filter(move |(_, taints)| is_over(taints)).map(|(name, _)| Box::from(&**name))
    }

    /// Whether only a taint drove the binding out of the cluster, and the cluster has no such taint
    /// any more. Such an eviction does not block a trigger, which asks for the way back (R44, R47).
    ///
    /// Differs from Karmada (D7), where the cluster is out of the question until its task has
    /// ended.
    fn has_recovered(&self, binding: &AnyBinding, cluster: &str) -> bool {
        let mut tasks = binding.spec.graceful_eviction_tasks.iter().filter(|task| task.from_cluster == *cluster);
        !self.hostile.contains_key(cluster) && tasks.all(GracefulEvictionTask::is_by_taint)
    }
}

/// What a decision came to, for whoever asked for it.
fn answer(decision: &Decision, shift: Option<&Shift>) -> Answer {
    match (&decision.outcome, shift) {
        (Outcome::Skipped(_), _) => Answer::LeftAlone,
        (Outcome::Failed(_), _) => Answer::Nowhere,
        (Outcome::Placed(_), None) => Answer::Stayed,
        (Outcome::Placed(_), Some(shift)) => Answer::Moved(shift.arriving),
    }
}

/// The outcome and the mode of a decision, in a word each, for the log.
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
        Requeue::Unschedulable => Next::Park,
        Requeue::Backoff => Next::Retry,
    }
}

/// The binding, its placement as it is written, and what the engine is asked.
fn read(content: &[u8]) -> Result<(AnyBinding, Option<&str>, engine::Request), serde_json::Error> {
    let (binding, placement) = (read_json::<AnyBinding>(content)?, BindingSketch::placement_of(content));
    let AnyBinding { metadata, spec, status, .. } = &binding;
    let request = lower::karmada::request_with(metadata, spec, status, placement);
    Ok((binding, placement, request))
}
