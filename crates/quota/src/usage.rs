//! The usage of a binding (QU1).

use std::collections::BTreeMap;

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
    clusters: Vec<Target>,
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
    replicas: i32,
}

impl Spec {
    fn on(&self, targets: &[i32]) -> Usage {
        let mut usage = Usage::default();
        if targets.is_empty() {
            return usage;
        }
        if self.components.is_empty() {
            let replicas: i64 = targets.iter().map(|replicas| i64::from((*replicas).max(0))).sum();
            usage.add(&self.replica_requirements, replicas);
        }
        // A set of components is placed as a whole on each of its clusters.
        let sets = i64::try_from(targets.len()).unwrap_or(i64::MAX);
        for component in &self.components {
            usage.add(&component.replica_requirements, sets.saturating_mul(component.replicas.max(0).into()));
        }
        usage
    }
}

impl Usage {
    /// A binding that cannot be read uses nothing: it cannot be placed.
    pub fn of(binding: &Object) -> Usage {
        let Binding { spec } = read_json(&binding.text.content()).unwrap_or_default();
        let targets: Vec<i32> = spec.clusters.iter().map(|target| target.replicas).collect();
        spec.on(&targets)
    }

    /// The usage of the binding with these replicas, one number for each cluster.
    pub fn on(binding: &Object, targets: &[i32]) -> Usage {
        let Binding { spec } = read_json(&binding.text.content()).unwrap_or_default();
        spec.on(targets)
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

    /// This usage minus `other`.
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

    /// In the order of the resources' names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Quantity)> {
        self.0.iter().map(|(resource, amount)| (&**resource, *amount))
    }
}
