//! The capacity that one binding holds on each cluster: reported replicas, and reserved replicas,
//! which are assigned and not reported yet (RM1). Replicas that are being evicted count like
//! assigned ones. Pure.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Weak};

use super::super::convert;
use super::followed::Followed;
use ballast_api::karmada::work::v1alpha2::{
    ARRIVALS, ArrivalNotes, Component, PartialBinding, PartialReport, ReplicaRequirements,
};
use ballast_engine::karmada::{Amounts, Needs};
use ballast_k8s::{Object, Time, Walk};

/// The copies of a binding on one cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holding {
    pub cluster: Arc<str>,
    /// Copies that exist according to the cluster's report.
    pub reported: i64,
    /// Copies that are assigned and not reported.
    pub promised: i64,
    /// The expiry of the reservation in seconds. [`FIRM`]: it lasts until a report shows the
    /// copies.
    pub until: i64,
    /// The pods on the cluster when the reported copies arrived. `None`: there were none, or the
    /// number is unknown.
    pub beside: Option<Beside>,
}

/// The pods without a binding that were on a cluster when copies arrived there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beside {
    pub pods: i64,
    /// The time in seconds until which the number is valid; a newer summary has arrived by then.
    pub until: i64,
}

/// The expiry of a reservation that only a report ends.
pub const FIRM: i64 = i64::MAX;

/// The capacity that a binding holds.
#[derive(Clone, Debug)]
pub struct Holdings {
    pub workload: WorkloadName,
    pub size: Arc<CopySize>,
    /// On followed clusters.
    pub on: Box<[Holding]>,
    /// The hashes of other clusters that the binding names.
    pub others: Box<[u64]>,
}

impl Holdings {
    /// Returns whether two versions of a binding have the same accounts. Holdings with foreign pods
    /// differ, because their accounts contain the version.
    pub fn are_alike(one: Option<&Holdings>, other: Option<&Holdings>) -> bool {
        let (Some(one), Some(other)) = (one, other) else { return one.is_none() && other.is_none() };
        Arc::ptr_eq(&one.size, &other.size)
            && (&one.workload, &one.on, &one.others) == (&other.workload, &other.on, &other.others)
            && one.on.iter().all(|holding| holding.beside.is_none())
    }
}

/// The name of a binding's workload. Nearly all bindings are named after their workloads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WorkloadName {
    /// This many bytes at the beginning of the binding's name.
    Prefix(usize),
    Other(Arc<str>),
}

impl WorkloadName {
    fn of(workload: &str, binding: &str) -> WorkloadName {
        match binding.starts_with(workload) && !workload.is_empty() {
            true => WorkloadName::Prefix(workload.len()),
            false => WorkloadName::Other(workload.into()),
        }
    }

    /// Returns the name of the workload of the given binding.
    pub fn shown<'a>(&'a self, binding: &'a str) -> &'a str {
        match self {
            WorkloadName::Prefix(length) => binding.get(..*length).unwrap_or(binding),
            WorkloadName::Other(name) if name.is_empty() => binding,
            WorkloadName::Other(name) => name,
        }
    }
}

/// The resources of a copy, in both representations.
#[derive(Debug)]
pub struct CopySize {
    pub needs: Needs,
    pub amounts: Amounts,
}

/// The sizes in use. Bindings with equal requests share one.
#[derive(Default)]
pub struct Sizes {
    /// By the texts that they are parsed from.
    known: HashMap<Box<str>, Weak<CopySize>>,
    /// The number of sizes after the last sweep.
    swept: usize,
}

/// Below this number of sizes, no sweep is made.
const SWEEP_MIN: usize = 1_024;

impl Sizes {
    fn of(&mut self, partial: &PartialBinding<'_>) -> Option<Arc<CopySize>> {
        let spec = &partial.spec;
        let components = spec.components().filter(|_| spec.component_count() > 0);
        if spec.replicas() <= 0 && !spec.has_requirements() && components.is_none() {
            return None;
        }
        let is_divisible = (spec.replicas() > 0 || spec.has_requirements()) && spec.component_count() <= 1;
        let text: Cow<'_, str> = match (is_divisible, spec.requirements(), components) {
            (true, Some(requirements), _) => requirements.into(),
            (true, None, _) => "".into(),
            (false, _, components) => components.unwrap_or_default().into(),
        };
        if let Some(known) = self.known.get(&*text).and_then(Weak::upgrade) {
            return Some(known);
        }
        let needs = match is_divisible {
            true => {
                let requirements = spec.requirements().and_then(|text| serde_json::from_str(text).ok());
                Needs::Replica(requirements.map(|read: ReplicaRequirements| convert::karmada::requirements(&read)))
            }
            false => {
                let read: Vec<Component> = serde_json::from_str(&text).unwrap_or_default();
                Needs::Set(read.iter().map(convert::karmada::component).collect())
            }
        };
        let size = Arc::new(CopySize { amounts: needs.amounts(), needs });
        if self.known.len() >= self.swept.saturating_mul(2).max(SWEEP_MIN) {
            self.known.retain(|_, size| size.strong_count() > 0);
            self.swept = self.known.len();
        }
        self.known.insert(text.into(), Arc::downgrade(&size));
        Some(size)
    }

    /// Returns the holdings of the binding, or `None` if it has none. `ttl` is the number of
    /// seconds for which a placement is reserved if no number of replicas is reported.
    ///
    /// The time of the placement is taken from the binding's `ArrivalNotes`, or else from
    /// `status.lastScheduledTime`, which the commit of a placement writes. A binding without either
    /// counts from its creation.
    pub fn holdings(&mut self, object: &Object, ttl: i64, followed: &Followed) -> Option<Holdings> {
        let content = object.text.content();
        let partial = PartialBinding::of(&content).ok()?;
        let (targets, reports) = (partial.spec.clusters(), partial.reports());
        let left = partial.spec.leaving();
        if targets.is_empty() && reports.is_empty() && left.is_empty() {
            return None;
        }
        let workload = match partial.workload(&object.key) {
            Some(workload) => WorkloadName::of(&workload.name, &object.key.name),
            None if partial.is_elsewhere(&object.key) => return None,
            None => WorkloadName::of("", &object.key.name),
        };
        let size = self.of(&partial)?;
        let (placed, arrivals) = (partial.placed_at(), arrivals(&content));
        let until = |at: Option<Time>| at.map_or(i64::MIN, |at| at.seconds().saturating_add(ttl).min(FIRM - 1));
        let (mut on, mut others) = (HoldingsByCluster::default(), Vec::new());
        // Replicas being evicted hold their capacity until they are gone, because the eviction may
        // be withdrawn.
        let targeted: HashSet<&str> = match left.is_empty() {
            true => HashSet::new(),
            false => targets.iter().map(|target| &*target.name).collect(),
        };
        let left = left.iter().filter(|left| !targeted.contains(&*left.name)).map(|left| (left, 0));
        for (target, least) in targets.iter().map(|target| (target, 1)).chain(left) {
            if !followed.has(&target.name) {
                others.push(followed.hash_of(&target.name));
                continue;
            }
            // A binding that is being deleted adds no replicas.
            let assigned = match size.needs {
                _ if object.deleting => 0,
                Needs::Replica(_) => i64::from(target.replicas.unwrap_or_default().max(0)),
                Needs::Set(_) => i64::from(target.replicas.unwrap_or(1).max(least)),
            };
            match on.find(&target.name) {
                Some(known) => known.promised = known.promised.saturating_add(assigned),
                None => {
                    let arrival = arrivals.on(&target.name);
                    let until = until(arrival.at.or(placed));
                    let beside = (arrival.foreign > 0).then_some(Beside { pods: arrival.foreign, until });
                    on.push(Holding {
                        cluster: (&*target.name).into(),
                        reported: 0,
                        promised: assigned,
                        until,
                        beside,
                    });
                }
            }
        }
        for report in &reports {
            if !followed.has(&report.cluster_name) {
                others.push(followed.hash_of(&report.cluster_name));
                continue;
            }
            let known = on.find(&report.cluster_name);
            match (number(&size.needs, report), known) {
                (Some(number), Some(known)) => {
                    known.promised = known.promised.saturating_sub(number).max(0);
                    (known.reported, known.until) = (known.reported.max(number), FIRM);
                }
                (Some(number), None) if number > 0 => {
                    let cluster = (&*report.cluster_name).into();
                    on.push(Holding { cluster, reported: number, promised: 0, until: FIRM, beside: None });
                }
                (None, Some(known)) if report.has_arrived() => known.promised = 0,
                _ => {}
            }
        }
        let mut on = on.list;
        on.retain(|holding| holding.reported > 0 || holding.promised > 0);
        let holds = !on.is_empty() || !others.is_empty();
        holds.then(|| Holdings { workload, size, on: on.into(), others: others.into() })
    }
}

/// The holdings of a binding by cluster name. Nearly all bindings are on few clusters, for which a
/// linear search is fastest. A client may write a binding with tens of thousands.
#[derive(Default)]
struct HoldingsByCluster {
    list: Vec<Holding>,
    /// Empty up to `LOOKED_AT_MAX`.
    places: HashMap<Arc<str>, usize>,
}

const LOOKED_AT_MAX: usize = 32;

impl HoldingsByCluster {
    fn find(&mut self, cluster: &str) -> Option<&mut Holding> {
        match self.places.is_empty() {
            true => self.list.iter_mut().find(|known| *known.cluster == *cluster),
            false => self.places.get(cluster).map(|place| &mut self.list[*place]),
        }
    }

    fn push(&mut self, holding: Holding) {
        self.list.push(holding);
        if self.list.len() > LOOKED_AT_MAX {
            let unknown = self.list.iter().enumerate().skip(self.places.len());
            self.places.extend(unknown.map(|(place, holding)| (Arc::clone(&holding.cluster), place)));
        }
    }
}

/// Parses the arrival annotation in the text of a binding. Its other annotations are skipped.
fn arrivals(content: &[u8]) -> ArrivalNotes {
    let noted = Walk::find(content, &["metadata", "annotations", ARRIVALS]);
    let text = noted.and_then(|noted| serde_json::from_str::<String>(noted).ok());
    text.map(|text| ArrivalNotes::read(&text)).unwrap_or_default()
}

/// Returns the number of copies in a report, or `None` for a set of several templates.
fn number(needs: &Needs, report: &PartialReport<'_>) -> Option<i64> {
    match needs {
        Needs::Replica(_) => report.replicas().map(i64::from),
        Needs::Set(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use ballast_k8s::{GroupResource, Key, Revision};

    const PLACED: i64 = 1_704_067_200;

    fn held(change: &Value) -> Vec<(String, i64, i64, i64)> {
        let mut binding = json!({
            "metadata": {"name": "web", "namespace": "shop", "creationTimestamp": "2023-01-01T00:00:00Z"},
            "spec": {
                "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web"},
                "replicas": 6, "replicaRequirements": {"resourceRequest": {"cpu": "1"}},
                "clusters": [{"name": "m1", "replicas": 4}, {"name": "m2", "replicas": 2}],
            },
            "status": {"lastScheduledTime": "2024-01-01T00:00:00Z"},
        });
        json_patch(&mut binding, change);
        let key = Key::namespaced(GroupResource::new("resourcebindings.work.karmada.io"), "shop", "web");
        let object = Object::decode(key, Revision(1), binding.to_string().into_bytes().into()).unwrap();
        let holdings = Sizes::default().holdings(&object, 300, &Followed::default());
        let told = |on: &Holding| {
            let until = if on.until == FIRM { -1 } else { on.until.saturating_sub(PLACED) };
            (on.cluster.to_string(), on.reported, on.promised, until)
        };
        holdings.map(|held| held.on.iter().map(told).collect()).unwrap_or_default()
    }

    fn json_patch(to: &mut Value, change: &Value) {
        match (to, change) {
            (Value::Object(to), Value::Object(change)) => {
                for (name, value) in change {
                    json_patch(to.entry(name.clone()).or_insert(Value::Null), value);
                }
            }
            (to, change) => *to = change.clone(),
        }
    }

    fn on(cluster: &str, reported: i64, promised: i64, until: i64) -> (String, i64, i64, i64) {
        (cluster.to_owned(), reported, promised, until)
    }

    #[test]
    fn rm3_without_a_report_the_placement_is_promised_for_the_time_to_live() {
        assert_eq!(held(&json!({})), [on("m1", 0, 4, 300), on("m2", 0, 2, 300)]);
        let never = json!({"status": {"lastScheduledTime": null}, "metadata": {"creationTimestamp": null}});
        assert!(held(&never).iter().all(|held| held.3 < 0), "without a time it was placed long ago");
    }

    #[test]
    fn rm3_a_promise_counts_from_the_write_that_placed_it() {
        let arrivals = |text: &str| held(&json!({"metadata": {"annotations": {"ballast.dev/arrivals": text}}}));
        let earlier = arrivals(r#"{"m1": {"at": "2023-12-31T23:59:00Z"}, "m2": {"foreign": 3}}"#);
        assert_eq!(earlier, [on("m1", 0, 4, 240), on("m2", 0, 2, 300)]);
        assert_eq!(arrivals("soon"), [on("m1", 0, 4, 300), on("m2", 0, 2, 300)]);
    }

    #[test]
    fn rm3_a_report_with_a_number_releases_exactly_that() {
        let reports = json!({"status": {"aggregatedStatus": [
            {"clusterName": "m1", "status": {"replicas": 3, "readyReplicas": 1}},
            {"clusterName": "m2", "status": {"readyReplicas": 2}},
            {"clusterName": "m9", "status": {"replicas": 5}},
        ]}});
        assert_eq!(held(&reports), [on("m1", 3, 1, -1), on("m2", 2, 0, -1), on("m9", 5, 0, -1)]);
    }

    /// An algorithm with quadratic time would take minutes.
    #[test]
    fn li11_a_binding_on_very_many_clusters_is_read_in_a_time_that_grows_with_its_size() {
        let names = |number: usize| format!("m{number}");
        let targets = |count: usize| (0..count).map(|number| json!({"name": names(number % 40_000), "replicas": 1}));
        let reports: Vec<Value> =
            (0..40_000).map(|number| json!({"clusterName": names(number), "status": {"replicas": 1}})).collect();
        let change = json!({
            "spec": {"clusters": targets(80_000).collect::<Vec<Value>>()}, "status": {"aggregatedStatus": reports},
        });
        let held = held(&change);
        assert_eq!(held.len(), 40_000);
        assert_eq!(held[39_999], on("m39999", 1, 1, -1), "it is named twice, and once reported");
    }

    #[test]
    fn rm3_where_no_number_is_reported_applied_or_healthy_ends_the_promise() {
        let reports = |one: Value, other: Value| {
            let (mut one, mut other) = (one, other);
            one["clusterName"] = json!("m1");
            other["clusterName"] = json!("m2");
            held(&json!({"status": {"aggregatedStatus": [one, other]}}))
        };
        assert_eq!(reports(json!({"applied": true}), json!({"health": "Healthy"})), []);
        let late = reports(json!({"applied": false}), json!({"health": "Unhealthy"}));
        assert_eq!(late, [on("m1", 0, 4, 300), on("m2", 0, 2, 300)]);
    }

    #[test]
    fn rm8_numbers_that_make_no_sense_are_no_numbers() {
        for number in [json!(-1), json!(1.5), json!("4"), json!(null), json!({}), json!(i64::MAX)] {
            let reports =
                json!({"status": {"aggregatedStatus": [{"clusterName": "m1", "status": {"replicas": number}}]}});
            assert_eq!(held(&reports)[0], on("m1", 0, 4, 300), "{number}");
        }
        // Such a report shows nothing, although it is applied and healthy.
        for (replicas, ready) in
            [(json!(-5), json!(-5)), (json!(-5), json!(3)), (json!(1e300), json!(null)), (json!(null), json!(-1))]
        {
            let reports = json!({"status": {"aggregatedStatus": [{"clusterName": "m1", "applied": true,
                "health": "Healthy", "status": {"replicas": replicas, "readyReplicas": ready}}]}});
            assert_eq!(held(&reports)[0], on("m1", 0, 4, 300), "{replicas} {ready}");
        }
        let more = json!({"status": {"aggregatedStatus": [{"clusterName": "m1", "status": {"replicas": 40}}]}});
        assert_eq!(held(&more)[0], on("m1", 40, 0, -1), "what is there takes room, whoever wanted it");
    }

    #[test]
    fn rm1_a_binding_that_goes_and_one_without_pods_hold_no_promise() {
        assert_eq!(held(&json!({"metadata": {"deletionTimestamp": "2024-01-01T00:00:00Z"}})), []);
        assert_eq!(held(&json!({"spec": {"replicas": 0, "replicaRequirements": null}})), []);
        let elsewhere = json!({"spec": {"resource": {"namespace": "other"}}});
        assert_eq!(held(&elsewhere), []);
    }

    #[test]
    fn rm1_what_is_being_evicted_holds_its_room_like_a_target() {
        let leaving = |reports: Value| {
            held(&json!({"spec": {
                "clusters": [{"name": "m1", "replicas": 4}],
                "gracefulEvictionTasks": [{"fromCluster": "m2", "replicas": 2}, {"fromCluster": "m1", "replicas": 9}],
            }, "status": {"aggregatedStatus": reports}}))
        };
        assert_eq!(leaving(json!([])), [on("m1", 0, 4, 300), on("m2", 0, 2, 300)]);
        let one = json!([{"clusterName": "m2", "status": {"replicas": 1}}]);
        assert_eq!(
            leaving(one),
            [on("m1", 0, 4, 300), on("m2", 1, 1, -1)],
            "the other may come as long as it is there"
        );
        let applied = json!([{"clusterName": "m2", "applied": true}]);
        assert_eq!(leaving(applied), [on("m1", 0, 4, 300)], "the summary has it");
    }

    #[test]
    fn rm6_a_workload_is_told_by_its_name() {
        let shown = |workload: &str, binding: &str| WorkloadName::of(workload, binding).shown(binding).to_owned();
        assert_eq!(shown("web", "web-deployment"), "web");
        assert_eq!(shown("web", "of-another-name"), "web");
        assert_eq!(shown("", "web-deployment"), "web-deployment");
    }

    #[test]
    fn rm1_a_set_of_components_is_one_copy_on_each_target() {
        let set = json!({"spec": {"replicas": 0, "replicaRequirements": null, "components": [
            {"name": "job", "replicas": 1, "replicaRequirements": {"resourceRequest": {"cpu": "1"}}},
            {"name": "task", "replicas": 3, "replicaRequirements": {"resourceRequest": {"cpu": "1"}}},
        ], "clusters": [{"name": "m1"}],
            "gracefulEvictionTasks": [{"fromCluster": "m2"}, {"fromCluster": "m3", "replicas": 0}]}});
        assert_eq!(held(&set), [on("m1", 0, 1, 300), on("m2", 0, 1, 300)]);
    }
}
