//! Checks the capacity of clusters after each write, from the stored objects alone. It shares no
//! code with the scheduler.
//!
//! *Invariant* (RM1): no write of Ballast raises the usage of a cluster above its capacity. The
//! usage is the larger of `allocated` in the summary and the reported replicas of all bindings,
//! plus the reservations: replicas assigned or being evicted, and not reported. Capacity of an
//! eviction is therefore reserved until the replicas have left, and a cancelled eviction always
//! fits.

use std::collections::{BTreeMap, BTreeSet};

use ballast::store::{Change, Operation};
use serde_json::Value;

/// `--reservation-ttl`.
pub const TTL: i64 = 300;

/// The stored state, as far as capacity is concerned.
#[derive(Default)]
pub struct Books {
    pub clusters: BTreeMap<String, Value>,
    pub bindings: BTreeMap<String, Value>,
    /// The time of the last pass that added replicas of a binding to a cluster, and the replicas
    /// reserved then: earlier reservations may have expired.
    arrived: BTreeMap<(String, String), (i64, u64)>,
    /// The number of writes that added replicas to a cluster.
    pub judged: usize,
}

impl Books {
    pub fn replicas_on(&self, cluster: &str) -> u64 {
        self.bindings.values().map(|binding| targeted(binding, cluster)).sum()
    }

    /// Applies a write, and checks it.
    pub fn enter(&mut self, change: &Change) -> Result<(), String> {
        let books = match change.key.resource.resource() {
            "clusters" => &mut self.clusters,
            "resourcebindings" => &mut self.bindings,
            _ => return Ok(()),
        };
        let name = change.key.name.to_string();
        if change.operation == Operation::Delete {
            books.remove(&name);
            return Ok(());
        }
        let object: Value = serde_json::from_slice(&change.object).unwrap();
        if change.key.resource.resource() == "clusters" {
            books.insert(name, object);
            return Ok(());
        }
        let judged = self.enter_binding(name, object, change.time_ms / 1_000);
        judged.map_err(|fault| format!("at revision {}, {}: {fault}", change.revision, change.key))
    }

    fn enter_binding(&mut self, name: String, after: Value, now: i64) -> Result<(), String> {
        let before = self.bindings.get(&name).cloned().unwrap_or_default();
        // Duplicated workloads ignore capacity.
        let is_judged = is_of_ballast(&before, &after) && counts_room(&after);
        let clusters: BTreeSet<String> = touched(&before).chain(touched(&after)).collect();
        let known: Vec<String> = clusters.into_iter().filter(|cluster| self.clusters.contains_key(cluster)).collect();
        let used = |books: &Books| -> Vec<_> { known.iter().map(|cluster| books.used(cluster, &after, now)).collect() };
        let was = used(self);
        for cluster in &known {
            let more = assigned(&after, cluster).saturating_sub(assigned(&before, cluster));
            if more > 0 {
                let owed_before = self.held(&name, &before, cluster, now).1;
                let promised = (placed_at(&after), owed_before + more);
                self.arrived.insert((name.clone(), cluster.clone()), promised);
                self.judged += usize::from(is_judged);
            }
        }
        self.bindings.insert(name, after.clone());
        let is = used(self);
        for (was, is) in was.into_iter().flatten().zip(is.into_iter().flatten()).filter(|_| is_judged) {
            if is.used > was.used + 1e-6 && is.used > is.all + 1e-6 {
                return Err(format!("{was:?} becomes {is:?}"));
            }
        }
        Ok(())
    }

    /// Returns the existing replicas of the binding that the cluster reports, and the reserved
    /// ones.
    fn held(&self, name: &str, binding: &Value, cluster: &str, now: i64) -> (u64, u64) {
        let arrived = self.arrived.get(&(name.to_owned(), cluster.to_owned())).copied();
        held(binding, cluster, arrived.unwrap_or_else(|| (placed_at(binding), u64::MAX)), now)
    }

    /// Returns the usage of the cluster of each resource that the binding requests.
    fn used(&self, cluster: &str, decided: &Value, now: i64) -> Vec<Used> {
        let summary = &self.clusters[cluster]["status"]["resourceSummary"];
        let wants_cpu = amount(&decided["spec"]["replicaRequirements"]["resourceRequest"]["cpu"]) > 0.0;
        let resources = if wants_cpu { &["cpu", "pods"][..] } else { &["pods"][..] };
        let used = |resource: &'static str| {
            let (mut reported, mut promised, mut holders) = (0.0, 0.0, Vec::new());
            for (name, binding) in &self.bindings {
                let each = match resource {
                    "pods" => 1.0,
                    _ => amount(&binding["spec"]["replicaRequirements"]["resourceRequest"][resource]),
                };
                let (exist, owed) = self.held(name, binding, cluster, now);
                if exist + owed > 0 {
                    holders.push(format!("{name} {exist} and {owed} of {each}"));
                }
                reported += exist as f64 * each;
                promised += owed as f64 * each;
            }
            let used = amount(&summary["allocated"][resource]).max(reported) + promised;
            Used {
                cluster: cluster.to_owned(),
                resource,
                all: amount(&summary["allocatable"][resource]),
                used,
                holders,
            }
        };
        resources.iter().map(|resource| used(resource)).collect()
    }
}

/// The usage of one resource in a cluster.
#[derive(Debug)]
struct Used {
    #[expect(dead_code, reason = "it is shown")]
    cluster: String,
    #[expect(dead_code, reason = "it is shown")]
    resource: &'static str,
    all: f64,
    used: f64,
    /// Workloads with their existing and reserved replicas.
    #[expect(dead_code, reason = "it is shown")]
    holders: Vec<String>,
}

/// Returns whether Ballast has placed replicas or cancelled an eviction with this write. Users do
/// neither in these simulations, and agents write reports.
fn is_of_ballast(before: &Value, after: &Value) -> bool {
    let is_decided = after["status"]["schedulerObservedGeneration"] == after["metadata"]["generation"];
    let tasks = |binding: &Value| binding["spec"]["gracefulEvictionTasks"].clone();
    before["status"]["aggregatedStatus"] == after["status"]["aggregatedStatus"]
        && (is_decided || tasks(before) != tasks(after))
}

/// Returns whether the division considers capacity.
fn counts_room(binding: &Value) -> bool {
    let scheduling = &binding["spec"]["placement"]["replicaScheduling"];
    !scheduling.is_null() && scheduling["replicaSchedulingType"] != "Duplicated"
}

/// Returns the clusters that are targets, being evicted, or reporting.
fn touched(binding: &Value) -> impl Iterator<Item = String> {
    let names = |list: &Value, field: &str| -> Vec<String> {
        let list = list.as_array().map_or(&[][..], Vec::as_slice);
        list.iter().filter_map(|item| item[field].as_str().map(str::to_owned)).collect()
    };
    let spec = &binding["spec"];
    names(&spec["clusters"], "name").into_iter().chain(names(&spec["gracefulEvictionTasks"], "fromCluster"))
}

/// Returns the replicas assigned to the cluster or being evicted from it.
fn assigned(binding: &Value, cluster: &str) -> u64 {
    let mut tasks = binding["spec"]["gracefulEvictionTasks"].as_array().into_iter().flatten();
    let leaving = tasks.find(|task| task["fromCluster"] == cluster);
    let leaving = leaving.map_or(0, |task| task["replicas"].as_u64().unwrap_or(0));
    targeted(binding, cluster).max(leaving)
}

fn targeted(binding: &Value, cluster: &str) -> u64 {
    let mut targets = binding["spec"]["clusters"].as_array().into_iter().flatten();
    targets.find(|target| target["name"] == cluster).map_or(0, |target| target["replicas"].as_u64().unwrap_or(0))
}

/// Returns the time of the last successful pass.
fn placed_at(binding: &Value) -> i64 {
    let placed = [&binding["status"]["lastScheduledTime"], &binding["metadata"]["creationTimestamp"]];
    let placed = placed.into_iter().find_map(|time| time.as_str()?.parse::<ballast::k8s::Time>().ok());
    placed.map_or(i64::MIN / 2, |placed| placed.seconds())
}

/// Returns the replicas that the cluster reports, and the reserved ones if `most` arrived at time
/// `arrived`.
fn held(binding: &Value, cluster: &str, (arrived, most): (i64, u64), now: i64) -> (u64, u64) {
    let assigned = if binding["metadata"]["deletionTimestamp"].is_null() { assigned(binding, cluster) } else { 0 };
    let mut reports = binding["status"]["aggregatedStatus"].as_array().into_iter().flatten();
    let report = reports.find(|report| report["clusterName"] == cluster);
    let number = |report: &Value| {
        let number = |name: &str| report["status"][name].as_u64().filter(|number| *number <= i32::MAX as u64);
        number("replicas").or_else(|| number("readyReplicas"))
    };
    if let Some(number) = report.and_then(number) {
        return (number, assigned.saturating_sub(number));
    }
    let has_arrived = report.is_some_and(|report| report["applied"] == true || report["health"] == "Healthy");
    (0, if arrived + TTL > now && !has_arrived { assigned.min(most) } else { 0 })
}

/// Returns whole units of the quantities in these simulations.
fn amount(quantity: &Value) -> f64 {
    let text = quantity.as_str().unwrap_or("0");
    match text.strip_suffix('m') {
        Some(milli) => milli.parse::<f64>().unwrap() / 1_000.0,
        // Saturates at the largest amount.
        None => text.parse::<f64>().unwrap().min(i64::MAX as f64),
    }
}
