//! Seeded lives of a fleet that is short of room, with agents that report late, never, or wrongly
//! (more than assigned, negative, fractions, huge, under another cluster's name), with summaries
//! that shrink below what runs, requests of nothing and beyond 64 bits, and a clock that steps over
//! the time to live of reservations.
//!
//! *Invariant* (RM1, RM8): at every revision that adds replicas to a cluster, what is used there is
//! at most what the cluster has. `Books` reckons it from the stored texts, and shares no code with
//! the scheduler. `cargo sim -- --only room` lives other lives.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ballast::clock::Clock;
use ballast::estimator::{AddressFile, Addresses, EstimatorAccess, Estimators, TlsFiles};
use ballast::k8s::{Key, Revision};
use serde_json::{Value, json};

use super::fleet::{aggregated, binding, by_room, cluster, deployment, no_execute};
use super::simulation::{Dice, Mishap, is_forgetful};
use super::world::{CLUSTER, World};
use crate::support::estimator::{Estimator, Manner, addresses};

pub const STEPS: usize = 60;
const CLUSTERS: [&str; 3] = ["member1", "member2", "member3"];
const APPS: [&str; 6] = ["web", "db", "cache", "queue", "mail", "batch"];
/// How long estimators may take.
const PATIENCE: Duration = Duration::from_millis(40);
/// `--reservation-ttl`.
const TTL: i64 = 300;

#[tokio::test]
async fn rm8_whatever_agents_say_no_room_is_given_away_twice() {
    for seed in 0..crate::support::size::sized(24, 60) {
        live(seed, STEPS).await.unwrap_or_else(|fault| panic!("{fault}"));
    }
}

/// The same lives with estimators, which hang, lie, refuse, and answer late. What they say can only
/// lower what is given away (RM15, RM16).
#[tokio::test]
async fn rm15_and_rm16_whatever_estimators_say_no_room_is_given_away_twice() {
    for seed in 0..crate::support::size::sized(8, 40) {
        let mut life = Life::begin(seed).await;
        life.be_estimated(seed).await;
        life.go_on(seed, STEPS).await.unwrap_or_else(|fault| panic!("{fault}"));
        assert!(life.estimators.iter().any(|estimator| !estimator.asked().is_empty()), "seed {seed}");
    }
}

/// One life of so many steps, and what is wrong with it.
pub async fn live(seed: u64, steps: usize) -> Result<(), String> {
    Life::begin(seed).await.go_on(seed, steps).await
}

struct Life {
    world: World,
    dice: Dice,
    books: Books,
    /// By the place in `CLUSTERS`. Empty: the fleet has none.
    estimators: Vec<Estimator>,
    estimator_dice: Dice,
    audited: Revision,
}

/// What is stored, as far as room is concerned.
#[derive(Default)]
struct Books {
    clusters: BTreeMap<String, Value>,
    bindings: BTreeMap<String, Value>,
    /// When the replicas of a binding came to a cluster: the time of the pass that brought some.
    arrived: BTreeMap<(String, &'static str), i64>,
}

fn first_cluster(name: &str, cpu: u64) -> Value {
    let mut cluster = cluster(name);
    cluster["status"]["resourceSummary"]["allocatable"] =
        json!({"cpu": cpu.to_string(), "memory": "64Gi", "pods": "40"});
    cluster
}

impl Life {
    async fn begin(seed: u64) -> Life {
        let mut world = World::new().await;
        if is_forgetful(seed) {
            world.be_forgetful().await;
        }
        let mut dice = Dice(seed);
        for name in CLUSTERS {
            world.given(first_cluster(name, 4 + dice.roll(12))).await;
        }
        Life {
            world,
            dice,
            books: Books::default(),
            estimators: Vec::new(),
            estimator_dice: Dice(0),
            audited: Revision::ZERO,
        }
    }

    /// Starts an estimator for each cluster. They misbehave by dice of their own.
    async fn be_estimated(&mut self, seed: u64) {
        self.estimator_dice = Dice(seed + 1_000);
        for _ in CLUSTERS {
            let number = self.estimator_dice.roll(20) as i32;
            self.estimators.push(Estimator::start(Manner::Say(number)).await);
        }
        let folder = tempfile::tempdir().unwrap();
        let named: Vec<_> = CLUSTERS.iter().copied().zip(&self.estimators).collect();
        let addresses = AddressFile::open(&addresses(folder.path(), &named)).unwrap();
        let reach = EstimatorAccess {
            addresses: Addresses::File(addresses),
            tls: TlsFiles::default(),
            timeout: PATIENCE,
            tells_assumed: false,
        };
        let clock: Arc<dyn Clock> = self.world.clock.clone();
        self.world.be_estimated(Estimators::new(reach, true, clock)).await;
    }

    /// One of the estimators, if there are any, may change its manner.
    fn misbehave(&mut self) -> Option<String> {
        let dice = &mut self.estimator_dice;
        if self.estimators.is_empty() || dice.roll(4) > 0 {
            return None;
        }
        let (place, number) = (dice.roll(CLUSTERS.len() as u64) as usize, dice.roll(20) as i32);
        let manner = match dice.roll(8) {
            0 => Manner::Say(i32::MAX),
            1 => Manner::Say(-1 - number),
            2 => Manner::Hang,
            3 => Manner::Late(number, PATIENCE * 2),
            4 => Manner::Refuse(2),
            _ => Manner::Say(number),
        };
        let told = format!("the estimator of {}: {manner:?}", CLUSTERS[place]);
        self.estimators[place].behave(manner);
        Some(told)
    }

    async fn go_on(&mut self, seed: u64, steps: usize) -> Result<(), String> {
        let mut taken = Vec::new();
        for _ in 0..steps {
            taken.extend(self.misbehave());
            taken.push(self.step().await);
            self.audit().await.map_err(|fault| format!("seed {seed}: {fault}\nafter {taken:#?}"))?;
        }
        self.world.mend();
        self.world.settle().await;
        self.audit().await.map_err(|fault| format!("seed {seed}, at the end: {fault}\nafter {taken:#?}"))
    }

    async fn step(&mut self) -> String {
        let app = self.dice.pick(&APPS);
        let member = self.dice.pick(&CLUSTERS);
        let at = Key::cluster(CLUSTER, member);
        let key = Key::namespaced(super::world::RB, "default", format!("{app}-deployment").as_str());
        let is_there = self.world.get(&key).is_some();
        match self.dice.roll(22) {
            0..=3 if !is_there => {
                let placement = self.dice.pick(&[0, 1, 2]);
                let placement = [by_room(), aggregated(), json!({})][placement].clone();
                let cpu = self.dice.pick(&["0", "250m", "1", "1", "3", "1e30"]);
                let mut wanted = binding(app, 1 + self.dice.roll(8) as i32, placement);
                wanted["spec"]["replicaRequirements"]["resourceRequest"] = json!({"cpu": cpu});
                format!("{app} comes, {cpu}: {}", self.world.try_given(wanted).await.is_ok())
            }
            0 => format!("{app} goes: {}", self.world.try_delete(&key).await.is_ok()),
            1..=3 => {
                let replicas = self.dice.roll(10);
                let done = self.world.try_edit(&key, |binding| binding["spec"]["replicas"] = json!(replicas)).await;
                format!("{app} is scaled to {replicas}: {}", done.is_ok())
            }
            4..=8 if is_there => {
                let (number, reports_as) = (self.dice.roll(9), self.dice.roll(6));
                let other = self.dice.pick(&CLUSTERS);
                let done =
                    self.world.try_edit(&key, |binding| report(binding, member, other, number, reports_as)).await;
                format!("{member} reports {app} ({number}, {reports_as}): {}", done.is_ok())
            }
            9..=11 => {
                let running = self.books.replicas_on(member);
                let off = self.dice.pick(&[0, 0, 0, 1, 3]);
                let done = self.world.try_edit(&at, |cluster| {
                    let pods = (running + off).to_string();
                    cluster["status"]["resourceSummary"]["allocated"] = json!({"cpu": pods, "pods": pods});
                });
                format!("{member} sums up {running} + {off}: {}", done.await.is_ok())
            }
            12 => {
                let cpu = self.dice.roll(14).to_string();
                let done = self
                    .world
                    .try_edit(&at, |cluster| {
                        cluster["status"]["resourceSummary"]["allocatable"]["cpu"] = json!(cpu);
                    })
                    .await;
                format!("{member} has {cpu} cpu now: {}", done.is_ok())
            }
            13 => {
                let taints = if self.dice.roll(2) == 0 { json!([no_execute("down")]) } else { json!([]) };
                let done = self.world.try_edit(&at, |cluster| cluster["spec"]["taints"] = taints.clone()).await;
                format!("{member} has taints {taints}: {}", done.is_ok())
            }
            14 => format!("task for {app}: {}", self.task(json!({"targetRefResource": [deployment(app)]})).await),
            15 => format!("task for everything: {}", self.task(json!({"targetRefPolicy": [{}]})).await),
            16 => {
                let seconds = self.dice.pick(&[-400, -30, 1, 30, 299, 301]);
                self.world.clock.advance_seconds(seconds);
                format!("clock {seconds:+} s")
            }
            17 => Mishap::Crash.befall(&mut self.world, &mut self.dice).await,
            18 => Mishap::StoreFails.befall(&mut self.world, &mut self.dice).await,
            19 => Mishap::StoreIsMended.befall(&mut self.world, &mut self.dice).await,
            _ => {
                let turns = self.dice.roll(6);
                for _ in 0..turns {
                    self.world.turn().await;
                }
                format!("{turns} turns")
            }
        }
    }

    async fn task(&mut self, spec: Value) -> bool {
        self.world.task(spec).await.is_ok()
    }

    /// Enters everything that was written, and checks each entry.
    async fn audit(&mut self) -> Result<(), String> {
        for change in self.world.written_since(self.audited).await {
            self.audited = change.revision;
            let is_gone = change.operation == ballast::store::Operation::Delete;
            let object = (!is_gone).then(|| serde_json::from_slice(&change.object).unwrap());
            self.books
                .enter(&change.key, object, change.time_ms / 1_000)
                .map_err(|fault| format!("at revision {}, {}: {fault}", change.revision, change.key))?;
        }
        Ok(())
    }
}

/// What an agent says of the application: right or wrong.
fn report(binding: &mut Value, member: &str, other: &str, number: u64, reports_as: u64) {
    let status = match reports_as {
        0 | 1 => json!({"replicas": number}),
        2 => json!({"readyReplicas": number}),
        3 => json!({"replicas": -1, "readyReplicas": 0.5}),
        4 => json!({"replicas": u64::MAX}),
        _ => json!({"active": number}),
    };
    // The sixth one has nothing but whether it is applied.
    let item = json!({"clusterName": if number == 7 { other } else { member }, "status": status, "applied": number.is_multiple_of(2)});
    let reports = &mut binding["status"]["aggregatedStatus"];
    let mut known: Vec<Value> = reports.as_array().cloned().unwrap_or_default();
    known.retain(|known| known["clusterName"] != item["clusterName"]);
    known.push(item);
    *reports = Value::Array(known);
}

impl Books {
    fn replicas_on(&self, cluster: &str) -> u64 {
        self.bindings.values().map(|binding| assigned(binding, cluster)).sum()
    }

    fn enter(&mut self, key: &Key, object: Option<Value>, now: i64) -> Result<(), String> {
        let books = match key.resource.resource() {
            "clusters" => &mut self.clusters,
            "resourcebindings" => &mut self.bindings,
            _ => return Ok(()),
        };
        let name = key.name.to_string();
        let Some(object) = object else {
            books.remove(&name);
            return Ok(());
        };
        let before = books.insert(name.clone(), object);
        if key.resource.resource() == "clusters" {
            return Ok(());
        }
        let mut grown = Vec::new();
        for cluster in CLUSTERS {
            let was = before.as_ref().map_or(0, |before| assigned(before, cluster));
            let more = assigned(&self.bindings[&name], cluster).saturating_sub(was);
            if more > 0 {
                let owed_before = before.as_ref().map_or(0, |before| self.held(&name, before, cluster, now).1);
                self.arrived.insert((name.clone(), cluster), placed_at(&self.bindings[&name]));
                grown.push((cluster, owed_before + more));
            }
        }
        // Copies do not look at room.
        if self.bindings[&name]["spec"]["placement"]["replicaScheduling"].is_null() {
            return Ok(());
        }
        for (cluster, owed_max) in grown {
            self.check(cluster, &name, owed_max, now).map_err(|fault| format!("with {owed_max}: {fault}"))?;
        }
        Ok(())
    }

    /// The replicas of the binding that exist on the cluster, as it reports, and those that are
    /// promised.
    fn held(&self, name: &str, binding: &Value, cluster: &'static str, now: i64) -> (u64, u64) {
        let arrived = self.arrived.get(&(name.to_owned(), cluster)).copied();
        held(binding, cluster, arrived.unwrap_or_else(|| placed_at(binding)), now)
    }

    /// Whether no more is used than there is, of what the binding takes. Of the binding itself, at
    /// most `owed_max` is promised: its own promise may have run out before the decision, which
    /// promises the same replicas anew.
    fn check(&self, cluster: &'static str, decided: &str, owed_max: u64, now: i64) -> Result<(), String> {
        let summary = &self.clusters[cluster]["status"]["resourceSummary"];
        let wants_cpu = amount(&self.bindings[decided]["spec"]["replicaRequirements"]["resourceRequest"]["cpu"]) > 0.0;
        for resource in if wants_cpu { &["cpu", "pods"][..] } else { &["pods"][..] } {
            let all = amount(&summary["allocatable"][*resource]);
            let (mut reported, mut promised) = (0.0, 0.0);
            for (name, binding) in &self.bindings {
                let each = match *resource {
                    "pods" => 1.0,
                    _ => amount(&binding["spec"]["replicaRequirements"]["resourceRequest"][*resource]),
                };
                let (exist, owed) = self.held(name, binding, cluster, now);
                let owed = if name == decided { owed.min(owed_max) } else { owed };
                reported += exist as f64 * each;
                promised += owed as f64 * each;
            }
            let used = amount(&summary["allocated"][*resource]).max(reported) + promised;
            if used > all + 1e-6 {
                return Err(format!("{cluster} has {all} {resource}, and {used} are used ({promised} promised)"));
            }
        }
        Ok(())
    }
}

fn assigned(binding: &Value, cluster: &str) -> u64 {
    let mut targets = binding["spec"]["clusters"].as_array().into_iter().flatten();
    targets.find(|target| target["name"] == cluster).map_or(0, |target| target["replicas"].as_u64().unwrap_or(0))
}

/// When the last pass that succeeded was.
fn placed_at(binding: &Value) -> i64 {
    let placed = [&binding["status"]["lastScheduledTime"], &binding["metadata"]["creationTimestamp"]];
    let placed = placed.into_iter().find_map(|time| time.as_str()?.parse::<ballast::k8s::Time>().ok());
    placed.map_or(i64::MIN / 2, |placed| placed.seconds())
}

/// The replicas that exist, as the cluster reports, and those that are promised if they came there
/// at `arrived`.
fn held(binding: &Value, cluster: &str, arrived: i64, now: i64) -> (u64, u64) {
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
    (0, if arrived + TTL > now && !has_arrived { assigned } else { 0 })
}

/// Whole units of the amounts that this life uses.
fn amount(quantity: &Value) -> f64 {
    let text = quantity.as_str().unwrap_or("0");
    match text.strip_suffix('m') {
        Some(milli) => milli.parse::<f64>().unwrap() / 1_000.0,
        // The largest amount there is.
        None => text.parse::<f64>().unwrap().min(i64::MAX as f64),
    }
}
