//! The usage of a binding (QU1): its replicas on its clusters, and replicas that are being evicted.
//!
//! Replicas that leave a cluster hold capacity there until the eviction is over. They count as the
//! same replicas as their replacements, so that a failover neither exceeds a quota nor releases the
//! share for others in between. Beyond the size of the workload, they count as further replicas.

use std::collections::{BTreeMap, HashSet};

use serde::Deserialize;

use ballast_api::core;
use ballast_k8s::{Object, Quantity, read_json};

/// Amounts by resource, without zeros. A difference may have negative amounts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage(BTreeMap<Box<str>, Quantity>);

/// The fields of a binding that determine its usage.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Binding {
    spec: Spec,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    replica_requirements: Requirements,
    components: Vec<Component>,
    replicas: i32,
    clusters: Vec<Target>,
    graceful_eviction_tasks: Vec<Eviction>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Requirements {
    resource_request: BTreeMap<Box<str>, core::Quantity>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Component {
    replicas: i32,
    replica_requirements: Requirements,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Target {
    name: Box<str>,
    replicas: i32,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Eviction {
    from_cluster: Box<str>,
    replicas: Option<i32>,
}

impl Spec {
    /// Returns the usage of `targets`, with one number of replicas per cluster, and of the
    /// `leaving` replicas on other clusters.
    fn on(&self, targets: &[i32], leaving: Leaving) -> Usage {
        let mut usage = Usage::default();
        if self.components.is_empty() {
            let assigned: i64 = targets.iter().map(|replicas| i64::from((*replicas).max(0))).sum();
            let wanted = i64::from(self.replicas.max(0));
            usage.add(&self.replica_requirements, held(assigned, leaving.replicas, wanted));
        }
        // A set of components is placed as a whole on each of its clusters.
        let sets = held(i64::try_from(targets.len()).unwrap_or(i64::MAX), leaving.sets, 1);
        for component in &self.components {
            usage.add(&component.replica_requirements, sets.saturating_mul(component.replicas.max(0).into()));
        }
        usage
    }

    /// Returns the replicas that are being evicted from clusters which are no targets. The replicas
    /// on a target are counted with the target.
    fn leaving(&self) -> Leaving {
        let mut leaving = Leaving::default();
        if self.graceful_eviction_tasks.is_empty() {
            return leaving;
        }
        let targets: HashSet<&str> = self.clusters.iter().map(|target| &*target.name).collect();
        for task in self.graceful_eviction_tasks.iter().filter(|task| !targets.contains(&*task.from_cluster)) {
            leaving.replicas = leaving.replicas.saturating_add(task.replicas.unwrap_or_default().max(0).into());
            leaving.sets = leaving.sets.saturating_add(task.replicas.unwrap_or(1).max(0).into());
        }
        leaving
    }
}

/// Replicas and sets of components that are being evicted.
#[derive(Clone, Copy, Default)]
struct Leaving {
    replicas: i64,
    sets: i64,
}

/// Returns the copies that count for a workload of `wanted` copies.
fn held(assigned: i64, leaving: i64, wanted: i64) -> i64 {
    let all = assigned.saturating_add(leaving);
    let moving = leaving.min(wanted.max(assigned));
    (all - moving).max(all.min(wanted)).max(assigned)
}

impl Usage {
    /// Computes the usage of a binding. A malformed one uses nothing, because it cannot be placed.
    pub fn of(binding: &Object) -> Usage {
        let Binding { spec } = read_json(&binding.text.content()).unwrap_or_default();
        let targets: Vec<i32> = spec.clusters.iter().map(|target| target.replicas).collect();
        spec.on(&targets, spec.leaving())
    }

    /// Computes the usage of the binding with these replicas, one number per cluster.
    pub fn on(binding: &Object, targets: &[i32]) -> Usage {
        let Binding { spec } = read_json(&binding.text.content()).unwrap_or_default();
        spec.on(targets, spec.leaving())
    }

    /// Computes the usage of these replicas alone, one number per cluster, without leaving ones.
    pub fn more(binding: &Object, targets: &[i32]) -> Usage {
        let Binding { spec } = read_json(&binding.text.content()).unwrap_or_default();
        spec.on(targets, Leaving::default())
    }

    fn add(&mut self, requirements: &Requirements, count: i64) {
        for (resource, amount) in &requirements.resource_request {
            let Ok(amount) = amount.text().parse::<Quantity>() else { continue };
            if count > 0 && amount > Quantity::ZERO {
                let known = self.0.entry(resource.clone()).or_default();
                *known = known.plus(amount.times(count));
            }
        }
    }

    /// Subtracts `other`.
    pub fn minus(mut self, other: Usage) -> Usage {
        for (resource, amount) in other.0 {
            let known = self.0.entry(resource).or_default();
            *known = known.minus(amount);
        }
        self.0.retain(|_, amount| *amount != Quantity::ZERO);
        self
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn get(&self, resource: &str) -> Quantity {
        self.0.get(resource).copied().unwrap_or_default()
    }

    /// Iterates over the amounts, ordered by the resources' names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Quantity)> {
        self.0.iter().map(|(resource, amount)| (&**resource, *amount))
    }
}
