//! The types of values that Kubernetes adds to CEL, and how they are read and written. The
//! functions on them are in `functions`.

pub mod address_faults;
pub mod format;
pub mod ip;
pub mod semver;
pub mod text;
pub mod url;
