//! The HTTP server. It turns requests into calls of the registry, and objects into answers. It
//! names no kind and stores nothing.
//!
//! ```text
//!  TCP ─► listen ─► tls ─► hyper (HTTP/1.1, HTTP/2)        bounds: connections, handshake, idle
//!                             │ request
//!                             ▼
//!                          pipeline                        18 layers: authentication, audit,
//!                             │                            authorization, places, …
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
//! *Promises.* Every bound has a name: connections, headers, bodies, requests in flight, and the
//! memory of answers that are not read. A client that exceeds one gets an answer that it can read,
//! and costs other clients nothing. A client that reads is never cut off. A body is read only after
//! the request is authorized, except where the audit policy records it. Every error is a `Status`,
//! and of a fault the client sees only an audit id.
//!
//! *Why it is so.* One handler answers every path, because paths and methods follow from the rows
//! of the kinds (`request_info`, `dispatch`), not from a router. Lists and watches are written
//! while they are sent, from stored bytes, so a large list is never in memory as one text. Where
//! several replicas share a log, each of them answers reads, and forwards writes to the leader.
//!
//! `run` serves connections. `router` answers requests, also without a connection.
//!
//! # Modules
//!
//! Each module uses only modules above it in this list.
//!
//! Connections and messages:
//! - `hop_by_hop`: headers that belong to one connection
//! - `shutdown`: how a server stops
//! - `peer`: the other end of a connection
//! - `tls`: the certificates of the server, which can change while it runs
//! - `codec`: content negotiation
//! - `content_type`: the media type of a body
//! - `frames`: bodies that are made while they are sent
//! - `respond`: answers from statuses, documents and objects
//! - `request_info`: what a request asks for, from its method, path and query
//! - `body`: reads a request body within its bound
//! - `connections`: bounds the number of connections
//! - `in_flight`: bounds the requests that run at the same time, and the bytes of bodies
//! - `entrance`: reads the body of a request, and takes its place
//! - `body_drain`: reads the rest of a body that was refused
//!
//! Answers without a kind:
//! - `other_site`: which requests a browser sends for a page of another site
//! - `cors`: which pages of other sites may read answers
//! - `pretty`: indents JSON for people
//! - `ui`: the files of the page
//! - `surroundings`: what the page is told of the place that serves it
//! - `page`: serves the page below `/ui/`
//! - `health`: probes
//! - `zpages`: `/statusz` and `/flagz`
//! - `documents`: discovery and OpenAPI
//! - `measure`: `/metrics`, and the labels of a request
//! - `audit`: the audit log
//! - `forward`: forwards writes to the leader
//! - `proxy`: the subresource `/proxy`
//!
//! Listening:
//! - `coalescing_stream`: collects the writes of an HTTP/2 connection
//! - `lingering_close`: closes a connection so that the peer can read the last answer
//! - `send_buffers`: bounds the memory of answers that are not read
//! - `rejected_head`: gives a Status to the answers that hyper makes by itself
//! - `listen`: accepts and serves connections
//!
//! Kinds:
//! - `representation`: an object or a list as itself, as a Table, or as metadata
//! - `watch_stream`: a watch as a body
//! - `web_socket`: a watch as messages of a WebSocket
//! - `write`: decodes and admits the body of a write
//! - `app`: everything that is needed to answer requests
//! - `verbs`: the verbs of a kind
//! - `dispatch`: finds what answers a request
//!
//! Layers:
//! - `request_state`: what the layers learn about a request
//! - `deadline`: the deadline of a request
//! - `request_context`: a request on its way through the layers
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

/// Answers every path with one handler: `request_info` reads the path, so no router has to.
pub fn router(app: App) -> axum::Router {
    axum::Router::new().fallback(pipeline::serve).with_state(Arc::new(app))
}
