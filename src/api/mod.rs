//! Every kind that is served, one line each in its family's `rows`. A kind is a Rust type that
//! implements `Resource`; its schema is derived from the type, so a field exists on the wire
//! exactly if it exists here.
//!
//! How a field is written says what it is on the wire: `Option` and lists and maps that are skipped
//! when empty are optional, everything else is required. An absent list and an empty one mean the
//! same. Null is never a value: utoipa's `null` alternative of an `Option` is not part of the
//! served schema.

pub mod core;
pub mod fleet;
mod free_form;
pub mod karmada;
mod lean;
pub mod meta;
mod permanent_id;
pub mod review;
#[cfg(test)]
mod tests;
mod tree;
mod type_meta;

pub use free_form::FreeForm;
pub use lean::Pairs;
pub use type_meta::{ApiVersion, Kind};

use crate::resource::{Kinds, ResourceKind};

/// All kinds: the one of the core group, and those of both families, in the order of discovery.
/// Where a name could mean either, clients take the first.
pub fn kinds() -> Kinds {
    Kinds::new(rows().collect())
}

/// What a server on its own serves: all kinds, and the reviews that behind a host cluster are the
/// host's.
pub fn standalone_kinds() -> Kinds {
    Kinds::new(rows().chain(review::rows()).collect())
}

fn rows() -> impl Iterator<Item = ResourceKind> {
    let core = [ResourceKind::of::<core::Event>()];
    core.into_iter().chain(karmada::rows()).chain(fleet::rows())
}

/// For parts that are left out when there is nothing in them.
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
