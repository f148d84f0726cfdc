//! Tells the counts of the census as metrics: only what has changed since the last time.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::counts::NAMED_CLUSTERS_MAX;
use super::rebalances::RebalanceTimes;
use ballast_api::karmada::cluster::v1alpha1::Cluster;
use ballast_api::{Pairs, core};
use ballast_base::metrics::{self, ClusterAmounts, ClusterHealth, EvictionBacklog, RESERVED_RESOURCES};
use ballast_census::{Backlog, Census, ClusterTally, FleetTally, ForecastRules, RateInForce};
use ballast_k8s::{Key, Object, Quantity, Revision, Time};
use ballast_watch::View;

use crate::cluster_cache::CLUSTERS;

/// What was told last.
#[derive(Default)]
pub struct Health {
    /// By cluster: its region, and the rest.
    clusters: BTreeMap<Arc<str>, (String, ClusterHealth)>,
    /// The versions of clusters whose amounts were told.
    amounts: BTreeMap<Arc<str>, Revision>,
    rebalances: RebalanceTimes,
}

impl Health {
    pub fn tell(&mut self, census: &Census, view: &View, rules: ForecastRules, now: Time) {
        let tally = census.count(view, rules, now);
        metrics::fleet_replicas(tally.total.wanted, tally.total.ready, tally.total.missing, tally.unplaced);
        metrics::eviction_backlog(backlog(view, &tally, rules, now));
        self.rebalances.tell(view, now);
        let named = tally.clusters.iter().filter(|(_, cluster)| cluster.exists()).take(NAMED_CLUSTERS_MAX);
        let told: BTreeMap<_, _> = named.map(|(name, cluster)| (Arc::clone(name), told(cluster))).collect();
        for (name, (region, health)) in &told {
            match self.clusters.get(name) {
                Some(known) if known.0 == *region && known.1 == *health => continue,
                Some((before, _)) if before != region => metrics::cluster_health(name, before, None),
                _ => {}
            }
            metrics::cluster_health(name, region, Some(*health));
        }
        for (name, (region, _)) in self.clusters.iter().filter(|(name, _)| !told.contains_key(*name)) {
            metrics::cluster_health(name, region, None);
            metrics::cluster_amounts(name, &ClusterAmounts::default(), &ClusterAmounts::default());
            self.amounts.remove(name);
        }
        for name in told.keys() {
            let Some(object) = view.get(&Key::cluster(CLUSTERS, &**name)) else { continue };
            if self.amounts.insert(Arc::clone(name), object.revision) != Some(object.revision) {
                tell_amounts(object);
            }
        }
        self.clusters = told;
    }
}

fn told(cluster: &ClusterTally) -> (String, ClusterHealth) {
    let replicas = cluster.replicas;
    let health = ClusterHealth {
        is_ready: cluster.is_reachable(),
        wanted: replicas.wanted,
        ready: replicas.ready,
        missing: replicas.missing,
    };
    (cluster.region.to_string(), health)
}

fn backlog(view: &View, tally: &FleetTally, rules: ForecastRules, now: Time) -> EvictionBacklog {
    let Some(flags) = rules.rate else { return EvictionBacklog::default() };
    let (clusters, unready) = tally.readiness();
    let rate = RateInForce::of(view, flags, clusters, unready, now);
    let backlog = Backlog::of(&tally.due, rate.per_second, now);
    let seconds = |time: Option<Time>| time.map_or(0, Time::seconds);
    EvictionBacklog {
        waiting: backlog.waiting,
        foreseen: backlog.foreseen,
        oldest: seconds(backlog.oldest),
        ends: seconds(backlog.ends),
        per_second: rate.per_second,
    }
}

fn tell_amounts(object: &Object) {
    let cluster = object.typed::<Cluster>().unwrap_or_default();
    let summary = cluster.status.resource_summary.clone().unwrap_or_default();
    let number = |amounts: &Pairs<core::Quantity>, resource: &str| {
        amounts.get(resource).and_then(|amount| amount.text().parse::<Quantity>().ok())
    };
    // In cores, bytes and pieces.
    let plain = |amount: Quantity| amount.nanos() as f64 / 1e9;
    let has = RESERVED_RESOURCES.map(|resource| number(&summary.allocatable, resource).map(plain));
    let requested = RESERVED_RESOURCES.map(|resource| {
        number(&summary.allocatable, resource)?;
        let running = number(&summary.allocated, resource).unwrap_or_default();
        Some(plain(running.plus(number(&summary.allocating, resource).unwrap_or_default())))
    });
    metrics::cluster_amounts(&object.key.name, &has, &requested);
}
