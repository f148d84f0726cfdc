//! Placements that were decided, and then refused by a quota (QU4) or a webhook (AD13) when they
//! were written.
//!
//! The bindings keep their targets, and their triggers stay pending. They are decided again when
//! the quota has more capacity. After a webhook's refusal, they are decided again after a backoff,
//! because no event reports that a webhook would accept them now.

use std::sync::Arc;

use super::{commit, events};
use ballast_api::karmada::work::v1alpha2::AnyBinding;
use ballast_base::metrics;
use ballast_engine::karmada::Reason;
use ballast_k8s::{Object, Status, Time, read_json};
use ballast_quota::QUOTA_EXCEEDED;
use ballast_registry::{Change, Client};
use ballast_worker::events::Recorder;
use ballast_worker::{BatchOutcome, KeyOutcome, Next, commit_each};

/// A placement that was refused.
pub struct RefusedPlacement {
    base: Arc<Object>,
    /// The reason of the condition.
    reason: &'static str,
    message: String,
    next: Next,
}

impl RefusedPlacement {
    /// Creates a refusal by a FederatedResourceQuota that Ballast enforces.
    pub fn by_quota(base: Arc<Object>, message: String) -> RefusedPlacement {
        RefusedPlacement { base, reason: QUOTA_EXCEEDED, message, next: Next::Unschedulable }
    }

    /// Creates a refusal by an admission check. If it is the quota of another server, the reason is
    /// the same as for a quota of Ballast.
    pub fn by_others(base: Arc<Object>, status: &Status) -> RefusedPlacement {
        let reason = if status.reason == QUOTA_EXCEEDED { QUOTA_EXCEEDED } else { Reason::SchedulerError.as_str() };
        RefusedPlacement { base, reason, message: status.message.clone(), next: Next::Retry }
    }
}

/// Writes the reason of each refusal to its binding, in one transaction, and records the events.
pub async fn record_all(
    client: &Client,
    recorder: &Recorder,
    refused: Vec<RefusedPlacement>,
    now: Time,
    worked: &mut BatchOutcome,
) {
    let mut recording = Vec::new();
    for RefusedPlacement { base: object, reason, message, next } in refused {
        metrics::scheduled("unschedulable");
        tracing::debug!(key = %object.key, reason, message, "refused");
        let Ok(binding) = read_json::<AnyBinding>(&object.text.content()) else { continue };
        let edits = commit::refusal(&binding, reason, &message, now);
        let events = events::of_refusal(&object.key, binding, message, edits.is_empty());
        if edits.is_empty() {
            events.record(recorder);
            worked
                .outcomes
                .push(KeyOutcome { seen: Some(object.revision), ..KeyOutcome::new(object.key.clone(), next) });
            continue;
        }
        let key = object.key.clone();
        recording.push(((key.clone(), events, next), (key.resource, Change::Edit { base: object, edits })));
    }
    for ((key, events, next), outcome) in commit_each(client, recording).await {
        if outcome.is_ok() {
            events.record(recorder);
        }
        worked.outcomes.push(KeyOutcome::of_write(key, next, outcome));
    }
}
