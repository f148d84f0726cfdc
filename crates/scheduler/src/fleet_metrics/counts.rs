//! Counts for metrics: workloads by the state of their scheduling, replicas by cluster, clusters by
//! readiness, and pending evictions. Pure.
//!
//! A change of an object subtracts the counts of its old state and adds those of the new one, so
//! only a start counts everything.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;

use ballast_api::karmada::work::v1alpha2::{PartialBinding, PartialTarget};
use ballast_base::metrics::UNSCHEDULABLE_REASONS;
use ballast_k8s::{Key, Object, Revision};

/// Maximum number of clusters with a separate gauge. The replicas of all others are one sum.
pub const NAMED_CLUSTERS_MAX: usize = 1_000;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    pub scheduled: i64,
    pub unschedulable: i64,
    /// The unschedulable workloads by reason, in the order of `UNSCHEDULABLE_REASONS`, and all
    /// others.
    pub reasons: [i64; UNSCHEDULABLE_REASONS.len() + 1],
    /// Workloads with a placement that are not decided yet.
    pub waiting: i64,
    pub evictions: i64,
    pub ready_clusters: i64,
    pub unready_clusters: i64,
}

#[derive(Default)]
pub struct FleetCounts {
    pub totals: Totals,
    clusters: HashMap<Arc<str>, Load>,
    named: usize,
    /// Replicas on clusters without a separate gauge.
    others: i64,
}

struct Load {
    bindings: usize,
    replicas: i64,
    is_named: bool,
}

/// A change of the replicas on one cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplicaChange {
    Replicas(Arc<str>, i64),
    /// No binding is on the cluster any more.
    Gone(Arc<str>),
    /// The sum of the clusters without a separate gauge.
    Others(i64),
}

/// The contribution of one binding to the counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BindingCounts {
    state: Option<State>,
    /// By cluster.
    shares: Vec<(String, i64)>,
    evictions: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Scheduled,
    /// Contains the index of the reason in `Totals::reasons`.
    Unschedulable(usize),
    Waiting,
}

/// Returns the index of a reason in `Totals::reasons`.
fn reason_number(partial: &PartialBinding<'_>, is_it: impl Fn(&str) -> bool) -> usize {
    let conditions = partial.conditions();
    let reason = conditions.iter().find(|condition| is_it(&condition.type_)).map(|condition| &*condition.reason);
    let known = UNSCHEDULABLE_REASONS.iter().position(|known| Some(*known) == reason);
    known.unwrap_or(UNSCHEDULABLE_REASONS.len())
}

/// Returns whether the condition is True, or `None` if it does not exist.
fn condition(partial: &PartialBinding<'_>, is_it: impl Fn(&str) -> bool) -> Option<bool> {
    let conditions = partial.conditions();
    conditions.iter().find(|condition| is_it(&condition.type_)).map(|condition| condition.status == "True")
}

impl BindingCounts {
    /// Counts a binding. An invalid one counts nothing.
    pub fn of(binding: &Object) -> BindingCounts {
        let content = binding.text.content();
        let partial = PartialBinding::of(&content).unwrap_or_default();
        let state = match condition(&partial, |known| known == "Scheduled") {
            // A workload that keeps all of its replicas placed is not unschedulable, although the
            // last decision about it has failed.
            Some(false) if partial.is_unschedulable() => {
                Some(State::Unschedulable(reason_number(&partial, |known| known == "Scheduled")))
            }
            Some(_) => Some(State::Scheduled),
            None => partial.spec.placement().map(|_| State::Waiting),
        };
        let share = |target: PartialTarget<'_>| {
            (target.name.into_owned(), i64::from(target.replicas.unwrap_or_default().max(0)))
        };
        BindingCounts {
            state,
            shares: partial.spec.clusters().into_iter().map(share).collect(),
            evictions: partial.spec.eviction_count() as i64,
        }
    }

    /// Counts a placement of the KubeFleet family as one workload, without replicas.
    pub fn of_placement(placement: &Object) -> BindingCounts {
        // Its conditions have the same field path as those of a binding.
        let content = placement.text.content();
        let partial = PartialBinding::of(&content).unwrap_or_default();
        // The type of the condition begins with the kind.
        let is_scheduled = |kind: &str| kind.ends_with("ResourcePlacementScheduled");
        let state = match condition(&partial, is_scheduled) {
            Some(true) => State::Scheduled,
            Some(false) => State::Unschedulable(reason_number(&partial, is_scheduled)),
            None => State::Waiting,
        };
        BindingCounts { state: Some(state), ..BindingCounts::default() }
    }
}

/// Maximum number of bindings in `RecentCounts`.
const RECENT_MAX: usize = 16_384;

/// The counts of recently changed bindings. The next change of such a binding subtracts them;
/// parsing the old state again would cost as much as the change itself.
#[derive(Default)]
pub struct RecentCounts(HashMap<Key, (Revision, BindingCounts), RandomState>);

impl RecentCounts {
    /// Removes and returns the counts of this version.
    pub fn take(&mut self, binding: &Object) -> BindingCounts {
        match self.0.remove(&binding.key) {
            Some((revision, counted)) if revision == binding.revision => counted,
            _ => BindingCounts::of(binding),
        }
    }

    /// Records that this version has the same counts as the previous one.
    pub fn renew(&mut self, before: &Object, after: &Object) {
        if let Some((revision, _)) = self.0.get_mut(&after.key).filter(|(known, _)| *known == before.revision) {
            *revision = after.revision;
        }
    }

    pub fn put(&mut self, binding: &Object, counted: BindingCounts) {
        if self.0.len() >= RECENT_MAX {
            self.0.clear();
        }
        self.0.insert(binding.key.clone(), (binding.revision, counted));
    }
}

/// Returns whether the Ready condition of a cluster is true.
pub fn is_ready(cluster: &Object) -> bool {
    // Its conditions have the same field path as those of a binding.
    let content = cluster.text.content();
    let partial = PartialBinding::of(&content).unwrap_or_default();
    condition(&partial, |known| known == "Ready") == Some(true)
}

impl FleetCounts {
    /// Updates the counts after the change of a binding. `None`: it did not exist, or was deleted.
    pub fn binding(&mut self, before: Option<&BindingCounts>, after: Option<&BindingCounts>) -> Vec<ReplicaChange> {
        if before == after {
            return Vec::new();
        }
        let mut touched = Vec::new();
        for (counted, sign) in [(before, -1), (after, 1)] {
            let Some(counted) = counted else { continue };
            let totals = &mut self.totals;
            match counted.state {
                Some(State::Scheduled) => totals.scheduled += sign,
                Some(State::Unschedulable(reason)) => {
                    totals.unschedulable += sign;
                    totals.reasons[reason] += sign;
                }
                Some(State::Waiting) => totals.waiting += sign,
                None => {}
            }
            totals.evictions += sign * counted.evictions;
            for (cluster, replicas) in &counted.shares {
                self.share(cluster, sign, *replicas, &mut touched);
            }
        }
        touched.sort_unstable();
        touched.dedup();
        touched.into_iter().map(|cluster| self.told(cluster)).collect()
    }

    /// Updates the counts after the change of a cluster, with its readiness before and after.
    pub fn cluster(&mut self, before: Option<bool>, after: Option<bool>) {
        for (ready, sign) in [(before, -1), (after, 1)] {
            match ready {
                Some(true) => self.totals.ready_clusters += sign,
                Some(false) => self.totals.unready_clusters += sign,
                None => {}
            }
        }
    }

    /// Returns the replicas of all clusters, as changes from zero.
    pub fn all(&self) -> Vec<ReplicaChange> {
        let named = self.clusters.iter().filter(|(_, load)| load.is_named);
        let named = named.map(|(cluster, load)| ReplicaChange::Replicas(Arc::clone(cluster), load.replicas));
        named.chain([ReplicaChange::Others(self.others)]).collect()
    }

    fn share(&mut self, cluster: &str, sign: i64, replicas: i64, touched: &mut Vec<Arc<str>>) {
        let name = match self.clusters.get_key_value(cluster) {
            Some((name, _)) => Arc::clone(name),
            None => Arc::from(cluster),
        };
        let named = &mut self.named;
        let load = self.clusters.entry(Arc::clone(&name)).or_insert_with(|| {
            let is_named = *named < NAMED_CLUSTERS_MAX;
            *named += usize::from(is_named);
            Load { bindings: 0, replicas: 0, is_named }
        });
        load.bindings = if sign > 0 { load.bindings + 1 } else { load.bindings.saturating_sub(1) };
        load.replicas += sign * replicas;
        if !load.is_named {
            self.others += sign * replicas;
        }
        touched.push(name);
    }

    fn told(&mut self, cluster: Arc<str>) -> ReplicaChange {
        let Some(load) = self.clusters.get(&cluster) else { return ReplicaChange::Others(self.others) };
        let (is_named, replicas, is_empty) = (load.is_named, load.replicas, load.bindings == 0);
        if is_empty {
            self.clusters.remove(&cluster);
            self.named -= usize::from(is_named);
        }
        match (is_named, is_empty) {
            (true, true) => ReplicaChange::Gone(cluster),
            (true, false) => ReplicaChange::Replicas(cluster, replicas),
            (false, _) => ReplicaChange::Others(self.others),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use ballast_k8s::{GroupResource, Key, Revision};

    fn object(json: &Value) -> Object {
        let key = Key::namespaced(GroupResource::new("resourcebindings.work.karmada.io"), "shop", "web");
        Object::decode(key, Revision(1), json.to_string().into_bytes().into()).unwrap()
    }

    fn binding(scheduled: Option<&str>, clusters: &Value) -> BindingCounts {
        let conditions: Vec<Value> =
            scheduled.into_iter().map(|status| json!({"type": "Scheduled", "status": status})).collect();
        let spec = json!({"placement": {}, "clusters": clusters, "gracefulEvictionTasks": [{"fromCluster": "m9"}]});
        BindingCounts::of(&object(&json!({"metadata": {}, "spec": spec, "status": {"conditions": conditions}})))
    }

    #[test]
    fn what_a_version_counts_is_remembered_for_its_next_change_alone() {
        let key = Key::namespaced(GroupResource::new("resourcebindings.work.karmada.io"), "shop", "web");
        let text = json!({"metadata": {}, "spec": {"clusters": [{"name": "m1", "replicas": 2}]}}).to_string();
        let version = |revision| Object::decode(key.clone(), Revision(revision), text.clone().into()).unwrap();
        let (remembered, mut recent) =
            (BindingCounts { evictions: 7, ..BindingCounts::default() }, RecentCounts::default());
        recent.put(&version(1), remembered.clone());
        assert_eq!(recent.take(&version(1)), remembered);
        assert_eq!(recent.take(&version(1)), BindingCounts::of(&version(1)));
        recent.put(&version(1), remembered);
        assert_eq!(recent.take(&version(2)), BindingCounts::of(&version(2)));
    }

    #[test]
    fn what_comes_and_goes_leaves_nothing() {
        let mut counts = FleetCounts::default();
        let waiting = binding(None, &json!(null));
        let placed = binding(Some("True"), &json!([{"name": "m1", "replicas": 2}, {"name": "m2"}]));
        let moved = binding(Some("True"), &json!([{"name": "m2", "replicas": 2}]));
        let lost = binding(Some("False"), &json!([]));
        assert_eq!(counts.binding(None, Some(&waiting)), []);
        assert_eq!((counts.totals.waiting, counts.totals.evictions), (1, 1));
        let told = counts.binding(Some(&waiting), Some(&placed));
        assert_eq!(told, [ReplicaChange::Replicas("m1".into(), 2), ReplicaChange::Replicas("m2".into(), 0)]);
        assert_eq!((counts.totals.waiting, counts.totals.scheduled), (0, 1));
        let told = counts.binding(Some(&placed), Some(&moved));
        assert_eq!(told, [ReplicaChange::Gone("m1".into()), ReplicaChange::Replicas("m2".into(), 2)]);
        assert_eq!(counts.binding(Some(&moved), Some(&moved)), []);
        assert_eq!(counts.binding(Some(&moved), Some(&lost)), [ReplicaChange::Gone("m2".into())]);
        assert_eq!(counts.totals.unschedulable, 1);
        counts.binding(Some(&lost), None);
        counts.cluster(None, Some(true));
        counts.cluster(Some(true), Some(false));
        assert_eq!((counts.totals.ready_clusters, counts.totals.unready_clusters), (0, 1));
        counts.cluster(Some(false), None);
        assert_eq!(counts.totals, Totals::default());
        assert!(counts.clusters.is_empty() && counts.named == 0);
    }

    #[test]
    fn clusters_beyond_the_bound_are_one_sum() {
        let mut counts = FleetCounts::default();
        let on =
            |cluster: usize| BindingCounts { shares: vec![(format!("m{cluster}"), 3)], ..BindingCounts::default() };
        for cluster in 0..NAMED_CLUSTERS_MAX {
            counts.binding(None, Some(&on(cluster)));
        }
        assert_eq!(counts.binding(None, Some(&on(NAMED_CLUSTERS_MAX))), [ReplicaChange::Others(3)]);
        assert_eq!(counts.binding(Some(&on(NAMED_CLUSTERS_MAX)), None), [ReplicaChange::Others(0)]);
        assert_eq!(counts.all().len(), NAMED_CLUSTERS_MAX + 1);
        assert_eq!(counts.binding(Some(&on(0)), None), [ReplicaChange::Gone("m0".into())]);
        assert_eq!(
            counts.binding(None, Some(&on(5_000))),
            [ReplicaChange::Replicas("m5000".into(), 3)],
            "a name is free again"
        );
    }

    #[test]
    fn what_cannot_be_read_counts_nothing() {
        assert_eq!(
            BindingCounts::of(&object(&json!({"metadata": {}, "spec": {"clusters": 7}}))),
            BindingCounts::default()
        );
        assert!(!is_ready(&object(&json!({"metadata": {}, "status": {"conditions": null}}))));
        let ready = json!({"metadata": {}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        assert!(is_ready(&object(&ready)));
    }
}
