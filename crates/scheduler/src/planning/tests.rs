//! Plans over a few clusters, by example and at random.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use ballast_api::ballast::v1alpha1::{self as api, Limits, MoveReason, Order, SelectEntry, Share};
use ballast_api::karmada::policy::v1alpha1::PROPAGATION_POLICIES;
use ballast_api::karmada::work::v1alpha2::key_of_workload;
use ballast_engine::karmada::{Cluster, ClusterCapacity, Pass, Workloads};
use ballast_k8s::{GroupResource, Key, Quantity, Revision};

const FRESH: PlanOptions = PlanOptions { mode: api::Mode::Fresh, limits: NO_LIMITS };
const NO_LIMITS: Limits = Limits { max_moved_replicas: None, min_moved_replicas: None, preserve_available: None };

pub(super) fn cluster(name: &str, pods: i64, cpu_millis: i64) -> Cluster {
    Cluster {
        name: name.into(),
        deleting: false,
        labels: [].into(),
        provider: "".into(),
        region: "".into(),
        zones: [].into(),
        taints: [].into(),
        apis: [("apps/v1".into(), "Deployment".into()), ("v1".into(), "ConfigMap".into())].into(),
        capacity: Some(ClusterCapacity {
            pods,
            free: [("cpu".into(), Quantity::from_millis(cpu_millis))].into(),
            grades: None,
        }),
    }
}

pub(super) fn snapshot(clusters: impl IntoIterator<Item = Cluster>, objects: &[Arc<Object>]) -> PlanningSnapshot {
    PlanningSnapshot {
        view: Arc::new(View::of(objects.iter().cloned())),
        clusters: ClusterSet::new(clusters),
        room: Default::default(),
        asking: None,
        names: Default::default(),
        no_execute: Arc::default(),
        unready: Arc::default(),
        profile: Arc::new(Profile::ours()),
        now: "2024-04-17T15:00:05Z".parse().unwrap(),
        clearing: None,
        supposed: Default::default(),
    }
}

fn object(key: Key, mut tree: Value) -> Arc<Object> {
    tree["metadata"]["name"] = (&*key.name).into();
    if !key.namespace.is_empty() {
        tree["metadata"]["namespace"] = (&*key.namespace).into();
    }
    Arc::new(Object::decode(key, Revision(1), tree.to_string().into_bytes().into()).unwrap())
}

pub(super) const DYNAMIC: &str = r#"{"replicaScheduling": {"replicaSchedulingType": "Divided",
    "replicaDivisionPreference": "Weighted", "weightPreference": {"dynamicWeight": "AvailableReplicas"}}}"#;
pub(super) const AGGREGATED: &str = r#"{"replicaScheduling": {"replicaSchedulingType": "Divided",
    "replicaDivisionPreference": "Aggregated"}}"#;
pub(super) const DUPLICATED: &str = r#"{"replicaScheduling": {"replicaSchedulingType": "Duplicated"}}"#;

/// Returns a Deployment in the namespace shop; each replica requests 100m of CPU. The targets are
/// written as `m1:2 m2:1`.
fn binding(name: &str, replicas: i32, placement: &str, targets: &str) -> Arc<Object> {
    binding_with(name, replicas, placement, targets, |_| {})
}

pub(super) fn binding_with(
    name: &str,
    replicas: i32,
    placement: &str,
    targets: &str,
    change: impl FnOnce(&mut Value),
) -> Arc<Object> {
    let target = |target: &str| {
        let (name, replicas) = target.split_once(':').unwrap();
        json!({"name": name, "replicas": replicas.parse::<i32>().unwrap()})
    };
    let clusters: Vec<Value> = targets.split_whitespace().map(target).collect();
    let mut tree = json!({
        "metadata": {"uid": name, "generation": 1},
        "spec": {
            "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": name},
            "replicas": replicas,
            "replicaRequirements": {"resourceRequest": {"cpu": "100m"}},
            "placement": serde_json::from_str::<Value>(placement).unwrap(),
            "clusters": clusters,
        },
        "status": {"lastScheduledTime": "2024-04-17T15:00:00Z"},
    });
    change(&mut tree);
    object(key_of_workload("Deployment", "shop", name), tree)
}

fn placed(targets: &[Target]) -> String {
    let targets: Vec<String> = targets.iter().map(|target| format!("{}:{}", target.name, target.replicas)).collect();
    targets.join(" ")
}

pub(super) fn only(objects: &[Arc<Object>]) -> Vec<ParsedBinding> {
    objects.iter().map(|object| ParsedBinding::of(object).unwrap()).collect()
}

/// Equal parts on each cluster, independent of its capacity.
const STATIC: &str = r#"{"replicaScheduling": {"replicaSchedulingType": "Divided",
    "replicaDivisionPreference": "Weighted"}}"#;

/// Returns `web m1:2 m2:2` for each workload that moves.
fn moves(plan: &MovePlan) -> Vec<String> {
    plan.moves.iter().map(|planned| format!("{} {}", planned.parsed.workload.name, placed(&planned.to))).collect()
}

#[test]
fn those_that_are_decided_later_see_the_room_that_is_left() {
    let objects = [binding("a", 6, AGGREGATED, "old:6"), binding("b", 6, AGGREGATED, "old:6")];
    let elsewhere = |name: &str, pods| Cluster { taints: [].into(), ..cluster(name, pods, 100_000) };
    let mut old = cluster("old", 0, 100_000);
    old.apis = [].into();
    let snapshot = snapshot([old, elsewhere("free", 8), elsewhere("small", 4)], &objects);
    let plan = plan(&snapshot, only(&objects), &FRESH, Order::Name);
    assert_eq!(moves(&plan), ["a free:6", "b free:2 small:4"]);
    assert_eq!((plan.summary.selected, plan.summary.to_move, plan.summary.replicas_to_move), (2, 2, 12));
    let clusters: Vec<_> = plan.clusters.iter().map(|c| (&*c.name, c.before, c.planned, c.now)).collect();
    assert_eq!(clusters, [("free", 0, 8, 0), ("old", 12, 0, 12), ("small", 0, 4, 0)]);
}

#[test]
fn a_plan_names_where_it_is_stricter_than_the_scheduler() {
    let objects = [binding("web", 6, STATIC, "")];
    let snapshot = snapshot([cluster("m1", 2, 100_000), cluster("m2", 8, 100_000)], &objects);
    let steady = PlanOptions { mode: api::Mode::Steady, limits: NO_LIMITS };
    let plan = plan(&snapshot, only(&objects), &steady, Order::Name);
    let refused: Vec<&str> = plan.unplaceable.iter().map(|refused| &*refused.message).collect();
    let scheduler = "the scheduler would place it all the same, because it divides this workload without regard to \
                     capacity";
    assert_eq!(refused, [format!("3 replicas would arrive at m1, which has room for 2; {scheduler}")]);
}

#[test]
fn whoever_finds_the_room_taken_is_told_so_with_numbers() {
    let objects = [binding("a", 6, AGGREGATED, ""), binding("b", 6, AGGREGATED, ""), binding("c", 60, AGGREGATED, "")];
    let snapshot = snapshot([cluster("m1", 8, 100_000)], &objects);
    let plan = plan(&snapshot, only(&objects), &FRESH, Order::Name);
    assert_eq!(moves(&plan), ["a m1:6"]);
    let refused: Vec<_> = plan.unplaceable.iter().map(|refused| (refused.reason, &*refused.message)).collect();
    let short = |prefix: &str, capacity| {
        format!(
            "{prefix}failed to assign replicas: failed to do fresh scale: Clusters available replicas {capacity} \
             are not enough to schedule."
        )
    };
    let taken = short("moves planned before it take the room for its 6 replicas: ", 2);
    assert_eq!(refused, [(MoveReason::NoRoom, &*taken), (MoveReason::NoRoom, &*short("", 2))]);
    assert_eq!(plan.summary.failed, 2);
}

#[test]
fn room_that_is_left_behind_is_given_to_those_that_found_none() {
    // b has to leave m1 before a fits.
    let near = |name: &str| format!(r#"{{"clusterAffinity": {{"clusterNames": ["{name}"]}}, {}"#, &AGGREGATED[1..]);
    let objects = [binding("a", 4, &near("m1"), "m2:4"), binding("b", 4, &near("m2"), "m1:4")];
    let snapshot = snapshot([cluster("m1", 0, 10_000), cluster("m2", 4, 10_000)], &objects);
    let plan = plan(&snapshot, only(&objects), &FRESH, Order::Name);
    assert_eq!(moves(&plan), ["b m2:4", "a m1:4"]);
    assert_eq!((plan.summary.failed, plan.summary.replicas_to_move), (0, 8));
    let clusters: Vec<_> = plan.clusters.iter().map(|c| (&*c.name, c.before, c.planned)).collect();
    assert_eq!(clusters, [("m1", 4, 4), ("m2", 4, 4)]);
}

#[test]
fn limits_cut_or_keep_and_say_why() {
    let object = binding("web", 10, AGGREGATED, "m2:10");
    let snapshot = snapshot([cluster("m1", 50, 10_000), cluster("m2", 0, 0)], std::slice::from_ref(&object));
    let snapshot = PlanningSnapshot {
        clusters: {
            let mut clusters = snapshot.clusters.clone();
            clusters.upsert(Cluster { apis: [].into(), ..cluster("m2", 0, 0) });
            clusters
        },
        ..snapshot
    };
    let proposed = |limits: Value| {
        let limits = serde_json::from_value(limits).unwrap();
        let options = PlanOptions { limits, ..FRESH };
        match PlanBuilder::new(&snapshot).propose(&ParsedBinding::of(&object).unwrap(), &options) {
            Proposal::Move { to, arrivals, limited, .. } => format!("{} {arrivals} {limited}", placed(&to)),
            Proposal::Stay { reason, message } => format!("{reason:?} {message}"),
            Proposal::Unplaceable { reason, message } => panic!("{reason:?} {message}"),
        }
    };
    assert_eq!(proposed(json!({})), "m1:10 10 false");
    assert_eq!(proposed(json!({"maxMovedReplicas": "25%"})), "m1:2 m2:8 2 true");
    assert_eq!(proposed(json!({"maxMovedReplicas": 10, "minMovedReplicas": "100%"})), "m1:10 10 false");
    let stays = "Some(NotWorthwhile) 10 of 10 replicas would move, and fewer than 11 are left alone";
    assert_eq!(proposed(json!({"minMovedReplicas": 11})), stays);
    let stays = "Some(LimitReached) 10 of 10 replicas would move, and the limits allow none of it";
    assert_eq!(proposed(json!({"preserveAvailable": true})), stays);
    let stays = "Some(NotWorthwhile) the limits allow 2 of 10 replicas to move, fewer than 3";
    assert_eq!(proposed(json!({"maxMovedReplicas": 2, "minMovedReplicas": 3})), stays);
}

#[test]
fn only_what_is_not_available_may_leave_a_ready_cluster() {
    let reported = |status: Value| {
        binding_with("web", 10, AGGREGATED, "m2:10", |tree| tree["status"]["aggregatedStatus"] = status)
    };
    let left_on_m2 = |status: Value, ready: bool| {
        let object = reported(status);
        let gone = Cluster { apis: [].into(), ..cluster("m2", 0, 0) };
        let mut snapshot = snapshot([cluster("m1", 50, 10_000), gone], std::slice::from_ref(&object));
        if !ready {
            snapshot.unready = Arc::new(["m2".into()].into());
        }
        let options = PlanOptions { limits: Limits { preserve_available: Some(true), ..NO_LIMITS }, ..FRESH };
        match PlanBuilder::new(&snapshot).propose(&ParsedBinding::of(&object).unwrap(), &options) {
            Proposal::Move { to, .. } => to.iter().find(|target| &*target.name == "m2").map_or(0, |on| on.replicas),
            _ => 10,
        }
    };
    let says = |item: Value| json!([item]);
    assert_eq!(left_on_m2(says(json!({"clusterName": "m2", "status": {"availableReplicas": 3}})), true), 3);
    assert_eq!(left_on_m2(says(json!({"clusterName": "m2", "status": {"readyReplicas": 4}})), true), 4);
    assert_eq!(left_on_m2(says(json!({"clusterName": "m2", "health": "Healthy"})), true), 10);
    assert_eq!(left_on_m2(says(json!({"clusterName": "m2", "health": "Unhealthy"})), true), 0);
    assert_eq!(left_on_m2(json!([]), true), 10, "nobody reports: all of them may be available");
    assert_eq!(left_on_m2(says(json!({"clusterName": "m2", "status": {"availableReplicas": 3}})), false), 0);
}

#[test]
fn what_is_not_divided_goes_cluster_by_cluster() {
    let names = r#"{"clusterAffinity": {"clusterNames": ["a", "b", "c"]}}"#;
    let object = binding("web", 4, names, "x:4 y:4 c:4");
    let clusters = ["a", "b", "c", "x", "y"].map(|name| cluster(name, 50, 10_000));
    let snapshot = snapshot(clusters, std::slice::from_ref(&object));
    let proposed = |most| {
        let limits = Limits { max_moved_replicas: Some(most), ..NO_LIMITS };
        match PlanBuilder::new(&snapshot)
            .propose(&ParsedBinding::of(&object).unwrap(), &PlanOptions { limits, ..FRESH })
        {
            Proposal::Move { to, arrivals, .. } => format!("{} {arrivals}", placed(&to)),
            Proposal::Stay { reason, .. } => format!("{reason:?}"),
            other => panic!("{other:?}"),
        }
    };
    use api::IntOrPercent::{Int, Percent};
    assert_eq!(proposed(Int(8)), "a:4 b:4 c:4 8");
    assert_eq!(proposed(Int(7)), "a:4 c:4 y:4 4");
    assert_eq!(proposed(Int(3)), "Some(LimitReached)");
    assert_eq!(proposed(Percent(34)), "a:4 c:4 y:4 4", "of the twelve replicas in all");
    assert_eq!(proposed(Percent(33)), "Some(LimitReached)");
}

#[test]
fn the_way_back_needs_the_filters_and_the_room_of_today() {
    let object = binding("web", 4, AGGREGATED, "m1:4");
    let back = |clusters: Vec<Cluster>, from: &str| {
        let snapshot = snapshot(clusters, std::slice::from_ref(&object));
        let share = |share: &str| {
            let (name, replicas) = share.split_once(':').unwrap();
            Share { name: name.to_owned(), replicas: replicas.parse().unwrap() }
        };
        let from = from.split_whitespace().map(share).collect();
        let plan = plan_return(&snapshot, vec![(ParsedBinding::of(&object).unwrap(), from)], &NO_LIMITS, Order::Name);
        let refused = plan.unplaceable.iter().map(|refused| format!("{:?} {}", refused.reason, refused.message));
        refused.chain(moves(&plan)).collect::<Vec<_>>().join("")
    };
    let m1 = || cluster("m1", 9, 10_000);
    assert_eq!(back(vec![m1(), cluster("m2", 4, 10_000)], "m2:4"), "web m2:4");
    assert_eq!(back(vec![m1(), cluster("m2", 4, 10_000)], "m1:4"), "", "it is there already");
    let short = "NoRoom 3 replicas would arrive at m2, which has room for 2";
    assert_eq!(back(vec![m1(), cluster("m2", 2, 10_000)], "m1:1 m2:3"), short);
    assert_eq!(back(vec![m1()], "m2:4"), "ClusterLost cluster m2 is gone, or is being deleted");
    let unfit = Cluster { apis: [].into(), ..cluster("m2", 9, 10_000) };
    let why = "NoClusterFits cluster m2 does not fit: cluster(s) did not have the API resource";
    assert_eq!(back(vec![m1(), unfit], "m2:4"), why);
    let changed = "ReplicasChanged it had 3 replicas then, and has 4 now";
    assert_eq!(back(vec![m1(), cluster("m2", 9, 10_000)], "m2:3"), changed);
}

#[test]
fn who_is_nobodys_to_move_is_counted_unchanged() {
    let with = |name: &str, change: fn(&mut Value)| binding_with(name, 2, AGGREGATED, "m2:2", change);
    let objects = [
        with("a", |tree| tree["spec"]["suspension"] = json!({"scheduling": true})),
        with("b", |tree| tree["spec"]["schedulerName"] = "other".into()),
        with("c", |tree| tree["metadata"]["deletionTimestamp"] = "2024-01-01T00:00:00Z".into()),
        with("d", |tree| tree["spec"]["placement"] = Value::Null),
    ];
    let snapshot = snapshot([cluster("m1", 9, 10_000), cluster("m2", 0, 0)], &objects);
    let plan = plan(&snapshot, only(&objects), &FRESH, Order::Name);
    assert_eq!((plan.summary.selected, plan.summary.unchanged, plan.stays.len()), (4, 4, 0));
}

#[test]
fn the_order_is_that_of_priority_of_size_or_of_names() {
    let with = |name: &str, replicas, priority: i32| {
        binding_with(name, replicas, DYNAMIC, "", |tree| {
            tree["spec"]["schedulePriority"] = json!({"priority": priority});
        })
    };
    let objects = [with("c", 1, 0), with("a", 3, 0), with("b", 2, 5)];
    let sorted = |order| {
        let mut bindings = only(&objects);
        in_order(&mut bindings, order);
        bindings.iter().map(|parsed| parsed.workload.name.clone()).collect::<String>()
    };
    assert_eq!([Order::Priority, Order::FewestReplicas, Order::Name].map(sorted), ["bac", "cba", "abc"]);
}

fn selected(objects: &[Arc<Object>], select: Value, exclude: Value, scope: Option<&str>) -> Vec<String> {
    let snapshot = snapshot([cluster("m1", 50, 10_000), cluster("m2", 0, 0)], objects);
    let entries = |list: Value| serde_json::from_value::<Vec<SelectEntry>>(list).unwrap();
    let selection = Selection::new(&entries(select), &entries(exclude), scope, &snapshot.view).unwrap();
    selection.find(&snapshot).unwrap().iter().map(|parsed| parsed.workload.name.clone()).collect()
}

#[test]
fn many_are_found_on_all_cores_in_key_order_each_once() {
    // Enough for several threads.
    let objects: Vec<_> = (0..1_700)
        .map(|number| binding(&format!("w{number:04}"), 1, AGGREGATED, if number % 2 == 0 { "m1:1" } else { "m2:1" }))
        .collect();
    let found = selected(&objects, json!([{"placedOn": ["m1"]}]), json!([{"name": "w0004"}]), None);
    let expected: Vec<String> =
        (0..1_700).step_by(2).filter(|number| *number != 4).map(|number| format!("w{number:04}")).collect();
    assert_eq!(found, expected);
}

#[test]
fn a_selection_is_the_union_of_its_entries_without_what_is_excluded() {
    let labelled = |name: &str, targets: &str, labels: Value| {
        binding_with(name, 2, AGGREGATED, targets, |tree| tree["metadata"]["labels"] = labels)
    };
    let id = "propagationpolicy.karmada.io/permanent-id";
    let selectors = json!([{"apiVersion": "apps/v1", "kind": "Deployment"}]);
    let tree = json!({"metadata": {"labels": {id: "p-1"}}, "spec": {"resourceSelectors": selectors}});
    let policy = object(Key::namespaced(PROPAGATION_POLICIES, "shop", "web"), tree);
    let crb = GroupResource::new("clusterresourcebindings.work.karmada.io");
    let wide = json!({"metadata": {}, "spec": {"resource": {"apiVersion": "v1", "kind": "Namespace", "name": "wide"}}});
    let objects = [
        labelled("a", "m1:2", json!({"tier": "front"})),
        labelled("b", "m2:2", json!({"tier": "back", id: "p-1"})),
        labelled("c", "m1:1 m2:1", json!({})),
        object(Key::cluster(crb, "wide-namespace"), wide),
        policy,
    ];
    let find = |select: Value| selected(&objects, select, json!([]), None).concat();
    assert_eq!(find(json!([{}])), "abcwide");
    assert_eq!(find(json!([{"kind": "Deployment"}])), "abc");
    assert_eq!(find(json!([{"name": "a"}, {"name": "c"}, {"kind": "Deployment", "name": "a"}])), "ac");
    assert_eq!(find(json!([{"namespace": "shop"}])), "abc");
    assert_eq!(find(json!([{"namespace": "other"}])), "");
    assert_eq!(find(json!([{"apiVersion": "apps/v1", "labelSelector": {"matchLabels": {"tier": "front"}}}])), "a");
    assert_eq!(find(json!([{"placedOn": ["m1"]}])), "ac");
    assert_eq!(find(json!([{"placedOn": ["m1", "m2"]}])), "c");
    assert_eq!(find(json!([{"kind": "Deployment", "notPlacedOn": ["m2"]}])), "a");
    let by_policy =
        |namespace: &str| json!([{"policyRef": {"kind": "PropagationPolicy", "namespace": namespace, "name": "web"}}]);
    assert_eq!((find(by_policy("shop")), find(by_policy("other"))), ("b".to_owned(), String::new()));
    assert_eq!(find(json!([{"drifted": true}])), "bc");
    assert_eq!(find(json!([{"drifted": false, "kind": "Deployment"}])), "a");
    assert_eq!(selected(&objects, json!([{}]), json!([{"name": "b"}, {"kind": "Namespace"}]), None).concat(), "ac");
    assert_eq!(selected(&objects, json!([{}]), json!([{"drifted": true}]), Some("shop")).concat(), "a");
    assert_eq!(selected(&objects, json!([{}]), json!([]), Some("other")).concat(), "");
}

#[test]
fn what_makes_no_sense_is_refused_with_its_path() {
    let refused = |entry: Value| {
        let entry: SelectEntry = serde_json::from_value(entry).unwrap();
        let errors = Selection::new(&[SelectEntry::default(), entry], &[], None, &View::of([])).unwrap_err();
        errors.iter().map(ToString::to_string).collect::<String>()
    };
    let bad = refused(json!({"labelSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}));
    assert!(bad.contains("spec.select[1].labelSelector"), "{bad}");
    let bad = refused(json!({"policyRef": {"kind": "Policy", "name": "web"}}));
    assert!(bad.contains("spec.select[1].policyRef.kind"), "{bad}");
}

/// Computes the remaining capacity of the clusters after a plan by arithmetic alone: pods and
/// thousandths of CPU.
fn left(clusters: &[Cluster], plan: &MovePlan) -> BTreeMap<String, (i64, i64)> {
    let capacity = |cluster: &Cluster| {
        let capacity = cluster.capacity.as_ref().unwrap();
        (cluster.name.to_string(), (capacity.pods, capacity.free[0].1.millis()))
    };
    let mut left: BTreeMap<String, (i64, i64)> = clusters.iter().map(capacity).collect();
    for planned in &plan.moves {
        let needed = planned.parsed.request.requirements.as_ref().unwrap().amounts[0].1.millis();
        let mut take = |targets: &[Target], sign: i64| {
            for target in targets {
                let Some((pods, cpu)) = left.get_mut(&*target.name) else { continue };
                *pods -= sign * i64::from(target.replicas);
                *cpu -= sign * i64::from(target.replicas) * needed;
            }
        };
        take(&planned.to, 1);
        take(&planned.parsed.request.targets, -1);
    }
    left
}

prop_compose! {
    fn fleet()(
        clusters in prop::collection::vec((0_i64..30, 0_i64..3_000), 1..6),
        bindings in prop::collection::vec(
            (1_i32..12, 1_i64..4, any::<bool>(), 0_usize..64, prop::collection::vec(0_i32..6, 6)),
            1..12,
        ),
    ) -> (Vec<Cluster>, Vec<Arc<Object>>) {
        let clusters: Vec<Cluster> =
            (0..).zip(clusters).map(|(index, (pods, cpu))| cluster(&format!("m{index}"), pods, cpu)).collect();
        let count = clusters.len();
        let binding = |(index, (replicas, hundreds, aggregated, chosen, targets)): (usize, (_, i64, _, usize, Vec<i32>))| {
            let names: Vec<String> =
                (0..count).filter(|cluster| chosen >> cluster & 1 == 1).map(|cluster| format!("m{cluster}")).collect();
            let targets: Vec<String> = (0..count)
                .zip(targets)
                .filter(|(_, held)| *held > 0)
                .map(|(cluster, held)| format!("m{cluster}:{held}"))
                .collect();
            let placement = if aggregated { AGGREGATED } else { DYNAMIC };
            binding_with(&format!("w{index}"), replicas, placement, &targets.join(" "), |tree| {
                tree["spec"]["placement"]["clusterAffinity"] = json!({"clusterNames": names});
                tree["spec"]["replicaRequirements"]["resourceRequest"]["cpu"] = format!("{}m", hundreds * 100).into();
            })
        };
        (clusters, bindings.into_iter().enumerate().map(binding).collect())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_plan_asks_no_cluster_for_more_than_it_has_and_what_it_leaves_out_would_not_fit(
        (clusters, objects) in fleet(),
        most in prop::option::of(0_i64..8),
        steady in any::<bool>(),
    ) {
        let snapshot = snapshot(clusters.clone(), &objects);
        let limits = Limits { max_moved_replicas: most.map(api::IntOrPercent::Int), ..NO_LIMITS };
        let options = PlanOptions { mode: if steady { api::Mode::Steady } else { api::Mode::Fresh }, limits };
        let (plan, mut builder) = plan::decided(&snapshot, only(&objects), Order::Name, |builder, parsed| builder.propose(parsed, &options), |_, _, _| {});
        let before: BTreeMap<&str, (i64, i64)> = clusters
            .iter()
            .map(|cluster| {
                let capacity = cluster.capacity.as_ref().unwrap();
                (&*cluster.name, (capacity.pods, capacity.free[0].1.millis()))
            })
            .collect();
        for (name, (pods, cpu)) in left(&clusters, &plan) {
            prop_assert!(pods >= before[&*name].0.min(0) && cpu >= before[&*name].1.min(0), "{name} has {pods} {cpu} left");
        }
        for planned in &plan.moves {
            prop_assert_eq!(planned.arrivals, planned.parsed.arrivals(&planned.to));
            prop_assert!(most.is_none_or(|most| planned.arrivals <= most.max(1)));
        }
        for refused in &plan.unplaceable {
            let again = builder.propose(&refused.parsed, &options);
            prop_assert!(matches!(again, Proposal::Unplaceable { .. }), "{again:?} would have fitted");
        }
        let summary = &plan.summary;
        prop_assert_eq!(summary.selected, summary.to_move + summary.unchanged + summary.failed);
    }

    #[test]
    fn a_plan_of_one_is_the_fresh_decision((clusters, objects) in fleet()) {
        let snapshot = snapshot(clusters, &objects);
        for parsed in only(&objects) {
            let mut request = parsed.request.clone();
            request.force = true;
            let decision = Pass::new(&snapshot.clusters, &Workloads::default(), &snapshot.profile).decide(&request);
            let plan = plan(&snapshot, vec![parsed.clone()], &FRESH, Order::Name);
            let moved = plan.moves.first().map(|planned| planned.to.clone());
            match decision.outcome {
                Outcome::Placed(placed) if parsed.is_at(&placed.targets) => prop_assert_eq!(plan.summary.unchanged, 1),
                Outcome::Placed(placed) => prop_assert_eq!(moved, Some(placed.targets)),
                _ => prop_assert_eq!(plan.summary.failed, 1),
            }
            let mut builder = PlanBuilder::new(&snapshot);
            let moves = plan.summary.to_move == 1;
            match standing(&mut builder, &parsed) {
                Standing::Drifted => prop_assert!(moves),
                Standing::Well => prop_assert!(!moves || parsed.request.targets.is_empty()),
                Standing::Displaced => {}
            }
        }
    }

    #[test]
    fn who_went_can_go_back((clusters, objects) in fleet()) {
        let snapshot = snapshot(clusters, &objects);
        let plan = plan(&snapshot, only(&objects), &FRESH, Order::Name);
        for planned in plan.moves {
            let full = planned.parsed.request.replicas;
            if planned.parsed.request.targets.iter().map(|target| target.replicas).sum::<i32>() != full {
                continue;
            }
            // The capacity that the workload left is free, so only the filters can object.
            let from = planned.parsed.from();
            let mut builder = PlanBuilder::new(&snapshot);
            builder.accept(&planned.parsed, &planned.to);
            let mut parsed = planned.parsed.clone();
            parsed.request.targets.clone_from(&planned.to);
            match builder.propose_return(&parsed, &from, &NO_LIMITS) {
                Proposal::Move { to, .. } => prop_assert_eq!(shares(&to), from),
                Proposal::Unplaceable { reason, .. } => prop_assert_eq!(reason, MoveReason::NoClusterFits),
                stays => prop_assert!(false, "{stays:?}"),
            }
        }
    }
}
