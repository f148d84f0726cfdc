//! Admission checks of the moves of a step, before it is written (AD13).
//!
//! A step is one transaction, so it waits for all responses. If webhooks apply, a step is small
//! enough that all requests run at once, and it waits only for the slowest webhook. A refused move
//! fails, and the step is repeated without it.

use std::sync::Arc;

use futures_util::stream::{self, StreamExt};

use super::{Shared, WriteFailure};
use crate::advance::BINDINGS_PER_STEP_MAX;
use crate::step_input::RefusedWrite;
use ballast_api::karmada::work::v1alpha2::BINDINGS;
use ballast_k8s::{GroupResource, Key, Status};
use ballast_registry::{AdmissionDecision, Change};
use ballast_worker::DEFERRED_MAX;

impl Shared {
    /// Returns the maximum number of bindings in a step.
    pub(super) fn most_at_once(&self) -> usize {
        match self.client.may_need_check(&BINDINGS) {
            true => BINDINGS_PER_STEP_MAX.min(DEFERRED_MAX),
            false => BINDINGS_PER_STEP_MAX,
        }
    }

    /// Checks the bindings among these changes.
    ///
    /// # Errors
    ///
    /// Any of them was refused. The error contains all refused bindings.
    pub(super) async fn check_admission(&self, changes: &[(GroupResource, Change)]) -> Result<(), WriteFailure> {
        if !self.client.may_need_check(&BINDINGS) {
            return Ok(());
        }
        let edits = changes.iter().filter_map(|(resource, change)| match change {
            Change::Edit { base, edits } if BINDINGS.contains(resource) => Some((base, edits)),
            _ => None,
        });
        let checked = edits.filter(|(base, edits)| self.client.needs_check(base, edits));
        let questions = checked.map(|(base, edits)| {
            let (client, base, edits) = (self.client.clone(), Arc::clone(base), edits.clone());
            async move {
                let decision = client.check_admission("rebalance", &base, &edits).await;
                (base.key.clone(), decision)
            }
        });
        let questions: Vec<_> = questions.collect();
        let answers: Vec<(Key, AdmissionDecision)> =
            stream::iter(questions).buffer_unordered(DEFERRED_MAX).collect().await;
        let (mut refused, mut late) = (Vec::new(), None);
        for (key, decision) in answers {
            match decision {
                AdmissionDecision::Allowed => {}
                AdmissionDecision::Outdated => late = Some(Status::conflict(key.resource, &key.name)),
                AdmissionDecision::Unknown => late = Some(Status::unavailable("the webhooks are not known yet")),
                AdmissionDecision::Refused(status) => {
                    let why = RefusedWrite { is_by_others: true, ..RefusedWrite::by(&status) };
                    refused.push((key, why));
                }
            }
        }
        match (refused.is_empty(), late) {
            (true, None) => Ok(()),
            (true, Some(status)) => Err(status.into()),
            (false, _) => {
                let status = Status::failure(403, "Forbidden", "webhooks refused moves of this step");
                Err(WriteFailure { status: Box::new(status), refused })
            }
        }
    }
}
