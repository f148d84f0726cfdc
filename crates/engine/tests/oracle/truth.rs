//! Scheduling rules (docs/dev/requirements.md, S1 to S7) by brute force: every assignment is tried.
//! This file shares no code with the engine and is as simple as possible.

use std::collections::BTreeSet;

use super::case::{Case, Kind, Place};

/// Replicas by position of the cluster. A copy counts 1.
pub type Assignment = Vec<i64>;

/// Returns the groups in order of precedence (S6). A single None: the placement has no groups.
pub fn groups_in_order(case: &Case) -> Vec<Option<usize>> {
    if case.groups.is_empty() {
        return vec![None];
    }
    let in_use = case.observed.filter(|position| !case.fresh && *position < case.groups.len());
    let all = 0..case.groups.len();
    in_use.into_iter().chain(all.filter(|position| Some(*position) != in_use)).map(Some).collect()
}

/// Returns whether the cluster may have the workload (S1, and the last sentence of S4).
pub fn is_candidate(case: &Case, group: Option<usize>, place: &Place) -> bool {
    let stays = !case.fresh && case.is_there(&place.name);
    !place.deleting
        && !case.evicting.contains(&place.name)
        && tier(case, group, place).is_some()
        && (stays || !place.tainted || case.tolerates)
        && (stays || !place.lacks_api)
        && case.spread.iter().all(|spread| spread.anyway || !place.group(spread.by).is_empty())
}

/// Returns whether the cluster keeps the workload only because it runs there. Then it accepts no
/// more replicas.
fn is_closed(case: &Case, place: &Place) -> bool {
    !case.fresh && case.is_there(&place.name) && (place.lacks_api || (place.tainted && !case.tolerates))
}

/// Returns 0 for the group itself, and 1 or more for its overflow tiers. None: the cluster is not
/// selected.
pub fn tier(case: &Case, group: Option<usize>, place: &Place) -> Option<usize> {
    let Some(group) = group else { return Some(0) };
    let group = &case.groups[group];
    if group.names.contains(&place.name) {
        return Some(0);
    }
    // Only workloads overflow.
    let overflow = if case.kind == Kind::Object { &[][..] } else { &group.overflow[..] };
    overflow.iter().position(|names| names.contains(&place.name)).map(|position| position + 1)
}

/// Returns every allowed assignment in this group.
pub fn allowed(case: &Case, group: Option<usize>) -> Vec<Assignment> {
    let candidates: Vec<bool> = case.clusters.iter().map(|place| is_candidate(case, group, place)).collect();
    if case.is_zero() && !case.is_copied() {
        return zeros(case, &candidates);
    }
    let mut found = Vec::new();
    every(case, &candidates, &mut Vec::new(), &mut |assignment| {
        if fault(case, group, assignment).is_none() {
            found.push(assignment.to_vec());
        }
    });
    found
}

/// Returns the allowed assignments of a workload without replicas: the current one, or else any
/// single candidate. No other rule applies. Here 1 stands for a target with no replicas.
fn zeros(case: &Case, candidates: &[bool]) -> Vec<Assignment> {
    let there = |(place, candidate): (&Place, &bool)| i64::from(*candidate && case.is_there(&place.name));
    let stays: Assignment = case.clusters.iter().zip(candidates).map(there).collect();
    if stays.contains(&1) {
        return vec![stays];
    }
    let one = |(chosen, _): (usize, &bool)| (0..candidates.len()).map(|other| i64::from(other == chosen)).collect();
    candidates.iter().enumerate().filter(|(_, candidate)| **candidate).map(one).collect()
}

fn every(case: &Case, candidates: &[bool], begun: &mut Assignment, visit: &mut impl FnMut(&[i64])) {
    let Some(candidate) = candidates.get(begun.len()) else { return visit(begun) };
    let most = match (*candidate, case.is_copied()) {
        (false, _) => 0,
        (true, true) => 1,
        (true, false) => case.replicas - begun.iter().sum::<i64>(),
    };
    for replicas in 0..=most {
        begun.push(replicas);
        every(case, candidates, begun, visit);
        begun.pop();
    }
}

/// Returns the rule of S2 to S5 that the assignment violates. Callers only pass assignments that
/// satisfy S1.
pub fn fault(case: &Case, group: Option<usize>, assignment: &[i64]) -> Option<String> {
    let sum: i64 = assignment.iter().sum();
    if !case.is_copied() && sum != case.replicas {
        return Some(format!("S2: {sum} of {} replicas", case.replicas));
    }
    fault_of_a_part(case, group, assignment)
}

/// Returns the rule that the assignment violates, without the rule that all replicas are scheduled.
fn fault_of_a_part(case: &Case, group: Option<usize>, assignment: &[i64]) -> Option<String> {
    let gets: Vec<(&Place, i64)> =
        case.clusters.iter().zip(assignment).filter(|(_, n)| **n > 0).map(|(p, n)| (p, *n)).collect();
    let sum: i64 = assignment.iter().sum();
    if gets.is_empty() {
        return Some("S2: nowhere".to_owned());
    }
    for (place, replicas) in &gets {
        let held = case.held(&place.name);
        let arrive = match (case.is_copied(), case.is_one_set(group)) {
            (true, true) => case.replicas - held,
            (false, _) if case.counts_room() => replicas - held,
            _ => 0,
        };
        let more = match (case.is_copied(), case.is_one_set(group)) {
            (true, false) => 0,
            (true, true) => case.replicas - held,
            (false, _) => replicas - held,
        };
        if more > 0 && is_closed(case, place) {
            return Some(format!("S1: {more} arrive at {}, which takes nothing more", place.name));
        }
        if arrive > 0 && arrive > place.free {
            return Some(format!("S3: {arrive} arrive at {}, which has room for {}", place.name, place.free));
        }
        for bound in case.bounds.iter().filter(|bound| case.is_shared_by_room() && bound.names.contains(&place.name)) {
            if *replicas < bound.min || (bound.max > 0 && *replicas > bound.max) {
                return Some(format!("S7: {replicas} at {}, not {} to {}", place.name, bound.min, bound.max));
            }
        }
    }
    if case.ignores_spread() {
        return None;
    }
    for spread in case.spread.iter().filter(|spread| !spread.anyway) {
        let groups: BTreeSet<&str> = gets.iter().map(|(place, _)| place.group(spread.by)).collect();
        let used = groups.len() as i64;
        let each_alone = !case.is_copied() && sum < spread.min && used == sum;
        if used < spread.min && !each_alone {
            return Some(format!("S4: {used} groups by {:?}, of {} at least", spread.by, spread.min));
        }
        if spread.max > 0 && used > spread.max {
            return Some(format!("S4: {used} groups by {:?}, of {} at most", spread.by, spread.max));
        }
    }
    None
}

/// Returns whether a target may stay, in a group that may be in use.
pub fn may_stay(case: &Case, name: &str) -> bool {
    let in_use = match case.observed {
        Some(position) => vec![Some(position)],
        None => groups_in_order(case),
    };
    let place = case.place(name);
    place.is_some_and(|place| in_use.iter().any(|group| is_candidate(case, *group, place)))
}

/// Returns whether all replicas stay, whatever rules that concern all targets this violates. If no
/// assignment is allowed, a pass then only scales down, and succeeds.
pub fn is_kept(case: &Case) -> bool {
    let is_in_use = case.groups.is_empty() || case.observed.is_some();
    let held: i64 = case.targets.iter().map(|(_, held)| held).sum();
    let is_complete = match case.kind {
        Kind::Replicas => case.is_copied() || held >= case.replicas,
        Kind::Object => true,
        Kind::Set => case.targets.iter().all(|(_, held)| *held == case.replicas),
    };
    let all_stay = !case.targets.is_empty() && case.targets.iter().all(|(name, _)| may_stay(case, name));
    !case.fresh && !case.edited && is_in_use && all_stay && is_complete
}

/// Returns the replicas of targets that may stay.
pub fn staying(case: &Case) -> Assignment {
    let held = |place: &Place| if may_stay(case, &place.name) { case.held(&place.name) } else { 0 };
    case.clusters.iter().map(held).collect()
}

/// Returns every partial assignment that this group allows if not all replicas can be scheduled.
/// Present replicas are not removed for it.
pub fn allowed_parts(case: &Case, group: Option<usize>) -> Vec<Assignment> {
    if !case.what_fits || !case.is_shared_by_room() {
        return Vec::new();
    }
    let staying = staying(case);
    let candidates: Vec<bool> = case.clusters.iter().map(|place| is_candidate(case, group, place)).collect();
    let mut found = Vec::new();
    every(case, &candidates, &mut Vec::new(), &mut |assignment| {
        let keeps = assignment.iter().zip(&staying).all(|(after, before)| after >= before);
        if keeps && assignment.iter().sum::<i64>() < case.replicas && fault_of_a_part(case, group, assignment).is_none()
        {
            found.push(assignment.to_vec());
        }
    });
    found
}

/// Returns the maximum number of replicas that can be scheduled if not all can. Staying replicas
/// count in any case.
pub fn most(case: &Case) -> i64 {
    let there: i64 = staying(case).iter().sum();
    let parts = groups_in_order(case).into_iter().flat_map(|group| allowed_parts(case, group));
    parts.map(|part| part.iter().sum()).max().unwrap_or(0).max(there)
}

/// Returns the number of replicas that leave their clusters. Of copies, clusters are counted.
pub fn leaving(case: &Case, assignment: &[i64]) -> i64 {
    let leaves = |(name, held): &(String, i64)| {
        let after = case.clusters.iter().position(|place| place.name == *name).map_or(0, |at| assignment[at]);
        if case.is_copied() || case.is_zero() { 1 - after } else { (held - after).max(0) }
    };
    case.targets.iter().map(leaves).sum()
}

/// Returns the sort key of Aggregated, where less is better: earlier tiers first, then fewer
/// clusters.
pub fn aggregated_wish(case: &Case, group: Option<usize>, assignment: &[i64]) -> (Vec<i64>, usize) {
    let tiers = group.map_or(0, |group| case.groups[group].overflow.len()) + 1;
    let mut by_tier = vec![0; tiers];
    for (place, replicas) in case.clusters.iter().zip(assignment).filter(|(_, replicas)| **replicas > 0) {
        by_tier[tier(case, group, place).unwrap_or(0)] -= replicas;
    }
    (by_tier, assignment.iter().filter(|replicas| **replicas > 0).count())
}
