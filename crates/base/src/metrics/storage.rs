//! The metrics of the store.

use std::time::Duration;

use prometheus::{Histogram, IntCounter, IntCounterVec, IntGauge, IntGaugeVec};

use super::families::{FAMILIES, Make};

const COMMIT_SECONDS: &[f64] = &[0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0];
const CHANGES: &[f64] = &[1.0, 2.0, 5.0, 10.0, 50.0, 100.0, 500.0, 1000.0, 5000.0];

/// The store: its size, its transactions and its compactions.
pub struct Storage {
    pub info: IntGaugeVec,
    pub bytes: IntGauge,
    /// Has no labels, and no series while the value is unknown, like `wal_bytes`.
    pub free_bytes: IntGaugeVec,
    pub wal_bytes: IntGaugeVec,
    pub quarantined: IntGauge,
    pub namespace_bytes_max: IntGauge,
    pub namespace_bytes_refused: IntCounter,
    pub history_seconds: IntGaugeVec,
    pub history_bytes: IntGauge,
    pub history_bytes_max: IntGauge,
    pub commits: IntCounterVec,
    pub commit_seconds: Histogram,
    pub commit_changes: Histogram,
    pub compactions: IntCounterVec,
    pub compaction_seconds: Histogram,
}

impl Storage {
    pub fn new(make: &Make) -> Storage {
        Storage {
            info: make.gauges("ballast_store_info", "What keeps the log.", &["back_end"]),
            bytes: make.gauge("ballast_store_size_bytes", "What the database takes of its disk, with its WAL."),
            free_bytes: make.gauges(
                "ballast_store_free_bytes",
                "The part of ballast_store_size_bytes that holds nothing and is used again. SQLite only.",
                &[],
            ),
            wal_bytes: make.gauges(
                "ballast_store_wal_bytes",
                "The part of ballast_store_size_bytes that is the WAL. SQLite only.",
                &[],
            ),
            quarantined: make.gauge(
                "ballast_store_quarantined_rows",
                "Damaged rows that --quarantine has set aside, as of the start.",
            ),
            namespace_bytes_max: make.gauge(
                "ballast_store_namespace_bytes_max",
                "The bytes of all objects of the largest namespace. --max-namespace-bytes bounds them.",
            ),
            namespace_bytes_refused: make.counter(
                "ballast_store_namespace_bytes_refused_total",
                "Writes that were answered with 403, because their namespace has --max-namespace-bytes.",
            ),
            history_seconds: make.gauges(
                "ballast_store_history_seconds",
                "How far back the log of the leader remembers, from the first compaction on; --history asks for it, \
                 --history-max-changes bounds it.",
                &[],
            ),
            history_bytes: make.gauge(
                "ballast_store_history_bytes",
                "What the history of the log takes, without the newest states. On the leader.",
            ),
            history_bytes_max: make.gauge(
                "ballast_store_history_bytes_limit",
                "--history-max-bytes: above it, the oldest part of the history goes.",
            ),
            commits: make.outcomes(
                "ballast_store_commits_total",
                "Transactions of the store.",
                "result",
                &["success", "failure"],
            ),
            commit_seconds: make.histogram(
                "ballast_store_commit_duration_seconds",
                "How long transactions took until they were durable.",
                COMMIT_SECONDS,
            ),
            commit_changes: make.histogram("ballast_store_commit_changes", "Changes in a transaction.", CHANGES),
            compactions: make.outcomes(
                "ballast_store_compactions_total",
                "Compactions of the log.",
                "result",
                &["success", "failure"],
            ),
            compaction_seconds: make.histogram(
                "ballast_store_compaction_duration_seconds",
                "How long compactions of the log took.",
                COMMIT_SECONDS,
            ),
        }
    }
}

/// Sets the length of the history of the leader's log.
pub fn store_history(length: Duration) {
    let seconds = i64::try_from(length.as_secs()).unwrap_or(i64::MAX);
    FAMILIES.store.history_seconds.with_label_values::<&str>(&[]).set(seconds);
}

/// Sets the size of the history of the log, in bytes.
pub fn store_history_bytes(bytes: u64) {
    FAMILIES.store.history_bytes.set(i64::try_from(bytes).unwrap_or(i64::MAX));
}

/// Sets the quota of the history, in bytes.
pub fn store_history_bytes_max(bytes: u64) {
    FAMILIES.store.history_bytes_max.set(i64::try_from(bytes).unwrap_or(i64::MAX));
}

/// Sets the size of the largest namespace, in bytes.
pub fn namespace_bytes_max(bytes: usize) {
    FAMILIES.store.namespace_bytes_max.set(i64::try_from(bytes).unwrap_or(i64::MAX));
}

/// Counts a write that was refused because its namespace has reached its limit.
pub fn namespace_bytes_refused() {
    FAMILIES.store.namespace_bytes_refused.inc();
}

/// Sets the number of quarantined damaged rows.
pub fn store_quarantined(rows: usize) {
    FAMILIES.store.quarantined.set(i64::try_from(rows).unwrap_or(i64::MAX));
}

/// Sets the size of the database, and of its free part and its WAL, if known.
pub fn store_size(bytes: u64, free: Option<u64>, wal: Option<u64>) {
    let set = |gauge: &prometheus::IntGauge, bytes: u64| gauge.set(i64::try_from(bytes).unwrap_or(i64::MAX));
    set(&FAMILIES.store.bytes, bytes);
    for (gauges, bytes) in [(&FAMILIES.store.free_bytes, free), (&FAMILIES.store.wal_bytes, wal)] {
        if let Some(bytes) = bytes {
            set(&gauges.with_label_values::<&str>(&[]), bytes);
        }
    }
}
