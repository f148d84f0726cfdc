//! Attached kinds: another API server (the upstream) stores them, and the log here follows it.
//!
//! They are read here like all kinds. Workers write them upstream, and see the result when it has
//! arrived here. The write of a client is rejected with the address of the upstream. Admission,
//! generations and managed fields are left to the upstream.

use std::sync::Arc;

use async_trait::async_trait;

use super::metadata::Tree;
use ballast_k8s::{Details, GroupResource, Object, Status};

/// A write that is to be made upstream.
#[derive(Debug)]
pub struct RemoteWrite {
    /// The newest version here, on which the write was decided.
    pub base: Arc<Object>,
    /// The object to write. Its managed fields are ignored.
    pub object: Tree,
}

/// The API server that stores the objects of some kinds.
#[async_trait]
pub trait RemoteStore: Send + Sync + 'static {
    /// Returns whether it stores the objects of this kind.
    fn keeps(&self, resource: GroupResource) -> bool;

    /// Returns its URL, for messages.
    fn url(&self) -> &str;

    /// Sends each write upstream. The results are in the order of the writes. A successful write is
    /// in the newest local view before its result is returned.
    ///
    /// # Errors
    ///
    /// 409 if `base` is not the newest version any more, and every error of the upstream.
    async fn write(&self, manager: &str, writes: Vec<RemoteWrite>) -> Vec<Result<Arc<Object>, Status>>;
}

/// Returns the error for a write here of a kind that is stored upstream.
pub(super) fn written_elsewhere(remote: &dyn RemoteStore, resource: GroupResource, verb: &str) -> Status {
    let place = remote.url();
    let message = format!(
        "{verb} is not supported on resources of kind \"{resource}\" here, because they are kept at {place}: write \
         there, and read here or there"
    );
    Status::failure(405, "MethodNotAllowed", message).with(Details::of(resource, ""))
}
