//! Kinds that act when they are created and store nothing. `cli::serve` hands them to the registry.

mod reschedule_task;

pub use reschedule_task::RescheduleTasks;
