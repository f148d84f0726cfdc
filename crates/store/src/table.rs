//! An SQL view of a kind: one row per live object, with the important fields as columns. The caller
//! defines the views, because the store knows no kinds.

use ballast_k8s::{GroupResource, JsonColumn};

/// A view, as in `select name, triggered_at, clusters from resource_bindings`. Every view has
/// `namespace`, `name`, `revision`, `created`, `updated` and `object`, followed by `columns`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// A plain SQL name: lower-case letters, digits and underscores.
    pub name: String,
    pub resource: GroupResource,
    /// The columns, with the path of each value in the object, independent of the SQL dialect.
    pub columns: Vec<(&'static str, JsonColumn)>,
}
