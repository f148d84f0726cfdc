//! Metrics of the health of the fleet: ready and missing replicas, capacity, and waiting evictions.
//! The caller bounds the series by cluster, as for `cluster_replicas`.

use prometheus::{Gauge, GaugeVec, IntGauge, IntGaugeVec};

use super::RESERVED_RESOURCES;
use super::families::{FAMILIES, Make};

/// The reasons for being unschedulable that have a separate series. Clients may write others.
pub const UNSCHEDULABLE_REASONS: [&str; 4] = ["NoClusterFit", "Unschedulable", "SchedulerError", "PartlyScheduled"];

/// The label of all other reasons.
pub const OTHER_REASON: &str = "other";

pub struct FleetHealth {
    pub cluster_ready: IntGaugeVec,
    pub wanted: IntGaugeVec,
    pub ready: IntGaugeVec,
    pub missing: IntGaugeVec,
    pub replicas: IntGaugeVec,
    pub allocatable: GaugeVec,
    pub requested: GaugeVec,
    pub unschedulable: IntGaugeVec,
    pub backlog: IntGaugeVec,
    pub oldest: IntGauge,
    pub ends: IntGauge,
    pub rate: Gauge,
    pub leaving_since: IntGauge,
    pub limit_expires: IntGauge,
    pub down: IntGaugeVec,
    pub cordoned: IntGaugeVec,
    pub rebalance_since: IntGaugeVec,
    pub rebalance_progress: IntGauge,
    pub schedule_due: IntGauge,
}

impl FleetHealth {
    pub fn new(make: &Make) -> FleetHealth {
        const PLACE: &[&str] = &["cluster", "region"];
        const AMOUNT: &[&str] = &["cluster", "resource"];
        FleetHealth {
            cluster_ready: make.gauges("ballast_cluster_ready", "Whether the cluster is Ready.", PLACE),
            wanted: make.gauges(
                "ballast_cluster_replicas_wanted",
                "Replicas that should be ready on a cluster.",
                PLACE,
            ),
            ready: make.gauges(
                "ballast_cluster_replicas_ready",
                "Replicas that are reported as ready on a cluster that is Ready.",
                PLACE,
            ),
            missing: make.gauges(
                "ballast_cluster_replicas_missing",
                "Replicas that should be ready on a cluster and are not, or whose cluster is not Ready.",
                PLACE,
            ),
            replicas: make.gauges(
                "ballast_fleet_replicas",
                "Replicas of the fleet: wanted, ready, missing, and those of the missing ones that no cluster has \
                 (unplaced).",
                &["state"],
            ),
            allocatable: make.float_gauges(
                "ballast_cluster_allocatable",
                "What a cluster has for workloads, in cores, bytes or pieces.",
                AMOUNT,
            ),
            requested: make.float_gauges(
                "ballast_cluster_requested",
                "What is requested on a cluster as its agent reports it, in cores, bytes or pieces.",
                AMOUNT,
            ),
            unschedulable: make.gauges(
                "ballast_workloads_unschedulable",
                "Workloads without a placement for some of their replicas, by the reason in their condition Scheduled.",
                &["reason"],
            ),
            backlog: make.gauges(
                "ballast_eviction_backlog",
                "Bindings that have to leave a cluster and wait for their turn (waiting), and those that will have \
                 to if nothing changes (foreseen).",
                &["state"],
            ),
            oldest: make.gauge(
                "ballast_eviction_backlog_oldest_timestamp_seconds",
                "Since when the oldest eviction waits for its turn, in seconds since 1970. 0: none waits.",
            ),
            ends: make.gauge(
                "ballast_eviction_backlog_end_timestamp_seconds",
                "When the last eviction of the backlog begins at the present rate, in seconds since 1970. 0: none \
                 waits, or none may begin.",
            ),
            rate: make.seconds("ballast_eviction_rate", "Bindings that are evicted a second at most."),
            leaving_since: make.gauge(
                "ballast_evictions_waiting_oldest_timestamp_seconds",
                "Since when the oldest eviction that has begun waits for a healthy replacement, in seconds since \
                 1970. 0: none waits.",
            ),
            limit_expires: make.gauge(
                "ballast_eviction_limit_expiry_timestamp_seconds",
                "When the EvictionLimit in force expires, in seconds since 1970. 0: none is in force, or it does not \
                 expire.",
            ),
            down: make.gauges(
                "ballast_workloads_down",
                "Workloads without a ready replica for at least five minutes, as this process observed them, by \
                 cause: no cluster is assigned (unplaced), no assigned cluster is Ready (clusters_lost), or no \
                 replica is ready on clusters that are (unready).",
                &["cause"],
            ),
            cordoned: make.gauges(
                "ballast_cluster_cordoned_timestamp_seconds",
                "Since when a cluster is closed to new workloads by a cordon or a drain, in seconds since 1970: the \
                 timeAdded of its taint, or the first observation by this process.",
                &["cluster"],
            ),
            rebalance_since: make.gauges(
                "ballast_rebalance_phase_oldest_timestamp_seconds",
                "Since when the rebalance that is longest in a phase is in it, in seconds since 1970. 0: none is.",
                &["phase"],
            ),
            rebalance_progress: make.gauge(
                "ballast_rebalance_progress_timestamp_seconds",
                "When a move of the rebalance that has stood still longest last ended, of those that run, in seconds \
                 since 1970. 0: none runs.",
            ),
            schedule_due: make.gauge(
                "ballast_schedule_next_timestamp_seconds",
                "When the next ClusterRebalance of a schedule is due, in seconds since 1970. A time that is past says \
                 that a schedule has not run. 0: none is due.",
            ),
        }
    }
}

/// The health of one cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClusterHealth {
    pub is_ready: bool,
    pub wanted: i64,
    pub ready: i64,
    pub missing: i64,
}

/// Sets the health of a cluster. `None` removes the series.
pub fn cluster_health(cluster: &str, region: &str, health: Option<ClusterHealth>) {
    let FleetHealth { cluster_ready, wanted, ready, missing, .. } = &FAMILIES.fleet.health;
    let place = &[cluster, region];
    match health {
        Some(health) => {
            cluster_ready.with_label_values(place).set(i64::from(health.is_ready));
            wanted.with_label_values(place).set(health.wanted);
            ready.with_label_values(place).set(health.ready);
            missing.with_label_values(place).set(health.missing);
        }
        // Fails only if there are no such series.
        None => [cluster_ready, wanted, ready, missing].into_iter().for_each(|it| drop(it.remove_label_values(place))),
    }
}

/// Sets the replicas of the fleet: wanted, ready, missing, and unplaced.
pub fn fleet_replicas(wanted: i64, ready: i64, missing: i64, unplaced: i64) {
    let states = [("wanted", wanted), ("ready", ready), ("missing", missing), ("unplaced", unplaced)];
    for (state, count) in states {
        FAMILIES.fleet.health.replicas.with_label_values(&[state]).set(count);
    }
}

/// The amounts of one cluster, in the order of `RESERVED_RESOURCES`. `None` if the cluster does not
/// report it.
pub type ClusterAmounts = [Option<f64>; RESERVED_RESOURCES.len()];

/// Sets the allocatable and the requested amounts of a cluster.
pub fn cluster_amounts(cluster: &str, allocatable: &ClusterAmounts, requested: &ClusterAmounts) {
    let FleetHealth { allocatable: has, requested: is_used, .. } = &FAMILIES.fleet.health;
    for (gauges, amounts) in [(has, allocatable), (is_used, requested)] {
        for (resource, amount) in RESERVED_RESOURCES.iter().zip(amounts) {
            match amount {
                Some(amount) => gauges.with_label_values(&[cluster, resource]).set(*amount),
                // Fails only if there is no such series.
                None => drop(gauges.remove_label_values(&[cluster, resource])),
            }
        }
    }
}

/// Sets the number of unschedulable workloads for a reason in `UNSCHEDULABLE_REASONS`, or
/// `OTHER_REASON`.
pub fn workloads_unschedulable(reason: &'static str, count: i64) {
    FAMILIES.fleet.health.unschedulable.with_label_values(&[reason]).set(count);
}

/// The state of waiting evictions. Times are in seconds since 1970; 0 is none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EvictionBacklog {
    pub waiting: i64,
    pub foreseen: i64,
    pub oldest: i64,
    pub ends: i64,
    pub per_second: f64,
    /// Since when the oldest started eviction has been waiting for a healthy replacement.
    pub leaving_since: i64,
    /// When the EvictionLimit in force expires.
    pub limit_expires: i64,
}

pub fn eviction_backlog(backlog: EvictionBacklog) {
    let health = &FAMILIES.fleet.health;
    health.backlog.with_label_values(&["waiting"]).set(backlog.waiting);
    health.backlog.with_label_values(&["foreseen"]).set(backlog.foreseen);
    health.oldest.set(backlog.oldest);
    health.ends.set(backlog.ends);
    health.rate.set(backlog.per_second);
    health.leaving_since.set(backlog.leaving_since);
    health.limit_expires.set(backlog.limit_expires);
}

/// Sets the number of workloads that have had no ready replica for a while, by cause.
pub fn workloads_down(cause: &'static str, count: i64) {
    FAMILIES.fleet.health.down.with_label_values(&[cause]).set(count);
}

/// Sets since when a cluster has been cordoned. `None` if it is open, or removed. The caller bounds
/// the clusters.
pub fn cluster_cordoned(cluster: &str, since: Option<i64>) {
    let gauges = &FAMILIES.fleet.health.cordoned;
    match since {
        Some(since) => gauges.with_label_values(&[cluster]).set(since),
        // Fails only if there is no such series.
        None => drop(gauges.remove_label_values(&[cluster])),
    }
}

/// Sets since when the rebalance that has been longest in a phase is in it. 0 if there is none.
pub fn rebalance_since(phase: &'static str, seconds: i64) {
    FAMILIES.fleet.health.rebalance_since.with_label_values(&[phase]).set(seconds);
}

/// Sets when a move of the running rebalance that has been idle longest last ended. 0 if none runs.
pub fn rebalance_progress(seconds: i64) {
    FAMILIES.fleet.health.rebalance_progress.set(seconds);
}

/// Sets when the next ClusterRebalance of a schedule is due. 0 if there is none.
pub fn schedule_due(seconds: i64) {
    FAMILIES.fleet.health.schedule_due.set(seconds);
}

/// Resets all of these metrics, for a process that has stopped its workers. From then on, the new
/// leader reports them.
pub(super) fn forget() {
    let FleetHealth {
        cluster_ready,
        wanted,
        ready,
        missing,
        replicas,
        allocatable,
        requested,
        unschedulable,
        backlog,
        oldest,
        ends,
        rate,
        leaving_since,
        limit_expires,
        down,
        cordoned,
        rebalance_since,
        rebalance_progress,
        schedule_due,
    } = &FAMILIES.fleet.health;
    let gauges = [cluster_ready, wanted, ready, missing, replicas, unschedulable, backlog, rebalance_since];
    gauges.into_iter().chain([down, cordoned]).for_each(IntGaugeVec::reset);
    [allocatable, requested].into_iter().for_each(GaugeVec::reset);
    let times = [oldest, ends, leaving_since, limit_expires, rebalance_progress, schedule_due];
    times.into_iter().for_each(|gauge| gauge.set(0));
    rate.set(0.0);
}
