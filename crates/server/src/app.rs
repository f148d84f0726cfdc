//! The state that handlers need.

use std::sync::Arc;

use super::audit::Audit;
use super::cors::Cors;
use super::documents::Documents;
use super::forward::Replicas;
use super::health::Check;
use super::in_flight::InFlight;
use super::listen::{PROXY_RESETS_MAX, ResetsMax, USER_RESETS_MAX};
use super::proxy::Proxy;
use super::shutdown::Shutdown;
use ballast_auth::{Authenticator, Authorizer};
use ballast_base::clock::Clock;
use ballast_registry::Registry;

/// The parts of a server that its requests share.
pub struct App {
    pub registry: Arc<Registry>,
    pub documents: Documents,
    pub authenticator: Arc<Authenticator>,
    pub authorizer: Arc<Authorizer>,
    /// The audit log, if there is one.
    pub audit: Option<Arc<Audit>>,
    pub clock: Arc<dyn Clock>,
    pub in_flight: InFlight,
    /// The other replicas, where several share a log.
    pub replicas: Option<Arc<Replicas>>,
    /// Answers the subresource `/proxy` of the kinds that have one.
    pub proxy: Option<Proxy>,
    pub checks: Vec<Check>,
    pub shutdown: Shutdown,
    /// Whether the page is served below `/ui/`, if this binary has it.
    pub has_page: bool,
    /// The settings of this server that the page displays, as JSON.
    pub surroundings: String,
    pub cors: Cors,
}

impl App {
    /// Returns the limit of requests that a peer may cancel before they are accepted.
    pub fn resets_max(&self) -> ResetsMax {
        let authenticator = Arc::clone(&self.authenticator);
        Arc::new(move |certificate| match authenticator.is_front_proxy(certificate) {
            true => Some(PROXY_RESETS_MAX),
            false => authenticator.is_trusted(certificate).then_some(USER_RESETS_MAX),
        })
    }
}
