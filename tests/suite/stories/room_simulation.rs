//! Randomized simulation of a fleet with scarce capacity. Agents report late, never, or wrongly
//! (more than assigned, negative, fractions, huge, under the name of another cluster), summaries
//! shrink below the usage, requests are zero or exceed 64 bits, and the clock steps over the time
//! to live of reservations. Meanwhile users trigger, rebalance, drain and undo.
//!
//! *Invariant* (RM1, RM8): no write raises the usage of a cluster above its capacity. `Books`
//! (`room_books`) checks this at every revision. At the end no binding waits for capacity that is
//! free (RM3). `cargo sim -- --only room` runs further seeds.

use std::sync::Arc;
use std::time::Duration;

use ballast::clock::Clock;
use ballast::estimator::{AddressFile, Addresses, EstimatorAccess, Estimators, TlsFiles};
use ballast::k8s::{Key, Revision};
use serde_json::{Value, json};

use super::fleet::{aggregated, binding, by_room, cluster, deployment, no_execute};
use super::room_books::{Books, TTL};
use super::simulation::{Dice, Mishap, is_forgetful};
use super::world::{CLUSTER, World, condition};
use crate::support::estimator::{Estimator, Manner, Tls, addresses};
use crate::support::pki::Ca;

pub const STEPS: usize = 60;
const CLUSTERS: [&str; 3] = ["member1", "member2", "member3"];
const APPS: [&str; 6] = ["web", "db", "cache", "queue", "mail", "batch"];
/// The timeout of estimators.
const PATIENCE: Duration = Duration::from_millis(40);
/// The longest interval between two attempts of a binding, in seconds.
const BACKOFF_MAX: i64 = ballast::worker::BACKOFF_MAX_MS / 1_000;

#[tokio::test]
async fn rm8_whatever_agents_say_no_room_is_given_away_twice() {
    for seed in 0..crate::support::size::sized(24, 60) {
        live(seed, STEPS).await.unwrap_or_else(|fault| panic!("{fault}"));
    }
}

/// The same simulations with estimators that hang, lie, reject and respond late. Their estimates
/// can only reduce the assigned capacity (RM15, RM16).
#[tokio::test]
async fn rm15_and_rm16_whatever_estimators_say_no_room_is_given_away_twice() {
    let lives = crate::support::size::sized(8, 40);
    let mut lives_with_questions = 0;
    for seed in 0..lives {
        let mut life = Life::begin(seed).await;
        life.be_estimated(seed).await;
        life.go_on(seed, STEPS).await.unwrap_or_else(|fault| panic!("{fault}"));
        let asked = life.questions + life.estimators.iter().map(|it| it.asked().len()).sum::<usize>();
        lives_with_questions += u64::from(asked > 0);
    }
    // In some runs no workload is divided by capacity while an estimator is up.
    assert!(lives_with_questions * 4 > lives * 3, "{lives_with_questions} of {lives}");
}

/// Runs one simulation of `steps` steps, and returns the first violation.
pub async fn live(seed: u64, steps: usize) -> Result<(), String> {
    Life::begin(seed).await.go_on(seed, steps).await
}

struct Life {
    world: World,
    dice: Dice,
    books: Books,
    /// In the order of `CLUSTERS`; empty if the fleet has none.
    estimators: Vec<Estimator>,
    estimator_dice: Dice,
    /// Completed requests to estimators.
    questions: usize,
    /// An unexpected certificate for an estimator.
    stranger: Option<Tls>,
    /// The files of the estimators.
    folder: Option<tempfile::TempDir>,
    /// The number of rebalances.
    rebalances: u64,
    audited: Revision,
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
            questions: 0,
            stranger: None,
            folder: None,
            rebalances: 0,
            audited: Revision::ZERO,
        }
    }

    /// Starts an estimator for each cluster, or for all but the last one. Their faults come from
    /// separate dice.
    async fn be_estimated(&mut self, seed: u64) {
        self.estimator_dice = Dice(seed + 1_000);
        for _ in CLUSTERS {
            let number = self.estimator_dice.roll(20) as i32;
            self.estimators.push(Estimator::start(Manner::Say(number)).await);
        }
        let folder = tempfile::tempdir().unwrap();
        let named = CLUSTERS.len() - (seed % 2) as usize;
        let named: Vec<_> = CLUSTERS.iter().copied().zip(&self.estimators).take(named).collect();
        let pair = Ca::new("strangers").server(folder.path(), &["127.0.0.1"]);
        self.stranger = Some(Tls { pair, client_ca: None });
        let addresses = AddressFile::open(&addresses(folder.path(), &named)).unwrap();
        let reach = EstimatorAccess {
            addresses: Addresses::File(addresses),
            tls: TlsFiles::default(),
            timeout: PATIENCE,
            tells_assumed: false,
        };
        let clock: Arc<dyn Clock> = self.world.clock.clone();
        self.world.be_estimated(Estimators::new(reach, true, clock)).await;
        self.folder = Some(folder);
    }

    /// May change the fault of one of the estimators.
    async fn misbehave(&mut self) -> Option<String> {
        let dice = &mut self.estimator_dice;
        if self.estimators.is_empty() || dice.roll(4) > 0 {
            return None;
        }
        let (place, number) = (dice.roll(CLUSTERS.len() as u64) as usize, dice.roll(20) as i32);
        let manner = match dice.roll(10) {
            0 => Manner::Say(i32::MAX),
            1 => Manner::Say(-1 - number),
            2 => Manner::Hang,
            3 => Manner::Late(number, PATIENCE * 2),
            4 => Manner::Refuse(2),
            _ => Manner::Say(number),
        };
        let told = format!("the estimator of {}: {manner:?}", CLUSTERS[place]);
        if dice.roll(4) > 0 {
            self.estimators[place].behave(manner);
            return Some(told);
        }
        // The estimator stops between two calls, and another one replaces it: a valid one, or one
        // with the unexpected certificate.
        let stranger = (dice.roll(2) == 0).then(|| self.stranger.clone()).flatten();
        let is_stranger = stranger.is_some();
        let ended = self.estimators.remove(place);
        self.questions += ended.asked().len();
        let address = ended.stop().await;
        self.estimators.insert(place, Estimator::start_at(address, manner, stranger).await);
        Some(format!("{told}, begins anew, stranger: {is_stranger}"))
    }

    async fn go_on(&mut self, seed: u64, steps: usize) -> Result<(), String> {
        let mut taken = Vec::new();
        for _ in 0..steps {
            taken.extend(self.misbehave().await);
            taken.push(self.step().await);
            self.audit().await.map_err(|fault| format!("seed {seed}: {fault}\nafter {taken:#?}"))?;
        }
        self.world.mend();
        self.world.settle().await;
        self.audit().await.map_err(|fault| format!("seed {seed}, at the end: {fault}\nafter {taken:#?}"))?;
        self.rest().await.map_err(|fault| format!("seed {seed}, at the end: {fault}\nafter {taken:#?}"))
    }

    /// Advances the clock past the end of reservations without other changes. A restart, which
    /// decides everything again, must then place no waiting binding (RM3). With estimators, a
    /// restart may time out on one that has responded before, since they use the wall clock.
    async fn rest(&mut self) -> Result<(), String> {
        for seconds in [self.dice.roll(TTL as u64 - 20) as i64, TTL - 20] {
            self.world.clock.advance_seconds(seconds);
            self.world.settle().await;
            // The longest interval between two attempts of a woken binding.
            self.world.pass_seconds(BACKOFF_MAX).await;
            self.audit().await?;
            let waiting = self.waiting();
            self.world.crash().await;
            self.world.settle().await;
            let left_behind: Vec<_> = waiting.into_iter().filter(|key| !self.waiting().contains(key)).collect();
            if !left_behind.is_empty() && self.estimators.is_empty() {
                return Err(format!("{left_behind:?} could have been placed after {seconds} s"));
            }
        }
        Ok(())
    }

    /// Returns the bindings that cannot be placed.
    fn waiting(&self) -> Vec<Key> {
        let keys = APPS.map(|app| Key::namespaced(super::world::RB, "default", format!("{app}-deployment").as_str()));
        let waits = |key: &Key| {
            let binding = self.world.get(key)?;
            Some(condition(&binding, "Scheduled")?["status"] == "False")
        };
        keys.into_iter().filter(|key| waits(key) == Some(true)).collect()
    }

    async fn step(&mut self) -> String {
        let app = self.dice.pick(&APPS);
        let member = self.dice.pick(&CLUSTERS);
        let at = Key::cluster(CLUSTER, member);
        let key = Key::namespaced(super::world::RB, "default", format!("{app}-deployment").as_str());
        let is_there = self.world.get(&key).is_some();
        match self.dice.roll(26) {
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
            20 | 21 => self.rebalance(member).await,
            _ => {
                let turns = self.dice.roll(6);
                for _ in 0..turns {
                    self.world.turn().await;
                }
                format!("{turns} turns")
            }
        }
    }

    /// Creates a rebalance of all workloads, an undo of one, or a drain: they must not assign
    /// capacity twice, either.
    async fn rebalance(&mut self, member: &str) -> String {
        let name = format!("reb-{}", self.rebalances);
        let mut spec = match self.dice.roll(5) {
            0 => json!({"mode": "Fresh"}),
            1 => json!({"mode": "Steady"}),
            2 => json!({"mode": "AsBefore"}),
            3 => json!({"drain": {"clusters": [member]}}),
            _ if self.rebalances == 0 => return "nothing to undo".to_owned(),
            _ => json!({"undo": {"name": format!("reb-{}", self.dice.roll(self.rebalances))}}),
        };
        if self.dice.roll(2) == 0 {
            let strategy = self.dice.pick(&["Direct", "SurgeFirst"]);
            spec["rollout"] = json!({"strategy": strategy, "settle": {"when": "Scheduled"}});
        }
        if spec["drain"].is_null() && spec["undo"].is_null() {
            spec["select"] = json!([{}]);
        }
        let told = spec.to_string();
        let object = json!({"apiVersion": "ballast.dev/v1alpha1", "kind": "ClusterRebalance",
            "metadata": {"name": name}, "spec": spec});
        let is_made = self.world.try_given(object).await.is_ok();
        self.rebalances += u64::from(is_made);
        format!("{name} {told}: {is_made}")
    }

    async fn task(&mut self, spec: Value) -> bool {
        self.world.task(spec).await.is_ok()
    }

    /// Applies and checks all new writes.
    async fn audit(&mut self) -> Result<(), String> {
        for change in self.world.written_since(self.audited).await {
            self.audited = change.revision;
            self.books.enter(&change)?;
        }
        Ok(())
    }
}

/// Reports a correct or wrong status of the application.
fn report(binding: &mut Value, member: &str, other: &str, number: u64, reports_as: u64) {
    let status = match reports_as {
        0 | 1 => json!({"replicas": number}),
        2 => json!({"readyReplicas": number}),
        3 => json!({"replicas": -1, "readyReplicas": 0.5}),
        4 => json!({"replicas": u64::MAX}),
        _ => json!({"active": number}),
    };
    // Variant six contains only `applied`.
    let item = json!({"clusterName": if number == 7 { other } else { member }, "status": status, "applied": number.is_multiple_of(2)});
    let reports = &mut binding["status"]["aggregatedStatus"];
    let mut known: Vec<Value> = reports.as_array().cloned().unwrap_or_default();
    known.retain(|known| known["clusterName"] != item["clusterName"]);
    known.push(item);
    *reports = Value::Array(known);
}
