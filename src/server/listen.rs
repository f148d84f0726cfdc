//! Connections: accepted up to a bound, shaken hands with inside a deadline, served over HTTP/1.1 or
//! HTTP/2 as ALPN says, and drained at the end (SH1).

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

use super::Tls;
use crate::auth::Certificate;
use crate::metrics;

/// Further clients wait in the kernel's queue.
const CONNECTIONS_MAX: usize = 4096;
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);
/// For the head of a request over HTTP/1.1, counted from the end of the request before (LI5).
const HEADER_READ_MAX: Duration = Duration::from_secs(32);
/// Watches of one client share one connection: a fleet's agents have hundreds (WA28).
const STREAMS_MAX: u32 = 1000;
/// Upstream's (LI5): a front proxy sends one header for each group of a user, and some have thousands.
const HEADER_LIST_BYTES_MAX: u32 = 1024 * 1024;
const HEADERS_MAX: usize = 8192;
/// What a client may send ahead on one request, and on all requests of a connection together.
const STREAM_WINDOW_BYTES: u32 = 1024 * 1024;
const CONNECTION_WINDOW_BYTES: u32 = 4 * 1024 * 1024;
/// What is queued for a client that reads slowly, per request.
const SEND_BUFFER_BYTES: usize = 256 * 1024;
/// A peer that answers no PING in this time is gone.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(20);
/// How long requests in flight may take to end once the server shuts down.
const DRAIN_MAX: Duration = Duration::from_secs(60);
/// Pause after the system refused a connection, which it does again at once when descriptors run out.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What is known of the other end of a connection; found in the extensions of each of its requests.
#[derive(Debug)]
pub struct Peer {
    pub address: SocketAddr,
    /// Its key is the peer's; what it proves is looked at with each request.
    pub certificate: Option<Certificate>,
    /// Cancelled when the connection should end after the requests that are running.
    pub(super) leave: CancellationToken,
}

/// The two steps of shutting down: from `begin` on the server is not ready any more; after the delay it
/// takes no further connection, ends its watches, and lets other requests finish.
#[derive(Clone, Debug, Default)]
pub struct Shutdown {
    begun: CancellationToken,
    closing: CancellationToken,
}

impl Shutdown {
    pub fn begin(&self) {
        self.begun.cancel();
    }

    pub fn has_begun(&self) -> bool {
        self.begun.is_cancelled()
    }

    /// Resolves when watches should end.
    pub async fn closing(&self) {
        self.closing.cancelled().await;
    }
}

/// Serves until `shutdown` begins, and returns when the last request has ended or `DRAIN_MAX` is over.
/// `delay` is the time for which requests are still taken after that, so that load balancers notice.
pub async fn run(listener: TcpListener, tls: Tls, router: Router, shutdown: Shutdown, delay: Duration) {
    let connections = TaskTracker::new();
    let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let last_accept = async {
        shutdown.begun.cancelled().await;
        tokio::time::sleep(delay).await;
    };
    tokio::pin!(last_accept);
    loop {
        let place = tokio::select! {
            place = places.clone().acquire_owned() => place.expect("the semaphore is never closed"),
            () = &mut last_accept => break,
        };
        let (stream, address) = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "failed to accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            },
            () = &mut last_accept => break,
        };
        let (tls, router, closing) = (tls.clone(), router.clone(), shutdown.closing.clone());
        connections.spawn(async move {
            serve_connection(stream, address, tls, router, closing).await;
            drop(place);
        });
    }
    drop(listener);
    shutdown.closing.cancel();
    connections.close();
    if tokio::time::timeout(DRAIN_MAX, connections.wait()).await.is_err() {
        tracing::warn!(connections = connections.len(), "requests were still running after {DRAIN_MAX:?}: cut off");
    }
}

async fn serve_connection(
    stream: TcpStream,
    address: SocketAddr,
    tls: Tls,
    router: Router,
    closing: CancellationToken,
) {
    // Small writes (a watch event, a created object) must not wait for the acknowledgement of the one before.
    let _ = stream.set_nodelay(true);
    let handshake = tokio::time::timeout(HANDSHAKE_MAX, TlsAcceptor::from(tls.current()).accept(stream));
    let stream = tokio::select! {
        shaken = handshake => match shaken {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => {
                metrics::tls_handshake_failed();
                return tracing::debug!(%address, %error, "the TLS handshake failed");
            }
            Err(_) => {
                metrics::tls_handshake_failed();
                return tracing::debug!(%address, "the TLS handshake took too long");
            }
        },
        () = closing.cancelled() => return,
    };
    let (_, session) = stream.get_ref();
    let chain = session.peer_certificates().map(|chain| chain.iter().map(|it| it.clone().into_owned()).collect());
    let leave = CancellationToken::new();
    let _held = metrics::connection();
    let builder = connection_builder(session.alpn_protocol() == Some(b"h2"));
    let peer = Arc::new(Peer { address, certificate: chain.map(Certificate::new), leave: leave.clone() });
    let service = hyper::service::service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(peer.clone());
        let response = router.clone().oneshot(request.map(Body::new));
        async move { response.await as Result<Response<Body>, Infallible> }
    });
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = async { tokio::select! { () = closing.cancelled() => {}, () = leave.cancelled() => {} } } => {
            connection.as_mut().graceful_shutdown();
            match tokio::time::timeout(DRAIN_MAX, connection).await {
                Ok(ended) => ended,
                Err(_) => return,
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%address, %error, "the connection broke off");
    }
}

fn connection_builder(is_http2: bool) -> auto::Builder<TokioExecutor> {
    let builder = auto::Builder::new(TokioExecutor::new());
    if is_http2 {
        let mut builder = builder.http2_only();
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(STREAMS_MAX)
            .max_header_list_size(HEADER_LIST_BYTES_MAX)
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .max_send_buf_size(SEND_BUFFER_BYTES)
            .keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(PING_TIMEOUT);
        builder
    } else {
        let mut builder = builder.http1_only();
        builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADER_READ_MAX);
        builder.http1().max_headers(HEADERS_MAX).max_buf_size(HEADER_LIST_BYTES_MAX as usize);
        builder
    }
}
