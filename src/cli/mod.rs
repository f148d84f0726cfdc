//! The composition root: one file per command.

pub mod certs;
