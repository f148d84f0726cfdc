//! The HTTP interface: requests, documents, and Ballast behind and attached to another API server.

mod aggregated;
mod api_fields;
mod api_fields_fleet;
mod api_round_trip;
mod attached;
mod bad_input;
mod fuzz;
mod http;
mod kubernetes;
mod malformed;
mod openapi;
mod registry;
mod seed_samples;

#[path = "../support/kube_apiserver/mod.rs"]
#[allow(dead_code, reason = "each target uses a part of it")]
mod kube_apiserver;
#[path = "../support/process.rs"]
#[allow(dead_code)]
mod process;
#[path = "../support/mod.rs"]
#[allow(dead_code, unused_imports, reason = "each target uses a part of it")]
mod support;
