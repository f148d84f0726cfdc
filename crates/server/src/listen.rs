//! Accepts connections up to a limit (`connections`), and serves HTTP/1.1 or HTTP/2 on them, as
//! negotiated by ALPN. TLS handshakes have a timeout, and a shutdown drains all connections (SH1).

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
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot::error::TryRecvError;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::{AbortOnDropHandle, TaskTracker};
use tower::ServiceExt;

use super::body_drain;
use super::coalescing_stream::CoalescingStream;
use super::connections::{ConnectionLimits, ConnectionState, Connections, Evicted, Reason};
use super::lingering_close::{self, ReturnedStream};
use super::peer::Peer;
use super::rejected_head::RejectedHeadStream;
use super::send_buffers::{self, SendBuffers};
use super::shutdown::Shutdown;
use super::tls::Tls;
use ballast_auth::Certificate;
use ballast_base::clock::Clock;
use ballast_base::metrics;
use ballast_base::telemetry;

/// Streams per connection. The watches of a client share one connection, and agents have hundreds
/// (WA28).
const STREAMS_MAX: u32 = 1000;
/// The limit of the header list, the same as upstream's (LI5). Over HTTP/1.1, slightly more is read
/// before `pipeline` counts. Differs from Kubernetes (D72): the URI alone may have 65,534 bytes,
/// because the `http` crate supports no longer ones. A front proxy sends one header for each group
/// of a user, and some users have thousands.
pub const HEADER_LIST_BYTES_MAX: u32 = 1024 * 1024;
/// The limit of the header list that h2 reads. h2 rejects longer lists itself, with 431 and without
/// a body. Lists up to this length are rejected by `pipeline` with a Status.
const READ_HEADER_LIST_BYTES_MAX: u32 = 2 * HEADER_LIST_BYTES_MAX;
const HEADERS_MAX: usize = 8192;
/// The limit of streams that a front proxy resets before the server accepts them. A kube-apiserver
/// forwards the requests of all users over one connection, so neither the resets of one user nor a
/// pause of half a second may end it.
pub(crate) const PROXY_RESETS_MAX: usize = 20 * STREAMS_MAX as usize;
/// The same limit for a client with a valid certificate: all streams that it may have sent at once.
/// Unauthenticated peers get the library's limit of 20.
pub(crate) const USER_RESETS_MAX: usize = STREAMS_MAX as usize;
const PLAIN_HTTP_ANSWER: &[u8] = b"HTTP/1.0 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n\
    Connection: close\r\n\r\nClient sent an HTTP request to an HTTPS server.\n";
/// Bytes that a client may send ahead, per request and per connection.
const STREAM_WINDOW_BYTES: u32 = 1024 * 1024;
const CONNECTION_WINDOW_BYTES: u32 = 4 * 1024 * 1024;
/// Bytes that h2 may queue per request. `send_buffers` keeps the queue below this.
const SEND_BUFFER_BYTES: usize = send_buffers::STREAM_BYTES_MAX;
/// The interval of HTTP/2 keep-alive pings. A peer that does not respond in time is disconnected.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(20);
/// The time that requests in flight may take to end after the shutdown has started. Including the
/// cleanup after them, the process exits within 20 seconds.
const DRAIN_MAX: Duration = Duration::from_secs(10);
/// The time that a connection without requests stays open after GOAWAY.
const GOODBYE_MAX: Duration = Duration::from_secs(1);
/// The pause after a failed accept, which would fail again at once without file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The settings of `run`.
pub struct ServeOptions {
    pub limits: ConnectionLimits,
    pub shutdown: Shutdown,
    /// The time for which requests are still accepted after `Shutdown::begin`, so that load
    /// balancers notice.
    pub delay: Duration,
    pub resets_max: ResetsMax,
    pub clock: Arc<dyn Clock>,
}

/// Returns how many requests the peer with this certificate may cancel before they are accepted.
/// `None` for an unauthenticated peer.
pub type ResetsMax = Arc<dyn Fn(&Certificate) -> Option<usize> + Send + Sync>;

/// Serves until the shutdown starts. Returns when the last request has ended, or after `DRAIN_MAX`.
pub async fn run(listener: TcpListener, tls: Tls, router: Router, options: ServeOptions) {
    let ServeOptions { limits, shutdown, delay, resets_max, clock } = options;
    let tasks = TaskTracker::new();
    let connections = Connections::new(limits.connections_max);
    let closing = shutdown.closing.clone();
    let send_buffers = SendBuffers::new(limits.unsent_bytes_max);
    let bounded = Arc::clone(&send_buffers);
    let bounding = AbortOnDropHandle::new(tokio::spawn(async move { bounded.keep_bounded().await }));
    let server = Arc::new(ConnectionServer {
        tls,
        router,
        limits,
        closing,
        connections: Arc::clone(&connections),
        send_buffers,
        resets_max,
        clock,
    });
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
                // Without a slot, the connection is closed at once.
                let Some(slot) = connections.admit() else { continue };
                let server = Arc::clone(&server);
                tasks.spawn(async move {
                    server.serve(stream, address, &slot.state).await;
                    drop(slot);
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
struct ConnectionServer {
    tls: Tls,
    router: Router,
    limits: ConnectionLimits,
    closing: CancellationToken,
    connections: Arc<Connections>,
    send_buffers: Arc<SendBuffers>,
    resets_max: ResetsMax,
    clock: Arc<dyn Clock>,
}

impl ConnectionServer {
    async fn serve(&self, stream: TcpStream, address: SocketAddr, state: &Arc<ConnectionState>) {
        // A small write, such as a watch event, must not wait for the acknowledgement of the
        // previous one.
        let _ = stream.set_nodelay(true);
        let served = async {
            if let Some(stream) = self.tls_handshake(stream, address).await {
                let peer = Arc::new(Peer::of(address, stream.get_ref().1));
                let _gone = peer.gone.clone().drop_guard();
                let (stream, mut returned) = lingering_close::return_on_drop(stream);
                let unsent = self.answer(stream, &peer, state).await;
                let returned = match returned.try_recv() {
                    Err(TryRecvError::Empty) => {
                        // The connection has switched its protocol (`proxy`, `web_socket`).
                        let Some(_busy) = state.begin_switched() else { return };
                        returned.await.ok()
                    }
                    returned => returned.ok(),
                };
                if let Some(stream) = returned {
                    // Boxed, because few connections need its buffer, and all futures would contain
                    // it.
                    Box::pin(lingering_close::close(stream, &unsent)).await;
                }
            }
        };
        tokio::select! {
            () = served => {}
            () = state.evicted() => tracing::debug!(%address, "a connection was closed: others want in"),
            () = state.is_cut_off() => self.connections.closed(Reason::Unread, "its answers were not read"),
        }
    }

    async fn tls_handshake(&self, stream: TcpStream, address: SocketAddr) -> Option<TlsStream<TcpStream>> {
        let handshake = async {
            if is_plain_http(&stream).await {
                return Err(Box::pin(answer_plain_http(stream)).await);
            }
            TlsAcceptor::from(self.tls.current()).accept(stream).await
        };
        let outcome = tokio::select! {
            outcome = tokio::time::timeout(self.limits.handshake_max, handshake) => outcome,
            () = self.closing.cancelled() => return None,
        };
        match outcome {
            Ok(Ok(stream)) => return Some(stream),
            Ok(Err(error)) => tracing::debug!(%address, %error, "the TLS handshake failed"),
            Err(_) => self.connections.closed(Reason::Timeout, "the TLS handshake took too long"),
        }
        metrics::tls_handshake_failed();
        None
    }

    /// Serves the connection until its end. Returns the bytes that are still to be sent: the
    /// response to a request head that could not be parsed.
    async fn answer(
        &self,
        stream: ReturnedStream<TlsStream<TcpStream>>,
        peer: &Arc<Peer>,
        state: &Arc<ConnectionState>,
    ) -> Vec<u8> {
        let _held = metrics::connection();
        let (address, is_http2) = (peer.address, peer.is_http2);
        let resets_max = peer.certificate.as_ref().and_then(|certificate| (self.resets_max)(certificate));
        let builder = connection_builder(is_http2, resets_max, &self.limits);
        let moves_on = CancellationToken::new();
        let service = hyper::service::service_fn(|mut request: Request<Incoming>| {
            let goaway = u64::from(self.limits.goaway_per_million);
            if is_http2 && goaway > 0 && self.clock.random() % 1_000_000 < goaway {
                moves_on.cancel();
            }
            request.extensions_mut().insert(Arc::clone(peer));
            let busy = state.begin();
            if let Some(busy) = &busy {
                request.extensions_mut().insert(busy.progress());
            }
            let response = self.router.clone().oneshot(request.map(Body::new));
            let (state, send_buffers) = (Arc::clone(state), Arc::clone(&self.send_buffers));
            async move {
                let busy = busy.ok_or(Evicted)?;
                let mut response = response.await.unwrap_or_else(|never| match never {});
                if let Some(rest) = body_drain::take(&mut response) {
                    body_drain::drain(rest).await;
                }
                Ok::<_, Evicted>(send_buffers.count(response, busy, state))
            }
        });
        let sender = Arc::clone(state);
        let stream = CoalescingStream::new(stream, is_http2, move || sender.received());
        let (stream, rejection) = RejectedHeadStream::new(stream);
        let mut connection = std::pin::pin!(builder.serve_connection_with_upgrades(TokioIo::new(stream), service));
        let why = loop {
            let is_asked = moves_on.is_cancelled();
            tokio::select! {
                ended = connection.as_mut() => return rejection.answer(self.ended(address, state, ended)),
                () = self.closing.cancelled() => break None,
                () = peer.leave.cancelled() => break None,
                () = state.idle_for(self.limits.idle_max) => break Some(Reason::Idle),
                // Its requests and watches continue to their end.
                () = moves_on.cancelled(), if !is_asked => connection.as_mut().graceful_shutdown(),
            }
        };
        if let Some(reason) = why {
            metrics::connection_closed(reason.as_str());
        }
        connection.as_mut().graceful_shutdown();
        // Does not wait longer for a peer without requests, or one that does not read.
        let idle = async {
            tokio::time::sleep(GOODBYE_MAX).await;
            state.idle_for(GOODBYE_MAX).await;
        };
        let is_refused = tokio::select! {
            ended = connection => self.ended(address, state, ended),
            () = idle => false,
            () = tokio::time::sleep(DRAIN_MAX) => false,
        };
        rejection.answer(is_refused)
    }

    /// Counts the end of a connection. Returns whether hyper rejected a request head.
    fn ended(
        &self,
        address: SocketAddr,
        state: &ConnectionState,
        ended: Result<(), Box<dyn Error + Send + Sync>>,
    ) -> bool {
        let Err(error) = ended else { return false };
        let why = telemetry::with_causes(&*error);
        tracing::debug!(%address, why, "the connection broke off");
        let Some(error) = error.downcast_ref::<hyper::Error>() else { return false };
        if error.is_timeout() && !state.is_in_use() {
            // hyper applies the same timeout to the next HTTP/1.1 head as to the rest of one.
            metrics::connection_closed(Reason::Idle.as_str());
        } else if error.is_timeout() {
            self.connections.closed(Reason::Timeout, &why);
        } else if !is_broken(error) {
            self.connections.closed(Reason::Protocol, &why);
        }
        error.is_parse()
    }
}

/// Returns whether the peer closed the connection, which is not an error of the protocol.
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

/// Returns whether the client starts with an HTTP method instead of a TLS record.
async fn is_plain_http(stream: &TcpStream) -> bool {
    let mut first = [0];
    matches!(stream.peek(&mut first).await, Ok(1)) && first[0].is_ascii_uppercase()
}

/// Sends a plain HTTP error, as kube-apiserver does. Returns the error for the log.
async fn answer_plain_http(mut stream: TcpStream) -> std::io::Error {
    let mut head = [0; 4096];
    // Unread bytes would reset the connection, and the client would lose the response.
    let _ = stream.read(&mut head).await;
    let _ = stream.write_all(PLAIN_HTTP_ANSWER).await;
    let _ = stream.shutdown().await;
    std::io::Error::new(std::io::ErrorKind::InvalidData, "the client sent an HTTP request without TLS")
}

fn connection_builder(
    is_http2: bool,
    resets_max: Option<usize>,
    limits: &ConnectionLimits,
) -> auto::Builder<TokioExecutor> {
    let builder = auto::Builder::new(TokioExecutor::new());
    if is_http2 {
        let mut builder = builder.http2_only();
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(STREAMS_MAX)
            .max_header_list_size(READ_HEADER_LIST_BYTES_MAX)
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .max_send_buf_size(SEND_BUFFER_BYTES)
            .keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(PING_TIMEOUT);
        if resets_max.is_some() {
            builder.http2().max_pending_accept_reset_streams(resets_max);
        }
        builder
    } else {
        let mut builder = builder.http1_only();
        builder.http1().timer(TokioTimer::new()).header_read_timeout(limits.header_read_max);
        builder.http1().max_headers(HEADERS_MAX).max_buf_size(HEADER_LIST_BYTES_MAX as usize);
        builder
    }
}
