//! What happened to objects, as Kubernetes events: who records them, and where they go.
//!
//! Events are for people. Recording one costs a push to a short queue and never waits or fails:
//! what finds no room is dropped. A loop of its own (`Events`) takes what waits once a second, a
//! bounded number at a time, and hands it to the sinks, so that ten thousand bindings moved at once
//! do not write twenty thousand events. What the server keeps itself (`Kept`) is ordinary objects
//! of the kind Event, counted when the same happens again, and deleted an hour after it last did.
//!
//! *Invariant:* whoever records is not slowed down by events, whatever becomes of them.
//!
//! Deliberately absent: posting to another API server. That is a `Sink` for somebody else to write.

mod kept;
mod plan;
mod posting;
mod recorder;

use async_trait::async_trait;

pub use crate::api::core::ObjectReference;
pub use kept::Kept;
pub use plan::{Note, Severity, counted, event};
pub use posting::Events;
pub use recorder::Recorder;

/// Where events go.
#[async_trait]
pub trait Sink: Send + Sync + 'static {
    /// For logs.
    fn name(&self) -> &'static str;

    /// Takes these, and gives back what may be taken later. What is given back may still be
    /// dropped.
    async fn post(&self, notes: Vec<Note>) -> Vec<Note>;
}
