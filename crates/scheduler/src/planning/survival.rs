//! What the loss of each domain of the fleet would strand (SG21).
//!
//! The answer about a domain is what one Steady plan of all bindings says whose view lacks the
//! domain's clusters. But only what the loss touches is decided: the bindings with targets there. A
//! Steady decision about any other one is the same with and without the domain, and takes no room.
//! That does not hold for bindings that are about to move anyway, which a first pass over all of
//! them finds; they are decided with each domain.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::plan::decided;
use super::{ParsedBinding, PlanBuilder, PlanOptions, PlanningSnapshot, Proposal, in_order};
use crate::cluster_cache::CLUSTERS;
use ballast_api::ballast::v1alpha1::{DomainSurvival, FailureDomain, Limits, Mode, Order};
use ballast_api::karmada::cluster::v1alpha1::Cluster as ApiCluster;
use ballast_engine::karmada::{Cluster, ClusterSet};
use ballast_k8s::{Key, Quantity};

/// Workloads that are named for each domain.
const NAMED_MAX: usize = 10;

const STEADY: PlanOptions = PlanOptions {
    mode: Mode::Steady,
    limits: Limits { max_moved_replicas: None, min_moved_replicas: None, preserve_available: None },
};

/// What the loss of each domain would strand, the worst first. Once `gone` is true, nobody waits
/// for the answer, and the rest is left out.
pub fn survival(
    snapshot: &PlanningSnapshot,
    mut bindings: Vec<ParsedBinding>,
    by: FailureDomain,
    gone: &AtomicBool,
) -> Vec<DomainSurvival> {
    let domains = domains(&snapshot.clusters, by);
    if domains.is_empty() {
        return Vec::new();
    }
    // The scheduler of a Fleet placement decides by rules of its own, so nothing is known of it.
    bindings.retain(|parsed| !parsed.is_placement());
    in_order(&mut bindings, Order::Priority);
    let restless = restless(snapshot, &bindings, gone);
    let mut on: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, parsed) in bindings.iter().enumerate() {
        parsed.request.targets.iter().for_each(|target| on.entry(&target.name).or_default().push(index));
    }
    let allocatable = Allocatable::of(snapshot);
    let mut answers = Vec::with_capacity(domains.len());
    for (name, clusters) in domains {
        if gone.load(Ordering::Relaxed) {
            break;
        }
        let touched: BTreeSet<usize> =
            clusters.iter().filter_map(|cluster| on.get(&**cluster)).flatten().copied().collect();
        let decided: BTreeSet<usize> = touched.union(&restless).copied().collect();
        let cases = decided.into_iter().map(|index| bindings[index].clone()).collect();
        answers.push(lost(snapshot, &name, &clusters, cases, &allocatable));
    }
    answers.sort_by(|one, other| {
        let worst = |it: &DomainSurvival| std::cmp::Reverse((it.stranded_replicas, it.stranded_workloads));
        worst(one).cmp(&worst(other)).then_with(|| one.name.cmp(&other.name))
    });
    answers
}

/// What is said where no cluster is in a domain.
pub fn unknown_domain(by: FailureDomain) -> String {
    format!("no cluster says of which {} it is", by.as_str())
}

/// The clusters of each domain, by name. A cluster over several zones is in each of them. One that
/// does not say where it is, is in none.
pub(super) fn domains(clusters: &ClusterSet, by: FailureDomain) -> BTreeMap<Box<str>, BTreeSet<Arc<str>>> {
    let mut domains: BTreeMap<Box<str>, BTreeSet<Arc<str>>> = BTreeMap::new();
    let names = |cluster: &Cluster| -> Vec<Box<str>> {
        match by {
            FailureDomain::Cluster => vec![Box::from(&*cluster.name)],
            FailureDomain::Zone => cluster.zones.to_vec(),
            FailureDomain::Region => vec![cluster.region.clone()],
            FailureDomain::Provider => vec![cluster.provider.clone()],
        }
    };
    for cluster in clusters.iter() {
        for name in names(cluster).into_iter().filter(|name| !name.is_empty()) {
            domains.entry(name).or_default().insert(Arc::clone(&cluster.name));
        }
    }
    domains
}

/// The bindings that a Steady plan would move although nothing is lost.
fn restless(snapshot: &PlanningSnapshot, bindings: &[ParsedBinding], gone: &AtomicBool) -> BTreeSet<usize> {
    let mut builder = PlanBuilder::new(snapshot);
    let mut found = BTreeSet::new();
    for (index, parsed) in bindings.iter().enumerate() {
        if gone.load(Ordering::Relaxed) {
            break;
        }
        if let Proposal::Move { to, .. } = builder.propose(parsed, &STEADY) {
            builder.accept(parsed, &to);
            found.insert(index);
        }
    }
    found
}

fn lost(
    snapshot: &PlanningSnapshot,
    name: &str,
    clusters: &BTreeSet<Arc<str>>,
    cases: Vec<ParsedBinding>,
    allocatable: &Allocatable,
) -> DomainSurvival {
    let mut rest = snapshot.clone();
    clusters.iter().for_each(|cluster| rest.lose(cluster));
    let (plan, builder) =
        decided(&rest, cases, Order::Priority, |builder, parsed| builder.propose(parsed, &STEADY), |_, _, _| {});
    let mut answer = DomainSurvival { name: name.to_owned(), ..DomainSurvival::default() };
    for refused in &plan.unplaceable {
        let there = refused.parsed.request.targets.iter().filter(|target| clusters.contains(&target.name));
        let lost: Vec<i64> = there.map(|target| i64::from(target.replicas)).collect();
        if lost.is_empty() {
            continue;
        }
        answer.stranded_replicas += lost.iter().sum::<i64>();
        answer.stranded_workloads += 1;
        if answer.first.len() < NAMED_MAX {
            let workload = &refused.parsed.workload;
            let namespace = workload.namespace.as_deref().map(|namespace| format!("{namespace}/")).unwrap_or_default();
            answer.first.push(format!("{namespace}{}", workload.name));
        }
    }
    answer.room_left = left(builder.clusters()).into_iter().map(|(name, amount)| (name, amount.to_string())).collect();
    answer.share = allocatable.share(clusters);
    answer
}

/// The room of all clusters together.
fn left(clusters: &ClusterSet) -> BTreeMap<String, Quantity> {
    let mut sums: BTreeMap<String, Quantity> = BTreeMap::new();
    for capacity in clusters.iter().filter(|cluster| !cluster.deleting).filter_map(|cluster| cluster.capacity.as_ref())
    {
        for (resource, amount) in &capacity.free {
            // What is over-committed is no room that another cluster lacks.
            if !amount.is_negative() {
                add(&mut sums, resource, *amount);
            }
        }
    }
    sums
}

fn add(sums: &mut BTreeMap<String, Quantity>, resource: &str, amount: Quantity) {
    let sum = sums.entry(resource.to_owned()).or_insert(Quantity::from_units(0));
    *sum = sum.plus(amount);
}

/// What each cluster has, used or not.
struct Allocatable {
    of_cluster: BTreeMap<Arc<str>, BTreeMap<String, Quantity>>,
    all: BTreeMap<String, Quantity>,
}

impl Allocatable {
    fn of(snapshot: &PlanningSnapshot) -> Allocatable {
        let (mut of_cluster, mut all) = (BTreeMap::new(), BTreeMap::new());
        for cluster in snapshot.clusters.iter() {
            let object = snapshot.view.get(&Key::cluster(CLUSTERS, &*cluster.name));
            let stored = object.and_then(|object| object.typed::<ApiCluster>().ok());
            let supposed = snapshot.supposed.get(&cluster.name).map(|cluster| &**cluster);
            let typed = supposed.or(stored.as_deref());
            let summary = typed.and_then(|cluster| cluster.status.resource_summary.as_ref());
            let mut own = BTreeMap::new();
            for (resource, amount) in summary.into_iter().flat_map(|summary| summary.allocatable.iter()) {
                if let Ok(amount) = amount.text().parse::<Quantity>() {
                    add(&mut own, resource, amount);
                    add(&mut all, resource, amount);
                }
            }
            of_cluster.insert(Arc::clone(&cluster.name), own);
        }
        Allocatable { of_cluster, all }
    }

    fn share(&self, clusters: &BTreeSet<Arc<str>>) -> ballast_api::Pairs<f64> {
        let mut own = BTreeMap::new();
        for (resource, amount) in clusters.iter().filter_map(|cluster| self.of_cluster.get(cluster)).flatten() {
            add(&mut own, resource, *amount);
        }
        let share = |(resource, amount): (String, Quantity)| {
            let all = self.all.get(&resource).map(|all| all.nanos()).filter(|all| *all > 0)?;
            // Three digits are enough to tell shares apart.
            Some((resource, (amount.nanos() as f64 / all as f64 * 1_000.0).round() / 1_000.0))
        };
        own.into_iter().filter_map(share).collect()
    }
}
