//! Measures how long it takes to compute the replicas that the loss of each domain would strand
//! (SG21): `cargo bench -p ballast-scheduler --bench survival` computes them by cluster for about
//! 100,000 workloads on 1,000 clusters, and `-- WORKLOADS CLUSTERS` for other sizes. `--by region`
//! uses ten regions, `--alone` one thread, as for the metric, and `-- Room` one shape.
//!
//! The clusters and workloads are generated from a seed. `Room` divides by the free capacity of all
//! clusters, `Packed` is Aggregated, `Places` has ten affinities and spreads over two zones, and
//! `Full` is `Room` where 1 % of each cluster is free. Parsing the bindings is not in the times,
//! and no server takes part.

#![expect(clippy::print_stdout, reason = "its output is a table")]

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use ballast_api::ballast::v1alpha1::{FailureDomain, SelectEntry};
use ballast_api::karmada::work::v1alpha2::key_of_workload;
use ballast_engine::karmada::Profile;
use ballast_k8s::{GroupResource, Key, Object, Revision};
use ballast_scheduler::planning::{Haste, Planner, PlanningSnapshot, Selection, survival};
use ballast_watch::View;
use serde_json::{Value, json};

const WORKLOADS: usize = 100_000;
const CLUSTERS: usize = 1_000;
/// Runs of each case. They are printed individually, because other load on the machine makes them
/// differ.
const RUNS: usize = 2;
const REPLICAS: usize = 4;
const CLUSTER: GroupResource = GroupResource::new("clusters.cluster.karmada.io");

#[derive(Clone, Copy, Debug, PartialEq)]
enum Shape {
    Room,
    Packed,
    Places,
    Full,
}

/// Returns a number below `bound` that is the same in every run.
fn chance(of: impl Hash, bound: usize) -> usize {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish() as usize % bound
}

fn object(key: Key, mut tree: Value) -> Arc<Object> {
    tree["metadata"]["name"] = (&*key.name).into();
    if !key.namespace.is_empty() {
        tree["metadata"]["namespace"] = (&*key.namespace).into();
    }
    Arc::new(Object::decode(key, Revision(1), tree.to_string().into_bytes().into()).expect("an object"))
}

fn name(cluster: usize) -> String {
    format!("member-{cluster:04}")
}

fn cluster(number: usize, used: usize, shape: Shape) -> Arc<Object> {
    let has = if shape == Shape::Full { used * 100 / 99 } else { used * 10 / 6 };
    let tree = json!({
        "metadata": {"uid": name(number), "generation": 1, "labels": {"tier": format!("t{}", number % 10)}},
        "spec": {"syncMode": "Push", "region": format!("r{}", number % 10),
            "zones": [format!("r{}{}", number % 10, ["a", "b", "c"][number / 10 % 3])]},
        "status": {
            "apiEnablements": [{"groupVersion": "apps/v1", "resources": [{"name": "deployments", "kind": "Deployment"}]}],
            "conditions": [{"type": "Ready", "status": "True", "reason": "Ready", "message": "",
                "lastTransitionTime": "2024-04-17T15:00:00Z"}],
            "resourceSummary": {
                "allocatable": {"cpu": format!("{}m", has * 100), "memory": format!("{}Mi", has * 200), "pods": "5000"},
                "allocated": {"cpu": format!("{}m", used * 100), "memory": format!("{}Mi", used * 200), "pods": used.to_string()},
            },
        },
    });
    object(Key::cluster(CLUSTER, name(number)), tree)
}

fn placement(number: usize, shape: Shape) -> Value {
    let divided =
        |preference: &str| json!({"replicaSchedulingType": "Divided", "replicaDivisionPreference": preference});
    let mut by_room = divided("Weighted");
    by_room["weightPreference"] = json!({"dynamicWeight": "AvailableReplicas"});
    match shape {
        Shape::Room | Shape::Full => json!({"replicaScheduling": by_room}),
        Shape::Packed => json!({"replicaScheduling": divided("Aggregated")}),
        Shape::Places => json!({
            "clusterAffinity": {"labelSelector": {"matchLabels": {"tier": format!("t{}", number % 10)}}},
            "spreadConstraints": [{"spreadByField": "zone", "minGroups": 2, "maxGroups": 2}],
            "replicaScheduling": divided("Aggregated"),
        }),
    }
}

/// Returns the two clusters of a workload, each with half of its replicas.
fn targets(number: usize, clusters: usize, shape: Shape) -> [usize; 2] {
    match shape {
        Shape::Places => {
            let place = |turn: usize| number % 10 + 10 * (3 * chance((number, turn), clusters / 30) + turn);
            [place(0), place(1)]
        }
        _ => {
            let first = chance(number, clusters);
            [first, (first + 1 + chance((number, 1), clusters - 1)) % clusters]
        }
    }
}

fn binding(number: usize, on: [usize; 2], shape: Shape) -> Arc<Object> {
    let target = |cluster: usize| json!({"name": name(cluster), "replicas": REPLICAS / 2});
    let workload = format!("app-{number:06}");
    let tree = json!({
        "metadata": {"uid": workload, "generation": 1},
        "spec": {
            "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": workload},
            "replicas": REPLICAS,
            "replicaRequirements": {"resourceRequest": {"cpu": "100m", "memory": "200Mi"}},
            "placement": placement(number, shape),
            "clusters": on.map(target),
        },
        "status": {"lastScheduledTime": "2024-04-17T15:00:00Z"},
    });
    object(key_of_workload("Deployment", "shop", &workload), tree)
}

fn fleet(workloads: usize, clusters: usize, shape: Shape) -> PlanningSnapshot {
    let mut used = vec![0; clusters];
    let mut objects = Vec::with_capacity(workloads + clusters);
    for number in 0..workloads {
        let on = targets(number, clusters, shape);
        on.iter().for_each(|cluster| used[*cluster] += REPLICAS / 2);
        objects.push(binding(number, on, shape));
    }
    objects.extend(used.into_iter().enumerate().map(|(number, used)| cluster(number, used, shape)));
    let now = "2024-04-18T15:00:00Z".parse().expect("a time");
    Planner::new(Profile::ours()).snapshot(Arc::new(View::of(objects)), now)
}

/// Returns the processor time of this process, in seconds.
fn processor() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let numbers: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |place: usize| numbers.get(place).and_then(|ticks| ticks.parse::<f64>().ok()).unwrap_or_default();
    (ticks(11) + ticks(12)) / 100.0
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut numbers = arguments.iter().filter_map(|argument| argument.parse().ok());
    let (workloads, clusters) = (numbers.next().unwrap_or(WORKLOADS), numbers.next().unwrap_or(CLUSTERS));
    let by_region = arguments.iter().any(|argument| argument == "region");
    let by = if by_region { FailureDomain::Region } else { FailureDomain::Cluster };
    let haste = if arguments.iter().any(|it| it == "--alone") { Haste::Background } else { Haste::Waited };
    println!("| shape | workloads | domains | s | s of processor time | stranded replicas, in all | digest |");
    println!("|---|---|---|---|---|---|---|");
    let only = |shape: &Shape| {
        !arguments.iter().any(|it| it.starts_with(char::is_uppercase)) || arguments.contains(&format!("{shape:?}"))
    };
    for shape in [Shape::Room, Shape::Packed, Shape::Places, Shape::Full].into_iter().filter(only) {
        let snapshot = fleet(workloads, clusters, shape);
        let all = Selection::new(&[SelectEntry::everything()], &[], None, &snapshot.view).expect("everything");
        let bindings = all.find(&snapshot).expect("no more than may be asked about");
        for _ in 0..RUNS {
            let (began, spent) = (Instant::now(), processor());
            let answers = survival(&snapshot, &bindings, by, haste, &AtomicBool::new(false));
            let (took, spent) = (began.elapsed().as_secs_f64(), processor() - spent);
            let stranded: i64 = answers.iter().map(|answer| answer.stranded_replicas).sum();
            // Equal results have equal digests, so two versions can be compared.
            let digest = chance(serde_json::to_string(&answers).expect("JSON"), 1_000_000);
            println!(
                "| {shape:?} | {workloads} | {} | {took:.2} | {spent:.2} | {stranded} | {digest} |",
                answers.len()
            );
        }
    }
}
