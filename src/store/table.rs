//! A kind as people see it in SQL: a view with one row per live object, its important fields as
//! columns. The names come from the caller; the store knows no kind.

use crate::k8s::{Extract, GroupResource};

/// `select name, triggered_at, clusters from resource_bindings`. Every table has `namespace`,
/// `name`, `revision`, `created`, `updated` and `object`; `columns` come on top.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// A plain SQL name: lower-case letters, digits and underscores.
    pub name: String,
    pub resource: GroupResource,
    /// The columns with where in the object their values are, in no database's dialect.
    pub columns: Vec<(&'static str, Extract)>,
}
