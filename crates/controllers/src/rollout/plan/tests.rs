//! Tests of the plan of a rollout.

use serde_json::{Value, json};

use super::*;

const NOW: i64 = 1_000_000;

/// Parses `state[!][ old]`: `!` is available, ` old` has the previous resources, ` gone` is being
/// deleted, ` stale` was changed by the scheduler since its rollout.
fn binding(name: &str, what: &str) -> AnyBinding {
    let mut words = what.split(' ');
    let state = words.next().unwrap();
    let words: Vec<&str> = words.collect();
    let has = |word: &str| words.contains(&word);
    let mut metadata = json!({"name": name, "generation": 1});
    if has("gone") {
        metadata["deletionTimestamp"] = json!("1970-01-12T00:00:00Z");
    }
    let condition = |type_: &str, status: &str, reason: &str| {
        json!({"type": type_, "status": status, "reason": reason, "message": "", "observedGeneration": 1,
               "lastTransitionTime": Time::from_seconds(NOW - 20).to_string()})
    };
    let mut conditions: Vec<Value> = Vec::new();
    if state.ends_with('!') {
        conditions.push(condition("Available", "True", "AllWorkAreAvailable"));
    }
    if state.starts_with("Bound") && !has("stale") {
        conditions.push(condition("RolloutStarted", "True", "RolloutStarted"));
    }
    if has("guess") {
        conditions.push(condition("Available", "True", UNTRACKABLE[0]));
    }
    if has("failed") {
        conditions.push(condition("Applied", "False", "NotAllWorkHaveBeenApplied"));
    }
    let state = state.trim_end_matches('!');
    let resources = match state {
        "Scheduled" => "",
        _ if has("old") => "crp-0-snapshot",
        _ => "crp-1-snapshot",
    };
    let cluster = name.split('-').next().unwrap();
    serde_json::from_value(json!({
        "metadata": metadata,
        "spec": {
            "state": state, "targetCluster": cluster, "resourceSnapshotName": resources,
            "schedulingPolicySnapshotName": "crp-0",
            "clusterDecision": {"clusterName": cluster, "selected": true, "reason": ""},
        },
        "status": {"conditions": conditions},
    }))
    .unwrap()
}

#[track_caller]
fn check(
    strategy: Value,
    wanted: DesiredClusters,
    bindings: &[(&str, &str)],
    expected: &[(&str, RolloutStep)],
) -> RolloutPlan {
    let strategy = serde_json::from_value(strategy).unwrap();
    let bindings: Vec<_> = bindings.iter().rev().map(|(name, what)| binding(name, what)).collect();
    let now = Time::from_seconds(NOW);
    let rollout = RolloutInput { strategy: &strategy, wanted, resources: "crp-1-snapshot", bindings: &bindings, now };
    let plan = plan(&rollout);
    let expected: BTreeMap<String, RolloutStep> =
        expected.iter().map(|(name, step)| ((*name).to_owned(), *step)).collect();
    assert_eq!(plan.steps, expected);
    plan
}

fn rolling(max_unavailable: Value, max_surge: Value) -> Value {
    json!({"rollingUpdate": {"maxUnavailable": max_unavailable, "maxSurge": max_surge}})
}

#[test]
fn r172_scheduled_bindings_are_bound_up_to_the_surge() {
    let bindings = [("a-1", "Scheduled"), ("b-1", "Scheduled"), ("c-1", "Bound!")];
    let expected = [("a-1", RolloutStep::Roll), ("b-1", RolloutStep::Roll)];
    check(json!({}), DesiredClusters::Clusters(3), &bindings, &expected);
    let expected = [("a-1", RolloutStep::Roll), ("b-1", RolloutStep::Hold)];
    check(rolling(json!(1), json!(0)), DesiredClusters::Clusters(2), &bindings, &expected);
}

#[test]
fn outdated_bindings_are_updated_as_far_as_availability_allows() {
    let bindings = [("a-1", "Bound! old"), ("b-1", "Bound! old"), ("c-1", "Bound! old"), ("d-1", "Bound! old")];
    let expected = [
        ("a-1", RolloutStep::Roll),
        ("b-1", RolloutStep::Hold),
        ("c-1", RolloutStep::Hold),
        ("d-1", RolloutStep::Hold),
    ];
    check(json!({}), DesiredClusters::All, &bindings, &expected);
    let expected = [
        ("a-1", RolloutStep::Roll),
        ("b-1", RolloutStep::Roll),
        ("c-1", RolloutStep::Hold),
        ("d-1", RolloutStep::Hold),
    ];
    check(rolling(json!("50%"), json!(0)), DesiredClusters::All, &bindings, &expected);
    // No cluster may be unavailable, so no working binding is updated. A failed one is.
    let bindings = [("a-1", "Bound! old"), ("b-1", "Bound old failed")];
    let expected = [("a-1", RolloutStep::Hold), ("b-1", RolloutStep::Roll)];
    check(rolling(json!(0), json!(0)), DesiredClusters::Clusters(2), &bindings, &expected);
}

#[test]
fn of_two_live_bindings_on_a_cluster_the_one_that_is_furthest_stays() {
    let mut bindings = vec![binding("a-1", "Scheduled"), binding("a-2", "Bound!"), binding("a-3", "Bound!")];
    bindings.push(binding("b-1", "Bound!"));
    for binding in &mut bindings[..3] {
        binding.spec.target_cluster = "a".to_owned();
    }
    let (strategy, now) = (RolloutStrategy::default(), Time::from_seconds(NOW));
    let resources = "crp-1-snapshot";
    let plan =
        plan(&RolloutInput { strategy: &strategy, wanted: DesiredClusters::All, resources, bindings: &bindings, now });
    let expected = [("a-1", RolloutStep::Delete), ("a-3", RolloutStep::Delete)];
    assert_eq!(plan.steps, expected.map(|(name, step)| (name.to_owned(), step)).into());
    let duplicates = [("a-2", "a-1"), ("a-2", "a-3")];
    assert_eq!(plan.duplicates, duplicates.map(|(kept, gone)| (kept.to_owned(), gone.to_owned())));
}

#[test]
fn of_two_that_are_as_far_the_one_that_fares_well_stays_and_then_the_one_that_the_scheduler_made() {
    for (by_hand, made, expected) in [
        ("Bound!", "Bound!", ("a-2", "a-1")),
        ("Bound", "Bound", ("a-2", "a-1")),
        ("Bound!", "Bound", ("a-1", "a-2")),
        ("Scheduled", "Scheduled", ("a-2", "a-1")),
    ] {
        let (by_hand, mut made) = (binding("a-1", by_hand), binding("a-2", made));
        made.metadata.finalizers.push(SCHEDULER_FINALIZER.to_owned());
        let duplicates = remove_duplicates(&mut vec![&by_hand, &made]);
        assert_eq!(duplicates, [(expected.0.to_owned(), expected.1.to_owned())]);
    }
}

#[test]
fn of_two_bindings_on_one_cluster_the_one_whose_resources_are_there_stays() {
    let bindings = [("a-1", "Bound"), ("a-2", "Bound!")];
    let plan = check(json!({}), DesiredClusters::Clusters(1), &bindings, &[("a-1", RolloutStep::Delete)]);
    assert_eq!(plan.duplicates, [("a-2".to_owned(), "a-1".to_owned())]);
}

#[test]
fn the_mark_as_unscheduled_does_not_make_a_binding_unready() {
    let mut marked = binding("a-1", "Unscheduled!");
    marked.metadata.generation = Some(2);
    assert!(current(&marked, "Available").is_some());
    marked.metadata.generation = Some(3);
    assert!(current(&marked, "Available").is_none());
}

#[test]
fn what_the_scheduler_changed_is_confirmed_and_not_rolled_again() {
    check(
        json!({}),
        DesiredClusters::All,
        &[("a-1", "Bound! stale"), ("b-1", "Bound!")],
        &[("a-1", RolloutStep::Confirm)],
    );
}

#[test]
fn unscheduled_bindings_wait_for_their_successors() {
    let bindings = [("a-1", "Unscheduled!"), ("b-1", "Bound")];
    check(rolling(json!(0), json!(1)), DesiredClusters::Clusters(1), &bindings, &[]);
    let bindings = [("a-1", "Unscheduled!"), ("b-1", "Bound!")];
    check(rolling(json!(0), json!(1)), DesiredClusters::Clusters(1), &bindings, &[("a-1", RolloutStep::Delete)]);
}

#[test]
fn a_scale_to_zero_does_not_wait_for_what_is_not_ready() {
    let bindings = [("a-1", "Unscheduled"), ("b-1", "Unscheduled!")];
    check(
        json!({}),
        DesiredClusters::Clusters(0),
        &bindings,
        &[("a-1", RolloutStep::Delete), ("b-1", RolloutStep::Delete)],
    );
}

#[test]
fn a_cluster_is_not_bound_while_its_former_binding_is_cleared_away() {
    let bindings = [("a-1", "Unscheduled gone"), ("a-2", "Scheduled")];
    check(json!({}), DesiredClusters::Clusters(1), &bindings, &[("a-2", RolloutStep::Hold)]);
}

#[test]
fn what_cannot_be_tracked_is_ready_after_a_while() {
    let bindings = [("a-1", "Bound guess old"), ("b-1", "Scheduled")];
    let strategy = rolling(json!(0), json!(0));
    let plan = check(
        strategy,
        DesiredClusters::Clusters(1),
        &bindings,
        &[("a-1", RolloutStep::Hold), ("b-1", RolloutStep::Hold)],
    );
    assert_eq!(plan.next_check_seconds, Some(40));
}

#[test]
fn an_external_strategy_is_left_to_others() {
    check(json!({"type": "External"}), DesiredClusters::All, &[("a-1", "Scheduled"), ("b-1", "Unscheduled!")], &[]);
}

#[test]
fn a_rolled_binding_says_so_at_the_generation_it_gets() {
    let strategy = RolloutStrategy::default();
    let now = Time::from_seconds(NOW);
    let rollout = RolloutInput {
        strategy: &strategy,
        wanted: DesiredClusters::All,
        resources: "crp-1-snapshot",
        bindings: &[],
        now,
    };
    let rolled_once = rolled(&binding("a-1", "Scheduled"), RolloutStep::Roll, &rollout).unwrap();
    assert_eq!(rolled_once.spec.state, BindingState::Bound);
    assert_eq!(rolled_once.spec.resource_snapshot_name, "crp-1-snapshot");
    let started = &rolled_once.status.conditions[0];
    assert_eq!((started.type_.as_str(), started.observed_generation), ("RolloutStarted", Some(2)));
    let held = rolled(&binding("a-1", "Scheduled"), RolloutStep::Hold, &rollout).unwrap();
    assert_eq!(held.status.conditions[0].reason, "RolloutNotStartedYet");
    assert_eq!(rolled(&held, RolloutStep::Hold, &rollout), None);
}
