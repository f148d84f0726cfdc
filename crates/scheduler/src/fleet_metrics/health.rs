//! Publishes the counts of the census as metrics, limited to the series that have changed.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::counts::NAMED_CLUSTERS_MAX;
use super::rebalances::RebalanceTimes;
use ballast_api::karmada::cluster::v1alpha1::{Cluster, UNSCHEDULABLE};
use ballast_api::{Pairs, core};
use ballast_base::metrics::{self, ClusterAmounts, ClusterHealth, EvictionBacklog, RESERVED_RESOURCES};
use ballast_census::{Backlog, Census, ClusterTally, DownCause, FleetTally, ForecastRules, RateInForce};
use ballast_k8s::{Key, Quantity, Revision, Time};
use ballast_watch::View;

use crate::cluster_cache::CLUSTERS;

/// Time without a ready replica after which a workload counts as down. New workloads take a while
/// to start, so a large installation always has some without one.
const DOWN_AFTER_SECONDS: i64 = 300;

/// The last published values.
#[derive(Default)]
pub struct Health {
    /// By cluster: its region, and the values.
    clusters: BTreeMap<Arc<str>, (String, ClusterHealth)>,
    /// The versions of clusters with published amounts.
    amounts: BTreeMap<Arc<str>, Revision>,
    /// The time since which clusters are cordoned.
    cordoned: BTreeMap<Arc<str>, i64>,
    /// The time since which workloads have had no ready replica, as observed by this process.
    down: HashMap<Key, Time>,
    rebalances: RebalanceTimes,
}

impl Health {
    pub fn tell(&mut self, census: &Census, view: &View, rules: ForecastRules, now: Time) {
        let tally = census.count(view, rules, now);
        metrics::fleet_replicas(tally.total.wanted, tally.total.ready, tally.total.missing, tally.unplaced);
        metrics::eviction_backlog(backlog(view, &tally, rules, now));
        self.rebalances.tell(view, now);
        for (cause, count) in self.count_down(&tally, now) {
            metrics::workloads_down(cause.as_str(), count);
        }
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
        let gone = self.clusters.iter().filter(|(name, _)| !told.contains_key(*name));
        let gone: Vec<_> = gone.map(|(name, (region, _))| (Arc::clone(name), region.clone())).collect();
        for (name, region) in &gone {
            metrics::cluster_health(name, region, None);
            metrics::cluster_amounts(name, &ClusterAmounts::default(), &ClusterAmounts::default());
            self.amounts.remove(name);
            self.set_cordoned(name, None);
        }
        for name in told.keys() {
            let Some(object) = view.get(&Key::cluster(CLUSTERS, &**name)) else { continue };
            if self.amounts.insert(Arc::clone(name), object.revision) != Some(object.revision) {
                let cluster = object.typed::<Cluster>().unwrap_or_default();
                tell_amounts(name, &cluster);
                self.set_cordoned(name, cordoned_since(&cluster).map(|since| since.unwrap_or(now)));
            }
        }
        self.clusters = told;
    }

    /// Counts the workloads that have been down for long enough, by cause.
    fn count_down(&mut self, tally: &FleetTally, now: Time) -> [(DownCause, i64); DownCause::ALL.len()] {
        let mut counts = DownCause::ALL.map(|cause| (cause, 0));
        let mut down = HashMap::with_capacity(tally.down.len());
        for (key, cause) in &tally.down {
            let since = self.down.get(key).copied().unwrap_or(now);
            down.insert(key.clone(), since);
            if now.seconds() - since.seconds() >= DOWN_AFTER_SECONDS {
                counts.iter_mut().filter(|(known, _)| known == cause).for_each(|(_, count)| *count += 1);
            }
        }
        self.down = down;
        counts
    }

    /// Records and publishes the time since which a cluster is cordoned. A taint without a time
    /// counts from its first observation.
    fn set_cordoned(&mut self, name: &Arc<str>, since: Option<Time>) {
        match since {
            Some(since) => {
                let first = self.cordoned.entry(Arc::clone(name)).or_insert(since.seconds());
                *first = (*first).min(since.seconds());
                metrics::cluster_cordoned(name, Some(*first));
            }
            None => {
                if self.cordoned.remove(name).is_some() {
                    metrics::cluster_cordoned(name, None);
                }
            }
        }
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
    let seconds = |time: Option<Time>| time.map_or(0, Time::seconds);
    let leaving_since = seconds(tally.leaving_since);
    let Some(flags) = rules.rate else { return EvictionBacklog { leaving_since, ..EvictionBacklog::default() } };
    let (clusters, unready) = tally.readiness();
    let rate = RateInForce::of(view, flags, clusters, unready, now);
    let backlog = Backlog::of(&tally.due, rate.per_second, now);
    EvictionBacklog {
        waiting: backlog.waiting,
        foreseen: backlog.foreseen,
        oldest: seconds(backlog.oldest),
        ends: seconds(backlog.ends),
        per_second: rate.per_second,
        leaving_since,
        limit_expires: seconds(rate.until),
    }
}

/// Returns the time of the cordon, if the taint has one. `None`: the cluster is not cordoned.
fn cordoned_since(cluster: &Cluster) -> Option<Option<Time>> {
    cluster.spec.taints.iter().find(|taint| taint.key == UNSCHEDULABLE).map(|taint| taint.time_added)
}

fn tell_amounts(name: &str, cluster: &Cluster) {
    let summary = cluster.status.resource_summary.clone().unwrap_or_default();
    let number = |amounts: &Pairs<core::Quantity>, resource: &str| {
        amounts.get(resource).and_then(|amount| amount.text().parse::<Quantity>().ok())
    };
    // In cores, bytes and units.
    let plain = |amount: Quantity| amount.nanos() as f64 / 1e9;
    let has = RESERVED_RESOURCES.map(|resource| number(&summary.allocatable, resource).map(plain));
    let requested = RESERVED_RESOURCES.map(|resource| {
        number(&summary.allocatable, resource)?;
        let running = number(&summary.allocated, resource).unwrap_or_default();
        Some(plain(running.plus(number(&summary.allocating, resource).unwrap_or_default())))
    });
    metrics::cluster_amounts(name, &has, &requested);
}

#[cfg(test)]
mod tests {
    use super::*;
    use ballast_api::karmada::work::v1alpha2::BINDINGS;

    #[test]
    fn a_workload_counts_as_down_after_five_minutes_without_a_replica() {
        let mut health = Health::default();
        let key = |name: &str| Key::namespaced(BINDINGS[0], "shop", name);
        let mut counts = |down: &[(&str, DownCause)], at: i64| {
            let down = down.iter().map(|(name, cause)| (key(name), *cause)).collect();
            let tally = FleetTally { down, ..FleetTally::default() };
            health.count_down(&tally, Time::from_seconds(at)).map(|(_, count)| count)
        };
        assert_eq!(counts(&[("a", DownCause::ClustersLost)], 0), [0, 0, 0]);
        assert_eq!(counts(&[("a", DownCause::ClustersLost), ("b", DownCause::Unready)], 299), [0, 0, 0]);
        // A changed cause does not reset the time.
        assert_eq!(counts(&[("a", DownCause::Unplaced), ("b", DownCause::Unready)], 300), [1, 0, 0]);
        assert_eq!(counts(&[("b", DownCause::Unready)], 599), [0, 0, 1]);
        assert_eq!(counts(&[("a", DownCause::Unplaced), ("b", DownCause::Unready)], 600), [0, 0, 1]);
    }

    #[test]
    fn a_cordon_without_a_time_counts_from_its_first_observation() {
        let mut health = Health::default();
        let name: Arc<str> = "cordoned-a".into();
        let at = |seconds| Some(Time::from_seconds(seconds));
        health.set_cordoned(&name, at(50));
        health.set_cordoned(&name, at(90));
        assert_eq!(health.cordoned[&name], 50);
        assert!(metrics::text().contains("ballast_cluster_cordoned_timestamp_seconds{cluster=\"cordoned-a\"} 50"));
        health.set_cordoned(&name, at(20));
        assert_eq!(health.cordoned[&name], 20);
        health.set_cordoned(&name, None);
        assert!(health.cordoned.is_empty());
        assert!(!metrics::text().contains("cordoned-a"));
    }
}
