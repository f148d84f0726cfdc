//! Tests of cases that the recorded cycles do not cover: cases that upstream handles wrongly, and
//! properties of every decision.

use std::collections::BTreeMap;

use super::*;
use ballast_k8s::{Selector, Time};

const NOW: i64 = 1_772_366_400;

fn now() -> Time {
    Time::from_seconds(NOW)
}

fn cluster(name: &str, labels: &[(&str, &str)]) -> Cluster {
    Cluster {
        name: name.into(),
        leaving: false,
        labels: labels.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect(),
        taints: Vec::new(),
        agent: Some(Agent {
            heartbeat: Some(now()),
            joined: true,
            health: Some(Health { healthy: true, since: Some(now()) }),
        }),
        properties: BTreeMap::new(),
        usage: BTreeMap::new(),
        namespaces: Namespaces::NotCollected,
    }
}

fn fleet(names: &[&str]) -> MemberClusters {
    names.iter().map(|name| cluster(name, &[])).collect()
}

fn binding(name: &str, cluster: &str, state: State, snapshot: &str) -> Binding {
    Binding {
        name: name.into(),
        cluster: cluster.into(),
        state,
        previous_state: None,
        snapshot: snapshot.into(),
        deleting: false,
        held_by_scheduler: true,
        decision: ClusterDecision {
            cluster: cluster.into(),
            selected: true,
            score: Some(Score::default()),
            reason: String::new(),
        },
    }
}

fn snapshot(placement: Placement) -> PolicySnapshot {
    PolicySnapshot { name: "crp-1".into(), generation: 1, placement_generation: Ok(1), placement, status: None }
}

fn pick_n(wanted: usize) -> Placement {
    let (preferences, constraints) = (Vec::new(), Vec::new());
    Placement::Count { wanted: Ok(wanted), requirements: Requirements::default(), preferences, constraints }
}

fn run(fleet: &MemberClusters, placement: Placement, bindings: &[Binding]) -> Decision {
    let snapshot = snapshot(placement);
    decide(&Request { now: now(), fleet, snapshot: &snapshot, bindings })
}

/// Returns the writes as text: `create c`, `patch name`, `unschedule name`, `release name`.
fn writes(decision: &Decision) -> Vec<String> {
    let text = |write: &BindingWrite| match write {
        BindingWrite::Create { decision } => format!("create {}", decision.cluster),
        BindingWrite::Patch { binding, state, .. } => format!("patch {binding} {state:?}"),
        BindingWrite::Unschedule { binding, .. } => format!("unschedule {binding}"),
        BindingWrite::Release { binding } => format!("release {binding}"),
    };
    decision.writes.iter().map(text).collect()
}

#[test]
fn r162_of_two_live_bindings_on_a_cluster_the_running_one_stays() {
    let fleet = fleet(&["a", "b"]);
    let twins = [binding("crp-a-1", "a", State::Scheduled, "crp-1"), binding("crp-a-2", "a", State::Bound, "crp-1")];
    let decision = run(&fleet, pick_n(2), &twins);
    assert_eq!(writes(&decision), ["unschedule crp-a-1", "create b"]);
}

#[test]
fn r162_an_obsolete_and_an_unscheduled_binding_become_one_live_one() {
    let fleet = fleet(&["a"]);
    let mut unscheduled = binding("crp-a-1", "a", State::Unscheduled, "crp-0");
    unscheduled.previous_state = Some(State::Bound);
    let bindings = [unscheduled, binding("crp-a-2", "a", State::Bound, "crp-0")];
    assert_eq!(writes(&run(&fleet, pick_n(1), &bindings)), ["patch crp-a-2 Bound"]);
    assert_eq!(writes(&run(&fleet, Placement::All(Requirements::default()), &bindings)), ["patch crp-a-2 Bound"]);
    assert_eq!(writes(&run(&fleet, Placement::Fixed(vec!["a".into()]), &bindings)), ["patch crp-a-2 Bound"]);
}

#[test]
fn a_cluster_that_is_named_twice_gets_one_binding() {
    let decision = run(&fleet(&["a"]), Placement::Fixed(vec!["a".into(), "a".into()]), &[]);
    assert_eq!(writes(&decision), ["create a"]);
    assert_eq!(decision.report.unwrap().decisions.len(), 1);
}

#[test]
fn r165_a_cluster_that_does_not_fit_asks_for_no_other_cycle() {
    let mut left = cluster("b", &[]);
    left.agent = None;
    let fleet: MemberClusters = [cluster("a", &[]), left].into_iter().collect();
    let decision = run(&fleet, Placement::All(Requirements::default()), &[]);
    assert_eq!((writes(&decision), decision.next), (vec!["create a".to_owned()], Next::Done));
    assert!(decision.report.unwrap().fulfilled);
}

#[test]
fn r166_one_cycle_scores_each_cluster_once_and_takes_the_best() {
    let fleet: MemberClusters = ["a", "b", "c", "d", "e"]
        .iter()
        .zip(["1", "4", "2", "5", "3"])
        .map(|(name, rank)| {
            let mut cluster = cluster(name, &[]);
            cluster.properties.insert("rank".into(), rank.parse());
            cluster
        })
        .collect();
    let sorter = Sorter { property: ClusterProperty::parse("rank"), direction: Ok(Direction::Descending) };
    let preferences = vec![Preference { weight: 100, labels: Ok(Selector::default()), sorter: Some(sorter) }];
    let (requirements, constraints) = (Requirements::default(), Vec::new());
    let placement = Placement::Count { wanted: Ok(3), requirements, preferences, constraints };
    let decision = run(&fleet, placement, &[]);
    assert_eq!(
        (writes(&decision), decision.next),
        (["create d", "create b", "create e"].map(str::to_owned).to_vec(), Next::Done)
    );
    let told = decision.report.unwrap().decisions;
    let scores: Vec<(&str, bool, i32)> =
        told.iter().map(|told| (&*told.cluster, told.selected, told.score.unwrap().affinity)).collect();
    let expected = [("d", true, 100), ("b", true, 75), ("e", true, 50), ("c", false, 25), ("a", false, 0)];
    assert_eq!(scores, expected);
}

#[test]
fn r174_what_became_of_a_picked_cluster_does_not_matter() {
    let term = AffinityTerm {
        labels: Selector::from_parts([("env", "prod")], []).map_err(Fault::Selector),
        conditions: vec![],
    };
    let requirements = Requirements { terms: vec![term], ..Requirements::default() };
    let mut unfit = cluster("a", &[("env", "test")]);
    unfit.agent = None;
    let fleet: MemberClusters = [unfit].into_iter().collect();
    let decision = run(&fleet, Placement::All(requirements), &[binding("crp-a-1", "a", State::Bound, "crp-1")]);
    assert_eq!(writes(&decision), Vec::<String>::new());
}

#[test]
fn r179_a_leaving_cluster_loses_its_binding_and_is_replaced() {
    let mut leaving = cluster("b", &[]);
    leaving.leaving = true;
    let fleet: MemberClusters = [cluster("a", &[]), leaving, cluster("c", &[])].into_iter().collect();
    let bindings = [
        binding("crp-b-1", "b", State::Bound, "crp-1"),
        binding("crp-c-1", "c", State::Bound, "crp-1"),
        binding("crp-gone-1", "gone", State::Scheduled, "crp-1"),
    ];
    let decision = run(&fleet, pick_n(2), &bindings);
    assert_eq!(writes(&decision), ["unschedule crp-b-1", "unschedule crp-gone-1", "create a"]);
}

#[test]
fn a_fault_leaves_what_is_safe_and_nothing_else() {
    let fault = Fault::Annotation { annotation: "number-of-clusters", found: None };
    let (preferences, constraints) = (Vec::new(), Vec::new());
    let wanted = Err(fault.clone());
    let requirements = Requirements::default();
    let placement = Placement::Count { wanted, requirements, preferences, constraints };
    let decision = run(&fleet(&["a"]), placement, &[binding("crp-gone-1", "gone", State::Bound, "crp-1")]);
    assert_eq!(writes(&decision), ["unschedule crp-gone-1"]);
    assert_eq!((decision.fault, decision.report), (Some(fault), None));
}

#[test]
fn a_fault_names_the_plugin_that_met_it() {
    let condition = PropertyRule {
        property: ClusterProperty::parse("resources.kubernetes-fleet.io/spare-cpu"),
        expected: Err(Fault::Values("x".into(), 2)),
    };
    let term = AffinityTerm { labels: Ok(Selector::default()), conditions: vec![condition] };
    let requirements = Requirements { terms: vec![term], ..Requirements::default() };
    let decision = run(&fleet(&["a"]), Placement::All(requirements), &[]);
    assert_eq!(decision.fault.unwrap().to_string(), "plugin ClusterAffinity failed");
}

#[test]
fn a_report_that_says_nothing_new_is_not_written() {
    let fleet = fleet(&["a", "b"]);
    let bindings = [binding("crp-a-1", "a", State::Bound, "crp-1"), binding("crp-b-1", "b", State::Bound, "crp-1")];
    let first = run(&fleet, pick_n(2), &bindings).report.unwrap();
    let mut snapshot = snapshot(pick_n(2));
    let mut shuffled = first.clone();
    shuffled.decisions.reverse();
    snapshot.status = Some(shuffled);
    let second = decide(&Request { now: now(), fleet: &fleet, snapshot: &snapshot, bindings: &bindings });
    assert_eq!(second, Decision::default());
}
