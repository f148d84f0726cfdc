//! The replicas that the loss of each domain would strand (SG21).
//!
//! Clusters may be lost already. Their replicas need other clusters, although no eviction has
//! begun, so the computation starts without them: only the remaining clusters can be lost. The
//! result of a domain is the difference between two Steady plans of all bindings: one without the
//! lost clusters and those of the domain, and one without the lost clusters alone.
//!
//! Only the bindings with targets in the domain are decided. A Steady decision about any other
//! binding is the same with and without the domain, and takes no capacity. That does not hold for
//! bindings that are about to move anyway, which a first pass over all bindings finds; they are
//! decided with each domain. Bindings that wait for capacity may get it if another binding leaves a
//! cluster, or does not arrive; only then they are decided, too. Bindings with a copy on each
//! cluster also get it if a cluster is lost that has no capacity for their copy.
//!
//! The loss of any cluster affects a workload that runs on every cluster. It is decided only if the
//! domain contains all of its copies: otherwise the loss removes the copies there, and changes
//! nothing elsewhere.
//!
//! Domains are independent of each other, so several threads may share them. State that is the same
//! for all is computed once: the sorted bindings, and the sums of the capacity, which a loss
//! changes in part.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::plan::settled;
use super::{ParsedBinding, PlanBuilder, PlanOptions, PlanningSnapshot, Proposal, in_order};
use crate::cluster_cache::CLUSTERS;
use ballast_api::ballast::v1alpha1::{DomainSurvival, FailureDomain, Limits, Mode, Order};
use ballast_api::karmada::cluster::v1alpha1::Cluster as ApiCluster;
use ballast_engine::karmada::{Cluster, ClusterSet, Division, Target, TargetIndex};
use ballast_k8s::{Key, Quantity, natural};

/// Maximum number of workloads that are named for each domain.
const NAMED_MAX: usize = 10;

const STEADY: PlanOptions = PlanOptions {
    mode: Mode::Steady,
    limits: Limits { max_moved_replicas: None, min_moved_replicas: None, preserve_available: None },
};

/// Maximum number of threads for an interactive request, if the machine has as many.
const THREADS_MAX: usize = 4;

/// Below this number of decisions, one thread is used, because starting another costs more.
const PER_THREAD_MIN: usize = 1_000;

/// The number of threads to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Haste {
    /// A client waits for the response.
    Waited,
    /// No client waits: one thread, so that other work can use the rest of the machine.
    Background,
}

/// Returns the replicas that the loss of each domain would strand, the worst domain first. Once
/// `gone` is true, the client has disconnected, and the remaining domains are omitted.
pub fn survival(
    snapshot: &PlanningSnapshot,
    bindings: &[ParsedBinding],
    by: FailureDomain,
    haste: Haste,
    gone: &AtomicBool,
) -> Vec<DomainSurvival> {
    survival_of(snapshot, bindings, None, by, haste, gone)
}

/// Computes `survival`, counting only the bindings with these keys, if a set is given. All bindings
/// are decided, because they compete for the same capacity.
pub fn survival_of(
    snapshot: &PlanningSnapshot,
    bindings: &[ParsedBinding],
    counted: Option<&HashSet<Key>>,
    by: FailureDomain,
    haste: Haste,
    gone: &AtomicBool,
) -> Vec<DomainSurvival> {
    let threads = match haste {
        // Queries to estimators block, and each one covers everything that is not known yet.
        Haste::Waited if snapshot.asking.is_none() => {
            std::thread::available_parallelism().map_or(1, NonZero::get).min(THREADS_MAX)
        }
        _ => 1,
    };
    answered(snapshot, bindings, counted, by, threads, PER_THREAD_MIN, gone)
}

fn answered(
    snapshot: &PlanningSnapshot,
    bindings: &[ParsedBinding],
    counted: Option<&HashSet<Key>>,
    by: FailureDomain,
    threads: usize,
    per_thread: usize,
    gone: &AtomicBool,
) -> Vec<DomainSurvival> {
    let snapshot = &snapshot.without_lost();
    let domains: Vec<_> = domains(&snapshot.clusters, by).into_iter().collect();
    if domains.is_empty() {
        return Vec::new();
    }
    // The scheduler of a KubeFleet placement has its own rules, so the result is unknown.
    let mut bindings: Vec<&ParsedBinding> = bindings.iter().filter(|parsed| !parsed.is_placement()).collect();
    in_order(&mut bindings, Order::Priority);
    let most = threads.min(bindings.len() / per_thread).max(1);
    let Restless { moving, waiting, unfit, copied } = Restless::of(snapshot, &bindings, most, gone);
    let of_capacity = moving.union(&waiting).map(|index| bindings[*index]).collect();
    let mut stranded = nowhere(snapshot, of_capacity);
    stranded.extend(unfit.iter().map(|index| &bindings[*index].object.key));
    let mut on: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, parsed) in bindings.iter().enumerate() {
        parsed.request.targets.iter().for_each(|target| on.entry(&target.name).or_default().push(index));
    }
    // A workload that runs on each cluster waits for full clusters, and fits without them.
    let full: Vec<(usize, TargetIndex<'_>)> = waiting
        .iter()
        .map(|index| (*index, &bindings[*index].request))
        .filter(|(_, request)| !request.is_shared())
        .map(|(index, request)| (index, TargetIndex::new(&request.targets)))
        .collect();
    let copies: usize = copied.values().sum();
    let decisions = on.values().map(Vec::len).sum::<usize>() - copies + domains.len() * moving.len();
    let (allocatable, room) = (Allocatable::of(snapshot), Sums::of(&snapshot.clusters));
    let next = AtomicUsize::new(0);
    // Each thread takes the next unclaimed domain.
    let part = || {
        let mut answers = Vec::new();
        while !gone.load(Ordering::Relaxed)
            && let Some((name, clusters)) = domains.get(next.fetch_add(1, Ordering::Relaxed))
        {
            let mut touched: BTreeMap<usize, usize> = BTreeMap::new();
            for index in clusters.iter().filter_map(|cluster| on.get(&**cluster)).flatten() {
                *touched.entry(*index).or_default() += 1;
            }
            touched.retain(|index, there| copied.get(index).is_none_or(|copies| *there >= *copies));
            let mut decided: BTreeSet<usize> = touched.into_keys().chain(moving.iter().copied()).collect();
            let waits_for = |there: &TargetIndex<'_>| clusters.iter().any(|cluster| there.find(cluster).is_none());
            decided.extend(full.iter().filter(|(_, there)| waits_for(there)).map(|(index, _)| *index));
            let answer = |decided: &BTreeSet<usize>| {
                let cases = decided.iter().map(|index| bindings[*index]).collect();
                lost(
                    snapshot,
                    name,
                    clusters,
                    cases,
                    Counted { keys: counted, stranded: &stranded },
                    &allocatable,
                    &room,
                )
            };
            let (mut said, frees_room) = answer(&decided);
            if !waiting.is_empty() && (frees_room || !moving.is_empty()) {
                decided.extend(&waiting);
                said = answer(&decided).0;
            }
            answers.push(said);
        }
        answers
    };
    let threads = threads.min(decisions / per_thread).clamp(1, domains.len());
    let mut answers: Vec<DomainSurvival> = on_threads(threads, part).into_iter().flatten().collect();
    answers.sort_by(|one, other| {
        let worst = |it: &DomainSurvival| std::cmp::Reverse((it.stranded_replicas, it.stranded_workloads));
        worst(one).cmp(&worst(other)).then_with(|| natural::compare(&one.name, &other.name))
    });
    answers
}

/// Returns the error if no remaining cluster is in a domain.
pub fn unknown_domain(by: FailureDomain) -> String {
    match by {
        FailureDomain::Cluster => "there is no cluster, or all are lost already".to_owned(),
        _ => format!("no cluster says of which {} it is, or all that do are lost already", by.as_str()),
    }
}

/// Returns the clusters of each domain, by name. A cluster in several zones is in each of them. A
/// cluster without the field is in none.
pub fn domains(clusters: &ClusterSet, by: FailureDomain) -> BTreeMap<Box<str>, BTreeSet<Arc<str>>> {
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

/// Runs `part` on this many threads, including this one, and returns all results.
fn on_threads<T: Send>(threads: usize, part: impl Fn() -> T + Sync) -> Vec<T> {
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(&part)).collect();
        let own = part();
        let joined = others.into_iter().map(|other| match other.join() {
            Ok(said) => said,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        std::iter::once(own).chain(joined).collect()
    })
}

/// The bindings that a Steady plan would move or refuse without a loss.
struct Restless {
    /// Bindings that the plan would move.
    moving: BTreeSet<usize>,
    /// Bindings without capacity.
    waiting: BTreeSet<usize>,
    /// Bindings that fit nowhere, whatever the capacity.
    unfit: BTreeSet<usize>,
    /// Bindings that only lose copies with a cluster, as long as one is left, with the number of
    /// their clusters. The plan does not move them, or removes copies from lost clusters.
    copied: BTreeMap<usize, usize>,
}

impl Restless {
    fn of(snapshot: &PlanningSnapshot, bindings: &[&ParsedBinding], threads: usize, gone: &AtomicBool) -> Restless {
        // Until the first binding moves, all are decided on the same capacity, which allows several
        // threads.
        let (next, first) = (AtomicUsize::new(0), AtomicUsize::new(bindings.len()));
        let found = on_threads(threads, || {
            let (mut builder, mut refused, mut copied) =
                (PlanBuilder::without_holders(snapshot), Vec::new(), Vec::new());
            while !gone.load(Ordering::Relaxed) {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= first.load(Ordering::Relaxed) {
                    break;
                }
                let proposal = builder.propose(bindings[index], &STEADY);
                if let Some(copies) = copies_left(&mut builder, bindings[index], &proposal) {
                    copied.push((index, copies));
                    continue;
                }
                match proposal {
                    Proposal::Move { .. } => drop(first.fetch_min(index, Ordering::Relaxed)),
                    Proposal::Unplaceable { reason, .. } => refused.push((index, bindings[index].waits(reason))),
                    Proposal::Stay { .. } => {}
                }
            }
            (refused, copied)
        });
        let first = first.into_inner();
        let (refused, copied): (Vec<_>, Vec<_>) = found.into_iter().unzip();
        let refused: Vec<(usize, bool)> = refused.into_iter().flatten().filter(|(index, _)| *index < first).collect();
        let of = |waits: bool| refused.iter().filter(|it| it.1 == waits).map(|it| it.0).collect();
        let copied = copied.into_iter().flatten().filter(|(index, _)| *index < first).collect();
        let mut restless = Restless { moving: BTreeSet::new(), waiting: of(true), unfit: of(false), copied };
        let mut builder = PlanBuilder::without_holders(snapshot);
        for (index, parsed) in bindings.iter().enumerate().skip(first) {
            if gone.load(Ordering::Relaxed) {
                break;
            }
            let proposal = builder.propose(parsed, &STEADY);
            if let Some(copies) = copies_left(&mut builder, parsed, &proposal) {
                restless.copied.insert(index, copies);
                continue;
            }
            match proposal {
                Proposal::Move { to, .. } => {
                    builder.accept(parsed, &to);
                    restless.moving.insert(index);
                }
                Proposal::Unplaceable { reason, .. } if parsed.waits(reason) => drop(restless.waiting.insert(index)),
                Proposal::Unplaceable { .. } => drop(restless.unfit.insert(index)),
                Proposal::Stay { .. } => {}
            }
        }
        restless
    }
}

/// Returns the number of remaining clusters of a workload that runs on every cluster, if the loss
/// of further clusters can only remove its copies there. `None`: the loss may change more, or the
/// workload is not of this kind. Its clusters must not depend on each other, by rules or by a
/// quota, and its copies must leave no cluster that other workloads can use.
fn copies_left(builder: &mut PlanBuilder, parsed: &ParsedBinding, proposal: &Proposal) -> Option<usize> {
    let targets = &parsed.request.targets;
    let placement = parsed.request.placement.as_ref()?;
    let is_copied = placement.division == Division::Duplicated && parsed.request.components.is_empty();
    let is_ruled = !placement.spread.is_empty() || !placement.wishes.is_empty() || !placement.bounds.is_empty();
    if !is_copied || is_ruled || parsed.is_grouped() {
        return None;
    }
    let left = match proposal {
        Proposal::Stay { .. } => targets,
        Proposal::Move { to, .. } => to,
        Proposal::Unplaceable { .. } => return None,
    };
    let (present, after) = (TargetIndex::new(targets), TargetIndex::new(left));
    let is_lost = |target: &Target| builder.clusters().find(&target.name).is_none();
    let only_leaves = left.iter().all(|target| present.find(&target.name) == Some(target))
        && targets.iter().all(|target| after.find(&target.name).is_some() || is_lost(target));
    let is_charged = builder.left_by_quotas(&parsed.object, &[parsed.request.replicas.max(1)]).is_some();
    (only_leaves && !left.is_empty() && !is_charged).then_some(left.len())
}

/// The bindings that a result counts: those with these keys, or all; bindings that fit nowhere
/// before the loss count only for the replicas that the loss takes from them.
#[derive(Clone, Copy)]
struct Counted<'c> {
    keys: Option<&'c HashSet<Key>>,
    stranded: &'c HashSet<&'c Key>,
}

/// Returns the bindings that fit nowhere although no domain is lost. `cases` are in decision order.
fn nowhere<'b>(snapshot: &PlanningSnapshot, cases: Vec<&'b ParsedBinding>) -> HashSet<&'b Key> {
    let mut builder = PlanBuilder::without_holders(snapshot);
    builder.ask_about(&cases);
    let propose = |builder: &mut PlanBuilder, parsed: &ParsedBinding| builder.propose(parsed, &STEADY);
    let refused = settled(&mut builder, cases, propose, |builder, parsed, proposal| {
        if let Proposal::Move { to, .. } = proposal {
            builder.accept(parsed, &to);
        }
    });
    refused.into_iter().map(|(parsed, ..)| &parsed.object.key).collect()
}

/// Returns the result for a domain, and whether the plan frees capacity on a cluster that is not
/// lost. `cases` are in decision order.
fn lost(
    snapshot: &PlanningSnapshot,
    name: &str,
    clusters: &BTreeSet<Arc<str>>,
    cases: Vec<&ParsedBinding>,
    counted: Counted<'_>,
    allocatable: &Allocatable,
    room: &Sums,
) -> (DomainSurvival, bool) {
    let mut rest = snapshot.clone();
    clusters.iter().for_each(|cluster| rest.lose(cluster));
    let mut builder = PlanBuilder::without_holders(&rest);
    builder.ask_about(&cases);
    let propose = |builder: &mut PlanBuilder, parsed: &ParsedBinding| builder.propose(parsed, &STEADY);
    let mut frees_room = false;
    let refused = settled(&mut builder, cases, propose, |builder, parsed, proposal| {
        if let Proposal::Move { to, .. } = proposal {
            let after = TargetIndex::new(&to);
            let has_fewer = |target: &Target| {
                let there = after.find(&target.name);
                !clusters.contains(&target.name) && there.is_none_or(|there| there.replicas < target.replicas)
            };
            frees_room |= parsed.request.targets.iter().any(has_fewer);
            builder.accept(parsed, &to);
        }
    });
    let mut answer = DomainSurvival { name: name.to_owned(), ..DomainSurvival::default() };
    for (parsed, ..) in refused {
        let is_stranded = counted.stranded.contains(&parsed.object.key);
        let there = parsed.request.targets.iter().filter(|target| clusters.contains(&target.name));
        let lost: Vec<i64> = there.map(|target| i64::from(target.replicas)).collect();
        if is_stranded && lost.is_empty() || counted.keys.is_some_and(|keys| !keys.contains(&parsed.object.key)) {
            continue;
        }
        answer.stranded_replicas += match is_stranded {
            true => lost.iter().sum(),
            false => builder.needed(parsed),
        };
        answer.stranded_workloads += 1;
        if answer.first.len() < NAMED_MAX {
            let workload = &parsed.workload;
            let namespace = workload.namespace.as_deref().map(|namespace| format!("{namespace}/")).unwrap_or_default();
            answer.first.push(format!("{namespace}{}", workload.name));
        }
    }
    let mut left = room.clone();
    clusters.iter().filter_map(|cluster| snapshot.clusters.find(cluster)).for_each(|cluster| left.count(cluster, -1));
    // Both are sorted by name. Clusters that the plan has not changed are shared.
    for (before, after) in rest.clusters.iter().zip(builder.clusters().iter()) {
        if !Arc::ptr_eq(before, after) {
            left.count(before, -1);
            left.count(after, 1);
        }
    }
    answer.room_left = left.told();
    answer.share = allocatable.share(clusters);
    (answer, frees_room)
}

/// The total free capacity of several clusters by resource, with the number of clusters that report
/// it.
#[derive(Clone, Default)]
struct Sums(BTreeMap<String, (Quantity, i64)>);

impl Sums {
    fn of(clusters: &ClusterSet) -> Sums {
        let mut sums = Sums::default();
        clusters.iter().for_each(|cluster| sums.count(cluster, 1));
        sums
    }

    /// Adds (`times` = 1) or removes (-1) a cluster.
    fn count(&mut self, cluster: &Cluster, times: i64) {
        let capacity = cluster.capacity.as_ref().filter(|_| !cluster.deleting);
        for (resource, amount) in capacity.into_iter().flat_map(|capacity| &capacity.free) {
            // Over-commitment of one cluster does not reduce the capacity of another.
            if amount.is_negative() {
                continue;
            }
            if !self.0.contains_key(&**resource) {
                self.0.insert(resource.to_string(), (Quantity::ZERO, 0));
            }
            let (sum, tell) = self.0.get_mut(&**resource).expect("inserted if it was absent");
            *sum = if times > 0 { sum.plus(*amount) } else { sum.minus(*amount) };
            *tell += times;
        }
    }

    fn told(self) -> ballast_api::Pairs<String> {
        let told = self.0.into_iter().filter(|(_, (_, tell))| *tell > 0);
        told.map(|(resource, (sum, _))| (resource, sum.to_string())).collect()
    }
}

fn add(sums: &mut BTreeMap<String, Quantity>, resource: &str, amount: Quantity) {
    let sum = sums.entry(resource.to_owned()).or_insert(Quantity::from_units(0));
    *sum = sum.plus(amount);
}

/// The allocatable resources of each cluster, used or not.
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
            // Three digits are enough to distinguish shares.
            Some((resource, (amount.nanos() as f64 / all as f64 * 1_000.0).round() / 1_000.0))
        };
        own.into_iter().filter_map(share).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::super::plan::decided;
    use super::super::tests::{AGGREGATED, DUPLICATED, DYNAMIC, binding_with, cluster, only, snapshot};
    use super::*;

    /// Returns the bindings that a plan of everything without these clusters refuses, and the
    /// builder with the remaining capacity.
    fn planned(
        snapshot: &PlanningSnapshot,
        bindings: &[ParsedBinding],
        clusters: impl Iterator<Item = Arc<str>>,
    ) -> (Vec<ParsedBinding>, PlanBuilder) {
        let mut rest = snapshot.clone();
        clusters.for_each(|cluster| rest.lose(&cluster));
        let propose = |builder: &mut PlanBuilder, parsed: &ParsedBinding| builder.propose(parsed, &STEADY);
        let (plan, builder) = decided(&rest, bindings.to_vec(), Order::Priority, propose, |_, _, _| {});
        (plan.unplaceable.into_iter().map(|refused| refused.parsed).collect(), builder)
    }

    /// Returns for each domain the difference between the plan without the lost clusters and the
    /// domain, and the plan without the lost clusters.
    fn by_plans(
        snapshot: &PlanningSnapshot,
        bindings: &[ParsedBinding],
        by: FailureDomain,
    ) -> BTreeMap<String, (i64, Vec<String>, ballast_api::Pairs<String>)> {
        let lost: BTreeSet<Arc<str>> = snapshot.lost().cloned().collect();
        let before = planned(snapshot, bindings, lost.iter().cloned()).0;
        let answer = |(name, clusters): (Box<str>, BTreeSet<Arc<str>>)| {
            let gone: BTreeSet<Arc<str>> = clusters.union(&lost).cloned().collect();
            let (refused, builder) = planned(snapshot, bindings, gone.iter().cloned());
            let (mut stranded, mut names) = (0, Vec::new());
            for parsed in refused {
                let on = |gone: &BTreeSet<Arc<str>>| -> Vec<i64> {
                    let there = parsed.request.targets.iter().filter(|target| gone.contains(&target.name));
                    there.map(|target| i64::from(target.replicas)).collect()
                };
                let assigned: i64 = parsed.request.targets.iter().map(|target| i64::from(target.replicas)).sum();
                let missing = (i64::from(parsed.request.replicas) - assigned).max(0);
                let is_new = before.iter().all(|known| known.object.key != parsed.object.key);
                stranded += match is_new {
                    true => on(&gone).iter().sum::<i64>() + missing,
                    false => on(&clusters).iter().sum(),
                };
                let counts = is_new || !on(&clusters).is_empty();
                names.extend(counts.then(|| format!("shop/{}", parsed.workload.name)));
            }
            let mut left = BTreeMap::new();
            for cluster in builder.clusters().iter() {
                for (resource, amount) in &cluster.capacity.as_ref().unwrap().free {
                    if !amount.is_negative() {
                        add(&mut left, resource, *amount);
                    }
                }
            }
            let left = left.into_iter().map(|(resource, amount)| (resource, amount.to_string())).collect();
            (name.to_string(), (stranded, names, left))
        };
        domains(&snapshot.without_lost().clusters, by).into_iter().map(answer).collect()
    }

    proptest! {
        #[test]
        fn the_result_is_the_difference_of_two_plans_on_any_threads(
            room in prop::collection::vec((0_i64..12, 0_i64..9, 0_usize..3), 2..6),
            workloads in prop::collection::vec((1_i32..6, 0_u8..4, 0_i32..3, 0_usize..6, 0_usize..6), 1..12),
            leaving in prop::option::of(0_usize..6),
            unready in prop::collection::btree_set(0_usize..6, 0..3),
            by_region in any::<bool>(),
        ) {
            let named = |index: usize| format!("m{}", index % room.len());
            let clusters = room.iter().enumerate().map(|(index, (pods, tenths, region))| Cluster {
                region: format!("r{region}").into(),
                ..cluster(&named(index), *pods, tenths * 100)
            });
            let objects: Vec<_> = workloads.iter().enumerate().map(|(index, (replicas, kind, priority, one, two))| {
                let placement = [DYNAMIC, AGGREGATED, DUPLICATED, DUPLICATED][usize::from(*kind)];
                let (one, two) = (named(*one), named(*two));
                let half = replicas / 2;
                let targets = match kind {
                    3 => (0..room.len()).map(|index| format!("{}:{replicas} ", named(index))).collect(),
                    2 if one != two => format!("{one}:{replicas} {two}:{replicas}"),
                    0 | 1 if one != two && half > 0 => format!("{one}:{half} {two}:{}", replicas - half),
                    _ => format!("{one}:{replicas}"),
                };
                binding_with(&format!("app-{index:02}"), *replicas, placement, &targets, |tree| {
                    tree["spec"]["schedulePriority"] = json!({"priority": priority});
                })
            }).collect();
            let mut snapshot = snapshot(clusters, &objects);
            if let Some(index) = leaving {
                let name = named(index);
                let gone = Cluster { deleting: true, ..(**snapshot.clusters.find(&name).unwrap()).clone() };
                snapshot.clusters.upsert(gone);
            }
            snapshot.unready = Arc::new(unready.iter().map(|index| named(*index).into()).collect());
            let bindings = only(&objects);
            let by = if by_region { FailureDomain::Region } else { FailureDomain::Cluster };
            let plain = by_plans(&snapshot, &bindings, by);
            let still = AtomicBool::new(false);
            let on = |threads: usize| answered(&snapshot, &bindings, None, by, threads, 1, &still);
            let answers = on(1);
            prop_assert_eq!(&answers, &on(3));
            prop_assert_eq!(answers.len(), plain.len());
            for answer in answers {
                let (stranded, names, left) = &plain[&answer.name];
                prop_assert_eq!(&answer.room_left, left);
                prop_assert_eq!(answer.stranded_replicas, *stranded, "{}", answer.name);
                let mut first = answer.first;
                first.iter().for_each(|name| assert!(names.contains(name), "{name} of {names:?}"));
                first.dedup();
                prop_assert_eq!(first.len(), names.len().min(NAMED_MAX));
            }
        }
    }
}
