//! Events that the server stores as objects of the kind Event, for `kubectl describe`.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;

use super::Sink;
use super::plan::{self, Note, Severity};
use crate::{Failure, run_blocking};
use ballast_api::core::EVENTS;
use ballast_k8s::{Key, Object};
use ballast_registry::{Atomicity, Change, Client, Part};
use ballast_watch::View;

/// The number of stored events above which no further normal one is stored.
const KEPT_MAX: usize = 20_000;
/// The part of `KEPT_MAX` that is reserved for events about requesters
/// (`Note::is_about_requester`). Warnings, which are always stored, do not use it up either.
const KEPT_ABOUT_REQUESTERS: usize = 1_000;

pub struct StoredEvents {
    client: Client,
}

impl StoredEvents {
    pub fn new(client: Client) -> StoredEvents {
        StoredEvents { client }
    }
}

#[async_trait]
impl Sink for StoredEvents {
    fn name(&self) -> &'static str {
        "kept"
    }

    async fn post(&self, notes: Vec<Note>) -> Vec<Note> {
        let view = self.client.view();
        let notes = merged(notes);
        let mut room = Capacity::among(&view, &notes).await;
        let mut changes = Vec::new();
        let mut writing = Vec::new();
        for (key, note) in notes {
            let change = match view.get(&key) {
                Some(known) => known
                    .value()
                    .ok()
                    .and_then(|event| plan::counted(event, &note))
                    .map(|object| Change::Update { part: Part::Main, object }),
                None => room.takes(&note).then(|| Change::Create(plan::event(&note, &key))),
            };
            if let Some(change) = change {
                changes.push((EVENTS, change));
                writing.push(note);
            }
        }
        if changes.is_empty() {
            return Vec::new();
        }
        let outcomes = match self.client.batch(changes, Atomicity::Each).await {
            Ok(outcomes) => outcomes,
            Err(status) => {
                tracing::debug!(%status, "events not written");
                return writing;
            }
        };
        let refused = writing.into_iter().zip(outcomes).filter_map(|(note, outcome)| {
            let status = outcome.err()?;
            tracing::debug!(reason = note.reason, %status, "an event was not written");
            (Failure::of(&status) != Failure::Refused).then_some(note)
        });
        refused.collect()
    }
}

/// The free capacity for new events.
struct Capacity {
    /// The remaining events up to `KEPT_MAX`.
    left: usize,
    /// The remaining reserved events about requesters when `left` is used up.
    left_to_requesters: usize,
}

impl Capacity {
    async fn among(view: &View, notes: &BTreeMap<Key, Note>) -> Capacity {
        let left = KEPT_MAX.saturating_sub(view.count(EVENTS, None));
        if left >= notes.len() || !notes.values().any(Note::is_about_requester) {
            return Capacity { left, left_to_requesters: 0 };
        }
        // Warnings have used more than their part. This reads all events, which is rare.
        let view = view.clone();
        let count = move || {
            let is_about_requester =
                |object: &&Arc<Object>| object.value().is_ok_and(|it| plan::is_about_requester(&it));
            view.list(EVENTS, None).filter(is_about_requester).count()
        };
        let kept = run_blocking(count).await.unwrap_or(KEPT_ABOUT_REQUESTERS);
        Capacity { left, left_to_requesters: KEPT_ABOUT_REQUESTERS.saturating_sub(kept) }
    }

    /// Reserves capacity for a new event, and returns whether it is to be stored.
    fn takes(&mut self, note: &Note) -> bool {
        let is_about_requester = note.is_about_requester();
        let left_over = if is_about_requester { 0 } else { KEPT_ABOUT_REQUESTERS };
        if self.left > left_over {
            self.left -= 1;
            return true;
        }
        if is_about_requester && self.left_to_requesters > 0 {
            self.left_to_requesters -= 1;
            return true;
        }
        let is_warning = note.severity == Severity::Warning;
        if is_warning {
            self.left = self.left.saturating_sub(1);
        }
        is_warning
    }
}

/// Merges notes of the same event, and counts them.
fn merged(notes: Vec<Note>) -> BTreeMap<Key, Note> {
    let mut merged: BTreeMap<Key, Note> = BTreeMap::new();
    for note in notes {
        match merged.entry(note.key()) {
            std::collections::btree_map::Entry::Occupied(mut known) => known.get_mut().absorb(&note),
            std::collections::btree_map::Entry::Vacant(place) => drop(place.insert(note)),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::{ObjectReference, Recorder};
    use ballast_base::clock::ManualClock;
    use ballast_k8s::{Revision, Time};

    fn note(api_version: &str, kind: &str, severity: Severity) -> Note {
        let recorder = Recorder::new(ManualClock::at(Time::from_seconds(100)));
        let about = ObjectReference {
            api_version: Some(api_version.to_owned()),
            kind: Some(kind.to_owned()),
            ..ObjectReference::default()
        };
        Note::new(&recorder, about, severity, "Reason", "message".to_owned())
    }

    fn about_binding(severity: Severity) -> Note {
        note("work.karmada.io/v1alpha2", "ResourceBinding", severity)
    }

    fn about_task() -> Note {
        note("task.karmada.io/v1alpha1", "RescheduleTask", Severity::Normal)
    }

    /// Returns how many of very many notes like this one are stored.
    fn kept(room: &mut Capacity, note: &Note) -> usize {
        (0..2 * KEPT_MAX).filter(|_| room.takes(note)).count()
    }

    #[test]
    fn events_about_bindings_leave_places_to_those_about_requesters() {
        let mut room = Capacity { left: KEPT_MAX, left_to_requesters: 0 };
        assert_eq!(kept(&mut room, &about_binding(Severity::Normal)), KEPT_MAX - KEPT_ABOUT_REQUESTERS);
        assert_eq!(kept(&mut room, &about_task()), KEPT_ABOUT_REQUESTERS);
        assert_eq!(kept(&mut room, &about_binding(Severity::Normal)), 0);
    }

    #[test]
    fn warnings_are_always_kept_and_leave_the_same_places() {
        let warning = about_binding(Severity::Warning);
        let mut room = Capacity { left: KEPT_ABOUT_REQUESTERS, left_to_requesters: KEPT_ABOUT_REQUESTERS };
        assert_eq!(kept(&mut room, &warning), 2 * KEPT_MAX);
        assert_eq!(kept(&mut room, &about_task()), KEPT_ABOUT_REQUESTERS);
        assert_eq!(kept(&mut room, &about_binding(Severity::Normal)), 0);
    }

    #[tokio::test]
    async fn where_places_are_short_the_events_about_requesters_are_counted() {
        let object = |name: &str, note: &Note| {
            let key = Key::namespaced(EVENTS, "default", name);
            let text = serde_json::Value::from(plan::event(note, &key)).to_string();
            Arc::new(Object::decode(key, Revision(1), text.into()).unwrap())
        };
        let binding = about_binding(Severity::Warning);
        let events = (0..KEPT_MAX).map(|number| object(&format!("b{number}"), &binding));
        let view = View::of(events.chain([object("t", &about_task())]));
        let room = Capacity::among(&view, &merged(vec![about_task()])).await;
        assert_eq!((room.left, room.left_to_requesters), (0, KEPT_ABOUT_REQUESTERS - 1));
        let room = Capacity::among(&view, &merged(vec![binding])).await;
        assert_eq!((room.left, room.left_to_requesters), (0, 0), "nobody asks for them");
    }
}
