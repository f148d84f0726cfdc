//! Checks that a decision obeys the scheduling rules.
//!
//! This module is independent of the code that finds decisions.

use std::fmt;

use super::cluster_set::ClusterSet;
use super::components;
use super::decision::{Decision, Outcome, Placed, Reason};
use super::filters::AttemptContext;
use super::placement::{Division, Placement, SpreadBy};
use super::profile::Profile;
use super::request::{Mode, Request, Target};
use super::workloads::Workloads;
use super::zero;

/// A rule that a decision breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault(pub String);

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns every fault of `decision`. `workloads` is the state before the pass.
pub fn check(
    fleet: &ClusterSet,
    workloads: &Workloads,
    request: &Request,
    profile: &Profile,
    decision: &Decision,
) -> Vec<Fault> {
    let mut faults = Vec::new();
    let Some(placement) = &request.placement else {
        if decision.is_scheduled() {
            faults.push(Fault("decided without a placement".to_owned()));
        }
        return faults;
    };
    // A workload of no replicas goes where one replica would.
    let one = Request { replicas: 1, ..request.clone() };
    let placing = if zero::is_asked(request, placement, profile) { &one } else { request };
    let context = |term: Option<&str>, mode: Mode| AttemptContext {
        fleet,
        workloads,
        profile,
        request: placing,
        placement,
        term: term.and_then(|name| placement.terms.iter().find(|term| *term.name == *name)),
        mode,
    };
    let check_placed = |placed: &Placed, mode: Mode, faults: &mut Vec<Fault>| {
        check_order(&placed.targets, faults);
        check_term(request, placement, mode, placed, faults);
        check_clusters(&context(placed.term.as_deref(), mode), &placed.targets, faults);
        check_closed(&context(placed.term.as_deref(), mode), &placed.targets, faults);
        check_replicas(request, placement, placed, faults);
        // A placement that is kept despite a violated rule names the rule.
        if placed.message.is_none() && !zero::is_asked(request, placement, profile) {
            check_number(&context(None, mode), &placed.targets, faults);
        }
        check_components(&context(placed.term.as_deref(), mode), &placed.targets, faults);
    };
    match &decision.outcome {
        Outcome::Placed(placed) => check_placed(placed, decision.mode, &mut faults),
        Outcome::Failed(failed) => {
            // The retained targets are only a part of the replicas, and may belong to any group.
            if let Some(kept) = failed.meanwhile.as_ref() {
                check_order(&kept.targets, &mut faults);
                if kept.term.is_some() || placement.terms.is_empty() {
                    let context = context(kept.term.as_deref(), Mode::Steady);
                    check_clusters(&context, &kept.targets, &mut faults);
                    check_closed(&context, &kept.targets, &mut faults);
                }
            }
            if failed.reason == Reason::NoClusterFit {
                let first = first_term(request, placement, decision.mode);
                let context = context(first.map(|position| &*placement.terms[position].name), decision.mode);
                for cluster in fleet.iter().filter(|cluster| !cluster.deleting && context.reason(cluster).is_none()) {
                    faults.push(Fault(format!("says that no cluster fits, but {} does", cluster.name)));
                }
            }
        }
        Outcome::Skipped(_) => {}
    }
    faults
}

fn check_order(targets: &[Target], faults: &mut Vec<Fault>) {
    for pair in targets.windows(2) {
        if pair[0].name >= pair[1].name {
            faults.push(Fault(format!("{} does not come before {}", pair[0].name, pair[1].name)));
        }
    }
}

fn first_term(request: &Request, placement: &Placement, mode: Mode) -> Option<usize> {
    if placement.terms.is_empty() {
        return None;
    }
    let observed = placement.terms.iter().position(|term| term.name == request.observed_term);
    Some(if mode == Mode::Fresh { 0 } else { observed.unwrap_or(0) })
}

fn check_term(request: &Request, placement: &Placement, mode: Mode, placed: &Placed, faults: &mut Vec<Fault>) {
    let first = first_term(request, placement, mode);
    let chosen = placed.term.as_deref().map(|name| placement.terms.iter().position(|term| *term.name == *name));
    match (first, chosen) {
        (None, None) => {}
        // The Ballast profile continues with the first group (D60).
        (Some(first), Some(Some(chosen))) if chosen >= first || mode == Mode::Steady => {}
        (first, chosen) => faults.push(Fault(format!("starts from group {first:?}, and chose {chosen:?}"))),
    }
}

fn check_clusters(context: &AttemptContext<'_>, targets: &[Target], faults: &mut Vec<Fault>) {
    for target in targets {
        let fault = match context.fleet.find(&target.name) {
            None => Some("is not there".to_owned()),
            Some(cluster) if cluster.deleting => Some("is being deleted".to_owned()),
            Some(cluster) => context.reason(cluster).map(|(filter, why)| format!("is out by {filter}: {why}")),
        };
        faults.extend(fault.map(|why| Fault(format!("{} {why}", target.name))));
    }
}

/// Checks, in the Ballast profile, that a cluster that filters object to gets no more replicas.
fn check_closed(context: &AttemptContext<'_>, targets: &[Target], faults: &mut Vec<Fault>) {
    let AttemptContext { request, profile, .. } = *context;
    if !profile.deviates() || !request.is_shared() {
        return;
    }
    for target in targets.iter().filter(|target| i64::from(target.replicas) > request.replicas_on(&target.name)) {
        let objection = context.fleet.find(&target.name).and_then(|cluster| context.objection(cluster));
        let fault = objection.map(|(filter, why)| format!("{} grows, and {filter} objects: {why}", target.name));
        faults.extend(fault.map(Fault));
    }
}

fn check_replicas(request: &Request, placement: &Placement, placed: &Placed, faults: &mut Vec<Fault>) {
    let divisible = request.is_divisible();
    let wanted = if divisible { i64::from(request.replicas.max(0)) } else { 0 };
    let sum: i64 = placed.targets.iter().map(|target| i64::from(target.replicas)).sum();
    let each = divisible && placement.division == Division::Duplicated;
    if each || !divisible {
        for target in placed.targets.iter().filter(|target| i64::from(target.replicas) != wanted) {
            faults.push(Fault(format!("{} has {} of {wanted} replicas", target.name, target.replicas)));
        }
    } else if sum != wanted {
        faults.push(Fault(format!("divides {wanted} replicas into {sum}")));
    }
    if wanted > 0 && placed.targets.iter().any(|target| target.replicas <= 0) {
        faults.push(Fault("has a target without replicas".to_owned()));
    }
}

/// Checks that the decision uses no more clusters than a sole constraint on clusters allows.
/// Workloads of zero replicas are exempt (D64).
fn check_number(context: &AttemptContext<'_>, targets: &[Target], faults: &mut Vec<Fault>) {
    let [spread] = &context.placement.spread[..] else { return };
    if spread.by != SpreadBy::Cluster || spread.max <= 0 || context.placement.ignores_spread() {
        return;
    }
    if targets.len() as i64 > spread.max {
        faults.push(Fault(format!("uses {} clusters of {} allowed", targets.len(), spread.max)));
    }
}

fn check_components(context: &AttemptContext<'_>, targets: &[Target], faults: &mut Vec<Fault>) {
    let whole = components::assigned(context);
    for target in targets.iter().filter(|target| target.components != whole) {
        faults.push(Fault(format!("{} does not hold a whole set of components", target.name)));
    }
}
