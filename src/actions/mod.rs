//! Kinds that act when they are created, and are not stored; and the check of who may approve a
//! rebalance. `cli::serve` hands them to the registry.

mod approval;
mod reschedule_task;
mod reviews;

pub use approval::approvals;
pub use reschedule_task::{RescheduleTasks, selected};
pub use reviews::reviews;
