//! Randomized simulation of a fleet under a RebalanceSchedule with an objective, behind gates that
//! allow, deny or do not respond. Meanwhile workloads are scaled, prices change, a cluster fails
//! and recovers, users pause, abort and suspend, agents report late, the store fails, and the
//! process is killed between any two steps.
//!
//! `safe_judge` checks every row for bounds and floors. `Shape` checks the rest: no cluster is
//! overcommitted, no wave begins while a gate blocks the previous one, no plan for Cost raises the
//! cost, and a schedule has at most one rebalance in progress. It counts the replicas that a later
//! run moves back. At the end every rebalance has finished. `cargo sim -- --only shape` runs
//! further seeds.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use ballast::api::ballast::v1alpha1::Gate;
use ballast::k8s::{Key, Revision};
use ballast::rebalance::gates::{GateAnswer, GateClient, WaveQuestion};
use ballast::store::{Change, Operation};
use serde_json::{Value, json};

use super::cause_judge;
use super::fleet::{aggregated, binding, by_room, no_execute, small_cluster};
use super::safe_judge::{Judge, Judged};
use super::simulation::{Dice, Mishap, is_forgetful};
use super::world::{CLUSTER, CREB, MOVES, RB, World, condition};

pub const STEPS: usize = 120;
const CLUSTERS: [&str; 3] = ["member1", "member2", "member3"];
/// The annotation with the price of a core in a cluster.
const PRICE: &str = "ballast.dev/price-cpu";
/// Prices of clusters. Cost ignores a cluster without one.
const PRICES: [Option<&str>; 4] = [None, Some("1"), Some("2"), Some("4")];
/// The capacity of each cluster in pods.
const ROOM: [u32; 3] = [40, 30, 20];
const APPS: [&str; 8] = ["web", "db", "cache", "queue", "mail", "batch", "search", "log"];
/// An upper bound on the turns until the workers are idle.
const TURNS_MAX: usize = 500;
/// Longer than any timeout, grace period or backoff of these simulations, in tens of seconds.
const TENS_OF_SECONDS_MAX: usize = 240;
/// The maximum of replicas that a later run moves back, per 100 that the schedules move.
const TAKEN_BACK_MAX: usize = 10;

#[tokio::test]
async fn sg13_and_sg20_a_schedule_keeps_bounds_floors_room_and_gates_whatever_happens_and_takes_little_back() {
    let (mut judged, mut seen) = (Judged::default(), Seen::default());
    for seed in 0..crate::support::size::sized(6, 32) {
        let (rows, shape) = live(seed, STEPS).await.unwrap_or_else(|fault| panic!("{fault}"));
        judged.add(rows);
        seen.add(shape);
    }
    let Seen { runs, moved, taken_back, waves, cheaper } = seen;
    let all = [runs, moved, waves, cheaper, judged.begun, judged.summaries, judged.floors, judged.settled];
    assert!(all.iter().all(|count| *count > 0), "too little happened to judge: {seen:?} {judged:?}");
    assert!(taken_back * 100 <= moved * TAKEN_BACK_MAX, "{taken_back} of {moved} replicas were taken back");
}

/// Counters of one simulation.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    /// Rebalances that schedules have created.
    pub runs: usize,
    /// Replicas that they have moved.
    pub moved: usize,
    /// Of those, replicas that a later run moved back, without another change of their workload in
    /// between.
    pub taken_back: usize,
    /// Moves that began behind gates.
    pub waves: usize,
    /// Plans for Cost with a saving.
    pub cheaper: usize,
}

impl Seen {
    fn add(&mut self, other: Seen) {
        self.runs += other.runs;
        self.moved += other.moved;
        self.taken_back += other.taken_back;
        self.waves += other.waves;
        self.cheaper += other.cheaper;
    }
}

/// A gate server that allows two of three requests.
#[derive(Default)]
struct Moody {
    asked: AtomicU64,
}

#[async_trait]
impl GateClient for Moody {
    async fn ask(&self, _: &Gate, _: &WaveQuestion) -> GateAnswer {
        match self.asked.fetch_add(1, Ordering::Relaxed) % 3 {
            0 => GateAnswer::no("not yet"),
            _ => GateAnswer::yes("well"),
        }
    }
}

struct Life {
    world: World,
    dice: Dice,
    bindings: Vec<Key>,
    schedule: Key,
}

/// Runs one simulation of `steps` steps. Returns the counts of checks, or the first violation.
pub async fn live(seed: u64, steps: usize) -> Result<(Judged, Seen), String> {
    let mut life = Life::begin(seed).await;
    let mut taken = Vec::new();
    for _ in 0..steps {
        let step = life.step().await;
        taken.push(format!("{} {} {step}", life.world.client().view().revision, life.world.now()));
    }
    life.end().await.map_err(|fault| format!("seed {seed}: {fault}\nafter {taken:#?}"))
}

impl Life {
    async fn begin(seed: u64) -> Life {
        let mut world = World::new().await;
        if is_forgetful(seed) {
            world.be_forgetful().await;
        }
        world.be_gated(Arc::new(Moody::default())).await;
        let mut dice = Dice(seed);
        for (name, pods) in CLUSTERS.into_iter().zip(ROOM) {
            let mut cluster = small_cluster(name, pods);
            // The first one always has a price, so that Cost has one known price.
            if let Some(price) = Some("3").filter(|_| name == CLUSTERS[0]).or_else(|| dice.pick(&PRICES)) {
                cluster["metadata"]["annotations"] = json!({PRICE: price});
            }
            world.given(cluster).await;
        }
        let mut bindings = Vec::new();
        for app in APPS {
            let placement = if dice.roll(4) == 0 { aggregated() } else { by_room() };
            bindings.push(world.given(binding(app, 2 + dice.roll(6) as i32, placement)).await);
        }
        let schedule = world.given(schedule(&mut dice)).await;
        let mut life = Life { world, dice, bindings, schedule };
        for _ in 0..4 {
            life.skew().await;
        }
        life.report_all().await;
        life.turns(TURNS_MAX).await;
        life
    }

    async fn step(&mut self) -> String {
        let at = self.dice.below(APPS.len());
        let (app, key) = (APPS[at], self.bindings[at].clone());
        let member = self.dice.pick(&CLUSTERS);
        match self.dice.roll(26) {
            0 | 1 => {
                let more = self.dice.pick(&[-1, 1]);
                let change = |binding: &mut Value| {
                    let replicas = binding["spec"]["replicas"].as_i64().unwrap() + more;
                    binding["spec"]["replicas"] = replicas.clamp(1, 9).into();
                };
                format!("{app} {more:+}: {}", self.world.try_edit(&key, change).await.is_ok())
            }
            2 => {
                let taints = if self.dice.roll(2) == 0 { json!([no_execute("down")]) } else { json!([]) };
                let change = |cluster: &mut Value| cluster["spec"]["taints"] = taints.clone();
                let done = self.world.try_edit(&Key::cluster(CLUSTER, member), change).await.is_ok();
                format!("{member} has {taints}: {done}")
            }
            3 => {
                let (field, value) = self.dice.pick(&[("paused", true), ("paused", false), ("abort", true)]);
                let running = self.rebalances().into_iter().find(|key| !self.is_over(key));
                let Some(key) = running else { return "nothing to steer".to_owned() };
                let done = self.world.try_edit(&key, |object| object["spec"][field] = value.into()).await;
                format!("{} {field} {value}: {}", key.name, done.is_ok())
            }
            4 => {
                let is_suspended = self.dice.roll(3) == 0;
                let change = |object: &mut Value| object["spec"]["suspend"] = is_suspended.into();
                format!("suspended {is_suspended}: {}", self.world.try_edit(&self.schedule, change).await.is_ok())
            }
            24 | 25 => {
                let price = self.dice.pick(&PRICES);
                let change = |cluster: &mut Value| match price {
                    Some(price) => cluster["metadata"]["annotations"][PRICE] = price.into(),
                    None => {
                        let annotations = cluster["metadata"]["annotations"].as_object_mut();
                        annotations.and_then(|annotations| annotations.remove(PRICE));
                    }
                };
                let done = self.world.try_edit(&Key::cluster(CLUSTER, member), change).await.is_ok();
                format!("a core of {member} costs {price:?}: {done}")
            }
            5 => Mishap::StoreFails.befall(&mut self.world, &mut self.dice).await,
            6 => Mishap::StoreIsMended.befall(&mut self.world, &mut self.dice).await,
            7 | 8 => Mishap::Crash.befall(&mut self.world, &mut self.dice).await,
            9 | 10 => self.skew().await,
            11..=13 => self.report_all().await,
            14..=18 => {
                // A reservation outlasts the time without reports.
                let seconds = self.dice.pick(&[1, 30, 60, 120]);
                let said = self.report_all().await;
                self.world.clock.advance_seconds(seconds);
                format!("{said}, and {seconds} s go by")
            }
            _ => {
                let turns = self.dice.below(8);
                self.turns(turns).await;
                format!("{turns} turns")
            }
        }
    }

    /// Moves a workload to one cluster with enough capacity, as a user.
    async fn skew(&mut self) -> String {
        let (at, place) = (self.dice.below(APPS.len()), self.dice.below(CLUSTERS.len()));
        let (app, member) = (APPS[at], CLUSTERS[place]);
        let bindings = self.bindings.iter().map(|key| self.world.get(key).unwrap());
        let on = |binding: &Value| shares(&binding["spec"]["clusters"]).get(member).copied().unwrap_or_default();
        let all: i64 = bindings.map(|binding| on(&binding)).sum();
        let binding = self.world.get(&self.bindings[at]).unwrap();
        let replicas = binding["spec"]["replicas"].as_i64().unwrap();
        if all - on(&binding) + replicas > i64::from(ROOM[place]) {
            return format!("{member} has no room for {app}");
        }
        let change = |binding: &mut Value| {
            binding["spec"]["clusters"] = json!([{"name": member, "replicas": binding["spec"]["replicas"]}]);
        };
        format!("{app} is all on {member}: {}", self.world.put(&self.bindings[at], change).await.is_ok())
    }

    /// Reports everything as ready where it is assigned or being evicted.
    async fn report_all(&mut self) -> String {
        let mut is_stored = true;
        for key in &self.bindings {
            let report = |binding: &mut Value| {
                let mut there = shares(&binding["spec"]["clusters"]);
                for task in binding["spec"]["gracefulEvictionTasks"].as_array().into_iter().flatten() {
                    let cluster = task["fromCluster"].as_str().unwrap().to_owned();
                    there.entry(cluster).or_insert(task["replicas"].as_i64().unwrap_or_default());
                }
                let reports = there.into_iter().map(|(cluster, replicas)| {
                    json!({"clusterName": cluster, "applied": true, "health": "Healthy",
                        "status": {"replicas": replicas, "readyReplicas": replicas}})
                });
                binding["status"]["aggregatedStatus"] = reports.collect();
            };
            let mut reported = self.world.get(key).unwrap();
            report(&mut reported);
            if Some(reported) != self.world.get(key) {
                is_stored &= self.world.try_edit(key, report).await.is_ok();
            }
        }
        format!("reports are stored: {is_stored}")
    }

    async fn turns(&mut self, turns: usize) {
        for _ in 0..turns {
            if !self.world.turn().await {
                break;
            }
        }
    }

    fn rebalances(&self) -> Vec<Key> {
        self.world.client().view().list(CREB, None).map(|object| object.key.clone()).collect()
    }

    fn is_over(&self, key: &Key) -> bool {
        let phase = &self.world.get(key).unwrap_or_default()["status"]["phase"];
        phase == "Completed" || phase == "Aborted"
    }

    fn rests(&self, key: &Key) -> bool {
        let binding = self.world.get(key).unwrap();
        let is_scheduled = condition(&binding, "Scheduled").is_some_and(|known| known["status"] == "True");
        // A pass that failed at the store is retried later.
        let there: i64 = shares(&binding["spec"]["clusters"]).values().sum();
        is_scheduled
            && Some(there) == binding["spec"]["replicas"].as_i64()
            && binding["spec"]["gracefulEvictionTasks"].as_array().is_none_or(Vec::is_empty)
    }

    /// Ends the faults, suspends the schedule, and lets its rebalances finish.
    async fn end(mut self) -> Result<(Judged, Seen), String> {
        self.world.mend();
        for name in CLUSTERS {
            self.world.edit(&Key::cluster(CLUSTER, name), |cluster| cluster["spec"]["taints"] = json!([])).await;
        }
        self.world.edit(&self.schedule, |object| object["spec"]["suspend"] = true.into()).await;
        for key in self.rebalances() {
            self.world.edit(&key, |object| object["spec"]["paused"] = false.into()).await;
        }
        let mut is_at_rest = false;
        for _ in 0..TENS_OF_SECONDS_MAX {
            self.report_all().await;
            self.turns(TURNS_MAX).await;
            let are_over = self.rebalances().iter().all(|key| self.is_over(key));
            is_at_rest = are_over && self.bindings.iter().all(|key| self.rests(key));
            if is_at_rest {
                break;
            }
            // A gate may have paused it. A resume by a user takes two edits.
            for key in self.rebalances() {
                let object = self.world.get(&key).unwrap();
                if object["status"]["phase"] == "Paused" {
                    let is_paused = object["spec"]["paused"] == true;
                    self.world.edit(&key, |object| object["spec"]["paused"] = (!is_paused).into()).await;
                }
            }
            self.world.clock.advance_seconds(10);
        }
        if !is_at_rest {
            let running: Vec<_> = self
                .rebalances()
                .into_iter()
                .filter(|key| !self.is_over(key))
                .map(|key| self.world.get(&key))
                .collect();
            return Err(format!("never at rest: {running:#?}"));
        }
        let (mut judge, mut shape) = (Judge::default(), Shape::default());
        for row in self.world.written_since(Revision::ZERO).await {
            judge.row(&row)?;
            shape.row(&row).map_err(|fault| format!("at revision {} of {}: {fault}", row.revision, row.key))?;
        }
        cause_judge::judge(&self.world).await?;
        judge.end().map(|()| (judge.judged, shape.seen))
    }
}

/// Returns a schedule for every two minutes, with a random objective, with or without a gate.
fn schedule(dice: &mut Dice) -> Value {
    let goal = dice.pick(&["Balance", "Balance", "Balance", "Pack", "Survive", "Cost", "Cost"]);
    let mut objective = json!({"goal": goal});
    if matches!(goal, "Balance" | "Pack") {
        objective["resource"] = "cpu".into();
    }
    let mut rollout = json!({"maxConcurrent": dice.pick(&[1, 2, 4]),
        "settle": {"when": dice.pick(&["Applied", "Healthy"]), "timeoutSeconds": 120}});
    if dice.roll(3) > 0 {
        let on_failure = dice.pick(&["Abort", "Pause", "Undo"]);
        let gate = json!({"name": "smoke", "webhook": {"url": "https://gates.example/hooks/smoke"},
            "timeoutSeconds": dice.pick(&[5, 60]), "onFailure": on_failure});
        rollout["gates"] = json!([gate]);
    }
    if dice.roll(2) == 0 {
        rollout["strategy"] = "SurgeFirst".into();
        rollout["minAvailable"] = dice.pick(&["75%", "100%"]).into();
    }
    let template = json!({"spec": {"select": [{}], "objective": objective, "rollout": rollout}});
    json!({"apiVersion": "ballast.dev/v1alpha1", "kind": "RebalanceSchedule", "metadata": {"name": "shape"},
        "spec": {"schedule": "*/2 * * * *", "concurrencyPolicy": "Forbid", "template": template,
            "successfulHistoryLimit": 100, "failedHistoryLimit": 100}})
}

/// Checks capacity, gates and runs row by row.
#[derive(Default)]
struct Shape {
    bindings: BTreeMap<Key, Value>,
    rebalances: BTreeMap<String, Value>,
    /// The prices of the clusters that have one.
    prices: BTreeMap<Key, Value>,
    /// The prices that each run for Cost was planned with.
    planned_by: BTreeMap<String, BTreeMap<Key, Value>>,
    /// Moves that have begun.
    begun: BTreeSet<String>,
    /// The rebalance of a move that begins behind gates, and the move.
    begins: Option<(String, String)>,
    /// The changes by the newest run, by workload, as long as nothing else changes it.
    left: BTreeMap<String, Left>,
    seen: Seen,
}

/// The changes of a workload by one run.
struct Left {
    run: String,
    /// The desired replicas.
    replicas: Value,
    /// The prices of the plan, if its goal was Cost.
    prices: BTreeMap<Key, Value>,
    /// The change of each cluster.
    by_cluster: BTreeMap<String, i64>,
}

impl Shape {
    fn row(&mut self, row: &Change) -> Result<(), String> {
        let object: Value = serde_json::from_slice(&row.object).map_err(|error| error.to_string())?;
        let is_gone = row.operation == Operation::Delete;
        let uid = object["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        match row.key.resource {
            CLUSTER => drop(self.prices.insert(row.key.clone(), object["metadata"]["annotations"][PRICE].clone())),
            RB if is_gone => drop(self.bindings.remove(&row.key)),
            RB => return self.binding(row.key.clone(), object),
            CREB if is_gone => drop(self.rebalances.remove(&uid)),
            CREB => return self.rebalance(uid, object),
            MOVES if !is_gone => return self.read_move(uid, &object),
            _ => {}
        }
        Ok(())
    }

    /// Checks that no cluster has more pods assigned than its capacity.
    fn binding(&mut self, key: Key, object: Value) -> Result<(), String> {
        let before = self.bindings.insert(key, object.clone()).unwrap_or_default();
        let (was, is) = (shares(&before["spec"]["clusters"]), shares(&object["spec"]["clusters"]));
        for (name, room) in CLUSTERS.into_iter().zip(ROOM) {
            if is.get(name) <= was.get(name) {
                continue;
            }
            let on = |binding: &Value| shares(&binding["spec"]["clusters"]).get(name).copied().unwrap_or_default();
            let all: i64 = self.bindings.values().map(on).sum();
            if all > i64::from(room) {
                return Err(format!("{name} has room for {room}, and gets {all}"));
            }
        }
        Ok(())
    }

    fn rebalance(&mut self, uid: String, object: Value) -> Result<(), String> {
        if let Some((_, begun)) = self.begins.take_if(|(owner, _)| *owner == uid)
            && let Some(gate) = condition(&object, "Gate").filter(|gate| gate["status"] == "False")
        {
            return Err(format!("{begun} begins while a gate holds the wave before: {gate:?}"));
        }
        if !object["status"]["planHash"].is_null() && !self.planned_by.contains_key(&uid) {
            self.planned(&uid, &object)?;
        }
        let is_new = self.rebalances.insert(uid, object).is_none();
        self.seen.runs += usize::from(is_new);
        let of_the_schedule = |object: &&Value| object["metadata"]["labels"]["ballast.dev/schedule"] == "shape";
        let is_running = |object: &&Value| {
            let phase = &object["status"]["phase"];
            phase != "Completed" && phase != "Aborted"
        };
        let running = self.rebalances.values().filter(of_the_schedule).filter(is_running).count();
        if running > 1 { Err(format!("{running} runs of one schedule at once")) } else { Ok(()) }
    }

    /// Checks that a plan for Cost does not raise the cost, and uses the current prices.
    fn planned(&mut self, uid: &str, object: &Value) -> Result<(), String> {
        let is_for_cost = object["spec"]["objective"]["goal"] == "Cost";
        let prices = if is_for_cost { self.prices.clone() } else { BTreeMap::new() };
        self.planned_by.insert(uid.to_owned(), prices);
        let more = object["status"]["cost"]["differencePerHour"].as_f64().filter(|_| is_for_cost).unwrap_or_default();
        self.seen.cheaper += usize::from(more < 0.0);
        if more > 0.0 { Err(format!("a plan for Cost costs {more} more: {:#}", object["status"])) } else { Ok(()) }
    }

    fn read_move(&mut self, uid: String, object: &Value) -> Result<(), String> {
        let owner = object["metadata"]["ownerReferences"][0]["uid"].as_str().unwrap_or_default();
        let rebalance = self.rebalances.get(owner).cloned().unwrap_or_default();
        let has_begun = !object["status"]["startedAt"].is_null();
        if has_begun && self.begun.insert(uid) && rebalance["spec"]["rollout"]["gates"].is_array() {
            self.seen.waves += 1;
            // The rebalance is the last row of each transaction, and contains whether the move may
            // begin.
            self.begins = Some((owner.to_owned(), object["metadata"]["name"].to_string()));
        }
        if object["status"]["phase"] == "Settled" && rebalance["spec"]["undo"].is_null() {
            self.settled(owner, object);
        }
        Ok(())
    }

    fn settled(&mut self, run: &str, object: &Value) {
        let (from, to) = (shares(&object["spec"]["from"]), shares(&object["spec"]["to"]));
        let mut by_cluster = to.clone();
        for (name, count) in &from {
            *by_cluster.entry(name.clone()).or_default() -= count;
        }
        let moved: i64 = by_cluster.values().filter(|count| **count > 0).sum();
        self.seen.moved += moved as usize;
        let name = object["spec"]["binding"]["name"].as_str().unwrap_or_default().to_owned();
        let binding = self.bindings.iter().find(|(key, _)| *key.name == *name).map(|(_, binding)| binding);
        let replicas = binding.map(|binding| binding["spec"]["replicas"].clone()).unwrap_or_default();
        let prices = self.planned_by.get(run).cloned().unwrap_or_default();
        let is_like = |it: &&Left| it.run != run && it.replicas == replicas && it.prices == prices;
        if let Some(before) = self.left.get(&name).filter(is_like) {
            let back = by_cluster.iter().filter(|(_, count)| **count > 0).map(|(cluster, count)| {
                let left = -before.by_cluster.get(cluster).copied().unwrap_or_default();
                left.clamp(0, *count)
            });
            self.seen.taken_back += back.sum::<i64>() as usize;
        }
        self.left.insert(name, Left { run: run.to_owned(), replicas, prices, by_cluster });
    }
}

fn shares(list: &Value) -> BTreeMap<String, i64> {
    let list = list.as_array().map_or(&[][..], Vec::as_slice);
    let share = |share: &Value| Some((share["name"].as_str()?.to_owned(), share["replicas"].as_i64()?));
    list.iter().filter_map(share).collect()
}
