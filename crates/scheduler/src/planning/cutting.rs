//! Reduces the decision about one binding to the limits of a rebalance. Pure.

use std::collections::BTreeMap;

use super::ParsedBinding;
use super::limits::{self, ClusterShare};
use ballast_engine::karmada::{Division, Target, TargetIndex};

/// Returns whether the replicas are divided among the clusters. Otherwise each cluster has all of
/// them, or there are none.
pub(super) fn is_divided(parsed: &ParsedBinding, targets: &[Target]) -> bool {
    let duplicated =
        parsed.request.placement.as_ref().is_some_and(|placement| placement.division == Division::Duplicated);
    !duplicated && targets.iter().chain(&parsed.request.targets).any(|target| target.replicas > 0)
}

/// Returns the base of percentages: the replicas of the workload, summed over all clusters if each
/// has all of them. A copy of an object without replicas counts as one.
pub(super) fn in_all(parsed: &ParsedBinding, wanted: &[Target]) -> i64 {
    let replicas = i64::from(parsed.request.replicas.max(1));
    if is_divided(parsed, wanted) { replicas } else { replicas.saturating_mul(wanted.len() as i64) }
}

/// Returns the weight of these targets for limits: the number of arriving replicas. A copy of an
/// object without replicas counts as one.
pub(super) fn weight(parsed: &ParsedBinding, to: &[Target]) -> i64 {
    let present = TargetIndex::new(&parsed.request.targets);
    let is_new = |target: &&Target| present.find(&target.name).is_none();
    let objects = to.iter().filter(|target| target.replicas == 0).filter(is_new).count() as i64;
    parsed.arrivals(to) + objects
}

/// Returns all affected clusters by name, with the present and the wanted target.
fn shares<'a>(
    parsed: &'a ParsedBinding,
    wanted: &'a [Target],
) -> BTreeMap<&'a str, (Option<&'a Target>, Option<&'a Target>)> {
    let mut shares: BTreeMap<&str, (Option<&Target>, Option<&Target>)> = BTreeMap::new();
    parsed.request.targets.iter().for_each(|target| shares.entry(&*target.name).or_default().0 = Some(target));
    wanted.iter().for_each(|target| shares.entry(&*target.name).or_default().1 = Some(target));
    shares
}

fn replicas(target: Option<&Target>) -> i64 {
    target.map_or(0, |target| i64::from(target.replicas))
}

pub(super) fn cut_replicas(
    parsed: &ParsedBinding,
    wanted: &[Target],
    most: Option<i64>,
    may_leave: impl Fn(&str, i64) -> i64,
) -> Vec<Target> {
    let clusters = shares(parsed, wanted);
    let share = |(name, (is, shall)): (&&str, &(Option<&Target>, Option<&Target>))| {
        let present = replicas(*is);
        ClusterShare { present, wanted: replicas(*shall), may_leave: may_leave(name, present) }
    };
    let after = limits::cut(&clusters.iter().map(share).collect::<Vec<_>>(), most);
    let targets = clusters.values().zip(after).filter(|(_, after)| *after > 0);
    let target = |((is, shall), after): (&(Option<&Target>, Option<&Target>), i64)| {
        let known = shall.or(*is).expect("a cluster is concerned for one of them");
        Target { replicas: i32::try_from(after).unwrap_or(i32::MAX), ..known.clone() }
    };
    targets.map(target).collect()
}

/// Exchanges clusters for clusters, for workloads of which each cluster has all replicas.
pub(super) fn cut_clusters(
    parsed: &ParsedBinding,
    wanted: &[Target],
    most: Option<i64>,
    may_leave: impl Fn(&str, i64) -> i64,
) -> Vec<Target> {
    let clusters = shares(parsed, wanted);
    // A change of the replicas on a cluster that stays is no move.
    let staying: i64 = clusters
        .values()
        .filter(|(is, _)| is.is_some())
        .map(|(is, shall)| shall.map_or(0, |shall| (i64::from(shall.replicas) - replicas(*is)).max(0)))
        .sum();
    let each = wanted.iter().map(|target| i64::from(target.replicas)).max().unwrap_or(0).max(1);
    let share = |(name, (is, shall)): (&&str, &(Option<&Target>, Option<&Target>))| {
        let present = i64::from(is.is_some());
        // A copy leaves as a whole or not at all.
        let all = replicas(*is).max(1);
        let may_leave = i64::from(may_leave(name, all) >= all);
        ClusterShare { present, wanted: i64::from(shall.is_some()), may_leave }
    };
    let most = most.map(|most| (most - staying).max(0) / each);
    let after = limits::cut(&clusters.iter().map(share).collect::<Vec<_>>(), most);
    let targets = clusters.values().zip(after).filter(|(_, after)| *after > 0);
    targets.map(|((is, shall), _)| shall.or(*is).expect("it is concerned").clone()).collect()
}
