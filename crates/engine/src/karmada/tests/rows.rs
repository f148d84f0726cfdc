//! Regression tests for the scheduling rules S1 to S8, each with its expected result.

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
    // The observed group is too small, and the first group has capacity.
    let full = [ready("c0", "", 100), ready("c1", "", 8)];
    let mut request = deployment(placement(), 20, &[("c1", 2)]);
    request.observed_term = "backup".into();
    assert_eq!(decided(&full, &request), placed(&[("c0", 20)]));
    // As long as the observed group has capacity, it stays in use.
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
    // Scaled from 4 to 31 pods, but only 4 more fit.
    let grown = flink(one(Division::Aggregated), 30, &[("big", 3)]);
    assert_eq!(names(&grown, &clusters), Ok(vec!["huge".to_owned()]));
    assert_eq!(names(&grown, &clusters[..1]).unwrap_err().reason, Reason::Unschedulable);
    // Four more fit in addition to the four running pods.
    assert_eq!(names(&flink(one(Division::Aggregated), 7, &[("big", 3)]), &clusters), Ok(vec!["big".to_owned()]));
    // A set for exactly one cluster is not duplicated.
    let plain = flink(one(Division::Duplicated), 20, &[]);
    assert_eq!(names(&plain, &clusters), Ok(vec!["huge".to_owned()]));
    assert_eq!(names(&plain, &clusters[..1]).unwrap_err().reason, Reason::Unschedulable);
    let only = Affinity { names: vec!["big".into()], ..Affinity::default() };
    let selected = flink(Placement { affinity: Some(only), ..Placement::default() }, 20, &[]);
    assert_eq!(names(&selected, &clusters).unwrap_err().reason, Reason::Unschedulable);
    // A workload for several clusters is not counted in sets, and neither is one with an
    // ineffective constraint.
    let two = over(vec![spread(SpreadBy::Cluster, 1, 2)], Division::Duplicated);
    for placement in [over(vec![], Division::Duplicated), one(Division::Static(None)), two] {
        assert_eq!(names(&flink(placement, 20, &[]), &clusters[..1]), Ok(vec!["big".to_owned()]));
    }
}

#[test]
fn members_of_a_group_that_a_pass_has_just_placed_count_for_the_next_one() {
    let member = |name: &str, affinity: &str, anti_affinity: &str| Request {
        name: name.into(),
        namespace: "default".into(),
        groups: WorkloadGroups { affinity: affinity.into(), anti_affinity: anti_affinity.into() },
        ..deployment(Placement::default(), 1, &[])
    };
    let on_a = [Target { name: "a".into(), replicas: 1, components: vec![] }];
    let mut workloads = Workloads::default();
    workloads.record(&member("first", "near", ""), &on_a);
    workloads.record(&member("second", "", "far"), &on_a);
    let (near, far) = (member("third", "near", ""), member("fourth", "", "far"));
    assert!(workloads.are_together(&near, "a") && !workloads.are_together(&near, "b"));
    assert!(!workloads.are_apart(&far, "a") && workloads.are_apart(&far, "b"));
    workloads.remove("default", "first", &near.groups);
    assert!(workloads.are_together(&near, "b"), "no member is left");
}

#[test]
fn a_cluster_that_came_and_went_makes_no_difference() {
    let (one, other) = (ready("a", "first", 1), ready("a", "second", 1));
    assert!(Difference::between(None, None).is_none());
    assert!(Difference::between(Some(&one), Some(&one)).is_none());
    assert!(Difference::between(Some(&one), Some(&other)).is_of_fit());
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
    // The workload has lost its cluster, and nothing else has changed.
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
    // `x` has no region. The others cannot grow, and keep their replicas.
    let more = deployment(two(), 9, &[("a", 2), ("b", 1), ("x", 3)]);
    assert_eq!(stays(&more), Some(vec![("a".to_owned(), 2), ("b".to_owned(), 1)]));
    // One region is left, which is too few for the constraint, but no reason to keep surplus
    // replicas.
    assert_eq!(
        stays(&deployment(two(), 2, &[("a", 2), ("b", 2)])),
        Some(vec![("a".to_owned(), 1), ("b".to_owned(), 1)])
    );
    assert_eq!(stays(&deployment(two(), 4, &[("a", 2), ("b", 2)])), None);
}

fn bound(clusters: &[&str], min: i64, max: i64) -> ClusterBound {
    ClusterBound { target: term("", clusters, &[]).affinity, min, max }
}

fn bounded(bounds: Vec<ClusterBound>, division: Division) -> Placement {
    Placement { bounds, division, ..Placement::default() }
}

fn message_of(clusters: &[Cluster], request: &Request) -> String {
    let decision = decide(&ClusterSet::new(clusters.to_vec()), &Workloads::default(), request, &Profile::ours());
    decision.condition().unwrap().message.to_owned()
}

#[test]
fn s7_each_cluster_that_gets_any_replica_has_as_many_as_its_bounds_say() {
    let clusters = [ready("a", "", 40), ready("b", "", 30), ready("c", "", 10)];
    let most = bounded(vec![bound(&["a"], 0, 3)], Division::Dynamic);
    assert_eq!(decided(&clusters, &deployment(most, 11, &[])), placed(&[("a", 3), ("b", 6), ("c", 2)]));
    // All bounds that select a cluster apply.
    let least = vec![bound(&[], 3, i64::MAX), bound(&["a", "b"], 4, 5)];
    let dynamic = bounded(least, Division::Dynamic);
    assert_eq!(decided(&clusters, &deployment(dynamic, 8, &[])), placed(&[("a", 4), ("b", 4)]));
    let few = bounded(vec![bound(&[], 0, 4)], Division::Aggregated);
    assert_eq!(decided(&clusters, &deployment(few, 6, &[])).unwrap().len(), 2);
}

#[test]
fn s7_a_steady_pass_moves_only_what_is_beyond_a_bound() {
    let clusters = [ready("a", "", 40), ready("b", "", 30), ready("c", "", 10)];
    let bounds = vec![bound(&["a"], 0, 3)];
    let request = deployment(bounded(bounds, Division::Dynamic), 8, &[("a", 5), ("b", 3)]);
    let targets = decided(&clusters, &request).unwrap();
    let on = |name: &str| targets.iter().find(|(target, _)| target == name).map_or(0, |(_, replicas)| *replicas);
    assert!(on("a") == 3 && on("b") >= 3, "{targets:?}");
}

#[test]
fn s7_what_is_beyond_its_bound_already_is_no_reason_to_refuse() {
    let fleet = ClusterSet::new(vec![ready("a", "", 40), ready("b", "", 40)]);
    let request = deployment(bounded(vec![bound(&[], 0, 3)], Division::Dynamic), 8, &[("a", 5), ("b", 3)]);
    let context = filters::AttemptContext {
        fleet: &fleet,
        workloads: &Workloads::default(),
        profile: &Profile::ours(),
        request: &request,
        placement: request.placement.as_ref().unwrap(),
        term: None,
        mode: Mode::Steady,
    };
    let broken = |b: i32| {
        let target = |(name, replicas): (&str, i32)| Target { name: name.into(), replicas, components: vec![] };
        settle::newly_broken(&context, &request.targets, &[("a", 5), ("b", b)].map(target))
    };
    assert_eq!(broken(3), None, "a has had five before");
    assert_eq!(broken(4).unwrap(), "clusterBounds of cluster b");
}

#[test]
fn s7_a_refusal_says_which_bound_is_in_the_way() {
    let clusters = [ready("a", "", 40), ready("b", "", 1)];
    let why = |bounds, replicas| message_of(&clusters, &deployment(bounded(bounds, Division::Dynamic), replicas, &[]));
    let most = why(vec![bound(&[], 0, 2)], 5);
    assert!(most.contains("clusterBounds let 2 of 2 clusters have 3 of 5 replicas at most"), "{most}");
    assert!(most.ends_with("without clusterBounds there would be a place"), "{most}");
    let least = why(vec![bound(&[], 6, i64::MAX)], 5);
    assert!(least.contains("clusterBounds give each cluster 6 replicas at least, and the workload has 5"), "{least}");
    let none = why(vec![bound(&[], 50, i64::MAX)], 5);
    assert!(
        none.contains("a must have at least 50, and can have 40, b must have at least 50, and can have 1"),
        "{none}"
    );
    let both = why(vec![bound(&["a"], 3, i64::MAX), bound(&["a", "b"], 0, 2), bound(&["b"], 2, i64::MAX)], 5);
    assert!(both.contains("a must have at least 3 and at most 2"), "{both}");
    let room = why(vec![bound(&[], 0, 2)], 50);
    assert!(room.ends_with("Clusters available replicas 41 are not enough to schedule."), "{room}");
}

#[test]
fn s7_neither_bounds_nor_a_part_concern_copies_weights_and_the_profile_of_karmada() {
    let clusters = [ready("a", "", 2), ready("b", "", 2)];
    for division in [Division::Duplicated, Division::Static(None)] {
        let free = Placement { division: division.clone(), ..Placement::default() };
        let own = Placement { bounds: vec![bound(&[], 0, 1)], what_fits: true, ..free.clone() };
        assert_eq!(decided(&clusters, &deployment(own, 6, &[])), decided(&clusters, &deployment(free, 6, &[])));
    }
    let fleet = ClusterSet::new(clusters.to_vec());
    let upstream = |placement: Placement, replicas| {
        let mut request = deployment(placement, replicas, &[]);
        request.managed = true;
        decide(&fleet, &Workloads::default(), &request, &Profile::karmada())
    };
    let own = bounded(vec![bound(&[], 0, 1)], Division::Dynamic);
    assert_eq!(upstream(own, 4), upstream(over(vec![], Division::Dynamic), 4));
    let part = Placement { what_fits: true, ..over(vec![], Division::Dynamic) };
    assert_eq!(upstream(part, 5), upstream(over(vec![], Division::Dynamic), 5));
    let regions = vec![spread(SpreadBy::Region, 2, 2), spread(SpreadBy::Cluster, 1, 2)];
    let wish = Placement { wishes: regions.clone(), ..over(vec![], Division::Dynamic) };
    assert_eq!(upstream(wish, 2), upstream(over(regions, Division::Dynamic), 2), "there it is a constraint");
}

#[test]
fn a_part_is_placed_and_the_rest_when_there_is_room() {
    let placement = || Placement { what_fits: true, ..over(vec![], Division::Dynamic) };
    let full = [ready("a", "", 3), ready("b", "", 1)];
    let failed = decided(&full, &deployment(placement(), 6, &[])).unwrap_err();
    assert_eq!((failed.reason, failed.requeue), (Reason::PartlyScheduled, Requeue::Unschedulable));
    assert!(failed.message.starts_with("4 of 6 replicas are placed, and the others wait: "), "{}", failed.message);
    let there = |failed: &Failed| -> Vec<(String, i32)> {
        let targets = &failed.meanwhile.as_ref().unwrap().targets;
        targets.iter().map(|target| (target.name.to_string(), target.replicas)).collect()
    };
    assert_eq!(there(&failed), [("a".to_owned(), 3), ("b".to_owned(), 1)]);
    // The placed replicas stay, and the rest follows.
    let grown = [ready("a", "", 0), ready("b", "", 1)];
    let failed = decided(&grown, &deployment(placement(), 6, &[("a", 3), ("b", 1)])).unwrap_err();
    assert_eq!(there(&failed), [("a".to_owned(), 3), ("b".to_owned(), 2)]);
    let enough = [ready("a", "", 0), ready("b", "", 2)];
    assert_eq!(decided(&enough, &deployment(placement(), 6, &[("a", 3), ("b", 1)])), placed(&[("a", 3), ("b", 3)]));
    // Nothing is written if nothing has changed.
    let same = [ready("a", "", 0), ready("b", "", 0)];
    let failed = decided(&same, &deployment(placement(), 6, &[("a", 3), ("b", 1)])).unwrap_err();
    assert_eq!((failed.reason, failed.meanwhile), (Reason::PartlyScheduled, None));
}

#[test]
fn s6_of_groups_that_take_a_part_the_one_that_takes_most_counts_and_one_that_takes_all_comes_first() {
    let terms = vec![term("small", &["a"], &[]), term("large", &["b"], &[]), term("alike", &["c"], &[])];
    let placement = || Placement { terms: terms.clone(), what_fits: true, ..over(vec![], Division::Dynamic) };
    let clusters = [ready("a", "", 1), ready("b", "", 3), ready("c", "", 3)];
    let failed = decided(&clusters, &deployment(placement(), 5, &[])).unwrap_err();
    assert_eq!(failed.meanwhile.unwrap().term.as_deref(), Some("large"));
    let clusters = [ready("a", "", 4), ready("b", "", 3), ready("c", "", 5)];
    assert_eq!(decided(&clusters, &deployment(placement(), 5, &[])), placed(&[("c", 5)]));
}

#[test]
fn s4_a_wish_is_kept_where_that_moves_nothing_and_the_condition_says_where_it_is_not() {
    let wish = || Placement { wishes: vec![spread(SpreadBy::Region, 2, 2)], ..over(vec![], Division::Aggregated) };
    let both = [ready("east", "RE", 20), ready("west", "RW", 20)];
    assert_eq!(decided(&both, &deployment(wish(), 4, &[])).unwrap().len(), 2);
    assert_eq!(message_of(&both, &deployment(wish(), 4, &[])), SUCCESS_MESSAGE);
    let one = [ready("east", "RE", 20), ready("west", "RW", 0)];
    assert_eq!(decided(&one, &deployment(wish(), 4, &[])), placed(&[("east", 4)]));
    let told = message_of(&one, &deployment(wish(), 4, &[]));
    let unkept = "But the spread constraint by region (at least 2, at most 2) is not kept.";
    assert_eq!(told, format!("{SUCCESS_MESSAGE} {unkept}"));
    // A Steady pass moves no replica for the preference, but a new replica keeps it.
    assert_eq!(decided(&both, &deployment(wish(), 4, &[("east", 4)])), placed(&[("east", 4)]));
    assert_eq!(decided(&both, &deployment(wish(), 5, &[("east", 4)])), placed(&[("east", 4), ("west", 1)]));
    // Clusters without a region can be used, and the first group is preferred.
    let terms = vec![term("first", &["nowhere"], &[]), term("second", &["east", "west"], &[])];
    let grouped = Placement { terms, ..wish() };
    let none = [ready("nowhere", "", 20), ready("east", "RE", 20), ready("west", "RW", 20)];
    assert_eq!(decided(&none, &deployment(grouped, 4, &[])), placed(&[("nowhere", 4)]));
}

#[test]
fn s8_a_division_by_room_that_is_even_to_a_hundredth_is_told_from_one_that_is_not() {
    let is_even = |clusters: &[Cluster], request: &Request| {
        let fleet = ClusterSet::new(clusters.to_vec());
        let mut pass = Pass::new(&fleet, &Workloads::default(), &Profile::ours());
        match pass.decide_as(request, Mode::Fresh).outcome {
            Outcome::Placed(placed) => pass.is_about_as_even(request, &placed),
            outcome => panic!("{outcome:?}"),
        }
    };
    let by_room = || over(Vec::new(), Division::Dynamic);
    let there = |placement, replicas| Request {
        placement_changed: false,
        ..deployment(placement, replicas, &[("a", 2), ("b", 1)])
    };
    // The capacity per replica is nearly the same on b as on a.
    let nearly = [ready("a", "", 1_000), ready("b", "", 1_005)];
    assert!(is_even(&nearly, &there(by_room(), 3)));
    let more = [ready("a", "", 1_000), ready("b", "", 1_050)];
    assert!(!is_even(&more, &there(by_room(), 3)), "b has five of a hundred more");
    let mut tainted = nearly.clone();
    tainted[0].taints = [taint()].into();
    assert!(!is_even(&tainted, &there(by_room(), 3)), "it may not stay on a");
    assert!(!is_even(&nearly, &there(by_room(), 4)), "one replica is nowhere");
    assert!(!is_even(&nearly, &there(over(Vec::new(), Division::Aggregated), 3)), "it is not by room alone");
    let edited = Request { placement_changed: true, ..there(by_room(), 3) };
    assert!(!is_even(&nearly, &edited), "the user wants another division");
}

fn closed(name: &str, pods: i64) -> Cluster {
    Cluster { taints: [taint()].into(), ..ready(name, "R1", pods) }
}

fn unedited(placement: Placement, replicas: i32, targets: &[(&str, i32)]) -> Request {
    Request { placement_changed: false, managed: true, ..deployment(placement, replicas, targets) }
}

/// Returns a closed cluster and two open ones, and a workload that grows from 4 to 12 replicas.
fn growing(division: Division) -> ([Cluster; 3], Request) {
    let clusters = [closed("a", 100), ready("b", "R2", 100), ready("c", "R3", 100)];
    (clusters, unedited(over(Vec::new(), division), 12, &[("a", 2), ("b", 2)]))
}

#[test]
fn a_closed_cluster_keeps_what_it_has_and_takes_no_more() {
    let weights = |weights: &[(&str, i64)]| {
        let weight = |(name, weight): &(&str, i64)| Weight {
            target: Affinity { names: vec![(*name).into()], ..Affinity::default() },
            weight: *weight,
        };
        Division::Static(Some(weights.iter().map(weight).collect()))
    };
    for (division, right) in [
        (Division::Dynamic, &[("a", 2), ("b", 6), ("c", 4)]),
        (Division::Static(None), &[("a", 2), ("b", 5), ("c", 5)]),
        // The share of the closed cluster goes to the others by their weights.
        (weights(&[("a", 5), ("b", 4), ("c", 1)]), &[("a", 2), ("b", 8), ("c", 2)]),
        // If no other cluster has a weight, the others have equal weights.
        (weights(&[("a", 1)]), &[("a", 2), ("b", 5), ("c", 5)]),
        (Division::Together(Vec::new()), &[("a", 2), ("b", 6), ("c", 4)]),
    ] {
        let (clusters, request) = growing(division.clone());
        assert_eq!(decided(&clusters, &request), placed(right), "{division:?}");
        let edited = decided(&clusters, &Request { placement_changed: true, ..request.clone() }).unwrap();
        assert_eq!(edited.iter().find(|(name, _)| name == "a").map(|(_, n)| *n), Some(2), "{division:?}: {edited:?}");
        // Upstream allows more replicas on clusters that the workload is already on.
        let upstream = decide(&ClusterSet::new(clusters), &Workloads::default(), &request, &Profile::karmada());
        assert!(upstream.targets().unwrap().iter().any(|it| &*it.name == "a" && it.replicas > 2), "{division:?}");
    }
    let (clusters, request) = growing(Division::Aggregated);
    assert_eq!(decided(&clusters, &request), placed(&[("a", 2), ("b", 10)]));
    // An existing copy follows its template.
    let copies = deployment(Placement::default(), 3, &[("a", 2)]);
    assert_eq!(decided(&clusters, &copies), placed(&[("a", 3), ("b", 3), ("c", 3)]));
}

#[test]
fn replicas_that_only_a_closed_cluster_could_take_wait() {
    let full = ready("b", "R2", 0);
    let api = Cluster { apis: [].into(), ..ready("a", "R1", 100) };
    let share = Share { target: Affinity::default(), replicas: 12 };
    for (division, clusters) in [
        (Division::Dynamic, [closed("a", 100), full.clone()]),
        (Division::Aggregated, [closed("a", 100), full.clone()]),
        (Division::Dynamic, [api, full.clone()]),
        (Division::Static(None), [closed("a", 100), closed("b", 100)]),
        (Division::Specified(Some(vec![share])), [closed("a", 100), closed("b", 100)]),
    ] {
        let mut request = deployment(over(Vec::new(), division.clone()), 12, &[("a", 2), ("b", 2)]);
        let failed = decided(&clusters, &request).unwrap_err();
        assert_eq!((failed.reason, &failed.meanwhile), (Reason::Unschedulable, &None), "{division:?}");
        assert!(failed.message.contains("; no more replicas go to a ("), "{}", failed.message);
        // Existing replicas are no growth, and are scaled down as usual.
        request.replicas = 4;
        if !matches!(division, Division::Specified(_)) {
            assert_eq!(decided(&clusters, &request), placed(&[("a", 2), ("b", 2)]), "{division:?}");
            request.replicas = 2;
            let sum = decided(&clusters, &request).unwrap().iter().map(|(_, replicas)| replicas).sum::<i32>();
            assert_eq!(sum, 2, "{division:?}");
        }
    }
    let part = Placement { what_fits: true, ..over(Vec::new(), Division::Dynamic) };
    let failed = decided(&[closed("a", 100), ready("b", "R2", 3)], &deployment(part, 12, &[("a", 2), ("b", 2)]));
    let failed = failed.unwrap_err();
    assert!(failed.message.starts_with("7 of 12 replicas are placed"), "{}", failed.message);
}

#[test]
fn a_set_that_grows_on_a_closed_cluster_goes_elsewhere() {
    let component = |replicas| Component { name: "task".into(), replicas, requirements: None };
    let one = spread(SpreadBy::Cluster, 1, 1);
    let mut request = deployment(over(vec![one], Division::Aggregated), 0, &[("a", 0)]);
    request.components = vec![component(1), Component { name: "job".into(), ..component(3) }];
    let held = [("task", 1), ("job", 2)].map(|(name, replicas)| TargetComponent { name: name.into(), replicas });
    request.targets[0].components = held.to_vec();
    let clusters = [closed("a", 100), ready("b", "R2", 100)];
    assert_eq!(decided(&clusters, &request), placed(&[("b", 0)]));
    let failed = decided(&clusters[..1], &request).unwrap_err();
    assert_eq!((failed.reason, failed.meanwhile), (Reason::Unschedulable, None));
}

#[test]
fn what_breaks_a_rule_already_is_kept_and_the_rule_is_named() {
    let west = Cluster { zones: ["z1".into()].into(), ..ready("west", "R1", 20) };
    let two = || vec![spread(SpreadBy::Zone, 2, 2)];
    let clusters = [west];
    let message = |request: &Request| {
        let fleet = ClusterSet::new(clusters.clone());
        let decision = decide(&fleet, &Workloads::default(), request, &Profile::ours());
        assert!(decision.is_success() && decision.observes_generation(), "{decision:?}");
        decision.condition().unwrap().message.to_owned()
    };
    let shrinking = unedited(over(two(), Division::Aggregated), 4, &[("west", 6)]);
    assert_eq!(decided(&clusters, &shrinking), placed(&[("west", 4)]));
    let rule = "Binding has been scheduled successfully. But the spread constraint by zone (at least 2, at most 2) is \
                not kept.";
    assert_eq!(message(&shrinking), rule);
    // A copy without resource requests is scaled like one with requests.
    for requirements in [None, Some(Shared::new(Requirements::default()))] {
        let mut copy = unedited(over(two(), Division::Duplicated), 0, &[("west", 2)]);
        copy.requirements = requirements;
        assert_eq!(decided(&clusters, &copy), placed(&[("west", 0)]));
        assert_eq!(message(&copy), rule);
        let edited = decided(&clusters, &Request { placement_changed: true, ..copy }).unwrap_err();
        assert_eq!(edited.meanwhile.map(|kept| kept.targets[0].replicas), Some(0));
    }
    let grows = unedited(over(two(), Division::Aggregated), 8, &[("west", 6)]);
    assert_eq!(decided(&clusters, &grows).unwrap_err().meanwhile, None);
    // An edit is a request for a new placement, and fails. A rule that an eviction is about to
    // violate also fails.
    let edited = Request { placement_changed: true, ..shrinking.clone() };
    let refused = decided(&clusters, &edited).unwrap_err();
    assert_eq!(refused.meanwhile.map(|kept| kept.targets[0].replicas), Some(4), "it shrinks as ever");
    assert!(decided(&clusters, &Request { never_applied: true, ..edited }).is_ok());
    let east = Cluster { zones: ["z2".into()].into(), ..ready("east", "R2", 20) };
    let evicted = Request { evicting: vec!["east".into()], ..shrinking };
    assert!(decided(&[clusters[0].clone(), east], &evicted).is_err());
    let bound = ClusterBound { target: Affinity::default(), min: 1, max: 3 };
    let bounds = Placement { bounds: vec![bound], ..over(Vec::new(), Division::Dynamic) };
    let beyond = unedited(bounds, 5, &[("west", 6)]);
    assert_eq!(decided(&clusters, &beyond), placed(&[("west", 5)]));
    assert!(message(&beyond).ends_with("But clusterBounds of cluster west is not kept."), "{}", message(&beyond));
}
