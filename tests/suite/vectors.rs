//! Replays the recorded decisions of Karmada's scheduler (tests/vectors/karmada): as recorded, with
//! the inputs in another order, and with the result as the new input.

use std::sync::Arc;

use ballast::api::ballast::v1alpha1 as api;
use ballast::api::karmada::work::v1alpha2::key_of_workload;
use ballast::cli::simulate::{Case, Input, Options, Output, answer, inputs, read};
use ballast::clock::{Clock, ManualClock};
use ballast::engine::karmada::{Outcome, Request, Rules, check, decide};
use ballast::k8s::{Object, Revision};
use ballast::scheduler::planning::{self, PlanOptions, PlanningSnapshot};
use ballast::store::MemoryStore;
use ballast::watch;
use serde_json::Value;

use crate::support::vectors::{DIFFERENT, group, groups};

fn options() -> Options {
    Options {
        rules: Rules::Karmada,
        output: Output::Json,
        trace: false,
        check: false,
        patches: Vec::new(),
        files: Vec::new(),
    }
}

fn simulated(case: &Case) -> Value {
    answer(case, &options()).unwrap()
}

/// The differences. Messages are not compared, because upstream does not fix them.
fn differences(expect: &Value, got: &Value) -> Vec<String> {
    let mut differences = Vec::new();
    let fields = [
        "scheduled",
        "skip",
        "clusters",
        "affinityName",
        "lastScheduledTimeSet",
        "lastScheduledTimeUpdated",
        "observedGeneration",
        "appliedPlacement",
        "requeue",
    ];
    for field in fields {
        if expect[field] != got[field] {
            differences.push(format!("{field}: expected {} got {}", expect[field], got[field]));
        }
    }
    for field in ["status", "reason"] {
        let (expected, got) = (&expect["condition"][field], &got["condition"][field]);
        if expected != got {
            differences.push(format!("condition.{field}: expected {expected} got {got}"));
        }
    }
    differences
}

fn every_case(mut check: impl FnMut(&Value, &Case) -> Vec<String>) {
    let mut faults = Vec::new();
    let mut count = 0;
    for name in groups() {
        for line in group(&name).lines() {
            let value: Value = serde_json::from_str(line).unwrap();
            let Input::Karmada(case) = inputs(line).next().unwrap().unwrap() else { panic!("{line}") };
            count += 1;
            faults.extend(check(&value, &case).into_iter().map(|fault| format!("{}: {fault}", case.id)));
        }
    }
    assert!(count > 2000, "only {count} cases were found");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn decisions_are_those_recorded() {
    every_case(|value, case| {
        if DIFFERENT.iter().any(|(id, _)| case.id == *id) {
            return Vec::new();
        }
        let got = simulated(case);
        let found = differences(&value["expect"], &got);
        if found.is_empty() || value["stableSort"].is_null() {
            return found;
        }
        differences(&value["stableSort"], &got)
    });
}

#[test]
fn known_differences_are_no_more_than_agreed_and_still_differ() {
    assert!(DIFFERENT.len() <= 40);
    let mut seen = 0;
    every_case(|value, case| {
        if DIFFERENT.iter().all(|(id, _)| case.id != *id) {
            return Vec::new();
        }
        seen += 1;
        if differences(&value["expect"], &simulated(case)).is_empty() { vec!["does not differ".into()] } else { vec![] }
    });
    assert_eq!(seen, DIFFERENT.len());
}

#[test]
fn the_order_of_the_inputs_does_not_matter() {
    every_case(|value, case| {
        let mut shuffled = case.clone();
        shuffle(&mut shuffled.clusters, 1);
        shuffle(&mut shuffled.others, 2);
        for (seed, cluster) in shuffled.clusters.iter_mut().enumerate() {
            if let Some(Value::Array(apis)) = cluster.pointer_mut("/status/apiEnablements") {
                shuffle(apis, seed as u64);
            }
        }
        // The only significant order: Aggregated scales down from the last of equal clusters.
        let preference = &value["binding"]["spec"]["placement"]["replicaScheduling"]["replicaDivisionPreference"];
        if preference != "Aggregated"
            && let Some(Value::Array(targets)) = shuffled.binding.pointer_mut("/spec/clusters")
        {
            shuffle(targets, 3);
        }
        let (first, second) = (simulated(case), simulated(&shuffled));
        if first == second { vec![] } else { vec![format!("{first} or {second}")] }
    });
}

/// Cases with a result that, as input, gives another result. Upstream weighs regions by the present
/// placement, and reschedules Duplicated on every occasion. The recording and this scheduler agree
/// on that.
const RESTLESS: &[&str] = &["spread-031", "spread-088"];

#[test]
fn decisions_fed_back_change_nothing_and_are_free_of_faults() {
    every_case(|_, case| {
        let profile = options().profile(&case.gates);
        let (fleet, workloads, binding) = read(case).unwrap();
        let mut request = binding.request();
        let decision = decide(&fleet, &workloads, &request, &profile);
        let mut faults: Vec<String> =
            check(&fleet, &workloads, &request, &profile, &decision).iter().map(ToString::to_string).collect();
        let Outcome::Placed(placed) = &decision.outcome else { return faults };
        request.targets.clone_from(&placed.targets);
        request.placement_changed = false;
        request.force = false;
        request.last_scheduled_at = request.triggered_at.or(request.last_scheduled_at);
        request.observed_term = placed.term.clone().unwrap_or(request.observed_term);
        let again = decide(&fleet, &workloads, &request, &profile);
        let restless = RESTLESS.contains(&&*case.id);
        if !restless && again.targets().is_some_and(|targets| targets != placed.targets) {
            faults.push(format!("{:?} became {:?}", placed.targets, again.outcome));
        }
        faults
    });
}

/// Plans use another entry point than passes, with the same result.
#[tokio::test]
async fn a_plan_of_one_is_the_fresh_decision() {
    let clock: Arc<dyn Clock> = ManualClock::at("2024-04-17T15:00:05Z".parse().unwrap());
    let (now, store) = (clock.now(), Arc::new(MemoryStore::default()));
    let (cache, ..) = watch::open(store, clock, watch::Limits::default()).await.unwrap();
    let how = PlanOptions { mode: api::Mode::Fresh, limits: api::Limits::default() };
    let mut decided = 0;
    every_case(|_, case| {
        // The groups of other bindings come from the view, which holds none here.
        if !case.others.is_empty() {
            return Vec::new();
        }
        let profile = options().profile(&case.gates);
        let (fleet, workloads, binding) = read(case).unwrap();
        let request = Request { force: true, ..binding.request() };
        let decision = decide(&fleet, &workloads, &request, &profile);
        let namespace = case.binding["spec"]["resource"]["namespace"].as_str().unwrap_or("shop");
        let key = key_of_workload("Deployment", namespace, &case.id);
        let text = serde_json::to_vec(&case.binding).unwrap();
        let object = Arc::new(Object::decode(key, Revision(1), text.into()).unwrap());
        let present = PlanningSnapshot {
            clearing: None,
            view: cache.view(),
            clusters: fleet,
            room: Default::default(),
            asking: None,
            names: Default::default(),
            no_execute: Arc::default(),
            unready: Arc::default(),
            profile: Arc::new(profile),
            now,
            supposed: Default::default(),
        };
        let Some(planned) = planning::ParsedBinding::of(&object) else { return Vec::new() };
        let plan = planning::plan(&present, vec![planned.clone()], &how, api::Order::Name);
        let moved = plan.moves.first().map(|planned| &planned.to);
        let agree = match &decision.outcome {
            Outcome::Placed(placed) if planned.is_at(&placed.targets) => plan.summary.unchanged == 1,
            Outcome::Placed(placed) => moved == Some(&placed.targets),
            Outcome::Failed(_) => plan.unplaceable.len() == 1,
            Outcome::Skipped(_) => plan.summary.unchanged == 1 && plan.stays.is_empty(),
        };
        decided += usize::from(decision.is_success());
        if agree { vec![] } else { vec![format!("{:?} became {moved:?} {:?}", decision.outcome, plan.unplaceable)] }
    });
    assert!(decided > 1000, "only {decided} fitted");
}

/// A Fisher-Yates shuffle with a fixed random sequence.
fn shuffle<T>(items: &mut [T], seed: u64) {
    let mut state = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    for last in (1..items.len()).rev() {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        items.swap(last, (state >> 33) as usize % (last + 1));
    }
}
