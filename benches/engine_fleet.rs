//! Measures one KubeFleet scheduling cycle over a thousand clusters: `cargo bench --bench
//! engine_fleet`.
//!
//! It prints the median of many runs. The goals are 2 ms for PickAll, and 5 ms for PickN 50 with
//! three preferred terms.

#![allow(clippy::print_stdout)]

use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::{Duration, Instant};

use ballast::engine::fleet::{
    AffinityTerm, Agent, Cluster, ClusterProperty, Comparison, Decision, Direction, Health, MemberClusters, Namespaces,
    Next, Placement, PolicySnapshot, Preference, PropertyRule, Request, Requirements, Sorter, SpreadConstraint, Usage,
    WhenUnsatisfiable, decide,
};
use ballast::k8s::{Quantity, Selector, Time};

const CLUSTERS: usize = 1000;
const RUNS: usize = 200;

fn main() {
    let fleet: MemberClusters = (0..CLUSTERS).map(cluster).collect();
    let all = Placement::All(requirements());
    measure("PickAll", &fleet, all, CLUSTERS * 3 / 4);
    let preferred = vec![label("region", "r1", 40), label("tier", "gold", 25), sorter()];
    measure("PickN 50, three preferred terms", &fleet, count(50, preferred.clone(), Vec::new()), 50);
    let even = SpreadConstraint {
        max_skew: 1,
        topology_key: "region".into(),
        when_unsatisfiable: WhenUnsatisfiable::DoNotSchedule,
    };
    measure("PickN 50, spread: one cycle of fifty", &fleet, count(50, preferred, vec![even]), 1);
}

fn measure(name: &str, fleet: &MemberClusters, placement: Placement, expected: usize) {
    let snapshot =
        PolicySnapshot { name: "crp-0".into(), generation: 1, placement_generation: Ok(1), placement, status: None };
    let request = Request { now: now(), fleet, snapshot: &snapshot, bindings: &[] };
    let mut times: Vec<Duration> = (0..RUNS)
        .map(|_| {
            let start = Instant::now();
            let decision: Decision = black_box(decide(black_box(&request)));
            let time = start.elapsed();
            assert_eq!(decision.writes.len(), expected, "{name}");
            assert_eq!(decision.next == Next::Again, expected == 1);
            time
        })
        .collect();
    times.sort_unstable();
    let (median, worst) = (times[RUNS / 2], times[RUNS - 1]);
    println!("{name:<40} {median:>10.1?} median, {worst:>10.1?} worst of {RUNS}");
}

fn now() -> Time {
    Time::from_seconds(1_772_366_400)
}

/// Returns one of a thousand clusters. Every fourth is not in production.
fn cluster(index: usize) -> Cluster {
    let pairs = [
        ("env", if index.is_multiple_of(4) { "test" } else { "prod" }.to_owned()),
        ("region", format!("r{}", index % 10)),
        ("tier", ["gold", "silver", "bronze"][index % 3].to_owned()),
    ];
    let cpu = Quantity::from_millis((index as i64 * 7919) % 64_000);
    Cluster {
        name: format!("member-{index:04}").into(),
        leaving: false,
        labels: pairs.map(|(key, value)| (key.into(), value.into())).into(),
        taints: Vec::new(),
        agent: Some(Agent {
            heartbeat: Some(now()),
            joined: true,
            health: Some(Health { healthy: true, since: Some(now()) }),
        }),
        properties: BTreeMap::from([("kubernetes-fleet.io/node-count".into(), Ok(Quantity::from_units(5)))]),
        usage: BTreeMap::from([((Usage::Available, "cpu".into()), Ok(cpu))]),
        namespaces: Namespaces::NotCollected,
    }
}

fn requirements() -> Requirements {
    let nodes = ClusterProperty::parse("kubernetes-fleet.io/node-count");
    let condition =
        PropertyRule { property: nodes, expected: Ok((Comparison::GreaterOrEqual, Quantity::from_units(3))) };
    let term = AffinityTerm { labels: Ok(selector("env", "prod")), conditions: vec![condition] };
    Requirements { terms: vec![term], ..Requirements::default() }
}

fn count(wanted: usize, preferences: Vec<Preference>, constraints: Vec<SpreadConstraint>) -> Placement {
    Placement::Count { wanted: Ok(wanted), requirements: requirements(), preferences, constraints }
}

fn label(key: &str, value: &str, weight: i32) -> Preference {
    Preference { weight, labels: Ok(selector(key, value)), sorter: None }
}

fn sorter() -> Preference {
    let property = ClusterProperty::parse("resources.kubernetes-fleet.io/available-cpu");
    let sorter = Sorter { property, direction: Ok(Direction::Descending) };
    Preference { weight: 100, labels: Ok(Selector::default()), sorter: Some(sorter) }
}

fn selector(key: &str, value: &str) -> Selector {
    Selector::from_parts([(key, value)], []).expect("well formed")
}
