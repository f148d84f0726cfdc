//! The group `task.karmada.io`.

pub mod v1alpha1;
