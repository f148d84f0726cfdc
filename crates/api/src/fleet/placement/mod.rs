//! `placement.kubernetes-fleet.io`

pub mod v1beta1;
