//! The former placement of a binding, in its annotation `ballast.dev/home` (RM36): when it is
//! written and removed, and its targets for the present number of replicas. See `Home` for the
//! definition. Pure.

use crate::move_annotation::MoveAnnotation;
use ballast_api::ballast::v1alpha1::Share;
use ballast_api::karmada::work::v1alpha2::{AnyBinding, HOME, Home, undecided_tasks};
use ballast_engine::karmada::{ClusterSet, Decision, Mode, Request, Target, TargetIndex};
use ballast_engine::webster::{self, Party};
use ballast_k8s::{Edit, Key, Time};
use ballast_watch::View;

/// Returns the placement to which a binding that is about to lose targets has to return: the
/// destination of its current move, if any, and otherwise its targets.
pub fn former(binding: &AnyBinding, key: &Key, view: &View, now: Time) -> Home {
    let mark = MoveAnnotation::of(&binding.metadata.annotations);
    match mark.and_then(|mark| mark.destination(key, view)) {
        Some(targets) => Home { targets, since: Some(now) },
        None => Home::before(binding, now),
    }
}

/// Returns whether these targets are the former placement, for the present number of replicas.
/// Copies may be on additional clusters.
pub fn is_home(home: &Home, request: &Request, targets: &[Target]) -> bool {
    if is_copied(request) {
        let there = TargetIndex::new(targets);
        return home.targets.iter().all(|share| there.find(&share.name).is_some());
    }
    let share = |target: &Target| Share { name: target.name.to_string(), replicas: target.replicas };
    let mut there: Vec<Share> = targets.iter().map(share).collect();
    there.sort_unstable();
    there == share_out(&home.targets, request)
}

/// Returns whether each cluster has the whole object.
fn is_copied(request: &Request) -> bool {
    !request.is_divisible() || !request.is_shared()
}

/// Divides the replicas of the workload in the proportion of `targets`. If each cluster has all
/// replicas, each keeps all. With spread constraints, each target keeps a replica if there are
/// enough. A workload scaled to zero has zero on each.
pub fn share_out(targets: &[Share], request: &Request) -> Vec<Share> {
    let mut shares = targets.to_vec();
    let wanted = request.replicas.max(0);
    if !request.is_divisible() {
        return shares;
    }
    if !request.is_shared() || wanted == 0 {
        shares.iter_mut().for_each(|share| share.replicas = wanted);
        return shares;
    }
    let was: i64 = shares.iter().map(|share| i64::from(share.replicas)).sum();
    if was == i64::from(wanted) || was <= 0 {
        return shares;
    }
    let party = |(share, id): (&Share, u32)| Party { id, order: id, votes: share.replicas.max(0) as u64, seats: 0 };
    let mut parties: Vec<Party> = shares.iter().zip(0..).map(party).filter(|party| party.votes > 0).collect();
    let used: Vec<usize> = parties.iter().map(|party| party.id as usize).collect();
    webster::divide(wanted.unsigned_abs(), &mut parties);
    shares.iter_mut().for_each(|share| share.replicas = 0);
    for party in parties {
        shares[party.id as usize].replicas = i32::try_from(party.seats).unwrap_or(i32::MAX);
    }
    let is_spread = request.placement.as_ref().is_some_and(|placement| placement.keeps_spread());
    if is_spread && used.len() <= wanted.unsigned_abs() as usize {
        for at in used {
            if shares[at].replicas == 0 {
                let most = (0..shares.len()).max_by_key(|at| shares[*at].replicas).unwrap_or(at);
                shares[most].replicas -= 1;
                shares[at].replicas = 1;
            }
        }
    }
    shares.retain(|share| share.replicas > 0);
    shares
}

/// Returns the edit of the former placement for a pass of the scheduler, or `None` if nothing
/// changes.
pub fn edit_of_pass(
    binding: &AnyBinding,
    request: &Request,
    decision: &Decision,
    fleet: &ClusterSet,
    former: impl FnOnce() -> Home,
) -> Option<Edit> {
    let known = Home::of(&binding.metadata.annotations);
    let has_one = binding.metadata.annotations.contains_key(HOME);
    let Some(targets) = decision.targets() else {
        // A withdrawn eviction restores a binding without a decision.
        let is_back = known.is_some_and(|home| is_home(&home, request, &request.targets));
        return (has_one && is_back).then(forgotten);
    };
    let is_new = decision.is_success() && (decision.mode == Mode::Fresh || request.placement_changed);
    if is_new || known.as_ref().is_some_and(|home| decision.is_success() && is_home(home, request, targets)) {
        return has_one.then(forgotten);
    }
    if known.is_some() || binding.spec.clusters.is_empty() && binding.spec.graceful_eviction_tasks.is_empty() {
        return None;
    }
    let home = former();
    let is_away = loses_targets(binding, &home, targets, fleet) || falls_back(request, decision);
    if !is_away || is_home(&home, request, targets) {
        return None;
    }
    Some(Edit::set(&["metadata", "annotations", HOME], home.text()?))
}

/// Returns the edit of the former placement when a rebalance writes these targets. `is_new`: the
/// rebalance decides a new placement.
pub fn edit_of_move(binding: &AnyBinding, request: &Request, targets: &[Target], is_new: bool) -> Option<Edit> {
    let is_back = || Home::of(&binding.metadata.annotations).is_none_or(|home| is_home(&home, request, targets));
    (binding.metadata.annotations.contains_key(HOME) && (is_new || is_back())).then(forgotten)
}

/// Returns the edit of the former placement when an undo writes these targets. `home` is the former
/// placement of the binding before the undone move.
pub fn edit_of_undo(binding: &AnyBinding, home: &Home, request: &Request, targets: &[Target]) -> Option<Edit> {
    if is_home(home, request, targets) {
        return binding.metadata.annotations.contains_key(HOME).then(forgotten);
    }
    Some(Edit::set(&["metadata", "annotations", HOME], home.text()?))
}

fn forgotten() -> Edit {
    Edit::remove(&["metadata", "annotations", HOME])
}

/// Returns whether evictions or deleted clusters have removed targets of the binding.
fn loses_targets(binding: &AnyBinding, home: &Home, targets: &[Target], fleet: &ClusterSet) -> bool {
    let is_left = |share: &&Share| targets.iter().all(|target| *target.name != *share.name);
    let evicted: Vec<&str> = undecided_tasks(binding).map(|task| &*task.from_cluster).collect();
    let is_evicted = |name: &str| evicted.contains(&name);
    home.targets.iter().filter(is_left).any(|share| is_evicted(&share.name) || fleet.is_gone(&share.name))
}

/// Returns whether the decision uses a later affinity group than the current one.
fn falls_back(request: &Request, decision: &Decision) -> bool {
    let Some(placement) = &request.placement else { return false };
    let position = |name: &str| placement.terms.iter().position(|term| *term.name == *name);
    let used = position(&request.observed_term);
    used.zip(decision.term().and_then(position)).is_some_and(|(used, chosen)| chosen > used)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ballast_engine::karmada::{Division, Placement, Requirements, Shared, SpreadBy, SpreadConstraint};

    fn share(name: &str, replicas: i32) -> Share {
        Share { name: name.to_owned(), replicas }
    }

    fn request(replicas: i32, division: Division) -> Request {
        let placement = Some(Shared::new(Placement { division, ..Placement::default() }));
        let requirements = Some(Shared::new(Requirements::default()));
        Request { replicas, placement, requirements, ..Request::default() }
    }

    #[test]
    fn rm36_another_number_of_replicas_is_shared_out_as_the_former_targets_were() {
        let home = [share("m1", 2), share("m2", 4)];
        let out = |replicas| share_out(&home, &request(replicas, Division::Dynamic));
        assert_eq!(out(6), home);
        assert_eq!(out(12), [share("m1", 4), share("m2", 8)]);
        assert_eq!(out(3), [share("m1", 1), share("m2", 2)]);
        assert_eq!(out(1), [share("m2", 1)]);
        assert_eq!(out(0), [share("m1", 0), share("m2", 0)]);
        let copies = share_out(&[share("m1", 2), share("m2", 2)], &request(5, Division::Duplicated));
        assert_eq!(copies, [share("m1", 5), share("m2", 5)]);
    }

    #[test]
    fn each_cluster_of_a_spread_workload_keeps_a_replica() {
        let constraint = SpreadConstraint { by: SpreadBy::Cluster, min: 2, max: 0 };
        let placement = Placement { division: Division::Dynamic, spread: vec![constraint], ..Placement::default() };
        let out = |replicas| {
            let placement = Some(Shared::new(placement.clone()));
            share_out(&[share("m1", 1), share("m2", 5)], &Request { replicas, placement, ..Request::default() })
        };
        assert_eq!(out(2), [share("m1", 1), share("m2", 1)]);
        assert_eq!(out(12), [share("m1", 2), share("m2", 10)]);
        assert_eq!(out(1), [share("m2", 1)]);
    }

    #[test]
    fn copies_are_home_where_each_former_cluster_has_one() {
        let home = Home { targets: vec![share("m1", 2), share("m2", 2)], since: None };
        let on = |names: &[&str]| {
            let target = |name: &&str| Target { name: (*name).into(), replicas: 3, components: Vec::new() };
            let targets: Vec<Target> = names.iter().map(target).collect();
            is_home(&home, &request(3, Division::Duplicated), &targets)
        };
        assert!(on(&["m1", "m2"]) && on(&["m1", "m2", "m3"]));
        assert!(!on(&["m1", "m3"]) && !on(&[]));
    }
}
