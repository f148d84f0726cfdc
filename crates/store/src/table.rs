//! Describes how people read a kind with SQL: a view with one row per live object, whose columns
//! are the important fields. The caller gives the names, because the store knows no kind.

use ballast_k8s::{GroupResource, JsonColumn};

/// `select name, triggered_at, clusters from resource_bindings`. Every table has `namespace`,
/// `name`, `revision`, `created`, `updated` and `object`; `columns` come on top.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// A plain SQL name: lower-case letters, digits and underscores.
    pub name: String,
    pub resource: GroupResource,
    /// The columns, with the place of each value in the object. They have no dialect of SQL.
    pub columns: Vec<(&'static str, JsonColumn)>,
}
