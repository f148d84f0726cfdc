//! Allocatable resources and prices of clusters (PL4). Read from the clusters' objects, because the
//! engine's clusters contain only the free capacity.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{ParsedBinding, PlanningSnapshot};
use crate::cluster_cache::CLUSTERS;
use ballast_api::ballast::v1alpha1::{CostStatus, Figure};
use ballast_api::karmada::cluster::v1alpha1::Cluster;
use ballast_engine::karmada::{Needs, Target};
use ballast_k8s::{Key, Quantity};

/// The prefix of the price annotations of a cluster, followed by the resource: the price of a core,
/// a GiB or a unit per hour. A slash in the name of the resource is written as `_`.
pub const PRICE: &str = "ballast.dev/price-";

/// The highest valid price of a unit. A higher one is a mistake, and sums would lose digits.
const PRICE_MAX: f64 = 1e9;
const MILLIS: f64 = 1_000.0;
const BYTES_OF_A_GIB: f64 = 1_073_741_824.0;

/// The allocatable resources of a cluster, and its prices.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ClusterFacts {
    /// By resource: thousandths for cpu, units for the rest.
    pub has: BTreeMap<Box<str>, i64>,
    /// The price per unit and hour. `None`: the cluster has no prices.
    pub prices: Option<BTreeMap<Box<str>, f64>>,
}

impl ClusterFacts {
    pub(super) fn of(cluster: &Cluster) -> ClusterFacts {
        let allocatable = cluster.status.resource_summary.iter().flat_map(|summary| summary.allocatable.iter());
        let has: BTreeMap<Box<str>, i64> = allocatable
            .filter_map(|(name, amount)| Some((name.as_str().into(), counted(name, amount.text().parse().ok()?))))
            .collect();
        let told = cluster.metadata.annotations.iter().filter_map(|(key, value)| {
            let resource = key.strip_prefix(PRICE)?;
            let price = value.trim().parse::<f64>().ok().filter(|price| (0.0..=PRICE_MAX).contains(price))?;
            Some((resource, price))
        });
        let mut prices = BTreeMap::new();
        for (resource, price) in told {
            let named = has.keys().find(|name| name.replace('/', "_") == resource);
            let name = named.cloned().unwrap_or_else(|| resource.into());
            let unit = match &*name {
                "cpu" => MILLIS,
                "memory" => BYTES_OF_A_GIB,
                _ => 1.0,
            };
            prices.insert(name, price / unit);
        }
        ClusterFacts { has, prices: (!prices.is_empty()).then_some(prices) }
    }
}

/// Returns the amount in the units of the estimates.
pub(super) fn counted(resource: &str, amount: Quantity) -> i64 {
    if resource == "cpu" { amount.millis() } else { amount.units() }
}

impl PlanningSnapshot {
    /// Returns the facts about the clusters of the snapshot, by name.
    pub(super) fn facts(&self) -> BTreeMap<Arc<str>, ClusterFacts> {
        let facts = |name: &Arc<str>| {
            if let Some(supposed) = self.supposed.get(name) {
                return ClusterFacts::of(supposed);
            }
            let object = self.view.get(&Key::cluster(CLUSTERS, &**name));
            let cluster = object.and_then(|object| object.typed::<Cluster>().ok());
            cluster.map(|cluster| ClusterFacts::of(&cluster)).unwrap_or_default()
        };
        self.clusters.iter().map(|cluster| (Arc::clone(&cluster.name), facts(&cluster.name))).collect()
    }
}

/// Returns the cost of the bindings at their present targets.
pub fn cost_of(snapshot: &PlanningSnapshot, bindings: &[ParsedBinding]) -> Option<CostStatus> {
    let mut bill = Bill::of(snapshot)?;
    bindings.iter().for_each(|parsed| bill.count(parsed));
    Some(bill.status())
}

/// The cost of workloads on clusters with prices.
pub(super) struct Bill {
    facts: BTreeMap<Arc<str>, ClusterFacts>,
    /// The resources with a price on any cluster.
    priced: BTreeSet<Box<str>>,
    /// The priced resources that a workload requests.
    requested: BTreeSet<Box<str>>,
    before: f64,
    after: f64,
}

impl Bill {
    /// Returns `None` if no cluster has a price.
    pub fn of(snapshot: &PlanningSnapshot) -> Option<Bill> {
        let facts = snapshot.facts();
        let prices = facts.values().filter_map(|facts| facts.prices.as_ref());
        let priced: BTreeSet<Box<str>> = prices.flat_map(|prices| prices.keys().cloned()).collect();
        let requested = BTreeSet::new();
        (!priced.is_empty()).then_some(Bill { facts, priced, requested, before: 0.0, after: 0.0 })
    }

    pub fn count(&mut self, parsed: &ParsedBinding) {
        let each = self.requests(parsed);
        self.requested.extend(each.iter().map(|(resource, _)| resource.clone()));
        let price = self.price(parsed, &each, &parsed.request.targets);
        self.before += price;
        self.after += price;
    }

    /// Adds the move of a workload that was counted. A move from or to a cluster without a price is
    /// excluded from both sums, because its effect on the cost is unknown.
    pub fn count_move(&mut self, parsed: &ParsedBinding, to: &[Target]) {
        let (each, from) = (self.requests(parsed), &parsed.request.targets);
        let before = self.price(parsed, &each, from);
        let on = |targets: &[Target], name: &str| {
            targets.iter().find(|target| *target.name == *name).map_or(0, |target| target.replicas)
        };
        let is_unknown = |target: &Target| {
            self.price_on(&each, &target.name).is_none() && on(from, &target.name) != on(to, &target.name)
        };
        if from.iter().chain(to).any(is_unknown) {
            (self.before, self.after) = (self.before - before, self.after - before);
        } else {
            self.after += self.price(parsed, &each, to) - before;
        }
    }

    /// Returns the requests of one replica for priced resources.
    fn requests(&self, parsed: &ParsedBinding) -> Vec<(Box<str>, f64)> {
        let Some(needs) = Needs::of(&parsed.request).filter(|_| !parsed.is_placement()) else { return Vec::new() };
        let amounts = needs.amounts();
        let priced = amounts.iter().filter(|(resource, amount)| *amount > 0 && self.priced.contains(*resource));
        priced.map(|(resource, amount)| (resource.into(), amount as f64)).collect()
    }

    fn price(&self, parsed: &ParsedBinding, each: &[(Box<str>, f64)], targets: &[Target]) -> f64 {
        let Some(needs) = Needs::of(&parsed.request).filter(|_| !parsed.is_placement()) else { return 0.0 };
        let of = |target: &Target| self.price_on(each, &target.name).unwrap_or(0.0) * needs.copies(target) as f64;
        targets.iter().map(of).sum()
    }

    /// Returns the price of one replica on a cluster, or `None` if the cluster has no price for a
    /// requested resource.
    fn price_on(&self, each: &[(Box<str>, f64)], cluster: &str) -> Option<f64> {
        let prices = self.facts.get(cluster)?.prices.as_ref()?;
        each.iter().map(|(resource, amount)| Some(prices.get(resource)? * amount)).sum()
    }

    pub fn status(&self) -> CostStatus {
        let (before, after) = (Figure::of(self.before), Figure::of(self.after));
        let is_priced = |facts: &&ClusterFacts| {
            let prices = facts.prices.as_ref();
            prices.is_some_and(|prices| self.requested.iter().all(|resource| prices.contains_key(resource)))
        };
        let unpriced = self.facts.values().filter(|facts| !is_priced(facts)).count();
        CostStatus {
            before_per_hour: before,
            after_per_hour: after,
            difference_per_hour: after.minus(before),
            unpriced_clusters: unpriced as i64,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn pl4_prices_are_of_a_core_a_gib_and_a_unit() {
        let cluster: Cluster = serde_json::from_value(json!({
            "metadata": {"name": "m1", "annotations": {
                "ballast.dev/price-cpu": "2", "ballast.dev/price-memory": " 0.5", "ballast.dev/price-nvidia.com_gpu": "3",
                "ballast.dev/price-pods": "-1", "ballast.dev/price-x": "much", "ballast.dev/price-y": "1e300",
            }},
            "spec": {"syncMode": "Push"},
            "status": {"resourceSummary": {"allocatable": {"cpu": "4", "memory": "8Gi", "nvidia.com/gpu": "2"}}},
        }))
        .unwrap();
        let facts = ClusterFacts::of(&cluster);
        assert_eq!(facts.has.get("cpu"), Some(&4_000));
        let prices = facts.prices.unwrap();
        let price = |name: &str, units: f64| prices.get(name).map(|price| price * units);
        assert_eq!(price("cpu", 1_000.0), Some(2.0));
        assert_eq!(price("memory", 1_073_741_824.0), Some(0.5));
        assert_eq!(price("nvidia.com/gpu", 1.0), Some(3.0));
        assert_eq!(prices.len(), 3, "negative, enormous and unreadable prices are none");
    }
}
