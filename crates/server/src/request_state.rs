//! Results that the layers record about a request, for the audit log and the response.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use super::audit;
use ballast_auth::Permission;
use ballast_k8s::User;
use ballast_registry::Warnings;

/// Each layer sets its part. Outer layers read it once the response is ready, even if a layer in
/// between has failed or panicked.
#[derive(Debug, Default)]
pub struct RequestState {
    pub user: OnceLock<Arc<User>>,
    /// The user that is impersonated, if any.
    pub acting_as: OnceLock<Arc<User>>,
    pub permission: OnceLock<Permission>,
    /// The audit scope of the request.
    pub audited: OnceLock<audit::Scope>,
    pub body: OnceLock<Bytes>,
    /// Set if its handler panicked.
    pub panicked: OnceLock<()>,
    /// Warnings and annotations of webhooks.
    pub warnings: Warnings,
}
