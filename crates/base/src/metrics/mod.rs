//! Prometheus metrics. A metric that kube-apiserver also has carries the same name.
//!
//! The process has one registry of metrics, so any crate may count. Counting never waits.
//!
//! *Invariant:* the number of series is bounded (ME5). The values of labels come from closed sets:
//! kinds, verbs, codes, names of workers, and a few replicas. No value that a client writes becomes
//! a label, except for the names of clusters, which are bounded (`cluster_replicas`).

mod admission;
mod estimators;
mod families;
mod fleet_health;
mod places;
mod process;
mod replicas;
mod storage;

use std::time::Duration;

pub use admission::{admission_controller, admission_step, asked, policy_mutation, policy_validation, webhook};
pub use estimators::{estimator_answers, estimator_asked};
use families::FAMILIES;
pub use families::Family;
pub use fleet_health::{
    ClusterAmounts, ClusterHealth, EvictionBacklog, OTHER_REASON, UNSCHEDULABLE_REASONS, cluster_amounts,
    cluster_cordoned, cluster_health, eviction_backlog, fleet_replicas, rebalance_progress, rebalance_since,
    schedule_due, workloads_down, workloads_unschedulable,
};
pub use places::Places;
pub use process::count_dropped_lines;
pub use replicas::Replica;
pub use storage::{
    namespace_bytes_max, namespace_bytes_refused, store_history, store_history_bytes, store_history_bytes_max,
    store_quarantined, store_size,
};

/// Returns all metrics in Prometheus' text format, version 0.0.4.
pub fn text() -> String {
    FAMILIES.process.observe();
    let mut text = String::new();
    let encoder = prometheus::TextEncoder::new();
    // Only fails for a family without metrics, and `gather` omits those.
    let _ = encoder.encode_utf8(&FAMILIES.registry.gather(), &mut text);
    text
}

/// Returns all families, whether or not they have a value.
pub fn families() -> &'static [Family] {
    &FAMILIES.described
}

/// Returns the names of all families.
pub fn names() -> Vec<String> {
    families().iter().map(|family| family.name.clone()).collect()
}

/// The media type of `text`.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The subject of a request. A field that does not apply to the request is empty.
#[derive(Clone, Copy, Debug, Default)]
pub struct Request<'a> {
    /// In upper case: GET, LIST, WATCH, POST, PUT, PATCH, APPLY, DELETE (ME4).
    pub verb: &'static str,
    pub dry_run: bool,
    pub group: &'a str,
    pub version: &'a str,
    pub resource: &'a str,
    pub subresource: &'a str,
    /// `resource`, `namespace` or `cluster`.
    pub scope: &'static str,
}

impl Request<'_> {
    fn labels(&self) -> [&str; 7] {
        let dry_run = if self.dry_run { "All" } else { "" };
        [self.verb, dry_run, self.group, self.version, self.resource, self.subresource, self.scope]
    }
}

/// Counts a completed request. `size` is the size of the response in bytes, if it is known.
pub fn request(request: &Request<'_>, code: u16, took: Duration, size: Option<u64>) {
    let [verb, dry_run, group, version, resource, subresource, scope] = request.labels();
    let mut digits = [0; 5];
    let code = decimal(code, &mut digits);
    FAMILIES
        .requests
        .with_label_values(&[verb, dry_run, group, version, resource, subresource, scope, COMPONENT, code])
        .inc();
    if verb == "WATCH" {
        return;
    }
    let labels = [verb, dry_run, group, version, resource, subresource, scope, COMPONENT];
    FAMILIES.request_seconds.with_label_values(&labels).observe(took.as_secs_f64());
    if let Some(size) = size {
        let labels = [verb, group, version, resource, subresource, scope, COMPONENT];
        FAMILIES.response_bytes.with_label_values(&labels).observe(size as f64);
    }
}

const COMPONENT: &str = "apiserver";

fn decimal(code: u16, digits: &mut [u8; 5]) -> &str {
    let mut rest = code;
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    std::str::from_utf8(&digits[at..]).expect("digits are ASCII")
}

/// Adds one to a gauge until it is dropped.
#[must_use]
pub struct GaugeGuard(prometheus::IntGauge);

impl GaugeGuard {
    fn of(gauge: prometheus::IntGauge) -> GaugeGuard {
        gauge.inc();
        GaugeGuard(gauge)
    }
}

impl Drop for GaugeGuard {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// Counts a request in progress. `kind` is `readOnly` or `mutating`.
pub fn in_flight(kind: &'static str) -> GaugeGuard {
    GaugeGuard::of(FAMILIES.in_flight.with_label_values(&[kind]))
}

/// Counts an open watch.
pub fn long_running(request: &Request<'_>) -> GaugeGuard {
    let [verb, _, group, version, resource, subresource, scope] = request.labels();
    GaugeGuard::of(FAMILIES.long_running.with_label_values(&[
        verb,
        group,
        version,
        resource,
        subresource,
        scope,
        COMPONENT,
    ]))
}

pub fn connection() -> GaugeGuard {
    GaugeGuard::of(FAMILIES.connections.clone())
}

/// Adds to the number of bytes in unsent responses.
pub fn unsent_bytes(change: i64) {
    FAMILIES.unsent_bytes.add(change);
}

/// Counts a response that was ended because the client did not read it. `kind` is `watch` or
/// `answer`.
pub fn unread_ended(kind: &'static str) {
    FAMILIES.unread_ended.with_label_values(&[kind]).inc();
}

/// Counts a connection that the server closed. `reason` is `evicted`, `refused`, `idle`, `timeout`,
/// `protocol` or `unread`.
pub fn connection_closed(reason: &'static str) {
    FAMILIES.connections_closed.with_label_values(&[reason]).inc();
}

/// Counts a request that was refused with this code before it was served.
pub fn terminated(request: &Request<'_>, code: u16) {
    let [verb, _, group, version, resource, subresource, scope] = request.labels();
    let mut digits = [0; 5];
    let code = decimal(code, &mut digits);
    let labels = [verb, group, version, resource, subresource, scope, COMPONENT, code];
    FAMILIES.terminations.with_label_values(&labels).inc();
}

/// The counters of events sent to watchers, looked up once because there are many events.
pub struct WatchEvents {
    events: prometheus::IntCounter,
    bytes: prometheus::IntCounter,
}

impl WatchEvents {
    pub fn of(group: &str, version: &str, resource: &str) -> WatchEvents {
        let labels = [group, version, resource];
        let (events, bytes) = (&FAMILIES.watch_events, &FAMILIES.watch_bytes);
        WatchEvents { events: events.with_label_values(&labels), bytes: bytes.with_label_values(&labels) }
    }

    pub fn left(&self, events: u64, bytes: u64) {
        self.events.inc_by(events);
        self.bytes.inc_by(bytes);
    }
}

pub fn tls_handshake_failed() {
    FAMILIES.tls_errors.inc();
}

/// Counts a reload of certificates, CAs, tokens or rules. `result` is `success` or `failure`.
pub fn trust_reloaded(result: &'static str) {
    FAMILIES.reloads.with_label_values(&[result]).inc();
}

/// Sets when the serving certificate expires, in seconds since 1970. Zero means unknown.
pub fn serving_certificate(not_after: i64) {
    FAMILIES.certificate_expiry.set(not_after);
}

/// Counts an authentication. `result` is `success`, `failure`, `error` or `none`.
pub fn authentication(result: &'static str) {
    FAMILIES.authentications.with_label_values(&[result]).inc();
}

/// Counts an authorization. `result` is `allowed`, `denied` or `error`.
pub fn authorization(result: &'static str) {
    FAMILIES.authorizations.with_label_values(&[result]).inc();
}

/// Counts a review by the host cluster. `code` is its status code, or `<error>`.
pub fn delegated(what: Delegated, code: &str, took: Duration) {
    let (requests, seconds) = match what {
        Delegated::Authentication => (&FAMILIES.delegated_authn, &FAMILIES.delegated_authn_seconds),
        Delegated::Authorization => (&FAMILIES.delegated_authz, &FAMILIES.delegated_authz_seconds),
    };
    requests.with_label_values(&[code]).inc();
    seconds.with_label_values(&[code]).observe(took.as_secs_f64());
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delegated {
    Authentication,
    Authorization,
}

/// Counts an audit event. `outcome` is `written` or `dropped`.
pub fn audit_event(outcome: &'static str) {
    match outcome {
        "written" => FAMILIES.audit_events.inc(),
        _ => FAMILIES.audit_errors.inc(),
    }
}

/// Sets the number of stored objects of a resource, under kube-apiserver's older and newer name.
pub fn objects(group: &str, resource: &str, count: usize) {
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    let qualified = if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") };
    FAMILIES.storage_objects.with_label_values(&[&qualified]).set(count);
    FAMILIES.resource_objects.with_label_values(&[group, resource]).set(count);
}

/// Counts a transaction of the store. `ok` is true if it became durable.
pub fn store_commit(changes: usize, took: Duration, ok: bool) {
    let result = if ok { "success" } else { "failure" };
    FAMILIES.store.commits.with_label_values(&[result]).inc();
    FAMILIES.store.commit_seconds.observe(took.as_secs_f64());
    FAMILIES.store.commit_changes.observe(changes as f64);
}

/// Counts a compaction of the log. `ok` is true if it succeeded.
pub fn store_compacted(took: Duration, ok: bool) {
    let result = if ok { "success" } else { "failure" };
    FAMILIES.store.compactions.with_label_values(&[result]).inc();
    FAMILIES.store.compaction_seconds.observe(took.as_secs_f64());
}

/// The gauges of a worker's queue, looked up once because each turn sets them.
pub struct QueueGauges {
    due: prometheus::IntGauge,
    waiting: prometheus::IntGauge,
}

impl QueueGauges {
    pub fn of(worker: &'static str) -> QueueGauges {
        let (due, waiting) = (&FAMILIES.workers.queue_depth, &FAMILIES.workers.queue_waiting);
        QueueGauges { due: due.with_label_values(&[worker]), waiting: waiting.with_label_values(&[worker]) }
    }

    /// Sets the number of due keys, and of keys that wait for a time or for a change.
    pub fn set(&self, due: usize, waiting: usize) {
        let keys = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        self.due.set(keys(due));
        self.waiting.set(keys(waiting));
    }
}

/// Counts a finished batch of a worker.
pub fn worked(worker: &'static str, keys: usize, took: Duration) {
    FAMILIES.workers.worked_keys.with_label_values(&[worker]).inc_by(keys as u64);
    FAMILIES.workers.work_seconds.with_label_values(&[worker]).observe(took.as_secs_f64());
}

/// Counts that a worker missed events, and the objects that it found changed.
pub fn caught_up(worker: &'static str, changed: usize) {
    FAMILIES.workers.missed.with_label_values(&[worker]).inc();
    FAMILIES.workers.missed_changes.with_label_values(&[worker]).inc_by(changed as u64);
}

/// Counts a decision about a binding. `result` is `scheduled` or `unschedulable`.
pub fn scheduled(result: &'static str) {
    FAMILIES.scheduled.with_label_values(&[result]).inc();
}

/// Observes the time from a trigger to the pass that served it. Times on the wire have whole
/// seconds.
pub fn trigger_answered(seconds: i64) {
    FAMILIES.trigger_seconds.observe(seconds as f64);
}

/// Sets the number of workloads in a state: `scheduled`, `unschedulable` or `waiting`.
pub fn workloads(state: &'static str, count: i64) {
    FAMILIES.fleet.workloads.with_label_values(&[state]).set(count);
}

/// Sets the number of displaced workloads, and of drifted ones.
pub fn standing(displaced: usize, drifted: usize) {
    FAMILIES.fleet.displaced.set(i64::try_from(displaced).unwrap_or(i64::MAX));
    FAMILIES.fleet.drifted.set(i64::try_from(drifted).unwrap_or(i64::MAX));
}

/// Sets the duration of the last pass over all workloads.
pub fn displaced_age(seconds: i64) {
    FAMILIES.fleet.displaced_age.set(seconds);
}

/// The label of clusters without a separate series.
pub const OTHER_CLUSTERS: &str = "other";

/// Sets the replicas on a cluster. `None` removes the series. The caller bounds the clusters with a
/// separate series.
pub fn cluster_replicas(cluster: &str, replicas: Option<i64>) {
    match replicas {
        Some(replicas) => FAMILIES.fleet.cluster_replicas.with_label_values(&[cluster]).set(replicas),
        // Fails only if there is no such series.
        None => drop(FAMILIES.fleet.cluster_replicas.remove_label_values(&[cluster])),
    }
}

/// The resources with a series of reserved amounts. Other resource names come from clients, so they
/// have none.
pub const RESERVED_RESOURCES: [&str; 6] =
    ["cpu", "memory", "ephemeral-storage", "pods", "nvidia.com/gpu", "amd.com/gpu"];

/// Sets the reservations on a cluster, which are placed and not reported yet: the replicas, and the
/// amounts in the order of `RESERVED_RESOURCES`. `None` removes the series. The caller bounds the
/// clusters.
pub fn cluster_reserved(cluster: &str, reserved: Option<(i64, [f64; RESERVED_RESOURCES.len()])>) {
    let (replicas, amounts) = (&FAMILIES.fleet.cluster_reserved_replicas, &FAMILIES.fleet.cluster_reserved);
    match reserved {
        Some((count, reserved)) => {
            replicas.with_label_values(&[cluster]).set(count);
            for (resource, amount) in RESERVED_RESOURCES.iter().zip(reserved) {
                amounts.with_label_values(&[cluster, resource]).set(amount);
            }
        }
        None => {
            // Fails only if there are no such series.
            drop(replicas.remove_label_values(&[cluster]));
            RESERVED_RESOURCES.iter().for_each(|resource| drop(amounts.remove_label_values(&[cluster, resource])));
        }
    }
}

/// Removes the series of all clusters.
pub fn forget_clusters() {
    FAMILIES.fleet.cluster_replicas.reset();
    FAMILIES.fleet.cluster_reserved.reset();
    FAMILIES.fleet.cluster_reserved_replicas.reset();
}

/// Resets the metrics that workers set about the fleet and their queues, for a process that has
/// stopped its workers. From then on, the new leader reports them.
pub fn forget_workers() {
    let families::Fleet {
        workloads,
        survival,
        survival_time,
        displaced,
        drifted,
        displaced_age,
        clusters,
        evictions_waiting,
        rebalances,
        ..
    } = &FAMILIES.fleet;
    let (depth, waiting) = (&FAMILIES.workers.queue_depth, &FAMILIES.workers.queue_waiting);
    [workloads, survival, clusters, rebalances, depth, waiting].into_iter().for_each(prometheus::IntGaugeVec::reset);
    [survival_time, displaced, drifted, displaced_age, evictions_waiting].into_iter().for_each(|gauge| gauge.set(0));
    forget_clusters();
    fleet_health::forget();
}

/// Sets the number of clusters that are ready, or not. `ready` is `true` or `false`.
pub fn clusters(ready: &'static str, count: i64) {
    FAMILIES.fleet.clusters.with_label_values(&[ready]).set(count);
}

pub fn evictions_waiting(count: i64) {
    FAMILIES.fleet.evictions_waiting.set(count);
}

/// Sets the number of replicas that the worst single loss of a domain of this kind would strand.
/// `None` if there is no such domain.
pub fn survival(by: &'static str, replicas: Option<i64>) {
    match replicas {
        Some(replicas) => FAMILIES.fleet.survival.with_label_values(&[by]).set(replicas),
        None => drop(FAMILIES.fleet.survival.remove_label_values(&[by])),
    }
}

/// Sets the time, in seconds since 1970, of the state of the fleet for which survival was last
/// evaluated.
pub fn survival_time(seconds: i64) {
    FAMILIES.fleet.survival_time.set(seconds);
}

/// Sets the number of rebalances in a phase: `Planning`, `Planned`, `Running`, `Paused`,
/// `Completed` or `Aborted`.
pub fn rebalances(phase: &'static str, count: i64) {
    FAMILIES.fleet.rebalances.with_label_values(&[phase]).set(count);
}

/// Counts a move of a rebalance that has ended: `settled`, `unchanged`, `failed` or `superseded`.
pub fn move_finished(outcome: &'static str) {
    FAMILIES.fleet.moves.with_label_values(&[outcome]).inc();
}

/// Counts a batch of spans sent to the collector. `result` is `success` or `failure`.
pub fn spans_delivered(result: &'static str) {
    FAMILIES.span_deliveries.with_label_values(&[result]).inc();
}

/// Counts a write that was forwarded to the leader, by the status of its response.
pub fn forwarded_write(code: u16) {
    FAMILIES.forwarded_writes.with_label_values(&[decimal(code, &mut [0; 5])]).inc();
}

/// Sets whether all objects that are stored upstream were listed.
pub fn upstream_synced(is_synced: bool) {
    FAMILIES.upstream.synced.set(i64::from(is_synced));
}

/// Counts the start of a list of a kind upstream.
pub fn upstream_listed(kind: &'static str) {
    FAMILIES.upstream.lists.with_label_values(&[kind]).inc();
}

/// Counts a list or watch upstream that failed.
pub fn upstream_failed(kind: &'static str) {
    FAMILIES.upstream.failures.with_label_values(&[kind]).inc();
}

/// Counts an attempted write of an object upstream. `result` is `success`, `conflict`, `refused` or
/// `unavailable`.
pub fn upstream_wrote(result: &'static str) {
    FAMILIES.upstream.writes.with_label_values(&[result]).inc();
}

/// Counts a loss of revisions in the database, and sets their number.
pub fn history_lost(revisions: i64) {
    FAMILIES.history_lost.inc();
    FAMILIES.history_lost_revisions.set(revisions);
}

/// Sets the term of the leader of a shared log.
pub fn leader_term(term: i64) {
    FAMILIES.leader_term.set(term);
}

/// Sets the last reports of the replicas that share the log, including this one. The caller bounds
/// their number.
pub fn replicas(replicas: Vec<Replica>) {
    FAMILIES.replicas.set(replicas);
}

/// Sets the back end of the log: `SQLite`, `PostgreSQL` or `memory`.
pub fn store_back_end(name: &'static str) {
    FAMILIES.store.info.with_label_values(&[name]).set(1);
}

/// Sets how far the view of this process may be behind the log.
pub fn lag(revisions: u64, time: Duration) {
    FAMILIES.lag_revisions.set(i64::try_from(revisions).unwrap_or(i64::MAX));
    FAMILIES.lag_seconds.set(time.as_secs_f64());
}

/// Sets whether the workers of this process run.
pub fn leader(is_leader: bool) {
    FAMILIES.leader.set(i64::from(is_leader));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn me1_me2_a_request_shows_up_under_upstreams_names() {
        let asked = Request {
            verb: "LIST",
            group: "g",
            version: "v1",
            resource: "counted",
            scope: "cluster",
            ..Request::default()
        };
        request(&asked, 200, Duration::from_millis(30), Some(10));
        let watching = long_running(&Request { verb: "WATCH", ..asked });
        let text = text();
        for line in [
            "# TYPE apiserver_request_total counter",
            "apiserver_request_total{code=\"200\",component=\"apiserver\",dry_run=\"\",group=\"g\",resource=\"counted\",\
             scope=\"cluster\",subresource=\"\",verb=\"LIST\",version=\"v1\"} 1",
            "apiserver_longrunning_requests{component=\"apiserver\",group=\"g\",resource=\"counted\",scope=\"cluster\",\
             subresource=\"\",verb=\"WATCH\",version=\"v1\"} 1",
        ] {
            assert!(text.lines().any(|it| it == line), "{line} is missing in:\n{text}");
        }
        assert!(text.contains("le=\"0.05\"} 1"), "upstream's buckets");
        drop(watching);
    }
}
