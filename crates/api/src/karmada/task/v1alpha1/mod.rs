//! `task.karmada.io/v1alpha1`

mod reschedule_task;

pub use reschedule_task::{PolicySelector, RescheduleTask, RescheduleTaskSpec};
