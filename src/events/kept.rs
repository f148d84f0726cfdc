//! The events that the server keeps itself, as objects of the kind Event, for `kubectl describe`.

use std::collections::BTreeMap;

use async_trait::async_trait;

use super::Sink;
use super::plan::{self, Note, Severity};
use crate::api::core::EVENTS;
use crate::k8s::Key;
use crate::registry::{Atomicity, Change, Client, Part};
use crate::worker::Failure;

/// The most events of its own that the server keeps.
const KEPT_MAX: usize = 20_000;

pub struct Kept {
    client: Client,
}

impl Kept {
    pub fn new(client: Client) -> Kept {
        Kept { client }
    }
}

#[async_trait]
impl Sink for Kept {
    fn name(&self) -> &'static str {
        "kept"
    }

    async fn post(&self, notes: Vec<Note>) -> Vec<Note> {
        let view = self.client.view();
        let mut room = KEPT_MAX.saturating_sub(view.count(EVENTS, None));
        let mut changes = Vec::new();
        let mut writing = Vec::new();
        for (key, note) in merged(notes) {
            let change = match view.get(&key) {
                Some(known) => known
                    .value()
                    .ok()
                    .and_then(|event| plan::counted(event, &note))
                    .map(|object| Change::Update { part: Part::Main, object }),
                None if room > 0 || note.severity == Severity::Warning => {
                    room = room.saturating_sub(1);
                    Some(Change::Create(plan::event(&note, &key)))
                }
                None => None,
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

/// Counts an event that happened again.
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
