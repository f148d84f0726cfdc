//! The group `cluster.karmada.io`.

pub mod v1alpha1;
