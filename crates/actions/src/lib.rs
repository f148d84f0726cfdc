//! Kinds that act when they are created, and are not stored. Also checks that the registry cannot
//! make: who may approve a rebalance, and which taints a policy may set. `cli::serve` hands them to
//! the registry.

mod approval;
mod carried;
mod reschedule_task;
mod reviews;
mod taint_policy;

pub use approval::approvals;
pub use carried::CarriedFields;
pub use reschedule_task::{Marking, RescheduleIntents, RescheduleTasks, selected};
pub use reviews::reviews;
pub use taint_policy::NoExecuteTaints;
