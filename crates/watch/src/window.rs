//! The recent events of one kind in a bounded queue, oldest first.
//!
//! Each kind has a separate window, so a busy kind never shortens that of a quiet one. A window has
//! forgotten events up to its `floor`. A reader that has seen everything up to the floor has missed
//! nothing.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

use ballast_k8s::{Object, Revision};

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
    /// The state after the change. For `Deleted` it is the last state with the revision of the
    /// deletion.
    pub object: Arc<Object>,
    /// The state before the change; `None` for `Created`.
    pub previous: Option<Arc<Object>>,
    /// When the change was written by the writer's clock, in milliseconds since 1970. Zero in a
    /// `Difference`, which has no times.
    pub time_ms: i64,
    is_alike: OnceLock<bool>,
}

impl Event {
    pub fn new(
        revision: Revision,
        kind: EventKind,
        object: Arc<Object>,
        previous: Option<Arc<Object>>,
        time_ms: i64,
    ) -> Event {
        Event { revision, kind, object, previous, time_ms, is_alike: OnceLock::new() }
    }

    /// Returns whether the states before and after are alike by this rule; false if there was no
    /// state before. The result is cached for all subscribers, so all callers must use the same
    /// rule for one kind.
    pub fn is_alike(&self, rule: fn(&Object, &Object) -> bool) -> bool {
        self.previous.as_deref().is_some_and(|before| *self.is_alike.get_or_init(|| rule(before, &self.object)))
    }
}

/// The revision is older than the remembered history. On the wire it is a 410.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("revision {asked} is too old, the oldest is {oldest}")]
pub struct Expired {
    pub asked: Revision,
    pub oldest: Revision,
}

#[derive(Debug)]
pub(super) struct Window {
    events: VecDeque<Arc<Event>>,
    /// The sum over the objects in `events`. Objects that events share are counted several times.
    bytes: usize,
    floor: Revision,
}

impl Window {
    /// Creates an empty window that has forgotten everything up to and including `floor`.
    pub fn new(floor: Revision) -> Window {
        Window { events: VecDeque::new(), bytes: 0, floor }
    }

    pub fn push(&mut self, event: Arc<Event>) {
        self.bytes += weight(&event);
        self.events.push_back(event);
    }

    /// Moves events beyond the bounds to `forgotten`. The caller drops them after it has released
    /// the lock, because that takes long.
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

    /// Forgets all events up to a revision, including events that the window never had.
    pub fn restart(&mut self, floor: Revision) -> VecDeque<Arc<Event>> {
        (self.bytes, self.floor) = (0, floor);
        std::mem::take(&mut self.events)
    }

    /// Returns the revision up to which events may be forgotten.
    pub fn floor(&self) -> Revision {
        self.floor
    }

    /// Returns the events after a revision, oldest first.
    pub fn after(&self, revision: Revision) -> impl DoubleEndedIterator<Item = &Arc<Event>> {
        let start = self.events.partition_point(|event| event.revision <= revision);
        self.events.range(start..)
    }
}

/// Returns the approximate memory of an event, in bytes.
fn weight(event: &Event) -> usize {
    const BESIDE_THE_TEXT: usize = 512;
    event.object.text.content_len() + BESIDE_THE_TEXT
}
