//! A replay of the outage that led to `docs/room.md`: 12 clusters, two thirds full; three clusters
//! fail at once, one flaps, two recover, then one rebalance and its undo. Agents report late, and
//! the summaries of clusters later still.
//!
//! *Invariants*: at every revision, no cluster has more CPU, pods or GPUs assigned than it has
//! (RM1, RM8). After the rebalance, every workload of recovered clusters is at its former
//! placement, and none of it is displaced (RM36, RM37). During the undo, no complete workload has
//! less than nine tenths of its replicas ready (RM31).

use std::collections::BTreeMap;

use ballast::k8s::{Key, Revision};
use serde_json::{Value, json};

use super::fleet::{binding, cluster, no_execute};
use super::safe::{phase, rebalance, summary};
use super::simulation::Dice;
use super::world::{CLUSTER, World};
use crate::support::size::sized;

const CLUSTERS: usize = 12;
/// The clusters with GPUs.
const GPU_CLUSTERS: usize = 4;
const GPU: &str = "nvidia.com/gpu";
const RESOURCES: [&str; 3] = ["cpu", "pods", GPU];
/// Seconds between two reports of the agents.
const REPORT_SECONDS: i64 = 10;
/// Every third report includes a summary of the cluster.
const SUMMARY_EVERY: usize = 3;
/// Reports until a rebalance of this fleet must have ended: an hour and a half.
const REPORTS_MAX: usize = 540;

fn name(number: usize) -> String {
    format!("prod-eu-west-{number:02}")
}

struct Workload {
    key: Key,
    replicas: i64,
    /// CPU in millicores, and GPUs, of one replica.
    cpu: i64,
    gpus: i64,
}

impl Workload {
    fn request(&self, resource: &str) -> i64 {
        match resource {
            "cpu" => self.cpu,
            "pods" => 1,
            _ => self.gpus,
        }
    }
}

struct Night {
    world: World,
    workloads: Vec<Workload>,
    /// CPU in millicores, pods and GPUs, by cluster.
    room: BTreeMap<String, [i64; 3]>,
    lost: Vec<String>,
    /// Existing replicas by workload and cluster.
    running: BTreeMap<(usize, String), i64>,
    reports: usize,
    audited: Revision,
    /// The last stored state of each workload.
    stored: Vec<Value>,
    /// The workloads that must keep nine tenths of their replicas ready.
    guarded: Vec<usize>,
}

impl Night {
    async fn begin(count: usize) -> Night {
        let world = World::new().await;
        let mut dice = Dice(3);
        let mut workloads = Vec::new();
        let mut wanted = Vec::new();
        let mut used = [0; 3];
        for number in 0..count {
            let (replicas, cpu) = (2 + dice.roll(9) as i64, dice.pick(&[100, 250, 500, 1_000]));
            let gpus = i64::from(dice.roll(12) == 0);
            let placement = json!({
                "clusterAffinity": {},
                "replicaScheduling": {
                    "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
                    "weightPreference": {"dynamicWeight": "AvailableReplicas"},
                },
            });
            let mut object = binding(&format!("web-{number}"), replicas as i32, placement);
            let requests = &mut object["spec"]["replicaRequirements"]["resourceRequest"];
            *requests = json!({"cpu": format!("{cpu}m")});
            if gpus > 0 {
                requests[GPU] = "1".into();
            }
            let key = Key::namespaced(super::world::RB, "default", format!("web-{number}-deployment"));
            let workload = Workload { key, replicas, cpu, gpus };
            for (used, resource) in used.iter_mut().zip(RESOURCES) {
                *used += replicas * workload.request(resource);
            }
            workloads.push(workload);
            wanted.push(object);
        }
        // Two thirds of the fleet are used, so that displaced replicas fit, with little to spare.
        let mut room = BTreeMap::new();
        for number in 0..CLUSTERS {
            let share = |all: i64, clusters: usize| all * 3 / 2 / clusters as i64 + 1;
            let gpus = if number % (CLUSTERS / GPU_CLUSTERS) == 0 { share(used[2], GPU_CLUSTERS) } else { 0 };
            let has = [share(used[0], CLUSTERS), share(used[1], CLUSTERS), gpus];
            let mut cluster = cluster(&name(number));
            cluster["status"]["resourceSummary"] = json!({"allocatable": {
                "cpu": format!("{}m", has[0]), "memory": "4000Gi", "pods": has[1].to_string(), GPU: has[2].to_string(),
            }});
            room.insert(name(number), has);
            world.given(cluster).await;
        }
        world.given_all(wanted).await;
        let stored = vec![Value::Null; count];
        Night {
            world,
            workloads,
            room,
            lost: Vec::new(),
            running: BTreeMap::new(),
            reports: 0,
            audited: Revision::ZERO,
            stored,
            guarded: Vec::new(),
        }
    }

    /// Advances the clock by `reports` report intervals.
    async fn pass(&mut self, reports: usize) {
        for _ in 0..reports {
            self.world.clock.advance_seconds(REPORT_SECONDS);
            self.world.settle().await;
            self.report().await;
            self.world.settle().await;
            self.audit().await;
        }
    }

    /// Applies on each reachable cluster the assignment before the last report, and reports the
    /// result.
    async fn report(&mut self) {
        self.reports += 1;
        for (number, workload) in self.workloads.iter().enumerate() {
            let object = self.world.get(&workload.key).unwrap();
            let mut items = object["status"]["aggregatedStatus"].as_array().cloned().unwrap_or_default();
            let before = items.clone();
            for cluster in self.room.keys().filter(|name| !self.lost.contains(name)) {
                let told = told(&object, cluster, workload.replicas);
                let at = (number, cluster.clone());
                let exist = self.running.get(&at).copied().unwrap_or(0);
                items.retain(|item| item["clusterName"] != **cluster);
                if exist > 0 {
                    items.push(json!({"clusterName": cluster, "applied": true, "health": "Healthy",
                                      "status": {"replicas": exist, "readyReplicas": exist}}));
                }
                self.running.insert(at, told);
            }
            items.sort_by_key(|item| item["clusterName"].to_string());
            if items != before {
                self.world
                    .edit(&workload.key, |binding| binding["status"]["aggregatedStatus"] = items.clone().into())
                    .await;
            }
        }
        if !self.reports.is_multiple_of(SUMMARY_EVERY) {
            return;
        }
        for cluster in self.room.keys().filter(|name| !self.lost.contains(name)) {
            let of = |resource: &str| -> i64 {
                let here = self.running.iter().filter(|((_, at), _)| at == cluster);
                here.map(|((number, _), count)| count * self.workloads[*number].request(resource)).sum()
            };
            let allocated =
                json!({"cpu": format!("{}m", of("cpu")), "pods": of("pods").to_string(), GPU: of(GPU).to_string()});
            let key = Key::cluster(CLUSTER, cluster.as_str());
            if self.world.get(&key).unwrap()["status"]["resourceSummary"]["allocated"] != allocated {
                self.world
                    .edit(&key, |object| object["status"]["resourceSummary"]["allocated"] = allocated.clone())
                    .await;
            }
        }
    }

    async fn taint(&mut self, cluster: &str, is_lost: bool) {
        self.lost.retain(|name| name != cluster);
        if is_lost {
            self.lost.push(cluster.to_owned());
        }
        let taints = if is_lost { json!([no_execute("down")]) } else { json!([]) };
        let key = Key::cluster(CLUSTER, cluster);
        self.world.edit(&key, |cluster| cluster["spec"]["taints"] = taints.clone()).await;
    }

    /// Checks every revision since the last call.
    async fn audit(&mut self) {
        for change in self.world.written_since(self.audited).await {
            self.audited = change.revision;
            let Some(number) = self.workloads.iter().position(|workload| workload.key == change.key) else { continue };
            let object: Value = serde_json::from_slice(&change.object).unwrap();
            let before = std::mem::replace(&mut self.stored[number], object);
            let grown: Vec<&String> = self
                .room
                .keys()
                .filter(|cluster| assigned(&self.stored[number], cluster) > assigned(&before, cluster))
                .collect();
            for cluster in grown {
                for (resource, has) in RESOURCES.iter().zip(self.room[cluster]) {
                    let given: i64 = self
                        .workloads
                        .iter()
                        .zip(&self.stored)
                        .map(|(workload, object)| assigned(object, cluster) * workload.request(resource))
                        .sum();
                    assert!(
                        given <= has,
                        "{cluster} has {has} {resource}, and is given {given} at {}",
                        change.revision
                    );
                }
            }
            if self.guarded.contains(&number) {
                let (ready, wanted) = (self.ready(number), self.workloads[number].replicas);
                let floor = wanted - wanted / 10;
                assert!(ready >= floor, "{} has {ready} of {wanted} at {}", change.key, change.revision);
            }
        }
    }

    /// Returns the ready replicas that the reachable clusters report.
    fn ready(&self, number: usize) -> i64 {
        let reports = self.stored[number]["status"]["aggregatedStatus"].as_array().into_iter().flatten();
        let heard = reports.filter(|report| !self.lost.iter().any(|lost| report["clusterName"] == **lost));
        heard.map(|report| report["status"]["readyReplicas"].as_i64().unwrap()).sum()
    }

    fn placed(&self) -> Vec<String> {
        self.workloads.iter().map(|workload| self.world.placed(&workload.key)).collect()
    }

    async fn ends(&mut self, key: &Key) {
        for _ in 0..REPORTS_MAX {
            if ["Completed", "Aborted"].contains(&phase(&self.world, key).as_str()) {
                return;
            }
            self.pass(1).await;
        }
        panic!("{key} does not end: {}", summary(&self.world, key));
    }
}

fn assigned(binding: &Value, cluster: &str) -> i64 {
    let mut targets = binding["spec"]["clusters"].as_array().into_iter().flatten();
    targets.find(|target| target["name"] == *cluster).map_or(0, |target| target["replicas"].as_i64().unwrap_or(0))
}

/// Returns the replicas that the cluster must run: its target, or the previous number during a
/// graceful eviction.
fn told(binding: &Value, cluster: &str, replicas: i64) -> i64 {
    let mut tasks = binding["spec"]["gracefulEvictionTasks"].as_array().into_iter().flatten();
    let task = tasks.find(|task| task["fromCluster"] == *cluster);
    let kept = task.map(|task| task["replicas"].as_i64().unwrap_or(replicas));
    assigned(binding, cluster).max(kept.unwrap_or(0))
}

#[tokio::test]
async fn rm8_rm31_rm37_the_night_lived_again() {
    let mut night = Night::begin(sized(120, 500)).await;
    night.world.settle().await;
    night.pass(6).await;
    let home = night.placed();
    assert!(home.iter().all(|placed| !placed.is_empty()), "all have a place before the night: {home:?}");

    // Three clusters fail at once, and a fourth flaps.
    for number in [1, 4, 7] {
        night.taint(&name(number), true).await;
    }
    night.world.settle().await;
    night.pass(3).await;
    for _ in 0..3 {
        night.taint(&name(9), true).await;
        night.pass(2).await;
        night.taint(&name(9), false).await;
        night.pass(2).await;
    }
    night.pass(80).await;
    let away = night.placed();
    assert!(!away.iter().any(|placed| placed.contains(&name(1))), "all have left what is lost");
    assert_ne!(home, away);

    // Two recover, and a rebalance returns all workloads.
    for number in [1, 4] {
        night.taint(&name(number), false).await;
    }
    night.pass(6).await;
    let rollout = json!({"maxConcurrent": 20, "minAvailable": "90%", "strategy": "SurgeFirst"});
    let spec = json!({"select": [{"displaced": true}], "mode": "AsBefore", "rollout": rollout});
    let back = night.world.given(rebalance("home", spec)).await;
    night.ends(&back).await;
    night.pass(6).await;
    let now = night.placed();
    for ((home, now), workload) in home.iter().zip(&now).zip(&night.workloads) {
        if !home.contains(&name(7)) {
            assert_eq!(now, home, "{} is not home: {}", workload.key, summary(&night.world, &back));
        }
    }

    // The undo moves them back without reducing their availability.
    night.guarded =
        (0..night.workloads.len()).filter(|number| night.ready(*number) >= night.workloads[*number].replicas).collect();
    assert!(night.guarded.len() * 10 > night.workloads.len() * 9, "nearly all are whole: {}", night.guarded.len());
    let undo = night.world.given(rebalance("undo", json!({"undo": {"name": "home"}}))).await;
    night.ends(&undo).await;
    night.pass(6).await;
    let undone = night.placed();
    let differ = undone.iter().zip(&away).filter(|(undone, away)| undone != away).count();
    assert_eq!(differ, 0, "{}", summary(&night.world, &undo));
}
