//! Metrics of the estimators in member clusters.

use std::time::Duration;

use prometheus::{Histogram, IntCounterVec, IntGaugeVec};

use super::families::{FAMILIES, Make, WORK_SECONDS};

/// Requests to the estimators in member clusters.
pub struct Estimators {
    pub requests: IntCounterVec,
    pub seconds: Histogram,
    pub answers: IntGaugeVec,
}

impl Estimators {
    pub fn new(make: &Make) -> Estimators {
        Estimators {
            requests: make.counters(
                "ballast_estimator_requests_total",
                "Questions to the estimator of a cluster by outcome: answered, unknown (-1), malformed, refused, \
                 failed or late. Clusters beyond the first 1000 are summed up as \"other\".",
                &["cluster", "outcome"],
            ),
            seconds: make.histogram(
                "ballast_estimator_request_duration_seconds",
                "The time to an answer of an estimator, or to its failure.",
                WORK_SECONDS,
            ),
            answers: make.gauges(
                "ballast_estimator_answers",
                "Whether the estimator of a cluster has answered when it was last asked.",
                &["cluster"],
            ),
        }
    }
}

/// Counts a request to the estimator of a cluster. The caller bounds the clusters with a separate
/// series.
pub fn estimator_asked(cluster: &str, outcome: &str, took: Duration) {
    FAMILIES.estimators.requests.with_label_values(&[cluster, outcome]).inc();
    FAMILIES.estimators.seconds.observe(took.as_secs_f64());
}

/// Sets whether the estimator of a cluster responds. `None` if the cluster is removed.
pub fn estimator_answers(cluster: &str, answers: Option<bool>) {
    let gauge = &FAMILIES.estimators.answers;
    match answers {
        Some(answers) => gauge.with_label_values(&[cluster]).set(i64::from(answers)),
        // Fails only if there is no such series.
        None => drop(gauge.remove_label_values(&[cluster])),
    }
}
