//! RescheduleTask: marks the bindings that it selects, so that the scheduler places them afresh
//! (R8-R25).
//!
//! A mark sets both triggers in one write per binding: `spec.forceRescheduling`, and the time of
//! the task as the stamp (C7), with the debt of a pass (C10). The call returns when the marks of
//! all selected bindings are durable (R27). It does not wait for the scheduler (R23).
//!
//! A task that selects more than can be marked in the time of a request (`Marking`) is answered
//! with a warning that says how many are marked. The rest is marked from an intent, which is in the
//! log before the answer is given (`intent`, `finish`).
//!
//! *Invariant:* after an error, some bindings may be marked and others not, and nothing goes on.
//! That is harmless, because the kind does not promise idempotency (R20): the caller can post
//! again. After an answer, each selected binding is marked once for the task, whatever crashes.
//!
//! A task may also name a placement of the Fleet family, which is an addition to the seed. The
//! placement gets a stamp too, and its decision is carried out by its rollout strategy. It must be
//! named by its kind: a task that selects everything selects bindings only.
//!
//! The task leaves an event and a log line with the number of bindings that it marked, and one more
//! event when all of them have been placed afresh.
//!
//! The server does not have the templates, so label selectors look at the labels of the bindings.

mod finish;
mod intent;
mod selection;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::time::Instant;

use self::intent::Intent;
use crate::api::fleet::placement::v1beta1::any::PlacementKinds;
use crate::api::fleet::placement::v1beta1::trigger;
use crate::api::karmada::task::v1alpha1::RescheduleTask;
use crate::api::karmada::work::v1alpha2::{BindingSketch, Trigger};
use crate::clock::Clock;
use crate::events::{Note, ObjectReference as EventReference, Recorder, Severity};
use crate::k8s::{Edit, Key, Object, Revision, Status, Time, User};
use crate::registry::{Action, Atomicity, Change, Client};
use crate::resource::Resource;

pub use finish::RescheduleIntents;
pub use selection::selected;

/// How often bindings that change meanwhile are read again.
const ATTEMPTS_MAX: usize = 10;

/// How a task marks what it selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marking {
    /// Bindings marked in one transaction. At least one.
    pub per_commit_max: usize,
    /// After this time, a request begins no further transaction, and leaves the rest to an intent.
    /// The first one is always made. It has to be well below the deadline of requests (LI1).
    pub in_request_max: Duration,
    /// No further transaction is begun while the scheduler has so many bindings to look at.
    pub ahead_max: usize,
}

impl Default for Marking {
    fn default() -> Marking {
        Marking { per_commit_max: 2_000, in_request_max: Duration::from_secs(30), ahead_max: 50_000 }
    }
}

pub struct RescheduleTasks {
    client: Client,
    /// Stores what is left of a task.
    intents: Client,
    clock: Arc<dyn Clock>,
    recorder: Recorder,
    marking: Marking,
}

impl RescheduleTasks {
    pub fn new(client: Client, clock: Arc<dyn Clock>, recorder: &Recorder, marking: Marking) -> RescheduleTasks {
        RescheduleTasks { intents: client.clone(), client, clock, recorder: recorder.clone(), marking }
    }

    /// What is left of a task is stored by this client. Where its fence does not hold, nobody would
    /// finish the task, so it is refused when its time is over.
    #[must_use]
    pub fn leaving_the_rest_to(self, intents: Client) -> RescheduleTasks {
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
        let begun = Instant::now();
        let task = RescheduleTask::deserialize(&*object).map_err(|error| Status::bad_request(error.to_string()))?;
        let view = self.client.view();
        let mut intent = Intent::new(reference(&task), task.spec.clone(), self.clock.now(), view.revision);
        // This reads every binding. It takes milliseconds for thousands of them, which is too long
        // on a thread that serves requests.
        let selected = tokio::task::spawn_blocking(move || selected(task.spec, &view));
        let selected = selected.await.map_err(|_| Status::internal("failed to select bindings"))?;
        if dry_run {
            return Ok(Vec::new());
        }
        intent.selected = selected.len();
        let marked = match self.mark(&selected, &intent, begun).await {
            Ok(marked) => self.hand_over(&selected[..marked], &mut intent).await.map(|()| marked),
            refused => refused,
        };
        self.tell(&marked, &intent);
        match marked? {
            marked if marked < selected.len() => Ok(vec![self.warning(marked, selected.len())]),
            _ => Ok(Vec::new()),
        }
    }
}

/// The task, for events about it. It is not stored, so its name is all that there is.
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
    /// Marks as many as the time allows, in their order, and returns how many had their turn. A
    /// refused mark does not stop the others.
    async fn mark(&self, keys: &[Key], intent: &Intent, begun: Instant) -> Result<usize, Status> {
        let (mut marked, mut refusal) = (0, None);
        for chunk in keys.chunks(self.marking.per_commit_max) {
            if marked > 0 {
                let left = self.marking.in_request_max.saturating_sub(begun.elapsed());
                self.recorder.asks().until_due_below(self.marking.ahead_max, left).await;
                if begun.elapsed() >= self.marking.in_request_max {
                    break;
                }
            }
            refusal = self.mark_chunk(chunk.to_vec(), intent).await?.or(refusal);
            marked += chunk.len();
        }
        refusal.map_or(Ok(marked), Err)
    }

    /// Marks these, and returns why one was refused.
    async fn mark_chunk(&self, mut keys: Vec<Key>, intent: &Intent) -> Result<Option<Status>, Status> {
        let (about, mut refusal) = (&intent.about, None);
        for _ in 0..ATTEMPTS_MAX {
            let view = self.client.view();
            // A binding that is gone by now needs no mark.
            let mark = |base: &Arc<Object>| {
                let (owed, edits) = mark(base, intent.asked, about)?;
                Some(((base.key.clone(), owed), (base.key.resource, Change::Edit { base: Arc::clone(base), edits })))
            };
            let (marks, changes): (Vec<(Key, Revision)>, Vec<_>) =
                keys.iter().filter_map(|key| mark(view.get(key)?)).unzip();
            note(&self.recorder, about, &marks);
            let outcomes = self.client.batch(changes, Atomicity::Each).await?;
            let mut changed = Vec::new();
            for ((key, _), outcome) in marks.into_iter().zip(outcomes) {
                let Err(status) = outcome else { continue };
                self.recorder.asks().withdraw(about, [&key]);
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

    /// Stores the intent to mark the rest, if there is a rest.
    async fn hand_over(&self, marked: &[Key], intent: &mut Intent) -> Result<(), Status> {
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
                self.marking.in_request_max.as_secs(),
                status.message
            );
            status
        })
    }

    /// What the answer says of a task that goes on.
    fn warning(&self, marked: usize, selected: usize) -> String {
        let seconds = self.marking.in_request_max.as_secs();
        format!(
            "{marked} of {selected} were marked within the {seconds} s of a request; the rest is being marked, \
             and an event about the task says when it is done"
        )
    }

    fn tell(&self, marked: &Result<usize, Status>, intent: &Intent) {
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
            self.recorder.summed_up(self.recorder.asks().close(about));
        }
    }
}

/// Remembers who is about to write these marks: the scheduler may answer before it is heard that
/// they are written.
fn note(recorder: &Recorder, about: &EventReference, marks: &[(Key, Revision)]) {
    for overtaken in recorder.asks().note(about, marks.iter().map(|(key, owed)| (key, *owed))) {
        recorder.summed_up(Some(overtaken));
    }
}

/// The edits that mark the binding or placement, and the debt by which the mark is known. `None` if
/// it cannot be read.
fn mark(object: &Object, now: Time, about: &EventReference) -> Option<(Revision, Vec<Edit>)> {
    if PlacementKinds::of(object.key.resource).is_some() {
        let stamp = trigger::next(trigger::triggered_at(object), now);
        return Some((trigger::debt(stamp), trigger::accepted(stamp, about).into()));
    }
    // The edit reads it next, and then everybody who hears of the change.
    object.text.unpack();
    let stamp = BindingSketch::of(&object.text.content()).ok()?.trigger().stamp(now);
    let mut edits = vec![Edit::set(&["spec", "forceRescheduling"], true)];
    edits.extend(Trigger::accepted(stamp, object.revision, about));
    Some((object.revision, edits))
}
