//! Serves HTTPS: connections and TLS, the layers that every request passes, content negotiation,
//! and the mapping from URLs to verbs of the registry. It names no kind and stores nothing.
//!
//! `run` serves connections. `router` answers requests, also without a connection.

pub mod audit;
pub mod codec;
mod coalescing_stream;
mod connections;
mod cors;
mod dispatch;
mod documents;
mod representation;
mod forward;
mod frames;
mod health;
pub mod hop_by_hop;
mod layers;
mod lingering_close;
mod listen;
mod measure;
pub mod page;
mod pretty;
mod proxy;
pub mod request_info;
mod respond;
mod tls;
/// The page, as files that are built in.
pub mod ui;
mod body_drain;
mod send_buffers;
mod verbs;
mod watch_stream;
mod write;

use std::sync::Arc;

pub use connections::ConnectionLimits;
pub use cors::{Cors, CorsError};
pub use documents::Documents;
pub use forward::{KnownLeader, PEER_NAME, Replicas};
pub use health::{Check, Counts};
pub use layers::{BODY_BYTES_MAX, InFlight};
pub use listen::{HEADER_LIST_BYTES_MAX, Peer, ServeOptions, Shutdown, run};
pub use proxy::{Proxy, ProxyBackend};
pub use tls::{Tls, TlsError, signature_algorithms};

use ballast_auth::{Authenticator, Authorizer};
use ballast_base::clock::Clock;
use ballast_registry::Registry;

/// Everything that is needed to answer requests.
pub struct App {
    pub registry: Arc<Registry>,
    pub documents: Documents,
    pub authenticator: Arc<Authenticator>,
    pub authorizer: Arc<Authorizer>,
    /// The audit log, if there is one.
    pub audit: Option<Arc<audit::Audit>>,
    pub clock: Arc<dyn Clock>,
    pub in_flight: InFlight,
    /// The other replicas, where several share a log.
    pub replicas: Option<Arc<Replicas>>,
    /// What answers the subresource `/proxy` of the kinds that have one.
    pub proxy: Option<Proxy>,
    pub checks: Vec<Check>,
    pub shutdown: Shutdown,
    /// Whether the page is served below `/ui/`.
    pub has_page: bool,
    pub cors: Cors,
}

/// One handler for every path: `request_info` reads the path, so no router has to.
pub fn router(app: App) -> axum::Router {
    axum::Router::new().fallback(layers::serve).with_state(Arc::new(app))
}
