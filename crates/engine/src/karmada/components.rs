//! Capacity for workloads of several pod templates. All pods of such a workload form one set, which
//! fits on a cluster as a whole or not at all.
//!
//! The number of sets that fit follows from the sums of the free resources. If the cluster reports
//! kinds of nodes, each pod also has to find a node: pod after pod is put on the first node that
//! has capacity.

use super::cluster::{Cluster, Grade, amount, counted};
use super::estimate::{UNLIMITED, is_node_resource};
use super::filters::AttemptContext;
use super::placement::SpreadBy;
use super::profile::Profile;
use super::request::{Component, Request, Target, TargetComponent};

/// The most sets that are counted. It bounds the search on nodes.
const SETS_MAX: i64 = 10_000;

/// Returns whether the workload is counted in sets: it has components, and goes to exactly one
/// cluster.
///
/// Differs from Karmada (D63): the Ballast profile also counts sets if the affinity names a single
/// cluster, and disregards a constraint that the division ignores.
pub(super) fn counts_sets(context: &AttemptContext<'_>) -> bool {
    let AttemptContext { request, placement, profile, .. } = *context;
    if !profile.multiple_pod_templates || request.components.is_empty() {
        return false;
    }
    let one_cluster = |spread: &super::placement::SpreadConstraint| {
        spread.by == SpreadBy::Cluster && spread.min == 1 && spread.max == 1
    };
    let constrained = placement.spread.iter().any(one_cluster);
    if !profile.deviates() {
        return constrained;
    }
    let one_name =
        context.affinity().is_some_and(|(affinity, overflow)| affinity.names.len() == 1 && overflow.is_empty());
    one_name || (constrained && !placement.ignores_spread())
}

/// Returns the components of each target. Empty for a workload of one pod template, where the
/// replicas contain the same.
pub(super) fn assigned(context: &AttemptContext<'_>) -> Vec<TargetComponent> {
    let request = context.request;
    if request.components.len() < 2 || !counts_sets(context) {
        return Vec::new();
    }
    let whole = |component: &Component| TargetComponent { name: component.name.clone(), replicas: component.replicas };
    request.components.iter().map(whole).collect()
}

/// Returns how many sets the target counts for: 1 if the growth that its set still needs fits on
/// the cluster, else 0. A target without counts per component is assumed to hold one full set.
pub(super) fn held(cluster: Option<&Cluster>, target: &Target, components: &[Component]) -> i32 {
    let more = |component: &Component| {
        let held = target.components.iter().find(|held| held.name == component.name);
        let held = held.map_or(if target.components.is_empty() { component.replicas } else { 0 }, |held| held.replicas);
        Component { replicas: component.replicas.saturating_sub(held).max(0), ..component.clone() }
    };
    let growth: Vec<Component> = components.iter().map(more).filter(|component| component.replicas > 0).collect();
    i32::from(growth.is_empty() || cluster.is_some_and(|cluster| sets(cluster, &growth) > 0))
}

/// Returns whether there are no targets, or some target has other numbers of pods than desired.
pub(super) fn changed(request: &Request, profile: &Profile) -> bool {
    if !profile.multiple_pod_templates || request.components.is_empty() {
        return false;
    }
    let differs = |held: &[TargetComponent]| {
        let same = |held: &TargetComponent| {
            request.components.iter().any(|wanted| wanted.name == held.name && wanted.replicas == held.replicas)
        };
        held.len() != request.components.len() || !held.iter().all(same)
    };
    let held = |target: &Target| !target.components.is_empty() && differs(&target.components);
    request.targets.is_empty() || request.targets.iter().any(held)
}

/// Returns the number of pods of one set.
pub(super) fn pods(components: &[Component]) -> i32 {
    let pods = components.iter().map(|component| i64::from(component.replicas.max(0))).sum::<i64>();
    i32::try_from(pods).unwrap_or(UNLIMITED)
}

/// Returns how many whole sets of `components` fit on a cluster.
pub(super) fn sets(cluster: &Cluster, components: &[Component]) -> i32 {
    let Some(capacity) = &cluster.capacity else { return 0 };
    let pods: i64 = components.iter().map(|component| i64::from(component.replicas)).sum();
    if capacity.pods <= 0 || pods <= 0 {
        return capacity.pods.clamp(0, i64::from(UNLIMITED)) as i32;
    }
    let mut sets = capacity.pods / pods;
    for (name, needed) in needs(components) {
        let free = amount(&capacity.free, name).map_or(0, |free| counted(name, free).max(0));
        sets = sets.min(i64::try_from(i128::from(free) / needed).unwrap_or(i64::MAX));
    }
    if let Some(grades) = &capacity.grades {
        sets = sets.min(sets_on_nodes(grades, components, sets));
    }
    sets.min(i64::from(UNLIMITED)) as i32
}

/// Returns the amount of each resource that one set requests.
fn needs(components: &[Component]) -> Vec<(&str, i128)> {
    let mut needs: Vec<(&str, i128)> = Vec::new();
    for component in components {
        let Some(requirements) = &component.requirements else { continue };
        for (name, quantity) in &requirements.amounts {
            let needed = i128::from(counted(name, *quantity)) * i128::from(component.replicas.max(0));
            match needs.iter_mut().find(|(known, _)| **known == **name) {
                Some((_, sum)) => *sum += needed,
                None => needs.push((name, needed)),
            }
        }
    }
    needs.retain(|(_, needed)| *needed > 0);
    needs
}

/// Nodes of one kind with the same free resources, in the order in which they are tried.
#[derive(Clone, Debug, PartialEq)]
struct NodeRun {
    nodes: u64,
    /// The free amounts per node: pods first, then each resource that a component requests.
    left: Vec<i64>,
}

/// Assigns one set after another, pod by pod, to the first node that has capacity.
fn sets_on_nodes(grades: &[Grade], components: &[Component], most: i64) -> i64 {
    let mut resources: Vec<&str> = Vec::new();
    for requirements in components.iter().filter_map(|component| component.requirements.as_ref()) {
        resources.extend(requirements.amounts.iter().map(|(name, _)| &**name).filter(|name| is_node_resource(name)));
    }
    resources.sort_unstable();
    resources.dedup();
    let needs: Vec<(i64, Vec<i64>)> = components.iter().map(|component| pod(component, &resources)).collect();
    let mut runs: Vec<NodeRun> = grades
        .iter()
        .map(|grade| {
            let has = |name: &&str| amount(&grade.capacity, name).map_or(0, |has| counted(name, has));
            let left = std::iter::once(grade.pods.min(i64::MAX as u64) as i64).chain(resources.iter().map(has));
            NodeRun { nodes: grade.nodes, left: left.collect() }
        })
        .collect();
    let mut sets = 0;
    while sets < most.min(SETS_MAX) {
        // A node that can take no pod of any component stays full.
        runs.retain(|run| needs.iter().any(|(_, need)| fits(&run.left, need) > 0));
        if !needs.iter().all(|(pods, need)| put(&mut runs, *pods, need)) {
            return sets;
        }
        sets += 1;
    }
    // Above the bound, the sums decide.
    if sets < most { most } else { sets }
}

/// Returns the number of pods of a component, and the requests of each pod.
fn pod(component: &Component, resources: &[&str]) -> (i64, Vec<i64>) {
    let amounts = component.requirements.as_ref().map_or(&[][..], |requirements| &requirements.amounts);
    let need = |name: &&str| amount(amounts, name).map_or(0, |needed| counted(name, needed));
    (i64::from(component.replicas.max(0)), std::iter::once(1).chain(resources.iter().map(need)).collect())
}

fn fits(left: &[i64], need: &[i64]) -> i64 {
    let bounds = left.iter().zip(need).filter(|(_, need)| **need > 0).map(|(left, need)| (left / need).max(0));
    bounds.min().unwrap_or(0)
}

/// Puts pods on the first nodes that have capacity. Returns false if some pods are left.
fn put(runs: &mut Vec<NodeRun>, mut pods: i64, need: &[i64]) -> bool {
    let mut index = 0;
    while pods > 0 && index < runs.len() {
        let each = fits(&runs[index].left, need);
        if each == 0 {
            index += 1;
            continue;
        }
        let nodes = runs[index].nodes;
        let full = nodes.min((pods / each) as u64);
        let partial = if full < nodes { pods % each } else { 0 };
        let take = |run: &NodeRun, nodes: u64, pods: i64| {
            let left = run.left.iter().zip(need).map(|(left, need)| left - need * pods);
            NodeRun { nodes, left: left.collect() }
        };
        let run = runs[index].clone();
        let pieces = [
            take(&run, full, each),
            take(&run, u64::from(partial > 0), partial),
            NodeRun { nodes: nodes - full - u64::from(partial > 0), left: run.left.clone() },
        ];
        let pieces: Vec<NodeRun> = pieces.into_iter().filter(|run| run.nodes > 0).collect();
        pods -= full as i64 * each + partial;
        let count = pieces.len();
        runs.splice(index..=index, pieces);
        index += count;
    }
    pods == 0
}
