//! Plans the next step of a WorkloadRebalancer: the bindings to trigger, and the status. Pure.
//!
//! Invariants: A workload that has a result is never triggered again (R95). A trigger and the
//! result that reports it belong to one plan and are committed together. The list is sorted and has
//! no duplicates.
//!
//! Choices that the seed leaves open (R83): A workload that is named twice counts once. A
//! workload that was removed from the list after its success and added again is not triggered
//! again, because its result was kept. A changed spec gives failed workloads another try (R77),
//! whatever part of it changed.

use std::collections::BTreeMap;

use serde::Serialize;

use ballast_api::fleet::placement::v1beta1::trigger;
use ballast_api::karmada::apps::v1alpha1::{
    ObjectReference, ObservedWorkload, REFERENCED_BINDING_NOT_FOUND, RebalanceResult, WorkloadRebalancerStatus,
};
use ballast_api::karmada::work::v1alpha2::Trigger;
use ballast_k8s::{Edit, Key, Time};

/// The relevant parts of the rebalancer.
#[derive(Clone, Copy, Debug)]
pub struct RebalancerState<'a> {
    pub created: Time,
    pub generation: i64,
    pub workloads: &'a [ObjectReference],
    pub status: &'a WorkloadRebalancerStatus,
}

/// The object found for a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TriggerTarget {
    Binding(Key, Trigger),
    /// A placement of the KubeFleet family, with its last trigger timestamp.
    Placement(Key, Option<Time>),
    /// The workload has no binding.
    Nothing,
    /// The write to the binding was refused, and is retried later (R78).
    Refused,
}

#[derive(Clone, Debug, PartialEq)]
pub struct TriggerPlan {
    /// The bindings to trigger, with the timestamp to write.
    pub triggers: Vec<(Key, Time)>,
    pub status: WorkloadRebalancerStatus,
    pub then: FollowUp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FollowUp {
    /// All results are present.
    Finished,
    /// There are more workloads than one plan may trigger. Plan again after this plan.
    Continue,
    /// The writes to some bindings were refused. Retry them later.
    Retry,
}

/// The stored form of the status, sorted by name.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SortedStatus<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    finish_time: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    observed_generation: Option<i64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    observed_workloads: Vec<SortedEntry<'a>>,
}

#[derive(Serialize)]
struct SortedEntry<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<RebalanceResult>,
    workload: &'a ObjectReference,
}

impl SortedEntry<'_> {
    fn of(observed: &ObservedWorkload) -> SortedEntry<'_> {
        let ObservedWorkload { workload, result, reason } = observed;
        SortedEntry { reason: reason.as_deref(), result: *result, workload }
    }
}

/// Returns the edit that writes the status. A long list is serialized without a
/// tree.
pub fn edit(status: &WorkloadRebalancerStatus) -> Result<Edit, serde_json::Error> {
    let WorkloadRebalancerStatus { observed_workloads, observed_generation, finish_time } = status;
    let observed_workloads = observed_workloads.iter().map(SortedEntry::of).collect();
    let (observed_generation, finish_time) = (*observed_generation, *finish_time);
    Edit::write(&["status"], &SortedStatus { finish_time, observed_generation, observed_workloads })
}

/// Returns whether there is nothing to plan. Cheap, so that finished rebalancers cost nothing.
pub fn is_settled(request: RebalancerState<'_>) -> bool {
    let status = request.status;
    observed_generation(request) >= request.generation
        && status.finish_time.is_some()
        && status.observed_workloads.iter().all(|observed| observed.result.is_some())
}

/// Plans at most `triggers_max` triggers.
pub fn plan(
    request: RebalancerState<'_>,
    find: impl Fn(&ObjectReference) -> TriggerTarget,
    now: Time,
    triggers_max: usize,
) -> TriggerPlan {
    resume(request, merge(request), find, now, triggers_max)
}

/// Plans with known entries of the status: those of the previous plan if its follow-up is
/// `Continue`.
pub fn resume(
    request: RebalancerState<'_>,
    mut entries: Vec<ObservedWorkload>,
    find: impl Fn(&ObjectReference) -> TriggerTarget,
    now: Time,
    triggers_max: usize,
) -> TriggerPlan {
    // A workload that joins an old rebalancer is triggered with the present time. The creation of
    // the rebalancer may be long before the binding's last pass (C11).
    let cause = match observed_generation(request) {
        0 => request.created,
        _ => request.created.max(now),
    };
    let mut triggers = Vec::new();
    let (mut left, mut refused) = (false, false);
    for entry in entries.iter_mut().filter(|entry| entry.result.is_none()) {
        if triggers.len() == triggers_max {
            left = true;
            break;
        }
        match find(&entry.workload) {
            TriggerTarget::Binding(key, known) => {
                triggers.push((key, known.timestamp(cause)));
                entry.result = Some(RebalanceResult::Successful);
            }
            TriggerTarget::Placement(key, known) => {
                triggers.push((key, trigger::next(known, cause)));
                entry.result = Some(RebalanceResult::Successful);
            }
            TriggerTarget::Nothing => {
                entry.result = Some(RebalanceResult::Failed);
                entry.reason = Some(REFERENCED_BINDING_NOT_FOUND.to_owned());
            }
            TriggerTarget::Refused => refused = true,
        }
    }
    let finish_time = match (left || refused, request.status.finish_time) {
        (true, _) => None,
        (false, Some(finished)) if !has_new_result(&entries, &request.status.observed_workloads) => Some(finished),
        (false, _) => Some(now),
    };
    let observed_generation = if left { request.status.observed_generation } else { Some(request.generation) };
    let then = match (left, refused) {
        (true, _) => FollowUp::Continue,
        (false, true) => FollowUp::Retry,
        (false, false) => FollowUp::Finished,
    };
    let status = WorkloadRebalancerStatus { observed_workloads: entries, observed_generation, finish_time };
    TriggerPlan { triggers, status, then }
}

/// Returns the entries of the status in order (C12), with the results that are still valid.
fn merge(request: RebalancerState<'_>) -> Vec<ObservedWorkload> {
    let mut entries: BTreeMap<String, ObservedWorkload> = request
        .workloads
        .iter()
        .map(|workload| (order(workload), ObservedWorkload { workload: workload.clone(), result: None, reason: None }))
        .collect();
    let spec_changed = observed_generation(request) < request.generation;
    for observed in &request.status.observed_workloads {
        let succeeded = observed.result == Some(RebalanceResult::Successful);
        let name = order(&observed.workload);
        match entries.get_mut(&name) {
            Some(_) if spec_changed && !succeeded => {}
            Some(entry) => *entry = observed.clone(),
            None if succeeded => drop(entries.insert(name, observed.clone())),
            None => {}
        }
    }
    entries.into_values().collect()
}

/// Returns the sort key of an entry, `apiVersion/kind/namespace/name`. The seed joins with a slash,
/// upstream's code with a blank. The order differs for names with `-` or `.`, which sort before the
/// slash (C12).
fn order(workload: &ObjectReference) -> String {
    let ObjectReference { api_version, kind, namespace, name } = workload;
    let namespace = namespace.as_deref().unwrap_or_default();
    format!("{api_version}/{kind}/{namespace}/{name}")
}

/// Returns whether some workload has a new result.
fn has_new_result(new: &[ObservedWorkload], old: &[ObservedWorkload]) -> bool {
    let old: BTreeMap<String, Option<RebalanceResult>> =
        old.iter().map(|observed| (order(&observed.workload), observed.result)).collect();
    new.iter().any(|observed| old.get(&order(&observed.workload)) != Some(&observed.result))
}

/// Returns the observed generation, or 0 before the first plan.
fn observed_generation(request: RebalancerState<'_>) -> i64 {
    request.status.observed_generation.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ballast_k8s::GroupResource;

    const CREATED: i64 = 100;

    fn at(seconds: i64) -> Time {
        Time::from_seconds(seconds)
    }

    fn workload(name: &str) -> ObjectReference {
        ObjectReference {
            api_version: "apps/v1".to_owned(),
            kind: "Deployment".to_owned(),
            namespace: Some("shop".to_owned()),
            name: name.to_owned(),
        }
    }

    fn key(name: &str) -> Key {
        Key::namespaced(GroupResource::new("resourcebindings.work.karmada.io"), "shop", name)
    }

    /// Finds a binding for every workload except names with the prefix `no-` or `bad-`.
    fn found(workload: &ObjectReference) -> TriggerTarget {
        if workload.name.starts_with("no-") {
            return TriggerTarget::Nothing;
        }
        if workload.name.starts_with("bad-") {
            return TriggerTarget::Refused;
        }
        TriggerTarget::Binding(key(&workload.name), Trigger { last_scheduled: Some(at(50)), ..Trigger::default() })
    }

    /// A simulated rebalancer: each call is one plan over the given list.
    struct Life {
        status: WorkloadRebalancerStatus,
        generation: i64,
        workloads: Vec<ObjectReference>,
    }

    impl Life {
        fn new() -> Life {
            Life { status: WorkloadRebalancerStatus::default(), generation: 0, workloads: Vec::new() }
        }

        fn spec(&mut self, names: &[&str]) {
            self.workloads = names.iter().map(|name| workload(name)).collect();
            self.generation += 1;
        }

        fn request(&self) -> RebalancerState<'_> {
            RebalancerState {
                created: at(CREATED),
                generation: self.generation,
                workloads: &self.workloads,
                status: &self.status,
            }
        }

        fn plan_at(&mut self, now: i64, triggers_max: usize) -> TriggerPlan {
            let plan = plan(self.request(), found, at(now), triggers_max);
            self.status = plan.status.clone();
            plan
        }

        fn results(&self) -> Vec<(&str, Option<RebalanceResult>)> {
            self.status.observed_workloads.iter().map(|entry| (entry.workload.name.as_str(), entry.result)).collect()
        }
    }

    /// Returns the next plan from the entries of the previous one, or `None` before the first.
    fn go_on_from(life: &Life, now: i64, triggers_max: usize) -> Option<TriggerPlan> {
        let entries = life.status.observed_workloads.clone();
        let next = |entries| resume(life.request(), entries, found, at(now), triggers_max);
        (!entries.is_empty()).then(|| next(entries))
    }

    const SUCCESSFUL: Option<RebalanceResult> = Some(RebalanceResult::Successful);
    const FAILED: Option<RebalanceResult> = Some(RebalanceResult::Failed);

    #[test]
    fn r68_the_stamp_is_the_time_of_creation() {
        let mut life = Life::new();
        life.spec(&["web"]);
        let plan = life.plan_at(103, 10);
        assert_eq!(plan.triggers, [(key("web"), at(CREATED))]);
        assert_eq!(plan.then, FollowUp::Finished);
        assert_eq!(life.status.finish_time, Some(at(103)));
        assert!(is_settled(life.request()));
    }

    #[test]
    fn r66_r77_a_missing_binding_fails_until_the_spec_changes() {
        let mut life = Life::new();
        life.spec(&["no-web"]);
        assert!(!is_settled(life.request()));
        let plan = life.plan_at(100, 10);
        assert_eq!((plan.triggers.len(), plan.then), (0, FollowUp::Finished));
        assert_eq!(life.status.observed_workloads[0].reason.as_deref(), Some("ReferencedBindingNotFound"));
        assert!(is_settled(life.request()));
        life.spec(&["no-web"]);
        assert!(!is_settled(life.request()));
    }

    #[test]
    fn c12_the_order_is_that_of_the_slash_joined_text() {
        let mut life = Life::new();
        life.workloads = vec![workload("x"), workload("x")];
        life.workloads[0].namespace = Some("a".to_owned());
        life.workloads[1].namespace = Some("a-b".to_owned());
        life.generation = 1;
        life.plan_at(100, 10);
        let namespaces: Vec<&str> =
            life.status.observed_workloads.iter().map(|entry| entry.workload.namespace.as_deref().unwrap()).collect();
        assert_eq!(namespaces, ["a-b", "a"]);
    }

    #[test]
    fn c11_a_late_addition_is_triggered_at_the_time_it_was_seen() {
        let mut life = Life::new();
        life.spec(&["web"]);
        life.plan_at(100, 10);
        life.spec(&["web", "db"]);
        let plan = life.plan_at(900, 10);
        assert_eq!(plan.triggers, [(key("db"), at(900))]);
        assert_eq!(life.status.finish_time, Some(at(900)));
    }

    #[test]
    fn r80_r81_what_leaves_the_list_is_kept_only_if_it_succeeded() {
        let mut life = Life::new();
        life.spec(&["web", "no-db"]);
        life.plan_at(100, 10);
        life.spec(&["cache"]);
        life.plan_at(110, 10);
        assert_eq!(life.results(), [("cache", SUCCESSFUL), ("web", SUCCESSFUL)]);
    }

    #[test]
    fn r82_another_order_moves_only_the_observed_generation() {
        let mut life = Life::new();
        life.spec(&["web", "db"]);
        life.plan_at(100, 10);
        let before = life.status.clone();
        life.spec(&["db", "web"]);
        let plan = life.plan_at(200, 10);
        assert_eq!(plan.triggers, []);
        assert_eq!(life.status, WorkloadRebalancerStatus { observed_generation: Some(2), ..before });
    }

    #[test]
    fn r83_duplicates_count_once_and_a_returning_success_is_not_repeated() {
        let mut life = Life::new();
        life.spec(&["web", "web"]);
        assert_eq!(life.plan_at(100, 10).triggers.len(), 1);
        life.spec(&["db"]);
        life.plan_at(110, 10);
        life.spec(&["db", "web"]);
        assert_eq!(life.plan_at(120, 10).triggers, []);
    }

    #[test]
    fn r78_a_refused_stamp_leaves_result_and_reason_empty() {
        let mut life = Life::new();
        life.spec(&["bad-db", "web"]);
        let plan = life.plan_at(100, 10);
        assert_eq!(plan.then, FollowUp::Retry);
        assert_eq!(life.results(), [("bad-db", None), ("web", SUCCESSFUL)]);
        assert_eq!(life.status.finish_time, None);
        assert!(!is_settled(life.request()));
    }

    #[test]
    fn the_status_is_written_as_its_type_says() {
        let mut life = Life::new();
        life.spec(&["bad-db", "no-web", "web"]);
        for _ in 0..2 {
            let status = life.plan_at(103, 1).status;
            let written = edit(&status).unwrap().value.unwrap();
            assert_eq!(written.tree(), serde_json::to_value(&status).unwrap());
        }
        life.workloads.remove(0);
        let status = life.plan_at(104, 9).status;
        assert!(status.finish_time.is_some());
        assert_eq!(edit(&status).unwrap().value.unwrap().tree(), serde_json::to_value(&status).unwrap());
    }

    #[test]
    fn a_long_list_is_stamped_in_chunks_each_workload_once() {
        let mut life = Life::new();
        life.spec(&["a", "b", "c", "d", "e", "no-f"]);
        let mut triggered = Vec::new();
        loop {
            let again = go_on_from(&life, 100, 2);
            let plan = life.plan_at(100, 2);
            assert_eq!(again.unwrap_or_else(|| plan.clone()), plan, "what is known need not be merged");
            triggered.extend(plan.triggers.into_iter().map(|(key, time)| (key.name.to_string(), time)));
            if plan.then == FollowUp::Finished {
                break;
            }
            assert!(life.status.finish_time.is_none() && life.status.observed_generation.is_none());
        }
        let all = ["a", "b", "c", "d", "e"].map(|name| (name.to_owned(), at(CREATED)));
        assert_eq!(triggered, all);
        assert_eq!(life.status.observed_generation, Some(1));
        assert_eq!(life.results()[5], ("no-f", FAILED));
    }

    #[test]
    fn r86_a_new_ttl_leaves_the_finish_time_alone() {
        let mut life = Life::new();
        life.spec(&["no-db", "web"]);
        life.plan_at(100, 10);
        life.spec(&["no-db", "web"]);
        life.plan_at(200, 10);
        assert_eq!((life.status.finish_time, life.status.observed_generation), (Some(at(100)), Some(2)));
    }
}
