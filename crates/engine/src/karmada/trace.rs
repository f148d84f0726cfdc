//! Explains a decision: for every cluster, the results of the filters, the scores and the replicas.
//!
//! The pass that decides builds the trace, and only on request. So it always agrees with the
//! decision.

use std::sync::Arc;

use serde::Serialize;

use super::answers::AnswersAbout;
use super::bounds::{self, Limit};
use super::candidate::{Candidate, lacks_room_for_a_set};
use super::cluster::Cluster;
use super::decision::Placed;
use super::filters::{AttemptContext, FILTERS};
use super::placement::{Division, SpreadBy};
use super::request::{Mode, Target};
use crate::bits::Bits;

/// The explanation of a decision. Empty if the algorithm did not run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Trace {
    /// Whether the pass built on the current targets. `None` if there was no pass.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// One attempt for each affinity group that was tried, in order.
    pub attempts: Vec<Attempt>,
}

/// One attempt to schedule the binding.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Attempt {
    /// The affinity group that was tried. `None` if the placement has no groups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<Box<str>>,
    /// All clusters, by name.
    pub clusters: Vec<ClusterTrace>,
    /// The attribute that clusters were grouped by: `region`, `zone`, `provider`, or the key of a
    /// label.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spread_by: Option<String>,
    /// The groups that the spread constraint chose from, best first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<GroupTrace>,
    /// Why the attempt failed, if it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// The results of an attempt for one cluster.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterTrace {
    pub name: Arc<str>,
    /// The result of each filter, in reporting order. An objection to a cluster that the workload
    /// runs on may be overruled.
    pub filters: Vec<FilterTrace>,
    pub scores: Vec<Score>,
    /// The overflow tier. 0 is the group itself.
    pub tier: u16,
    /// The number of further replicas that fit. Absent if capacity was not counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free: Option<i64>,
    /// The source of `free`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub free_from: Option<&'static str>,
    /// A description of the capacity that is reserved for other workloads. The engine does not know
    /// it: a caller that accounts for capacity sets it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub room: Option<String>,
    /// The estimate of the cluster's estimator. Absent if there was no query, or no response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimator: Option<EstimatorTrace>,
    pub selected: bool,
    /// The weight of the cluster when replicas were divided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<i64>,
    /// The positions of the entries that specify replicas for the cluster, if there are several.
    /// Only the first applies.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub entries: Vec<usize>,
    /// The minimum of `clusterBounds` for the cluster. It applies if the cluster gets any replicas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_replicas: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_replicas: Option<i64>,
    pub replicas_before: i64,
    pub replicas_after: i64,
    /// Whether another group of the placement selects the cluster, and this one does not.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub in_other_group: bool,
    /// Whether the cluster keeps its replicas of the workload and takes no more (D128). The
    /// overruled objections are the reasons.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub closed: bool,
    /// Why the cluster is not in the result, if it is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub out: Option<String>,
}

/// The response of an estimator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct EstimatorTrace {
    /// The estimated number of replicas that fit. The largest number means no limit.
    pub said: i32,
    /// The estimate minus the replicas for which capacity was reserved since.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left: Option<i32>,
}

/// The candidates of one topology domain.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupTrace {
    pub name: Box<str>,
    /// The number of candidates in the group.
    pub clusters: usize,
    /// A thousand for each replica, or each cluster, that there is capacity for, plus the mean
    /// score.
    pub weight: i64,
    pub chosen: bool,
}

/// The result of one filter for one cluster.
#[derive(Clone, Debug, Serialize)]
pub struct FilterTrace {
    pub filter: &'static str,
    /// `None` if the filter has no objection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub objection: Option<String>,
    /// The values behind the objection, if there are any: the requirement of the placement, and the
    /// value of the cluster. The objection itself is in upstream's words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Whether the objection is ignored because the workload runs there already.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub overruled: bool,
}

/// The score of a cluster from one plugin.
#[derive(Clone, Debug, Serialize)]
pub struct Score {
    pub plugin: &'static str,
    pub score: i64,
}

/// The data of an attempt, up to the step where it ended.
pub(super) struct AttemptData<'a> {
    /// The candidates before selection. Empty if no cluster was feasible.
    pub listed: &'a [Candidate],
    /// Whether capacity was counted.
    pub counted: bool,
    pub answers: Option<&'a AnswersAbout<'a>>,
    pub selected: &'a [Candidate],
    /// `None` if no groups were chosen.
    pub spread: Option<&'a SpreadGroups>,
    pub weighted: &'a [(Bits, i64)],
    pub outcome: Result<&'a [Target], &'a str>,
    /// Why a cluster is not in the result that was not listed, and that no filter objects to.
    pub unlisted: Option<&'static str>,
}

/// The choice among groups of clusters.
#[derive(Clone, Debug)]
pub(super) struct SpreadGroups {
    pub by: SpreadBy,
    /// The groups, with the indexes of their members.
    pub groups: Vec<(GroupTrace, Vec<usize>)>,
}

impl SpreadGroups {
    fn group_of(&self, index: usize) -> Option<&GroupTrace> {
        self.groups.iter().find(|(_, members)| members.contains(&index)).map(|(group, _)| group)
    }
}

impl Trace {
    /// Marks the kept targets in the attempt of the group in use.
    pub(super) fn keep(&mut self, kept: &Placed) {
        let in_use = self.attempts.iter().rposition(|attempt| attempt.group == kept.term);
        let Some(attempt) = in_use.map(|at| &mut self.attempts[at]) else { return };
        for cluster in &mut attempt.clusters {
            if let Ok(at) = kept.targets.binary_search_by(|target| target.name.cmp(&cluster.name)) {
                (cluster.replicas_after, cluster.out) = (i64::from(kept.targets[at].replicas), None);
            }
        }
    }
}

pub(super) fn attempt(context: &AttemptContext<'_>, seen: &AttemptData<'_>) -> Attempt {
    let clusters = context.fleet.indexes_by_name().map(|index| cluster(context, seen, index)).collect();
    let mut groups: Vec<GroupTrace> =
        seen.spread.map_or_else(Vec::new, |spread| spread.groups.iter().map(|(group, _)| group.clone()).collect());
    groups.sort_by(|a, b| b.weight.cmp(&a.weight).then_with(|| a.name.cmp(&b.name)));
    Attempt {
        group: context.term.map(|term| term.name.clone()),
        clusters,
        spread_by: seen.spread.map(|spread| spread.by.to_string()),
        groups,
        failure: seen.outcome.err().map(str::to_owned),
    }
}

fn detail(context: &AttemptContext<'_>, cluster: &Cluster, filter: &str) -> Option<String> {
    let resource = &context.request.resource;
    match filter {
        "ClusterAffinity" => context.affinity()?.0.mismatch(cluster),
        "APIEnablement" => Some(format!("does not serve {} {}", resource.api_version, resource.kind)),
        _ => None,
    }
}

fn cluster(context: &AttemptContext<'_>, seen: &AttemptData<'_>, index: usize) -> ClusterTrace {
    let cluster = context.fleet.cluster(index);
    let is_target = context.request.targets.iter().any(|target| target.name == cluster.name);
    let spared = is_target && context.remembers_targets();
    let filters: Vec<FilterTrace> = FILTERS
        .iter()
        .map(|filter| {
            let objection = (filter.reason)(context, cluster);
            let overruled = objection.is_some() && filter.spares_targets && spared;
            let detail = objection.as_ref().and_then(|_| detail(context, cluster, filter.name));
            FilterTrace { filter: filter.name, objection, detail, overruled }
        })
        .collect();
    let candidate = seen.listed.iter().find(|candidate| candidate.index() == index);
    let selected = seen.selected.iter().any(|candidate| candidate.index() == index);
    let after = seen.outcome.ok().and_then(|targets| targets.iter().find(|target| target.name == cluster.name));
    let weight = candidate.filter(|_| selected).and_then(|candidate| weight(context, seen, candidate));
    let limit = bounds::apply(context).then(|| bounds::limit_of(context, cluster));
    let objection = filters.iter().find(|verdict| verdict.objection.is_some() && !verdict.overruled);
    let is_selected = context.affinity().is_none_or(|(affinity, overflow)| {
        affinity.matches(cluster) || overflow.iter().any(|tier| tier.matches(cluster))
    });
    let in_other_group = !is_selected && context.term.is_some() && context.placement.can_choose(cluster);
    let out = match (objection, candidate) {
        _ if after.is_some() => None,
        _ if cluster.deleting => Some("the cluster is being deleted".to_owned()),
        (Some(verdict), _) if in_other_group && verdict.filter == "ClusterAffinity" => {
            Some("another affinity group selects it".to_owned())
        }
        (Some(verdict), _) => verdict.objection.clone(),
        (None, None) => seen.unlisted.map(str::to_owned),
        (None, Some(candidate)) if lacks_room_for_a_set(context, candidate) => {
            Some("there is no room for the whole set of components".to_owned())
        }
        (None, Some(_)) if seen.outcome.is_err() => Some("no replicas were assigned in this attempt".to_owned()),
        (None, Some(candidate)) if limit.is_some() => Some(beyond_bounds(candidate, limit)),
        // Without constraints, only a cluster without capacity is not selected.
        (None, Some(_)) if !selected && context.placement.spread.is_empty() => Some(no_weight(context).to_owned()),
        (None, Some(candidate)) if !selected => Some(not_selected(seen, candidate)),
        (None, Some(_)) if weight == Some(0) => Some(no_weight(context).to_owned()),
        (None, Some(_)) if !is_listed(context, seen, index) => Some("no entry specifies replicas for it".to_owned()),
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
        free_from: counted.filter(|candidate| !candidate.is_closed).map(|candidate| source(context, seen, candidate)),
        estimator: counted.and(seen.answers).and_then(|answers| {
            let (said, left) = (answers.said(&cluster.name)?, answers.left(&cluster.name));
            Some(EstimatorTrace { said, left })
        }),
        room: None,
        selected,
        weight,
        entries: entries(context, seen, index),
        min_replicas: limit.map(|limit| limit.min).filter(|min| *min > 0),
        max_replicas: limit.map(|limit| limit.max).filter(|max| *max < i64::MAX),
        in_other_group,
        closed: candidate.is_some_and(|candidate| candidate.is_closed),
        replicas_before: context.request.replicas_on(&cluster.name),
        replicas_after: after.map_or(0, |target| i64::from(target.replicas)),
        out,
    }
}

/// Returns the reason why a candidate got no replicas if bounds apply.
fn beyond_bounds(candidate: &Candidate, limit: Option<Limit>) -> String {
    let Limit { min, max } = limit.unwrap_or_default();
    let room = candidate.available();
    if min > max {
        return format!("clusterBounds ask for at least {min} and at most {max} replicas");
    }
    if room < min {
        return format!("clusterBounds ask for at least {min} replicas, and there is room for {room}");
    }
    "other clusters came first for every replica, within clusterBounds".to_owned()
}

/// Returns the reason why the spread constraints did not select a candidate.
fn not_selected(seen: &AttemptData<'_>, candidate: &Candidate) -> String {
    let count = seen.selected.len();
    let Some(spread) = seen.spread else {
        return format!("the spread constraints allow {count} cluster(s), and others came first");
    };
    match spread.group_of(candidate.index()) {
        None => format!("it has no {}", spread.by),
        Some(group) if !group.chosen => format!("{} {:?} was not chosen", spread.by, &*group.name),
        Some(group) => {
            format!("other clusters of {} {:?} or of another chosen group came first", spread.by, &*group.name)
        }
    }
}

/// Returns the weight of the cluster in the division.
fn weight(context: &AttemptContext<'_>, seen: &AttemptData<'_>, candidate: &Candidate) -> Option<i64> {
    let given = || {
        let applying = seen.weighted.iter().filter(|(indexes, _)| indexes.contains(candidate.index()));
        applying.map(|(_, weight)| *weight).max().unwrap_or(0)
    };
    let replicas = i64::from(context.request.replicas);
    let held: i64 = seen.selected.iter().map(|candidate| i64::from(candidate.own)).sum();
    match &context.placement.division {
        Division::Duplicated | Division::Specified(_) | Division::Together(_) | Division::Unsupported { .. } => None,
        Division::Static(None) => Some(1),
        Division::Static(Some(_)) => Some(given()),
        Division::Dynamic | Division::Aggregated if context.mode == Mode::Fresh => Some(candidate.available()),
        Division::Dynamic | Division::Aggregated if held > replicas => Some(i64::from(candidate.own)),
        Division::Dynamic | Division::Aggregated => Some(i64::from(candidate.free)),
    }
}

fn entries(context: &AttemptContext<'_>, seen: &AttemptData<'_>, index: usize) -> Vec<usize> {
    let specified = matches!(context.placement.division, Division::Specified(_));
    let entries = seen.weighted.iter().enumerate().filter(|(_, (indexes, _))| specified && indexes.contains(index));
    let entries: Vec<usize> = entries.map(|(position, _)| position).collect();
    if entries.len() > 1 { entries } else { Vec::new() }
}

/// Returns whether an entry of the user's list selects the cluster, or there is no such list.
fn is_listed(context: &AttemptContext<'_>, seen: &AttemptData<'_>, index: usize) -> bool {
    let lists = matches!(context.placement.division, Division::Specified(Some(_)) | Division::Together(_));
    !lists || seen.weighted.iter().any(|(indexes, _)| indexes.contains(index))
}

fn no_weight(context: &AttemptContext<'_>) -> &'static str {
    match &context.placement.division {
        Division::Static(_) => "no rule gives it any weight",
        _ => "there is no room for another replica",
    }
}

/// Returns the source of the free capacity of a cluster.
fn source(context: &AttemptContext<'_>, seen: &AttemptData<'_>, candidate: &Candidate) -> &'static str {
    let cluster = context.fleet.cluster(candidate.index());
    match &cluster.capacity {
        _ if seen.answers.and_then(|answers| answers.left(&cluster.name)) == Some(candidate.free) => "estimator",
        None => "no resource summary",
        Some(capacity) if capacity.pods <= 0 => "pods",
        Some(capacity) if capacity.grades.is_some() && context.request.requirements.is_some() => "resource models",
        Some(_) if context.request.requirements.is_some() => "resource summary",
        Some(_) => "pods",
    }
}
