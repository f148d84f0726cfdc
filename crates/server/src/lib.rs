//! The HTTP server: it maps requests to calls of the registry, and objects to responses. It has no
//! knowledge of individual kinds and stores nothing.
//!
//! ```text
//!  TCP ─► listen ─► tls ─► hyper (HTTP/1.1, HTTP/2)        bounds: connections, handshake, idle
//!                             │ request
//!                             ▼
//!                          pipeline                        18 layers: authentication, audit,
//!                             │                            authorization, concurrency limits, …
//!              follower ──────┼─────► forward ─► the leader
//!                             ▼
//!                          dispatch ─► health, documents, measure, page, proxy
//!                             │ a verb of a kind
//!                             ▼
//!                  verbs ─► write ─► registry
//!                    │
//!                    ▼ object, list or watch
//!    codec, representation, watch_stream ─► frames ─► send_buffers ─► client
//! ```
//!
//! *Guarantees.* Every resource is bounded by a named limit: connections, headers, bodies, requests
//! in flight, and the memory of unread responses. A client that exceeds a limit gets a complete
//! response and does not affect other clients. A client that reads its response is never cut off. A
//! body is read only after the request is authorized, except where the audit policy records it.
//! Every error is a `Status`; for an internal error, the client sees only an audit id.
//!
//! *Rationale.* One handler serves every path, because paths and methods are derived from the rows
//! of the kinds (`request_info`, `dispatch`) and not from a router. Lists and watches are
//! serialized while they are sent, from stored bytes, so a large list is never in memory as one
//! text. If several replicas share a log, each of them serves reads and forwards writes to the
//! leader.
//!
//! `run` serves connections. `router` serves requests, also without a connection.
//!
//! # Modules
//!
//! Each module uses only modules above it in this list.
//!
//! Connections and messages:
//! - `hop_by_hop`: headers that belong to one connection
//! - `shutdown`: stops a server gracefully
//! - `peer`: the other end of a connection
//! - `tls`: the certificates of the server, which are reloaded while it runs
//! - `codec`: content negotiation
//! - `content_type`: the media type of a body
//! - `frames`: bodies that are produced while they are sent
//! - `respond`: responses from statuses, documents and objects
//! - `request_info`: the verb, resource and options of a request, from its method, path and query
//! - `body`: reads a request body up to its limit
//! - `connections`: limits the number of connections
//! - `in_flight`: limits concurrent requests and the bytes of their bodies
//! - `entrance`: reads the body of a request and acquires its permit
//! - `body_drain`: reads the rest of a body that was rejected
//!
//! Endpoints without a kind:
//! - `other_site`: detects requests that a browser sends for a page of another site
//! - `cors`: the origins whose pages may read responses
//! - `pretty`: indents JSON for people
//! - `ui`: the files of the web UI
//! - `surroundings`: the settings of the server that the web UI displays
//! - `page`: serves the web UI below `/ui/`
//! - `health`: probes
//! - `zpages`: `/statusz` and `/flagz`
//! - `documents`: discovery and OpenAPI
//! - `measure`: `/metrics`, and the labels of a request
//! - `audit`: the audit log
//! - `forward`: forwards writes to the leader
//! - `proxy`: the subresource `/proxy`
//!
//! Listening:
//! - `coalescing_stream`: coalesces the writes of an HTTP/2 connection
//! - `lingering_close`: closes a connection so that the peer can read the last response
//! - `send_buffers`: limits the memory of unread responses
//! - `rejected_head`: replaces the responses that hyper sends by itself with a Status
//! - `listen`: accepts and serves connections
//!
//! Kinds:
//! - `representation`: an object or a list as itself, as a Table, or as metadata
//! - `watch_stream`: a watch as a body
//! - `web_socket`: a watch as messages of a WebSocket
//! - `write`: decodes and admits the body of a write
//! - `app`: the state that handlers need
//! - `verbs`: the verbs of a kind
//! - `dispatch`: selects the handler of a request
//!
//! Layers:
//! - `request_state`: results that the layers record about a request
//! - `deadline`: the deadline of a request
//! - `request_context`: the data of a request that the layers share
//! - `access`: authentication, impersonation, authorization
//! - `pipeline`: the list of all layers

mod access;
mod app;
pub mod audit;
mod body;
mod body_drain;
mod coalescing_stream;
pub mod codec;
pub mod content_type;
mod connections;
mod cors;
mod deadline;
mod dispatch;
mod documents;
mod entrance;
mod forward;
mod frames;
mod health;
pub mod hop_by_hop;
mod in_flight;
mod lingering_close;
mod listen;
mod measure;
pub mod other_site;
#[cfg(feature = "page")]
pub mod page;
mod peer;
mod pipeline;
mod pretty;
mod proxy;
mod rejected_head;
mod representation;
mod request_context;
pub mod request_info;
mod request_state;
mod respond;
mod send_buffers;
mod shutdown;
mod surroundings;
mod tls;
#[cfg(feature = "page")]
pub mod ui;
mod verbs;
mod watch_stream;
mod web_socket;
mod write;
mod zpages;

use std::sync::Arc;

pub use app::App;
pub use body::BODY_BYTES_MAX;
pub use connections::ConnectionLimits;
pub use cors::{Cors, CorsError};
pub use documents::Documents;
pub use forward::{KnownLeader, Replicas};
pub use health::{Check, Counts};
pub use in_flight::InFlight;
pub use listen::{HEADER_LIST_BYTES_MAX, ResetsMax, ServeOptions, run};
pub use peer::Peer;
pub use proxy::{Proxy, ProxyBackend};
pub use shutdown::Shutdown;
pub use surroundings::{Surroundings, Through};
pub use tls::{PEER_NAME, Tls, TlsError, signature_algorithms};
pub use zpages::ZPages;

/// Returns a router with one handler for every path; `request_info` parses the path.
pub fn router(app: App) -> axum::Router {
    axum::Router::new().fallback(pipeline::serve).with_state(Arc::new(app))
}
