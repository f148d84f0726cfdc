//! All kinds that are served. Each has one entry in the `rows` function of its family.
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
//! - `tree`: access to untyped JSON objects
//! - `optional`: fields that are left out when they are empty
//! - `lean`: compact collections
//! - `free_form`: a JSON object of any shape
//! - `meta`: types of `meta/v1`
//! - `type_meta`: `apiVersion` and `kind`, and the macro that declares the type of a kind
//! - `core`: types of `core/v1`, and the kind Event
//! - `conditions`: updates of conditions
//! - `label_rules`: rejection of label selectors that can never match
//! - `permanent_id`: Karmada's label with the permanent id of an object
//! - `requester`: the object that requested a scheduling pass
//!
//! Kinds:
//! - `review`: permissions and identity of the current user
//! - `ballast`: safe rebalancing
//! - `fleet`: the KubeFleet family
//! - `karmada`: the Karmada family
//! - `multicluster`: the cluster inventory, and decisions that refer to it

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

/// Returns all kinds in the order of discovery: Event, both families and Ballast's own group.
/// Clients take the first of several kinds with the same name.
pub fn kinds() -> Kinds {
    Kinds::new(rows().collect())
}

/// Returns the kinds of a standalone server: all kinds and the reviews. Behind a host cluster, the
/// host serves the reviews.
pub fn standalone_kinds() -> Kinds {
    Kinds::new(rows().chain(review::rows()).collect())
}

/// Returns every kind that some server can serve, for documents and commands.
pub fn all_kinds() -> Kinds {
    Kinds::new(rows().chain(review::rows()).chain(multicluster::rows()).collect())
}

/// Adds the kinds of the cluster inventory to `kinds`.
#[must_use]
pub fn with_inventory(kinds: &Kinds) -> Kinds {
    let served = kinds.rows().iter().map(|row| (**row).clone());
    Kinds::new(served.chain(multicluster::rows()).collect())
}

fn rows() -> impl Iterator<Item = ResourceKind> {
    let core = [ResourceKind::of::<core::Event>()];
    core.into_iter().chain(karmada::rows()).chain(fleet::rows()).chain(ballast::rows())
}
