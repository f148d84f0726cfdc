//! Kinds whose home is elsewhere: another API server keeps them, and the log here follows it.
//!
//! Reading them works as ever. Ballast's own writes go home and come back from there; clients are
//! told where to write. Admission, generations and managed fields are the home's business.

use std::sync::Arc;

use async_trait::async_trait;

use super::metadata::Tree;
use ballast_k8s::{Details, GroupResource, Object, Status};

/// A write that is to be made at home.
#[derive(Debug)]
pub struct Wanted {
    /// The newest version here, on which the write was decided.
    pub base: Arc<Object>,
    /// The object as it is to be. Its managed fields do not count.
    pub object: Tree,
}

/// The API server that keeps the objects of some kinds.
#[async_trait]
pub trait Home: Send + Sync + 'static {
    /// Whether it keeps the objects of this kind.
    fn keeps(&self, resource: GroupResource) -> bool;

    /// Where it is, for messages: a URL.
    fn place(&self) -> &str;

    /// Makes these writes there, each by itself. The answers are in their order. What was written
    /// is in the newest view here when the answer comes.
    ///
    /// # Errors 409 where `base` is not the newest version any more, and whatever the home says.
    async fn write(&self, manager: &str, wanted: Vec<Wanted>) -> Vec<Result<Arc<Object>, Status>>;
}

/// The answer to who wants to write here what is kept elsewhere.
pub(super) fn not_here(home: &dyn Home, resource: GroupResource, verb: &str) -> Status {
    let place = home.place();
    let message = format!(
        "{verb} is not supported on resources of kind \"{resource}\" here, because they are kept at {place}: write \
         there, and read here or there"
    );
    Status::failure(405, "MethodNotAllowed", message).with(Details::of(resource, ""))
}
