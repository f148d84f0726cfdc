//! The faults that the rules of deciding settle (S1 to S6), each with its right value.

use super::*;

fn spread(by: SpreadBy, min: i64, max: i64) -> SpreadConstraint {
    SpreadConstraint { by, min, max }
}

fn over(spread: Vec<SpreadConstraint>, division: Division) -> Placement {
    Placement { spread, division, ..Placement::default() }
}

fn term(name: &str, clusters: &[&str], overflow: &[&[&str]]) -> AffinityTerm {
    let names =
        |names: &[&str]| Affinity { names: names.iter().map(|name| (*name).into()).collect(), ..Affinity::default() };
    AffinityTerm {
        name: name.into(),
        affinity: names(clusters),
        overflow: overflow.iter().map(|tier| names(tier)).collect(),
    }
}

#[test]
fn s4_aggregated_keeps_the_least_number_of_regions() {
    let clusters = [ready("east", "RE", 20), ready("west", "RW", 20)];
    let two = vec![spread(SpreadBy::Region, 2, 2), spread(SpreadBy::Cluster, 2, 2)];
    let request = deployment(over(two, Division::Aggregated), 4, &[]);
    let targets = decided(&clusters, &request).unwrap();
    assert_eq!((targets.len(), targets.iter().map(|(_, replicas)| replicas).sum::<i32>()), (2, 4), "{targets:?}");
}

#[test]
fn s4_replicas_that_a_lost_region_ran_go_to_another_one() {
    let clusters = [ready("a", "R1", 17), ready("b", "R1", 17), ready("d", "R3", 6)];
    let two = vec![spread(SpreadBy::Region, 2, 2), spread(SpreadBy::Cluster, 2, 3)];
    let request = deployment(over(two, Division::Dynamic), 8, &[("a", 3), ("b", 3)]);
    let targets = decided(&clusters, &request).unwrap();
    assert!(targets.iter().any(|(name, _)| name == "d"), "{targets:?}");
    assert!(targets.iter().all(|(name, replicas)| name == "d" || *replicas >= 3), "nothing moves: {targets:?}");
}

#[test]
fn s4_a_fresh_pass_leaves_no_region_out() {
    let clusters = [ready("east", "RE", 16), ready("west", "RW", 0)];
    let two = vec![spread(SpreadBy::Region, 2, 2), spread(SpreadBy::Cluster, 2, 2)];
    let mut request = deployment(over(two, Division::Dynamic), 4, &[("east", 2), ("west", 2)]);
    request.force = true;
    let targets = decided(&clusters, &request).unwrap();
    assert_eq!(targets.len(), 2, "{targets:?}");
}

#[test]
fn s4_fewer_replicas_than_groups_are_each_in_a_group_of_its_own() {
    let clusters = [ready("a", "R1", 9), ready("b", "R1", 9), ready("c", "R2", 9)];
    let three = vec![spread(SpreadBy::Region, 3, 3)];
    let request = deployment(over(three, Division::Dynamic), 2, &[]);
    let targets = decided(&clusters, &request).unwrap();
    assert!(targets.iter().all(|(_, replicas)| *replicas == 1) && targets.iter().any(|(name, _)| name == "c"));
}

#[test]
fn s6_a_workload_that_fled_finds_back_when_its_refuge_is_lost() {
    let terms = vec![term("primary", &["c0"], &[]), term("backup", &["c1"], &[])];
    let placement = || Placement { terms: terms.clone(), division: Division::Dynamic, ..Placement::default() };
    let mut lost = [ready("c0", "", 10), ready("c1", "", 10)];
    lost[1].taints = [taint()].into();
    let mut request = deployment(placement(), 2, &[]);
    request.observed_term = "backup".into();
    assert_eq!(decided(&lost, &request), placed(&[("c0", 2)]));
    // The refuge is too small, and the first group has room.
    let full = [ready("c0", "", 100), ready("c1", "", 8)];
    let mut request = deployment(placement(), 20, &[("c1", 2)]);
    request.observed_term = "backup".into();
    assert_eq!(decided(&full, &request), placed(&[("c0", 20)]));
    // As long as it does, the group in use stays in use.
    request.replicas = 5;
    assert_eq!(decided(&full, &request), placed(&[("c1", 5)]));
}

#[test]
fn s5_as_many_regions_are_used_as_there_must_be_for_room() {
    let clusters = [ready("r1a", "R1", 10), ready("r2a", "R2", 10), ready("r3a", "R3", 25)];
    let three = vec![spread(SpreadBy::Region, 1, 3), spread(SpreadBy::Cluster, 1, 3)];
    let targets = decided(&clusters, &deployment(over(three, Division::Dynamic), 30, &[])).unwrap();
    assert_eq!(targets.iter().map(|(_, replicas)| replicas).sum::<i32>(), 30);
}

#[test]
fn s5_a_scale_up_gives_up_a_full_cluster_for_a_roomy_one() {
    let clusters = [ready("a", "R1", 0), ready("b", "R1", 0), ready("c", "R1", 60)];
    let by_region = vec![spread(SpreadBy::Region, 1, 1), spread(SpreadBy::Cluster, 2, 2)];
    for constraints in [by_region, vec![spread(SpreadBy::Cluster, 2, 2)]] {
        let request = deployment(over(constraints, Division::Dynamic), 40, &[("a", 10), ("b", 10)]);
        assert_eq!(decided(&clusters, &request), placed(&[("a", 10), ("c", 30)]));
    }
}

#[test]
fn s5_zones_and_regions_hold_together() {
    let clusters: Vec<Cluster> = [("a1", "R1", "z1"), ("a2", "R1", "z1"), ("b1", "R2", "z2"), ("b2", "R2", "z3")]
        .into_iter()
        .map(|(name, region, zone)| Cluster { zones: [zone.into()].into(), ..ready(name, region, 100) })
        .collect();
    let zones = |count| {
        let one =
            [spread(SpreadBy::Region, 1, 1), spread(SpreadBy::Zone, count, count), spread(SpreadBy::Cluster, 1, 9)];
        deployment(over(one.to_vec(), Division::Dynamic), 4, &[])
    };
    assert_eq!(decided(&clusters, &zones(2)), placed(&[("b1", 2), ("b2", 2)]));
    let failed = decided(&clusters, &zones(9)).unwrap_err();
    assert!(failed.message.contains("zone (at least 9, at most 9)"), "{}", failed.message);
}

#[test]
fn s3_a_lack_of_room_under_a_constraint_is_no_error_of_the_placement() {
    let clusters = [ready("a", "R1", 3), ready("b", "R2", 3)];
    let one = vec![spread(SpreadBy::Cluster, 1, 1)];
    let failed = decided(&clusters, &deployment(over(one, Division::Dynamic), 5, &[])).unwrap_err();
    assert_eq!((failed.reason, failed.requeue), (Reason::Unschedulable, Requeue::Unschedulable));
    assert!(
        failed
            .message
            .ends_with("without the spread constraint by cluster (at least 1, at most 1) there would be a place"),
        "{}",
        failed.message
    );
}

fn flink(placement: Placement, workers: i32, targets: &[(&str, i32)]) -> Request {
    let pods = |name: &str, replicas| Component {
        name: name.into(),
        replicas,
        requirements: Some(Requirements { amounts: [("cpu".into(), Quantity::from_units(1))].into() }),
    };
    let held = |name: &str, replicas| TargetComponent { name: name.into(), replicas };
    let target = |(name, workers): &(&str, i32)| Target {
        name: Arc::from(*name),
        replicas: 0,
        components: vec![held("job", 1), held("task", *workers)],
    };
    Request {
        components: vec![pods("job", 1), pods("task", workers)],
        targets: targets.iter().map(target).collect(),
        ..deployment(placement, 0, &[])
    }
}

fn with_cpu(name: &str, cpu: i64) -> Cluster {
    let free = [("cpu".into(), Quantity::from_units(cpu))].into();
    Cluster { capacity: Some(ClusterCapacity { pods: 1000, free, grades: None }), ..ready(name, "", 1000) }
}

#[test]
fn s3_a_set_of_components_counts_room_and_so_does_its_growth() {
    let one = |division| over(vec![spread(SpreadBy::Cluster, 1, 1)], division);
    let clusters = [with_cpu("big", 4), with_cpu("huge", 500)];
    let names = |request: &Request, clusters: &[Cluster]| {
        decided(clusters, request).map(|targets| targets.into_iter().map(|(name, _)| name).collect::<Vec<_>>())
    };
    // Scaled from 4 to 31 pods where 4 more fit.
    let grown = flink(one(Division::Aggregated), 30, &[("big", 3)]);
    assert_eq!(names(&grown, &clusters), Ok(vec!["huge".to_owned()]));
    assert_eq!(names(&grown, &clusters[..1]).unwrap_err().reason, Reason::Unschedulable);
    // Four more fit beside the four that run.
    assert_eq!(names(&flink(one(Division::Aggregated), 7, &[("big", 3)]), &clusters), Ok(vec!["big".to_owned()]));
    // A set that goes to exactly one cluster is no copy.
    let plain = flink(one(Division::Duplicated), 20, &[]);
    assert_eq!(names(&plain, &clusters), Ok(vec!["huge".to_owned()]));
    assert_eq!(names(&plain, &clusters[..1]).unwrap_err().reason, Reason::Unschedulable);
    let only = Affinity { names: vec!["big".into()], ..Affinity::default() };
    let selected = flink(Placement { affinity: Some(only), ..Placement::default() }, 20, &[]);
    assert_eq!(names(&selected, &clusters).unwrap_err().reason, Reason::Unschedulable);
}

#[test]
fn odd_replicas_of_many_workloads_are_spread_over_all_equal_clusters() {
    let clusters: Vec<Cluster> = (0..5).map(|n| ready(&format!("c{n}"), "", 1000)).collect();
    for division in [Division::Static(None), Division::Dynamic] {
        for replicas in [1, 7] {
            let mut totals = std::collections::BTreeMap::<String, i32>::new();
            for workload in 0..1000 {
                let mut request = deployment(over(vec![], division.clone()), replicas, &[]);
                request.resource.uid = format!("8ac1-{workload}").into();
                for (name, count) in decided(&clusters, &request).unwrap() {
                    *totals.entry(name).or_default() += count;
                }
            }
            let fair = 1000 * replicas / 5;
            assert!(totals.len() == 5 && totals.values().all(|n| (n - fair).abs() < 80), "{totals:?}");
        }
    }
}

#[test]
fn zero_replicas_stay_where_they_are_with_and_without_requests() {
    let mut clusters: Vec<Cluster> = ["a", "b", "c"].map(|name| ready(name, "", 100)).into();
    for division in [Division::Aggregated, Division::Dynamic, Division::Static(None)] {
        for requests in [None, Some(Shared::new(Requirements::default()))] {
            let mut request = deployment(over(vec![], division.clone()), 0, &[("b", 1)]);
            request.requirements = requests;
            assert_eq!(decided(&clusters, &request), placed(&[("b", 0)]));
            request.targets[0].replicas = 0;
            clusters.push(ready("d", "", 100));
            assert_eq!(decided(&clusters, &request), placed(&[("b", 0)]), "also when a cluster joins");
            request.force = true;
            assert_eq!(decided(&clusters, &request), placed(&[("b", 0)]), "and when it is asked to move");
            (request.targets, request.force) = (vec![], false);
            assert_eq!(decided(&clusters, &request).unwrap().len(), 1, "first, it goes where one replica would");
            clusters.pop();
        }
    }
    // Its cluster was taken from it, and nothing else has changed.
    let mut request = deployment(over(vec![], Division::Dynamic), 0, &[]);
    (request.requirements, request.placement_changed) = (Some(Shared::new(Requirements::default())), false);
    assert!(!request.is_settled());
    assert_eq!(decided(&clusters, &request).unwrap().len(), 1);
    let mut request = deployment(Placement::default(), 0, &[]);
    for requests in [None, Some(Shared::new(Requirements::default()))] {
        request.requirements = requests;
        assert_eq!(decided(&clusters, &request), placed(&[("a", 0), ("b", 0), ("c", 0)]));
    }
}

#[test]
fn a_scale_up_brings_nothing_home_from_overflow() {
    let placement = Placement {
        terms: vec![term("idc", &["idc"], &[&["cloud1"]])],
        division: Division::Aggregated,
        ..Placement::default()
    };
    let clusters = [ready("idc", "", 7), ready("cloud1", "", 94)];
    let mut request = deployment(placement, 10, &[("idc", 3), ("cloud1", 6)]);
    request.observed_term = "idc".into();
    assert_eq!(decided(&clusters, &request), placed(&[("cloud1", 6), ("idc", 4)]));
    request.replicas = 5;
    assert_eq!(decided(&clusters, &request), placed(&[("cloud1", 2), ("idc", 3)]));
    request.replicas = 10;
    request.force = true;
    assert_eq!(decided(&clusters, &request), placed(&[("idc", 10)]));
}

#[test]
fn static_weights_move_nothing_until_they_are_edited() {
    let clusters = [ready("a", "", 9), ready("b", "", 9), ready("c", "", 9)];
    let mut request = deployment(over(vec![], Division::Static(None)), 7, &[("a", 3), ("b", 3)]);
    request.placement_changed = false;
    assert_eq!(decided(&clusters, &request), placed(&[("a", 3), ("b", 3), ("c", 1)]));
    request.replicas = 5;
    let targets = decided(&clusters, &request).unwrap();
    assert_eq!(targets.len(), 2, "one leaves, and nothing arrives: {targets:?}");
    request.placement_changed = true;
    assert_eq!(decided(&clusters, &request).unwrap().len(), 3);
}

#[test]
fn a_refused_pass_takes_away_what_is_forbidden_and_shrinks() {
    let clusters = [ready("a", "R1", 0), ready("b", "R1", 0), ready("x", "", 9)];
    let two = || over(vec![spread(SpreadBy::Region, 2, 2)], Division::Dynamic);
    let stays = |request: &Request| {
        let failed = decided(&clusters, request).unwrap_err();
        failed.meanwhile.map(|kept| kept.targets.iter().map(|t| (t.name.to_string(), t.replicas)).collect::<Vec<_>>())
    };
    // `x` has no region. The rest cannot grow, and stays.
    let more = deployment(two(), 9, &[("a", 2), ("b", 1), ("x", 3)]);
    assert_eq!(stays(&more), Some(vec![("a".to_owned(), 2), ("b".to_owned(), 1)]));
    // One region is left, which is too few for the constraint, and no reason to keep replicas.
    assert_eq!(
        stays(&deployment(two(), 2, &[("a", 2), ("b", 2)])),
        Some(vec![("a".to_owned(), 1), ("b".to_owned(), 1)])
    );
    assert_eq!(stays(&deployment(two(), 4, &[("a", 2), ("b", 2)])), None);
}
