//! Runs the engine on a case and compares its decision with the brute-force rules.

use ballast_engine::karmada::{
    Affinity, AffinityTerm, Cluster, ClusterBound, ClusterCapacity, ClusterSet, Component, Decision,
    Division as EngineDivision, Mode, Outcome, Pass, Placement, Profile, Reason, Request, Requirements, Resource,
    Shared, SpreadBy, SpreadConstraint, Target, TargetComponent, Weight, Workloads,
};
use ballast_k8s::taint::{Effect, Match};
use ballast_k8s::{Quantity, Taint, Toleration};

use super::case::{Bound, By, Case, Division, Kind, Place, Spread};
use super::truth::{self, Assignment};

/// The result of the engine.
pub struct Answer {
    pub decision: Decision,
    /// The written targets. None: they are unchanged.
    pub targets: Option<Vec<(String, i64)>>,
    pub group: Option<usize>,
}

pub fn ask(case: &Case) -> Answer {
    let fleet = ClusterSet::new(case.clusters.iter().map(|place| cluster(case, place)));
    let request = request(case);
    let mode = if case.fresh { Mode::Fresh } else { Mode::Steady };
    let decision = Pass::new(&fleet, &Workloads::default(), &Profile::ours()).decide_as(&request, mode);
    let written = |target: &Target| (target.name.to_string(), i64::from(target.replicas));
    let targets = decision.targets().map(|targets| targets.iter().map(written).collect());
    let group = decision.term().and_then(|term| term.strip_prefix("group-")?.parse().ok());
    Answer { decision, targets, group }
}

const APPS: &str = "apps/v1";

fn kind(case: &Case) -> &'static str {
    match case.kind {
        Kind::Replicas => "Deployment",
        Kind::Object => "ConfigMap",
        Kind::Set => "Flink",
    }
}

fn cluster(case: &Case, place: &Place) -> Cluster {
    Cluster {
        name: place.name.as_str().into(),
        deleting: place.deleting,
        labels: if place.tier.is_empty() { [].into() } else { [("tier".into(), place.tier.as_str().into())].into() },
        provider: place.provider.as_str().into(),
        region: place.region.as_str().into(),
        zones: if place.zone.is_empty() { [].into() } else { [place.zone.as_str().into()].into() },
        taints: if place.tainted {
            [Taint { key: "busy".into(), value: "".into(), effect: Effect::NoSchedule }].into()
        } else {
            [].into()
        },
        apis: if place.lacks_api { [].into() } else { [(APPS.into(), kind(case).into())].into() },
        capacity: Some(ClusterCapacity {
            pods: place.free,
            free: [("cpu".into(), Quantity::from_units(place.free))].into(),
            grades: None,
        }),
    }
}

fn one_cpu() -> Requirements {
    Requirements { amounts: [("cpu".into(), Quantity::from_units(1))].into() }
}

fn names(names: &[String]) -> Affinity {
    Affinity { names: names.iter().map(|name| name.as_str().into()).collect(), ..Affinity::default() }
}

fn number(number: i64) -> i32 {
    i32::try_from(number).expect("cases are small")
}

fn request(case: &Case) -> Request {
    let terms = case.groups.iter().enumerate().map(|(position, group)| AffinityTerm {
        name: format!("group-{position}").into(),
        affinity: names(&group.names),
        overflow: group.overflow.iter().map(|tier| names(tier)).collect(),
    });
    let by = |by: By| match by {
        By::Cluster => SpreadBy::Cluster,
        By::Region => SpreadBy::Region,
        By::Zone => SpreadBy::Zone,
        By::Provider => SpreadBy::Provider,
        By::Tier => SpreadBy::Label("tier".into()),
    };
    let constraint = |s: &Spread| SpreadConstraint { by: by(s.by), min: s.min, max: s.max };
    let bound = |bound: &Bound| ClusterBound {
        target: names(&bound.names),
        min: bound.min,
        max: if bound.max > 0 { bound.max } else { i64::MAX },
    };
    let weight = |(name, weight): &(String, i64)| Weight { target: names(std::slice::from_ref(name)), weight: *weight };
    let placement = Placement {
        affinity: None,
        terms: terms.collect(),
        tolerations: if case.tolerates {
            vec![Toleration { key: "".into(), value: Match::Exists, effect: None, seconds: None }]
        } else {
            Vec::new()
        },
        spread: case.spread.iter().filter(|spread| !spread.anyway).map(constraint).collect(),
        wishes: case.spread.iter().filter(|spread| spread.anyway).map(constraint).collect(),
        bounds: case.bounds.iter().map(bound).collect(),
        what_fits: case.what_fits,
        division: match &case.division {
            Division::Duplicated => EngineDivision::Duplicated,
            Division::Dynamic => EngineDivision::Dynamic,
            Division::Aggregated => EngineDivision::Aggregated,
            Division::Static(weights) if weights.is_empty() => EngineDivision::Static(None),
            Division::Static(weights) => EngineDivision::Static(Some(weights.iter().map(weight).collect())),
        },
    };
    let pods = |name: &str, replicas: i64| TargetComponent { name: name.into(), replicas: number(replicas) };
    let target = |(name, held): &(String, i64)| Target {
        name: name.as_str().into(),
        replicas: if case.kind == Kind::Replicas { number(*held) } else { 0 },
        components: if case.kind == Kind::Set { vec![pods("job", 1), pods("task", held - 1)] } else { Vec::new() },
    };
    let component = |name: &str, replicas: i64| Component {
        name: name.into(),
        replicas: number(replicas),
        requirements: Some(one_cpu()),
    };
    Request {
        namespace: "shop".into(),
        name: "web".into(),
        resource: Resource {
            api_version: APPS.into(),
            kind: kind(case).into(),
            uid: case.uid.as_str().into(),
            ..Resource::default()
        },
        placement: Some(Shared::new(placement)),
        placement_changed: case.edited,
        replicas: if case.kind == Kind::Replicas { number(case.replicas) } else { 0 },
        requirements: (case.kind == Kind::Replicas).then(|| Shared::new(one_cpu())),
        components: match case.kind {
            Kind::Set => vec![component("job", 1), component("task", case.replicas - 1)],
            _ => Vec::new(),
        },
        targets: case.targets.iter().map(target).collect(),
        evicting: case.evicting.iter().map(|name| name.as_str().into()).collect(),
        observed_term: case.observed.map_or_else(Box::default, |position| format!("group-{position}").into()),
        ..Request::default()
    }
}

/// Returns all faults of the engine's result. Each line begins with the kind of fault.
pub fn faults(case: &Case) -> Vec<String> {
    let answer = ask(case);
    match &answer.decision.outcome {
        Outcome::Placed(placed)
            if truth::groups_in_order(case).iter().all(|it| truth::allowed(case, *it).is_empty()) =>
        {
            kept(case, &answer, placed.message.as_deref().unwrap_or_default())
        }
        Outcome::Placed(_) => placed(case, &answer),
        Outcome::Failed(failed) if failed.reason == Reason::PartlyScheduled => partly(case, &answer, &failed.message),
        Outcome::Failed(failed) => refused(case, &answer, &failed.message),
        Outcome::Skipped(skip) => vec![format!("skipped: {skip:?}")],
    }
}

/// Converts the result to an assignment. A copy, and a target of a workload without replicas,
/// counts 1.
fn assignment(case: &Case, targets: &[(String, i64)]) -> Result<Assignment, String> {
    let mut assignment = vec![0; case.clusters.len()];
    for (name, replicas) in targets {
        let at = case.clusters.iter().position(|place| place.name == *name);
        let at = at.ok_or_else(|| format!("sound: S1: {name} is not there"))?;
        let whole = if case.kind == Kind::Replicas { case.replicas } else { 0 };
        if (case.is_copied() || case.is_zero()) && *replicas != whole {
            return Err(format!("sound: S2: {name} has {replicas} of {whole}"));
        }
        assignment[at] = if case.is_copied() || case.is_zero() { 1 } else { *replicas };
    }
    Ok(assignment)
}

fn placed(case: &Case, answer: &Answer) -> Vec<String> {
    let targets = answer.targets.as_deref().unwrap_or_default();
    let assignment = match assignment(case, targets) {
        Ok(assignment) => assignment,
        Err(fault) => return vec![fault],
    };
    let mut faults = Vec::new();
    for earlier in truth::groups_in_order(case).into_iter().take_while(|group| *group != answer.group) {
        if let Some(found) = truth::allowed(case, earlier).first() {
            faults.push(format!("group: S6: {:?} is used, but {earlier:?} can have {found:?}", answer.group));
        }
    }
    let allowed = truth::allowed(case, answer.group);
    if !allowed.contains(&assignment) {
        let unfit = case.clusters.iter().zip(&assignment);
        let unfit = unfit.filter(|(place, n)| **n > 0 && !truth::is_candidate(case, answer.group, place));
        let why = unfit.map(|(place, _)| format!("S1: {}", place.name)).next();
        let why =
            why.or_else(|| truth::fault(case, answer.group, &assignment)).unwrap_or_else(|| "S2: zero".to_owned());
        faults.push(format!("sound: {why}; {assignment:?}, of {} allowed", allowed.len()));
        return faults;
    }
    faults.extend(wishes(case, answer.group, &assignment, &allowed));
    faults.extend(restless(case, answer, &assignment));
    faults
}

/// Checks the preferences: few moves, and few clusters.
fn wishes(case: &Case, group: Option<usize>, assignment: &Assignment, allowed: &[Assignment]) -> Vec<String> {
    let mut faults = Vec::new();
    let mut rivals: Vec<&Assignment> = allowed.iter().collect();
    // After an edit, static weights are divided from scratch.
    let anew = case.edited && !case.is_copied() && matches!(case.division, Division::Static(_));
    if !case.fresh && !anew {
        let leaves = truth::leaving(case, assignment);
        let fewest = rivals.iter().map(|rival| truth::leaving(case, rival)).min().unwrap_or(leaves);
        rivals.retain(|rival| truth::leaving(case, rival) == fewest);
        if leaves > fewest {
            faults.push(format!("steady: {leaves} leave, {fewest} would do: {:?}, not {assignment:?}", rivals[0]));
        }
    }
    if !case.is_zero() && !case.ignores_spread() {
        faults.extend(unkept(case, group, assignment, &mut rivals));
    }
    // Under spread constraints and bounds, the preferences for earlier tiers and for fewer clusters
    // can conflict.
    let collides = !(case.spread.is_empty() && case.bounds.is_empty())
        && case.groups.iter().any(|group| !group.overflow.is_empty());
    if case.division == Division::Aggregated && !case.is_copied() && !case.is_zero() && !collides {
        let wish = truth::aggregated_wish(case, group, assignment);
        let best = rivals.iter().min_by_key(|rival| truth::aggregated_wish(case, group, rival));
        let best = best.filter(|best| truth::aggregated_wish(case, group, best) < wish);
        faults.extend(best.map(|best| format!("aggregated: {best:?} would do, not {assignment:?}")));
    }
    faults
}

/// Checks soft constraints in order: each must hold if it costs no additional move and breaks none
/// of the earlier ones.
fn unkept(case: &Case, group: Option<usize>, assignment: &Assignment, rivals: &mut Vec<&Assignment>) -> Option<String> {
    let mut stricter = case.clone();
    for at in 0..case.spread.len() {
        if !case.spread[at].anyway {
            continue;
        }
        stricter.spread[at].anyway = false;
        let keeping = truth::allowed(&stricter, group);
        if !rivals.iter().any(|rival| keeping.contains(rival)) {
            stricter.spread[at].anyway = true;
            continue;
        }
        rivals.retain(|rival| keeping.contains(rival));
        if !keeping.contains(assignment) {
            let by = case.spread[at].by;
            return Some(format!("anyway: {by:?} could be kept: {:?}, not {assignment:?}", rivals[0]));
        }
    }
    None
}

/// Checks that the decision is stable: decides again after it has been applied and reported.
fn restless(case: &Case, answer: &Answer, assignment: &Assignment) -> Option<String> {
    let targets = answer.targets.clone().unwrap_or_default();
    let mut again = case.clone();
    again.targets = targets
        .iter()
        .map(|(name, n)| (name.clone(), if case.kind == Kind::Set { case.replicas } else { *n }))
        .collect();
    // A set that leaves with a size other than the present one releases a different capacity than
    // the one counted.
    let mut changed = case.kind == Kind::Set && case.targets.iter().any(|(_, held)| *held != case.replicas);
    for (place, replicas) in again.clusters.iter_mut().zip(assignment) {
        let pods = if case.is_copied() { replicas * case.replicas } else { *replicas };
        let pods = if case.is_zero() { 0 } else { pods };
        place.free -= pods - case.held(&place.name);
        changed |= place.free < 0;
        place.free = place.free.max(0);
    }
    (again.edited, again.fresh, again.observed) = (false, false, answer.group);
    let moved = |case: &Case, what: &str| {
        let after = ask(case);
        let same = matches!(after.decision.outcome, Outcome::Placed(_))
            && after.targets.as_ref() == Some(&targets)
            && after.group == answer.group;
        (!same)
            .then(|| format!("stable: {what} {targets:?} becomes {:?} ({:?})", after.targets, after.decision.outcome))
    };
    // Without capacity checks a cluster may be overfilled, and then its capacity has really
    // changed.
    let fresh = Case { fresh: true, ..again.clone() };
    moved(&again, "steady").or_else(|| if case.fresh && !changed { moved(&fresh, "fresh") } else { None })
}

/// Checks a successful pass although nothing is allowed: it keeps or scales down the targets, and
/// the condition names a rule that they violate.
fn kept(case: &Case, answer: &Answer, message: &str) -> Vec<String> {
    let targets = answer.targets.as_deref().unwrap_or_default();
    let assignment = match assignment(case, targets) {
        Ok(assignment) => assignment,
        Err(fault) => return vec![fault],
    };
    let mut faults = Vec::new();
    if !truth::is_kept(case) {
        faults.push(format!("sound: {assignment:?}, and nothing is allowed ({message})"));
    }
    if !case.is_copied() && case.targets.iter().any(|(name, held)| targets.iter().any(|(it, n)| it == name && n > held))
    {
        faults.push(format!("sound: {assignment:?} grows where nothing is allowed"));
    }
    if targets.iter().any(|(name, _)| !case.is_there(name)) || (case.is_copied() && targets.len() < case.targets.len())
    {
        faults.push(format!("kept: {:?} becomes {assignment:?}", case.targets));
    }
    let rule = truth::fault(case, answer.group, &assignment).unwrap_or_default();
    let is_named = (rule.starts_with("S4") && message.contains("the spread constraint by"))
        || (rule.starts_with("S7") && message.contains("clusterBounds of cluster"));
    if !is_named || !message.contains("not kept") {
        faults.push(format!("kept: breaks {rule}, and says {message}"));
    }
    faults.extend(restless(case, answer, &assignment));
    faults
}

/// Checks a partial result: not everything can be scheduled, and the part is the largest possible.
fn partly(case: &Case, answer: &Answer, message: &str) -> Vec<String> {
    for group in truth::groups_in_order(case) {
        if let Some(found) = truth::allowed(case, group).first() {
            return vec![format!("complete: partly, but {group:?} can have {found:?} ({message})")];
        }
    }
    // After a failed Fresh pass, a Steady pass decides the targets.
    let steady = Case { fresh: false, ..case.clone() };
    let written = answer.targets.clone().unwrap_or_else(|| case.targets.clone());
    let assignment = match assignment(&steady, &written) {
        Ok(assignment) => assignment,
        Err(fault) => return vec![fault],
    };
    let mut faults = Vec::new();
    let (sum, most) = (assignment.iter().sum::<i64>(), truth::most(&steady));
    if sum != most || !message.contains(&format!("{sum} of {} replicas", case.replicas)) {
        faults.push(format!("partly: {assignment:?} are placed, and {most} could be ({message})"));
    }
    let staying = truth::staying(&steady);
    if assignment != staying {
        let group = answer.group.or(case.observed.filter(|_| answer.targets.is_none()));
        if !truth::allowed_parts(&steady, group).contains(&assignment) {
            let why = truth::fault(&steady, group, &assignment);
            faults.push(format!("sound: a part: {assignment:?} in {group:?}, beside {staying:?} ({why:?})"));
        }
        for earlier in truth::groups_in_order(&steady).into_iter().take_while(|earlier| *earlier != group) {
            if truth::allowed_parts(&steady, earlier).iter().any(|part| part.iter().sum::<i64>() == most) {
                faults.push(format!("group: S6: a part in {group:?}, but {earlier:?} takes as many"));
            }
        }
    }
    let again = carried_out(case, answer, &written, &assignment);
    let after = ask(&again);
    let same = after.targets.as_ref().is_none_or(|targets| *targets == written)
        && matches!(&after.decision.outcome, Outcome::Failed(failed) if failed.reason == Reason::PartlyScheduled);
    if !same && faults.is_empty() {
        let what = format!("{:?} ({:?})", after.targets, after.decision.outcome);
        faults.push(format!("stable: the part {written:?} becomes {what}"));
    }
    faults
}

/// Returns the case after the result is applied and reported, for a Steady pass.
fn carried_out(case: &Case, answer: &Answer, targets: &[(String, i64)], assignment: &Assignment) -> Case {
    let mut again = case.clone();
    again.targets = targets.to_vec();
    for (place, replicas) in again.clusters.iter_mut().zip(assignment) {
        place.free = (place.free - replicas + case.held(&place.name)).max(0);
    }
    (again.edited, again.fresh, again.observed) = (false, false, answer.group.or(case.observed));
    again
}

/// Checks a failed pass: nothing is allowed, forbidden targets are removed, and all others stay.
fn refused(case: &Case, answer: &Answer, message: &str) -> Vec<String> {
    for group in truth::groups_in_order(case) {
        if let Some(found) = truth::allowed(case, group).first() {
            return vec![format!("complete: refused, but {group:?} can have {found:?} ({message})")];
        }
    }
    // After a failed Fresh pass, a Steady pass decides which targets stay.
    let steady = Case { fresh: false, ..case.clone() };
    let steady_fits =
        || truth::groups_in_order(&steady).iter().any(|group| !truth::allowed(&steady, *group).is_empty());
    if case.what_fits && case.is_shared_by_room() && !(case.fresh && steady_fits()) {
        let most = truth::most(&steady);
        if most > 0 && most < case.replicas {
            return vec![format!("partly: nothing is placed, and {most} could be ({message})")];
        }
    }
    if case.fresh {
        return Vec::new();
    }
    // A cluster from which the workload is being evicted may satisfy a rule until it has left.
    if truth::is_kept(case) && case.evicting.is_empty() {
        return vec![format!("kept: all that is wanted stays, and the pass is refused ({message})")];
    }
    let written = answer.targets.clone().unwrap_or_else(|| case.targets.clone());
    let stays = |name: &str| truth::may_stay(case, name);
    let held: i64 = case.targets.iter().filter(|(name, _)| stays(name)).map(|(_, held)| *held).sum();
    let mut faults = Vec::new();
    for (name, before) in &case.targets {
        let after = written.iter().find(|(target, _)| target == name).map(|(_, replicas)| *replicas);
        match (stays(name), after) {
            (false, None) => {}
            (false, Some(_)) => faults.push(format!("refused: {name} is forbidden, and stays")),
            (true, None) if case.is_copied() || held <= case.replicas => {
                faults.push(format!("refused: {name} is taken away for no reason"));
            }
            (true, Some(after)) if !case.is_copied() && held <= case.replicas && after != *before => {
                faults.push(format!("refused: {name} has {after}, not {before}"));
            }
            (true, _) => {}
        }
    }
    let sum: i64 = written.iter().map(|(_, replicas)| *replicas).sum();
    if !case.is_copied() && held > case.replicas && sum != case.replicas {
        faults.push(format!("refused: does not shrink to {}: {written:?}", case.replicas));
    }
    faults.extend(
        written.iter().filter(|(name, _)| !case.is_there(name)).map(|(name, _)| format!("refused: but {name} is new")),
    );
    faults
}
