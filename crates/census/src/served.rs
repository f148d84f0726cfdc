//! The desired replicas of one binding, and the reports of its clusters.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use ballast_api::core::Toleration;
use ballast_api::karmada::work::v1alpha2::{PartialBinding, PartialReport};
use ballast_k8s::{Object, Time};

/// The replica data of one version of a binding.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Served {
    /// The desired number of replicas, over all clusters.
    pub wanted: i64,
    targets: Box<[Target]>,
    /// Clusters that the workload is evicted from, with the replicas that they still report as
    /// ready.
    leaving: Box<[(Arc<str>, i64)]>,
    /// The start of the oldest eviction.
    pub leaving_since: Option<Time>,
    tolerations: Box<[Toleration]>,
    /// Whether taints evict the workload. They evict nothing while scheduling is suspended.
    evictable: bool,
    /// Whether the scheduler found no placement for some of its replicas.
    pub is_unschedulable: bool,
}

/// The most reports that are searched linearly for each cluster.
const LOOKED_AT_MAX: usize = 32;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Target {
    cluster: Arc<str>,
    assigned: i64,
    ready: i64,
}

/// The replicas of a binding on one cluster. The sum of `ready` and `missing` is the desired number
/// there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedShare {
    pub cluster: Arc<str>,
    pub ready: i64,
    pub missing: i64,
    /// Ready replicas that an eviction keeps until their replacement is ready.
    pub leaving: i64,
    /// Replicas that are assigned to the cluster, but are still served by other clusters.
    pub arriving: i64,
}

/// The replicas of a binding by cluster, and the desired ones without a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServedShares {
    pub by_cluster: Vec<ServedShare>,
    pub unplaced: i64,
}

impl Served {
    /// Parses a binding. A malformed one has no desired replicas. `names` interns the cluster
    /// names.
    pub fn of(object: &Object, names: &mut HashSet<Arc<str>>) -> Served {
        let content = object.text.content();
        let Ok(binding) = PartialBinding::of(&content) else { return Served::default() };
        let spec = &binding.spec;
        let clusters = spec.clusters();
        let replicas = i64::from(spec.replicas().max(0));
        let evicted_from = spec.evicted_from();
        let reports = if replicas > 0 { binding.reports() } else { Vec::new() };
        // A linear search is fastest for a few reports, but a client may write tens of thousands.
        let by_cluster: HashMap<&str, &PartialReport<'_>> = match reports.len() > LOOKED_AT_MAX {
            true => reports.iter().rev().map(|report| (&*report.cluster_name, report)).collect(),
            false => HashMap::new(),
        };
        let report_of = |cluster: &str| match by_cluster.is_empty() {
            true => reports.iter().find(|report| report.cluster_name == cluster),
            false => by_cluster.get(cluster).copied(),
        };
        let placed: HashSet<&str> = match evicted_from.is_empty() {
            true => HashSet::new(),
            false => clusters.iter().map(|target| &*target.name).collect(),
        };
        let ready = |cluster: &str, assigned: i64| report_of(cluster).map_or(0, |report| ready(report, assigned));
        let wanted = binding.wanted_replicas();
        let targets = clusters.iter().map(|target| {
            let assigned = i64::from(target.replicas.unwrap_or_default().max(0));
            Target { cluster: one_copy(names, &target.name), assigned, ready: ready(&target.name, assigned) }
        });
        let targets = targets.collect();
        let left = evicted_from.iter().filter(|name| !placed.contains(&***name));
        let leaving = left.map(|name| (one_copy(names, name), ready(name, wanted))).collect();
        let leaving_since = if evicted_from.is_empty() { None } else { spec.evicted_since() };
        let evictable = !spec.is_suspended() && !binding.is_elsewhere(&object.key);
        let tolerations = spec.tolerations().into();
        let is_unschedulable = binding.is_unschedulable();
        Served { wanted, targets, leaving, leaving_since, tolerations, evictable, is_unschedulable }
    }

    /// Returns the clusters that the binding is assigned to.
    pub fn clusters(&self) -> impl Iterator<Item = &Arc<str>> {
        self.targets.iter().map(|target| &target.cluster)
    }

    pub fn is_leaving(&self) -> bool {
        !self.leaving.is_empty()
    }

    /// Returns the tolerations of a binding that taints may evict. `None` if nothing evicts it.
    pub fn evictable(&self) -> Option<&[Toleration]> {
        self.evictable.then_some(&self.tolerations)
    }

    /// Divides the desired replicas into ready and missing ones, by cluster.
    ///
    /// A replica that a cluster still serves during an eviction is ready there. It is not missing
    /// on the new cluster, because it is not down. Surplus replicas, as in the middle of a move,
    /// are not counted.
    pub fn shares(&self, is_reachable: impl Fn(&str) -> bool) -> ServedShares {
        let mut rest = self.wanted;
        let mut take = |offered: i64| {
            let taken = offered.clamp(0, rest);
            rest -= taken;
            taken
        };
        let share = |cluster: &Arc<str>, ready| {
            let cluster = Arc::clone(cluster);
            ServedShare { cluster, ready, missing: 0, leaving: 0, arriving: 0 }
        };
        let mut by_cluster: Vec<ServedShare> = Vec::with_capacity(self.targets.len() + self.leaving.len());
        for target in &self.targets {
            let offered = if is_reachable(&target.cluster) { target.ready.min(target.assigned) } else { 0 };
            by_cluster.push(share(&target.cluster, take(offered)));
        }
        for (cluster, ready) in &self.leaving {
            let offered = if is_reachable(cluster) { *ready } else { 0 };
            let leaving = take(offered);
            by_cluster.push(ServedShare { leaving, ..share(cluster, leaving) });
        }
        // Missing replicas count first in lost clusters: their replacements elsewhere are arriving.
        for lost in [true, false] {
            for (target, share) in self.targets.iter().zip(&mut by_cluster) {
                if is_reachable(&target.cluster) != lost {
                    let absent = (target.assigned - share.ready).max(0);
                    share.missing = absent.min(rest);
                    share.arriving = absent - share.missing;
                    rest -= share.missing;
                }
            }
        }
        ServedShares { by_cluster, unplaced: rest }
    }
}

/// Returns the number of ready replicas in a report. Kubernetes omits `readyReplicas: 0`. For a
/// report without numbers, the health of the object decides.
fn ready(report: &PartialReport<'_>, assigned: i64) -> i64 {
    match report.ready_replicas() {
        Some(ready) => i64::from(ready),
        None if !report.counts_replicas() && report.is_well() => assigned,
        None => 0,
    }
}

fn one_copy(names: &mut HashSet<Arc<str>>, name: &str) -> Arc<str> {
    if let Some(known) = names.get(name) {
        return Arc::clone(known);
    }
    let name: Arc<str> = name.into();
    names.insert(Arc::clone(&name));
    name
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use ballast_k8s::{GroupResource, Key, Revision};

    fn served(spec: Value, reports: Value) -> Served {
        let key = Key::namespaced(GroupResource::new("resourcebindings.work.karmada.io"), "shop", "web");
        let tree = json!({"metadata": {}, "spec": spec, "status": {"aggregatedStatus": reports}});
        Served::of(&Object::decode(key, Revision(1), tree.to_string().into()).unwrap(), &mut HashSet::new())
    }

    fn report(cluster: &str, ready: Option<i64>) -> Value {
        let mut status = json!({"replicas": 9});
        if let Some(ready) = ready {
            status["readyReplicas"] = ready.into();
        }
        json!({"clusterName": cluster, "applied": true, "status": status})
    }

    /// Returns ready and missing replicas by cluster, and the unplaced replicas.
    fn shares(served: &Served, lost: &[&str]) -> (Vec<(String, i64, i64)>, i64) {
        let ServedShares { by_cluster, unplaced } = served.shares(|name| !lost.contains(&name));
        let sum: i64 = by_cluster.iter().map(|share| share.ready + share.missing).sum();
        assert_eq!(sum + unplaced, served.wanted, "all of it adds up");
        (by_cluster.iter().map(|share| (share.cluster.to_string(), share.ready, share.missing)).collect(), unplaced)
    }

    fn on(shares: &[(&str, i64, i64)], unplaced: i64) -> (Vec<(String, i64, i64)>, i64) {
        (shares.iter().map(|(name, ready, missing)| ((*name).to_owned(), *ready, *missing)).collect(), unplaced)
    }

    fn divided(replicas: i64, clusters: &[(&str, i64)]) -> Value {
        let clusters: Vec<Value> =
            clusters.iter().map(|(name, count)| json!({"name": name, "replicas": count})).collect();
        json!({"replicas": replicas, "clusters": clusters,
            "placement": {"replicaScheduling": {"replicaSchedulingType": "Divided"}}})
    }

    #[test]
    fn ng1_replicas_of_a_lost_cluster_are_missing_although_its_last_report_calls_them_ready() {
        let web = served(divided(6, &[("a", 4), ("b", 2)]), json!([report("a", Some(4)), report("b", Some(1))]));
        assert_eq!(shares(&web, &[]), on(&[("a", 4, 0), ("b", 1, 1)], 0));
        assert_eq!(shares(&web, &["a"]), on(&[("a", 0, 4), ("b", 1, 1)], 0));
    }

    #[test]
    fn ng1_what_a_cluster_still_serves_while_the_workload_leaves_it_is_not_down() {
        let mut spec = divided(4, &[("b", 4)]);
        spec["gracefulEvictionTasks"] = json!([{"fromCluster": "a"}]);
        let web = served(spec.clone(), json!([report("a", Some(4)), report("b", Some(1))]));
        assert_eq!(shares(&web, &[]), on(&[("b", 1, 0), ("a", 3, 0)], 0));
        assert_eq!(shares(&web, &["a"]), on(&[("b", 1, 3), ("a", 0, 0)], 0));
        // The scheduler found no other cluster.
        spec["clusters"] = json!([]);
        let web = served(spec, json!([report("a", Some(3))]));
        assert_eq!(shares(&web, &[]), on(&[("a", 3, 0)], 1));
        assert_eq!(shares(&web, &["a"]), on(&[("a", 0, 0)], 4));
    }

    #[test]
    fn ng1_a_move_that_adds_before_it_removes_wants_no_more_than_before() {
        let web = served(divided(4, &[("a", 4), ("b", 2)]), json!([report("a", Some(4)), report("b", None)]));
        assert_eq!(shares(&web, &[]), on(&[("a", 4, 0), ("b", 0, 0)], 0));
        let web = served(divided(4, &[("a", 4), ("b", 4)]), json!([report("a", Some(3)), report("b", None)]));
        assert_eq!(shares(&web, &[]), on(&[("a", 3, 1), ("b", 0, 0)], 0));
        assert_eq!(shares(&web, &["a"]), on(&[("a", 0, 4), ("b", 0, 0)], 0));
    }

    #[test]
    fn ng1_a_workload_that_is_not_divided_wants_its_replicas_on_each_cluster() {
        let spec = json!({"replicas": 2, "clusters": [{"name": "a", "replicas": 2}, {"name": "b", "replicas": 2}],
            "placement": {}});
        let web = served(spec, json!([report("a", Some(2))]));
        assert_eq!((web.wanted, shares(&web, &[])), (4, on(&[("a", 2, 0), ("b", 0, 2)], 0)));
        let nowhere = served(json!({"replicas": 2, "placement": {}}), json!([]));
        assert_eq!((nowhere.wanted, shares(&nowhere, &[])), (2, on(&[], 2)));
    }

    #[test]
    fn an_evicted_copy_stays_wanted_until_the_workload_is_back() {
        let two = json!([{"name": "a", "replicas": 2}, {"name": "b", "replicas": 2}]);
        let served = |spec: Value, home: Option<&Value>| {
            let key = Key::namespaced(GroupResource::new("resourcebindings.work.karmada.io"), "shop", "web");
            let home = home.map(|targets| json!({"targets": targets}).to_string());
            let annotations = home.map_or_else(|| json!({}), |home| json!({"ballast.dev/home": home}));
            let tree = json!({"metadata": {"annotations": annotations}, "spec": spec,
                "status": {"aggregatedStatus": [report("a", Some(2)), report("b", Some(2))]}});
            Served::of(&Object::decode(key, Revision(1), tree.to_string().into()).unwrap(), &mut HashSet::new())
        };
        let on = |clusters: Value| json!({"replicas": 2, "clusters": clusters, "placement": {}});
        let whole = served(on(two.clone()), None);
        let rest = served(on(json!([{"name": "b", "replicas": 2}])), Some(&two));
        assert_eq!((whole.wanted, rest.wanted), (4, 4));
        assert_eq!(shares(&rest, &["a"]), (vec![("b".to_owned(), 2, 0)], 2), "one copy has no cluster");
        // A divided workload needs its replicas, regardless of its former clusters.
        let divided = served(divided(2, &[("b", 2)]), Some(&two));
        assert_eq!(divided.wanted, 2);
    }

    #[test]
    fn leaving_replicas_are_ready_and_those_in_whose_stead_they_serve_arrive() {
        let mut spec = divided(4, &[("b", 4)]);
        spec["gracefulEvictionTasks"] = json!([{"fromCluster": "a"}]);
        let web = served(spec, json!([report("a", Some(4)), report("b", Some(1))]));
        let counts = |lost: &[&str]| {
            let shares = web.shares(|name| !lost.contains(&name)).by_cluster;
            shares.iter().map(|it| (it.ready, it.missing, it.leaving, it.arriving)).collect::<Vec<_>>()
        };
        assert_eq!(counts(&[]), [(1, 0, 0, 3), (3, 0, 3, 0)]);
        assert_eq!(counts(&["a"]), [(1, 3, 0, 0), (0, 0, 0, 0)], "a lost cluster serves nothing");
    }

    #[test]
    fn ng1_a_report_without_numbers_tells_by_its_health_and_nonsense_counts_nothing() {
        let bare = |health: &str| json!([{"clusterName": "a", "applied": true, "health": health}]);
        let ready = |reports: Value| served(divided(3, &[("a", 3)]), reports).shares(|_| true).by_cluster[0].ready;
        assert_eq!([ready(bare("Healthy")), ready(bare("Unhealthy")), ready(json!([]))], [3, 0, 0]);
        let odd = |ready: Value| json!([{"clusterName": "a", "applied": true, "status": {"readyReplicas": ready}}]);
        assert_eq!([ready(odd(json!(-7))), ready(odd(json!(9_999_999_999_i64))), ready(odd(json!(7)))], [0, 0, 3]);
        // A ConfigMap has no replicas, so none are missing.
        let plain = served(json!({"clusters": [{"name": "a"}]}), bare("Unhealthy"));
        assert_eq!((plain.wanted, plain.shares(|_| false).unplaced), (0, 0));
    }
}
