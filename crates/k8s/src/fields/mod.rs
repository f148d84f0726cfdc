//! Sets of fields and their managers, as in `metadata.managedFields` (AP3, AP4).
//!
//! A field is a path of elements: names, keys of list items, values of sets. A `FieldSet` is a set
//! of such paths, without schema and values. `ManagedFields` is the list of an object's managers,
//! each with its set.
//!
//! Elsewhere: the semantics of ownership (`registry::ownership`), and the fields of a value
//! (`resource::typed`).

mod element;
mod managed;
mod set;
mod text;

#[cfg(test)]
mod tests;

pub use element::Element;
pub use managed::{Entry, ManagedFields, Manager, Operation};
pub use set::{FieldSet, Malformed, Path};
pub use text::FieldsText;
