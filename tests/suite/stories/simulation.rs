//! Seeded lives of a whole system: users trigger, scale and edit, clusters fail, recover, go and come, the store fails,
//! the clock steps, the process crashes between any two steps. After the faults end everything must settle, with no
//! trigger lost or served twice, and everything written must be true. A failing seed is kept in `SEEDS_OF_OLD`.
//! `cargo sim -- --seed N --steps M` (tests/sim) lives other lives, and longer ones.

use std::collections::BTreeMap;

use ballast::k8s::{Key, Time};
use serde_json::{Value, json};

use super::fleet::{aggregated, binding, by_room, cluster, deployment, no_execute, primary_and_backup, rebalancer};
use super::world::{CLUSTER, World, condition};

#[cfg(test)]
const SEEDS: u64 = 40;
#[cfg(test)]
const SEEDS_OF_OLD: [u64; 1] = [118];
pub const STEPS: usize = 60;
const CLUSTERS: [&str; 3] = ["member1", "member2", "member3"];
const APPS: [&str; 4] = ["web", "db", "cache", "queue"];

/// SplitMix64: the same seed, the same life.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (bits ^ (bits >> 31)) % sides
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.roll(of.len() as u64) as usize]
    }
}

struct Life {
    world: World,
    dice: Dice,
    bindings: BTreeMap<&'static str, Key>,
    /// Triggers that were accepted for sure, and those that may have been.
    accepted: BTreeMap<&'static str, (usize, usize)>,
    rebalancers: Vec<Key>,
}

#[tokio::test]
async fn whatever_happens_everything_settles_and_no_trigger_is_lost_or_served_twice() {
    for seed in SEEDS_OF_OLD.into_iter().chain(0..SEEDS) {
        live(seed, STEPS).await.unwrap_or_else(|fault| panic!("{fault}"));
    }
}

/// One life of so many steps, and what is wrong at its end.
pub async fn live(seed: u64, steps: usize) -> Result<(), String> {
    let mut life = Life::begin(seed).await;
    let mut taken = Vec::new();
    for _ in 0..steps {
        taken.push(life.step().await);
    }
    life.end().await.map_err(|fault| format!("seed {seed}: {fault}\nafter {taken:#?}"))
}

impl Life {
    async fn begin(seed: u64) -> Life {
        let mut world = World::new().await;
        for name in CLUSTERS {
            world.given(cluster(name)).await;
        }
        let mut bindings = BTreeMap::new();
        for (app, placement) in APPS.into_iter().zip([by_room(), aggregated(), primary_and_backup(), by_room()]) {
            bindings.insert(app, world.given(binding(app, 4, placement)).await);
        }
        world.settle().await;
        let accepted = APPS.into_iter().map(|app| (app, (0, 0))).collect();
        Life { world, dice: Dice(seed), bindings, accepted, rebalancers: Vec::new() }
    }

    async fn step(&mut self) -> String {
        let app = self.dice.pick(&APPS);
        let member = self.dice.pick(&CLUSTERS);
        let key = Key::cluster(CLUSTER, member);
        match self.dice.roll(14) {
            0 | 1 => {
                let done = self.world.task(json!({"targetRefResource": [deployment(app)]})).await;
                let (sure, maybe) = self.accepted.get_mut(app).unwrap();
                match &done {
                    Ok(()) => *sure += 1,
                    Err(_) => *maybe += 1,
                }
                format!("task for {app}: {:?}", done.map_err(|status| status.code))
            }
            2 | 3 => {
                let name = format!("demo-{}", self.dice.roll(u64::MAX));
                let created = self.world.try_given(rebalancer(&name, vec![deployment(app)])).await;
                // On an error nothing was stored: the writer answers after the store.
                if let Ok(key) = &created {
                    self.accepted.get_mut(app).unwrap().0 += 1;
                    self.rebalancers.push(key.clone());
                }
                format!("rebalancer for {app}: {:?}", created.map(drop).map_err(|status| status.code))
            }
            4 => {
                let replicas = self.dice.roll(9);
                let key = self.bindings[app].clone();
                let done = self.world.try_edit(&key, |binding| binding["spec"]["replicas"] = json!(replicas)).await;
                format!("scale {app} to {replicas}: {}", done.is_ok())
            }
            5 if self.world.get(&key).is_some() => {
                let done =
                    self.world.try_edit(&key, |cluster| cluster["spec"]["taints"] = json!([no_execute("down")])).await;
                format!("{member} fails: {}", done.is_ok())
            }
            6 if self.world.get(&key).is_some() => {
                let done = self.world.try_edit(&key, |cluster| cluster["spec"]["taints"] = json!([])).await;
                format!("{member} recovers: {}", done.is_ok())
            }
            7 => match self.world.get(&key) {
                Some(_) => format!("{member} goes: {}", self.world.try_delete(&key).await.is_ok()),
                None => format!("{member} comes: {}", self.world.try_given(cluster(member)).await.is_ok()),
            },
            8 => {
                let seconds = self.dice.pick(&[-3600, -1, 1, 2, 30, 400]);
                self.world.clock.advance_seconds(seconds);
                format!("clock {seconds:+} s")
            }
            9 => {
                let commits = self.dice.roll(4) as i64;
                self.world.fail_after(commits);
                format!("the store fails after {commits} commits")
            }
            10 => {
                self.world.mend();
                "the store is mended".to_owned()
            }
            11 => {
                self.world.crash().await;
                "crash".to_owned()
            }
            _ => {
                let turns = self.dice.roll(6);
                for _ in 0..turns {
                    self.world.turn().await;
                }
                format!("{turns} turns")
            }
        }
    }

    /// Ends the faults, waits as long as backoffs may last, and judges.
    async fn end(mut self) -> Result<(), String> {
        self.world.mend();
        for name in CLUSTERS {
            let key = Key::cluster(CLUSTER, name);
            match self.world.get(&key) {
                // It may have come without its status: that is a write of its own.
                Some(_) => {
                    let whole = cluster(name)["status"].clone();
                    let heal = |cluster: &mut Value| {
                        cluster["spec"]["taints"] = json!([]);
                        cluster["status"] = whole.clone();
                    };
                    self.world.edit(&key, heal).await;
                }
                None => drop(self.world.given(cluster(name)).await),
            }
        }
        self.world.pass_seconds(25).await;
        for (app, key) in &self.bindings {
            self.judge(app, key).await.map_err(|fault| format!("{app}: {fault}"))?;
        }
        for key in &self.rebalancers {
            let status = &self.world.get(key).ok_or("a rebalancer is gone")?["status"];
            if status["observedGeneration"] != 1 || status["observedWorkloads"][0]["result"] != "Successful" {
                return Err(format!("{key} is not done: {status}"));
            }
        }
        // Evictions whose replacement nobody calls healthy end with their grace period.
        self.look_on(620).await;
        for (app, key) in &self.bindings {
            let tasks = &self.world.get(key).ok_or("a binding is gone")?["spec"]["gracefulEvictionTasks"];
            if !tasks.is_null() {
                return Err(format!("{app}: an eviction never ends: {tasks}"));
            }
        }
        let revision = self.world.client().view().revision;
        self.look_on(320).await;
        if self.world.client().view().revision != revision {
            return Err("it does not come to rest".to_owned());
        }
        Ok(())
    }

    /// Passes time in longer steps, where nothing is expected to happen.
    async fn look_on(&mut self, seconds: i64) {
        for _ in 0..seconds / 20 {
            self.world.clock.advance_seconds(20);
            self.world.settle().await;
        }
    }

    async fn judge(&self, app: &str, key: &Key) -> Result<(), String> {
        let history = self.world.history(key).await;
        let (sure, maybe) = self.accepted[app];
        let stamps = history.windows(2).filter(|pair| stamp(&pair[0]) != stamp(&pair[1])).count();
        if !(sure..=sure + maybe).contains(&stamps) {
            return Err(format!("{stamps} stamps for {sure} to {} triggers", sure + maybe));
        }
        for pair in history.windows(2) {
            let (before, after) = (&pair[0], &pair[1]);
            if stamp(after) < stamp(before) || last(after) < last(before) {
                return Err(format!("time goes back: {before} {after}"));
            }
            // A pass of ours counts as success only where it leaves nothing pending.
            if last(after) != last(before) && is_pending(after) {
                return Err(format!("a success that serves nothing: {after}"));
            }
        }
        let now = history.last().expect("it was created");
        if is_pending(now) {
            return Err(format!("a trigger is lost: {now}"));
        }
        if condition(now, "Scheduled").is_none_or(|condition| condition["status"] != "True") {
            return Err(format!("not scheduled: {now}"));
        }
        if now["status"]["schedulerObservedGeneration"] != now["metadata"]["generation"] {
            return Err(format!("the observed generation is behind: {now}"));
        }
        let targets = now["spec"]["clusters"].as_array().cloned().unwrap_or_default();
        let sum: i64 = targets.iter().map(|target| target["replicas"].as_i64().unwrap_or(0)).sum();
        if Some(sum) != now["spec"]["replicas"].as_i64() {
            return Err(format!("{sum} replicas are placed: {now}"));
        }
        Ok(())
    }
}

fn time(value: &Value) -> Option<Time> {
    value.as_str().map(|text| text.parse().unwrap())
}

fn stamp(binding: &Value) -> Option<Time> {
    time(&binding["spec"]["rescheduleTriggeredAt"])
}

fn last(binding: &Value) -> Option<Time> {
    time(&binding["status"]["lastScheduledTime"])
}

fn is_pending(binding: &Value) -> bool {
    binding["spec"]["forceRescheduling"] == true || stamp(binding) > last(binding)
}
