//! Explains a decision: every cluster, with what spoke for and against it.
//!
//! The trace is made only on request, by the same pass that decides. So it always agrees with the
//! decision.

use std::sync::Arc;

use serde::Serialize;

use super::filters::{Case, FILTERS};
use super::placement::{By, Division};
use super::request::{Mode, Target};
use super::select::Candidate;
use crate::bits::Bits;

/// Empty if the algorithm did not run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Trace {
    /// Whether the pass built on the present targets. None: there was no pass.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// One attempt for each affinity group that was tried, in order.
    pub attempts: Vec<Attempt>,
}

/// One attempt to place the binding.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Attempt {
    /// The affinity group that was tried. None: the placement has no groups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<Box<str>>,
    /// All clusters, by name.
    pub clusters: Vec<ClusterTrace>,
    /// What the clusters were grouped by: `region`, `zone`, `provider`, or the key of a label.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spread_by: Option<String>,
    /// The groups that the spread constraint chose from, best first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<GroupTrace>,
    /// Why the attempt failed, if it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// What an attempt found about one cluster.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterTrace {
    pub name: Arc<str>,
    /// The answer of each filter, in reporting order. An objection to a cluster that the workload
    /// runs on may be overruled.
    pub filters: Vec<FilterTrace>,
    pub scores: Vec<Score>,
    /// The overflow tier. 0 is the group itself.
    pub tier: u16,
    /// How many replicas fit beside those that run there. Absent if room was not counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free: Option<i64>,
    /// Which data `free` comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free_from: Option<&'static str>,
    pub selected: bool,
    /// The weight of the cluster when replicas were divided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<i64>,
    /// The positions of the entries that specify replicas for the cluster, if there are several.
    /// Only the first counts.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub entries: Vec<usize>,
    pub replicas_before: i64,
    pub replicas_after: i64,
    /// Why the cluster is not in the result, if it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub out: Option<String>,
}

/// The candidates that share a place.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupTrace {
    pub name: Box<str>,
    /// The number of candidates in the group.
    pub clusters: usize,
    /// A thousand for each replica, or each cluster, that there is room for, plus the mean score.
    pub weight: i64,
    pub chosen: bool,
}

/// The answer of one filter for one cluster.
#[derive(Clone, Debug, Serialize)]
pub struct FilterTrace {
    pub filter: &'static str,
    /// None: the filter has no objection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub objection: Option<String>,
    /// The objection does not count, because the workload runs there already.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub overruled: bool,
}

/// The score that one plugin gave a cluster.
#[derive(Clone, Debug, Serialize)]
pub struct Score {
    pub plugin: &'static str,
    pub score: i64,
}

/// What is known of an attempt, as far as it got.
pub(super) struct Seen<'a> {
    /// The candidates before selection. Empty if no cluster was feasible.
    pub listed: &'a [Candidate],
    /// Whether room was counted.
    pub counted: bool,
    pub selected: &'a [Candidate],
    /// None: no groups were chosen.
    pub spread: Option<&'a Spreading>,
    pub weighted: &'a [(Bits, i64)],
    pub outcome: Result<&'a [Target], &'a str>,
}

/// The choice among groups of clusters.
#[derive(Clone, Debug)]
pub(super) struct Spreading {
    pub by: By,
    /// The groups, with the slots of their members.
    pub groups: Vec<(GroupTrace, Vec<usize>)>,
}

impl Spreading {
    fn group_of(&self, slot: usize) -> Option<&GroupTrace> {
        self.groups.iter().find(|(_, members)| members.contains(&slot)).map(|(group, _)| group)
    }
}

pub(super) fn attempt(case: &Case<'_>, seen: &Seen<'_>) -> Attempt {
    let clusters = case.fleet.slots_by_name().map(|slot| cluster(case, seen, slot)).collect();
    let mut groups: Vec<GroupTrace> =
        seen.spread.map_or_else(Vec::new, |spread| spread.groups.iter().map(|(group, _)| group.clone()).collect());
    groups.sort_by(|a, b| b.weight.cmp(&a.weight).then_with(|| a.name.cmp(&b.name)));
    Attempt {
        group: case.term.map(|term| term.name.clone()),
        clusters,
        spread_by: seen.spread.map(|spread| spread.by.to_string()),
        groups,
        failure: seen.outcome.err().map(str::to_owned),
    }
}

fn cluster(case: &Case<'_>, seen: &Seen<'_>, slot: usize) -> ClusterTrace {
    let cluster = case.fleet.cluster(slot);
    let is_target = case.request.targets.iter().any(|target| target.name == cluster.name);
    let spared = is_target && case.remembers_targets();
    let filters: Vec<FilterTrace> = FILTERS
        .iter()
        .map(|filter| {
            let objection = (filter.reason)(case, cluster);
            let overruled = objection.is_some() && filter.spares_targets && spared;
            FilterTrace { filter: filter.name, objection, overruled }
        })
        .collect();
    let candidate = seen.listed.iter().find(|candidate| candidate.slot() == slot);
    let selected = seen.selected.iter().any(|candidate| candidate.slot() == slot);
    let after = seen.outcome.ok().and_then(|targets| targets.iter().find(|target| target.name == cluster.name));
    let weight = candidate.filter(|_| selected).and_then(|candidate| weight(case, seen, candidate));
    let objection = filters.iter().find(|verdict| verdict.objection.is_some() && !verdict.overruled);
    let out = match (objection, candidate) {
        _ if after.is_some() => None,
        _ if cluster.deleting => Some("the cluster is being deleted".to_owned()),
        (Some(verdict), _) => verdict.objection.clone(),
        (None, None) => None,
        (None, Some(_)) if seen.outcome.is_err() => Some("no replicas were assigned in this attempt".to_owned()),
        (None, Some(candidate)) if !selected => Some(not_selected(seen, candidate)),
        (None, Some(_)) if weight == Some(0) => Some(no_weight(case).to_owned()),
        (None, Some(_)) if !is_listed(case, seen, slot) => Some("no entry specifies replicas for it".to_owned()),
        (None, Some(_)) => Some("other clusters came first for every replica".to_owned()),
    };
    let counted = candidate.filter(|_| seen.counted);
    ClusterTrace {
        name: cluster.name.clone(),
        filters,
        scores: candidate.map_or_else(Vec::new, |candidate| {
            vec![
                Score { plugin: "ClusterLocality", score: i64::from(candidate.score) },
                Score { plugin: "ClusterAffinity", score: 0 },
            ]
        }),
        tier: candidate.map_or(0, |candidate| candidate.tier),
        free: counted.map(|candidate| i64::from(candidate.free)),
        free_from: counted.map(|_| source(case, slot)),
        selected,
        weight,
        entries: entries(case, seen, slot),
        replicas_before: case.request.replicas_on(&cluster.name),
        replicas_after: after.map_or(0, |target| i64::from(target.replicas)),
        out,
    }
}

/// Why the spread constraints did not select a candidate.
fn not_selected(seen: &Seen<'_>, candidate: &Candidate) -> String {
    let count = seen.selected.len();
    let Some(spread) = seen.spread else {
        return format!("the spread constraints allow {count} cluster(s), and others came first");
    };
    match spread.group_of(candidate.slot()) {
        None => format!("it has no {}", spread.by),
        Some(group) if !group.chosen => format!("{} {:?} was not chosen", spread.by, &*group.name),
        Some(group) => {
            format!("other clusters of {} {:?} or of another chosen group came first", spread.by, &*group.name)
        }
    }
}

/// The weight that the division gave the cluster.
fn weight(case: &Case<'_>, seen: &Seen<'_>, candidate: &Candidate) -> Option<i64> {
    let given = || {
        let applying = seen.weighted.iter().filter(|(slots, _)| slots.contains(candidate.slot()));
        applying.map(|(_, weight)| *weight).max().unwrap_or(0)
    };
    let replicas = i64::from(case.request.replicas);
    let held: i64 = seen.selected.iter().map(|candidate| i64::from(candidate.own)).sum();
    match &case.placement.division {
        Division::Duplicated | Division::Specified(_) | Division::Together(_) | Division::Unsupported { .. } => None,
        Division::Static(None) => Some(1),
        Division::Static(Some(_)) => Some(given()),
        Division::Dynamic | Division::Aggregated if case.mode == Mode::Fresh => Some(candidate.available()),
        Division::Dynamic | Division::Aggregated if held > replicas => Some(i64::from(candidate.own)),
        Division::Dynamic | Division::Aggregated => Some(i64::from(candidate.free)),
    }
}

fn entries(case: &Case<'_>, seen: &Seen<'_>, slot: usize) -> Vec<usize> {
    let specified = matches!(case.placement.division, Division::Specified(_));
    let entries = seen.weighted.iter().enumerate().filter(|(_, (slots, _))| specified && slots.contains(slot));
    let entries: Vec<usize> = entries.map(|(position, _)| position).collect();
    if entries.len() > 1 { entries } else { Vec::new() }
}

/// Whether an entry of the user's list selects the cluster. True if there is no such list.
fn is_listed(case: &Case<'_>, seen: &Seen<'_>, slot: usize) -> bool {
    let lists = matches!(case.placement.division, Division::Specified(Some(_)) | Division::Together(_));
    !lists || seen.weighted.iter().any(|(slots, _)| slots.contains(slot))
}

fn no_weight(case: &Case<'_>) -> &'static str {
    match &case.placement.division {
        Division::Static(_) => "no rule gives it any weight",
        _ => "there is no room for another replica",
    }
}

/// Which data the free room of a cluster comes from.
fn source(case: &Case<'_>, slot: usize) -> &'static str {
    match &case.fleet.cluster(slot).room {
        None => "no resource summary",
        Some(room) if room.pods <= 0 => "pods",
        Some(room) if room.grades.is_some() && case.request.requirements.is_some() => "resource models",
        Some(_) if case.request.requirements.is_some() => "resource summary",
        Some(_) => "pods",
    }
}
