//! All integration tests in one binary: one link, one start.

mod api_fields;
mod api_fields_fleet;
mod http;
mod store;
mod tidy;
mod vectors_fleet;

#[path = "../support/mod.rs"]
mod support;
mod vectors;
