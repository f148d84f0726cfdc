//! The group `apps.karmada.io`.

pub mod v1alpha1;
