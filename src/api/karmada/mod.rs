//! The Karmada family, as Karmada serves it: every field upstream has, under the same name and with the
//! same bounds, and the few that the seed documents add (each says so). Paths read like the
//! group, version and resource.

pub mod apps;
pub mod cluster;
pub mod policy;
pub mod task;
pub mod work;
