//! Large fleets and hopeless constraints: an answer comes in time, whatever is asked.

use std::time::{Duration, Instant};

use ballast_engine::karmada::{
    Cluster, ClusterCapacity, ClusterSet, Division, Mode, Pass, Placement, Profile, Request, Resource, Shared,
    SpreadBy, SpreadConstraint, Target, Workloads,
};

/// A release build has to answer within 50 ms. A debug build is some twenty times slower, and
/// shares its machine.
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

#[test]
fn five_thousand_clusters_in_three_hundred_regions_are_decided_in_time() {
    let fleet = ClusterSet::new((0..5000).map(cluster));
    let mut slowest = (Duration::ZERO, String::new());
    for (regions, zones, clusters_max) in [(3, 90, 0), (150, 150, 150), (300, 1, 100)] {
        for division in [Division::Dynamic, Division::Aggregated, Division::Duplicated] {
            for (replicas, mode) in [(160, Mode::Steady), (i32::MAX, Mode::Fresh)] {
                let spread = |by, min, max| SpreadConstraint { by, min, max };
                let spread = vec![
                    spread(SpreadBy::Region, regions, regions),
                    spread(SpreadBy::Zone, zones, zones),
                    spread(SpreadBy::Provider, 3, 4),
                    spread(SpreadBy::Cluster, 2, clusters_max),
                ];
                let placement = Placement { spread, division: division.clone(), ..Placement::default() };
                let request = request(placement, replicas);
                let mut pass = Pass::new(&fleet, &Workloads::default(), &Profile::ours());
                let begun = Instant::now();
                let decision = pass.decide_as(&request, mode);
                let taken = begun.elapsed();
                if taken > slowest.0 {
                    let why = decision.condition().map(|condition| condition.message.to_owned());
                    let asked = format!("{regions} {zones} {clusters_max} {division:?} {replicas} {mode:?}: {why:?}");
                    slowest = (taken, asked);
                }
            }
        }
    }
    assert!(slowest.0 < TIME, "{slowest:?}");
}
