//! Kubernetes events: what records them, and where they go.
//!
//! Events are for people. Recording one costs a push to a short queue. It never waits and never
//! fails; an event that finds no room is dropped. A loop of its own (`Events`) empties the queue
//! once a second, a bounded number at a time, and hands the events to the sinks. So ten thousand
//! bindings that move at once do not write twenty thousand events. The server keeps events itself
//! (`StoredEvents`), as ordinary objects of the kind Event. An event that happens again is counted,
//! and is deleted an hour after the last time.
//!
//! An event about an object that requested placements, such as the end of a RescheduleTask, is not
//! lost among the events about the bindings that it moves: such events have capacity of their own
//! in the queue and among the kept events, and are posted first (`Note::is_about_requester`).
//!
//! The recorder also carries the `TriggerTracker`, so that the scheduler can name the object for
//! which it moves replicas.
//!
//! *Invariant:* events never slow down what records them.
//!
//! Deliberately absent: posting to another API server. Another room implements a `Sink` for that.

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

/// A place that events go to.
#[async_trait]
pub trait Sink: Send + Sync + 'static {
    /// For logs.
    fn name(&self) -> &'static str;

    /// Takes these events, and returns those to try again later. What is returned may still be
    /// dropped.
    async fn post(&self, notes: Vec<Note>) -> Vec<Note>;

    /// Whether it has work to do without new notes.
    fn has_more(&self) -> bool {
        false
    }
}
