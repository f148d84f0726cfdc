//! Randomized simulation with rebalances: bounded, surging, paused, approved, aborted, deleted,
//! undone, several over the same bindings, within limits and quotas. Meanwhile agents report late,
//! wrongly or never, clusters fail, disappear and fill up during moves, users scale, trigger and
//! edit, the store fails, the clock steps, and the process is killed between any two steps.
//!
//! `safe_judge` checks every written row, and no row may overcommit a cluster (`room_books`). At
//! the end every rebalance has finished, and no binding is in progress. In runs without foreign
//! changes, a drain empties its cluster, and an undo (also of a drain) restores every target. A
//! failing seed is printed with its events. `cargo sim -- --only rebalance --seed 100 --seeds 200`
//! runs further and longer simulations.

use ballast::k8s::{Key, Revision};
use serde_json::{Value, json};

use super::cause_judge;
use super::fleet::{aggregated, binding, by_room, cluster, deployment, no_execute, quota, small_cluster};
use super::safe_judge::{Judge, Judged, is_divided};
use super::simulation::{Dice, Mishap, is_forgetful};
use super::world::{CLUSTER, QUOTAS, World, condition};

pub const STEPS: usize = 60;
const CLUSTERS: [&str; 3] = ["member1", "member2", "member3"];
const APPS: [&str; 6] = ["web", "db", "cache", "queue", "mail", "agent"];
#[cfg(test)]
const SEED_TOLD_TWICE: u64 = 1;
/// An upper bound on the turns until the workers are idle.
const TURNS_MAX: usize = 500;
/// Longer than any timeout, grace period or backoff of these simulations, in tens of seconds.
const TENS_OF_SECONDS_MAX: usize = 120;

struct Life {
    world: World,
    dice: Dice,
    bindings: Vec<Key>,
    rebalances: Vec<Key>,
    made: usize,
}

#[tokio::test]
async fn whatever_happens_bounds_hold_the_floor_holds_counts_are_true_and_every_rebalance_ends() {
    let mut judged = Judged::default();
    for seed in seeds(6, 24) {
        judged.add(live(seed, STEPS).await.unwrap_or_else(|fault| panic!("{fault}")));
    }
    let Judged { summaries, begun, limited, bounded, split, floors, surges, drained, charged, settled, failed, .. } =
        judged;
    let Judged { superseded, arrived, .. } = judged;
    let all = [summaries, begun, limited, bounded, split, floors, surges, drained, charged, settled, failed];
    let all = all.into_iter().chain([superseded, arrived]).collect::<Vec<_>>();
    assert!(all.iter().all(|count| *count > 0), "too little happened to judge: {judged:?}");
}

#[tokio::test]
async fn an_undo_of_what_nobody_disturbed_restores_every_target_over_kills_at_any_step() {
    for seed in seeds(4, 16) {
        undo(seed).await.unwrap_or_else(|fault| panic!("{fault}"));
    }
}

#[tokio::test]
async fn rm37_an_outage_that_nobody_disturbs_is_over_after_one_rebalance_over_kills_at_any_step() {
    for seed in seeds(4, 16) {
        homecoming(seed).await.unwrap_or_else(|fault| panic!("{fault}"));
    }
}

#[tokio::test]
async fn rm34_an_afternoon_that_nobody_disturbs_empties_a_cluster_and_ends_as_it_began_over_kills_at_any_step() {
    for seed in seeds(4, 16) {
        afternoon(seed).await.unwrap_or_else(|fault| panic!("{fault}"));
    }
}

#[tokio::test]
async fn a_life_is_the_same_each_time() {
    let first = told(SEED_TOLD_TWICE).await;
    assert_eq!(told(SEED_TOLD_TWICE).await, first, "seed {SEED_TOLD_TWICE}");
}

/// Returns the seeds from zero: `usual` ones in `cargo test`, `long` ones in CI.
#[cfg(test)]
fn seeds(usual: u64, long: u64) -> std::ops::Range<u64> {
    0..crate::support::size::sized(usual, long)
}

#[cfg(test)]
/// Returns every row of a run with all faults.
async fn told(seed: u64) -> Vec<(String, String)> {
    let mut life = Life::begin(seed).await;
    for _ in 0..STEPS {
        life.step().await;
    }
    let rows = life.world.written_since(Revision::ZERO).await.into_iter();
    rows.map(|row| (row.key.to_string(), String::from_utf8_lossy(&row.object).into_owned())).collect()
}

/// Runs one simulation of `steps` steps with all faults. Returns the counts of checks, or the first
/// violation.
pub async fn live(seed: u64, steps: usize) -> Result<Judged, String> {
    let mut life = Life::begin(seed).await;
    let mut taken = vec![life.skew().await, life.skew().await, life.skew().await];
    for _ in 0..steps {
        let step = life.step().await;
        taken.push(format!("{} {} {step}", life.world.client().view().revision, life.world.now()));
    }
    life.end().await.map_err(|fault| format!("seed {seed}: {fault}\nafter {taken:#?}"))
}

/// Runs one simulation with faults of the server alone.
pub async fn undo(seed: u64) -> Result<(), String> {
    let mut life = Life::begin(seed).await;
    for _ in 0..6 {
        life.skew().await;
    }
    life.turns(TURNS_MAX).await;
    let before = life.placed();
    let mut taken = Vec::new();
    let bounds = life.bounds(json!({"select": [{}]}));
    for spec in [bounds, json!({"undo": {"name": "reb-0"}})] {
        let mut spec = if spec["rollout"].is_null() { life.bounds(spec) } else { spec };
        spec.as_object_mut().unwrap().remove("approval");
        spec["rollout"].as_object_mut().unwrap().remove("abortOn");
        taken.push(life.create("ClusterRebalance", spec).await);
        for _ in 0..12 {
            let what = match life.dice.roll(5) {
                0 => Mishap::StoreFails.befall(&mut life.world, &mut life.dice).await,
                1 => Mishap::Crash.befall(&mut life.world, &mut life.dice).await,
                2 => Mishap::StoreIsMended.befall(&mut life.world, &mut life.dice).await,
                3 => "nothing".to_owned(),
                _ => life.report_all().await,
            };
            let turns = life.dice.roll(5) as usize;
            taken.push(format!("{what}, {turns} turns"));
            life.turns(turns).await;
        }
        life.world.mend();
        life.finish().await.map_err(|fault| format!("seed {seed}: {fault}\nafter {taken:#?}"))?;
    }
    let after = life.placed();
    let is_back = if before == after { Ok(()) } else { Err(format!("{before:?} has become {after:?}")) };
    let judged = is_back.and(life.judge().await);
    judged.map(drop).map_err(|fault| format!("seed {seed}: {fault}\nafter {taken:#?}"))
}

/// Runs one simulation with an outage and faults of the server alone: every target returns.
pub async fn homecoming(seed: u64) -> Result<(), String> {
    let mut life = Life::begin(seed).await;
    life.report_all().await;
    life.turns(TURNS_MAX).await;
    let before = life.placed();
    let lost = Key::cluster(CLUSTER, life.dice.pick(&CLUSTERS));
    let mut taken = vec![format!("{} is lost", lost.name)];
    for taints in [json!([no_execute("down")]), json!([])] {
        life.world.edit(&lost, |cluster| cluster["spec"]["taints"] = taints.clone()).await;
        taken.push(life.mishaps().await);
        life.world.mend();
        life.finish().await.map_err(|fault| format!("seed {seed}: {fault}\nafter {taken:#?}"))?;
    }
    let mut spec = life.bounds(json!({"select": [{"displaced": true}]}));
    for field in ["approval", "limits", "objective"] {
        spec.as_object_mut().unwrap().remove(field);
    }
    spec["rollout"].as_object_mut().unwrap().remove("abortOn");
    spec["mode"] = "AsBefore".into();
    taken.push(life.create("ClusterRebalance", spec).await);
    taken.push(life.mishaps().await);
    life.world.mend();
    life.finish().await.map_err(|fault| format!("seed {seed}: {fault}\nafter {taken:#?}"))?;
    let after = life.placed();
    let is_back = if before == after { Ok(()) } else { Err(format!("{before:?} has become {after:?}")) };
    is_back.and(life.judge().await).map(drop).map_err(|fault| format!("seed {seed}: {fault}\nafter {taken:#?}"))
}

/// Runs one simulation that drains a cluster, reopens it and restores its workloads, with faults of
/// the server alone.
pub async fn afternoon(seed: u64) -> Result<(), String> {
    let mut life = Life::begin(seed).await;
    for _ in 0..3 {
        life.skew().await;
    }
    life.report_all().await;
    life.turns(TURNS_MAX).await;
    let before = life.placed();
    let member = life.dice.pick(&CLUSTERS);
    let mut taken = Vec::new();
    let told = |fault: String, taken: &[String]| format!("seed {seed}, drain of {member}: {fault}\nafter {taken:#?}");
    for spec in [json!({"drain": {"clusters": [member]}}), json!({"undo": {"name": "reb-0"}})] {
        let is_undo = spec["drain"].is_null();
        if is_undo {
            let open = |cluster: &mut Value| cluster["spec"]["taints"] = json!([]);
            life.world.edit(&Key::cluster(CLUSTER, member), open).await;
        }
        let mut spec = life.bounds(spec);
        for field in ["approval", "limits", "mode"] {
            spec.as_object_mut().unwrap().remove(field);
        }
        spec["rollout"].as_object_mut().unwrap().remove("abortOn");
        if is_undo && life.dice.roll(2) == 0 {
            // It inherits the rollout of the drain.
            spec.as_object_mut().unwrap().remove("rollout");
        }
        taken.push(life.create("ClusterRebalance", spec).await);
        taken.push(life.mishaps().await);
        life.world.mend();
        life.finish().await.map_err(|fault| told(fault, &taken))?;
        let stays = |key: &&Key| {
            let binding = life.world.get(key).unwrap();
            is_divided(&binding) && life.world.placed(key).contains(member)
        };
        if let Some(key) = life.bindings.iter().find(stays).filter(|_| !is_undo) {
            return Err(told(format!("{key} stays: {}", life.world.placed(key)), &taken));
        }
    }
    let after = life.placed();
    let is_back = if before == after { Ok(()) } else { Err(format!("{before:?} has become {after:?}")) };
    is_back.and(life.judge().await).map(drop).map_err(|fault| told(fault, &taken))
}

impl Life {
    /// Injects faults of the server, while agents report.
    async fn mishaps(&mut self) -> String {
        let mut taken = Vec::new();
        for _ in 0..12 {
            let what = match self.dice.roll(5) {
                0 => Mishap::StoreFails.befall(&mut self.world, &mut self.dice).await,
                1 => Mishap::Crash.befall(&mut self.world, &mut self.dice).await,
                2 => Mishap::StoreIsMended.befall(&mut self.world, &mut self.dice).await,
                3 => "nothing".to_owned(),
                _ => self.report_all().await,
            };
            let turns = self.dice.roll(5) as usize;
            taken.push(format!("{what}, {turns} turns"));
            self.turns(turns).await;
        }
        taken.join("; ")
    }

    async fn begin(seed: u64) -> Life {
        let mut world = World::new().await;
        if is_forgetful(seed) {
            world.be_forgetful().await;
        }
        for name in CLUSTERS {
            world.given(cluster(name)).await;
        }
        let mut bindings = Vec::new();
        for app in APPS {
            bindings.push(world.given(first_binding(app)).await);
        }
        world.settle().await;
        Life { world, dice: Dice(seed), bindings, rebalances: Vec::new(), made: 0 }
    }

    async fn step(&mut self) -> String {
        let member = self.dice.pick(&CLUSTERS);
        let at = self.dice.roll(APPS.len() as u64) as usize;
        let (app, key) = (APPS[at], self.bindings[at].clone());
        match self.dice.roll(36) {
            0..=2 => self.skew().await,
            3..=5 => {
                let kind = self.dice.pick(&["ClusterRebalance", "ClusterRebalance", "Rebalance"]);
                let select = if self.dice.roll(3) == 0 { json!([{"placedOn": [member]}]) } else { json!([{}]) };
                let spec = self.bounds(json!({"select": select}));
                self.create(kind, spec).await
            }
            6 if !self.rebalances.is_empty() => {
                let undone = self.a_rebalance();
                let spec = self.bounds(json!({"undo": {"name": *undone.name}}));
                let kind = if undone.namespace.is_empty() { "ClusterRebalance" } else { "Rebalance" };
                self.create(kind, spec).await
            }
            7..=9 if !self.rebalances.is_empty() => self.change_a_rebalance().await,
            10 => {
                let replicas = self.dice.roll(9);
                let done = self.edit(&key, |binding| binding["spec"]["replicas"] = replicas.into()).await;
                format!("scale {app} to {replicas}: {done}")
            }
            11 => {
                let done = self.world.task(json!({"targetRefResource": [deployment(app)]})).await.is_ok();
                format!("task for {app}: {done}")
            }
            12 | 13 => self.change_a_cluster(member).await,
            14 => {
                let placement = self.dice.pick(&[by_room, aggregated, everywhere])();
                let done = self.edit(&key, |binding| binding["spec"]["placement"] = placement.clone()).await;
                format!("{app} is placed otherwise: {done}")
            }
            15 if self.dice.roll(2) == 0 => {
                let gone = self.world.get(&key).is_some() && self.world.try_delete(&key).await.is_ok();
                let turns = self.dice.roll(3) as usize;
                self.turns(turns).await;
                let is_missing = self.world.get(&key).is_none();
                let made = is_missing && self.world.try_given(first_binding(app)).await.is_ok();
                format!("{app} goes: {gone}, {turns} turns, and is made anew: {made}")
            }
            15 | 16 => Mishap::ClockSteps.befall(&mut self.world, &mut self.dice).await,
            17 => Mishap::StoreFails.befall(&mut self.world, &mut self.dice).await,
            18 => Mishap::StoreIsMended.befall(&mut self.world, &mut self.dice).await,
            19 | 20 => Mishap::Crash.befall(&mut self.world, &mut self.dice).await,
            25 => self.change_the_quota().await,
            26 => {
                let mut drain = json!({"clusters": [member]});
                if self.dice.roll(3) == 0 {
                    drain["includeDuplicated"] = true.into();
                }
                let mut spec = self.bounds(json!({"drain": drain}));
                spec.as_object_mut().unwrap().remove("mode");
                self.create("ClusterRebalance", spec).await
            }
            21..=24 => {
                let said = self.dice.roll(10);
                let done = self.edit(&key, |binding| say(binding, said)).await;
                format!("{app} is reported in way {said}: {done}")
            }
            _ => {
                let turns = self.dice.roll(6) as usize;
                self.turns(turns).await;
                format!("{turns} turns")
            }
        }
    }

    async fn change_a_rebalance(&mut self) -> String {
        let key = self.a_rebalance();
        if self.world.get(&key).is_none() {
            return format!("{} is gone", key.name);
        }
        let (field, value) =
            self.dice.pick(&[("paused", true), ("paused", false), ("approved", true), ("abort", true), ("", true)]);
        let done = match field {
            "" => self.world.try_delete(&key).await.is_ok(),
            _ => self.world.try_edit(&key, |object| object["spec"][field] = value.into()).await.is_ok(),
        };
        format!("{} {} {value}: {done}", key.name, if field.is_empty() { "goes" } else { field })
    }

    async fn change_a_cluster(&mut self, member: &str) -> String {
        let key = Key::cluster(CLUSTER, member);
        let is_there = self.world.get(&key).is_some();
        match self.dice.roll(6) {
            _ if !is_there => format!("{member} comes: {}", self.world.try_given(cluster(member)).await.is_ok()),
            0 => format!("{member} goes: {}", self.world.try_delete(&key).await.is_ok()),
            what @ (1 | 2) => {
                let taints = if what == 1 { json!([no_execute("down")]) } else { json!([]) };
                let change = |cluster: &mut Value| cluster["spec"]["taints"] = taints.clone();
                format!("{member} has {taints}: {}", self.world.try_edit(&key, change).await.is_ok())
            }
            _ => {
                let pods = self.dice.pick(&[0, 3, 8, 1_000]);
                let status = small_cluster(member, pods)["status"].clone();
                let change = |cluster: &mut Value| {
                    cluster["status"]["resourceSummary"] = status["resourceSummary"].clone();
                };
                format!("{member} has room for {pods}: {}", self.world.try_edit(&key, change).await.is_ok())
            }
        }
    }

    /// Creates, changes or deletes a quota. The present use may exceed it.
    async fn change_the_quota(&mut self) -> String {
        let key = Key::namespaced(QUOTAS, "default", "q");
        let cpu = self.dice.pick(&["1800m", "2200m", "2400m", "3"]);
        match (self.world.get(&key).is_some(), self.dice.roll(3)) {
            (false, _) => format!("a quota of {cpu}: {}", self.world.try_given(quota("q", cpu)).await.is_ok()),
            (true, 0) => format!("no quota: {}", self.world.try_delete(&key).await.is_ok()),
            (true, _) => {
                let done = self.edit(&key, |quota| quota["spec"]["overall"]["cpu"] = cpu.into()).await;
                format!("the quota becomes {cpu}: {done}")
            }
        }
    }

    fn a_rebalance(&mut self) -> Key {
        self.rebalances[self.dice.roll(self.rebalances.len() as u64) as usize].clone()
    }

    /// Moves a whole workload to one cluster, as a user.
    async fn skew(&mut self) -> String {
        let (at, member) = (self.dice.roll(5) as usize, self.dice.pick(&CLUSTERS));
        let is_reported = self.dice.roll(4) > 0;
        let key = self.bindings[at].clone();
        let change = |binding: &mut Value| {
            let replicas = binding["spec"]["replicas"].clone();
            binding["spec"]["clusters"] = json!([{"name": member, "replicas": replicas}]);
        };
        let mut done = self.world.get(&key).is_some() && self.world.put(&key, change).await.is_ok();
        done = done && self.edit(&key, |binding| say(binding, if is_reported { HONEST } else { SILENT })).await;
        format!("{} is all on {member}, reported {is_reported}: {done}", APPS[at])
    }

    /// Adds random bounds to the spec.
    fn bounds(&mut self, mut spec: Value) -> Value {
        let mut rollout = json!({"settle": {
            "when": self.dice.pick(&["Scheduled", "Applied", "Healthy", "Healthy"]),
            "timeoutSeconds": self.dice.pick(&[30, 120]),
        }});
        if self.dice.roll(2) == 0 {
            rollout["maxConcurrent"] = self.dice.pick(&["1", "2", "50%"]).into();
            if let Ok(number) = rollout["maxConcurrent"].as_str().unwrap().parse::<i64>() {
                rollout["maxConcurrent"] = number.into();
            }
        }
        if self.dice.roll(3) == 0 {
            rollout["maxMovingReplicas"] = self.dice.pick(&[2, 5]).into();
        }
        if self.dice.roll(3) == 0 {
            rollout["maxIncomingPerCluster"] = self.dice.pick(&[1, 3]).into();
        }
        if self.dice.roll(4) == 0 {
            rollout["intervalSeconds"] = self.dice.pick(&[1, 20]).into();
        }
        if self.dice.roll(2) == 0 {
            rollout["strategy"] = "SurgeFirst".into();
            rollout["minAvailable"] = self.dice.pick(&["50%", "75%", "100%"]).into();
            rollout["maxSurge"] = self.dice.pick(&["1%", "25%", "100%"]).into();
        }
        rollout["order"] = self.dice.pick(&["Priority", "FewestReplicas", "Name"]).into();
        if self.dice.roll(6) == 0 {
            rollout["abortOn"] = json!({"failed": 1});
        }
        if self.dice.roll(6) == 0 && spec["undo"].is_null() {
            spec["mode"] = "Steady".into();
        }
        if self.dice.roll(8) == 0 {
            spec["approval"] = "Required".into();
        }
        if self.dice.roll(3) == 0 && spec["undo"].is_null() {
            spec["limits"] = match self.dice.roll(4) {
                0 => json!({"maxMovedReplicas": 1}),
                1 => json!({"maxMovedReplicas": "50%"}),
                2 => json!({"maxMovedReplicas": "25%", "minMovedReplicas": 1}),
                _ => json!({"maxMovedReplicas": 2, "preserveAvailable": true}),
            };
        }
        spec["rollout"] = rollout;
        if self.dice.roll(3) == 0 && spec["undo"].is_null() && spec["mode"].is_null() {
            spec["objective"] = self.objective();
        }
        spec
    }

    /// Returns a random objective.
    fn objective(&mut self) -> Value {
        let mut objective = json!({"goal": self.dice.pick(&["Balance", "Balance", "Pack", "Cost", "Survive"])});
        if self.dice.roll(2) == 0 {
            objective["worth"] = self.dice.pick(&[0, 1]).into();
        }
        if self.dice.roll(3) == 0 {
            objective["maxMovedReplicas"] = self.dice.pick(&[0, 2, 5]).into();
        }
        objective
    }

    async fn create(&mut self, kind: &str, spec: Value) -> String {
        // Names of deleted rebalances are reused.
        let gone = self.rebalances.iter().find(|key| self.world.get(key).is_none());
        let name = match gone {
            Some(key) if key.namespace.is_empty() == (kind == "ClusterRebalance") => key.name.to_string(),
            _ => format!("reb-{}", self.made),
        };
        let mut metadata = json!({"name": name});
        if kind == "Rebalance" {
            metadata["namespace"] = "default".into();
        }
        let shown = spec.to_string();
        let object = json!({"apiVersion": "ballast.dev/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec});
        let created = self.world.try_given(object).await;
        let told = created.as_ref().map(drop).map_err(|status| status.message.clone());
        if let Ok(key) = created
            && !self.rebalances.contains(&key)
        {
            self.made += 1;
            self.rebalances.push(key);
        }
        format!("{kind} {name} {shown}: {told:?}")
    }

    async fn edit(&mut self, key: &Key, change: impl Fn(&mut Value)) -> bool {
        self.world.get(key).is_some() && self.world.try_edit(key, change).await.is_ok()
    }

    /// Reports everything as assigned.
    async fn report_all(&mut self) -> String {
        for key in self.bindings.clone() {
            let mut said = self.world.get(&key).unwrap_or_default();
            say(&mut said, HONEST);
            if Some(said) != self.world.get(&key) {
                self.edit(&key, |binding| say(binding, HONEST)).await;
            }
        }
        "all is reported".to_owned()
    }

    async fn turns(&mut self, turns: usize) {
        for _ in 0..turns {
            if !self.world.turn().await {
                break;
            }
        }
    }

    fn placed(&self) -> Vec<String> {
        self.bindings.iter().map(|key| self.world.placed(key)).collect()
    }

    /// Reports as assigned until every rebalance has finished.
    async fn finish(&mut self) -> Result<(), String> {
        for _ in 0..TENS_OF_SECONDS_MAX {
            self.report_all().await;
            self.turns(TURNS_MAX).await;
            if self.rebalances.iter().all(|key| self.is_over(key)) && self.bindings.iter().all(|key| self.rests(key)) {
                return Ok(());
            }
            self.world.clock.advance_seconds(10);
            self.turns(TURNS_MAX).await;
        }
        if let Some(key) = self.rebalances.iter().find(|key| !self.is_over(key)) {
            return Err(format!("{key} never ends: {}", self.world.get(key).unwrap_or_default()));
        }
        let restless: Vec<Option<Value>> =
            self.bindings.iter().filter(|key| !self.rests(key)).map(|key| self.world.get(key)).collect();
        Err(format!("never at rest: {restless:#?}"))
    }

    /// Returns whether a rebalance has finished or been deleted.
    fn is_over(&self, key: &Key) -> bool {
        let object = self.world.get(key).unwrap_or_default();
        object.is_null() || ["Completed", "Aborted"].iter().any(|phase| object["status"]["phase"] == **phase)
    }

    /// Returns whether a binding is scheduled, without pending work.
    fn rests(&self, key: &Key) -> bool {
        let binding = self.world.get(key).unwrap_or_default();
        let is_scheduled = condition(&binding, "Scheduled").is_some_and(|known| known["status"] == "True");
        let is_seen = binding["status"]["schedulerObservedGeneration"] == binding["metadata"]["generation"];
        is_scheduled && is_seen && binding["spec"]["gracefulEvictionTasks"].as_array().is_none_or(Vec::is_empty)
    }

    async fn end(mut self) -> Result<Judged, String> {
        self.world.mend();
        for name in CLUSTERS {
            let key = Key::cluster(CLUSTER, name);
            if self.world.get(&key).is_none() {
                self.world.given(cluster(name)).await;
                continue;
            }
            let heal = |known: &mut Value| {
                known["spec"]["taints"] = json!([]);
                known["status"] = cluster(name)["status"].clone();
            };
            self.world.edit(&key, heal).await;
        }
        let quota = Key::namespaced(QUOTAS, "default", "q");
        if self.world.get(&quota).is_some() {
            self.world.delete(&quota).await;
        }
        for (at, key) in self.bindings.clone().into_iter().enumerate() {
            if self.world.get(&key).is_none() {
                self.world.given(first_binding(APPS[at])).await;
            }
        }
        for key in self.rebalances.clone() {
            let go_on = |object: &mut Value| {
                object["spec"]["paused"] = false.into();
                object["spec"]["approved"] = true.into();
            };
            if self.world.get(&key).is_some() {
                self.world.edit(&key, go_on).await;
            }
        }
        self.finish().await?;
        self.judge().await
    }

    async fn judge(&self) -> Result<Judged, String> {
        let mut judge = Judge::default();
        for row in self.world.written_since(Revision::ZERO).await {
            judge.row(&row)?;
        }
        cause_judge::judge(&self.world).await?;
        judge.end().map(|()| judge.judged)
    }
}

fn first_binding(app: &str) -> Value {
    let placement = match app {
        "agent" => everywhere(),
        "db" | "queue" => aggregated(),
        _ => by_room(),
    };
    binding(app, 4, placement)
}

/// Returns a workload that is complete on two clusters.
fn everywhere() -> Value {
    json!({
        "clusterAffinity": {"clusterNames": CLUSTERS},
        "replicaScheduling": {"replicaSchedulingType": "Duplicated"},
        "spreadConstraints": [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 2}],
    })
}

const HONEST: u64 = 0;
const SILENT: u64 = 1;

/// Writes a report of the agents of the targets, correct or not.
fn say(binding: &mut Value, way: u64) {
    let targets = binding["spec"]["clusters"].as_array().cloned().unwrap_or_default();
    let known = binding["status"]["aggregatedStatus"].as_array().cloned().unwrap_or_default();
    let each = |share: &dyn Fn(i64) -> i64, health: &str| -> Vec<Value> {
        let item = |target: &Value| {
            let assigned = target["replicas"].as_i64().unwrap_or(0);
            json!({
                "clusterName": target["name"], "applied": true, "health": health,
                "status": {"replicas": assigned, "readyReplicas": share(assigned)},
            })
        };
        targets.iter().map(item).collect()
    };
    let said = match way {
        SILENT => Vec::new(),
        2 | 3 => each(&|assigned| assigned / 2, "Healthy"),
        4 => each(&|_| 0, "Unhealthy"),
        5 => each(&|assigned| assigned, "Unknown"),
        // More replicas than assigned, and from clusters that have none.
        6 => [each(&|assigned| assigned + 3, "Healthy"), known].concat(),
        // No numbers.
        7 => targets
            .iter()
            .map(|target| json!({"clusterName": target["name"], "applied": true, "health": "Healthy"}))
            .collect(),
        // Only the first one reports.
        8 => each(&|assigned| assigned, "Healthy").into_iter().take(1).collect(),
        _ => each(&|assigned| assigned, "Healthy"),
    };
    binding["status"]["aggregatedStatus"] = said.into();
}
