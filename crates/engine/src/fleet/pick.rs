//! The scheduling cycle: from a request to its decision, by placement type.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::binding_diff::{Diff, unschedule};
use super::cycle::{Bindings, Cycle};
use super::decision::{BindingWrite, ClusterDecision, Decision, Next, Score};
use super::fault::Fault;
use super::pipeline::{Filtered, filter, rank};
use super::report::{self, ReportBuilder};
use super::request::{Binding, Placement, Request, Requirements};
use super::topology_spread::SpreadConstraint;

/// Number of clusters picked per cycle with a topology constraint, because each binding changes the
/// spread.
const CONSTRAINED_BATCH: usize = 1;

/// Runs one cycle for one placement.
pub fn decide(request: &Request<'_>) -> Decision {
    let snapshot = request.snapshot;
    let bindings = Bindings::classify(request);
    let picked = match &snapshot.placement {
        Placement::All(requirements) => pick_all(request, &bindings, requirements),
        Placement::Count { wanted: Err(fault), .. } => Err(fault.clone()),
        Placement::Count { wanted: Ok(wanted), requirements, constraints, .. } => {
            pick_n(request, &bindings, *wanted, requirements, constraints)
        }
        Placement::Fixed(names) => pick_fixed(request, &bindings, names),
    };

    let mut decision = Decision { writes: clear_away(&bindings), ..Decision::default() };
    let picked = match picked {
        Ok(picked) => picked,
        Err(fault) => return Decision { fault: Some(fault), ..decision },
    };
    decision.writes.extend(picked.writes);
    decision.next = picked.next;
    let Some(builder) = picked.builder else { return decision };
    match &snapshot.placement_generation {
        Ok(generation) => {
            let report = builder.into_report(snapshot, *generation);
            let is_known = snapshot.status.as_ref().is_some_and(|known| known.says_the_same_as(&report));
            decision.report = (!is_known).then_some(report);
        }
        Err(fault) => decision.fault = Some(fault.clone()),
    }
    decision
}

/// Returns the writes for bindings that are removed under any policy.
fn clear_away(bindings: &Bindings<'_>) -> Vec<BindingWrite> {
    let held = bindings.deleting.iter().filter(|binding| binding.held_by_scheduler);
    let released = held.map(|binding| BindingWrite::Release { binding: Arc::clone(&binding.name) });
    let unscheduled = bindings.dangling.iter().chain(&bindings.surplus).map(|binding| unschedule(binding));
    released.chain(unscheduled).collect()
}

/// The result of the part of a cycle that depends on the placement type.
#[derive(Default)]
struct Picked {
    writes: Vec<BindingWrite>,
    next: Next,
    /// None: the status of the snapshot is not changed.
    builder: Option<ReportBuilder>,
}

/// Picks every cluster that fits now. Clusters that do not fit cause no further cycle.
fn pick_all(request: &Request<'_>, bindings: &Bindings<'_>, requirements: &Requirements) -> Result<Picked, Fault> {
    let cycle = Cycle::new(*request, bindings, requirements);
    let Filtered { fitting, refused } = filter(&cycle)?;
    let picked = fitting.into_iter().map(|cluster| report::picked(cluster, Score::default())).collect();
    let diff = Diff::between(bindings, picked)?;
    let builder = ReportBuilder {
        fulfilled: true,
        found: diff.gained() + bindings.present(),
        decisions: report::list(selected(&diff, [&bindings.scheduled, &bindings.bound]), &[], &refused),
    };
    Ok(Picked { writes: diff.into_writes(), next: Next::Done, builder: Some(builder) })
}

/// Picks the best `wanted` clusters. Clusters that were picked before stay: only missing ones are
/// picked, and only surplus ones are dropped.
fn pick_n(
    request: &Request<'_>,
    bindings: &Bindings<'_>,
    wanted: usize,
    requirements: &Requirements,
    constraints: &[SpreadConstraint],
) -> Result<Picked, Fault> {
    let present = bindings.present();
    let Some(missing) = wanted.checked_sub(present).filter(|&missing| missing > 0) else {
        return Ok(scale_in(bindings, wanted));
    };
    let limit = if constraints.is_empty() { missing } else { missing.min(CONSTRAINED_BATCH) };

    let mut cycle = Cycle::new(*request, bindings, requirements);
    let Filtered { fitting, refused } = filter(&cycle)?;
    let ranked = rank(&mut cycle, &fitting)?;
    let (best, others) = ranked.split_at(limit.min(ranked.len()));
    let picked = best.iter().map(|ranked| report::picked(ranked.cluster, ranked.rank.score)).collect();
    let diff = Diff::between(bindings, picked)?;

    if missing > limit && diff.gained() == limit {
        return Ok(Picked { writes: diff.into_writes(), next: Next::Again, builder: None });
    }
    let found = diff.gained() + present;
    let builder = ReportBuilder {
        fulfilled: found >= wanted,
        found,
        decisions: report::list(selected(&diff, [&bindings.scheduled, &bindings.bound]), others, &refused),
    };
    Ok(Picked { writes: diff.into_writes(), next: Next::Done, builder: Some(builder) })
}

/// Drops surplus bindings: first those of earlier policies, then scheduled ones that are not bound
/// yet, then bound ones, in ascending order of scores.
fn scale_in(bindings: &Bindings<'_>, wanted: usize) -> Picked {
    let surplus = bindings.present() - wanted;
    if surplus + bindings.obsolete.len() == 0 {
        let decisions = report::list(selected(&Diff::default(), [&bindings.bound, &bindings.scheduled]), &[], &[]);
        return Picked { builder: Some(fulfilled_by(decisions)), ..Picked::default() };
    }
    let (mut scheduled, mut bound) = (bindings.scheduled.clone(), bindings.bound.clone());
    scheduled.sort_by(least_first);
    bound.sort_by(least_first);
    let kept_scheduled = scheduled.split_off(surplus.min(scheduled.len()));
    let kept_bound = bound.split_off(surplus - scheduled.len());
    let dropped = bindings.obsolete.iter().chain(&scheduled).chain(&bound);
    let decisions = report::list(selected(&Diff::default(), [&kept_scheduled, &kept_bound]), &[], &[]);
    Picked {
        writes: dropped.map(|binding| unschedule(binding)).collect(),
        next: Next::Done,
        builder: Some(fulfilled_by(decisions)),
    }
}

/// Picks the clusters that the policy names, if they exist and are eligible. No other requirement
/// applies.
fn pick_fixed(request: &Request<'_>, bindings: &Bindings<'_>, names: &[Arc<str>]) -> Result<Picked, Fault> {
    // Without names upstream stops before it writes anything (vector invalid-a-012). The API
    // rejects such a policy.
    if names.is_empty() {
        return Ok(Picked::default());
    }
    let (mut valid, mut ineligible, mut missing) = (Vec::new(), Vec::new(), Vec::new());
    let mut seen = BTreeSet::new();
    for name in names.iter().filter(|name| seen.insert(*name)) {
        let Some(cluster) = request.fleet.find(name) else {
            missing.push(report::unselected(name, None, format!("Specified cluster {name:?} is not found")));
            continue;
        };
        match cluster.eligibility(request.now) {
            Ok(()) => valid.push(report::picked_by_name(cluster)),
            Err(why) => {
                let reason = format!("Cluster {name:?} is not eligible for resource placement yet: {why}");
                ineligible.push(report::unselected(name, None, reason));
            }
        }
    }
    let is_live = |name: &str| bindings.scheduled.iter().chain(&bindings.bound).any(|b| &*b.cluster == name);
    let picked = valid.iter().filter(|decision| !is_live(&decision.cluster)).cloned().collect();
    let diff = Diff::between(bindings, picked)?;
    let builder = ReportBuilder {
        fulfilled: ineligible.is_empty() && missing.is_empty(),
        found: valid.len(),
        decisions: valid.into_iter().chain(ineligible).chain(missing).collect(),
    };
    Ok(Picked { writes: diff.into_writes(), next: Next::Done, builder: Some(builder) })
}

fn fulfilled_by(decisions: Vec<ClusterDecision>) -> ReportBuilder {
    ReportBuilder { fulfilled: true, found: decisions.len(), decisions }
}

/// Returns the selected clusters after the diff: added ones, then present ones.
fn selected<'s>(diff: &'s Diff<'_>, present: [&'s Vec<&'s Binding>; 2]) -> impl Iterator<Item = &'s ClusterDecision> {
    diff.decisions().chain(present.into_iter().flatten().map(|binding| &binding.decision))
}

/// Orders bindings without a score first, then by score, then by name.
fn least_first(a: &&Binding, b: &&Binding) -> std::cmp::Ordering {
    (a.decision.score, &a.cluster).cmp(&(b.decision.score, &b.cluster))
}
