//! Kinds that act when they are created and are never stored.

use async_trait::async_trait;
use serde_json::{Map, Value};

use crate::k8s::{Status, User};

/// What creating an object of such a kind does. The object was admitted like any other.
#[async_trait]
pub trait Action: Send + Sync + 'static {
    /// The object is the answer to the caller, with what the action fills in, or the error is. A
    /// dry run must leave no trace.
    async fn create(&self, caller: &User, object: &mut Map<String, Value>, dry_run: bool) -> Result<(), Status>;
}
