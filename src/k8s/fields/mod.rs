//! Sets of fields, and who manages which: what `metadata.managedFields` says (AP3, AP4).
//!
//! A field is a path of elements: names, keys of list items, values of sets. A `FieldSet` is a set
//! of such paths and nothing more: it obeys the laws of sets, and knows neither schema nor values.
//! `ManagedFields` is the list of an object's managers, each with its set.
//!
//! Deliberately absent: what owning a field means (`registry::apply`), and which fields a value has
//! (`resource::typed`).

mod element;
mod managed;
mod set;

#[cfg(test)]
mod tests;

pub use element::Element;
pub use managed::{Entry, ManagedFields, Manager, Operation};
pub use set::{FieldSet, Malformed, Path};
