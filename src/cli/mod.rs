//! The composition root: the command line, and the only place that knows every room.
//!
//! Exit status: 0 done, 1 failed, 2 wrong usage. Results go to standard output, logs to standard error.

pub mod certs;
pub mod client;
pub mod demo;
pub mod tables;
pub mod config;
pub mod simulate;
pub mod simulate_fleet;
