//! All integration tests in one binary: one link, one start.

mod http;
mod store;
mod stories;
mod tidy;

#[path = "../support/mod.rs"]
mod support;
mod vectors;
