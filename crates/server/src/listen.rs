//! Accepts connections up to a bound (`connections`), and serves HTTP/1.1 or HTTP/2 on them, as
//! ALPN says. TLS handshakes have a deadline, and a shutdown drains all connections (SH1).

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use http::Request;
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use rustls::ServerConnection;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot::error::TryRecvError;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};
use tower::ServiceExt;

use super::Tls;
use super::coalescing_stream::CoalescingStream;
use super::connections::{ConnectionLimits, Connections, Reason, Seat};
use super::lingering_close::{self, ReturnedStream};
use super::send_buffers::{self, SendBuffers};
use ballast_auth::Certificate;
use ballast_base::metrics;
use ballast_base::telemetry;

/// Streams of a connection. The watches of a client share one, and agents have hundreds (WA28).
const STREAMS_MAX: u32 = 1000;
/// The same bound as upstream's (LI5). Over HTTP/1.1, a little more is read before `layers` counts.
/// A front proxy sends one header for each group of a user, and some users have thousands.
pub const HEADER_LIST_BYTES_MAX: u32 = 1024 * 1024;
const HEADERS_MAX: usize = 8192;
/// Bytes that a client may send ahead, for one request and for all requests of a connection.
const STREAM_WINDOW_BYTES: u32 = 1024 * 1024;
const CONNECTION_WINDOW_BYTES: u32 = 4 * 1024 * 1024;
/// Bytes that h2 may queue per request. `send_buffers` keeps it below that.
const SEND_BUFFER_BYTES: usize = send_buffers::STREAM_BYTES_MAX;
/// HTTP/2 connections are checked this often. A peer that does not answer in time is gone.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(20);
/// How long requests in flight may take to end once the server shuts down.
const DRAIN_MAX: Duration = Duration::from_secs(60);
/// How long a connection without requests stays open after its peer was asked to leave.
const FAREWELL_MAX: Duration = Duration::from_secs(1);
/// The pause after a failed accept, which would fail again at once without file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The other end of a connection, found in the extensions of each request.
#[derive(Debug)]
pub struct Peer {
    pub address: SocketAddr,
    /// The peer holds its key. What the certificate proves is checked with each request.
    pub certificate: Option<Certificate>,
    is_http2: bool,
    /// When it is cancelled, the connection ends after its running requests.
    pub(super) leave: CancellationToken,
    /// Is cancelled when the connection has ended, also one that switched its protocol.
    pub(super) gone: CancellationToken,
}

impl Peer {
    fn of(address: SocketAddr, session: &ServerConnection) -> Peer {
        let chain = session.peer_certificates().map(|chain| chain.iter().map(|it| it.clone().into_owned()).collect());
        let is_http2 = session.alpn_protocol() == Some(b"h2");
        let (leave, gone) = (CancellationToken::new(), CancellationToken::new());
        Peer { address, certificate: chain.map(Certificate::new), is_http2, leave, gone }
    }
}

/// The shutdown has two steps. With `begin` the server stops being ready. After the delay it takes
/// no further connection, ends its watches, and lets other requests finish.
#[derive(Clone, Debug, Default)]
pub struct Shutdown {
    begun: CancellationToken,
    closing: CancellationToken,
}

impl Shutdown {
    pub fn begin(&self) {
        self.begun.cancel();
    }

    /// Returns when the shutdown has begun.
    pub async fn begun(&self) {
        self.begun.cancelled().await;
    }

    pub fn has_begun(&self) -> bool {
        self.begun.is_cancelled()
    }

    /// Returns when watches should end.
    pub async fn closing(&self) {
        self.closing.cancelled().await;
    }
}

/// The settings of `run`.
pub struct Terms {
    pub limits: ConnectionLimits,
    pub shutdown: Shutdown,
    /// How long requests are still taken after `Shutdown::begin`, so that load balancers notice.
    pub delay: Duration,
}

/// Serves until the shutdown begins. Returns when the last request has ended, or after `DRAIN_MAX`.
pub async fn run(listener: TcpListener, tls: Tls, router: Router, terms: Terms) {
    let Terms { limits, shutdown, delay } = terms;
    let tasks = TaskTracker::new();
    let connections = Connections::new(limits.connections_max);
    let closing = shutdown.closing.clone();
    let unsent = SendBuffers::new(limits.unsent_bytes_max);
    let bounding = Arc::clone(&unsent);
    let bounding = AbortOnDropHandle::new(tokio::spawn(async move { bounding.keep_bounded().await }));
    let front = Arc::new(Front { tls, router, limits, closing, connections: Arc::clone(&connections), unsent });
    let last_accept = async {
        shutdown.begun.cancelled().await;
        tokio::time::sleep(delay).await;
    };
    tokio::pin!(last_accept);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut last_accept => break,
        };
        match accepted {
            Ok((stream, address)) => {
                // Without a place, the connection is closed at once.
                let Some(place) = connections.admit() else { continue };
                let front = Arc::clone(&front);
                tasks.spawn(async move {
                    front.serve(stream, address, &place.seat).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "failed to accept a connection");
                connections.make_room();
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    shutdown.closing.cancel();
    tasks.close();
    if tokio::time::timeout(DRAIN_MAX, tasks.wait()).await.is_err() {
        tracing::warn!(connections = tasks.len(), "requests were still running after {DRAIN_MAX:?}: cut off");
    }
    drop(bounding);
}

/// The state that all connections of a listener share.
struct Front {
    tls: Tls,
    router: Router,
    limits: ConnectionLimits,
    closing: CancellationToken,
    connections: Arc<Connections>,
    unsent: Arc<SendBuffers>,
}

/// A request came on an evicted connection. It was not begun.
#[derive(Debug, thiserror::Error)]
#[error("the connection is closed")]
struct Evicted;

impl Front {
    async fn serve(&self, stream: TcpStream, address: SocketAddr, seat: &Arc<Seat>) {
        // A small write, such as a watch event, must not wait for the acknowledgement of the last.
        let _ = stream.set_nodelay(true);
        let served = async {
            if let Some(stream) = self.shake_hands(stream, address).await {
                let peer = Arc::new(Peer::of(address, stream.get_ref().1));
                let _gone = peer.gone.clone().drop_guard();
                let (stream, mut returned) = lingering_close::return_on_drop(stream);
                self.answer(stream, &peer, seat).await;
                let returned = match returned.try_recv() {
                    Err(TryRecvError::Empty) => {
                        // The connection has switched its protocol (`proxy`), and is at work until
                        // that ends.
                        let Some(_busy) = seat.begin() else { return };
                        returned.await.ok()
                    }
                    returned => returned.ok(),
                };
                if let Some(stream) = returned {
                    lingering_close::close(stream).await;
                }
            }
        };
        tokio::select! {
            () = served => {}
            () = seat.evicted() => tracing::debug!(%address, "an idle connection was closed: others want in"),
            () = seat.is_cut_off() => self.connections.closed(Reason::Unread, "its answers were not read"),
        }
    }

    async fn shake_hands(&self, stream: TcpStream, address: SocketAddr) -> Option<TlsStream<TcpStream>> {
        let handshake = TlsAcceptor::from(self.tls.current()).accept(stream);
        let shaken = tokio::select! {
            shaken = tokio::time::timeout(self.limits.handshake_max, handshake) => shaken,
            () = self.closing.cancelled() => return None,
        };
        match shaken {
            Ok(Ok(stream)) => return Some(stream),
            Ok(Err(error)) => tracing::debug!(%address, %error, "the TLS handshake failed"),
            Err(_) => self.connections.closed(Reason::Timeout, "the TLS handshake took too long"),
        }
        metrics::tls_handshake_failed();
        None
    }

    async fn answer(&self, stream: ReturnedStream<TlsStream<TcpStream>>, peer: &Arc<Peer>, seat: &Arc<Seat>) {
        let _held = metrics::connection();
        let (address, is_http2) = (peer.address, peer.is_http2);
        let builder = connection_builder(is_http2, &self.limits);
        let service = hyper::service::service_fn(|mut request: Request<Incoming>| {
            request.extensions_mut().insert(Arc::clone(peer));
            let response = self.router.clone().oneshot(request.map(Body::new));
            let (busy, seat, unsent) = (seat.begin(), Arc::clone(seat), Arc::clone(&self.unsent));
            async move {
                let busy = busy.ok_or(Evicted)?;
                let response = response.await.unwrap_or_else(|never| match never {});
                Ok::<_, Evicted>(send_buffers.count(response, busy, seat))
            }
        });
        let mut connection = std::pin::pin!(
            builder.serve_connection_with_upgrades(TokioIo::new(CoalescingStream::new(stream, is_http2)), service)
        );
        let why = tokio::select! {
            ended = connection.as_mut() => return self.ended(address, ended),
            () = self.closing.cancelled() => None,
            () = peer.leave.cancelled() => None,
            () = seat.idle_for(self.limits.idle_max) => Some(Reason::Idle),
        };
        if let Some(reason) = why {
            metrics::connection_closed(reason.as_str());
        }
        connection.as_mut().graceful_shutdown();
        // Peers that do not speak or do not listen are not waited for.
        let farewell = async {
            tokio::time::sleep(FAREWELL_MAX).await;
            seat.idle_for(FAREWELL_MAX).await;
        };
        tokio::select! {
            ended = connection => self.ended(address, ended),
            () = farewell => {}
            () = tokio::time::sleep(DRAIN_MAX) => {}
        }
    }

    fn ended(&self, address: SocketAddr, ended: Result<(), Box<dyn Error + Send + Sync>>) {
        let Err(error) = ended else { return };
        let why = telemetry::with_causes(&*error);
        tracing::debug!(%address, why, "the connection broke off");
        let Some(error) = error.downcast_ref::<hyper::Error>() else { return };
        if error.is_timeout() {
            self.connections.closed(Reason::Timeout, &why);
        } else if !is_broken(error) {
            self.connections.closed(Reason::Protocol, &why);
        }
    }
}

/// Whether the peer just went away, which is no fault.
fn is_broken(error: &hyper::Error) -> bool {
    let is_io = causes(error).any(|cause| cause.is::<std::io::Error>());
    is_io
        || error.is_incomplete_message()
        || error.is_closed()
        || error.is_canceled()
        || error.is_user()
        || error.is_shutdown()
}

fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error| {
        let error: &'a (dyn Error + 'static) = *error;
        error.source()
    })
}

fn connection_builder(is_http2: bool, limits: &ConnectionLimits) -> auto::Builder<TokioExecutor> {
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
        builder.http1().timer(TokioTimer::new()).header_read_timeout(limits.header_read_max);
        builder.http1().max_headers(HEADERS_MAX).max_buf_size(HEADER_LIST_BYTES_MAX as usize);
        builder
    }
}
