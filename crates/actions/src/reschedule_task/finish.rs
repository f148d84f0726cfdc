//! The worker that finishes RescheduleTasks whose requests ran out of time, from their intents.
//! Like all workers it runs in the leader.
//!
//! A step is one transaction: marks, and the intent with its new position. After a conflict, the
//! step is made again from the newest view, half as large. The last step deletes the intent, and an
//! event and a log line say how many bindings were marked.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};

use super::intent::{INTENTS, Intent};
use super::{MarkingLimits, mark};
use ballast_k8s::{GroupResource, Key, Object, Revision, Status};
use ballast_registry::{Atomicity, Change, Client};
use ballast_watch::{Event, EventKind, View};
use ballast_worker::events::{Note, Recorder, Severity};
use ballast_worker::{BatchOutcome, Failure, KeyOutcome, Next, Queue, Work, run_blocking};

/// Attempts at one step: enough to halve it down to one binding, and to leave out refused ones.
const ATTEMPTS_MAX: usize = 14;
/// How long a step waits while the scheduler has too much to do (`MarkingLimits::ahead_max`).
const PATIENCE: Duration = Duration::from_secs(10);

pub struct RescheduleIntents {
    client: Client,
    recorder: Recorder,
    marking: MarkingLimits,
}

impl RescheduleIntents {
    pub fn new(client: Client, recorder: &Recorder, marking: MarkingLimits) -> RescheduleIntents {
        RescheduleIntents { client, recorder: recorder.clone(), marking }
    }
}

impl Work for RescheduleIntents {
    fn name(&self) -> &'static str {
        "reschedule-task"
    }

    fn interest(&self) -> Vec<GroupResource> {
        vec![INTENTS]
    }

    fn list(&mut self, view: &View, queue: &mut Queue) {
        view.list(INTENTS, None).for_each(|intent| queue.mark(intent.key.clone(), 0));
    }

    fn on_event(&mut self, event: &Event, queue: &mut Queue) {
        if event.kind != EventKind::Deleted {
            queue.mark_changed(event.object.key.clone(), 0, event.revision);
        }
    }

    fn begin(&mut self, keys: Vec<Key>) -> BoxFuture<'static, BatchOutcome> {
        let (client, recorder, marking) = (self.client.clone(), self.recorder.clone(), self.marking);
        async move {
            let mut worked = BatchOutcome::default();
            for key in keys {
                worked.outcomes.push(run_step(&client, &recorder, marking, key).await);
            }
            worked
        }
        .boxed()
    }
}

/// A step, ready to be committed.
struct MarkingStep {
    /// The bindings and placements that are marked, each with the revision of its pending pass.
    marks: Vec<(Key, Revision)>,
    /// The edits of the marks, and last the write of the intent.
    changes: Vec<(GroupResource, Change)>,
    /// The intent after the step.
    intent: Intent,
    is_last: bool,
}

impl MarkingStep {
    fn plan(
        view: &View,
        stored: &Object,
        mut intent: Intent,
        most: usize,
        tried: &EarlierAttempts,
    ) -> Result<MarkingStep, Status> {
        let keys = intent.next(view, most);
        let is_last = keys.len() < most;
        let is_left = |key: &&Key| !tried.refused.contains(key) && !tried.marked.contains(key);
        let taken = keys.iter().filter(is_left).filter_map(|key| {
            let base = view.get(key)?;
            let (pending_pass, edits) = mark(base, intent.asked, &intent.about)?;
            Some(((key.clone(), pending_pass), (key.resource, Change::Edit { base: Arc::clone(base), edits })))
        });
        let (marks, mut changes): (Vec<_>, Vec<_>) = taken.unzip();
        if let Some(last) = keys.last() {
            let marked = marks.len() + keys.iter().filter(|key| tried.marked.contains(key)).count();
            intent.pass(last, marked, keys.len() - marked);
        }
        changes.push(if is_last { intent.end(stored) } else { intent.put(stored) }?);
        Ok(MarkingStep { marks, changes, intent, is_last })
    }
}

async fn run_step(client: &Client, recorder: &Recorder, marking: MarkingLimits, key: Key) -> KeyOutcome {
    recorder.triggers().until_due_below(marking.ahead_max, PATIENCE).await;
    let mut most = marking.per_commit_max;
    let mut tried = EarlierAttempts::default();
    for _ in 0..ATTEMPTS_MAX {
        let view = client.view();
        let Some(stored) = view.get(&key).cloned() else { return KeyOutcome::new(key, Next::Done) };
        let intent = match Intent::read(&stored) {
            Ok(intent) => intent,
            Err(error) => {
                tracing::warn!(%key, %error, "the intent of a RescheduleTask is left alone");
                return KeyOutcome::new(key, Next::Unschedulable);
            }
        };
        let (known, object) = (tried.clone(), Arc::clone(&stored));
        // A selection with few matches reads every binding.
        let planned = run_blocking(move || MarkingStep::plan(&view, &object, intent, most, &known)).await;
        let Some(Ok(MarkingStep { marks, changes, intent, is_last })) = planned else {
            return KeyOutcome::new(key, Next::Retry);
        };
        super::note(recorder, &intent.about, &marks);
        let failed = match client.batch(changes, Atomicity::All).await {
            Ok(outcomes) => StepFailure::of(outcomes, &marks),
            Err(status) => StepFailure { unavailable: Some(status), ..StepFailure::default() },
        };
        if failed.is_nothing() {
            tracing::debug!(%key, marked = intent.marked, selected = intent.selected, "a RescheduleTask goes on");
            if is_last {
                record_end(recorder, &intent);
            }
            return KeyOutcome::new(key, if is_last { Next::Done } else { Next::Again });
        }
        let lost = marks.iter().map(|(key, _)| key).filter(|key| !failed.marked.contains(key));
        recorder.triggers().withdraw(&intent.about, lost);
        tried.marked.extend(failed.marked);
        if let Some(status) = failed.unavailable {
            tracing::warn!(%key, %status, "a RescheduleTask cannot go on now");
            return KeyOutcome::new(key, Next::Retry);
        }
        match failed.refused.is_empty() {
            true => most = (most / 2).max(1),
            false => tried.refused.extend(failed.refused),
        }
    }
    KeyOutcome::new(key, Next::Retry)
}

/// The results of the marks in earlier attempts at a step.
#[derive(Clone, Default)]
struct EarlierAttempts {
    refused: BTreeSet<Key>,
    /// Marked although the step failed. That happens only to bindings that the upstream keeps,
    /// because each of them is written by itself. A crash at this moment is the one case in which
    /// such a binding is marked twice.
    marked: BTreeSet<Key>,
}

/// Why a step was not stored.
#[derive(Default)]
struct StepFailure {
    /// See `EarlierAttempts`.
    marked: Vec<Key>,
    /// An object changed since the view.
    is_outdated: bool,
    /// These bindings refused their mark.
    refused: Vec<Key>,
    unavailable: Option<Status>,
}

impl StepFailure {
    fn of(outcomes: Vec<Result<Arc<Object>, Status>>, marks: &[(Key, Revision)]) -> StepFailure {
        let mut failed = StepFailure::default();
        for (index, outcome) in outcomes.into_iter().enumerate() {
            let Err(status) = outcome else {
                failed.marked.extend(marks.get(index).map(|(key, _)| key.clone()));
                continue;
            };
            match (Failure::of(&status), marks.get(index)) {
                (Failure::Changed, _) => failed.is_outdated = true,
                (Failure::Refused, Some((key, _))) => {
                    tracing::warn!(%key, %status, "a binding does not take its mark");
                    failed.refused.push(key.clone());
                }
                (Failure::Refused | Failure::Unavailable, _) => failed.unavailable = Some(status),
            }
        }
        failed
    }

    fn is_nothing(&self) -> bool {
        !self.is_outdated && self.refused.is_empty() && self.unavailable.is_none()
    }
}

fn record_end(recorder: &Recorder, intent: &Intent) {
    let Intent { about, marked, refused, selected, .. } = intent;
    let mut message = format!("Asked for fresh placements of {marked}.");
    let severity = if *refused == 0 { Severity::Normal } else { Severity::Warning };
    if *refused > 0 {
        message.push_str(&format!(" {refused} did not take the mark."));
    }
    tracing::info!(name = about.name, selected, marked, refused, "RescheduleTask is finished");
    recorder.record(Note::new(recorder, about.clone(), severity, "RescheduleAsked", message));
    recorder.record_summary(recorder.triggers().close(about));
}
