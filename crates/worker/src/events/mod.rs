//! Kubernetes events: their recording and their delivery.
//!
//! Events are for people. Recording one costs a push to a short queue. It never waits and never
//! fails; when the queue is full, the event is dropped. A separate loop (`Events`) drains the queue
//! once a second, a bounded number at a time, and passes the events to the sinks. So ten thousand
//! bindings that move at once do not write twenty thousand events. The server stores events itself
//! (`StoredEvents`), as ordinary objects of the kind Event. A repeated event is counted, and is
//! deleted an hour after its last occurrence.
//!
//! Events about objects that requested placements, such as the end of a RescheduleTask, must not be
//! lost among the events about the bindings that they move: they have separate capacity in the
//! queue and among the stored events, and are posted first (`Note::is_about_requester`).
//!
//! The recorder also carries the `TriggerTracker`, so that the scheduler can name the object for
//! which it moves replicas.
//!
//! *Invariant:* events never slow down the components that record them.
//!
//! Deliberately absent: posting to another API server. Another crate implements a `Sink` for that.

mod trigger_tracker;
mod stored_events;
mod plan;
mod poster;
mod reasons;
mod recorder;

use async_trait::async_trait;

pub use ballast_api::core::ObjectReference;
pub use plan::{Note, Severity, counted, event};
pub use poster::Events;
pub use reasons::{EventReason, REASONS};
pub use recorder::Recorder;
pub use stored_events::StoredEvents;
pub use trigger_tracker::{Summary, TriggerResult, TriggerTracker};

/// A destination of events.
#[async_trait]
pub trait Sink: Send + Sync + 'static {
    /// Returns the name for logs.
    fn name(&self) -> &'static str;

    /// Posts these notes, and returns those to retry later. Returned notes may still be dropped.
    async fn post(&self, notes: Vec<Note>) -> Vec<Note>;

    /// Returns whether the sink has work to do without new notes.
    fn has_more(&self) -> bool {
        false
    }
}
