//! Snapshots of a KubeFleet placement during a simulation, and the changes that a worker may make
//! in one turn.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::world::condition;

pub const IS_LATEST: &str = "kubernetes-fleet.io/is-latest-snapshot";

/// A placement at one moment.
pub struct Sight {
    pub name: &'static str,
    pub placement: Option<Value>,
    pub snapshot: Option<Value>,
    pub bindings: BTreeMap<String, Value>,
}

impl Sight {
    /// Checks a turn of the rollout: it never reduces the ready clusters below the strategy's
    /// minimum, and never exceeds its maximum of clusters with resources.
    pub fn bounds_are_kept(&self, after: &Sight) -> Result<(), String> {
        let (Some(placement), Some(snapshot)) = (&self.placement, &self.snapshot) else { return Ok(()) };
        let live = self.bindings.values().filter(|binding| is_live(binding)).map(target).collect::<BTreeSet<_>>();
        let policy = &placement["spec"]["policy"];
        let target_count = match policy["placementType"].as_str() {
            Some("PickFixed") => snapshot["spec"]["policy"]["clusterNames"].as_array().unwrap().len(),
            Some("PickN") => {
                let number = &snapshot["metadata"]["annotations"]["kubernetes-fleet.io/number-of-clusters"];
                number.as_str().unwrap().parse().unwrap()
            }
            _ => live.len(),
        };
        let rolling = &placement["spec"]["strategy"]["rollingUpdate"];
        let amount = |field: &str| match &rolling[field] {
            Value::Number(number) => number.as_u64().unwrap() as usize,
            other => {
                let percent = other.as_str().unwrap_or("25%").trim_end_matches('%').parse::<usize>().unwrap();
                (target_count * percent).div_ceil(100)
            }
        };
        let (ready, ready_after) = (self.ready(), after.ready());
        let floor = target_count.saturating_sub(amount("maxUnavailable"));
        if ready.difference(&ready_after).next().is_some() && ready_after.len() < floor {
            let (was, is) = (self.brief(), after.brief());
            return Err(format!(
                "{ready:?} were ready, {ready_after:?} are, of at least {floor}: {was:#?}, then {is:#?}"
            ));
        }
        let is_bound =
            |name: &&String| after.bindings.get(*name).is_some_and(|after| after["spec"]["state"] == "Bound");
        let waiting = self.bindings.iter().filter(|(_, binding)| binding["spec"]["state"] == "Scheduled");
        let bound = waiting.map(|(name, _)| name).filter(is_bound).count();
        // A binding without finalizers disappears with the write that deletes it.
        let stays = self.bindings.iter().filter(|(name, _)| after.bindings.contains_key(*name));
        let with_resources = stays.map(|(_, binding)| binding).filter(|binding| has_resources(binding));
        let with_resources = with_resources.map(target).collect::<BTreeSet<_>>().len();
        let ceiling = target_count + amount("maxSurge");
        if bound > 0 && with_resources + bound > ceiling {
            let (was, is) = (self.brief(), after.brief());
            return Err(format!(
                "{with_resources} had resources and {bound} more were bound, of at most {ceiling}: {was:#?}, then {is:#?}"
            ));
        }
        Ok(())
    }

    fn brief(&self) -> Vec<String> {
        let brief = |(name, binding): (&String, &Value)| {
            let is_going = !binding["metadata"]["deletionTimestamp"].is_null();
            let (state, available) = (&binding["spec"]["state"], current(binding, "Available"));
            format!("{name} on {}: {state}, available {available:?}, going {is_going}", target(binding))
        };
        self.bindings.iter().map(brief).collect()
    }

    /// Returns the clusters on which the resources are available.
    fn ready(&self) -> BTreeSet<String> {
        let is_ready = |binding: &&Value| {
            has_resources(binding)
                && binding["metadata"]["deletionTimestamp"].is_null()
                && current(binding, "Available") == Some("True")
        };
        self.bindings.values().filter(is_ready).map(target).collect()
    }

    /// Checks a turn of the scheduler: it binds nothing (R172) and deletes no live binding (R173).
    pub fn is_only_scheduled(&self, after: &Sight) -> Result<(), String> {
        if after.placement.as_ref().is_none_or(|placement| !placement["metadata"]["deletionTimestamp"].is_null()) {
            return Ok(());
        }
        for (name, before) in self.bindings.iter().filter(|(_, binding)| is_live(binding)) {
            match after.bindings.get(name) {
                None => return Err(format!("{name} is gone")),
                Some(after) if !after["metadata"]["deletionTimestamp"].is_null() => {
                    return Err(format!("{name} was deleted"));
                }
                Some(after) if before["spec"]["state"] == "Scheduled" && after["spec"]["state"] == "Bound" => {
                    return Err(format!("{name} was bound"));
                }
                Some(_) => {}
            }
        }
        Ok(())
    }
}

pub fn is_latest(snapshot: &Value) -> bool {
    snapshot["metadata"]["labels"][IS_LATEST] == "true"
}

pub fn target(binding: &Value) -> String {
    binding["spec"]["targetCluster"].as_str().unwrap().to_owned()
}

pub fn is_live(binding: &Value) -> bool {
    binding["metadata"]["deletionTimestamp"].is_null() && binding["spec"]["state"] != "Unscheduled"
}

/// Returns whether the cluster has the resources and has reported no failure.
fn has_resources(binding: &Value) -> bool {
    let has_failed = ["Applied", "Available"].iter().any(|type_| current(binding, type_) == Some("False"));
    binding["spec"]["state"] != "Scheduled" && !has_failed
}

/// Returns the status of the condition if it applies to the current state on the cluster. Marking
/// the binding as Unscheduled changes nothing there.
fn current<'b>(binding: &'b Value, type_: &str) -> Option<&'b str> {
    let condition = condition(binding, type_)?;
    let behind = binding["metadata"]["generation"].as_i64()? - condition["observedGeneration"].as_i64()?;
    let behind_max = i64::from(binding["spec"]["state"] == "Unscheduled");
    (0..=behind_max).contains(&behind).then(|| condition["status"].as_str().unwrap())
}
