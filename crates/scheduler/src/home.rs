//! Where a binding was before a failure, as its annotation `ballast.dev/home` says (RM36): when it
//! is written down and forgotten, and what it means for the workload as it is now. Pure.

use ballast_api::ballast::v1alpha1::Share;
use ballast_api::karmada::work::v1alpha2::{AnyBinding, GracefulEvictionTask, HOME, Home};
use ballast_engine::karmada::{ClusterSet, Decision, Mode, Request, Target};
use ballast_engine::webster::{self, Party};
use ballast_k8s::{Edit, Time};

/// Whether these targets are home, for the workload as it is now.
pub fn is_home(home: &Home, request: &Request, targets: &[Target]) -> bool {
    let share = |target: &Target| Share { name: target.name.to_string(), replicas: target.replicas };
    let mut there: Vec<Share> = targets.iter().map(share).collect();
    there.sort_unstable();
    there == share_out(&home.targets, request)
}

/// Divides the replicas of the workload as `targets` divide theirs. Where each cluster has all
/// replicas, each still has all.
pub fn share_out(targets: &[Share], request: &Request) -> Vec<Share> {
    let mut shares = targets.to_vec();
    let wanted = request.replicas.max(0);
    if !request.is_divisible() {
        return shares;
    }
    if !request.is_shared() {
        shares.iter_mut().for_each(|share| share.replicas = wanted);
        return shares;
    }
    let was: i64 = shares.iter().map(|share| i64::from(share.replicas)).sum();
    if was == i64::from(wanted) || was <= 0 {
        return shares;
    }
    let party = |(share, id): (&Share, u32)| Party { id, order: id, votes: share.replicas.max(0) as u64, seats: 0 };
    let mut parties: Vec<Party> = shares.iter().zip(0..).map(party).filter(|party| party.votes > 0).collect();
    webster::divide(wanted.unsigned_abs(), &mut parties);
    shares.iter_mut().for_each(|share| share.replicas = 0);
    for party in parties {
        shares[party.id as usize].replicas = i32::try_from(party.seats).unwrap_or(i32::MAX);
    }
    shares.retain(|share| share.replicas > 0);
    shares
}

/// What a pass of the scheduler writes about home. `None`: nothing changes.
pub fn edit_of_pass(
    binding: &AnyBinding,
    request: &Request,
    decision: &Decision,
    fleet: &ClusterSet,
    now: Time,
) -> Option<Edit> {
    let known = Home::of(&binding.metadata.annotations);
    let has_one = binding.metadata.annotations.contains_key(HOME);
    let Some(targets) = decision.targets() else {
        // An eviction that was called off brings a binding back without a decision.
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
    let home = Home::before(binding, now);
    let is_away = loses_targets(binding, request, &home, targets, fleet) || falls_back(request, decision);
    if !is_away || is_home(&home, request, targets) {
        return None;
    }
    Some(Edit::set(&["metadata", "annotations", HOME], home.text()?))
}

/// What a rebalance writes about home when it puts the binding on these targets. `is_new`: it
/// decides the placement anew.
pub fn edit_of_move(binding: &AnyBinding, request: &Request, targets: &[Target], is_new: bool) -> Option<Edit> {
    let is_back = || Home::of(&binding.metadata.annotations).is_none_or(|home| is_home(&home, request, targets));
    (binding.metadata.annotations.contains_key(HOME) && (is_new || is_back())).then(forgotten)
}

fn forgotten() -> Edit {
    Edit::remove(&["metadata", "annotations", HOME])
}

/// Whether evictions, or clusters that are gone, have taken targets off the binding.
fn loses_targets(binding: &AnyBinding, request: &Request, home: &Home, targets: &[Target], fleet: &ClusterSet) -> bool {
    let is_left = |share: &&Share| targets.iter().all(|target| *target.name != *share.name);
    // Evictions that an earlier pass has seen are what that pass has written down, or a user's new
    // placement has overtaken.
    let tasks = binding.spec.graceful_eviction_tasks.iter();
    let is_new = |task: &&GracefulEvictionTask| {
        task.creation_timestamp.zip(request.last_scheduled_at).is_none_or(|(began, last)| began >= last)
    };
    let evicted: Vec<&str> = tasks.filter(is_new).map(|task| &*task.from_cluster).collect();
    let is_evicted = |name: &str| evicted.contains(&name);
    home.targets.iter().filter(is_left).any(|share| is_evicted(&share.name) || fleet.is_gone(&share.name))
}

/// Whether the decision takes a later affinity group than the one in use.
fn falls_back(request: &Request, decision: &Decision) -> bool {
    let Some(placement) = &request.placement else { return false };
    let position = |name: &str| placement.terms.iter().position(|term| *term.name == *name);
    let used = position(&request.observed_term);
    used.zip(decision.term().and_then(position)).is_some_and(|(used, chosen)| chosen > used)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ballast_engine::karmada::{Division, Placement, Shared};

    fn share(name: &str, replicas: i32) -> Share {
        Share { name: name.to_owned(), replicas }
    }

    fn request(replicas: i32, division: Division) -> Request {
        let placement = Some(Shared::new(Placement { division, ..Placement::default() }));
        Request { replicas, placement, ..Request::default() }
    }

    #[test]
    fn rm36_another_number_of_replicas_is_shared_out_as_the_former_targets_were() {
        let home = [share("m1", 2), share("m2", 4)];
        let out = |replicas| share_out(&home, &request(replicas, Division::Dynamic));
        assert_eq!(out(6), home);
        assert_eq!(out(12), [share("m1", 4), share("m2", 8)]);
        assert_eq!(out(3), [share("m1", 1), share("m2", 2)]);
        assert_eq!(out(1), [share("m2", 1)]);
        let copies = share_out(&[share("m1", 2), share("m2", 2)], &request(5, Division::Duplicated));
        assert_eq!(copies, [share("m1", 5), share("m2", 5)]);
    }
}
