//! All integration tests in one binary: one link, one start.

mod api_fields;
mod api_fields_fleet;
mod http;
mod openapi;
mod registry;
mod store;
mod stories;
mod tidy;

#[path = "../support/mod.rs"]
mod support;
mod vectors;
mod vectors_fleet;
