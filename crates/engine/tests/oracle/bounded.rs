//! Tests that decisions are bounded in time, for large sets of clusters and constraints that are
//! hard to satisfy.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use ballast_engine::karmada::{
    Affinity, Cluster, ClusterBound, ClusterCapacity, ClusterSet, Division, Mode, Pass, Placement, Profile, Request,
    Resource, Shared, SpreadBy, SpreadConstraint, Target, Workloads,
};

/// Limit of a decision: 50 ms of this thread's CPU time in a release build. A debug build is about
/// twenty times slower.
const TIME: Duration = if cfg!(debug_assertions) { Duration::from_secs(10) } else { Duration::from_millis(50) };

fn cluster(n: i64) -> Cluster {
    Cluster {
        name: format!("c{n:04}").into(),
        deleting: false,
        labels: [].into(),
        provider: format!("p{}", n % 7).into(),
        region: format!("r{}", n % 300).into(),
        zones: [format!("z{}", n % 251).into()].into(),
        taints: [].into(),
        apis: [("apps/v1".into(), "Deployment".into())].into(),
        capacity: Some(ClusterCapacity { pods: n * 7919 % 4, ..ClusterCapacity::default() }),
    }
}

fn request(placement: Placement, replicas: i32) -> Request {
    let target = |name: &str, replicas| Target { name: name.into(), replicas, components: Vec::new() };
    Request {
        resource: Resource { api_version: "apps/v1".into(), kind: "Deployment".into(), ..Resource::default() },
        placement: Some(Shared::new(placement)),
        replicas,
        targets: vec![target("c0001", 5), target("c0302", 7)],
        ..Request::default()
    }
}

/// A description of the request, the request, and the mode of the pass.
type Asked = (String, Request, Mode);

/// Returns requests with many constraints that are hard to satisfy together.
fn with_constraints() -> Vec<Asked> {
    let mut all = Vec::new();
    for (regions, zones, clusters_max) in [(3, 90, 0), (150, 150, 150), (300, 1, 100)] {
        for division in [Division::Dynamic, Division::Aggregated, Division::Duplicated] {
            for (replicas, mode) in [(160, Mode::Steady), (i32::MAX, Mode::Fresh)] {
                let spread = constraints(regions, zones, clusters_max);
                let asked = format!("{regions} {zones} {clusters_max} {division:?} {replicas} {mode:?}");
                let placement = Placement { spread, division: division.clone(), ..Placement::default() };
                all.push((asked, request(placement, replicas), mode));
            }
        }
    }
    all
}

fn constraints(regions: i64, zones: i64, clusters_max: i64) -> Vec<SpreadConstraint> {
    let spread = |by, min, max| SpreadConstraint { by, min, max };
    vec![
        spread(SpreadBy::Region, regions, regions),
        spread(SpreadBy::Zone, zones, zones),
        spread(SpreadBy::Provider, 3, 4),
        spread(SpreadBy::Cluster, 2, clusters_max),
    ]
}

/// Returns requests with bounds that are hard to satisfy, with partial scheduling, and with soft
/// constraints.
fn with_own_fields() -> Vec<Asked> {
    let bound = |min, max| ClusterBound { target: Affinity::default(), min, max };
    let mut all = Vec::new();
    for (bounds, what_fits, is_wish) in [
        (vec![bound(2, 3)], false, false),
        // Two or three on each cluster, and one too many.
        (vec![bound(2, 2)], false, false),
        (vec![bound(2, 3)], true, false),
        (Vec::new(), true, false),
        (Vec::new(), false, true),
        (vec![bound(3, i64::MAX)], true, true),
    ] {
        for division in [Division::Dynamic, Division::Aggregated] {
            for (replicas, mode) in [(161, Mode::Steady), (i32::MAX, Mode::Steady), (161, Mode::Fresh)] {
                let asked = format!("{bounds:?} {what_fits} {is_wish} {division:?} {replicas} {mode:?}");
                let (mut spread, mut wishes) = (constraints(40, 90, 150), Vec::new());
                if is_wish {
                    std::mem::swap(&mut spread, &mut wishes);
                }
                let (bounds, division) = (bounds.clone(), division.clone());
                let placement = Placement { spread, wishes, division, bounds, what_fits, ..Placement::default() };
                all.push((asked, request(placement, replicas), mode));
            }
        }
    }
    all
}

/// Returns the CPU time of this thread, so that other processes do not count. If the kernel does
/// not report it, returns elapsed time.
fn cpu_time() -> Duration {
    static BEGIN: LazyLock<Instant> = LazyLock::new(Instant::now);
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanoseconds = told.and_then(|text| text.split_whitespace().next()?.parse().ok());
    nanoseconds.map_or_else(|| BEGIN.elapsed(), Duration::from_nanos)
}

#[test]
fn five_thousand_clusters_in_three_hundred_regions_are_decided_in_time() {
    let fleet = ClusterSet::new((0..5000).map(cluster));
    let mut slowest = (Duration::ZERO, String::new());
    for (asked, request, mode) in with_constraints().into_iter().chain(with_own_fields()) {
        let mut pass = Pass::new(&fleet, &Workloads::default(), &Profile::ours());
        let begun = cpu_time();
        let decision = pass.decide_as(&request, mode);
        let taken = cpu_time() - begun;
        if taken > slowest.0 {
            let why = decision.condition().map(|condition| condition.message.to_owned());
            slowest = (taken, format!("{asked}: {why:?}"));
        }
    }
    assert!(slowest.0 < TIME, "{slowest:?}");
}
