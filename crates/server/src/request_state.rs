//! What the layers learn about a request, for the audit log and the answer.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use super::audit;
use ballast_auth::Permission;
use ballast_k8s::User;
use ballast_registry::Warnings;

/// Each layer sets its part. Layers further out read it once the answer is made, also if a layer in
/// between has failed or panicked.
#[derive(Debug, Default)]
pub struct RequestState {
    pub user: OnceLock<Arc<User>>,
    /// The user that is impersonated, if any.
    pub acting_as: OnceLock<Arc<User>>,
    pub permission: OnceLock<Permission>,
    /// What the audit log records of it.
    pub audited: OnceLock<audit::Scope>,
    pub body: OnceLock<Bytes>,
    /// Set if its handler panicked.
    pub panicked: OnceLock<()>,
    /// Warnings and annotations of webhooks.
    pub warnings: Warnings,
}
