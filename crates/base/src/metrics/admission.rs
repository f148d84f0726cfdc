//! Metrics of admission: webhooks, built-in checks, and policies.

use std::time::Duration;

use prometheus::{HistogramVec, IntCounterVec};

use super::families::{FAMILIES, Make, REQUEST_SECONDS, WORK_SECONDS};

/// The buckets of upstream.
const POLICY_SECONDS: &[f64] = &[0.000_000_5, 0.001, 0.01, 0.1, 1.0];
const VALIDATION: [&str; 4] = ["policy", "policy_binding", "error_type", "enforcement_action"];
const MUTATION: [&str; 3] = ["policy", "policy_binding", "error_type"];

/// Durations and results of admission before a write is stored.
pub struct Admission {
    pub webhook_seconds: HistogramVec,
    pub step_seconds: HistogramVec,
    pub controller_seconds: HistogramVec,
    /// Indexed by the type of the policy: validating, mutating.
    pub policy_checks: [IntCounterVec; 2],
    pub policy_check_seconds: [HistogramVec; 2],
    pub asked: IntCounterVec,
    pub asked_seconds: HistogramVec,
}

impl Admission {
    pub fn new(make: &Make) -> Admission {
        Admission {
            webhook_seconds: make.histograms(
                "apiserver_admission_webhook_admission_duration_seconds",
                "How long admission webhooks took.",
                REQUEST_SECONDS,
                &["name", "operation", "rejected", "type"],
            ),
            step_seconds: make.histograms(
                "apiserver_admission_step_admission_duration_seconds",
                "How long the webhooks of one step of admission took together.",
                REQUEST_SECONDS,
                &["operation", "rejected", "type"],
            ),
            controller_seconds: make.histograms(
                "apiserver_admission_controller_admission_duration_seconds",
                "How long the checks of admission that are built in took.",
                REQUEST_SECONDS,
                &["name", "operation", "rejected", "type"],
            ),
            policy_checks: [
                make.counters(
                    "apiserver_validating_admission_policy_check_total",
                    "Validations of the host cluster's policies that failed, by what followed.",
                    &VALIDATION,
                ),
                make.counters(
                    "apiserver_mutating_admission_policy_check_total",
                    "Mutations of the host cluster's policies, by the kind of error.",
                    &MUTATION,
                ),
            ],
            policy_check_seconds: [
                make.histograms(
                    "apiserver_validating_admission_policy_check_duration_seconds",
                    "How long such validations took.",
                    POLICY_SECONDS,
                    &VALIDATION,
                ),
                make.histograms(
                    "apiserver_mutating_admission_policy_check_duration_seconds",
                    "How long mutations of the host cluster's policies took.",
                    POLICY_SECONDS,
                    &MUTATION,
                ),
            ],
            asked: make.counters(
                "ballast_worker_questions_total",
                "Writes of workers that webhooks were asked about first, by the answer.",
                &["worker", "answer"],
            ),
            asked_seconds: make.histograms(
                "ballast_worker_question_duration_seconds",
                "How long webhooks took to answer a worker.",
                WORK_SECONDS,
                &["worker"],
            ),
        }
    }
}

/// Counts a call of a webhook. `step` is `admit` or `validating`.
pub fn webhook(name: &str, operation: &'static str, step: &'static str, rejected: bool, took: Duration) {
    let rejected = if rejected { "true" } else { "false" };
    FAMILIES
        .admission
        .webhook_seconds
        .with_label_values(&[name, operation, rejected, step])
        .observe(took.as_secs_f64());
}

/// Counts a request of a worker to webhooks. `answer` is `allowed`, `refused`, `overtaken` or
/// `unknown`.
pub fn asked(worker: &'static str, answer: &'static str, took: Duration) {
    FAMILIES.admission.asked.with_label_values(&[worker, answer]).inc();
    FAMILIES.admission.asked_seconds.with_label_values(&[worker]).observe(took.as_secs_f64());
}

/// Counts a write that all webhooks of one step accepted, or one refused. `step` is `admit` or
/// `validate`.
pub fn admission_step(step: &'static str, operation: &'static str, rejected: bool, took: Duration) {
    let rejected = if rejected { "true" } else { "false" };
    FAMILIES.admission.step_seconds.with_label_values(&[operation, rejected, step]).observe(took.as_secs_f64());
}

/// Counts a decision of a validating policy. The labels are the policy, its binding, the kind of
/// error and the action.
pub fn policy_validation(labels: [&str; 4], took: Duration) {
    policy_check(0, &labels, took);
}

/// Counts a mutation. The labels are the policy, its binding and the kind of error.
pub fn policy_mutation(labels: [&str; 3], took: Duration) {
    policy_check(1, &labels, took);
}

fn policy_check(index: usize, labels: &[&str], took: Duration) {
    FAMILIES.admission.policy_checks[index].with_label_values(labels).inc();
    FAMILIES.admission.policy_check_seconds[index].with_label_values(labels).observe(took.as_secs_f64());
}

/// Counts a write that a built-in admission check accepted or refused.
pub fn admission_controller(name: &'static str, operation: &'static str, rejected: bool, took: Duration) {
    let rejected = if rejected { "true" } else { "false" };
    let labels = [name, operation, rejected, "validate"];
    FAMILIES.admission.controller_seconds.with_label_values(&labels).observe(took.as_secs_f64());
}
