//! `ballast import` and `ballast export`: the objects of another API server come into the log of a
//! server that does not run, and go back.
//!
//! The import writes the log and not the API, because an API server gives every new object its own
//! uid, time and generation. And where no server runs, nothing is scheduled before all
//! objects are there.
//!
//! *Invariants.* Everything is read and compared before the first write. An object is written only
//! if that changes it, so what was interrupted is finished by doing it again. What is left out,
//! left alone or refused is told by name.

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

/// `shop/web`, or `member1` for what has no namespace.
fn shown_name(object: &Tree) -> String {
    match (metadata(object, "namespace"), metadata(object, "name")) {
        ("", name) => name.to_owned(),
        (namespace, name) => format!("{namespace}/{name}"),
    }
}
