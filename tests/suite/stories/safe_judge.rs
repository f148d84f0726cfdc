//! Checks the log of a simulation with rebalances, row by row: the state visible at each revision,
//! and the effect of each step on a binding. It shares no code with the server.

use std::collections::BTreeMap;

use ballast::k8s::{GroupResource, Key};
use ballast::store::{Change, Operation};
use serde_json::Value;

use super::room_books::Books;
use super::world::{CREB, MOVES, QUOTAS, RB, REB};

/// The objects at one revision.
#[derive(Default)]
pub struct Judge {
    bindings: BTreeMap<Key, Value>,
    /// Rebalances of both kinds, and their Moves, by uid.
    rebalances: BTreeMap<String, Value>,
    moves: BTreeMap<String, Value>,
    /// The order in which rebalances were created, by uid.
    born: BTreeMap<String, usize>,
    /// The quota of the bindings in millicores of CPU, if there is one. Each replica uses 100.
    quota: Option<i64>,
    /// The previous row, if it changed a binding: the binding and its previous state.
    changed: Option<(Key, Value)>,
    /// The capacity of the clusters.
    books: Books,
    /// Counters of checks, to detect runs that check nothing.
    pub judged: Judged,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Judged {
    pub summaries: usize,
    pub begun: usize,
    /// Moves that began under a limit of moved replicas.
    pub limited: usize,
    /// Moves that began under a bound of replicas in flight.
    pub bounded: usize,
    /// Surge steps that bounds limit.
    pub split: usize,
    /// Steps that removed, or could have removed, ready replicas.
    pub floors: usize,
    pub surges: usize,
    /// Moves of drains that have begun.
    pub drained: usize,
    /// Steps under a quota.
    pub charged: usize,
    pub settled: usize,
    pub failed: usize,
    pub superseded: usize,
    /// Writes that added replicas to clusters.
    pub arrived: usize,
}

impl Judged {
    pub fn add(&mut self, other: Judged) {
        self.summaries += other.summaries;
        self.begun += other.begun;
        self.limited += other.limited;
        self.bounded += other.bounded;
        self.split += other.split;
        self.floors += other.floors;
        self.surges += other.surges;
        self.drained += other.drained;
        self.charged += other.charged;
        self.settled += other.settled;
        self.failed += other.failed;
        self.superseded += other.superseded;
        self.arrived += other.arrived;
    }
}

impl Judge {
    /// Applies the next row, and checks it.
    pub fn row(&mut self, row: &Change) -> Result<(), String> {
        self.books.enter(row)?;
        self.judged.arrived = self.books.judged;
        let is_of_interest = |resource: GroupResource| [RB, MOVES, REB, CREB, QUOTAS].contains(&resource);
        if !is_of_interest(row.key.resource) {
            self.changed = None;
            return Ok(());
        }
        let object: Value = serde_json::from_slice(&row.object).map_err(|error| error.to_string())?;
        let is_deletion = row.operation == Operation::Delete;
        let uid = text(&object["metadata"]["uid"]);
        let changed = self.changed.take();
        match row.key.resource {
            RB if is_deletion => {
                self.bindings.remove(&row.key);
                Ok(())
            }
            RB => {
                let before = self.bindings.insert(row.key.clone(), object).unwrap_or_default();
                self.changed = Some((row.key.clone(), before));
                Ok(())
            }
            QUOTAS => {
                self.quota = (!is_deletion).then(|| millis(&object["spec"]["overall"]["cpu"]));
                Ok(())
            }
            MOVES if is_deletion => {
                self.moves.remove(&uid);
                Ok(())
            }
            MOVES => self.read_move(uid, object, changed),
            _ if is_deletion => {
                self.rebalances.remove(&uid);
                Ok(())
            }
            _ => self.rebalance(uid, object),
        }
        .map_err(|fault| format!("at revision {} of {}: {fault}", row.revision, row.key))
    }

    // ---- rebalances ----

    /// The worker writes the rebalance last in each transaction.
    fn rebalance(&mut self, uid: String, object: Value) -> Result<(), String> {
        let before = self.rebalances.insert(uid.clone(), object.clone()).unwrap_or_default();
        let next = self.born.len() + 1;
        self.born.entry(uid.clone()).or_insert(next);
        let (phase, summary) = (&object["status"]["phase"], &object["status"]["summary"]);
        let is_over = |phase: &Value| phase == "Completed" || phase == "Aborted";
        if is_over(&before["status"]["phase"]) && before["status"]["phase"] != *phase {
            return Err(format!("it was over, and is {phase}"));
        }
        if !summary.is_object() || phase == "Planning" {
            return Ok(());
        }
        self.judged.summaries += 1;
        let moves: Vec<&Value> = self.moves.values().filter(|read| owner(read) == uid).collect();
        let count = |phase: &str| moves.iter().filter(|read| phase_of(read) == phase).count() as i64;
        let replicas = |counts: &dyn Fn(&Value) -> bool| -> i64 {
            moves.iter().filter(|read| counts(read)).map(|read| number(&read["spec"]["replicas"])).sum()
        };
        // A move that has arrived in part fails, but has moved its replicas.
        let has_arrived = |read: &Value| {
            phase_of(read) == "Settled" || phase_of(read) == "Failed" && read["status"]["observed"].is_boolean()
        };
        // A planned move that only removes replicas moves none, and may fail when it starts.
        let is_planned = |read: &&&Value| !shares(&read["spec"]["to"]).is_empty() || phase_of(read) != "Failed";
        let told = ["pending", "moving", "settled", "unchanged", "failed", "superseded"];
        let all: i64 = told.iter().map(|field| number(&summary[*field])).sum();
        for (what, told, seen) in [
            ("pending", &summary["pending"], count("Pending")),
            ("moving", &summary["moving"], count("Moving")),
            ("settled", &summary["settled"], count("Settled")),
            ("failed", &summary["failed"], count("Failed")),
            ("superseded", &summary["superseded"], count("Superseded")),
            ("toMove", &summary["toMove"], moves.iter().filter(is_planned).count() as i64),
            ("selected", &summary["selected"], all),
            ("replicasMoved", &summary["replicasMoved"], replicas(&has_arrived)),
            ("replicasToMove", &summary["replicasToMove"], replicas(&|_| true)),
        ] {
            if number(told) != seen {
                return Err(format!("{what} of {summary} is {seen}: {moves:#?}"));
            }
        }
        if number(&summary["unchanged"]) < count("Unchanged") {
            return Err(format!("more are unchanged than {summary}"));
        }
        if is_over(phase) && count("Pending") + count("Moving") > 0 {
            return Err(format!("it is {phase} before its moves: {summary}"));
        }
        Ok(())
    }

    // ---- moves ----

    /// `changed`: the binding that the previous row changed, and its previous state.
    fn read_move(&mut self, uid: String, object: Value, changed: Option<(Key, Value)>) -> Result<(), String> {
        let before = self.moves.insert(uid.clone(), object.clone());
        let (was, is) = (before.as_ref().map_or("", |read| phase_of(read)), phase_of(&object));
        let (had, has) = (before.as_ref().map(started), started(&object));
        let has_begun = !has.is_empty();
        if !["", "Pending", "Moving"].contains(&was) {
            return Err(format!("it was {was}, and is {is}"));
        }
        if had.is_some_and(|had| !had.is_empty() && had != has) {
            return Err(format!("it began twice: {object}"));
        }
        match is {
            "Settled" => self.judged.settled += 1,
            "Failed" => self.judged.failed += 1,
            "Superseded" => self.judged.superseded += 1,
            _ => {}
        }
        if was != "Moving" && has_begun {
            self.begins(&uid, &object)?;
        }
        // A move that has begun and was not superseded writes its binding just before, unless only
        // its ready replicas follow the reports (SG10).
        if !has_begun || is == "Superseded" {
            return Ok(());
        }
        match changed {
            Some((key, before)) if *key.name == *text(&object["spec"]["binding"]["name"]) => {
                let after = self.bindings[&key].clone();
                self.step(&object, &before, &after)
            }
            _ if before.is_some_and(|before| without_ready(before) == without_ready(object.clone())) => Ok(()),
            _ => Err(format!("its binding was not written with it: {object}")),
        }
    }

    fn begins(&mut self, uid: &str, object: &Value) -> Result<(), String> {
        self.judged.begun += 1;
        let owner = owner(object);
        let Some(rebalance) = self.rebalances.get(&owner) else {
            return Err("it begins, and its rebalance is gone".to_owned());
        };
        self.is_alone(&owner)?;
        let (spec, rollout) = (&rebalance["spec"], &rebalance["spec"]["rollout"]);
        if spec["paused"] == true || spec["abort"] == true {
            return Err(format!("it begins, and may not: {spec}"));
        }
        if spec["approval"] == "Required" && spec["approved"] != true {
            return Err(format!("it begins, and nobody has approved it: {spec}"));
        }
        if let Some(drained) = spec["drain"]["clusters"].as_array() {
            self.judged.drained += 1;
            let (from, to) = (shares(&object["spec"]["from"]), shares(&object["spec"]["to"]));
            // Missing replicas may go to any cluster, and surplus ones are removed.
            let sum = |shares: &BTreeMap<String, i64>| shares.values().sum::<i64>();
            let leaves = |(name, was): (&String, &i64)| {
                to.get(name).copied().unwrap_or_default() < *was && !drained.contains(&name.as_str().into())
            };
            let arrives = |(name, is): (&String, &i64)| {
                from.get(name).copied().unwrap_or_default() < *is && drained.contains(&name.as_str().into())
            };
            if sum(&from) == sum(&to) && (from.iter().any(leaves) || to.iter().any(arrives)) {
                return Err(format!("a drain of {drained:?} moves {from:?} to {to:?}"));
            }
        }
        let most = &spec["limits"]["maxMovedReplicas"];
        let name = text(&object["spec"]["binding"]["name"]);
        let binding = self.bindings.iter().find(|(key, _)| *key.name == *name).map(|(_, binding)| binding);
        if let Some(binding) = binding.filter(|binding| !most.is_null() && is_divided(binding)) {
            self.judged.limited += 1;
            let moved = number(&object["spec"]["replicas"]);
            let replicas = number(&binding["spec"]["replicas"]);
            if most_moved(most, replicas).is_some_and(|most| moved > most) {
                return Err(format!("{moved} of {replicas} replicas move, where {most} may: {object}"));
            }
        }
        if phase_of(object) != "Moving" {
            // It settled with its first step, with no replicas in flight.
            return Ok(());
        }
        let is_moving = |read: &Value| phase_of(read) == "Moving" && self::owner(read) == owner;
        let moving = self.moves.values().filter(|read| is_moving(read)).count() as i64;
        let to_move = number(&rebalance["status"]["summary"]["toMove"]);
        if let Some(most) = amount(&rollout["maxConcurrent"], to_move)
            && moving > most.max(1)
        {
            return Err(format!("{moving} of at most {most} moves are under way"));
        }
        let own = self.on_their_way(object);
        let mut others: BTreeMap<String, i64> = BTreeMap::new();
        for read in self.moves.iter().filter(|(other, read)| *other != uid && is_moving(read)).map(|(_, read)| read) {
            for (cluster, count) in self.on_their_way(read) {
                *others.entry(cluster).or_default() += count;
            }
        }
        // A move that is larger than a bound begins alone.
        let is_within =
            |most: &Value, own: i64, others: i64| most.is_null() || others == 0 || own + others <= number(most);
        let total = |counts: &BTreeMap<String, i64>| counts.values().sum::<i64>();
        let (most, most_to_one) = (&rollout["maxMovingReplicas"], &rollout["maxIncomingPerCluster"]);
        self.judged.bounded += usize::from(!most.is_null() || !most_to_one.is_null());
        if !is_within(most, total(&own), total(&others)) {
            return Err(format!("{own:?} come to {others:?} where {most} may be on their way"));
        }
        for (cluster, count) in &own {
            if !is_within(most_to_one, *count, others.get(cluster).copied().unwrap_or_default()) {
                return Err(format!("{own:?} come to {others:?} where {most_to_one} may come to each"));
            }
        }
        Ok(())
    }

    /// Checks that a rebalance and its undo do not move at the same time: no move of the rebalance
    /// is in progress when the undo begins, and none begins afterwards.
    fn is_alone(&self, uid: &str) -> Result<(), String> {
        let own = &self.rebalances[uid];
        let of = |rebalance: &Value, name: &Value| {
            let metadata = &rebalance["metadata"];
            metadata["name"] == *name && metadata["namespace"] == own["metadata"]["namespace"]
        };
        let born = |uid: &str| self.born.get(uid).copied().unwrap_or_default();
        let moves = |uid: &str, counts: &dyn Fn(&Value) -> bool| {
            self.moves.values().filter(|read| owner(read) == *uid && counts(read)).count()
        };
        for (other, rebalance) in self.rebalances.iter().filter(|(other, _)| *other != uid) {
            if rebalance["kind"] != own["kind"] {
                continue;
            }
            let undone = &own["spec"]["undo"]["name"];
            let is_left = |read: &Value| ["Pending", "Moving"].contains(&phase_of(read));
            if undone.is_string() && of(rebalance, undone) && born(other) < born(uid) && moves(other, &is_left) > 0 {
                return Err(format!("the undo begins, and {undone} goes on: {rebalance}"));
            }
            let is_undo = rebalance["metadata"]["namespace"] == own["metadata"]["namespace"]
                && rebalance["spec"]["undo"]["name"] == own["metadata"]["name"];
            let has_begun = |read: &Value| !started(read).is_empty();
            if is_undo && born(other) > born(uid) && moves(other, &has_begun) > 0 {
                return Err(format!("it begins, and its undo has begun: {rebalance}"));
            }
        }
        Ok(())
    }

    /// Returns the replicas of a Move that its clusters do not report as ready.
    fn on_their_way(&self, read: &Value) -> BTreeMap<String, i64> {
        let name = text(&read["spec"]["binding"]["name"]);
        let binding = self.bindings.iter().find(|(key, _)| *key.name == *name).map(|(_, binding)| binding);
        let from = shares(&read["spec"]["from"]);
        let mut all = BTreeMap::new();
        for (cluster, wanted) in shares(&read["spec"]["to"]) {
            let was = from.get(&cluster).copied().unwrap_or_default();
            let ready = binding.map_or(0, |binding| ready(binding, &cluster, wanted));
            let more = (wanted - was).max(0);
            let left = more - (ready - was).clamp(0, more);
            all.extend((left > 0).then_some((cluster, left)));
        }
        all
    }

    /// Checks a change of a binding by a rebalance.
    fn step(&mut self, read: &Value, before: &Value, after: &Value) -> Result<(), String> {
        let Some(rebalance) = self.rebalances.get(&owner(read)) else { return Ok(()) };
        let rollout = &rebalance["spec"]["rollout"];
        let (was, is) = (shares(&before["spec"]["clusters"]), shares(&after["spec"]["clusters"]));
        let replicas = number(&after["spec"]["replicas"]);
        let told = || format!("{was:?} -> {is:?} by {rollout} of {}", before["status"]["aggregatedStatus"]);
        let sum = |shares: &BTreeMap<String, i64>| shares.values().sum::<i64>();
        if let Some(limit) = self.quota {
            self.judged.charged += 1;
            let used =
                100 * self.bindings.values().map(|binding| sum(&shares(&binding["spec"]["clusters"]))).sum::<i64>();
            if sum(&is) > sum(&was) && used > limit {
                return Err(format!("{used} of {limit} thousandths of a CPU are used: {}", told()));
            }
        }
        if !is_divided(after) || was == is {
            return Ok(());
        }
        let is_reported = before["status"]["aggregatedStatus"].as_array().is_some_and(|items| !items.is_empty());
        let surges = rollout["strategy"] == "SurgeFirst" && is_reported && replicas > 0;
        if !surges {
            // A limit may leave missing replicas to the scheduler.
            let is_limited = !rebalance["spec"]["limits"]["maxMovedReplicas"].is_null();
            let is_all = sum(&is) == replicas || (is_limited && (sum(&was)..replicas).contains(&sum(&is)));
            return if is_all { Ok(()) } else { Err(format!("{replicas} have to be somewhere: {}", told())) };
        }
        self.judged.floors += 1;
        self.judged.surges += usize::from(sum(&is) > replicas);
        // Ready replicas are as reported at that time, also where a cluster reports no number.
        let at = |cluster: &String| was.get(cluster).copied().unwrap_or_default();
        let ready = |cluster: &String| ready(before, cluster, at(cluster));
        let available = |shares: &BTreeMap<String, i64>| -> i64 {
            shares.iter().map(|(cluster, assigned)| ready(cluster).min(*assigned)).sum()
        };
        // A step adds no more than the bounds permit, regardless of the size of the move.
        let from = shares(&read["spec"]["from"]);
        let in_flight = |cluster: &String| {
            let assigned = is.get(cluster).copied().unwrap_or_default();
            let stood = from.get(cluster).copied().unwrap_or_default().max(ready(cluster).min(assigned));
            (assigned - stood).max(0)
        };
        let raised: Vec<&String> = is.keys().filter(|cluster| is[*cluster] > at(cluster)).collect();
        let (most, most_to_one) = (&rollout["maxMovingReplicas"], &rollout["maxIncomingPerCluster"]);
        let total: i64 = is.keys().map(in_flight).sum();
        self.judged.split += usize::from(!raised.is_empty() && (!most.is_null() || !most_to_one.is_null()));
        if !raised.is_empty() && !most.is_null() && total > number(most) {
            return Err(format!("{total} replicas are on their way, where {most} may be: {}", told()));
        }
        if let Some(cluster) = raised.iter().find(|it| !most_to_one.is_null() && in_flight(it) > number(most_to_one)) {
            return Err(format!("{} come to {cluster}, where {most_to_one} may: {}", in_flight(cluster), told()));
        }
        let floor = amount(&rollout["minAvailable"], replicas).unwrap_or((replicas * 90 + 99) / 100).min(replicas);
        let (had, has) = (available(&was), available(&is));
        // A failing move removes only replicas that are not ready.
        let least = if phase_of(read) == "Failed" { had } else { had.min(floor) };
        if has < least {
            return Err(format!("{has} of at least {least} stay ready: {}", told()));
        }
        let surge = amount(&rollout["maxSurge"], replicas).unwrap_or(replicas);
        if sum(&is) > sum(&was).max(replicas + surge) {
            return Err(format!("{replicas} and {surge} more at most: {}", told()));
        }
        Ok(())
    }

    // ---- the end ----

    /// Checks the final state.
    pub fn end(&self) -> Result<(), String> {
        for read in self.moves.values() {
            if !self.rebalances.contains_key(&owner(read)) {
                return Err(format!("its rebalance is gone: {read}"));
            }
        }
        for (key, binding) in &self.bindings {
            if let Some(mark) = binding["metadata"]["annotations"].get("ballast.dev/move") {
                return Err(format!("{key} is still under way: {mark} {binding}"));
            }
            let (there, replicas) = (shares(&binding["spec"]["clusters"]), number(&binding["spec"]["replicas"]));
            if is_divided(binding) && there.values().sum::<i64>() != replicas {
                return Err(format!("{key}: {there:?} are not {replicas}: {binding}"));
            }
        }
        Ok(())
    }
}

pub fn is_divided(binding: &Value) -> bool {
    binding["spec"]["placement"]["replicaScheduling"]["replicaSchedulingType"] == "Divided"
}

/// Returns the Move without its ready replicas.
fn without_ready(mut object: Value) -> (Value, Value) {
    for share in object["status"]["now"].as_array_mut().into_iter().flatten() {
        share["ready"].take();
    }
    (object["spec"].take(), object["status"].take())
}

/// Returns the ready replicas that a cluster reports. A cluster that reports only health counts as
/// fully ready.
fn ready(binding: &Value, cluster: &str, assigned: i64) -> i64 {
    let reports = binding["status"]["aggregatedStatus"].as_array().map_or(&[][..], Vec::as_slice);
    let Some(report) = reports.iter().find(|report| report["clusterName"] == cluster) else { return 0 };
    let is_well = report["applied"] == true && report["health"] == "Healthy";
    let counted = report["status"]["readyReplicas"].as_i64();
    let is_counted = report["status"]["replicas"].is_number();
    counted.unwrap_or(if is_counted || !is_well { 0 } else { assigned })
}

fn shares(list: &Value) -> BTreeMap<String, i64> {
    let list = list.as_array().map_or(&[][..], Vec::as_slice);
    list.iter().map(|share| (text(&share["name"]), number(&share["replicas"]))).collect()
}

/// Returns an absolute or percentage amount, the latter rounded up.
fn amount(value: &Value, of: i64) -> Option<i64> {
    let percent = |text: &str| Some((of * text.trim_end_matches('%').parse::<i64>().ok()? + 99) / 100);
    value.as_i64().or_else(|| value.as_str().and_then(percent))
}

/// Returns the maximum of moved replicas of a divided workload under a limit: rounded down, and at
/// least one.
fn most_moved(value: &Value, of: i64) -> Option<i64> {
    let percent = |text: &str| Some((of * text.trim_end_matches('%').parse::<i64>().ok()? / 100).max(1));
    value.as_i64().or_else(|| value.as_str().and_then(percent))
}

/// Returns a quantity of CPU in millicores.
fn millis(value: &Value) -> i64 {
    let text = text(value);
    match text.strip_suffix('m') {
        Some(millis) => millis.parse().unwrap_or_default(),
        None => text.parse::<i64>().unwrap_or_default() * 1_000,
    }
}

fn phase_of(read: &Value) -> &str {
    read["status"]["phase"].as_str().unwrap_or("Pending")
}

fn started(read: &Value) -> String {
    text(&read["status"]["startedAt"])
}

fn owner(read: &Value) -> String {
    text(&read["metadata"]["ownerReferences"][0]["uid"])
}

fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or_default()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
