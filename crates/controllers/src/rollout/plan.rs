//! Decides how far a rollout may go now: which bindings are bound, updated or deleted, and which
//! wait. Pure.
//!
//! Two bounds hold at every step. At least `target - maxUnavailable` clusters have the resources
//! ready, and at most `target + maxSurge` have them at all. The target is the number of clusters
//! that the policy wants.

use std::collections::{BTreeMap, BTreeSet};

use ballast_api::conditions::{self, ConditionUpdate};
use ballast_api::fleet::placement::v1beta1::names::SCHEDULER_FINALIZER;
use ballast_api::fleet::placement::v1beta1::{
    AnyBinding, ApplyStrategy, BindingState, IntOrPercent, RollingUpdateConfig, RolloutStrategy, RolloutStrategyType,
};
use ballast_api::meta::Condition;
use ballast_k8s::Time;

const UNAVAILABLE_PERIOD_SECONDS: i64 = 60;
const QUARTER: &str = "25%";
/// Reasons of an Available condition that is only a guess, because the state of the resources is
/// not observable.
const UNTRACKABLE: [&str; 2] = ["NotAllWorkAreAvailabilityTrackable", "WorkNotAllManifestsTrackable"];

#[derive(Clone, Copy, Debug)]
pub struct RolloutInput<'a> {
    pub strategy: &'a RolloutStrategy,
    pub wanted: DesiredClusters,
    /// Name of the latest resource snapshot.
    pub resources: &'a str,
    /// All bindings of the placement, in any order.
    pub bindings: &'a [AnyBinding],
    pub now: Time,
}

/// Number of clusters that the policy requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DesiredClusters {
    /// All clusters that the scheduler picked.
    All,
    Clusters(usize),
}

/// The next step of a binding. A binding without a step is up to date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RolloutStep {
    /// Its cluster gets the latest resources.
    Roll,
    /// It has the latest resources, but its conditions are about a former generation.
    Confirm,
    /// It has to wait.
    Hold,
    /// Its cluster is no longer used.
    Delete,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RolloutPlan {
    /// The steps by binding name.
    pub steps: BTreeMap<String, RolloutStep>,
    /// Seconds until a binding becomes ready only because time passes.
    pub next_check_seconds: Option<i64>,
    /// Deleted duplicates: the name of the remaining binding and of the deleted one.
    pub duplicates: Vec<(String, String)>,
}

pub fn plan(rollout: &RolloutInput<'_>) -> RolloutPlan {
    let mut bindings: Vec<&AnyBinding> = rollout.bindings.iter().collect();
    bindings.sort_by_key(|binding| &binding.metadata.name);
    let duplicates = remove_duplicates(&mut bindings);
    let mut plan = plan_without_twins(rollout, &bindings);
    plan.steps.extend(duplicates.iter().map(|(_, surplus)| (surplus.clone(), RolloutStep::Delete)));
    plan.duplicates = duplicates;
    plan
}

/// Removes duplicate bindings of a cluster. Returns pairs of names: the binding that stays, and the
/// removed one.
///
/// The scheduler never creates a second live binding on a cluster (R162), but another client may
/// have. The binding with the most progress stays: a bound one, then one with ready resources, then
/// the one of the scheduler. The others are deleted under any strategy, because the cluster has the
/// resources anyway.
fn remove_duplicates(bindings: &mut Vec<&AnyBinding>) -> Vec<(String, String)> {
    let mut kept: BTreeMap<&str, &AnyBinding> = BTreeMap::new();
    let is_live = |binding: &AnyBinding| !is_deleting(binding) && is_picked(binding);
    for &binding in bindings.iter().filter(|binding| is_live(binding)) {
        let first = kept.entry(&binding.spec.target_cluster).or_insert(binding);
        let rank = |binding: &AnyBinding| (is_bound(binding), fares_well(binding), is_held_by_scheduler(binding));
        if rank(binding) > rank(first) {
            *first = binding;
        }
    }
    let mut duplicates = Vec::new();
    bindings.retain(|binding| {
        let first = kept.get(binding.spec.target_cluster.as_str()).filter(|_| is_live(binding));
        let Some(first) = first.filter(|first| first.metadata.name != binding.metadata.name) else { return true };
        duplicates.push((name(first), name(binding)));
        false
    });
    duplicates
}

fn name(binding: &AnyBinding) -> String {
    binding.metadata.name.clone().unwrap_or_default()
}

/// Plans the rollout of bindings that are sorted by name.
fn plan_without_twins(rollout: &RolloutInput<'_>, bindings: &[&AnyBinding]) -> RolloutPlan {
    let mut plan = RolloutPlan::default();
    if rollout.strategy.type_ == Some(RolloutStrategyType::External) {
        return plan;
    }
    let is_live = |binding: &&&AnyBinding| !is_deleting(binding) && is_picked(binding);
    let target = match rollout.wanted {
        DesiredClusters::All => bindings.iter().filter(is_live).count(),
        DesiredClusters::Clusters(wanted) => wanted,
    };
    let config = rollout.strategy.rolling_update.clone().unwrap_or_default();
    let bounds = RolloutBounds::of(&config, target);

    let readiness = |binding: &AnyBinding| Readiness::of(binding, bounds.unavailable_period_seconds, rollout.now);
    let placed = || bindings.iter().filter(|binding| binding.spec.state != BindingState::Scheduled);
    let ready = placed().filter(|binding| readiness(binding).is_ready()).count();
    let going = placed().filter(|binding| is_deleting(binding) && readiness(binding).is_ready()).count();
    let with_resources = placed().filter(|binding| can_be_ready(binding)).count();
    plan.next_check_seconds = placed().filter_map(|binding| readiness(binding).ready_in_seconds()).min();

    let mut removable = ready.saturating_sub(going).saturating_sub(target.saturating_sub(bounds.max_unavailable));
    let mut addable = (target + bounds.max_surge).saturating_sub(with_resources);
    let take = |budget: &mut usize| {
        let is_left = *budget > 0;
        *budget -= usize::from(is_left);
        is_left
    };
    let mut steps: Vec<(&AnyBinding, RolloutStep)> = Vec::new();
    for binding in
        bindings.iter().filter(|binding| binding.spec.state == BindingState::Unscheduled && !is_deleting(binding))
    {
        // Differs from KubeFleet (D35): a binding that is not ready can go at once. Upstream's
        // scale to zero stalls.
        if !readiness(binding).is_ready() || take(&mut removable) {
            steps.push((binding, RolloutStep::Delete));
        }
    }
    for binding in bindings.iter().filter(|binding| is_bound(binding)) {
        if is_outdated(binding, rollout) {
            let may_roll = has_failed(binding) || take(&mut removable);
            steps.push((binding, if may_roll { RolloutStep::Roll } else { RolloutStep::Hold }));
        } else if current(binding, "RolloutStarted").is_none_or(|started| started.status != "True") {
            steps.push((binding, RolloutStep::Confirm));
        }
    }
    // A cluster must not get the resources while its former binding is still being removed.
    let occupied: BTreeSet<&str> = bindings
        .iter()
        .filter(|binding| is_deleting(binding))
        .map(|binding| binding.spec.target_cluster.as_str())
        .collect();
    for binding in
        bindings.iter().filter(|binding| binding.spec.state == BindingState::Scheduled && !is_deleting(binding))
    {
        let may_roll = !occupied.contains(binding.spec.target_cluster.as_str()) && take(&mut addable);
        steps.push((binding, if may_roll { RolloutStep::Roll } else { RolloutStep::Hold }));
    }
    plan.steps = steps.into_iter().map(|(binding, step)| (name(binding), step)).collect();
    plan
}

/// Returns the binding with a condition about its deleted duplicate.
pub fn without_twin(mut binding: AnyBinding, twin: &str, now: Time) -> AnyBinding {
    let message = format!("{twin} was a second binding of the placement on this cluster, and was deleted");
    let (type_, status, reason) = ("OnlyBindingOnCluster", "True", "SurplusBindingDeleted");
    let generation = binding.metadata.generation.unwrap_or_default();
    let told = ConditionUpdate { type_, status, reason, message: &message };
    conditions::set(&mut binding.status.conditions, Some(generation), now, told);
    binding
}

/// Returns the binding after its step, or `None` if nothing changes. The caller deletes.
pub fn rolled(binding: &AnyBinding, step: RolloutStep, rollout: &RolloutInput<'_>) -> Option<AnyBinding> {
    let mut rolled = binding.clone();
    if step == RolloutStep::Roll {
        rolled.spec.state = BindingState::Bound;
        rollout.resources.clone_into(&mut rolled.spec.resource_snapshot_name);
        rolled.spec.apply_strategy = rollout.strategy.apply_strategy.clone();
    }
    // A changed spec increments the generation.
    let generation = binding.metadata.generation.unwrap_or_default() + i64::from(rolled.spec != binding.spec);
    let told: &[(&str, &str, &str, &str)] = match step {
        RolloutStep::Roll | RolloutStep::Confirm => &[
            ("RolloutStarted", "True", "RolloutStarted", "the rollout to this cluster has begun"),
            ("Overridden", "True", "NoOverrideSpecified", "no override is known to the server"),
        ],
        RolloutStep::Hold => {
            &[("RolloutStarted", "False", "RolloutNotStartedYet", "the rollout strategy does not allow it yet")]
        }
        RolloutStep::Delete => return None,
    };
    for &(type_, status, reason, message) in told {
        let told = ConditionUpdate { type_, status, reason, message };
        conditions::set(&mut rolled.status.conditions, Some(generation), rollout.now, told);
    }
    (rolled != *binding).then_some(rolled)
}

struct RolloutBounds {
    max_unavailable: usize,
    max_surge: usize,
    unavailable_period_seconds: i64,
}

impl RolloutBounds {
    fn of(config: &RollingUpdateConfig, target: usize) -> RolloutBounds {
        RolloutBounds {
            max_unavailable: amount(config.max_unavailable.as_ref(), target),
            max_surge: amount(config.max_surge.as_ref(), target),
            unavailable_period_seconds: config.unavailable_period_seconds.unwrap_or(UNAVAILABLE_PERIOD_SECONDS),
        }
    }
}

/// Parses a number, or a percentage of the target rounded up. A malformed value counts as zero, the
/// safe choice.
fn amount(bound: Option<&IntOrPercent>, target: usize) -> usize {
    let text = match bound {
        Some(IntOrPercent::Number(number)) => return usize::try_from(*number).unwrap_or_default(),
        Some(IntOrPercent::Text(text)) => text,
        None => QUARTER,
    };
    match text.strip_suffix('%') {
        Some(percent) => percent.parse().map_or(0, |percent: usize| (target * percent).div_ceil(100)),
        None => text.parse().unwrap_or_default(),
    }
}

/// Whether the resources are on the cluster and ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Readiness {
    Ready,
    /// The resources count as ready in this many seconds.
    In(i64),
    NotReady,
}

impl Readiness {
    fn of(binding: &AnyBinding, period_seconds: i64, now: Time) -> Readiness {
        if is_true(binding, "DiffReported") {
            return Readiness::Ready;
        }
        let Some(available) = current(binding, "Available").filter(|_| is_true(binding, "Available")) else {
            return Readiness::NotReady;
        };
        if !UNTRACKABLE.contains(&available.reason.as_str()) {
            return Readiness::Ready;
        }
        let waited = now.seconds() - available.last_transition_time.seconds();
        if waited >= period_seconds { Readiness::Ready } else { Readiness::In(period_seconds - waited) }
    }

    fn is_ready(self) -> bool {
        self == Readiness::Ready
    }

    fn ready_in_seconds(self) -> Option<i64> {
        match self {
            Readiness::In(seconds) => Some(seconds),
            Readiness::Ready | Readiness::NotReady => None,
        }
    }
}

/// Returns the condition if it refers to the current generation of the binding. The change to
/// Unscheduled creates a new generation but changes nothing on the cluster, so the condition of the
/// previous generation remains valid.
fn current<'b>(binding: &'b AnyBinding, type_: &str) -> Option<&'b Condition> {
    let condition = binding.status.conditions.iter().find(|condition| condition.type_ == type_)?;
    let behind = binding.metadata.generation? - condition.observed_generation?;
    let behind_max = i64::from(binding.spec.state == BindingState::Unscheduled);
    (0..=behind_max).contains(&behind).then_some(condition)
}

fn is_true(binding: &AnyBinding, type_: &str) -> bool {
    current(binding, type_).is_some_and(|condition| condition.status == "True")
}

/// Returns whether the binding is reported as healthy.
fn fares_well(binding: &AnyBinding) -> bool {
    is_true(binding, "DiffReported") || is_true(binding, "Available")
}

fn can_be_ready(binding: &AnyBinding) -> bool {
    !has_failed(binding) && current(binding, "DiffReported").is_none()
}

fn has_failed(binding: &AnyBinding) -> bool {
    ["Overridden", "WorkSynchronized", "Applied", "Available"]
        .iter()
        .any(|type_| current(binding, type_).is_some_and(|condition| condition.status == "False"))
}

fn is_outdated(binding: &AnyBinding, rollout: &RolloutInput<'_>) -> bool {
    let strategy: Option<&ApplyStrategy> = rollout.strategy.apply_strategy.as_ref();
    binding.spec.resource_snapshot_name != rollout.resources || binding.spec.apply_strategy.as_ref() != strategy
}

fn is_bound(binding: &AnyBinding) -> bool {
    binding.spec.state == BindingState::Bound && !is_deleting(binding)
}

fn is_held_by_scheduler(binding: &AnyBinding) -> bool {
    binding.metadata.finalizers.iter().any(|finalizer| finalizer == SCHEDULER_FINALIZER)
}

fn is_picked(binding: &AnyBinding) -> bool {
    matches!(binding.spec.state, BindingState::Scheduled | BindingState::Bound)
}

fn is_deleting(binding: &AnyBinding) -> bool {
    binding.metadata.deletion_timestamp.is_some()
}

#[cfg(test)]
mod tests;
