//! Kinds that act when they are created, and are not stored. Also validators for rules that the
//! registry does not know: who may approve a rebalance, and which taints a policy may set.
//! `node::assembly` hands them to the registry.

mod approval;
mod carried_fields;
mod reschedule_task;
mod reviews;
mod no_execute_taints;

pub use approval::approvals;
pub use carried_fields::CarriedFields;
pub use no_execute_taints::NoExecuteTaints;
pub use reschedule_task::{MarkingLimits, RescheduleIntents, RescheduleTasks, selected};
pub use reviews::reviews;
