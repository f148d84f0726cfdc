//! Kinds that act when they are created, and are not stored. `cli::serve` hands them to the
//! registry.

mod reschedule_task;
mod reviews;

pub use reschedule_task::RescheduleTasks;
pub use reviews::reviews;
