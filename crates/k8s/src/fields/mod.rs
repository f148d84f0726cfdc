//! Sets of fields and their managers, as `metadata.managedFields` holds them (AP3, AP4).
//!
//! A field is a path of elements: names, keys of list items, values of sets. A `FieldSet` is a set
//! of such paths; it knows neither a schema nor values. `ManagedFields` is the list of an object's
//! managers, each with its set.
//!
//! Left out: what it means to own a field (`registry::ownership`), and which fields a value has
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
