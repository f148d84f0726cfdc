//! An outage with two failures, a return that is undone half-way, and a second return, over 12
//! clusters with every kind of placement. After each step, the numbers of API, tables, metrics and
//! commands are compared with each other and with sums over the bindings.
//!
//! The server runs in this process, with a clock that only the test advances. So nothing changes
//! while the numbers are read, and five minutes until an eviction take no time.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::process::Stdio;
use std::sync::{Arc, Mutex};

use ballast::clock::{Clock, ManualClock, SystemClock};
use ballast::controllers::FailoverOptions;
use ballast::engine::karmada::Profile;
use ballast::events::Recorder;
use ballast::k8s::Time;
use ballast::node::assembly::{self, WorkerOptions};
use ballast::node::config::Controllers;
use ballast::rebalance::gates::NoGates;
use ballast::worker::Runner;
use http::Method;
use serde_json::{Value, json};

use crate::support::fleet::binding;
use crate::support::objects::{self, with};
use crate::support::raw::{Connection, Reply};
use crate::support::server::{Options, TestServer};

const CLUSTERS: &str = "/apis/cluster.karmada.io/v1alpha1/clusters";
const BINDINGS: &str = "/apis/work.karmada.io/v1alpha2/namespaces/default/resourcebindings";
const REBALANCES: &str = "/apis/ballast.dev/v1alpha1/clusterrebalances";
const GPU: &str = "nvidia.com/gpu";

/// Three clusters in each of four regions. The first of each region has GPUs.
const REGIONS: [&str; 4] = ["ap-south", "eu-north", "eu-west", "us-east"];
const CPUS: i64 = 40;
const GPUS: i64 = 4;
/// Seconds between two reports of the agents.
const REPORT_SECONDS: i64 = 5;
/// An upper bound on the turns until all workers are idle.
const TURNS_MAX: usize = 2_000;
/// An upper bound on the reports until a rebalance of this fleet ends: an hour.
const REPORTS_MAX: usize = 720;

/// Returns the names, replicas and placements of all workloads.
fn workloads() -> Vec<(String, i32, Value, Value)> {
    let cpu = json!({"cpu": "1"});
    let dynamic = json!({"replicaScheduling": {"replicaSchedulingType": "Divided",
        "replicaDivisionPreference": "Weighted", "weightPreference": {"dynamicWeight": "AvailableReplicas"}}});
    let aggregated = json!({"replicaScheduling": {
        "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Aggregated"}});
    let weight = |cluster: &str, weight: i64| json!({"targetCluster": {"clusterNames": [cluster]}, "weight": weight});
    let fixed = json!({
        "clusterAffinity": {"clusterNames": ["eu-west-1", "eu-north-1", "us-east-1"]},
        "replicaScheduling": {
            "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
            "weightPreference": {"staticWeightList":
                [weight("eu-west-1", 2), weight("eu-north-1", 1), weight("us-east-1", 1)]},
        },
    });
    let copies = json!({
        "clusterAffinity": {"clusterNames": ["eu-west-1", "eu-west-2", "us-east-3"]},
        "replicaScheduling": {"replicaSchedulingType": "Duplicated"},
    });
    let by_field =
        |field: &str, min: i64, max: i64| json!({"spreadByField": field, "minGroups": min, "maxGroups": max});
    let regions = json!({"spreadConstraints": [by_field("region", 2, 2), by_field("cluster", 2, 4)]});
    let three = json!({"spreadConstraints": [by_field("cluster", 3, 3)]});
    let group = |name: &str, clusters: Value| json!({"affinityName": name, "clusterNames": clusters});
    let groups = json!({"clusterAffinities": [
        group("primary", json!(["eu-west-1"])), group("backup", json!(["us-east-1", "us-east-2"]))]});
    let entry =
        |cluster: &str, replicas: i64| json!({"targetCluster": {"clusterNames": [cluster]}, "replicas": replicas});
    let specified = json!({"replicaScheduling": {
        "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Specified",
        "specifyPreference": {"staticSpecifyList": [entry("eu-west-2", 2), entry("ap-south-2", 2)]},
    }});
    let mut all = Vec::new();
    for number in 0..4 {
        all.push((format!("dynamic-{number}"), 6, dynamic.clone(), cpu.clone()));
        all.push((format!("aggregated-{number}"), 4, aggregated.clone(), cpu.clone()));
        all.push((format!("regions-{number}"), 6, with(dynamic.clone(), regions.clone()), cpu.clone()));
        all.push((format!("three-{number}"), 6, with(aggregated.clone(), three.clone()), cpu.clone()));
    }
    for number in 0..2 {
        all.push((format!("static-{number}"), 8, fixed.clone(), cpu.clone()));
        all.push((format!("copies-{number}"), 2, copies.clone(), cpu.clone()));
        all.push((format!("groups-{number}"), 4, with(dynamic.clone(), groups.clone()), cpu.clone()));
        all.push((format!("specified-{number}"), 4, specified.clone(), cpu.clone()));
        all.push((format!("gpu-{number}"), 2, aggregated.clone(), json!({"cpu": "1", GPU: "1"})));
    }
    all
}

struct Night {
    server: TestServer,
    client: Connection,
    clock: Arc<ManualClock>,
    runners: Vec<Runner>,
    lost: BTreeSet<String>,
    /// Existing replicas, by binding and cluster.
    running: BTreeMap<(String, String), i64>,
    /// The current step of the outage.
    step: &'static str,
    /// Differing numbers. All are printed at the end, because one fault causes many.
    faults: Mutex<Vec<String>>,
}

impl Night {
    async fn start() -> Night {
        let clock = ManualClock::at(SystemClock.now());
        let shared: Arc<dyn Clock> = clock.clone();
        let server = TestServer::with(Options { clock: Some(Arc::clone(&shared)), ..Options::default() }).await;
        let options = WorkerOptions {
            recorder: Recorder::new(Arc::clone(&shared)),
            profile: Profile::ours(),
            failover: FailoverOptions::default(),
            controllers: Controllers::default(),
            rescue: Default::default(),
            marking: Default::default(),
            inventory: None,
            sinks: Vec::new(),
            gates: Arc::new(NoGates),
        };
        let cache = server.registry.cache().clone();
        let work = assembly::workers(&server.registry, &shared, options);
        let runners = work.into_iter().map(|work| Runner::new(work, cache.clone(), Arc::clone(&shared))).collect();
        let client = server.admin().connect().await;
        let mut night = Night {
            server,
            client,
            clock,
            runners,
            lost: BTreeSet::new(),
            running: BTreeMap::new(),
            step: "",
            faults: Mutex::default(),
        };
        for region in REGIONS {
            for number in 0..3 {
                let name = format!("{region}-{}", number + 1);
                let spec = json!({"spec": {"region": region}});
                night.post(CLUSTERS, with(objects::cluster(&name), spec)).await;
                night.merge(&format!("{CLUSTERS}/{name}/status"), night.cluster_status(&name, number == 0)).await;
            }
        }
        for (name, replicas, placement, requests) in workloads() {
            let requirements = json!({"spec": {"replicaRequirements": {"resourceRequest": requests}}});
            night.post(BINDINGS, with(binding(&name, replicas, placement), requirements)).await;
        }
        night.pass(6).await;
        night
    }

    fn cluster_status(&self, name: &str, has_gpus: bool) -> Value {
        let mut status = objects::room(&CPUS.to_string(), "4000Gi", "1000");
        if has_gpus {
            status["status"]["resourceSummary"]["allocatable"][GPU] = GPUS.to_string().into();
        }
        status["status"]["conditions"] = json!([self.readiness(!self.lost.contains(name))]);
        status
    }

    fn readiness(&self, is_ready: bool) -> Value {
        json!({"type": "Ready", "status": if is_ready { "True" } else { "False" }, "reason": "Reported",
            "message": "", "lastTransitionTime": self.clock.now()})
    }

    async fn send(&self, method: Method, path: &str, kind: &str, body: String) -> Reply {
        let reply = self.client.send(method.clone(), path, &[("content-type", kind)], body).await;
        assert!(reply.code.is_success(), "{method} {path}: {}", reply.text());
        reply
    }

    async fn get(&self, path: &str) -> Value {
        self.send(Method::GET, path, "application/json", String::new()).await.json()
    }

    async fn post(&self, path: &str, object: Value) -> Value {
        self.send(Method::POST, path, "application/json", object.to_string()).await.json()
    }

    async fn merge(&self, path: &str, change: Value) {
        self.send(Method::PATCH, path, "application/merge-patch+json", change.to_string()).await;
    }

    async fn bindings(&self) -> Vec<Value> {
        self.get(BINDINGS).await["items"].as_array().unwrap().clone()
    }

    /// Returns standard output of the built command, which exits with one of these statuses.
    async fn ballast(&self, line: &str, statuses: &[i32]) -> String {
        let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_ballast"));
        command.args(line.split_whitespace()).stdin(Stdio::null());
        let done = command.env("KUBECONFIG", &self.server.files.admin_kubeconfig).output().await.unwrap();
        let [out, err] = [done.stdout, done.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        let status = done.status.code().unwrap();
        assert!(statuses.contains(&status), "ballast {line} ended with {status}\n{out}{err}");
        out
    }

    async fn data(&self, line: &str, statuses: &[i32]) -> Value {
        let out = self.ballast(&format!("{line} -o json"), statuses).await;
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{line}: {error}: {out}"))
    }

    /// Runs all workers until none has work at the present time.
    async fn settle(&mut self) {
        for _ in 0..TURNS_MAX {
            let mut is_busy = false;
            for runner in &mut self.runners {
                is_busy |= runner.turn().await;
            }
            if !is_busy {
                return;
            }
        }
        panic!("the workers do not settle");
    }

    /// Advances the clock by `reports` report intervals.
    async fn pass(&mut self, reports: usize) {
        for _ in 0..reports {
            self.clock.advance_seconds(REPORT_SECONDS);
            self.settle().await;
            self.report().await;
            self.settle().await;
        }
    }

    /// Reports for each reachable cluster the replicas assigned before the last report as ready,
    /// with their usage.
    async fn report(&mut self) {
        let mut used: BTreeMap<String, [i64; 2]> = BTreeMap::new();
        for object in self.bindings().await {
            let name = object["metadata"]["name"].as_str().unwrap().to_owned();
            let before = object["status"]["aggregatedStatus"].as_array().cloned().unwrap_or_default();
            let mut items: Vec<Value> = before.clone();
            let known = |item: &Value| item["clusterName"].as_str().unwrap_or_default().to_owned();
            items.retain(|item| self.lost.contains(&known(item)));
            let assigned = assigned(&object);
            let requests = &object["spec"]["replicaRequirements"]["resourceRequest"];
            let names: BTreeSet<String> = assigned.keys().cloned().chain(before.iter().map(known)).collect();
            for cluster in names.into_iter().filter(|cluster| !self.lost.contains(cluster)) {
                let at = (name.clone(), cluster.clone());
                let exist = self.running.get(&at).copied().unwrap_or(0);
                self.running.insert(at, assigned.get(&cluster).copied().unwrap_or(0));
                let uses = used.entry(cluster.clone()).or_default();
                uses[0] += exist;
                uses[1] += if requests[GPU].is_null() { 0 } else { exist };
                if exist > 0 {
                    items.push(json!({"clusterName": cluster, "applied": true, "health": "Healthy",
                        "status": {"replicas": exist, "readyReplicas": exist, "availableReplicas": exist}}));
                }
            }
            items.sort_by_key(|item| item["clusterName"].to_string());
            if items != before {
                let status = json!({"status": {"aggregatedStatus": items}});
                self.merge(&format!("{BINDINGS}/{name}/status"), status).await;
            }
        }
        for (cluster, [cpu, gpu]) in used {
            let allocated = json!({"cpu": cpu.to_string(), "pods": cpu.to_string(), GPU: gpu.to_string()});
            let status = json!({"status": {"resourceSummary": {"allocated": allocated}}});
            self.merge(&format!("{CLUSTERS}/{cluster}/status"), status).await;
        }
    }

    async fn lose(&mut self, cluster: &str) {
        self.lost.insert(cluster.to_owned());
        self.merge(&format!("{CLUSTERS}/{cluster}/status"), json!({"status": {"conditions": [self.readiness(false)]}}))
            .await;
        self.settle().await;
    }

    async fn recover(&mut self, cluster: &str) {
        self.lost.remove(cluster);
        self.merge(&format!("{CLUSTERS}/{cluster}/status"), json!({"status": {"conditions": [self.readiness(true)]}}))
            .await;
        self.settle().await;
    }

    async fn placements(&self) -> BTreeMap<String, String> {
        let shown = |object: &Value| {
            let targets = object["spec"]["clusters"].as_array().cloned().unwrap_or_default();
            let mut shown: Vec<String> =
                targets.iter().map(|it| format!("{}:{}", it["name"], it["replicas"])).collect();
            shown.sort();
            (object["metadata"]["name"].as_str().unwrap().to_owned(), shown.join(" "))
        };
        self.bindings().await.iter().map(shown).collect()
    }

    /// Returns the name of the rebalance that undoes another one.
    async fn undo_of(&self, name: &str) -> String {
        let items = self.get(REBALANCES).await["items"].as_array().unwrap().clone();
        let undo = items.into_iter().find(|it| it["spec"]["undo"]["name"] == *name);
        undo.expect("an undo was created")["metadata"]["name"].as_str().unwrap().to_owned()
    }

    async fn ends(&mut self, name: &str) {
        for _ in 0..REPORTS_MAX {
            let rebalance = self.get(&format!("{REBALANCES}/{name}")).await;
            if ["Completed", "Aborted"].contains(&rebalance["status"]["phase"].as_str().unwrap_or_default()) {
                return;
            }
            self.pass(1).await;
        }
        panic!("{name} does not end");
    }
}

/// Returns the replicas that each cluster must run: targets, and copies that an eviction keeps.
fn assigned(binding: &Value) -> BTreeMap<String, i64> {
    let mut assigned: BTreeMap<String, i64> = BTreeMap::new();
    for target in binding["spec"]["clusters"].as_array().into_iter().flatten() {
        assigned.insert(target["name"].as_str().unwrap().to_owned(), target["replicas"].as_i64().unwrap_or(0));
    }
    for task in binding["spec"]["gracefulEvictionTasks"].as_array().into_iter().flatten() {
        let kept = task["replicas"].as_i64().unwrap_or(0);
        let entry = assigned.entry(task["fromCluster"].as_str().unwrap().to_owned()).or_default();
        *entry = kept.max(*entry);
    }
    assigned
}

/// Desired, ready and missing replicas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sums {
    wanted: i64,
    ready: i64,
    missing: i64,
}

impl Sums {
    fn parse(counts: &Value) -> Sums {
        let number = |field: &str| counts[field].as_i64().unwrap_or_else(|| panic!("no {field} in {counts}"));
        Sums { wanted: number("wanted"), ready: number("ready"), missing: number("missing") }
    }
}

impl Night {
    /// Records a fault if two surfaces have different values.
    fn same<T: PartialEq + Debug>(&self, what: &str, one: T, other: T) {
        if one != other {
            self.faults.lock().unwrap().push(format!("{}: {what}: {one:?} and {other:?}", self.step));
        }
    }

    /// Computes sums over the bindings, without any code of the server.
    ///
    /// The desired replicas of an undivided workload count on each cluster that its placement
    /// names, also while one of them is down. A replica is ready if a reachable agent reports it,
    /// up to the desired number.
    fn sums(&self, bindings: &[Value]) -> Sums {
        let mut sums = Sums::default();
        for binding in bindings {
            let replicas = binding["spec"]["replicas"].as_i64().unwrap();
            let placement = &binding["spec"]["placement"];
            let assigned = assigned(binding);
            let wanted = match placement["replicaScheduling"]["replicaSchedulingType"] == "Duplicated" {
                true => replicas * placement["clusterAffinity"]["clusterNames"].as_array().unwrap().len() as i64,
                false => replicas,
            };
            let mut ready = 0;
            for report in binding["status"]["aggregatedStatus"].as_array().into_iter().flatten() {
                let cluster = report["clusterName"].as_str().unwrap();
                if !self.lost.contains(cluster) {
                    let held = assigned.get(cluster).copied().unwrap_or(0);
                    ready += report["status"]["readyReplicas"].as_i64().unwrap_or(0).min(held);
                }
            }
            sums.wanted += wanted;
            sums.ready += ready.min(wanted);
        }
        sums.missing = sums.wanted - sums.ready;
        sums
    }

    /// All series with whole numbers.
    async fn metrics(&self) -> BTreeMap<String, i64> {
        let reply = self.send(Method::GET, "/metrics", "text/plain", String::new()).await;
        let series =
            |line: &str| line.rsplit_once(' ').and_then(|(name, it)| Some((name.to_owned(), it.parse().ok()?)));
        reply.text().lines().filter(|line| !line.starts_with('#')).filter_map(series).collect()
    }

    /// Lets the background sweeps process the present state, without a report of an agent.
    async fn sweep(&mut self) {
        for _ in 0..5 {
            self.clock.advance_seconds(1);
            self.settle().await;
        }
    }

    /// Compares the numbers of all surfaces.
    async fn compare(&mut self, step: &'static str) {
        self.step = step;
        self.sweep().await;
        let sums = self.sums(&self.bindings().await);
        let api = "/apis/ballast.dev/v1alpha1";
        let review = json!({"apiVersion": "ballast.dev/v1alpha1", "kind": "FleetReview"});
        let review = self.post(&format!("{api}/fleetreviews"), review).await["status"].clone();
        self.same("FleetReview, and sums over the bindings", Sums::parse(&review["replicas"]), sums);
        let local = json!({"apiVersion": "ballast.dev/v1alpha1", "kind": "LocalFleetReview"});
        let local = self.post(&format!("{api}/namespaces/default/localfleetreviews"), local).await;
        self.same("the only namespace, and the fleet", Sums::parse(&local["status"]["replicas"]), sums);
        self.compare_clusters(sums, &review).await;
        self.compare_displaced().await;
        self.compare_survival().await;
        let evictions = self.data("evictions", &[0]).await;
        self.same("evictions that wait", &evictions["waiting"], &review["evictions"]["waiting"]);
    }

    async fn compare_clusters(&self, sums: Sums, review: &Value) {
        let unplaced = review["unplaced"].as_i64().unwrap();
        let clusters = review["clusters"].as_array().unwrap().iter();
        let by_cluster: BTreeMap<String, Sums> =
            clusters.map(|it| (it["name"].as_str().unwrap().to_owned(), Sums::parse(&it["replicas"]))).collect();
        let total = |field: fn(&Sums) -> i64| by_cluster.values().map(field).sum::<i64>();
        self.same("ready replicas by cluster, and in all", total(|it| it.ready), sums.ready);
        self.same("missing replicas by cluster, and in all", total(|it| it.missing) + unplaced, sums.missing);
        let metrics = self.metrics().await;
        for (cluster, counts) in &by_cluster {
            if self.lost.contains(cluster) {
                self.same(&format!("ready replicas of the lost {cluster}"), counts.ready, 0);
            }
            let region = cluster.rsplit_once('-').unwrap().0;
            for (field, value) in [("ready", counts.ready), ("missing", counts.missing), ("wanted", counts.wanted)] {
                let series = format!("ballast_cluster_replicas_{field}{{cluster=\"{cluster}\",region=\"{region}\"}}");
                self.same(&series, metrics.get(&series).copied(), Some(value));
            }
        }
        for (state, value) in [("wanted", sums.wanted), ("ready", sums.ready), ("missing", sums.missing)] {
            let series = format!("ballast_fleet_replicas{{state=\"{state}\"}}");
            self.same(&series, metrics.get(&series).copied(), Some(value));
        }
        for row in self.data("top", &[0]).await.as_array().unwrap() {
            let name = row["name"].as_str().unwrap();
            self.same(&format!("top, and the review of {name}"), Sums::parse(&row["counts"]), by_cluster[name]);
        }
        let missing = self.column(CLUSTERS, "Missing").await;
        self.same("the column Missing, and the review", missing.iter().sum(), total(|it| it.missing));
    }

    /// Returns the numbers of a column of a table, as kubectl prints it.
    async fn column(&self, path: &str, name: &str) -> Vec<i64> {
        let accept = "application/json;as=Table;v=v1;g=meta.k8s.io";
        let table = self.client.send(Method::GET, path, &[("accept", accept)], "").await.json();
        let columns = table["columnDefinitions"].as_array().unwrap();
        let at = columns
            .iter()
            .position(|column| column["name"] == *name)
            .unwrap_or_else(|| panic!("no {name}: {columns:?}"));
        table["rows"].as_array().unwrap().iter().map(|row| row["cells"][at].as_i64().unwrap_or(0)).collect()
    }

    /// Checks that the displaced workloads are the same in the review, on the command line and in
    /// the metric, and that each has a destination or a reason.
    async fn compare_displaced(&self) {
        let spec = json!({"select": [{"displaced": true}], "mode": "AsBefore", "limit": 1000});
        let review = json!({"apiVersion": "ballast.dev/v1alpha1", "kind": "PlacementReview", "spec": spec});
        let review = self.post("/apis/ballast.dev/v1alpha1/placementreviews", review).await["status"].clone();
        let displaced = self.data("displaced", &[0]).await;
        let displaced = displaced.as_array().unwrap();
        let count = displaced.len() as i64;
        self.same(
            "displaced workloads of the review and of the command",
            review["summary"]["selected"].as_i64(),
            Some(count),
        );
        let metric = self.metrics().await["ballast_workloads_displaced"];
        self.same("displaced workloads of the metric and of the command", metric, count);
        for row in displaced {
            let has_destination = row["to"].as_array().is_some_and(|to| !to.is_empty());
            let has_reason = row["message"].as_str().is_some_and(|it| !it.is_empty());
            self.same(&format!("a destination or a reason of {row}"), has_destination || has_reason, true);
        }
    }

    /// Checks that only healthy clusters can fail, and that the metric has the worst of them.
    async fn compare_survival(&self) {
        let survival = self.data("survive", &[0, 3]).await;
        let survival = survival.as_array().unwrap();
        let names: BTreeSet<&str> = survival.iter().map(|it| it["name"].as_str().unwrap()).collect();
        self.same("clusters that can be lost", names.len(), 12 - self.lost.len());
        self.same("lost clusters among them", self.lost.iter().filter(|lost| names.contains(&***lost)).count(), 0);
    }

    /// Compares the moves of a rebalance in its status, its Moves and its column of failures.
    async fn compare_run(&self, name: &str) {
        let path = format!("{REBALANCES}/{name}");
        let summary = self.get(&path).await["status"]["summary"].clone();
        let moves = self.get("/apis/ballast.dev/v1alpha1/moves").await;
        let mut phases: BTreeMap<&str, i64> = BTreeMap::new();
        for it in moves["items"].as_array().unwrap() {
            if it["metadata"]["labels"]["ballast.dev/rebalance"] == *name {
                *phases.entry(it["status"]["phase"].as_str().unwrap_or("Pending")).or_default() += 1;
            }
        }
        for (field, phase) in [("failed", "Failed"), ("settled", "Settled"), ("superseded", "Superseded")] {
            let counted = phases.get(phase).copied().unwrap_or(0);
            self.same(&format!("{field} of {name}, and its Moves"), summary[field].as_i64().unwrap_or(0), counted);
        }
        let failed = self.column(&path, "FAILED").await;
        self.same("the column Failed", failed, vec![summary["failed"].as_i64().unwrap_or(0)]);
    }

    /// Checks that the times of a history increase with its revisions.
    async fn compare_histories(&self) {
        for name in ["dynamic-0", "regions-0", "groups-0"] {
            let history = self.data(&format!("history rb/{name}-deployment --all"), &[0]).await;
            let times =
                history.as_array().unwrap().iter().map(|row| row["time"].as_str().unwrap().parse::<Time>().unwrap());
            self.same(&format!("times of {name} that rise: {history}"), times.is_sorted(), true);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn surfaces_agree_through_a_night_with_two_losses() {
    let mut night = Night::start().await;
    night.compare("at rest").await;
    let before = night.placements().await;
    assert!(before.values().all(|placed| !placed.is_empty()), "{before:?}");

    night.lose("eu-west-1").await;
    night.compare("a first cluster is lost").await;
    // An autoscaler reacts before the eviction does.
    night.merge(&format!("{BINDINGS}/dynamic-0-deployment"), json!({"spec": {"replicas": 12}})).await;
    night.settle().await;
    night.compare("a workload grows").await;
    night.merge(&format!("{BINDINGS}/dynamic-0-deployment"), json!({"spec": {"replicas": 6}})).await;
    night.pass(63).await;
    // Metrics follow within five seconds, so nothing may leave while they are compared.
    night.ballast("evictions --hold", &[0]).await;
    night.compare("evictions have begun").await;
    night.ballast("evictions --reset", &[0]).await;
    night.pass(24).await;
    night.lose("us-east-1").await;
    night.compare("a second cluster is lost").await;
    night.pass(120).await;
    night.compare("evictions are over").await;
    let away = night.placements().await;
    assert!(!away.values().any(|placed| placed.contains("eu-west-1") && !placed.contains("eu-west-2")), "{away:?}");

    night.recover("eu-west-1").await;
    night.pass(6).await;
    night.compare("the first one is back").await;
    let away = night.placements().await;
    night.ballast("rebalance --displaced -A --surge --max-concurrent 2 --name home --yes --no-wait", &[0]).await;
    night.pass(6).await;
    night.compare("some have returned").await;
    night.compare_run("home").await;
    night.ballast("undo home --yes --no-wait", &[0]).await;
    night.pass(1).await;
    night.compare("the undo has begun").await;
    night.ends("home").await;
    let undo = night.undo_of("home").await;
    night.ends(&undo).await;
    night.pass(6).await;
    night.compare("undone").await;
    for name in ["home", &undo] {
        night.compare_run(name).await;
    }
    night.same("placements before the return, and after the undo", night.placements().await, away);

    night.recover("us-east-1").await;
    night.pass(6).await;
    night.ballast("rebalance --displaced -A --surge --name again --yes --no-wait", &[0]).await;
    night.ends("again").await;
    night.pass(6).await;
    night.compare("all have returned").await;
    night.compare_run("again").await;
    night.compare_histories().await;
    night.same("placements after the night, and before", night.placements().await, before);
    let faults = night.faults.into_inner().unwrap();
    assert!(faults.is_empty(), "{} differences:\n{}", faults.len(), faults.join("\n"));
}
