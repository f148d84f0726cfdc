//! Suggests changes that would bring a workload to a cluster, one change at a time.
//!
//! For workloads that fit nowhere the server has already evaluated them. For other clusters the
//! server is queried with one hypothetical change: the cluster without taints, or with more
//! capacity.

use super::alike::some_of;
use super::names::WorkloadBinding;
use super::review::ask;
use super::server::{Refused, Server, escaped};
use super::why::{ClusterVerdict, ReviewedDecision, of_status, question};
use crate::cli::natural;
use ballast_api::ballast::v1alpha1::{Explain, ReviewMode, ReviewSpec, Suppose, SupposedCluster};
use ballast_api::karmada::cluster::v1alpha1::{Cluster, NOT_READY, UNREACHABLE};
use ballast_api::{Pairs, core};
use ballast_k8s::Quantity;

/// Maximum number of clusters for which changes are evaluated. Each costs a request.
const TRIED_MAX: usize = 5;
/// Maximum number of suggestions.
const HELPS_MAX: usize = 3;

/// Returns the server's suggestions for a workload that fits nowhere; else suggestions for clusters
/// with a single objection. Sends no requests.
pub fn named(fresh: &ReviewedDecision) -> Vec<String> {
    if !fresh.fits {
        return fresh.trace.help.clone();
    }
    let alone = clusters_out(fresh).filter_map(|seen| Some((seen, only_objection(seen)?)));
    let (selected, others): (Vec<_>, Vec<_>) = alone.partition(|(_, filter)| *filter == "ClusterAffinity");
    let mut sentences: Vec<String> = others.iter().map(|(seen, filter)| sentence(seen, filter)).collect();
    sentences.extend(not_selected(&selected.iter().map(|(seen, _)| *seen).collect::<Vec<_>>()));
    sentences.truncate(HELPS_MAX);
    sentences
}

/// Like `named`, with the server's decision after each change: changes that gain the most replicas
/// come first, unevaluated ones last.
pub async fn tried(server: &Server, found: &WorkloadBinding, fresh: &ReviewedDecision) -> anyhow::Result<Vec<String>> {
    if !fresh.fits {
        return Ok(named(fresh));
    }
    let (mut gains, mut others, mut unselected) = (Vec::new(), Vec::new(), Vec::new());
    let mut left = TRIED_MAX;
    for seen in clusters_out(fresh) {
        let objection = only_objection(seen);
        let supposed = match objection {
            Some("TaintToleration") if left > 0 => Some((without_taints(seen), sentence(seen, "TaintToleration"))),
            Some("ClusterAffinity") => {
                unselected.push(seen);
                None
            }
            Some(filter) => {
                others.push(sentence(seen, filter));
                None
            }
            None if left > 0 && seen.filters.iter().all(|it| it.objection.is_none()) => {
                more_room(server, found, seen).await?
            }
            None => None,
        };
        let Some((cluster, words)) = supposed else { continue };
        left -= 1;
        match replicas_with(server, found, &seen.name, cluster).await? {
            Some(replicas) if replicas > 0 => gains.push((replicas, format!("{words} (it would get {replicas})"))),
            Some(_) => gains.push((0, words)),
            None => {}
        }
    }
    gains.sort_by_key(|(replicas, _)| std::cmp::Reverse(*replicas));
    let gains = gains.into_iter().map(|(_, words)| words);
    Ok(gains.chain(others).chain(not_selected(&unselected)).take(HELPS_MAX).collect())
}

/// Returns the clusters that the workload is not placed on, except lost ones, which can only be
/// helped by their recovery.
fn clusters_out(fresh: &ReviewedDecision) -> impl Iterator<Item = &ClusterVerdict> {
    let clusters = fresh.trace.attempts.last().map_or(&[][..], |attempt| &attempt.clusters);
    let is_lost = |seen: &ClusterVerdict| {
        let objections = seen.filters.iter().filter_map(|it| it.objection.as_deref());
        let mut taints = objections.filter(|it| it.contains('{'));
        taints.any(|it| it.contains(UNREACHABLE) || it.contains(NOT_READY))
    };
    clusters.iter().filter(move |seen| seen.out.is_some() && !is_lost(seen))
}

/// Returns one sentence about all clusters that the placement does not select.
fn not_selected(clusters: &[&ClusterVerdict]) -> Option<String> {
    let mut names: Vec<&str> = clusters.iter().map(|seen| &*seen.name).collect();
    natural::by_name(&mut names, |name| name);
    match &names[..] {
        [] => None,
        [name] => Some(format!("for {name}: a placement that selects it")),
        names => Some(format!("for {}: a placement that selects them", some_of(names))),
    }
}

/// Returns the only filter that excludes the cluster.
fn only_objection(seen: &ClusterVerdict) -> Option<&str> {
    let mut objecting = seen.filters.iter().filter(|it| it.objection.is_some() && !it.overruled);
    let only = objecting.next()?;
    // Another group of the placement already selects the cluster.
    let is_there = seen.in_other_group && only.filter == "ClusterAffinity";
    (objecting.next().is_none() && !is_there).then_some(&*only.filter)
}

fn sentence(seen: &ClusterVerdict, filter: &str) -> String {
    let name = &seen.name;
    let objection = seen.filters.iter().filter(|it| it.filter == filter).find_map(|it| it.objection.as_deref());
    let objection = objection.unwrap_or_default();
    match filter {
        "TaintToleration" => {
            let taint = objection.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map(|(taint, _)| taint);
            format!("for {name}: a toleration for {}", taint.unwrap_or("its taints"))
        }
        "APIEnablement" => format!("for {name}: the API of the workload, which it does not serve"),
        "SpreadConstraint" => format!("for {name}: what the spread constraints ask of a cluster ({objection})"),
        "TolerationSeconds" => format!("for {name}: a longer toleration of its taint, or the end of the taint"),
        "ClusterEviction" => format!("for {name}: the end of its eviction from there"),
        _ => format!("for {name}: the end of what stands against it ({objection})"),
    }
}

fn without_taints(seen: &ClusterVerdict) -> SupposedCluster {
    SupposedCluster { name: seen.name.clone(), taints: Some(Vec::new()), ..SupposedCluster::default() }
}

/// Returns the cluster with capacity for all replicas of the workload. `None` if it already has
/// enough, or if the resources of a replica are unknown.
async fn more_room(
    server: &Server,
    found: &WorkloadBinding,
    seen: &ClusterVerdict,
) -> anyhow::Result<Option<(SupposedCluster, String)>> {
    let wanted = i64::from(found.binding.spec.replicas.unwrap_or_default());
    let Some(missing) = seen.free.map(|free| wanted - free).filter(|missing| *missing > 0) else { return Ok(None) };
    let Some(requirements) = &found.binding.spec.replica_requirements else { return Ok(None) };
    let path = format!("/apis/cluster.karmada.io/v1alpha1/clusters/{}", escaped(&seen.name));
    let cluster: Cluster = match server.find(&path).await {
        Ok(Some(cluster)) => cluster,
        Ok(None) => return Ok(None),
        // Without permission to read clusters their size is unknown.
        Err(error) if error.downcast_ref::<Refused>().is_some_and(|refused| refused.is(403)) => return Ok(None),
        Err(error) => return Err(error),
    };
    let summary = cluster.status.resource_summary.unwrap_or_default();
    let (mut allocatable, mut told) = (Pairs::default(), Vec::new());
    for (resource, each) in requirements.resource_request.iter() {
        let Ok(each) = each.text().parse::<Quantity>() else { return Ok(None) };
        let more = Quantity::from_millis(each.millis().saturating_mul(missing));
        let amount = |amounts: &Pairs<core::Quantity>| {
            amounts.get(resource).and_then(|it| it.text().parse::<Quantity>().ok()).unwrap_or_default()
        };
        let sum = amount(&summary.allocatable).plus(more);
        allocatable.insert(resource.clone(), core::Quantity::from(&*sum.to_string()));
        told.push(format!("{} {resource}", super::top::amount(resource, more)));
    }
    let words = format!("for {}: {} more", seen.name, told.join(" and "));
    let supposed = SupposedCluster { name: seen.name.clone(), allocatable: Some(allocatable), ..Default::default() };
    Ok(Some((supposed, words)).filter(|_| !told.is_empty()))
}

/// Returns the number of replicas on the hypothetical cluster. `None` if it would not be chosen.
async fn replicas_with(
    server: &Server,
    found: &WorkloadBinding,
    name: &str,
    cluster: SupposedCluster,
) -> anyhow::Result<Option<i64>> {
    let (namespace, spec) = question(found, ReviewMode::Fresh);
    let suppose = Some(Suppose { clusters: vec![cluster], workloads: Vec::new() });
    // A workload that would not move is only listed with `explain`.
    let spec = ReviewSpec { suppose, explain: Explain::Losers, ..spec };
    let (status, _) = ask(server, namespace.as_deref(), &spec).await?;
    let decided = of_status(&status, found);
    let share = decided.to.iter().find(|share| share.name == name);
    Ok(share.map(|share| i64::from(share.replicas)).filter(|_| decided.fits))
}

#[cfg(test)]
mod tests {
    use super::super::why::{Attempt, Filter, Trace};
    use super::*;

    fn seen(objections: &[(&str, &str)]) -> ClusterVerdict {
        let filter = |(filter, objection): &(&str, &str)| Filter {
            filter: (*filter).to_owned(),
            objection: Some((*objection).to_owned()),
            detail: None,
            overruled: false,
        };
        let filters = objections.iter().map(filter).collect();
        ClusterVerdict { name: "m1".to_owned(), filters, out: Some("out".to_owned()), ..ClusterVerdict::default() }
    }

    #[test]
    fn a_cluster_with_one_objection_has_a_sentence_and_one_with_two_has_none() {
        let taint = ("TaintToleration", "cluster(s) had untolerated taint {a=b:NoSchedule}");
        let affinity = ("ClusterAffinity", "not selected");
        let decided = |clusters: Vec<ClusterVerdict>| {
            let attempts = vec![Attempt { clusters, ..Attempt::default() }];
            ReviewedDecision { fits: true, trace: Trace { attempts, help: Vec::new() }, ..ReviewedDecision::default() }
        };
        assert_eq!(named(&decided(vec![seen(&[taint])])), ["for m1: a toleration for a=b:NoSchedule"]);
        assert_eq!(named(&decided(vec![seen(&[affinity])])), ["for m1: a placement that selects it"]);
        assert!(named(&decided(vec![seen(&[taint, affinity])])).is_empty());
        let lost = ("TaintToleration", "cluster(s) had untolerated taint {cluster.karmada.io/unreachable:NoSchedule}");
        assert!(named(&decided(vec![seen(&[lost])])).is_empty(), "no advice about a cluster that is lost");
        let told = named(&decided(vec![seen(&[affinity]); 33]));
        assert_eq!(told, ["for m1, m1, m1 and 30 more: a placement that selects them"]);
        assert_eq!(named(&decided(vec![seen(&[taint]); 33])).len(), HELPS_MAX);
    }

    #[test]
    fn for_what_fits_nowhere_the_server_has_tried_it() {
        let help = vec!["m1 would fit without taint a:NoSchedule".to_owned(), "2 more cpu on m2 would do".to_owned()];
        let message = format!("no room; cluster m3: 0 free; {}", help.join("; "));
        let trace = Trace { help: help.clone(), ..Trace::default() };
        let decided = ReviewedDecision { message, trace, ..ReviewedDecision::default() };
        assert_eq!(named(&decided), help);
    }
}
