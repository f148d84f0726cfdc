//! A kind as people see it in SQL: a view with one row per live object, its important fields as
//! columns. The names come from the caller; the store knows no kind.

use crate::k8s::GroupResource;

/// `select name, triggered_at, clusters from resource_bindings`. Every table has `namespace`,
/// `name`, `revision`, `created`, `updated` and `object`; `columns` come on top.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// A plain SQL name: lower-case letters, digits and underscores.
    pub name: String,
    pub resource: GroupResource,
    pub columns: Vec<(&'static str, Column)>,
}

/// Where in the object a column's value is. Paths are SQLite's (`$.spec.rescheduleTriggeredAt`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// The value at a path; null where there is none.
    Field(&'static str),
    /// A list of objects as text: `member1:2,member2:3`, or the names alone where `count` is
    /// absent.
    Named { list: &'static str, name: &'static str, count: &'static str },
    /// The `status` of the condition of this type in `$.status.conditions`.
    Condition(&'static str),
}
