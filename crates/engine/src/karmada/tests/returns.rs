//! Returns to a former placement: every placement by the scheduler can be restored as soon as there
//! is capacity.

use proptest::prelude::*;

use super::super::*;
use super::{deployment, pick, ready};

/// A cluster with ample capacity and attributes that are chosen by these numbers.
fn roomy(index: usize, (region, zone, provider, env): (usize, usize, usize, usize)) -> Cluster {
    let place = |names: [&str; 4], at: usize| names[at].to_owned();
    let zone = place(["", "a", "b", "c"], zone);
    let env = place(["", "prod", "dev", "test"], env);
    Cluster {
        provider: place(["", "aws", "gcp", "on-prem"], provider).into(),
        zones: if zone.is_empty() { [].into() } else { [zone.into()].into() },
        labels: if env.is_empty() { [].into() } else { [("env".into(), env.into())].into() },
        ..ready(&format!("m{index}"), &place(["", "north", "south", "west"], region), 1_000)
    }
}

fn clusters() -> impl Strategy<Value = Vec<Cluster>> {
    prop::collection::vec((0_usize..4, 0_usize..4, 0_usize..4, 0_usize..4), 2..9)
        .prop_map(|places| places.into_iter().enumerate().map(|(index, places)| roomy(index, places)).collect())
}

fn spread() -> impl Strategy<Value = Vec<SpreadConstraint>> {
    let label = SpreadBy::Label("env".into());
    let by = pick(&[SpreadBy::Cluster, SpreadBy::Region, SpreadBy::Zone, SpreadBy::Provider, label]);
    let one = (by, 0_i64..4, 0_i64..5).prop_map(|(by, min, max)| SpreadConstraint { by, min, max });
    prop::collection::vec(one, 1..4)
}

fn targets(outcome: Outcome) -> Option<Vec<Target>> {
    match outcome {
        Outcome::Placed(placed) => Some(placed.targets),
        _ => None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_former_placement_is_admitted_where_capacity_is_free(
        clusters in clusters(),
        spread in spread(),
        division in pick(&[Division::Duplicated, Division::Dynamic, Division::Aggregated, Division::Static(Some(vec![]))]),
        replicas in 0_i32..12,
        lost in 1_usize..256,
    ) {
        let request = deployment(Placement { spread, division, ..Placement::default() }, replicas, &[]);
        let mut whole = Pass::new(&ClusterSet::new(clusters.clone()), &Workloads::default(), &Profile::ours());
        let Some(former) = targets(whole.decide_as(&request, Mode::Fresh).outcome) else { return Ok(()) };
        // Some clusters are lost, and as many replicas as possible are moved.
        let left: Vec<Cluster> =
            clusters.into_iter().enumerate().filter(|(at, _)| lost >> at & 1 == 0).map(|(_, cluster)| cluster).collect();
        let left = ClusterSet::new(left);
        let there = former.iter().filter(|target| left.find(&target.name).is_some()).cloned().collect();
        let fled = Request { targets: there, placement_changed: false, ..request };
        let elsewhere = Pass::new(&left, &Workloads::default(), &Profile::ours()).decide_as(&fled, Mode::Steady);
        let away = Request { targets: targets(elsewhere.outcome).unwrap_or(fled.targets.clone()), ..fled };
        prop_assert_eq!(whole.admit(&away, &former), Ok(None), "from {:?}", away.targets);
        for target in &former {
            prop_assert_eq!(whole.admit_each(&away, std::slice::from_ref(target)), Ok(None));
        }
        // A Steady decision keeps the restored placement.
        let back = Request { targets: former.clone(), ..away };
        let settled = targets(whole.decide_as(&back, Mode::Steady).outcome);
        prop_assert!(settled.is_some_and(|settled| former.iter().all(|target| settled.contains(target))));
    }
}

#[test]
fn a_part_of_a_placement_breaks_no_rule_of_the_whole() {
    let spread = vec![SpreadConstraint { by: SpreadBy::Region, min: 2, max: 2 }];
    let placement = Placement { spread, division: Division::Dynamic, ..Placement::default() };
    let request = deployment(placement, 8, &[("b1", 4), ("a2", 4)]);
    let fleet = ["a1", "a2", "b1", "b2"].map(|name| ready(name, &name[..1], 100));
    let pass = Pass::new(&ClusterSet::new(fleet), &Workloads::default(), &Profile::ours());
    let on = |name: &str| [Target { name: name.into(), replicas: 4, components: Vec::new() }];
    assert_eq!(pass.admit_each(&request, &on("a1")), Ok(None));
    let rule = "the spread constraint by region (at least 2, at most 2)".to_owned();
    assert_eq!(pass.admit(&request, &on("a1")), Err(Refusal::Breaks { rule }));
}
