//! The group `policy.karmada.io`.

pub mod v1alpha1;
