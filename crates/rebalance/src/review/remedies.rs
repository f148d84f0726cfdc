//! Remedies for a workload that fits nowhere. Pure.
//!
//! Each remedy was tried: one objection of one cluster is removed, or capacity is added to one
//! cluster, and the workload is decided again with the capacity that the plan has left.

use ballast_api::karmada::cluster::v1alpha1::{NOT_READY, UNREACHABLE};
use ballast_engine::karmada::{
    Affinity, Attempt, Cluster, ClusterTrace, Grade, Placement, Request, Requirements, Shared, Trace, WorkloadGroups,
};
use ballast_k8s::Quantity;
use ballast_k8s::taint::Effect;
use ballast_scheduler::planning::{ParsedBinding, PlanBuilder, PlanOptions, PlanningSnapshot, Proposal};

/// Maximum number of remedies for one workload.
const SENTENCES_MAX: usize = 3;
/// Maximum number of decisions that are tried for one workload.
const TRIALS_MAX: usize = 40;
/// Maximum number of clusters that capacity is added to, in descending order of free capacity.
const WIDENED_MAX: usize = 5;

/// Returns the single changes of a cluster, or of the placement, that would make the workload fit.
/// Empty if there are none.
pub fn remedies(
    present: &PlanningSnapshot,
    draft: &mut PlanBuilder,
    case: &ParsedBinding,
    how: &PlanOptions,
    trace: &Trace,
) -> Vec<String> {
    if let Some(sentence) = with_more_quota(present, draft, case, how) {
        return vec![sentence];
    }
    let Some(attempt) = trace.attempts.last() else { return Vec::new() };
    // The capacity left after the preceding moves.
    let left = PlanningSnapshot { clusters: draft.clusters().clone(), ..present.clone() };
    let mut trials = Trials { left, how: *how, trials: 0 };
    let mut sentences = trials.without_objections(case, attempt);
    if sentences.is_empty() {
        sentences.extend(trials.with_more_room(case, attempt));
    }
    sentences
}

/// Returns the required quota, if there is capacity and only a quota is exceeded.
fn with_more_quota(
    present: &PlanningSnapshot,
    draft: &mut PlanBuilder,
    case: &ParsedBinding,
    how: &PlanOptions,
) -> Option<String> {
    let left = PlanningSnapshot { clusters: draft.clusters().clone(), ..present.clone() };
    match PlanBuilder::new(&left).without_quotas().propose(case, how) {
        Proposal::Move { to, .. } => Some(draft.within_quotas(case, &to).err()?.remedy),
        Proposal::Stay { .. } | Proposal::Unplaceable { .. } => None,
    }
}

struct Trials {
    left: PlanningSnapshot,
    how: PlanOptions,
    trials: usize,
}

impl Trials {
    /// Returns whether the workload would fit with this binding and cluster.
    fn fits(&mut self, case: &ParsedBinding, changed: Option<Cluster>) -> bool {
        if self.trials == TRIALS_MAX {
            return false;
        }
        self.trials += 1;
        let mut present = self.left.clone();
        changed.map(|cluster| present.clusters.upsert(cluster));
        !matches!(PlanBuilder::new(&present).propose(case, &self.how), Proposal::Unplaceable { .. })
    }

    fn without_objections(&mut self, case: &ParsedBinding, attempt: &Attempt) -> Vec<String> {
        let mut sentences = Vec::new();
        for traced in &attempt.clusters {
            if sentences.len() == SENTENCES_MAX {
                break;
            }
            let objecting: Vec<&str> = objections(traced).collect();
            let ([filter], Some(cluster)) = (objecting.as_slice(), self.left.clusters.find(&traced.name).cloned())
            else {
                continue;
            };
            if !cluster.deleting && !is_lost(&cluster) {
                sentences.extend(self.without(filter, case, &cluster));
            }
        }
        sentences
    }

    /// Removes the objection of one filter.
    fn without(&mut self, filter: &str, case: &ParsedBinding, cluster: &Cluster) -> Option<String> {
        let name = &cluster.name;
        let resource = &case.request.resource;
        match filter {
            "TaintToleration" => {
                let placement = case.request.placement.as_ref()?;
                let is_in_the_way = |taint: &&ballast_k8s::Taint| {
                    matches!(taint.effect, Effect::NoSchedule | Effect::NoExecute)
                        && !placement.tolerations.iter().any(|toleration| toleration.tolerates(taint))
                };
                let taints: Vec<String> =
                    cluster.taints.iter().filter(is_in_the_way).map(ToString::to_string).collect();
                let rest = cluster.taints.iter().filter(|taint| !is_in_the_way(taint)).cloned().collect();
                let changed = Cluster { taints: rest, ..cluster.clone() };
                self.fits(case, Some(changed)).then(|| format!("{name} would fit without taint {}", taints.join(", ")))
            }
            "APIEnablement" => {
                let api = (resource.api_version.clone(), resource.kind.clone());
                let apis = cluster.apis.iter().cloned().chain([api]).collect();
                let changed = Cluster { apis, ..cluster.clone() };
                let what = format!("{} {}", resource.api_version, resource.kind);
                self.fits(case, Some(changed)).then(|| format!("{name} would fit if it served {what}"))
            }
            // Selecting a cluster that another group selects already would not help.
            "ClusterAffinity" if case.request.placement.as_ref().is_some_and(|it| it.can_choose(cluster)) => None,
            "ClusterAffinity" => {
                let changed = placement_edits(case, |placement| Placement {
                    affinity: Some(Affinity { names: vec![(&**name).into()], ..Affinity::default() }),
                    terms: Vec::new(),
                    ..placement
                })?;
                self.fits(&changed, None).then(|| format!("{name} would fit if the placement selected it"))
            }
            "ClusterEviction" => {
                let mut changed = case.clone();
                changed.request.evicting.retain(|evicting| **evicting != **name);
                self.fits(&changed, None).then(|| format!("{name} would fit once the eviction from it has ended"))
            }
            "TolerationSeconds" => {
                let changed = case.tolerating_longer();
                self.fits(&changed, None).then(|| format!("{name} would fit if its taint were tolerated for longer"))
            }
            "WorkloadAffinity" | "WorkloadAntiAffinity" => {
                let mut changed = case.clone();
                changed.request.groups = WorkloadGroups::default();
                let group = if filter == "WorkloadAffinity" { "affinity" } else { "anti-affinity" };
                self.fits(&changed, None).then(|| format!("{name} would fit without the {group} group"))
            }
            _ => None,
        }
    }

    /// Returns the least additional capacity on one cluster that suffices.
    fn with_more_room(&mut self, case: &ParsedBinding, attempt: &Attempt) -> Option<String> {
        let most = i64::from(case.request.replicas).max(1);
        let is_open = |traced: &&ClusterTrace| traced.free.is_some() && objections(traced).next().is_none();
        let mut open: Vec<&ClusterTrace> = attempt.clusters.iter().filter(is_open).collect();
        open.sort_by(|one, other| other.free.cmp(&one.free).then_with(|| one.name.cmp(&other.name)));
        let mut best: Option<(i64, String)> = None;
        for traced in open.into_iter().take(WIDENED_MAX) {
            let Some(cluster) = self.left.clusters.find(&traced.name).cloned() else { continue };
            if is_lost(&cluster) {
                continue;
            }
            let fits = traced.free.unwrap_or_default();
            let mut tried = |more: i64| {
                let (changed, _) = widened(&cluster, &case.request, fits, more)?;
                self.fits(case, Some(changed)).then_some(more)
            };
            // Only less than the best so far is of interest.
            let (mut low, mut high) = (1, best.as_ref().map_or(most, |(more, _)| more - 1));
            if high < low || tried(high).is_none() {
                continue;
            }
            while low < high {
                let middle = low + (high - low) / 2;
                if tried(middle).is_some() { high = middle } else { low = middle + 1 }
            }
            if let Some((_, amounts)) = widened(&cluster, &case.request, fits, high) {
                best = Some((high, format!("{amounts} on {} would do", cluster.name)));
            }
        }
        best.map(|(_, sentence)| sentence)
    }
}

/// Returns whether the cluster is not ready. The only remedy would be its recovery.
fn is_lost(cluster: &Cluster) -> bool {
    cluster.taints.iter().any(|taint| [UNREACHABLE, NOT_READY].contains(&&*taint.key))
}

/// Returns the filters with effective objections to a cluster: filters that exclude the workload,
/// and filters that prevent additional replicas.
fn objections(traced: &ClusterTrace) -> impl Iterator<Item = &'static str> {
    let counts = |overruled: bool| !overruled || traced.closed;
    let counts = traced.filters.iter().filter(move |it| it.objection.is_some() && counts(it.overruled));
    counts.map(|verdict| verdict.filter)
}

/// Returns the binding with another placement.
fn placement_edits(case: &ParsedBinding, change: impl FnOnce(Placement) -> Placement) -> Option<ParsedBinding> {
    let placement = case.request.placement.as_ref()?;
    let mut changed = case.clone();
    changed.request.placement = Some(Shared::new(change(Placement::clone(placement))));
    Some(changed)
}

/// Returns the cluster with capacity for `more` replicas in addition to `fits`, and a message about
/// the change. `None` if the capacity of the cluster is unknown.
fn widened(cluster: &Cluster, request: &Request, fits: i64, more: i64) -> Option<(Cluster, String)> {
    let mut room = cluster.capacity.clone()?;
    let wanted = fits.saturating_add(more);
    let none = Requirements::default();
    let requirements = request.requirements.as_deref().unwrap_or(&none);
    let mut amounts = Vec::new();
    let mut free: Vec<(Box<str>, Quantity)> = room.free.to_vec();
    for (resource, each) in &requirements.amounts {
        let is_cpu = **resource == *"cpu";
        let counted = |amount: Quantity| if is_cpu { amount.millis() } else { amount.units() };
        let quantity = |count: i64| if is_cpu { Quantity::from_millis(count) } else { Quantity::from_units(count) };
        let needed = counted(*each).saturating_mul(wanted);
        let there = free.iter().position(|(name, _)| name == resource);
        let has = there.map_or(0, |place| counted(free[place].1).max(0));
        if has >= needed {
            continue;
        }
        amounts.push(format!("{} more {resource}", shown(resource, quantity(needed - has))));
        match there {
            Some(place) => free[place].1 = quantity(needed),
            None => free.push((resource.clone(), quantity(needed))),
        }
    }
    if room.pods < wanted {
        amounts.push(format!("{} more pods", wanted - room.pods.max(0)));
        room.pods = wanted;
    }
    free.sort_by(|one, other| one.0.cmp(&other.0));
    room.free = free.into();
    if let Some(grades) = &mut room.grades {
        let node = Grade::new(more.max(0).unsigned_abs(), requirements.amounts.clone());
        *grades = [node].into_iter().chain(grades.iter().cloned()).collect();
        if amounts.is_empty() {
            amounts.push(format!("nodes with room for {more} more replicas"));
        }
    }
    let text = if amounts.is_empty() { format!("room for {more} more replicas") } else { amounts.join(" and ") };
    Some((Cluster { capacity: Some(room), ..cluster.clone() }, text))
}

/// Formats the amount for users: bytes in binary units, rounded up.
fn shown(resource: &str, amount: Quantity) -> String {
    const UNITS: [(&str, i64); 3] = [("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)];
    let is_bytes = matches!(resource, "memory" | "ephemeral-storage") || resource.starts_with("hugepages-");
    let bytes = amount.units();
    let exact = UNITS.iter().find(|(_, size)| bytes >= *size && bytes % size == 0);
    match exact.or_else(|| UNITS.iter().find(|(_, size)| bytes >= 10 * size)) {
        Some((unit, size)) if is_bytes => format!("{}{unit}", bytes.saturating_add(size - 1) / size),
        _ => amount.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_shown_as_people_write_them() {
        for (resource, bytes, text) in [
            ("memory", 8 << 30, "8Gi"),
            ("memory", (8 << 30) + (512 << 20), "8704Mi"),
            ("memory", (20 << 30) + 1, "21Gi"),
            ("memory", 1000, "1000"),
            ("example.com/gpu", 2 << 30, "2147483648"),
        ] {
            assert_eq!(shown(resource, Quantity::from_units(bytes)), text);
        }
        assert_eq!(shown("cpu", Quantity::from_millis(1500)), "1.5");
    }
}
