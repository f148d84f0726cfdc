//! Plans a rebalance, and stores the plan as Moves.

use std::sync::Arc;

use super::{MOVES_PER_COMMIT_MAX, Shared, WriteFailure, status_change};
use crate::before::bindings_before;
use crate::cordon;
use crate::planned_moves::{self, PlanError, PlanWrites, PlannedMoves};
use crate::record::{AnyRebalance, Owner};
use ballast_api::ballast::v1alpha1::{Phase, RebalanceStatus, SelectEntry};
use ballast_base::metrics;
use ballast_k8s::{GroupResource, Object, Revision};
use ballast_registry::Change;
use ballast_scheduler::planning::PlanningSnapshot;
use ballast_watch::View;
use ballast_worker::events::Severity;
use ballast_worker::{Next, commit_each, run_blocking};

impl Shared {
    pub(super) async fn plan(
        self: Arc<Shared>,
        present: PlanningSnapshot,
        object: &Arc<Object>,
        rebalance: AnyRebalance,
    ) -> Result<(Next, Option<Revision>), WriteFailure> {
        let owner = Owner::of(object);
        if let Some(next) = self.end_undone(&present.view, object, &rebalance).await? {
            return Ok((next, Some(object.revision)));
        }
        let (revision, now) = (present.view.revision, present.now);
        let (of, asked) = (owner.clone(), rebalance.clone());
        let before = match &rebalance.spec.before {
            Some(before) => Some(bindings_before(&self.client, before, now).await),
            None => None,
        };
        let made = run_blocking(move || {
            let at = Arc::clone(&present.view);
            let present = asked.present(present);
            let made = match before.transpose() {
                _ if asked.spec.abort => Err(PlanError::new("Aborted", "it was aborted before its plan was made")),
                Ok(before) => planned_moves::make(&present, before.as_deref(), &of, &asked),
                Err(error) => Err(PlanError::new("Expired", error.message())),
            };
            let (plan, refused) = match made {
                Ok(made) => (made, None),
                // Without a plan, Moves of a plan that was interrupted by a crash are deleted.
                Err(refused) => (PlannedMoves::default(), Some(refused)),
            };
            let plan = Arc::new(plan);
            let writes = PlanWrites::new(at, of, Arc::clone(&plan));
            (refused.map_or(Ok(plan), Err), next(writes))
        });
        let (made, (mut writes, mut rest)) = made.await.ok_or_else(WriteFailure::shutting_down)?;
        let mut base = Arc::clone(object);
        loop {
            let (after, following) =
                run_blocking(move || next(writes)).await.ok_or_else(WriteFailure::shutting_down)?;
            if following.is_empty() {
                break;
            }
            writes = after;
            let mut chunk = std::mem::replace(&mut rest, following);
            if base.revision == object.revision && rebalance.status.phase.is_none() {
                let status = RebalanceStatus {
                    phase: Some(Phase::Planning),
                    observed_generation: Some(base.generation),
                    ..RebalanceStatus::default()
                };
                chunk.push(status_change(&base, &status));
                base = self.commit(chunk).await?.expect("the status is among the changes");
            } else {
                self.commit(chunk).await?;
            }
        }
        let status = planned_moves::status(&rebalance, base.generation, made.as_deref(), (revision, now));
        rest.push(status_change(&base, &status));
        let written = self.commit(rest).await?.expect("the status is among the changes");
        let phase = status.phase.unwrap_or(Phase::Planned);
        match &made {
            Err(PlanError { reason: "PlanChanged", message, .. }) => {
                self.tell(&owner, Severity::Warning, "PlanChanged", format!("nothing moves: {message}"));
            }
            Err(PlanError { message, .. }) => {
                self.tell(&owner, Severity::Warning, "NotPlanned", format!("nothing is planned: {message}"));
            }
            Ok(_) => {
                // A workload that fits nowhere has a Move, which ends with the plan.
                for _ in 0..status.summary.unwrap_or_default().failed {
                    metrics::move_finished("failed");
                }
                if status.summary.unwrap_or_default().selected == 0 && !rebalance.spec.select.is_empty() {
                    // A schedule that finds no displaced workload is no error.
                    let is_usual = |entry: &SelectEntry| entry.displaced.is_some() || entry.drifted.is_some();
                    let (severity, told) = match rebalance.spec.select.iter().any(is_usual) {
                        true => (Severity::Normal, "no workload is displaced or drifted as asked, so nothing moves"),
                        false => (Severity::Warning, "spec.select matches no workload, so nothing will move"),
                    };
                    self.tell(&owner, severity, "NothingSelected", told.to_owned());
                }
                self.tell_phase(&owner, Phase::Planned, &rebalance, &status, 0);
                self.tell_approval(&owner, &rebalance, &status);
                if phase != Phase::Planned {
                    self.tell_phase(&owner, phase, &rebalance, &status, 0);
                }
            }
        }
        let to_move = status.summary.unwrap_or_default().to_move;
        tracing::info!(key = %owner.key, to_move, phase = phase.as_str(), "planned");
        Ok((Next::Again, Some(written.revision)))
    }
}

impl Shared {
    /// Closes the clusters of a drain before its first move begins, and records it in the status. A
    /// refusal is reported as an event, and nothing moves before the clusters are closed.
    pub(super) async fn close(
        &self,
        view: &View,
        object: &Arc<Object>,
        owner: &Owner,
        rebalance: &AnyRebalance,
    ) -> Result<(Next, Option<Revision>), WriteFailure> {
        let changes = rebalance.spec.drain.as_ref().map(|drain| cordon::closing(view, drain, self.clock.now()));
        for (key, outcome) in commit_each(&self.client, changes.unwrap_or_default()).await {
            match outcome {
                Ok(_) => tracing::info!(cluster = %key.name, "closed for its drain"),
                Err(status) => {
                    if matches!(status.code, 400..500) && !matches!(status.code, 404 | 409 | 429) {
                        let told = format!("nothing moves, because {} cannot be closed: {}", key.name, status.message);
                        self.tell(owner, Severity::Warning, "NotClosed", told);
                    }
                    return Err(status.into());
                }
            }
        }
        let mut status = rebalance.status.clone();
        status.drain.get_or_insert_default().closed = true;
        let written = self.commit(vec![status_change(object, &status)]).await?;
        Ok((Next::Again, written.map(|object| object.revision)))
    }
}

/// Returns the next writes, and the iterator for those after them.
fn next(mut writes: PlanWrites) -> (PlanWrites, Vec<(GroupResource, Change)>) {
    let chunk = writes.next(MOVES_PER_COMMIT_MAX);
    (writes, chunk)
}
