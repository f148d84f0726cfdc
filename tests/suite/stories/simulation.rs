//! Randomized simulation of a whole system. Users trigger (one workload or all), scale, suspend,
//! hand over and recreate, edit policies and the lists of rebalancers; clusters fail, recover,
//! disappear (at once, or held by a finalizer) and join, lose `Ready` and regain it; workloads fail
//! where they run; the store fails, the log is compacted, the clock steps, and the process crashes
//! between any two steps. After the faults end everything must settle, with no trigger lost or
//! served twice, and every written state must be consistent. No eviction removes replicas that are
//! not ready elsewhere (`copies_judge`). Failing seeds are kept in `SEEDS_OF_OLD`. `cargo sim --
//! --seed N --steps M` (tests/sim) runs further and longer simulations.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use ballast::actions::MarkingLimits;
use ballast::k8s::{Key, Status, Time};
use serde_json::{Value, json};

use super::doorkeeper::{Answer, Doorkeeper};
use super::fleet::{aggregated, binding, by_room, cluster, deployment, no_execute, primary_and_backup, rebalancer};
use super::world::{CLUSTER, World, condition};
use super::{cause_judge, copies_judge};
pub use crate::support::dice::Dice;

#[cfg(test)]
const SEEDS_OF_OLD: [u64; 1] = [118];
pub const STEPS: usize = 60;
const CLUSTERS: [&str; 3] = ["member1", "member2", "member3"];
const APPS: [&str; 4] = ["web", "db", "cache", "queue"];

/// Faults of the server itself, in the simulations of both API families.
pub enum Mishap {
    ClockSteps,
    StoreFails,
    StoreIsMended,
    Crash,
    Compaction,
}

impl Mishap {
    /// Injects the fault. Returns its description.
    pub async fn befall(self, world: &mut World, dice: &mut Dice) -> String {
        match self {
            Mishap::ClockSteps => {
                let seconds = dice.pick(&[-3600, -1, 1, 2, 30, 400]);
                world.clock.advance_seconds(seconds);
                format!("clock {seconds:+} s")
            }
            Mishap::StoreFails => {
                let commits = dice.roll(4) as i64;
                world.fail_after(commits);
                format!("the store fails after {commits} commits")
            }
            Mishap::StoreIsMended => {
                world.mend();
                "the store is mended".to_owned()
            }
            Mishap::Crash => {
                world.crash().await;
                "crash".to_owned()
            }
            Mishap::Compaction => {
                world.compact().await;
                "the log is compacted".to_owned()
            }
        }
    }
}

/// The events of a simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Faults {
    /// The events that existed when `SEEDS_OF_OLD` failed: additional ones would change the
    /// simulations of these seeds.
    OfOld,
    All,
    /// All, with a webhook for each placement that denies some and is late for others.
    Asked,
}

struct Life {
    world: World,
    dice: Dice,
    faults: Faults,
    doorkeeper: Option<Arc<Doorkeeper>>,
    bindings: BTreeMap<&'static str, Key>,
    /// Triggers: certainly accepted, and possibly accepted.
    accepted: BTreeMap<&'static str, (usize, usize)>,
    rebalancers: Vec<Key>,
    /// Rebalancers that ever had a time to live.
    mortal: BTreeSet<Key>,
    policies: BTreeMap<&'static str, Key>,
}

#[tokio::test]
async fn whatever_happens_everything_settles_and_no_trigger_is_lost_or_served_twice() {
    for seed in SEEDS_OF_OLD {
        live(seed, STEPS, Faults::OfOld).await.unwrap_or_else(|fault| panic!("{fault}"));
    }
    for seed in 0..crate::support::size::sized(16, 40) {
        live(seed, STEPS, Faults::All).await.unwrap_or_else(|fault| panic!("{fault}"));
        if seed % 2 == 0 {
            live(seed, STEPS, Faults::Asked).await.unwrap_or_else(|fault| panic!("asked: {fault}"));
        }
    }
}

/// Returns a webhook that allows most placements, denies some, and responds late to others.
fn moody(seed: u64) -> Arc<Doorkeeper> {
    let mut dice = Dice(!seed);
    Doorkeeper::new(move |_| match dice.roll(8) {
        0 => Answer::Refused(Box::new(Status::failure(403, "QuotaExceeded", "no more"))),
        1 => Answer::Refused(Box::new(Status::failure(500, "InternalError", "failed calling webhook"))),
        2 | 3 => Answer::Late,
        _ => Answer::Allowed,
    })
}

/// Returns whether workers miss events in the simulation of a seed: in half of them, of even and of
/// odd seeds.
pub fn is_forgetful(seed: u64) -> bool {
    seed / 2 % 2 == 1
}

/// Runs one simulation of `steps` steps, and returns the violations at its end.
pub async fn live(seed: u64, steps: usize, faults: Faults) -> Result<(), String> {
    let mut life = Life::begin(seed, faults).await;
    let mut taken = Vec::new();
    for _ in 0..steps {
        taken.push(life.step().await);
    }
    life.end().await.map_err(|fault| format!("seed {seed}: {fault}\nafter {taken:#?}"))
}

impl Life {
    async fn begin(seed: u64, faults: Faults) -> Life {
        let doorkeeper = (faults == Faults::Asked).then(|| moody(seed));
        let mut world = match doorkeeper.clone() {
            Some(doorkeeper) => World::behind(doorkeeper).await,
            None => World::new().await,
        };
        if faults != Faults::OfOld && is_forgetful(seed) {
            world.be_forgetful().await;
        }
        if faults != Faults::OfOld {
            // A task for all workloads is then completed from its intent.
            world.marking =
                MarkingLimits { per_commit_max: 1, in_request_max: Duration::ZERO, ..MarkingLimits::default() };
            world.crash().await;
        }
        for name in CLUSTERS {
            world.given(cluster(name)).await;
        }
        let (mut bindings, mut policies) = (BTreeMap::new(), BTreeMap::new());
        for app in APPS {
            if faults != Faults::OfOld {
                policies.insert(app, world.given(policy(app, first_placement(app))).await);
            }
            bindings.insert(app, world.given(first_binding(app, faults)).await);
        }
        world.settle().await;
        let accepted = APPS.into_iter().map(|app| (app, (0, 0))).collect();
        let (rebalancers, mortal) = (Vec::new(), BTreeSet::new());
        Life { world, dice: Dice(seed), faults, doorkeeper, bindings, accepted, rebalancers, mortal, policies }
    }

    async fn step(&mut self) -> String {
        if let Some(doorkeeper) = self.doorkeeper.as_ref().filter(|_| self.dice.0.is_multiple_of(3)) {
            doorkeeper.open();
        }
        let app = self.dice.pick(&APPS);
        let member = self.dice.pick(&CLUSTERS);
        let key = Key::cluster(CLUSTER, member);
        let faces = match self.faults {
            Faults::OfOld => 14,
            Faults::All | Faults::Asked => 28,
        };
        match self.dice.roll(faces) {
            0 | 1 => {
                let done = self.world.task(json!({"targetRefResource": [deployment(app)]})).await;
                let is_there = self.world.get(&self.bindings[app]).is_some();
                let (sure, maybe) = self.accepted.get_mut(app).unwrap();
                match &done {
                    Ok(()) if is_there => *sure += 1,
                    Ok(()) => {}
                    Err(_) => *maybe += 1,
                }
                format!("task for {app}: {:?}", done.map_err(|status| status.code))
            }
            2 | 3 => {
                let name = format!("demo-{}", self.dice.roll(u64::MAX));
                let created = self.world.try_given(rebalancer(&name, vec![deployment(app)])).await;
                // On an error nothing was stored: the writer responds after the store.
                if let Ok(key) = &created {
                    self.will_be_triggered(app);
                    self.rebalancers.push(key.clone());
                }
                format!("rebalancer for {app}: {:?}", created.map(drop).map_err(|status| status.code))
            }
            4 => {
                let replicas = self.dice.roll(9);
                let done = self.edit(app, |binding| binding["spec"]["replicas"] = json!(replicas)).await;
                format!("scale {app} to {replicas}: {done}")
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
            8 => Mishap::ClockSteps.befall(&mut self.world, &mut self.dice).await,
            9 => Mishap::StoreFails.befall(&mut self.world, &mut self.dice).await,
            10 => Mishap::StoreIsMended.befall(&mut self.world, &mut self.dice).await,
            11 => Mishap::Crash.befall(&mut self.world, &mut self.dice).await,
            14 | 15 if self.world.get(&key).is_some() => {
                let ready = self.dice.pick(&["True", "False", "Unknown"]);
                let now = self.world.now();
                let done = self.world.try_edit(&key, |cluster| say_ready(cluster, ready, now)).await;
                format!("{member} says Ready {ready}: {}", done.is_ok())
            }
            16 | 17 => {
                let health = self.dice.pick(&["Unhealthy", "Unhealthy", "Healthy", "Unknown"]);
                let done = self.edit(app, |binding| say_health(binding, member, health)).await;
                format!("{app} is {health} on {member}: {done}")
            }
            18 | 19 => self.change_a_policy(app).await,
            20 => {
                let suspended = self.dice.pick(&[true, false]);
                let done =
                    self.edit(app, |binding| binding["spec"]["suspension"] = json!({"scheduling": suspended})).await;
                format!("{app} is suspended: {suspended}: {done}")
            }
            21 => {
                let scheduler = self.dice.pick(&["default-scheduler", "somebody-else"]);
                let done = self.edit(app, |binding| binding["spec"]["schedulerName"] = json!(scheduler)).await;
                format!("{app} is for {scheduler}: {done}")
            }
            22 | 23 if !self.rebalancers.is_empty() => self.change_a_rebalancer(app).await,
            24 if self.world.get(&key).is_some_and(|cluster| cluster["metadata"]["deletionTimestamp"].is_null()) => {
                let hold = |cluster: &mut Value| {
                    cluster["metadata"]["finalizers"] = json!(["example.com/hold", "karmada.io/cluster-controller"]);
                };
                let held = self.world.try_edit(&key, hold).await.is_ok();
                format!("{member} goes, held: {}", held && self.world.try_delete(&key).await.is_ok())
            }
            25 if self.dice.roll(2) == 0 => Mishap::Compaction.befall(&mut self.world, &mut self.dice).await,
            25 => self.make_anew(app).await,
            26 | 27 => {
                let done = self.world.task(json!({"targetRefPolicy": [{}]})).await;
                for (app, key) in &self.bindings {
                    let is_there = self.world.get(key).is_some();
                    let (sure, maybe) = self.accepted.get_mut(app).unwrap();
                    match &done {
                        Ok(()) if is_there => *sure += 1,
                        Ok(()) => {}
                        Err(_) => *maybe += 1,
                    }
                }
                format!("task for everything: {:?}", done.map_err(|status| status.code))
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

    /// Accounts for an accepted rebalancer that names the application. If the binding is deleted,
    /// it finds none, or the next one.
    fn will_be_triggered(&mut self, app: &'static str) {
        let is_there = self.world.get(&self.bindings[app]).is_some();
        let (sure, maybe) = self.accepted.get_mut(app).unwrap();
        *if is_there { sure } else { maybe } += 1;
    }

    async fn edit(&mut self, app: &str, change: impl Fn(&mut Value)) -> bool {
        let key = self.bindings[app].clone();
        self.world.get(&key).is_some() && self.world.try_edit(&key, change).await.is_ok()
    }

    async fn change_a_policy(&mut self, app: &'static str) -> String {
        let placement = match self.dice.roll(6) {
            0 => by_room(),
            1 => aggregated(),
            2 => primary_and_backup(),
            3 => json!({}),
            4 => on_one_cluster(),
            _ => first_placement(app),
        };
        let key = self.policies[app].clone();
        let done = match (self.world.get(&key), self.dice.roll(6)) {
            (None, _) => self.world.try_given(policy(app, placement)).await.map(drop),
            (Some(_), 0) => self.world.try_delete(&key).await,
            (Some(_), activation) => {
                let change = |policy: &mut Value| {
                    policy["spec"]["placement"] = placement.clone();
                    match activation {
                        1 | 2 => policy["spec"]["activationPreference"] = json!("Lazy"),
                        _ => drop(policy["spec"].as_object_mut().unwrap().remove("activationPreference")),
                    }
                };
                self.world.try_edit(&key, change).await.map(drop)
            }
        };
        format!("{app}'s policy changes: {}", done.is_ok())
    }

    /// Changes the list of a rebalancer, its order, or its time to live.
    async fn change_a_rebalancer(&mut self, app: &'static str) -> String {
        let key = self.rebalancers[self.dice.roll(self.rebalancers.len() as u64) as usize].clone();
        let Some(known) = self.world.get(&key) else { return format!("{} is gone", key.name) };
        let what = self.dice.roll(3);
        // A wait while the clock is set back takes up to twice as long; the end of a simulation is
        // longer than that.
        let ttl = self.dice.pick(&[None, Some(0), Some(20), Some(300)]);
        let is_new = !known["spec"].to_string().contains(&format!("\"{app}\""));
        let change = |rebalancer: &mut Value| {
            let spec = rebalancer["spec"].as_object_mut().unwrap();
            let workloads = spec["workloads"].as_array_mut().unwrap();
            match (what, ttl) {
                (0, _) if is_new => workloads.push(deployment(app)),
                (1, _) => workloads.reverse(),
                (_, Some(ttl)) => drop(spec.insert("ttlSecondsAfterFinished".to_owned(), json!(ttl))),
                (_, None) => drop(spec.remove("ttlSecondsAfterFinished")),
            }
        };
        let done = self.world.try_edit(&key, change).await.is_ok();
        if done && what == 0 && is_new {
            self.will_be_triggered(app);
        }
        self.mortal.extend((done && ttl.is_some()).then_some(key));
        format!("a rebalancer changes ({what} {app} {ttl:?}): {done}")
    }

    /// Returns the next binding, with the current policy.
    fn next_binding(&self, app: &str) -> Value {
        let mut binding = first_binding(app, self.faults);
        if let Some(policy) = self.policies.get(app).and_then(|key| self.world.get(key)) {
            binding["spec"]["placement"] = policy["spec"]["placement"].clone();
        }
        binding
    }

    /// Deletes the binding and creates it again, as users.
    async fn make_anew(&mut self, app: &'static str) -> String {
        let key = self.bindings[app].clone();
        if self.world.get(&key).is_some() {
            if self.world.try_delete(&key).await.is_err() {
                return format!("{app} goes: false");
            }
            // An unserved rebalancer that names it may find the next binding.
            self.accepted.insert(app, (0, self.rebalancers.len()));
        }
        format!("{app} is made anew: {}", self.world.try_given(self.next_binding(app)).await.is_ok())
    }

    /// Ends the faults, waits for all backoffs, and checks the result.
    async fn end(mut self) -> Result<(), String> {
        self.world.mend();
        if let Some(doorkeeper) = &self.doorkeeper {
            doorkeeper.answer(|_| Answer::Allowed);
            doorkeeper.open();
        }
        for name in CLUSTERS {
            let key = Key::cluster(CLUSTER, name);
            if self.world.get(&key).is_some_and(|cluster| !cluster["metadata"]["finalizers"].is_null()) {
                // Also a cluster that a finalizer held after a failed deletion.
                self.world.edit(&key, |cluster| cluster["metadata"]["finalizers"] = json!([])).await;
            }
            match self.world.get(&key) {
                // It may have been created without its status, which is a separate write.
                Some(_) => {
                    let (whole, now) = (cluster(name)["status"].clone(), self.world.now());
                    let heal = |cluster: &mut Value| {
                        let conditions = cluster["status"]["conditions"].take();
                        cluster["status"] = whole.clone();
                        if conditions.is_array() {
                            // The taints for missing readiness are removed by the server alone.
                            cluster["status"]["conditions"] = conditions;
                            say_ready(cluster, "True", now);
                            let taints = cluster["spec"]["taints"].as_array_mut();
                            taints.into_iter().for_each(|taints| taints.retain(|taint| taint["key"] != "down"));
                        } else {
                            cluster["spec"]["taints"] = json!([]);
                        }
                    };
                    self.world.edit(&key, heal).await;
                }
                None => drop(self.world.given(cluster(name)).await),
            }
        }
        for (app, key) in &self.bindings {
            if self.world.get(key).is_none() {
                self.world.given(self.next_binding(app)).await;
            }
            let heal = |binding: &mut Value| {
                let spec = binding["spec"].as_object_mut().unwrap();
                spec.remove("suspension");
                spec.remove("schedulerName");
                let reports = binding["status"]["aggregatedStatus"].as_array_mut();
                reports.into_iter().flatten().for_each(|report| report["health"] = json!("Healthy"));
            };
            self.world.edit(key, heal).await;
        }
        self.world.pass_seconds(25).await;
        // A workload in the last of its groups may wait there until an eviction has ended.
        for _ in 0..4 {
            self.agents_report().await;
            self.look_on(20).await;
        }
        for name in CLUSTERS {
            let cluster = self.world.get(&Key::cluster(CLUSTER, name)).ok_or("a cluster is gone")?;
            if cluster["spec"]["taints"].as_array().is_some_and(|taints| !taints.is_empty()) {
                return Err(format!("a ready cluster is still tainted: {cluster}"));
            }
        }
        // An application that failed on each of its clusters has no candidates until it has left
        // them.
        let is_leaving = |key: &Key| {
            let binding = self.world.get(key);
            binding.is_some_and(|binding| !tasks(&binding).is_null() && !is_scheduled(&binding))
        };
        let (late, settled): (Vec<_>, Vec<_>) = self.bindings.clone().into_iter().partition(|(_, key)| is_leaving(key));
        for (app, key) in &settled {
            self.judge(app, key).await.map_err(|fault| format!("{app}: {fault}"))?;
        }
        for key in &self.rebalancers {
            self.judge_rebalancer(key)?;
        }
        // Evictions without any report end with their grace period.
        self.agents_report().await;
        self.look_on(620).await;
        for (app, key) in &self.bindings {
            let binding = self.world.get(key).ok_or("a binding is gone")?;
            if !tasks(&binding).is_null() {
                return Err(format!("{app}: an eviction never ends: {}", tasks(&binding)));
            }
        }
        for (app, key) in &late {
            self.judge(app, key).await.map_err(|fault| format!("{app}, late: {fault}"))?;
        }
        let revision = self.world.client().view().revision;
        self.look_on(320).await;
        let mut restless = self.world.written_since(revision).await;
        // Events expire after an hour.
        restless.retain(|change| change.key.resource.resource() != "events");
        if !restless.is_empty() {
            return Err(format!("it does not come to rest: {restless:#?}"));
        }
        for left in self.rebalancers.iter().filter_map(|key| self.world.get(key)) {
            if !left["spec"]["ttlSecondsAfterFinished"].is_null() {
                return Err(format!("it is {}, and it has outlived its time: {left}", self.world.now()));
            }
        }
        cause_judge::judge(&self.world).await?;
        copies_judge::judge(&self.world).await
    }

    /// Reports all workloads as healthy, where any agent reports.
    async fn agents_report(&mut self) {
        for key in self.bindings.values() {
            let Some(binding) = self.world.get(key) else { continue };
            if binding["status"]["aggregatedStatus"].as_array().is_none_or(|reports| reports.is_empty()) {
                continue;
            }
            let named = |list: &Value, member: &str| -> Vec<String> {
                let list = list.as_array().map_or(&[][..], Vec::as_slice);
                list.iter().filter_map(|it| it[member].as_str()).map(str::to_owned).collect()
            };
            let mut clusters = named(&binding["spec"]["clusters"], "name");
            clusters.extend(named(tasks(&binding), "fromCluster"));
            let report =
                |binding: &mut Value| clusters.iter().for_each(|cluster| say_health(binding, cluster, "Healthy"));
            self.world.edit(key, report).await;
        }
    }

    /// Advances the clock in longer steps, in which no change is expected.
    async fn look_on(&mut self, seconds: i64) {
        for _ in 0..seconds / 20 {
            self.world.clock.advance_seconds(20);
            self.world.settle().await;
        }
    }

    fn judge_rebalancer(&self, key: &Key) -> Result<(), String> {
        let Some(rebalancer) = self.world.get(key) else {
            return if self.mortal.contains(key) { Ok(()) } else { Err(format!("{key} is gone")) };
        };
        let (spec, status) = (&rebalancer["spec"], &rebalancer["status"]);
        let observed = status["observedWorkloads"].as_array().map_or(&[][..], Vec::as_slice);
        let is_done = |workload: &Value| {
            let result = observed.iter().find(|observed| observed["workload"] == *workload);
            // While the binding was recreated, it did not exist for a while.
            let results: &[&str] =
                if self.faults != Faults::OfOld { &["Successful", "Failed"] } else { &["Successful"] };
            result.is_some_and(|observed| results.iter().any(|result| observed["result"] == **result))
        };
        let is_complete = spec["workloads"].as_array().unwrap().iter().all(is_done);
        if status["observedGeneration"] != rebalancer["metadata"]["generation"] || !is_complete {
            return Err(format!("{key} is not done: {rebalancer}"));
        }
        Ok(())
    }

    async fn judge(&self, app: &str, key: &Key) -> Result<(), String> {
        let mut history = self.world.history(key).await;
        // A deletion is a state as well, and another binding may follow it.
        let uid = history.last().expect("it was created")["metadata"]["uid"].clone();
        history.retain(|binding| binding["metadata"]["uid"] == uid);
        let (sure, maybe) = self.accepted[app];
        let is_accepted =
            |pair: &&[Value]| !pending_pass(&pair[1]).is_null() && pending_pass(&pair[0]) != pending_pass(&pair[1]);
        let timestamps = history.windows(2).filter(is_accepted).count();
        if !(sure..=sure + maybe).contains(&timestamps) {
            return Err(format!("{timestamps} stamps for {sure} to {} triggers", sure + maybe));
        }
        for pair in history.windows(2) {
            let (before, after) = (&pair[0], &pair[1]);
            if timestamp(after) < timestamp(before) || last(after) < last(before) {
                return Err(format!("time goes back: {before} {after}"));
            }
            // A pass of Ballast is successful only if no trigger is pending afterwards.
            if last(after) != last(before) && is_pending(after) {
                return Err(format!("a success that serves nothing: {after}"));
            }
        }
        history.iter().try_for_each(tells_the_truth)?;
        let now = history.last().expect("it was created");
        if is_pending(now) {
            return Err(format!("a trigger is lost: {now}"));
        }
        if !is_scheduled(now) {
            return Err(format!("not scheduled: {now}"));
        }
        if now["status"]["schedulerObservedGeneration"] != now["metadata"]["generation"] {
            return Err(format!("the observed generation is behind: {now}"));
        }
        let policy = self.policies.get(app).and_then(|key| self.world.get(key));
        let is_claimed = now["metadata"]["annotations"]["propagationpolicy.karmada.io/name"] == *app;
        let wanted = policy.filter(|policy| is_claimed && policy["spec"]["activationPreference"] != "Lazy");
        if let Some(policy) = wanted
            && policy["spec"]["placement"] != now["spec"]["placement"]
        {
            return Err(format!("the policy did not arrive: {policy} {now}"));
        }
        Ok(())
    }
}

fn first_placement(app: &str) -> Value {
    match app {
        "db" => aggregated(),
        "cache" => primary_and_backup(),
        _ => by_room(),
    }
}

fn on_one_cluster() -> Value {
    let mut placement = aggregated();
    placement["spreadConstraints"] = json!([{"spreadByField": "cluster", "minGroups": 1, "maxGroups": 1}]);
    placement
}

fn first_binding(app: &str, faults: Faults) -> Value {
    let mut binding = binding(app, 4, first_placement(app));
    if faults != Faults::OfOld {
        binding["spec"]["failover"] = json!({"application": when_it_fails(app)});
        binding["metadata"]["annotations"]["propagationpolicy.karmada.io/name"] = json!(app);
    }
    binding
}

/// Returns the policy that manages the application.
fn policy(app: &str, placement: Value) -> Value {
    json!({
        "apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"name": app, "namespace": "default"},
        "spec": {
            "resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": app}],
            "placement": placement,
            "propagateDeps": true,
            "failover": {"application": when_it_fails(app)},
        },
    })
}

/// Returns the failover behavior of an application. Never `Never`: its evictions would only end by
/// a user.
fn when_it_fails(app: &str) -> Value {
    match app {
        "web" => json!({"decisionConditions": {"tolerationSeconds": 0}, "purgeMode": "Directly"}),
        _ => json!({
            "decisionConditions": {"tolerationSeconds": 20}, "purgeMode": "Gracefully", "gracePeriodSeconds": 60,
        }),
    }
}

/// Writes the `Ready` condition as the agent of a cluster.
fn say_ready(cluster: &mut Value, ready: &str, now: Time) {
    if condition(cluster, "Ready").is_none_or(|known| known["status"] != ready) {
        let now = now.to_string();
        cluster["status"]["conditions"] = json!([
            {"type": "Ready", "status": ready, "reason": "Said", "message": "", "lastTransitionTime": now}]);
    }
}

/// Writes the health of a workload as the agent of a cluster.
fn say_health(binding: &mut Value, cluster: &str, health: &str) {
    if !binding["status"]["aggregatedStatus"].is_array() {
        binding["status"]["aggregatedStatus"] = json!([]);
    }
    let Some(reports) = binding["status"]["aggregatedStatus"].as_array_mut() else { return };
    reports.retain(|report| report["clusterName"] != cluster);
    reports.push(json!({"clusterName": cluster, "applied": true, "health": health}));
}

fn time(value: &Value) -> Option<Time> {
    value.as_str().map(|text| text.parse().unwrap())
}

fn timestamp(binding: &Value) -> Option<Time> {
    time(&binding["spec"]["rescheduleTriggeredAt"])
}

fn tasks(binding: &Value) -> &Value {
    &binding["spec"]["gracefulEvictionTasks"]
}

fn is_scheduled(binding: &Value) -> bool {
    condition(binding, "Scheduled").is_some_and(|condition| condition["status"] == "True")
}

fn last(binding: &Value) -> Option<Time> {
    time(&binding["status"]["lastScheduledTime"])
}

/// Checks an invariant of every readable state.
fn tells_the_truth(binding: &Value) -> Result<(), String> {
    let list = |field: &str| binding["spec"][field].as_array().map_or(&[][..], Vec::as_slice);
    let (targets, tasks) = (list("clusters"), list("gracefulEvictionTasks"));
    let is_settled = binding["status"]["schedulerObservedGeneration"] == binding["metadata"]["generation"]
        && condition(binding, "Scheduled").is_some_and(|condition| condition["status"] == "True");
    let wanted = binding["spec"]["replicas"].as_i64().unwrap();
    let replicas: Vec<i64> = targets.iter().map(|target| target["replicas"].as_i64().unwrap_or(0)).collect();
    let is_divided = binding["spec"]["placement"]["replicaScheduling"]["replicaSchedulingType"] == "Divided";
    let adds_up = match is_divided {
        true => replicas.iter().sum::<i64>() == wanted,
        false => replicas.iter().all(|replicas| *replicas == wanted),
    };
    if is_settled && !adds_up {
        return Err(format!("it is called scheduled, and {replicas:?} are placed of {wanted}: {binding}"));
    }
    if is_settled && targets.len() > 1 && !binding["spec"]["placement"]["spreadConstraints"].is_null() {
        return Err(format!("it may be on one cluster only: {binding}"));
    }
    if let Some(task) = tasks.iter().find(|task| targets.iter().any(|target| target["name"] == task["fromCluster"])) {
        return Err(format!("it is on a cluster that it is leaving: {task} {binding}"));
    }
    let names: Vec<&Value> = targets.iter().map(|target| &target["name"]).collect();
    if (1..names.len()).any(|at| names[..at].contains(&names[at])) {
        return Err(format!("it is twice on one cluster: {binding}"));
    }
    Ok(())
}

/// Returns the trigger of the pending pass.
fn pending_pass(binding: &Value) -> &Value {
    &binding["metadata"]["annotations"]["ballast.dev/owed"]
}

fn is_pending(binding: &Value) -> bool {
    let is_marked = binding["spec"]["forceRescheduling"] == true || !pending_pass(binding).is_null();
    is_marked || timestamp(binding) > last(binding)
}
