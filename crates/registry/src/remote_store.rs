//! Kinds that are stored upstream: another API server keeps them, and the log here follows it.
//!
//! Reading them works as ever. Ballast's own writes go upstream and come back from there; clients
//! are told where to write. Admission, generations and managed fields are the upstream's business.

use std::sync::Arc;

use async_trait::async_trait;

use super::metadata::Tree;
use ballast_k8s::{Details, GroupResource, Object, Status};

/// A write that is to be made upstream.
#[derive(Debug)]
pub struct RemoteWrite {
    /// The newest version here, on which the write was decided.
    pub base: Arc<Object>,
    /// The object as it is to be. Its managed fields do not count.
    pub object: Tree,
}

/// The API server that keeps the objects of some kinds.
#[async_trait]
pub trait RemoteStore: Send + Sync + 'static {
    /// Whether it keeps the objects of this kind.
    fn keeps(&self, resource: GroupResource) -> bool;

    /// Where it is, for messages: a URL.
    fn url(&self) -> &str;

    /// Makes these writes there, each by itself. The answers are in their order. What was written
    /// is in the newest view here when the answer comes.
    ///
    /// # Errors 409 where `base` is not the newest version any more, and whatever the upstream
    /// says.
    async fn write(&self, manager: &str, writes: Vec<RemoteWrite>) -> Vec<Result<Arc<Object>, Status>>;
}

/// The answer to who wants to write here what is stored upstream.
pub(super) fn written_elsewhere(remote: &dyn RemoteStore, resource: GroupResource, verb: &str) -> Status {
    let place = remote.url();
    let message = format!(
        "{verb} is not supported on resources of kind \"{resource}\" here, because they are kept at {place}: write \
         there, and read here or there"
    );
    Status::failure(405, "MethodNotAllowed", message).with(Details::of(resource, ""))
}
