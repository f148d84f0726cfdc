//! Validation of cluster bounds, and of the behavior if not all replicas fit, beyond the schema
//! (S7).
//!
//! Bounds can contradict each other or the number of replicas. A contradiction that is evident from
//! the object alone is rejected. Otherwise the condition `Scheduled` reports it.

use std::collections::{BTreeSet, HashMap, HashSet};

use serde_json::Value;

use super::placement::{ClusterAffinity, Placement};
use super::placement_rules::fills_by_room;
use super::replica_scheduling::{ClusterBounds, ReplicaSchedulingStrategy, WhenReplicasUnsatisfiable};
use crate::tree::Object;
use ballast_k8s::{FieldErrors, FieldPath};

/// Rejects bounds that contradict each other. `path` is the path of the list.
pub(super) fn check(bounds: &[ClusterBounds], path: &FieldPath, errors: &mut FieldErrors) {
    for (index, entry) in bounds.iter().enumerate() {
        let path = path.index(index);
        for (name, number) in [("minReplicas", entry.min_replicas), ("maxReplicas", entry.max_replicas)] {
            if let Some(number) = number.filter(|number| *number > i64::from(i32::MAX)) {
                errors.invalid(&path.child(name), number, format!("must be less than or equal to {}", i32::MAX));
            }
        }
        if let (Some(min), Some(max)) = (entry.min_replicas, entry.max_replicas)
            && min > max
        {
            errors.invalid(&path.child("minReplicas"), min, format!("must not be above maxReplicas, which is {max}"));
        }
    }
    let mut known: HashMap<Selected<'_>, Range> = HashMap::new();
    let all = of_all_clusters(bounds);
    for (index, entry) in bounds.iter().enumerate() {
        let contradicted = selected(&entry.target_cluster).into_iter().find_map(|selected| {
            let start = match selected {
                Selected::Name(_) => all,
                Selected::Alike(_) => Range::default(),
            };
            let range = known.entry(selected).or_insert(start);
            let contradicted;
            (*range, contradicted) = range.with(index, entry);
            contradicted.map(|what| (selected, what))
        });
        let Some((selected, Contradiction { field, value, other, bound })) = contradicted else { continue };
        let whom = match selected {
            Selected::Name(name) => format!("cluster {name:?}"),
            Selected::Alike(_) => "the same clusters".to_owned(),
        };
        let detail = format!("contradicts {path}[{other}], by which {whom} must have {bound} replicas");
        errors.invalid(&path.index(index).child(field), value, detail);
    }
}

/// Clusters that an entry selects regardless of their labels and fields.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Selected<'a> {
    Name(&'a str),
    /// Clusters that an equal affinity selects.
    Alike(&'a ClusterAffinity),
}

fn selected(affinity: &ClusterAffinity) -> Vec<Selected<'_>> {
    let mut selected = vec![Selected::Alike(affinity)];
    if affinity.label_selector.is_none() && affinity.field_selector.is_none() {
        selected.extend(names(affinity).map(Selected::Name));
    }
    selected
}

/// Returns the names that an affinity lists and does not exclude.
fn names(affinity: &ClusterAffinity) -> impl Iterator<Item = &str> {
    let excluded: HashSet<&str> = affinity.exclude_clusters.iter().map(String::as_str).collect();
    affinity.cluster_names.iter().map(String::as_str).filter(move |name| !excluded.contains(name))
}

/// Returns the combined bounds of the entries that select every cluster.
fn of_all_clusters(bounds: &[ClusterBounds]) -> Range {
    let all = bounds.iter().enumerate().filter(|(_, entry)| entry.target_cluster == ClusterAffinity::default());
    all.fold(Range::default(), |range, (index, entry)| range.with(index, entry).0)
}

/// The intersection of several bounds, with the entry that each limit comes from.
#[derive(Clone, Copy, Default)]
struct Range {
    min: Option<(i64, usize)>,
    max: Option<(i64, usize)>,
}

/// A contradiction between an entry and an earlier one.
struct Contradiction {
    field: &'static str,
    value: i64,
    other: usize,
    bound: String,
}

impl Range {
    fn least(&self) -> i64 {
        self.min.map_or(0, |(min, _)| min)
    }

    fn most(&self) -> i64 {
        self.max.map_or(i64::MAX, |(max, _)| max)
    }

    /// Intersects the range with the bounds of this entry.
    fn with(self, index: usize, entry: &ClusterBounds) -> (Range, Option<Contradiction>) {
        let (min, max) = (entry.min_replicas.unwrap_or(0), entry.max_replicas.unwrap_or(i64::MAX));
        let contradiction = match (self.min, self.max) {
            (Some((least, other)), _) if other != index && max < least => {
                Some(Contradiction { field: "maxReplicas", value: max, other, bound: format!("at least {least}") })
            }
            (_, Some((most, other))) if other != index && min > most => {
                Some(Contradiction { field: "minReplicas", value: min, other, bound: format!("at most {most}") })
            }
            _ => None,
        };
        let range = Range {
            min: self.min.filter(|(known, _)| *known >= min).or(Some((min, index))),
            max: self.max.filter(|(known, _)| *known <= max).or(Some((max, index))),
        };
        (range, contradiction)
    }
}

/// Rejects bounds that no assignment of `replicas` can satisfy, whichever clusters exist. `path` is
/// the path of the placement.
pub(in crate::karmada) fn check_total(
    placement: &Placement,
    replicas: i32,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    let Some(strategy) = placement.replica_scheduling.as_ref().filter(|strategy| fills_by_room(strategy)) else {
        return;
    };
    let bounds = &strategy.cluster_bounds;
    if replicas <= 0 || bounds.is_empty() {
        return;
    }
    let path = path.child("replicaScheduling").child("clusterBounds");
    let wanted = i64::from(replicas);
    let everywhere = of_all_clusters(bounds);
    let mut by_name: HashMap<&str, Range> = HashMap::new();
    for (index, entry) in bounds.iter().enumerate() {
        let affinity = &entry.target_cluster;
        if affinity.label_selector.is_none() && affinity.field_selector.is_none() {
            for name in names(affinity) {
                let range = by_name.entry(name).or_insert(everywhere);
                *range = range.with(index, entry).0;
            }
        }
    }
    let range_of = |name: &&str| by_name.get(name).copied().unwrap_or(everywhere);
    let groups = groups(placement);
    let is_too_much = |group: &Option<BTreeSet<&str>>| match group {
        Some(names) => names.iter().all(|name| range_of(name).least() > wanted),
        None => everywhere.least() > wanted,
    };
    if groups.iter().all(is_too_much) {
        let detail = format!("each cluster must have more than the {wanted} replicas of the workload, if it has any");
        errors.invalid(&path, bounds, detail);
        return;
    }
    let totals = groups.iter().map(|group| match group {
        Some(names) => names.iter().map(|name| range_of(name).most()).fold(0, i64::saturating_add),
        None => i64::MAX,
    });
    let total = totals.max().unwrap_or(i64::MAX);
    let places_what_fits = strategy.when_unsatisfiable == Some(WhenReplicasUnsatisfiable::ScheduleWhatFits);
    if total < wanted && !places_what_fits {
        let detail =
            format!("the clusters that the placement names may have {total} replicas, and the workload has {wanted}");
        errors.invalid(&path, bounds, detail);
    }
}

/// Returns the cluster names that each group of the placement can choose from, or `None` if any
/// cluster may match.
fn groups(placement: &Placement) -> Vec<Option<BTreeSet<&str>>> {
    if let Some(affinity) = &placement.cluster_affinity {
        return vec![named(vec![affinity])];
    }
    if placement.cluster_affinities.is_empty() {
        return vec![None];
    }
    let of_term = placement.cluster_affinities.iter().map(|term| {
        let overflow = term.overflow_affinities.iter().map(|overflow| &overflow.affinity);
        named(std::iter::once(&term.affinity).chain(overflow).collect())
    });
    of_term.collect()
}

fn named(affinities: Vec<&ClusterAffinity>) -> Option<BTreeSet<&str>> {
    let is_open = affinities.iter().any(|affinity| affinity.cluster_names.is_empty());
    let named: BTreeSet<&str> = affinities.into_iter().flat_map(names).collect();
    // An affinity that selects no cluster is reported elsewhere.
    (!is_open && !named.is_empty()).then_some(named)
}

/// Returns warnings about fields that the division ignores.
pub fn advise(object: &Object) -> Vec<String> {
    const STRATEGY: &str = "/placement/replicaScheduling";
    let Some(strategy) = object.get("spec").and_then(|spec| spec.pointer(STRATEGY)) else { return Vec::new() };
    let has_bounds = strategy.get("clusterBounds").and_then(Value::as_array).is_some_and(|list| !list.is_empty());
    let places_what_fits = strategy.get("whenUnsatisfiable").is_some_and(|value| value == "ScheduleWhatFits");
    if !has_bounds && !places_what_fits {
        return Vec::new();
    }
    let Ok(strategy) = serde_json::from_value::<ReplicaSchedulingStrategy>(strategy.clone()) else {
        return Vec::new();
    };
    if fills_by_room(&strategy) {
        return Vec::new();
    }
    let warning = |field: &str| {
        format!(
            "spec.placement.replicaScheduling.{field}: has no effect, because only replicas that are divided by \
             dynamic weight or as Aggregated obey it"
        )
    };
    let fields = [(has_bounds, "clusterBounds"), (places_what_fits, "whenUnsatisfiable")];
    fields.into_iter().filter(|(has, _)| *has).map(|(_, field)| warning(field)).collect()
}
