//! Which bindings a changed cluster concerns.
//!
//! Those whose placement can choose the cluster, and those that are on it. A binding that could have
//! chosen the cluster before the change, cannot any more, and is not there loses nothing.
//!
//! Every binding is looked at, but its placement only once for each distinct text: fleets have thousands
//! of bindings and a handful of placements.

use std::collections::HashMap;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::lower;
use crate::api::karmada::policy::v1alpha1::Placement;
use crate::api::karmada::work::v1alpha2::BINDINGS;
use crate::engine::karmada::{self as engine, Cluster, Fleet};
use crate::k8s::Key;
use crate::watch::View;

/// Keys and priorities of the bindings to decide again.
pub fn woken(view: &View, fleet: &Fleet, changed: &[Arc<str>]) -> Vec<(Key, i32)> {
    let clusters: Vec<&Arc<Cluster>> = changed.iter().filter_map(|name| fleet.find(name)).collect();
    let mut chooses: HashMap<&str, bool> = HashMap::new();
    let mut woken = Vec::new();
    for object in BINDINGS.into_iter().flat_map(|kind| view.list(kind, None)) {
        let Ok(Binding { spec }) = serde_json::from_slice::<Binding<'_>>(&object.json) else { continue };
        let is_there = spec.clusters.iter().any(|target| changed.iter().any(|name| **name == *target.name));
        let mut may_choose = || {
            let Some(placement) = spec.placement.map(RawValue::get) else { return false };
            *chooses.entry(placement).or_insert_with(|| can_choose(placement, &clusters))
        };
        if is_there || may_choose() {
            let priority = spec.schedule_priority.and_then(|priority| priority.priority).unwrap_or_default();
            woken.push((object.key.clone(), priority));
        }
    }
    woken
}

/// A placement that cannot be read is worth a look: whoever decides it says what is wrong.
fn can_choose(placement: &str, clusters: &[&Arc<Cluster>]) -> bool {
    let Ok(placement) = serde_json::from_str::<Placement>(placement) else { return true };
    let placement: engine::Placement = lower::karmada::placement(&placement);
    let mut terms = placement.terms.iter();
    let matches = |affinity: &engine::Affinity| clusters.iter().any(|cluster| affinity.matches(cluster));
    match &placement.affinity {
        Some(affinity) => matches(affinity),
        None if placement.terms.is_empty() => !clusters.is_empty(),
        None => terms.any(|term| matches(&term.affinity) || term.overflow.iter().any(matches)),
    }
}

#[derive(Deserialize)]
struct Binding<'a> {
    #[serde(borrow)]
    spec: Spec<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec<'a> {
    #[serde(borrow)]
    placement: Option<&'a RawValue>,
    #[serde(default)]
    clusters: Vec<Target>,
    schedule_priority: Option<Priority>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
}

#[derive(Deserialize)]
struct Priority {
    priority: Option<i32>,
}
