//! All metric families, with their names, labels and buckets.

use std::cell::RefCell;
use std::sync::LazyLock;

use prometheus::core::Collector;
use prometheus::proto::MetricType;
use prometheus::{
    Gauge, GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts,
    Registry,
};

use super::admission::Admission;
use super::estimators::Estimators;
use super::fleet_health::FleetHealth;
use super::places::PlaceFamilies;
use super::process::Process;
use super::replicas::Replicas;
use super::storage::Storage;

/// kube-apiserver's buckets for the durations of requests.
pub(super) const REQUEST_SECONDS: &[f64] = &[
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0,
    45.0, 60.0,
];
const RESPONSE_BYTES: &[f64] = &[1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9];
const DELEGATED_SECONDS: &[f64] = &[0.25, 0.5, 0.7, 1.0, 1.5, 3.0, 5.0, 10.0];
pub(super) const WORK_SECONDS: &[f64] = &[0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0];
const TRIGGER_SECONDS: &[f64] = &[0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 30.0, 60.0, 300.0];

/// The description of a family in `docs/reference/metrics.md`.
#[derive(Clone, Debug)]
pub struct Family {
    pub name: String,
    /// `counter`, `gauge` or `histogram`.
    pub kind: &'static str,
    pub labels: Vec<String>,
    pub help: String,
}

fn kind(kind: MetricType) -> &'static str {
    match kind {
        MetricType::COUNTER => "counter",
        MetricType::HISTOGRAM => "histogram",
        _ => "gauge",
    }
}

pub static FAMILIES: LazyLock<Families> = LazyLock::new(Families::new);

pub struct Families {
    pub registry: Registry,
    pub described: Vec<Family>,
    pub requests: IntCounterVec,
    pub request_seconds: HistogramVec,
    pub response_bytes: HistogramVec,
    pub long_running: IntGaugeVec,
    pub in_flight: IntGaugeVec,
    pub places: PlaceFamilies,
    pub terminations: IntCounterVec,
    pub watch_events: IntCounterVec,
    pub watch_bytes: IntCounterVec,
    pub connections: IntGauge,
    pub connections_closed: IntCounterVec,
    pub unsent_bytes: IntGauge,
    pub unread_ended: IntCounterVec,
    pub tls_errors: IntCounter,
    pub reloads: IntCounterVec,
    pub certificate_expiry: IntGauge,
    pub authentications: IntCounterVec,
    pub authorizations: IntCounterVec,
    pub delegated_authn: IntCounterVec,
    pub delegated_authn_seconds: HistogramVec,
    pub delegated_authz: IntCounterVec,
    pub delegated_authz_seconds: HistogramVec,
    pub audit_events: IntCounter,
    pub audit_errors: IntCounter,
    pub admission: Admission,
    /// The older name of `resource_objects`.
    pub storage_objects: IntGaugeVec,
    pub resource_objects: IntGaugeVec,
    pub store: Storage,
    pub workers: Workers,
    pub scheduled: IntCounterVec,
    pub trigger_seconds: Histogram,
    pub fleet: Fleet,
    pub estimators: Estimators,
    pub span_deliveries: IntCounterVec,
    pub leader: IntGauge,
    pub leader_term: IntGauge,
    pub history_lost: IntCounter,
    pub history_lost_revisions: IntGauge,
    pub upstream: Upstream,
    pub forwarded_writes: IntCounterVec,
    pub lag_revisions: IntGauge,
    pub lag_seconds: Gauge,
    pub replicas: Replicas,
    pub process: Process,
}

const REQUEST: [&str; 8] = ["verb", "dry_run", "group", "version", "resource", "subresource", "scope", "component"];
const KIND_OF_REQUEST: [&str; 7] = ["verb", "group", "version", "resource", "subresource", "scope", "component"];

impl Families {
    fn new() -> Families {
        let make = Make { registry: Registry::new(), described: RefCell::default() };
        let with_code = |labels: &[&'static str]| [labels, &["code"]].concat();
        Families {
            requests: make.counters("apiserver_request_total", "Requests by kind and answer.", &with_code(&REQUEST)),
            request_seconds: make.histograms(
                "apiserver_request_duration_seconds",
                "How long requests took, watches apart.",
                REQUEST_SECONDS,
                &REQUEST,
            ),
            response_bytes: make.histograms(
                "apiserver_response_sizes",
                "Sizes of answers in bytes, where known beforehand.",
                RESPONSE_BYTES,
                &KIND_OF_REQUEST,
            ),
            long_running: make.gauges("apiserver_longrunning_requests", "Watches that are open.", &KIND_OF_REQUEST),
            in_flight: make.gauges(
                "apiserver_current_inflight_requests",
                "Requests worked on now, watches apart.",
                &["request_kind"],
            ),
            places: PlaceFamilies::new(&make),
            terminations: make.counters(
                "apiserver_request_terminations_total",
                "Requests sent away to protect the server.",
                &with_code(&KIND_OF_REQUEST),
            ),
            watch_events: make.counters(
                "apiserver_watch_events_total",
                "Events sent to watchers.",
                &["group", "version", "resource"],
            ),
            watch_bytes: make.counters(
                "ballast_watch_event_bytes_total",
                "Bytes of events sent to watchers.",
                &["group", "version", "resource"],
            ),
            connections: make.gauge("ballast_connections", "TLS connections that are open."),
            connections_closed: make.outcomes(
                "ballast_connections_closed_total",
                "Connections that the server closed, by why.",
                "reason",
                &["evicted", "refused", "idle", "timeout", "protocol", "unread"],
            ),
            unsent_bytes: make.gauge("ballast_unsent_bytes", "Bytes of answers that wait for their clients to read."),
            unread_ended: make.unread_ended(),
            tls_errors: make.counter("apiserver_tls_handshake_errors_total", "TLS handshakes that failed."),
            reloads: make.outcomes(
                "ballast_trust_reloads_total",
                "Reloads of certificates, keys, CAs, tokens and policies.",
                "result",
                &["success", "failure"],
            ),
            certificate_expiry: make.gauge(
                "ballast_serving_certificate_expiry_timestamp_seconds",
                "When the serving certificate expires, in seconds since 1970.",
            ),
            authentications: make.outcomes(
                "authentication_attempts",
                "Requests by how their user was found.",
                "result",
                &["success", "failure", "error", "none"],
            ),
            authorizations: make.outcomes(
                "authorization_attempts_total",
                "Decisions about what a user may do.",
                "result",
                &["allowed", "denied", "error"],
            ),
            delegated_authn: make.counters(
                "apiserver_delegated_authn_request_total",
                "TokenReviews sent, by answer.",
                &["code"],
            ),
            delegated_authn_seconds: make.histograms(
                "apiserver_delegated_authn_request_duration_seconds",
                "How long TokenReviews took.",
                DELEGATED_SECONDS,
                &["code"],
            ),
            delegated_authz: make.counters(
                "apiserver_delegated_authz_request_total",
                "SubjectAccessReviews sent, by answer.",
                &["code"],
            ),
            delegated_authz_seconds: make.histograms(
                "apiserver_delegated_authz_request_duration_seconds",
                "How long SubjectAccessReviews took.",
                DELEGATED_SECONDS,
                &["code"],
            ),
            audit_events: make.counter("apiserver_audit_event_total", "Audit events written."),
            audit_errors: make.counter("apiserver_audit_error_total", "Audit events that were lost."),
            admission: Admission::new(&make),
            storage_objects: make.gauges("apiserver_storage_objects", "Objects stored.", &["resource"]),
            resource_objects: make.gauges("apiserver_resource_objects", "Objects stored.", &["group", "resource"]),
            store: Storage::new(&make),
            workers: Workers::new(&make),
            scheduled: make.outcomes(
                "ballast_scheduler_bindings_total",
                "Bindings that scheduling passes decided.",
                "result",
                &["scheduled", "unschedulable"],
            ),
            trigger_seconds: make.histogram(
                "ballast_trigger_to_scheduled_seconds",
                "From a trigger to the pass that answered it, in whole seconds as on the wire.",
                TRIGGER_SECONDS,
            ),
            fleet: Fleet::new(&make),
            estimators: Estimators::new(&make),
            span_deliveries: make.outcomes(
                "ballast_trace_exports_total",
                "Batches of spans sent to the OpenTelemetry collector.",
                "result",
                &["success", "failure"],
            ),
            leader: make.gauge("ballast_leader", "Whether the workers of this process are the ones that run."),
            history_lost: make.counter(
                "ballast_history_lost_total",
                "How often the database had lost changes that this process, or another replica, has seen.",
            ),
            history_lost_revisions: make
                .gauge("ballast_history_lost_revisions", "The revisions that the database had lost the last time."),
            leader_term: make.gauge("ballast_leader_term", "The term of whoever leads the replicas of a shared log."),
            upstream: Upstream::new(&make),
            forwarded_writes: make.counters(
                "ballast_forwarded_writes_total",
                "Writes that were passed on to the leader, by the status of the answer.",
                &["code"],
            ),
            lag_revisions: make.gauge("ballast_lag_revisions", "Changes of the log that are known to be missing here."),
            lag_seconds: make
                .seconds("ballast_lag_seconds", "The time since the state here was last known to be the newest."),
            replicas: make.add(Replicas::new()),
            process: Process::new(&make),
            described: make.described.into_inner(),
            registry: make.registry,
        }
    }
}

/// Metrics of the background loops.
pub struct Workers {
    pub queue_depth: IntGaugeVec,
    pub queue_waiting: IntGaugeVec,
    pub worked_keys: IntCounterVec,
    pub work_seconds: HistogramVec,
    pub missed: IntCounterVec,
    pub missed_changes: IntCounterVec,
}

impl Workers {
    fn new(make: &Make) -> Workers {
        Workers {
            queue_depth: make.gauges("ballast_worker_queue_depth", "Keys that are due, or in work.", &["worker"]),
            queue_waiting: make.gauges("ballast_worker_queue_waiting", "Keys that wait for a time.", &["worker"]),
            worked_keys: make.counters("ballast_worker_keys_total", "Keys that were worked on.", &["worker"]),
            work_seconds: make.histograms(
                "ballast_worker_batch_duration_seconds",
                "How long a batch of a worker took, a scheduling pass for example.",
                WORK_SECONDS,
                &["worker"],
            ),
            missed: make.counters(
                "ballast_worker_missed_events_total",
                "How often a worker was too late for the events, and looked at what had changed.",
                &["worker"],
            ),
            missed_changes: make.counters(
                "ballast_worker_missed_changes_total",
                "Objects that had changed when a worker had missed events.",
                &["worker"],
            ),
        }
    }
}

/// Metrics of the API server that this one is attached to.
pub struct Upstream {
    pub synced: IntGauge,
    pub lists: IntCounterVec,
    pub failures: IntCounterVec,
    pub writes: IntCounterVec,
}

impl Upstream {
    fn new(make: &Make) -> Upstream {
        Upstream {
            synced: make.gauge(
                "ballast_karmada_in_step",
                "Whether all objects of the API server that this one is attached to were listed.",
            ),
            lists: make.counters(
                "ballast_karmada_lists_total",
                "Lists of a kind at the Karmada that this server is attached to.",
                &["resource"],
            ),
            failures: make.counters(
                "ballast_karmada_failures_total",
                "Lists and watches at that Karmada that failed.",
                &["resource"],
            ),
            writes: make.outcomes(
                "ballast_karmada_writes_total",
                "Writes of objects to that Karmada, by result.",
                "result",
                &["success", "conflict", "refused", "unavailable"],
            ),
        }
    }
}

/// Metrics of the fleet: workloads, clusters, evictions and moves.
pub struct Fleet {
    pub workloads: IntGaugeVec,
    pub survival: IntGaugeVec,
    pub survival_time: IntGauge,
    pub displaced: IntGauge,
    pub drifted: IntGauge,
    pub displaced_age: IntGauge,
    pub cluster_replicas: IntGaugeVec,
    pub cluster_reserved: GaugeVec,
    pub cluster_reserved_replicas: IntGaugeVec,
    pub clusters: IntGaugeVec,
    pub evictions_waiting: IntGauge,
    pub rebalances: IntGaugeVec,
    pub moves: IntCounterVec,
    pub health: FleetHealth,
}

impl Fleet {
    fn new(make: &Make) -> Fleet {
        Fleet {
            workloads: make.gauges(
                "ballast_workloads",
                "Workloads by state: scheduled, unschedulable, or waiting for their first decision.",
                &["state"],
            ),
            survival: make.gauges(
                "ballast_survival_stranded_replicas",
                "Replicas that would fit nowhere if the worst single domain of this kind were lost: a cluster, zone or region.",
                &["by"],
            ),
            survival_time: make.gauge(
                "ballast_survival_timestamp_seconds",
                "The time, in seconds since 1970, of the fleet that ballast_survival_stranded_replicas is about. 0: none was looked at yet, or another replica leads.",
            ),
            displaced: make.gauge(
                "ballast_workloads_displaced",
                "Workloads that lost clusters to a failure and have not been back, that break a rule of their placement, or that an earlier affinity group would take.",
            ),
            drifted: make.gauge(
                "ballast_workloads_drifted",
                "Workloads that are not displaced, and that a fresh decision would divide otherwise.",
            ),
            displaced_age: make.gauge(
                "ballast_displaced_age_seconds",
                "How long the last look at all workloads took, which is how old ballast_workloads_displaced may be.",
            ),
            cluster_replicas: make.gauges(
                "ballast_cluster_replicas",
                "Replicas assigned to a cluster. Clusters beyond the first 1000 are summed up as \"other\".",
                &["cluster"],
            ),
            cluster_reserved: make.float_gauges(
                "ballast_cluster_reserved",
                "What is placed on a cluster and not reported yet, in cores, bytes or pieces.",
                &["cluster", "resource"],
            ),
            cluster_reserved_replicas: make.gauges(
                "ballast_cluster_reserved_replicas",
                "Replicas that are placed on a cluster and not reported yet.",
                &["cluster"],
            ),
            clusters: make.gauges("ballast_clusters", "Clusters by whether they are ready.", &["ready"]),
            evictions_waiting: make.gauge("ballast_evictions_waiting", "Evictions that have begun and whose replacement is not healthy yet. A workload that leaves two clusters counts twice."),
            rebalances: make.gauges("ballast_rebalances", "Rebalances and ClusterRebalances by phase.", &["phase"]),
            moves: make.outcomes(
                "ballast_moves_total",
                "Moves of rebalances that have ended, by outcome.",
                "outcome",
                &["settled", "unchanged", "failed", "superseded"],
            ),
            health: FleetHealth::new(make),
        }
    }
}

/// The panic message of invalid metrics. Their names are constants and tested, so this cannot
/// happen.
const SOUND: &str = "names and labels are valid, and each is registered once";

pub(super) struct Make {
    registry: Registry,
    described: RefCell<Vec<Family>>,
}

impl Make {
    pub(super) fn add<M: Collector + Clone + 'static>(&self, metric: Result<M, prometheus::Error>) -> M {
        let metric = metric.expect(SOUND);
        let collected = metric.collect();
        self.described.borrow_mut().extend(metric.desc().into_iter().zip(&collected).map(|(desc, family)| Family {
            name: desc.fq_name.clone(),
            kind: kind(family.get_field_type()),
            labels: desc.variable_labels.clone(),
            help: desc.help.clone(),
        }));
        self.registry.register(Box::new(metric.clone())).expect(SOUND);
        metric
    }

    pub(super) fn counter(&self, name: &str, help: &str) -> IntCounter {
        self.add(IntCounter::new(name, help))
    }

    pub(super) fn counters(&self, name: &str, help: &str, labels: &[&str]) -> IntCounterVec {
        self.add(IntCounterVec::new(Opts::new(name, help), labels))
    }

    /// Creates counters by a label with these values, all of which exist from the start. For
    /// Prometheus, a counter that first appears with a 1 has not increased, so an alert would miss
    /// the first failure.
    pub(super) fn outcomes(&self, name: &str, help: &str, label: &str, values: &[&str]) -> IntCounterVec {
        let counters = self.counters(name, help, &[label]);
        for value in values {
            let _from_zero = counters.with_label_values(&[value]);
        }
        counters
    }

    fn unread_ended(&self) -> IntCounterVec {
        let help = "Answers that were ended because nobody read them and memory was short.";
        self.outcomes("ballast_unread_ended_total", help, "kind", &["watch", "answer"])
    }

    pub(super) fn gauge(&self, name: &str, help: &str) -> IntGauge {
        self.add(IntGauge::new(name, help))
    }

    pub(super) fn seconds(&self, name: &str, help: &str) -> Gauge {
        self.add(Gauge::new(name, help))
    }

    pub(super) fn gauges(&self, name: &str, help: &str, labels: &[&str]) -> IntGaugeVec {
        self.add(IntGaugeVec::new(Opts::new(name, help), labels))
    }

    pub(super) fn float_gauges(&self, name: &str, help: &str, labels: &[&str]) -> GaugeVec {
        self.add(GaugeVec::new(Opts::new(name, help), labels))
    }

    pub(super) fn histogram(&self, name: &str, help: &str, buckets: &[f64]) -> Histogram {
        self.add(Histogram::with_opts(HistogramOpts::new(name, help).buckets(buckets.to_vec())))
    }

    pub(super) fn histograms(&self, name: &str, help: &str, buckets: &[f64], labels: &[&str]) -> HistogramVec {
        self.add(HistogramVec::new(HistogramOpts::new(name, help).buckets(buckets.to_vec()), labels))
    }
}
