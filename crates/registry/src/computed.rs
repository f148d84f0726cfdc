//! Cells of a table that no field of the object has.

use serde_json::Value;

use ballast_k8s::Object;

/// Computes the cells of one kind for columns with a path such as `%missing`.
pub trait Computed: Send + Sync + 'static {
    /// Refreshes the state at the start of a table: the cells that follow show the newest state.
    fn refresh(&self);

    /// Returns the cell of an object. `column` is the path of the column without the `%`.
    fn cell(&self, object: &Object, column: &str) -> Value;
}
