//! Books: what has to change in the same transaction as what is written, such as what is used of a
//! quota.
//!
//! The writer knows no kinds, so whoever knows them keeps the books. A book follows the writes of
//! one transaction in their order. It may refuse a write, and in the end it adds writes of its own.
//! So what it keeps is exact at every revision, whoever wrote, and two writers cannot both take
//! what is there only once.

use std::sync::Arc;

use ballast_k8s::{Document, GroupResource, Members, Object, Status};

use super::View;

/// Opens the book of each transaction. It runs in the writer, so it must be quick where it has
/// nothing to do.
pub trait Bookkeeper: Send + Sync + 'static {
    fn open(&self) -> Box<dyn Book>;

    /// The members of the status of this kind that books alone write. What others write there does
    /// not count.
    fn keeps(&self, resource: GroupResource) -> &'static [Members];
}

/// The book of one transaction.
pub trait Book: Send + Sync {
    /// The next write: `before` becomes `after`, where `None` is an absent object. `view` is the
    /// state before it. A refusal leaves the book as it was.
    fn enter(&mut self, view: &View, before: Option<&Arc<Object>>, after: Option<&Arc<Object>>) -> Result<(), Status>;

    /// The book as it is now, in case that the next writes are taken back.
    fn copy(&self) -> Box<dyn Book>;

    /// The objects that change with the writes, and their new form. `view` has all writes.
    fn close(&mut self, view: &View) -> Vec<(Arc<Object>, Document)>;
}
