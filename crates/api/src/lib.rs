//! All kinds that are served. Each has one line in its family's `rows`.
//!
//! A kind is a Rust type that implements `Resource`. Its schema is derived from the type, so a
//! field is on the wire exactly if it is in the type. Fields of type `Option`, and lists and maps
//! that are skipped when empty, are optional. All other fields are required. An absent list and an
//! empty list mean the same. `null` is never a value: utoipa's `null` alternative of an `Option` is
//! not part of the served schema.
//!
//! # Modules
//!
//! Each module uses only modules above it in this list.
//!
//! Parts of kinds:
//! - `tree`: steps through the tree of an object
//! - `optional`: fields that are left out when they are empty
//! - `lean`: compact collections
//! - `free_form`: a JSON object of any shape
//! - `meta`: the types of `meta/v1`
//! - `type_meta`: `apiVersion` and `kind`, and the macro that declares the type of a kind
//! - `core`: the types of `core/v1`, and the kind Event
//! - `conditions`: sets conditions
//! - `label_rules`: label selectors that can never match
//! - `permanent_id`: Karmada's label with the id of an object
//! - `requester`: which object asked for a pass
//!
//! Kinds:
//! - `review`: what users ask about themselves
//! - `ballast`: safe rebalancing
//! - `fleet`: the Fleet family
//! - `karmada`: the Karmada family
//! - `multicluster`: the inventory, and the decisions about it

pub mod ballast;
pub mod conditions;
pub mod core;
pub mod fleet;
mod free_form;
pub mod karmada;
mod label_rules;
mod lean;
pub mod meta;
pub mod multicluster;
mod optional;
mod permanent_id;
pub mod requester;
pub mod review;
#[cfg(test)]
mod tests;
pub mod tree;
mod type_meta;

pub use free_form::FreeForm;
pub use lean::Pairs;
pub use type_meta::{ApiVersion, Kind};

use ballast_resource::{Kinds, ResourceKind};

/// All kinds: the one of the core group, those of both families, and those of Ballast's own group,
/// in the order of discovery. Clients take the first of several kinds with the same name.
pub fn kinds() -> Kinds {
    Kinds::new(rows().collect())
}

/// The kinds of a standalone server: all kinds, and the reviews. Behind a host cluster, the host
/// serves the reviews.
pub fn standalone_kinds() -> Kinds {
    Kinds::new(rows().chain(review::rows()).collect())
}

/// All kinds that a server can have, for documents and commands.
pub fn all_kinds() -> Kinds {
    Kinds::new(rows().chain(review::rows()).chain(multicluster::rows()).collect())
}

/// These kinds and those of the inventory.
#[must_use]
pub fn with_inventory(kinds: &Kinds) -> Kinds {
    let served = kinds.rows().iter().map(|row| (**row).clone());
    Kinds::new(served.chain(multicluster::rows()).collect())
}

fn rows() -> impl Iterator<Item = ResourceKind> {
    let core = [ResourceKind::of::<core::Event>()];
    core.into_iter().chain(karmada::rows()).chain(fleet::rows()).chain(ballast::rows())
}
