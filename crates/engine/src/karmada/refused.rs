//! Targets that stay while scheduling fails.
//!
//! A failed pass removes the targets that the selection forbids, and keeps all others. It never
//! refuses to scale down. Differs from Karmada (D61), where a failed pass keeps all targets.
//!
//! A rule that the targets violate already is no reason to fail: if all replicas can stay on their
//! clusters, the pass succeeds (D129).

use super::cluster::Cluster;
use super::cluster_set::ClusterSet;
use super::components;
use super::decision::Placed;
use super::filters::{AttemptContext, FILTERS};
use super::placement::{AffinityTerm, Division};
use super::profile::Profile;
use super::request::{Mode, Request, Target};
use super::settle;
use super::workloads::Workloads;
use crate::webster::{self, Party};

/// Returns the targets to write while scheduling fails. `None` if all targets stay unchanged.
pub(super) fn meanwhile(context: &AttemptContext<'_>) -> Option<Placed> {
    let request = context.request;
    let mut targets: Vec<Target> = staying(context).cloned().collect();
    targets.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    let wanted = request.replicas.max(0);
    if is_copied(context) {
        targets.iter_mut().for_each(|target| target.replicas = target.replicas.min(wanted));
    } else {
        shrink(&mut targets, wanted);
    }
    let same = targets.len() == request.targets.len()
        && targets.iter().all(|target| request.replicas_on(&target.name) == i64::from(target.replicas));
    (!same).then_some(Placed { targets, term: None, message: None })
}

/// Returns the current targets with the requested replicas, if all of them may stay, none has to
/// take more, and they violate rules about all targets together. The condition names the rules.
///
/// `None` after an edit: the new placement was requested, and fails.
pub(super) fn kept(context: &AttemptContext<'_>) -> Option<Placed> {
    let AttemptContext { request, placement, profile, .. } = *context;
    let in_use = match placement.terms.iter().find(|term| term.name == request.observed_term) {
        None if !placement.terms.is_empty() => return None,
        in_use => in_use,
    };
    let is_changed = request.is_edited() || components::changed(request, profile);
    if is_changed || request.targets.is_empty() || staying(context).count() < request.targets.len() {
        return None;
    }
    let mut targets = request.targets.clone();
    targets.sort_unstable_by(|a, b| a.name.cmp(&b.name));
    let wanted = request.replicas.max(0);
    if is_copied(context) {
        // A copy has as many replicas as its template.
        let each = if request.is_divisible() { wanted } else { 0 };
        targets.iter_mut().for_each(|target| target.replicas = each);
    } else {
        targets.retain(|target| target.replicas > 0);
        shrink(&mut targets, wanted);
        if targets.iter().map(|target| i64::from(target.replicas)).sum::<i64>() != i64::from(wanted) {
            return None;
        }
    }
    let context = AttemptContext { term: in_use, ..*context };
    // A cluster that the workload is being evicted from may have kept a rule. Then the rule is not
    // violated yet.
    let evicting =
        request.evicting.iter().map(|name| Target { name: (&**name).into(), replicas: 1, components: Vec::new() });
    let before: Vec<Target> = request.targets.iter().cloned().chain(evicting).collect();
    if !request.evicting.is_empty() && settle::newly_broken_spread(&context, &before, &targets).is_some() {
        return None;
    }
    let broken = settle::broken(&context, &targets)?;
    Some(Placed::with_unkept(targets, in_use.map(|term| term.name.clone()), Some(broken)))
}

/// Returns whether each target has the whole workload.
fn is_copied(context: &AttemptContext<'_>) -> bool {
    !context.request.is_divisible() || context.placement.division == Division::Duplicated
}

/// Returns the targets that the selection does not forbid.
pub(super) fn staying<'c>(context: &AttemptContext<'c>) -> impl Iterator<Item = &'c Target> + use<'c> {
    let context = *context;
    context.request.targets.iter().filter(move |target| may_stay(&context, target))
}

/// Returns whether the group in use allows the target.
fn may_stay(context: &AttemptContext<'_>, target: &Target) -> bool {
    let Some(cluster) = context.fleet.find(&target.name).filter(|cluster| !cluster.deleting) else { return false };
    in_group_in_use(context.request, &context.placement.terms, |term| {
        AttemptContext { term, ..*context }.reason(cluster)
    })
    .is_none()
}

/// Returns the objection in the group in use. If that group is unknown, any group may allow the
/// cluster.
fn in_group_in_use(
    request: &Request,
    terms: &[AffinityTerm],
    objection: impl Fn(Option<&AffinityTerm>) -> Option<(&'static str, String)>,
) -> Option<(&'static str, String)> {
    match terms.iter().find(|term| term.name == request.observed_term) {
        Some(in_use) => objection(Some(in_use)),
        None if terms.is_empty() => objection(None),
        None => terms.iter().map(|term| objection(Some(term))).reduce(|one, other| one.and(other)).flatten(),
    }
}

/// Returns the reason why the placement does not select the cluster (any more): its affinity, or a
/// topology attribute that the cluster lacks. A pass removes such a target, even if the workload
/// runs there.
pub fn unselected(request: &Request, cluster: &Cluster, fleet: &ClusterSet, profile: &Profile) -> Option<String> {
    let placement = request.placement.as_ref()?;
    let workloads = &Workloads::default();
    let objection = |term: Option<&AffinityTerm>| {
        let context = AttemptContext { fleet, workloads, profile, request, placement, term, mode: Mode::Steady };
        let selecting = FILTERS.iter().filter(|filter| filter.shared && !filter.spares_targets);
        selecting.filter_map(|filter| Some((filter.name, (filter.reason)(&context, cluster)?))).next()
    };
    in_group_in_use(request, &placement.terms, objection).map(|(_, reason)| reason)
}

/// Removes surplus replicas in proportion to the replicas of each target.
fn shrink(targets: &mut Vec<Target>, wanted: i32) {
    let held: i64 = targets.iter().map(|target| i64::from(target.replicas.max(0))).sum();
    if held <= i64::from(wanted) {
        return;
    }
    let party = |(target, id): (&Target, u32)| Party { id, order: id, votes: target.replicas.max(0) as u64, seats: 0 };
    let mut parties: Vec<Party> = targets.iter().zip(0..).map(party).filter(|party| party.votes > 0).collect();
    webster::divide(wanted.unsigned_abs(), &mut parties);
    targets.iter_mut().for_each(|target| target.replicas = 0);
    for party in parties {
        targets[party.id as usize].replicas = i32::try_from(party.seats).unwrap_or(i32::MAX);
    }
    targets.retain(|target| target.replicas > 0);
}
