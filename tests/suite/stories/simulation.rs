//! Seeded lives of a whole system: users trigger (one or everything), scale, suspend, hand over and
//! make anew, edit policies and the lists of rebalancers; clusters fail, recover, go (at once, or
//! held by a finalizer) and come, lose `Ready` and are ready again; workloads fail where they run;
//! the store fails, the log is compacted, the clock steps, the process crashes between any two
//! steps. After the faults end everything must settle, with no trigger lost or served twice, and
//! everything written must be true. No eviction takes away what is not ready elsewhere
//! (`copies_judge`). A failing seed is kept in `SEEDS_OF_OLD`. `cargo sim -- --seed
//! N --steps M` (tests/sim) lives other lives, and longer ones.

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

/// What befalls the server itself, in the lives of both families.
pub enum Mishap {
    ClockSteps,
    StoreFails,
    StoreIsMended,
    Crash,
    Compaction,
}

impl Mishap {
    /// Says what happened.
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

/// What may happen in a life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Faults {
    /// What there was when `SEEDS_OF_OLD` failed: another face on the dice, and they would live
    /// other lives.
    OfOld,
    All,
    /// All, and somebody is asked about each placement, who refuses some and answers others late.
    Asked,
}

struct Life {
    world: World,
    dice: Dice,
    faults: Faults,
    doorkeeper: Option<Arc<Doorkeeper>>,
    bindings: BTreeMap<&'static str, Key>,
    /// Triggers that were accepted for sure, and those that may have been.
    accepted: BTreeMap<&'static str, (usize, usize)>,
    rebalancers: Vec<Key>,
    /// Rebalancers that had a time to live at some time.
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

/// Allows most placements, refuses some, and answers others late.
fn moody(seed: u64) -> Arc<Doorkeeper> {
    let mut dice = Dice(!seed);
    Doorkeeper::new(move |_| match dice.roll(8) {
        0 => Answer::Refused(Box::new(Status::failure(403, "QuotaExceeded", "no more"))),
        1 => Answer::Refused(Box::new(Status::failure(500, "InternalError", "failed calling webhook"))),
        2 | 3 => Answer::Late,
        _ => Answer::Allowed,
    })
}

/// Whether workers miss events in the lives of a seed: in half of them, of even and of odd seeds.
pub fn is_forgetful(seed: u64) -> bool {
    seed / 2 % 2 == 1
}

/// One life of so many steps, and what is wrong at its end.
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
            // So that a task for everything is finished from its intent.
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
                // On an error nothing was stored: the writer answers after the store.
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

    /// A rebalancer that names the application was accepted. One whose binding is gone finds none,
    /// or the next one.
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

    /// Its list, the list's order, or its time to live.
    async fn change_a_rebalancer(&mut self, app: &'static str) -> String {
        let key = self.rebalancers[self.dice.roll(self.rebalancers.len() as u64) as usize].clone();
        let Some(known) = self.world.get(&key) else { return format!("{} is gone", key.name) };
        let what = self.dice.roll(3);
        // Who waits while the clock is set back waits up to twice as long; the end of a life is
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

    /// As whoever makes bindings does it: by the policy of now.
    fn next_binding(&self, app: &str) -> Value {
        let mut binding = first_binding(app, self.faults);
        if let Some(policy) = self.policies.get(app).and_then(|key| self.world.get(key)) {
            binding["spec"]["placement"] = policy["spec"]["placement"].clone();
        }
        binding
    }

    /// Somebody deletes the binding, somebody makes it again.
    async fn make_anew(&mut self, app: &'static str) -> String {
        let key = self.bindings[app].clone();
        if self.world.get(&key).is_some() {
            if self.world.try_delete(&key).await.is_err() {
                return format!("{app} goes: false");
            }
            // Whoever has named it and was not served yet may find the next one.
            self.accepted.insert(app, (0, self.rebalancers.len()));
        }
        format!("{app} is made anew: {}", self.world.try_given(self.next_binding(app)).await.is_ok())
    }

    /// Ends the faults, waits as long as backoffs may last, and judges.
    async fn end(mut self) -> Result<(), String> {
        self.world.mend();
        if let Some(doorkeeper) = &self.doorkeeper {
            doorkeeper.answer(|_| Answer::Allowed);
            doorkeeper.open();
        }
        for name in CLUSTERS {
            let key = Key::cluster(CLUSTER, name);
            if self.world.get(&key).is_some_and(|cluster| !cluster["metadata"]["finalizers"].is_null()) {
                // Also one that was held, and whose deletion failed.
                self.world.edit(&key, |cluster| cluster["metadata"]["finalizers"] = json!([])).await;
            }
            match self.world.get(&key) {
                // It may have come without its status: that is a write of its own.
                Some(_) => {
                    let (whole, now) = (cluster(name)["status"].clone(), self.world.now());
                    let heal = |cluster: &mut Value| {
                        let conditions = cluster["status"]["conditions"].take();
                        cluster["status"] = whole.clone();
                        if conditions.is_array() {
                            // Taints that it got for not being ready are not ours to take away.
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
        // Who stays in the last of its groups may have to wait there until an eviction is over.
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
        // An application that failed on each of its clusters has nowhere to go until it has left
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
        // Evictions of which no cluster reports anything end with their grace period.
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
        // What was told an hour ago is forgotten.
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

    /// The agents call healthy what runs on their clusters, where any agent reports at all.
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

    /// Passes time in longer steps, where nothing is expected to happen.
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
            // Where the binding was made anew, there was none for a while.
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
        // A deletion is a state, too, and another binding may follow it.
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
            // A pass of ours counts as success only where it leaves nothing pending.
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

/// The policy that manages the application.
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

/// How an application leaves a cluster where it fails. Not `Never`: somebody would have to end its
/// evictions.
fn when_it_fails(app: &str) -> Value {
    match app {
        "web" => json!({"decisionConditions": {"tolerationSeconds": 0}, "purgeMode": "Directly"}),
        _ => json!({
            "decisionConditions": {"tolerationSeconds": 20}, "purgeMode": "Gracefully", "gracePeriodSeconds": 60,
        }),
    }
}

/// What the agent of a cluster writes.
fn say_ready(cluster: &mut Value, ready: &str, now: Time) {
    if condition(cluster, "Ready").is_none_or(|known| known["status"] != ready) {
        let now = now.to_string();
        cluster["status"]["conditions"] = json!([
            {"type": "Ready", "status": ready, "reason": "Said", "message": "", "lastTransitionTime": now}]);
    }
}

/// What the agent of a cluster writes about a workload.
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

/// What holds in every state that anybody could have read.
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

/// The trigger whose pass is pending.
fn pending_pass(binding: &Value) -> &Value {
    &binding["metadata"]["annotations"]["ballast.dev/owed"]
}

fn is_pending(binding: &Value) -> bool {
    let is_marked = binding["spec"]["forceRescheduling"] == true || !pending_pass(binding).is_null();
    is_marked || timestamp(binding) > last(binding)
}
