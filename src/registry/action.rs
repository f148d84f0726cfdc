//! Kinds that act when they are created and are never stored (C1, VB24).

use async_trait::async_trait;
use serde_json::{Map, Value};

use crate::k8s::{Status, User};

/// The work that is done when an object of such a kind is created. The object was admitted like any
/// other.
#[async_trait]
pub trait Action: Send + Sync + 'static {
    /// Does the work. On success the object, with the fields that the action sets, is the answer to
    /// the caller, together with the returned warnings. A dry run must change nothing.
    async fn create(
        &self,
        caller: &User,
        object: &mut Map<String, Value>,
        dry_run: bool,
    ) -> Result<Vec<String>, Status>;
}
