//! `ballast import` and `ballast export`: copies the objects of another API server into the log of
//! a stopped server, and back.
//!
//! The import writes the log and not the API, because an API server assigns a new uid, time and
//! generation to every new object. And while no server runs, nothing is scheduled before all
//! objects exist.
//!
//! *Invariants.* Everything is read and compared before the first write. An object is written only
//! if that changes it, so an interrupted run is completed by repeating it. Objects that are
//! omitted, unchanged or rejected are reported by name.

mod comparison;
pub mod export;
mod files;
pub mod import;
mod kinds;
mod log;
mod profiles;
mod report;
mod source;
mod target;

pub use export::ExportArgs;
pub use import::ImportArgs;

use serde_json::{Map, Value};

/// An object as JSON.
type Tree = Map<String, Value>;

fn metadata<'a>(object: &'a Tree, name: &str) -> &'a str {
    object.get("metadata").and_then(|metadata| metadata.get(name)).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the name with the namespace, such as `shop/web`, or `member1` if it has none.
fn shown_name(object: &Tree) -> String {
    match (metadata(object, "namespace"), metadata(object, "name")) {
        ("", name) => name.to_owned(),
        (namespace, name) => format!("{namespace}/{name}"),
    }
}
