//! Decides the ClusterRebalances that a RebalanceSchedule creates, aborts and deletes, and the time
//! of the next check. Pure.
//!
//! Follows CronJob for fields that CronJob has, too: of several missed times only the latest is
//! served, and one that Forbid delayed is created later, within its deadline. The status contains
//! the time that was served last, and names contain the time. Therefore neither a restart nor a
//! clock that steps back creates anything twice.
//!
//! Differs from CronJob (D52): Replace aborts the active ClusterRebalance instead of deleting it.
//! Moves that have begun settle, and its results can be seen and undone.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

use ballast_api::ballast::v1alpha1::{
    ConcurrencyPolicy, RebalanceScheduleSpec, RebalanceScheduleStatus, Recovery, ScheduleOn,
};
use ballast_api::conditions::{self, ConditionUpdate};
use ballast_k8s::cron::{Cron, Zone};
use ballast_k8s::{Selector, Time};
use ballast_worker::events::Severity;

/// Number of missed times above which a warning is reported.
const MISSED_MAX: usize = 100;
/// Maximum number of lost clusters that one schedule follows.
const RECOVERIES_MAX: usize = 1_000;
/// Maximum number of clusters that an annotation or a message names.
const NAMED_MAX: usize = 10;

pub struct Observed<'a> {
    pub name: &'a str,
    pub generation: i64,
    pub created: Time,
    pub spec: &'a RebalanceScheduleSpec,
    pub status: &'a RebalanceScheduleStatus,
    /// The existing ClusterRebalances that this schedule created.
    pub made: &'a [OwnedRebalance],
    /// All clusters, for schedules that wait for them.
    pub clusters: &'a [ObservedCluster<'a>],
    /// Returns whether a ClusterRebalance of this name exists that the schedule does not own.
    pub is_taken: &'a dyn Fn(&str) -> bool,
    pub now: Time,
}

/// A ClusterRebalance of the schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedRebalance {
    pub name: String,
    pub created: Time,
    pub state: OwnedState,
    /// Its `spec.abort` is set.
    pub is_aborting: bool,
    /// Whether it has an objective, and found no move with a gain.
    pub is_idle: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnedState {
    Active,
    Successful,
    /// It was aborted, or one of its moves failed.
    Failed,
}

/// The fields of a cluster that schedules use.
pub struct ObservedCluster<'a> {
    pub name: &'a str,
    pub labels: &'a [(Box<str>, Box<str>)],
    /// `None`: it has no Ready condition.
    pub ready: Option<bool>,
    /// The last change of `ready`, according to the condition of the Cluster.
    pub since: Time,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub struct ScheduleActions {
    pub make: Option<NewRebalance>,
    pub abort: Vec<String>,
    pub delete: Vec<String>,
    pub status: RebalanceScheduleStatus,
    pub events: Vec<Event>,
    pub look_again: Option<Time>,
}

/// A ClusterRebalance to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewRebalance {
    pub name: String,
    /// The time that it is created for.
    pub due: Time,
    /// The recovered clusters that it is created for. Empty: it is created by time.
    pub clusters: Vec<String>,
}

impl NewRebalance {
    /// Returns the clusters for messages: `member1, member2 and 8 more`.
    pub fn recovered(&self) -> String {
        listed(&self.clusters)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    pub severity: Severity,
    pub reason: &'static str,
    pub message: String,
}

/// A ClusterRebalance that is due now.
struct Due {
    make: NewRebalance,
    /// Whether it became due since the last check.
    is_new: bool,
}

pub fn plan(observed: &Observed<'_>) -> ScheduleActions {
    let mut plan = ScheduleActions { status: observed.status.clone(), ..ScheduleActions::default() };
    see_what_ended(observed, &mut plan);
    let due = match (&observed.spec.schedule, &observed.spec.on) {
        (Some(line), _) => by_clock(observed, line, &mut plan),
        (None, Some(on)) => by_recovery(observed, on, &mut plan),
        (None, None) => Err("neither `schedule` nor `on` is given".to_owned()),
    };
    let told = |status, reason, message| ConditionUpdate { type_: "Ready", status, reason, message };
    match &due {
        Err(error) => tell(observed, &mut plan, told("False", "Unreadable", error)),
        Ok(_) if observed.spec.suspend => tell(observed, &mut plan, told("False", "Suspended", "spec.suspend is true")),
        Ok(_) => tell(observed, &mut plan, told("True", "Scheduled", last_said(observed))),
    }
    if let Ok(Some(due)) = due
        && !observed.spec.suspend
    {
        begin(observed, due, &mut plan);
    }
    keep_history(observed, &mut plan);
    plan
}

fn tell(observed: &Observed<'_>, plan: &mut ScheduleActions, told: ConditionUpdate<'_>) {
    conditions::set(&mut plan.status.conditions, Some(observed.generation), observed.now, told);
}

fn see_what_ended(observed: &Observed<'_>, plan: &mut ScheduleActions) {
    for name in &observed.status.active {
        let made = observed.made.iter().find(|made| made.name == *name);
        let (severity, reason, what) = match made.map(|it| it.state) {
            Some(OwnedState::Active) => continue,
            Some(OwnedState::Successful) if made.is_some_and(|it| it.is_idle) => {
                (Severity::Normal, "SawCompletedRebalance", "has completed: there was nothing to gain")
            }
            Some(OwnedState::Successful) => (Severity::Normal, "SawCompletedRebalance", "has completed"),
            Some(OwnedState::Failed) => (Severity::Warning, "SawFailedRebalance", "was aborted, or moves of it failed"),
            None => (Severity::Normal, "MissingRebalance", "was active and is gone"),
        };
        plan.event(severity, reason, format!("ClusterRebalance {name} {what}"));
    }
    let active = observed.made.iter().filter(|made| made.state == OwnedState::Active);
    plan.status.active = active.map(|made| made.name.clone()).collect();
    plan.status.active.sort();
}

/// Returns a message if the newest one had nothing to do.
fn last_said(observed: &Observed<'_>) -> &'static str {
    let newest = observed.made.iter().max_by_key(|made| (made.created, &made.name));
    if newest.is_some_and(|made| made.is_idle) { "the last one had nothing to gain" } else { "" }
}

/// Returns the latest time that is not served yet.
fn by_clock(observed: &Observed<'_>, line: &str, plan: &mut ScheduleActions) -> Result<Option<Due>, String> {
    let Observed { spec, now, .. } = *observed;
    plan.status.recoveries.clear();
    let cron = Cron::parse(line).map_err(|error| error.to_string())?;
    let zone = match &spec.time_zone {
        Some(name) => Zone::find(name).ok_or_else(|| format!("unknown time zone {name:?}"))?,
        None => Zone::utc(),
    };
    let served = observed.status.last_schedule_time.unwrap_or(observed.created);
    let next = cron.next(now.max(served), &zone);
    plan.look_again = if spec.suspend { None } else { next };
    plan.status.next_schedule_time = plan.look_again;
    let Some(latest) = cron.latest(now, &zone).filter(|&latest| latest > served) else { return Ok(None) };
    // The time had not been reached at the last check.
    let is_new = observed.status.next_schedule_time.is_none_or(|next| next <= latest);
    if spec.suspend {
        return Ok(None);
    }
    if is_late(spec, latest, now) {
        if is_new {
            plan.missed(&format!("the one of {latest}"));
        }
        return Ok(None);
    }
    let missed = std::iter::successors(cron.next(served, &zone), |&time| cron.next(time, &zone));
    if missed.take_while(|&time| time <= now).take(MISSED_MAX + 1).count() > MISSED_MAX && is_new {
        let message = format!("too many missed start times: more than {MISSED_MAX} since {served}; the latest is made");
        plan.event(Severity::Warning, "TooManyMissedTimes", message);
    }
    let name = format!("{}-{}", observed.name, latest.seconds().div_euclid(60));
    Ok(Some(Due { make: NewRebalance { name, due: latest, clusters: Vec::new() }, is_new }))
}

/// Returns one ClusterRebalance for all clusters that have recovered for long enough.
fn by_recovery(observed: &Observed<'_>, on: &ScheduleOn, plan: &mut ScheduleActions) -> Result<Option<Due>, String> {
    let Observed { spec, now, .. } = *observed;
    let recovered = on.cluster_recovered.as_ref().ok_or("`on` names no event")?;
    let selector = recovered.selector().map_err(|error| error.to_string())?;
    let mut due = Vec::new();
    let mut next: Option<Time> = None;
    let mut remembered = Vec::new();
    for recovery in followed(observed, &selector) {
        let Some(ready_since) = recovery.ready_since else {
            remembered.push(recovery);
            continue;
        };
        let at = ready_since.plus_seconds(recovered.stable_for_seconds);
        if at > now {
            next = Some(next.map_or(at, |next| next.min(at)));
        } else if is_late(spec, at, now) {
            plan.missed(&format!("the recovery of {} at {ready_since}", recovery.cluster));
            continue;
        } else {
            due.push((at, recovery.clone()));
        }
        remembered.push(recovery);
    }
    plan.status.recoveries = remembered;
    plan.status.next_schedule_time = if spec.suspend { None } else { next };
    plan.look_again = next;
    let Some(latest) = due.iter().map(|(at, _)| *at).max() else { return Ok(None) };
    let name = format!("{}-{}", observed.name, digest(due.iter().map(|(_, recovery)| recovery)));
    let is_new = due.iter().any(|(_, recovery)| !observed.status.recoveries.contains(recovery))
        || observed.status.next_schedule_time.is_some_and(|next| next <= latest);
    let clusters = due.into_iter().map(|(_, recovery)| recovery.cluster).collect();
    Ok(Some(Due { make: NewRebalance { name, due: latest, clusters }, is_new }))
}

/// Returns the clusters that are lost, and those recovered. A cluster counts as lost if its Ready
/// condition is false; one that never had the condition has just joined.
fn followed(observed: &Observed<'_>, selector: &Selector) -> Vec<Recovery> {
    let known: BTreeMap<&str, Option<Time>> =
        observed.status.recoveries.iter().map(|recovery| (recovery.cluster.as_str(), recovery.ready_since)).collect();
    let mut followed = Vec::new();
    for cluster in observed.clusters.iter().filter(|cluster| selector.matches(cluster.labels)) {
        let ready_since = match (cluster.ready, known.get(cluster.name)) {
            (Some(false), _) | (None, Some(None)) => None,
            (None, _) | (Some(true), None) => continue,
            // A future time comes from a clock that has stepped back since.
            (Some(true), Some(&since)) => {
                let since = since.filter(|&since| since <= observed.now).unwrap_or(observed.now);
                // It was lost again between two checks.
                Some(if cluster.since <= observed.now { since.max(cluster.since) } else { since })
            }
        };
        followed.push(Recovery { cluster: cluster.name.to_owned(), ready_since });
    }
    followed.truncate(RECOVERIES_MAX);
    followed
}

fn is_late(spec: &RebalanceScheduleSpec, due: Time, now: Time) -> bool {
    spec.starting_deadline_seconds.is_some_and(|seconds| due.plus_seconds(seconds) < now)
}

fn begin(observed: &Observed<'_>, due: Due, plan: &mut ScheduleActions) {
    let Due { make, is_new } = due;
    let active: Vec<&OwnedRebalance> = observed.made.iter().filter(|made| made.state == OwnedState::Active).collect();
    if observed.made.iter().any(|made| made.name == make.name) {
        // The status was restored to an earlier one. The ClusterRebalance exists and is not created
        // again.
        return plan.serve(&make);
    }
    if (observed.is_taken)(&make.name) {
        let message = format!("ClusterRebalance {} is there already, and this schedule did not make it", make.name);
        plan.event(Severity::Warning, "FailedCreate", message);
        return plan.serve(&make);
    }
    match observed.spec.concurrency_policy {
        ConcurrencyPolicy::Forbid if !active.is_empty() => {
            if is_new {
                let running: Vec<String> = active.iter().map(|made| made.name.clone()).collect();
                let running = listed(&running);
                let message = format!("not made for {}: {running} is not finished, and Forbid is set", make.due);
                plan.event(Severity::Normal, "AlreadyActive", message);
            }
            return;
        }
        ConcurrencyPolicy::Replace => {
            let running = active.iter().filter(|made| !made.is_aborting);
            plan.abort = running.map(|made| made.name.clone()).collect();
            for name in plan.abort.clone() {
                plan.event(Severity::Normal, "SuccessfulAbort", format!("aborted ClusterRebalance {name}: replaced"));
            }
        }
        ConcurrencyPolicy::Forbid | ConcurrencyPolicy::Allow => {}
    }
    plan.event(Severity::Normal, "SuccessfulCreate", made_because(&make));
    plan.serve(&make);
    plan.status.active.push(make.name.clone());
    plan.status.active.sort();
    plan.make = Some(make);
}

fn made_because(make: &NewRebalance) -> String {
    match make.clusters.is_empty() {
        true => format!("made ClusterRebalance {} for {}", make.name, make.due),
        false => format!("made ClusterRebalance {} because of the recovery of {}", make.name, make.recovered()),
    }
}

fn listed(names: &[String]) -> String {
    let first = names.get(..NAMED_MAX).unwrap_or(names).join(", ");
    match names.len().saturating_sub(NAMED_MAX) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

/// Returns ten digits that follow from the recoveries, so that the same ones are never served
/// twice.
fn digest<'a>(recoveries: impl Iterator<Item = &'a Recovery>) -> String {
    let mut content = String::new();
    for Recovery { cluster, ready_since } in recoveries {
        let ready_since = ready_since.map_or(0, Time::seconds);
        content.push_str(&format!("{cluster} {ready_since}\n"));
    }
    let digest = Sha256::digest(content.as_bytes());
    digest.iter().take(5).map(|byte| format!("{byte:02x}")).collect()
}

/// Deletes the oldest finished ClusterRebalances beyond the limits.
fn keep_history(observed: &Observed<'_>, plan: &mut ScheduleActions) {
    let RebalanceScheduleSpec { successful_history_limit, failed_history_limit, .. } = observed.spec;
    for (state, limit) in
        [(OwnedState::Successful, successful_history_limit), (OwnedState::Failed, failed_history_limit)]
    {
        let mut finished: Vec<&OwnedRebalance> = observed.made.iter().filter(|made| made.state == state).collect();
        finished.sort_by_key(|made| (std::cmp::Reverse(made.created), &made.name));
        for made in finished.into_iter().skip(usize::try_from(*limit).unwrap_or(0)) {
            plan.delete.push(made.name.clone());
            plan.event(Severity::Normal, "SuccessfulDelete", format!("deleted ClusterRebalance {}", made.name));
        }
    }
}

impl ScheduleActions {
    fn event(&mut self, severity: Severity, reason: &'static str, message: String) {
        self.events.push(Event { severity, reason, message });
    }

    fn missed(&mut self, what: &str) {
        self.event(
            Severity::Warning,
            "MissSchedule",
            format!("{what} was not made within its deadline, and is skipped"),
        );
    }

    /// Records that this time, or these recoveries, are served.
    fn serve(&mut self, make: &NewRebalance) {
        self.status.last_schedule_time = Some(make.due);
        self.status.recoveries.retain(|recovery| !make.clusters.contains(&recovery.cluster));
    }
}

#[cfg(test)]
mod tests;
