//! All integration tests, in one binary because one binary links faster than forty.

mod aggregated;
mod api_fields;
mod api_fields_fleet;
mod api_round_trip;
mod cli;
mod docs;
mod bad_input;
mod attached;
mod fleet;
mod fuzz;
mod http;
mod openapi;
mod registry;
mod replicas;
mod requirements;
mod rows;
mod seed_samples;
mod store;
mod stories;
mod stories_fleet;
mod tidy;
mod kubernetes;
mod malformed;
mod manifests;
mod vectors;
mod vectors_fleet;

#[path = "../support/process.rs"]
#[allow(dead_code)]
mod process;
#[path = "../support/mod.rs"]
mod support;
