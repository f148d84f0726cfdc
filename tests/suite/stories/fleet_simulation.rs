//! Randomized simulation of KubeFleet placements of both scopes. Clusters join, leave, stop
//! reporting and change; users edit policies and strategies, scale, trigger, replace, delete,
//! create bindings by hand and tamper with bindings and snapshots; agents report and fail, the
//! store fails, the clock steps, and the process crashes between any two steps.
//!
//! At every step the rollout respects its bounds, and the scheduler neither binds nor deletes a
//! live binding. After the faults end, each placement has one live binding per cluster, as many as
//! its policy requests or a condition with the reason, every trigger has its snapshot, and no
//! object of a deleted placement remains.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use ballast::api::fleet::placement::v1beta1::any::{CLUSTER, NAMESPACED, PlacementKinds};
use ballast::k8s::{GroupResource, Key, Revision, Time};
use ballast::registry::{Atomicity, Change, Part};
use serde_json::{Value, json};

use super::fleet::rebalancer;
use super::fleet_sight::{IS_LATEST, Sight, is_latest, is_live, target};
#[cfg(test)]
use super::simulation::STEPS;
use super::simulation::{Dice, Mishap, is_forgetful};
use super::world::{World, condition};

const CLUSTERS: [&str; 4] = ["a", "b", "c", "d"];
const NAMES: [&str; 4] = ["all", "few", "fixed", "one"];
const WORKERS: [&str; 5] = ["rebalancer", "placement", "rollout", "fleet-scheduler", "member-cluster"];
/// A world that is still busy after this many turns never settles.
const TURNS_MAX: usize = 1_000;

const MEMBERS: GroupResource = GroupResource::new("memberclusters.cluster.kubernetes-fleet.io");

/// The namespace of namespaced placements.
const TEAM: &str = "team";
const PARENT: &str = "kubernetes-fleet.io/parent-CRP";
const INDEX: &str = "kubernetes-fleet.io/resource-index";
const PREVIOUS_STATE: &str = "kubernetes-fleet.io/previous-binding-state";
const WORK_CLEANUP: &str = "kubernetes-fleet.io/work-cleanup";
const TRIGGERED_AT_FIELD: &str = "ballast.dev/reschedule-triggered-at";

struct Life {
    world: World,
    dice: Dice,
    /// Every second run uses namespaced placements.
    kinds: &'static PlacementKinds,
    /// Triggers by task of each existing placement: certainly accepted, and possibly accepted.
    accepted: BTreeMap<&'static str, (usize, usize)>,
    /// Triggers by rebalancer. The placement may be deleted before they are processed.
    rebalancers: BTreeMap<Key, &'static str>,
    /// The last observed revision and state.
    seen: (Revision, Rc<Vec<Sight>>),
}

#[tokio::test]
async fn whatever_happens_to_a_fleet_its_placements_settle_within_their_bounds() {
    for seed in 0..crate::support::size::sized(6, 12) {
        live(seed, STEPS).await.unwrap_or_else(|fault| panic!("{fault}"));
    }
}

/// Runs one simulation of `steps` steps, and returns the first violation.
pub async fn live(seed: u64, steps: usize) -> Result<(), String> {
    let mut life = Life::begin(seed).await;
    let mut taken = Vec::new();
    let mut outcome = Ok(());
    for _ in 0..steps {
        match life.step().await {
            Ok(step) => taken.push(step),
            Err(fault) => {
                outcome = Err(fault);
                break;
            }
        }
    }
    if outcome.is_ok() {
        outcome = life.end().await;
    }
    outcome.map_err(|fault| format!("fleet, seed {seed}: {fault}\nafter {taken:#?}"))
}

impl Life {
    async fn begin(seed: u64) -> Life {
        let mut world = World::new().await;
        if is_forgetful(seed) {
            world.be_forgetful().await;
        }
        let kinds = if seed.is_multiple_of(2) { &CLUSTER } else { &NAMESPACED };
        let (accepted, rebalancers, seen) = Default::default();
        let mut life = Life { world, dice: Dice(seed), kinds, accepted, rebalancers, seen };
        for name in CLUSTERS {
            life.join(name).await;
        }
        for name in NAMES {
            life.place(name).await;
        }
        life
    }

    async fn step(&mut self) -> Result<String, String> {
        let name = self.dice.pick(&NAMES);
        let member = self.dice.pick(&CLUSTERS);
        let (placement, cluster) = (self.key(self.kinds.placements, name), Key::cluster(MEMBERS, member));
        Ok(match self.dice.roll(28) {
            0 | 1 => {
                let resource = self.reference("placement.kubernetes-fleet.io/v1", name);
                let done = self.world.task(json!({"targetRefResource": [resource]})).await.is_ok();
                if let Some((sure, perhaps)) = self.accepted.get_mut(name) {
                    *if done { sure } else { perhaps } += 1;
                }
                format!("task for {name}: {done}")
            }
            2 => {
                let workload = self.reference("placement.kubernetes-fleet.io/v1beta1", name);
                let own = format!("demo-{}", self.dice.roll(u64::MAX));
                let created = self.world.try_given(rebalancer(&own, vec![workload])).await;
                let done = created.is_ok();
                self.rebalancers.extend(created.ok().map(|key| (key, name)));
                format!("rebalancer for {name}: {done}")
            }
            3 | 4 => {
                let policy = self.another_policy(name);
                format!(
                    "{name} wants {policy}: {}",
                    self.edit(&placement, |object| {
                        for (field, value) in policy.as_object().unwrap() {
                            object["spec"]["policy"][field] = value.clone();
                        }
                    })
                    .await
                )
            }
            5 => {
                let (fewer, more) =
                    self.dice.pick(&[("0", "1"), ("1", "0"), ("25%", "25%"), ("100%", "0"), ("1", "2")]);
                let amount = |text: &str| text.parse::<i64>().map_or(json!(text), Value::from);
                let rolling = json!({"maxUnavailable": amount(fewer), "maxSurge": amount(more)});
                let done =
                    self.edit(&placement, |object| object["spec"]["strategy"]["rollingUpdate"] = rolling.clone()).await;
                format!("{name} rolls by {fewer} and {more}: {done}")
            }
            6 => format!("{name} is replaced: {}", self.replace(&placement).await),
            7 => match self.world.get(&placement) {
                Some(_) => {
                    let done = self.world.try_delete(&placement).await.is_ok();
                    if done {
                        self.accepted.remove(name);
                    }
                    format!("{name} is deleted: {done}")
                }
                None => {
                    let done = self.place(name).await;
                    format!("{name} is made anew: {done}")
                }
            },
            8 => {
                let tier = self.dice.pick(&["gold", "tin"]);
                format!(
                    "{member} is {tier}: {}",
                    self.edit(&cluster, |object| object["metadata"]["labels"]["tier"] = json!(tier)).await
                )
            }
            9 => match self.world.get(&cluster) {
                Some(_) => format!("{member} leaves: {}", self.world.try_delete(&cluster).await.is_ok()),
                None => format!("{member} joins: {}", self.join(member).await),
            },
            10 => {
                let is_well = self.dice.roll(2) == 0;
                format!("{member} is well, {is_well}: {}", self.report(member, is_well).await)
            }
            11 => {
                let taints = self.dice.pick(&["[]", r#"[{"key": "t", "effect": "NoSchedule"}]"#]);
                let value: Value = serde_json::from_str(taints).unwrap();
                format!(
                    "{member} has taints {taints}: {}",
                    self.edit(&cluster, |object| object["spec"]["taints"] = value.clone()).await
                )
            }
            12 => format!("a twin of {name}: {}", self.twin(name).await),
            13 => format!("new resources of {name}: {}", self.resources(name).await),
            24 => self.edit_binding(name).await,
            25 => self.edit_snapshot(name).await,
            26 => {
                let type_ = self.dice.pick(&["ClientSideApply", "ServerSideApply"]);
                let apply = json!({"type": type_});
                let done = self.edit(&placement, |object| object["spec"]["strategy"]["applyStrategy"] = apply.clone());
                format!("{name} is applied by {type_}: {}", done.await)
            }
            27 => {
                let limit = 1 + self.dice.roll(3);
                let done = self.edit(&placement, |object| object["spec"]["revisionHistoryLimit"] = json!(limit)).await;
                format!("{name} keeps {limit} snapshots: {done}")
            }
            14 => Mishap::ClockSteps.befall(&mut self.world, &mut self.dice).await,
            15 => Mishap::StoreFails.befall(&mut self.world, &mut self.dice).await,
            16 => Mishap::StoreIsMended.befall(&mut self.world, &mut self.dice).await,
            17 => Mishap::Crash.befall(&mut self.world, &mut self.dice).await,
            18 | 19 => {
                let reports = self.agents(4).await;
                format!("agents report, {reports}")
            }
            _ => {
                let turns = 1 + self.dice.roll(8);
                for _ in 0..turns {
                    let worker = self.dice.pick(&WORKERS);
                    self.turn_of(worker).await?;
                }
                format!("{turns} turns")
            }
        })
    }

    // Actions of users and clusters.

    async fn place(&mut self, name: &'static str) -> bool {
        let policy = match name {
            "all" => json!({"placementType": "PickAll"}),
            "fixed" => json!({"placementType": "PickFixed", "clusterNames": ["a", "b"]}),
            "few" => json!({"placementType": "PickN", "numberOfClusters": 2,
                            "topologySpreadConstraints": [{"topologyKey": "region"}]}),
            _ => json!({"placementType": "PickN", "numberOfClusters": 1}),
        };
        let selector = json!({"group": "", "version": "v1", "kind": "Namespace", "name": name});
        let spec = json!({"resourceSelectors": [selector], "policy": policy});
        let done = self.make(self.kinds.placements, json!({"metadata": {"name": name}, "spec": spec})).await;
        if done {
            self.accepted.insert(name, (0, 0));
        }
        done
    }

    /// Returns fields of a policy, to be merged into it.
    fn another_policy(&mut self, name: &str) -> Value {
        let tier = self.dice.pick(&["gold", "tin"]);
        let labels = json!({"labelSelector": {"matchLabels": {"tier": tier}}});
        let preferred = json!({"clusterAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 10, "preference": labels}]}});
        let required = json!({"clusterAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": [labels]}}});
        match (name, self.dice.roll(3)) {
            ("fixed", rolled) => json!({"clusterNames": CLUSTERS[rolled as usize..]}),
            ("all", 0) => json!({"affinity": null}),
            ("all", _) => json!({"affinity": required}),
            (_, 0) => json!({"affinity": preferred}),
            (_, _) => json!({"numberOfClusters": self.dice.roll(5)}),
        }
    }

    /// Replaces the object as `kubectl replace` does: with the manifest, without fields that others
    /// added.
    async fn replace(&mut self, key: &Key) -> bool {
        let Some(Value::Object(mut object)) = self.world.get(key) else { return false };
        let known = object["metadata"].clone();
        object["metadata"] = json!({"name": known["name"], "namespace": known["namespace"],
                                    "resourceVersion": known["resourceVersion"], "finalizers": known["finalizers"]});
        self.write(self.kinds.placements, Change::Update { part: Part::Main, object }).await
    }

    async fn join(&mut self, name: &str) -> bool {
        let region = if matches!(name, "a" | "b") { "east" } else { "west" };
        let object = json!({
            "apiVersion": "cluster.kubernetes-fleet.io/v1beta1", "kind": "MemberCluster",
            "metadata": {"name": name, "labels": {"region": region, "tier": "gold"}},
            "spec": {"identity": {"kind": "User", "name": name}},
        });
        self.create(MEMBERS, object).await && self.report(name, true).await
    }

    async fn report(&mut self, name: &str, is_well: bool) -> bool {
        let now = self.world.now().to_string();
        let condition = |type_: &str| {
            let status = if is_well { "True" } else { "False" };
            json!({"type": type_, "status": status, "reason": type_, "message": "", "lastTransitionTime": now})
        };
        let agent = json!({"type": "MemberAgent", "lastReceivedHeartbeat": now,
                           "conditions": [condition("Joined"), condition("Healthy")]});
        self.edit(&Key::cluster(MEMBERS, name), |cluster| cluster["status"]["agentStatus"] = json!([agent])).await
    }

    /// Creates a second binding by hand.
    async fn twin(&mut self, name: &str) -> bool {
        let Some((_, first)) = self.bindings(name).into_iter().find(|(_, binding)| is_live(binding)) else {
            return false;
        };
        let mut twin = first;
        // Named and finalized as the scheduler's own bindings, or not.
        let (prefix, finalizers): (_, &[&str]) =
            self.dice.pick(&[(name, &["kubernetes-fleet.io/scheduler-crb-cleanup"]), ("by-hand", &[])]);
        let own = format!("{prefix}-{}-{:08x}", target(&twin), self.dice.roll(1 << 32));
        twin["metadata"] = json!({"name": own, "labels": twin["metadata"]["labels"], "finalizers": finalizers});
        twin.as_object_mut().unwrap().remove("status");
        self.make(self.kinds.bindings, twin).await
    }

    /// Edits or deletes a binding as a user. The scheduler and the rollout revert the edits.
    async fn edit_binding(&mut self, name: &'static str) -> String {
        let bindings = self.bindings(name);
        let Some((key, binding)) = one_of(&mut self.dice, &bindings) else { return format!("no binding of {name}") };
        // Unless a PickFixed policy names the cluster, the binding would remain, as upstream.
        let sight = self.sight(name);
        let named =
            sight.placement.as_ref().and_then(|placement| placement["spec"]["policy"]["clusterNames"].as_array());
        let clusters = named.map_or(CLUSTERS.to_vec(), |names| names.iter().filter_map(Value::as_str).collect());
        let spec = match self.dice.roll(6) {
            0 => {
                let done = self.world.try_delete(key).await.is_ok();
                return format!("{} is deleted: {done}", key.name);
            }
            1 => json!({"targetCluster": self.dice.pick(&clusters)}),
            2 => json!({"resourceSnapshotName": ""}),
            3 => json!({"schedulingPolicySnapshotName": "another"}),
            4 => json!({"state": "Scheduled"}),
            _ => json!({"state": "Unscheduled"}),
        };
        let was = json!({PREVIOUS_STATE: binding["spec"]["state"]});
        let is_marked = spec["state"] == "Unscheduled" && is_live(binding);
        let done = self.edit(key, |object| {
            json_patch::merge(&mut object["spec"], &spec);
            if is_marked {
                object["metadata"]["annotations"] = was.clone();
            }
        });
        format!("{} says {spec}: {}", key.name, done.await)
    }

    /// Deletes a snapshot, or toggles whether it is the latest.
    async fn edit_snapshot(&mut self, name: &str) -> String {
        let kind = self.dice.pick(&[self.kinds.policy_snapshots, self.kinds.resource_snapshots]);
        let snapshots = self.children(kind, name);
        let Some((key, _)) = one_of(&mut self.dice, &snapshots) else { return format!("no snapshot of {name}") };
        if self.dice.roll(2) == 0 {
            let done = self.world.try_delete(key).await.is_ok();
            return format!("{} is deleted: {done}", key.name);
        }
        let latest = self.dice.pick(&["true", "false"]);
        let done = self.edit(key, |object| object["metadata"]["labels"][IS_LATEST] = json!(latest)).await;
        format!("{} is the latest, {latest}: {done}", key.name)
    }

    /// Creates a newer snapshot of the resources.
    async fn resources(&mut self, name: &str) -> bool {
        let known = self.children(self.kinds.resource_snapshots, name);
        let index =
            |object: &Value| object["metadata"]["labels"][INDEX].as_str().and_then(|text| text.parse::<u64>().ok());
        let Some(newest) = known.iter().filter_map(|(_, object)| index(object)).max() else { return false };
        let next = newest + 1;
        let labels = json!({PARENT: name, IS_LATEST: "true", INDEX: next.to_string()});
        let metadata = json!({"name": format!("{name}-{next}-snapshot"), "labels": labels});
        let object = json!({"metadata": metadata, "spec": {"selectedResources": []}});
        self.make(self.kinds.resource_snapshots, object).await
    }

    /// Reports the status of one in `of` bindings, as the agents of the clusters do; of all if `of`
    /// is 1.
    async fn agents(&mut self, of: u64) -> usize {
        let mut reports = 0;
        for (key, binding) in self.all(self.kinds.bindings) {
            let generation = binding["metadata"]["generation"].clone();
            let knows = condition(&binding, "Available").is_some_and(|told| told["observedGeneration"] == generation);
            let finalizers = binding["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
            let is_there = finalizers.contains(&json!(WORK_CLEANUP));
            let is_going = !binding["metadata"]["deletionTimestamp"].is_null();
            let is_due = if is_going { is_there } else { binding["spec"]["state"] != "Scheduled" && !knows };
            if !is_due || self.dice.roll(of) != 0 {
                continue;
            }
            let applied = of == 1 || self.dice.roll(4) != 0;
            let now = self.world.now().to_string();
            let wrote = self.edit(&key, |binding| {
                if is_going {
                    let others: Vec<&Value> = finalizers.iter().filter(|other| **other != WORK_CLEANUP).collect();
                    binding["metadata"]["finalizers"] = json!(others);
                    return;
                }
                if !is_there {
                    binding["metadata"]["finalizers"] = [finalizers.as_slice(), &[json!(WORK_CLEANUP)]].concat().into();
                }
                let mut conditions = binding["status"]["conditions"].as_array().cloned().unwrap_or_default();
                for type_ in ["WorkSynchronized", "Applied", "Available"] {
                    let status = if applied || type_ == "WorkSynchronized" { "True" } else { "False" };
                    conditions.retain(|condition| condition["type"] != type_);
                    conditions.push(json!({"type": type_, "status": status, "reason": type_, "message": "",
                                           "observedGeneration": generation, "lastTransitionTime": now}));
                }
                binding["status"]["conditions"] = conditions.into();
            });
            reports += usize::from(wrote.await);
        }
        reports
    }

    // Invariants of each step.

    /// Runs each worker until it is idle, one after another. Returns whether any had work.
    async fn turn(&mut self) -> Result<bool, String> {
        let mut busy = false;
        for worker in WORKERS {
            busy |= self.turn_of(worker).await?;
        }
        Ok(busy)
    }

    /// Runs the worker until none of its batches is pending: it is accountable for all changes
    /// meanwhile.
    async fn turn_of(&mut self, worker: &str) -> Result<bool, String> {
        let before = self.sights();
        let mut turns = 0;
        while self.world.turn_of(worker).await {
            turns += 1;
            if turns > TURNS_MAX {
                return Err(format!("{worker} never ends"));
            }
        }
        let after = self.sights();
        for (before, after) in before.iter().zip(&*after).filter(|(before, _)| before.placement.is_some()) {
            let fault = match worker {
                "rollout" => before.bounds_are_kept(after),
                "fleet-scheduler" => before.is_only_scheduled(after),
                _ => Ok(()),
            };
            fault.map_err(|fault| format!("{worker} on {}: {fault}", before.name))?;
        }
        Ok(turns > 0)
    }

    async fn settle(&mut self) -> Result<(), String> {
        for _ in 0..TURNS_MAX {
            if !self.turn().await? && self.agents(1).await == 0 {
                return Ok(());
            }
        }
        Err("it does not settle".to_owned())
    }

    fn sights(&mut self) -> Rc<Vec<Sight>> {
        let revision = self.world.client().view().revision;
        if self.seen.0 != revision {
            self.seen = (revision, Rc::new(NAMES.iter().map(|name| self.sight(name)).collect()));
        }
        Rc::clone(&self.seen.1)
    }

    fn sight(&self, name: &'static str) -> Sight {
        let placement = self.world.get(&self.key(self.kinds.placements, name));
        let snapshot =
            self.children(self.kinds.policy_snapshots, name).into_iter().find(|(_, snapshot)| is_latest(snapshot));
        let bindings = self.bindings(name).into_iter().map(|(key, binding)| (key.name.to_string(), binding));
        Sight { name, placement, snapshot: snapshot.map(|(_, snapshot)| snapshot), bindings: bindings.collect() }
    }

    // The end of the run.

    async fn end(mut self) -> Result<(), String> {
        self.world.mend();
        // A leaving cluster is removed before it joins again.
        self.outwait_backoffs().await?;
        for name in CLUSTERS {
            let key = Key::cluster(MEMBERS, name);
            match self.world.get(&key) {
                // Touch only unhealthy clusters: an overlooked binding must settle without help.
                Some(cluster) if self.is_well(&cluster) => {}
                Some(_) => {
                    self.edit(&key, |cluster| cluster["spec"]["taints"] = json!([])).await;
                    self.report(name, true).await;
                }
                None => {
                    self.join(name).await;
                }
            }
        }
        self.outwait_backoffs().await?;
        for name in NAMES {
            self.judge(name).await.map_err(|fault| format!("{name}: {fault}"))?;
        }
        for key in self.rebalancers.keys() {
            let status = &self.world.get(key).ok_or("a rebalancer is gone")?["status"];
            if status["observedGeneration"] != 1 || status["finishTime"].is_null() {
                return Err(format!("{key} is not done: {status}"));
            }
        }
        for name in CLUSTERS {
            self.report(name, true).await;
        }
        self.settle().await?;
        let revision = self.world.client().view().revision;
        for _ in 0..20 {
            self.world.clock.advance_seconds(10);
            self.settle().await?;
        }
        if self.world.client().view().revision != revision {
            return Err("it does not come to rest".to_owned());
        }
        Ok(())
    }

    async fn outwait_backoffs(&mut self) -> Result<(), String> {
        for _ in 0..30 {
            self.world.clock.advance_seconds(2);
            self.settle().await?;
        }
        Ok(())
    }

    async fn judge(&self, name: &'static str) -> Result<(), String> {
        let sight = self.sight(name);
        let Some(placement) = &sight.placement else {
            let left = self.kinds.all().map(|kind| self.children(kind, name).len());
            return if left == [0; 4] { Ok(()) } else { Err(format!("{left:?} are left behind")) };
        };
        let snapshots = self.children(self.kinds.policy_snapshots, name);
        let latest: Vec<&Value> =
            snapshots.iter().map(|(_, snapshot)| snapshot).filter(|snapshot| is_latest(snapshot)).collect();
        let [snapshot] = latest.as_slice() else { return Err(format!("{} snapshots are in force", latest.len())) };
        let timestamp = |object: &Value| object["metadata"]["annotations"][TRIGGERED_AT_FIELD].clone();
        if timestamp(placement) != timestamp(snapshot) {
            return Err(format!("a trigger is lost: {} is not {}", timestamp(placement), timestamp(snapshot)));
        }
        let uid = &placement["metadata"]["uid"];
        let history = self.world.history(&self.key(self.kinds.placements, name)).await;
        let timestamps: BTreeSet<String> = history
            .iter()
            .filter(|state| state["metadata"]["uid"] == *uid)
            .filter_map(|state| timestamp(state).as_str().map(str::to_owned))
            .collect();
        let (sure, perhaps) = self.accepted[name];
        let perhaps = perhaps + self.rebalancers.values().filter(|of| **of == name).count();
        if !(sure..=sure + perhaps).contains(&timestamps.len()) {
            return Err(format!("{} stamps for {sure} to {} triggers", timestamps.len(), sure + perhaps));
        }
        let scheduled = condition(placement, &format!("{}Scheduled", self.kinds.kind)).ok_or("nothing is said")?;
        if scheduled["observedGeneration"] != placement["metadata"]["generation"] {
            return Err(format!("what is said is old: {scheduled:?}"));
        }
        let mut clusters = BTreeSet::new();
        for binding in sight.bindings.values() {
            if binding["spec"]["state"] != "Bound" || !binding["metadata"]["deletionTimestamp"].is_null() {
                return Err(format!("half way: {binding}"));
            }
            if !clusters.insert(target(binding)) {
                return Err(format!("two live bindings on {}", target(binding)));
            }
        }
        let policy = &placement["spec"]["policy"];
        let wanted = match policy["placementType"].as_str() {
            Some("PickN") => policy["numberOfClusters"].as_u64().unwrap() as usize,
            Some("PickFixed") => policy["clusterNames"].as_array().unwrap().len(),
            // All that fit: without a requirement, every existing cluster.
            _ if policy["affinity"].is_null() => CLUSTERS.len(),
            _ => clusters.len(),
        };
        match (clusters.len().cmp(&wanted), scheduled["status"].as_str()) {
            (std::cmp::Ordering::Equal, Some("True")) => Ok(()),
            (std::cmp::Ordering::Less, Some("False")) if wanted > CLUSTERS.len() || name == "few" => Ok(()),
            _ => Err(format!("{clusters:?} for {wanted}, {scheduled:?}")),
        }
    }

    /// Returns whether the cluster has no taints, is healthy, and has a heartbeat recent enough to
    /// count until everything has settled.
    fn is_well(&self, cluster: &Value) -> bool {
        let agent = &cluster["status"]["agentStatus"][0];
        let heard = agent["lastReceivedHeartbeat"].as_str().and_then(|time| time.parse::<Time>().ok());
        let says_so = agent["conditions"].as_array().is_some_and(|all| all.iter().all(|told| told["status"] == "True"));
        let has_taints = cluster["spec"]["taints"].as_array().is_some_and(|taints| !taints.is_empty());
        says_so && !has_taints && heard.is_some_and(|heard| self.world.now().seconds() - heard.seconds() < 120)
    }

    // Objects.

    fn key(&self, resource: GroupResource, name: &str) -> Key {
        let namespace = if self.kinds == &NAMESPACED { TEAM } else { "" };
        Key { resource, namespace: namespace.into(), name: name.into() }
    }

    fn reference(&self, api_version: &str, name: &str) -> Value {
        let key = self.key(self.kinds.placements, name);
        json!({"apiVersion": api_version, "kind": self.kinds.kind, "namespace": *key.namespace, "name": name})
    }

    /// Creates an object in the scope of the placements.
    async fn make(&self, resource: GroupResource, mut object: Value) -> bool {
        object["metadata"]["namespace"] = json!(*self.key(resource, "").namespace);
        self.create(resource, self.kinds.tree(resource, &object).into()).await
    }

    fn bindings(&self, name: &str) -> Vec<(Key, Value)> {
        self.children(self.kinds.bindings, name)
    }

    async fn create(&self, resource: GroupResource, object: Value) -> bool {
        let Value::Object(object) = object else { panic!("an object") };
        self.write(resource, Change::Create(object)).await
    }

    /// Edits an object. Returns false if it does not exist.
    async fn edit(&self, key: &Key, change: impl Fn(&mut Value)) -> bool {
        self.world.get(key).is_some() && self.world.try_edit(key, change).await.is_ok()
    }

    async fn write(&self, resource: GroupResource, change: Change) -> bool {
        let outcomes = self.world.client().batch(vec![(resource, change)], Atomicity::Each).await;
        outcomes.is_ok_and(|outcomes| outcomes.iter().all(Result::is_ok))
    }

    fn all(&self, resource: GroupResource) -> Vec<(Key, Value)> {
        let view = self.world.client().view();
        let objects = view.list(resource, None);
        objects.map(|object| (object.key.clone(), serde_json::from_slice(&object.text.content()).unwrap())).collect()
    }

    fn children(&self, resource: GroupResource, name: &str) -> Vec<(Key, Value)> {
        let all = self.all(resource).into_iter();
        all.filter(|(_, object)| object["metadata"]["labels"][PARENT] == name).collect()
    }
}

fn one_of<'v, T>(dice: &mut Dice, of: &'v [T]) -> Option<&'v T> {
    let number = dice.roll(of.len().max(1) as u64);
    of.get(usize::try_from(number).ok()?)
}
