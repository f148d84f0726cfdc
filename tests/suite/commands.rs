//! The program as delivered: commands, manifests, documents and the form of the code.

mod cli;
mod docs;
mod manifests;
mod requirements;
mod rows;
mod tidy;

#[path = "../support/kube_apiserver/mod.rs"]
#[allow(dead_code, reason = "each target uses a part of it")]
mod kube_apiserver;
#[path = "../support/process.rs"]
#[allow(dead_code)]
mod process;
#[path = "../support/mod.rs"]
#[allow(dead_code, unused_imports, reason = "each target uses a part of it")]
mod support;
