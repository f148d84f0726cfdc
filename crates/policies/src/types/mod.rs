//! The types of values that Kubernetes adds to CEL, with parsing and formatting. The functions on
//! them are in `functions`.

pub mod address_faults;
pub mod format;
pub mod ip;
pub mod semver;
pub mod text;
pub mod url;
