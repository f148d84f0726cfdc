//! The recent past of each kind: a bounded queue of events, oldest first.
//!
//! Each kind has its own bounds, so a busy kind never shortens the memory of a quiet one. What a
//! kind has forgotten ends at its `floor`: whoever has seen everything up to there has missed
//! nothing.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::k8s::{Object, Revision};

use super::Limits;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    Created,
    Updated,
    Deleted,
}

/// One change of one object.
#[derive(Debug)]
pub struct Event {
    pub revision: Revision,
    pub kind: EventKind,
    /// For `Deleted` the last state, with the deletion's revision.
    pub object: Arc<Object>,
    /// The state before: none for `Created`.
    pub previous: Option<Arc<Object>>,
    /// When it was written, by the writer's clock.
    pub time_ms: i64,
}

/// What was asked for lies before what is remembered. On the wire it is 410.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("revision {asked} is too old, the oldest is {oldest}")]
pub struct Expired {
    pub asked: Revision,
    pub oldest: Revision,
}

#[derive(Debug)]
pub(super) struct Window {
    events: VecDeque<Arc<Event>>,
    /// Of the objects in `events`, each counted for itself: more than is held where they are
    /// shared.
    bytes: usize,
    floor: Revision,
}

impl Window {
    /// Knows nothing up to and including `floor`.
    pub fn new(floor: Revision) -> Window {
        Window { events: VecDeque::new(), bytes: 0, floor }
    }

    pub fn push(&mut self, event: Arc<Event>) {
        self.bytes += weight(&event);
        self.events.push_back(event);
    }

    /// Moves what is beyond the bounds to `forgotten`: freeing it takes long, and the caller holds
    /// a lock that everybody waits for.
    pub fn trim(&mut self, now_ms: i64, limits: &Limits, forgotten: &mut Vec<Arc<Event>>) {
        let oldest_ms = now_ms.saturating_sub(limits.window_age_max.as_millis() as i64);
        while let Some(oldest) = self.events.front() {
            let fits = self.events.len() <= limits.window_events_max && self.bytes <= limits.window_bytes_max;
            if fits && oldest.time_ms >= oldest_ms {
                break;
            }
            self.bytes -= weight(oldest);
            self.floor = oldest.revision;
            forgotten.extend(self.events.pop_front());
        }
    }

    /// The last revision that is forgotten.
    pub fn floor(&self) -> Revision {
        self.floor
    }

    /// The events after a revision, oldest first.
    pub fn after(&self, revision: Revision) -> impl DoubleEndedIterator<Item = &Arc<Event>> {
        let start = self.events.partition_point(|event| event.revision <= revision);
        self.events.range(start..)
    }
}

/// What an event holds on to: its object with what surrounds the text.
fn weight(event: &Event) -> usize {
    const BESIDE_THE_TEXT: usize = 512;
    event.object.text.content().len() + BESIDE_THE_TEXT
}
