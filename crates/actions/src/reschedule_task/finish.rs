//! The worker that finishes RescheduleTasks after their requests ran out of time, from their
//! intents. Like all workers it runs in the leader.
//!
//! A step is one transaction: marks, and the intent with its new position. A step that conflicts is
//! planned again, smaller (`ballast_worker::Attempts`). The last step deletes the intent, and an
//! event and a log line report the number of marked bindings.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};

use super::intent::{INTENTS, Intent};
use super::{MarkingLimits, mark};
use ballast_k8s::{GroupResource, Key, Object, Revision, Status};
use ballast_registry::{Change, Client};
use ballast_watch::{Event, EventKind, View};
use ballast_worker::events::{Note, Recorder, Severity};
use ballast_worker::{
    Attempts, BatchOutcome, Changes, Failure, KeyOutcome, Next, Queue, Work, commit_together, run_blocking,
};

/// The time for which a step waits while the scheduler has too much to do
/// (`MarkingLimits::ahead_max`).
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
        async move { BatchOutcome::one_by_one(keys, |key| run_step(&client, &recorder, marking, key)).await }.boxed()
    }
}

/// A step, ready to be committed.
struct MarkingStep {
    /// The bindings and placements that are marked, each with the revision of its pending pass.
    marks: Vec<(Key, Revision)>,
    /// The edits of the marks, and last the write of the intent.
    changes: Changes,
    /// The intent after the step.
    intent: Intent,
    is_last: bool,
}

impl MarkingStep {
    fn plan(
        view: &View,
        stored: &Object,
        mut intent: Intent,
        attempts: &Attempts,
        done: &BTreeSet<Key>,
    ) -> Result<MarkingStep, Status> {
        let keys = intent.next(view, attempts.size());
        let is_last = keys.len() < attempts.size();
        let is_left = |key: &&Key| !attempts.left_out().contains_key(*key) && !done.contains(key);
        let taken = keys.iter().filter(is_left).filter_map(|key| {
            let base = view.get(key)?;
            let (pending_pass, edits) = mark(base, intent.asked, &intent.about)?;
            Some(((key.clone(), pending_pass), (key.resource, Change::Edit { base: Arc::clone(base), edits })))
        });
        let (marks, mut changes): (Vec<_>, Vec<_>) = taken.unzip();
        if let Some(last) = keys.last() {
            let marked = marks.len() + keys.iter().filter(|key| done.contains(key)).count();
            intent.pass(last, marked, keys.len() - marked);
        }
        changes.push(if is_last { intent.end(stored) } else { intent.put(stored) }?);
        Ok(MarkingStep { marks, changes, intent, is_last })
    }
}

async fn run_step(client: &Client, recorder: &Recorder, marking: MarkingLimits, key: Key) -> KeyOutcome {
    recorder.triggers().until_due_below(marking.ahead_max, PATIENCE).await;
    let mut attempts: Attempts = Attempts::new(marking.per_commit_max);
    // Bindings that are marked although the step failed, because the upstream keeps the marks. A
    // crash at this moment is the one case in which such a binding is marked twice.
    let mut done = BTreeSet::new();
    while attempts.begin() {
        let view = client.view();
        let Some(stored) = view.get(&key).cloned() else { return KeyOutcome::new(key, Next::Done) };
        let intent = match Intent::read(&stored) {
            Ok(intent) => intent,
            Err(error) => {
                tracing::warn!(%key, %error, "the intent of a RescheduleTask is left alone");
                return KeyOutcome::new(key, Next::Unschedulable);
            }
        };
        let (known, before, object) = (attempts.clone(), done.clone(), Arc::clone(&stored));
        // A selection with few matches reads every binding.
        let planned = run_blocking(move || MarkingStep::plan(&view, &object, intent, &known, &before)).await;
        let Some(Ok(MarkingStep { marks, changes, intent, is_last })) = planned else {
            return KeyOutcome::new(key, Next::Retry);
        };
        super::note(recorder, &intent.about, &marks);
        let Err(failed) = commit_together(client, changes, |key| key.resource != INTENTS).await else {
            tracing::debug!(%key, marked = intent.marked, selected = intent.selected, "a RescheduleTask goes on");
            if is_last {
                record_end(recorder, &intent);
            }
            return KeyOutcome::new(key, if is_last { Next::Done } else { Next::Again });
        };
        let lost = marks.iter().map(|(key, _)| key).filter(|key| !failed.written.contains(key));
        recorder.triggers().withdraw(&intent.about, lost);
        done.extend(failed.written);
        for (key, status) in &failed.refused {
            tracing::warn!(%key, %status, "a binding does not take its mark");
        }
        if !attempts.adapt(Failure::of(&failed.status), failed.refused) {
            tracing::warn!(%key, status = %failed.status, "a RescheduleTask cannot go on now");
            break;
        }
    }
    KeyOutcome::new(key, Next::Retry)
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
