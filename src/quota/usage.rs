//! What a binding uses (QU1).

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::api::core;
use crate::k8s::{Object, Quantity};

/// Amounts by resource. Zero ones are left out. Differences may be negative.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage(BTreeMap<Box<str>, Quantity>);

/// The parts of a binding that its use follows from.
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

impl Usage {
    /// A binding that cannot be read uses nothing: nobody can place it.
    pub fn of(binding: &Object) -> Usage {
        let Binding { spec } = serde_json::from_slice(&binding.text.content()).unwrap_or_default();
        let mut usage = Usage::default();
        if spec.clusters.is_empty() {
            return usage;
        }
        if spec.components.is_empty() {
            let replicas: i64 = spec.clusters.iter().map(|target| i64::from(target.replicas.max(0))).sum();
            usage.add(&spec.replica_requirements, replicas);
        }
        // A set of components is placed as a whole on each of its clusters.
        let sets = i64::try_from(spec.clusters.len()).unwrap_or(i64::MAX);
        for component in &spec.components {
            usage.add(&component.replica_requirements, sets.saturating_mul(component.replicas.max(0).into()));
        }
        usage
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

    /// This use without `other`.
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
