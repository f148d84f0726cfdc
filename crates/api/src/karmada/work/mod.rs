//! The group `work.karmada.io`.

pub mod v1alpha2;
