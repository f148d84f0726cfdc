//! RescheduleTask: marks the bindings that it selects, so that the scheduler decides them by a
//! Fresh pass (R8-R25).
//!
//! One write marks a binding: it sets the trigger flag `spec.forceRescheduling`, the time of the
//! task as trigger timestamp (C7), and the annotation for the pending pass (C10). The call returns
//! when the marks of all selected bindings are durable (R27). It does not wait for the scheduler
//! (R23).
//!
//! A request has limited time (`MarkingLimits`, and its own deadline). If a task selects more
//! bindings than it can mark in this time, the response has a warning with the number of marked
//! bindings. An intent with the rest is in the log before the response is sent, and a worker marks
//! the rest from it (`intent`, `finish`).
//!
//! ```text
//! POST ──► select ──► mark chunk by chunk ──► all marked ──────────────► response
//!                                        └──► time is over ──► intent ──► response with a warning
//!                                                                 └──► worker: mark the rest
//! ```
//!
//! A task that has started does not end with its request. If the client disconnects or its deadline
//! passes, the task continues within its own time, leaves the rest to an intent, and records the
//! event about its end.
//!
//! *Invariant:* after an error, some bindings may be marked and others not, and no more are marked.
//! That is harmless, because the kind is not idempotent (R20): the client can post again. After a
//! successful response, each selected binding is marked exactly once for the task, also across
//! crashes. Without any response the same holds, unless this process ends before the intent is
//! stored.
//!
//! A task may also name a placement of the KubeFleet family. The placement gets a trigger timestamp
//! as well, and its rollout strategy carries out the decision. It must be named by its kind: a task
//! that selects everything selects bindings only.
//!
//! The task records an event and a log line with the number of bindings that it marked, and one
//! more event when all of them have had their Fresh pass.
//!
//! The server does not have the templates, so label selectors match the labels of the bindings.

mod finish;
mod intent;
mod selection;

use std::panic::resume_unwind;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tracing::Instrument;

use self::intent::Intent;
use ballast_api::fleet::placement::v1beta1::any::PlacementKinds;
use ballast_api::fleet::placement::v1beta1::trigger;
use ballast_api::karmada::task::v1alpha1::RescheduleTask;
use ballast_api::karmada::work::v1alpha2::{PartialBinding, Trigger};
use ballast_base::clock::Clock;
use ballast_k8s::{Edit, Key, Object, Revision, Status, Time, User};
use ballast_registry::{Action, Atomicity, Change, Client, answer_due};
use ballast_resource::Resource;
use ballast_worker::events::{Note, ObjectReference as EventReference, Recorder, Severity};

pub use finish::RescheduleIntents;
pub use selection::{selected, selects_any};

/// The number of attempts to mark bindings that change concurrently.
const ATTEMPTS_MAX: usize = 10;
/// The part of a request's time that is reserved for the last marks, the intent and the response.
const ANSWER_TIME: Duration = Duration::from_millis(500);
/// The number of tasks that mark concurrently. Further tasks wait within their requests, and do not
/// start if these end.
const MARKING_AT_ONCE_MAX: usize = 64;

/// The bounds within which a task marks bindings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MarkingLimits {
    /// The number of bindings that are marked in one transaction. At least one.
    pub per_commit_max: usize,
    /// The time after which a request starts no further transaction, and leaves the rest to an
    /// intent. The first transaction always runs. A request with an earlier deadline has less time.
    pub in_request_max: Duration,
    /// No further transaction starts while this many bindings wait for the scheduler.
    pub ahead_max: usize,
}

impl Default for MarkingLimits {
    fn default() -> MarkingLimits {
        MarkingLimits { per_commit_max: 2_000, in_request_max: Duration::from_secs(30), ahead_max: 10_000 }
    }
}

#[derive(Clone)]
pub struct RescheduleTasks {
    client: Client,
    /// Stores the intents.
    intents: Client,
    clock: Arc<dyn Clock>,
    recorder: Recorder,
    marking: MarkingLimits,
    slots: Arc<Semaphore>,
}

impl RescheduleTasks {
    pub fn new(client: Client, clock: Arc<dyn Clock>, recorder: &Recorder, marking: MarkingLimits) -> RescheduleTasks {
        let slots = Arc::new(Semaphore::new(MARKING_AT_ONCE_MAX));
        RescheduleTasks { intents: client.clone(), client, clock, recorder: recorder.clone(), marking, slots }
    }

    /// Uses this client to store intents. While its fence does not hold, no worker here would
    /// finish the task, so a task that runs out of time is refused.
    #[must_use]
    pub fn with_intents(self, intents: Client) -> RescheduleTasks {
        RescheduleTasks { intents, ..self }
    }
}

#[async_trait]
impl Action for RescheduleTasks {
    async fn create(
        &self,
        _caller: &User,
        object: &mut Map<String, Value>,
        dry_run: bool,
    ) -> Result<Vec<String>, Status> {
        let task = RescheduleTask::deserialize(&*object).map_err(|error| Status::bad_request(error.to_string()))?;
        if dry_run {
            return Ok(Vec::new());
        }
        let time = TimeBudget::begin(self.marking.in_request_max, answer_due());
        let slot = Arc::clone(&self.slots).acquire_owned().await.expect("the semaphore is never closed");
        let tasks = self.clone();
        let running = async move {
            let _slot = slot;
            tasks.run(task, time).await
        };
        // The request may be dropped at any moment, and the task must not stop halfway.
        match tokio::spawn(running.in_current_span()).await {
            Ok(outcome) => outcome,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => resume_unwind(panic),
                Err(_) => Err(Status::unavailable("the server is shutting down".to_owned())),
            },
        }
    }
}

/// The time during which a request marks bindings.
#[derive(Clone, Copy)]
struct TimeBudget {
    begun: Instant,
    length: Duration,
}

impl TimeBudget {
    /// Starts a budget of `most`, or less if the response is due earlier.
    fn begin(most: Duration, answer_due: Option<Instant>) -> TimeBudget {
        let begun = Instant::now();
        let until_due = answer_due.map(|due| due.saturating_duration_since(begun).saturating_sub(ANSWER_TIME));
        TimeBudget { begun, length: until_due.map_or(most, |left| left.min(most)) }
    }

    fn left(&self) -> Duration {
        self.length.saturating_sub(self.begun.elapsed())
    }

    /// Returns the length in seconds, to one decimal.
    fn seconds(&self) -> f64 {
        (self.length.as_secs_f64() * 10.0).round() / 10.0
    }
}

/// Returns a reference to the task for events. The task is not stored.
fn reference(task: &RescheduleTask) -> EventReference {
    let api_version = format!("{}/{}", RescheduleTask::GROUP, RescheduleTask::VERSION);
    EventReference {
        api_version: Some(api_version),
        kind: Some(RescheduleTask::KIND.to_owned()),
        namespace: task.metadata.namespace.clone(),
        name: task.metadata.name.clone(),
        uid: task.metadata.uid.clone(),
        ..EventReference::default()
    }
}

impl RescheduleTasks {
    /// Marks the selected bindings, stores an intent for the rest, and records the event. Returns
    /// the warnings of the response.
    async fn run(&self, task: RescheduleTask, time: TimeBudget) -> Result<Vec<String>, Status> {
        let view = self.client.view();
        let mut intent = Intent::new(reference(&task), task.spec.clone(), self.clock.now(), view.revision);
        // This reads every binding. It takes milliseconds for thousands of them, which is too long
        // on a thread that serves requests.
        let selected = tokio::task::spawn_blocking(move || selected(&task.spec, &view));
        let selected = selected.await.map_err(|_| Status::internal("failed to select bindings"))?;
        intent.selected = selected.len();
        let marked = match self.mark(&selected, &intent, time).await {
            Ok(marked) => self.store_intent(&selected[..marked], &mut intent, time).await.map(|()| marked),
            refused => refused,
        };
        self.record_outcome(&marked, &intent);
        match marked? {
            marked if marked < selected.len() => Ok(vec![warning(marked, selected.len(), time)]),
            _ => Ok(Vec::new()),
        }
    }

    /// Marks as many bindings as the time allows, in their order, and returns the number of
    /// attempted ones. A refused mark does not stop the others.
    async fn mark(&self, keys: &[Key], intent: &Intent, time: TimeBudget) -> Result<usize, Status> {
        let (mut marked, mut refusal) = (0, None);
        for chunk in keys.chunks(self.marking.per_commit_max) {
            if marked > 0 {
                self.recorder.triggers().until_due_below(self.marking.ahead_max, time.left()).await;
                if time.left().is_zero() {
                    break;
                }
            }
            let outcome = self.mark_chunk(chunk.to_vec(), intent).await;
            refusal = outcome.map_err(|status| status.partly_done(marked, keys.len(), "marked"))?.or(refusal);
            marked += chunk.len();
        }
        refusal.map_or(Ok(marked), Err)
    }

    /// Marks these bindings. Returns the last refusal, if there was one.
    async fn mark_chunk(&self, mut keys: Vec<Key>, intent: &Intent) -> Result<Option<Status>, Status> {
        let (about, mut refusal) = (&intent.about, None);
        for _ in 0..ATTEMPTS_MAX {
            let view = self.client.view();
            // A binding that has been deleted needs no mark.
            let mark = |base: &Arc<Object>| {
                let (pending_pass, edits) = mark(base, intent.asked, about)?;
                Some((
                    (base.key.clone(), pending_pass),
                    (base.key.resource, Change::Edit { base: Arc::clone(base), edits }),
                ))
            };
            let (marks, changes): (Vec<(Key, Revision)>, Vec<_>) =
                keys.iter().filter_map(|key| mark(view.get(key)?)).unzip();
            note(&self.recorder, about, &marks);
            let outcomes = self.client.batch(changes, Atomicity::Each).await?;
            let mut changed = Vec::new();
            for ((key, _), outcome) in marks.into_iter().zip(outcomes) {
                let Err(status) = outcome else { continue };
                self.recorder.triggers().withdraw(about, [&key]);
                match status.code {
                    404 | 409 => changed.push(key),
                    _ => refusal = Some(status),
                }
            }
            if changed.is_empty() {
                return Ok(refusal);
            }
            keys = changed;
        }
        Err(Status::timeout("some bindings changed at every attempt to mark them", 1))
    }

    /// Stores the intent to mark the rest, if any.
    async fn store_intent(&self, marked: &[Key], intent: &mut Intent, time: TimeBudget) -> Result<(), Status> {
        let Some(last) = marked.last().filter(|_| marked.len() < intent.selected) else { return Ok(()) };
        intent.pass(last, marked.len(), 0);
        let write = intent.begin(&self.clock.uuid())?;
        let stored = self.intents.batch(vec![write], Atomicity::All).await;
        let stored = stored.and_then(|outcomes| outcomes.into_iter().try_for_each(|outcome| outcome.map(drop)));
        stored.map_err(|mut status| {
            status.message = format!(
                "{} of {} were marked within the {} s of a request, and nobody here can mark the rest later: {}",
                marked.len(),
                intent.selected,
                time.seconds(),
                status.message
            );
            status
        })
    }

    fn record_outcome(&self, marked: &Result<usize, Status>, intent: &Intent) {
        let Intent { about, selected, .. } = intent;
        let goes_on = matches!(marked, Ok(marked) if marked < selected);
        let (severity, reason, message) = match marked {
            Ok(marked) if goes_on => {
                let message = format!("Asked for fresh placements of {marked} so far; {selected} were selected.");
                (Severity::Normal, "RescheduleGoesOn", message)
            }
            Ok(_) => (Severity::Normal, "RescheduleAsked", format!("Asked for fresh placements of {selected}.")),
            Err(_) => {
                let message = format!("Asked for fresh placements of some of {selected}, and could not ask for all.");
                (Severity::Warning, "RescheduleAsked", message)
            }
        };
        let (marked, is_marked) = (marked.as_ref().ok(), marked.is_ok() && !goes_on);
        tracing::info!(name = about.name, selected, marked, is_marked, "RescheduleTask");
        self.recorder.record(Note::new(&self.recorder, about.clone(), severity, reason, message));
        if !goes_on {
            self.recorder.record_summary(self.recorder.triggers().close(about));
        }
    }
}

/// Returns the warning of a task that continues after its response.
fn warning(marked: usize, selected: usize, time: TimeBudget) -> String {
    let seconds = time.seconds();
    format!(
        "{marked} of {selected} were marked within the {seconds} s of a request; the rest is being marked, \
         and an event about the task says when it is done"
    )
}

/// Records the task of these marks. Must be called before the write, because the scheduler may have
/// decided a binding before the write returns.
fn note(recorder: &Recorder, about: &EventReference, marks: &[(Key, Revision)]) {
    for overtaken in recorder.triggers().record(about, marks.iter().map(|(key, pending_pass)| (key, *pending_pass))) {
        recorder.record_summary(Some(overtaken));
    }
}

/// Returns the edits that mark the binding or placement, and the revision that identifies its
/// pending pass. Returns `None` if the object cannot be decoded.
fn mark(object: &Object, now: Time, about: &EventReference) -> Option<(Revision, Vec<Edit>)> {
    if PlacementKinds::of(object.key.resource).is_some() {
        let timestamp = trigger::next(trigger::triggered_at(object), now);
        return Some((trigger::pending_pass(timestamp), trigger::accepted(timestamp, about).into()));
    }
    // The edit and the subscribers of the change read the text next.
    object.text.unpack();
    let timestamp = PartialBinding::of(&object.text.content()).ok()?.trigger().timestamp(now);
    let mut edits = vec![Edit::set(&["spec", "forceRescheduling"], true)];
    edits.extend(Trigger::accepted(timestamp, object.revision, about));
    Some((object.revision, edits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_request_marks_no_longer_than_lets_it_answer_in_time() {
        let most = Duration::from_secs(30);
        for (due_ms, length_ms) in [(None, 30_000), (Some(60_000), 30_000), (Some(2_000), 1_500), (Some(200), 0)] {
            let due = due_ms.map(|ms| Instant::now() + Duration::from_millis(ms));
            let time = TimeBudget::begin(most, due);
            assert_eq!(time.length, Duration::from_millis(length_ms), "{due_ms:?}");
            tokio::time::advance(Duration::from_millis(length_ms)).await;
            assert!(time.left().is_zero(), "{due_ms:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_of_a_request_is_told_in_seconds() {
        for (length_ms, told) in [(0, "0"), (1_480, "1.5"), (30_000, "30")] {
            let time = TimeBudget { begun: Instant::now(), length: Duration::from_millis(length_ms) };
            assert_eq!(time.seconds().to_string(), told);
        }
    }
}
