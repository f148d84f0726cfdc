//! The subresource `/proxy` of a kind: forwards a request to the server that an object represents
//! (a member cluster), and streams the response back (CP1, CP5).
//!
//! This module finds the object, limits the number of open requests, and copies bytes between the
//! two connections once both sides have switched to another protocol (`kubectl exec`). A
//! `ProxyBackend` knows the address of the other server and builds the request to it.
//!
//! *Invariants.* A proxied request holds a permit until its last byte. Nothing of it outlives the
//! connection of its client. A truncated response never looks complete.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use axum::body::Body;
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderValue, Request, StatusCode, header};
use http_body::{Frame, SizeHint};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::Instant;

use super::measure;
use super::peer::Peer;
use super::request_info::RequestInfo;
use super::respond::Response;
use super::shutdown::Shutdown;
use ballast_base::metrics;
use ballast_base::outgoing::{self, Outgoing};
use ballast_base::places::Place;
use ballast_k8s::{GetOptions, Object, Revision, Status, User};
use ballast_registry::{Caller, Locator, Registry};

/// The time that two joined connections may be idle, the same as a kubelet's.
const IDLE_MAX: Duration = Duration::from_secs(4 * 60 * 60);
/// The timeout for both sides of a connection to switch to their protocol.
const SWITCH_MAX: Duration = Duration::from_secs(10);
/// The time for which responses may continue during a shutdown.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);
/// The buffer size of each direction of two joined connections.
const CHUNK_BYTES: usize = 16 * 1024;

/// The servers that objects represent.
#[async_trait]
pub trait ProxyBackend: Send + Sync {
    /// Sends the request to the server of `object`, and returns its response. `path` is the
    /// undecoded path on that server: empty, or starting with a slash. The request has the headers
    /// of its client. The response to a successful upgrade is a 101 that has hyper's `OnUpgrade`
    /// among its extensions.
    ///
    /// Fails with a `Status` if the object has no address of its server, or if the server did not
    /// respond.
    async fn answer(
        &self,
        object: &Object,
        path: &str,
        user: &User,
        request: Request<Body>,
    ) -> Result<http::Response<Body>, Status>;
}

/// The backend of `/proxy`.
pub struct Proxy {
    backend: Arc<dyn ProxyBackend>,
}

impl Proxy {
    pub fn new(backend: Arc<dyn ProxyBackend>) -> Proxy {
        Proxy { backend }
    }
}

/// Serves a request for the subresource of the object that `target` names.
pub async fn answer(
    proxy: &Proxy,
    (registry, shutdown): (&Registry, &Shutdown),
    caller: Caller<'_>,
    parts: &Parts,
    info: &RequestInfo<'_>,
    target: &Locator,
    body: Body,
) -> Result<Response, Status> {
    registry.admit_connect(caller, target, info.beyond_subresource()).await?;
    let object = find(registry, target).await?;
    let slot = outgoing::connect(Outgoing::Member, &caller.user.name).await?;
    let held = metrics::long_running(&measure::request(registry.kinds(), info, &parts.headers));
    let mut request = Request::from_parts(parts.clone(), body);
    let near = request.extensions_mut().remove::<OnUpgrade>();
    let mut answer = proxy.backend.answer(&object, info.beyond_subresource(), caller.user, request).await?;
    sanitize(&mut answer);
    if answer.status() == StatusCode::SWITCHING_PROTOCOLS {
        let (Some(near), Some(far)) = (near, answer.extensions_mut().remove::<OnUpgrade>()) else {
            return Err(Status::internal("a connection switched its protocol without having been asked to"));
        };
        let gone = parts.extensions.get::<Arc<Peer>>().map(|peer| peer.gone.clone()).unwrap_or_default();
        let closing = shutdown.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = join(near, far) => {}
                () = gone.cancelled() => {}
                () = closing.closing() => {}
            }
            drop((slot, held));
        });
        return Ok(answer);
    }
    let closing = shutdown.clone();
    let end = Box::pin(async move {
        closing.closing().await;
        tokio::time::sleep(SHUTDOWN_GRACE).await;
    });
    Ok(answer.map(|body| Body::new(ProxiedBody { body, end, _kept: (slot, held) })))
}

/// Returns the object from the view of this process. Only a missing object needs a consistent read,
/// so member clusters can be reached while the database cannot.
async fn find(registry: &Registry, target: &Locator) -> Result<Arc<Object>, Status> {
    match registry.get(target, &GetOptions { revision: Some(Revision::ZERO) }).await {
        Err(status) if status.code == 404 => registry.get(target, &GetOptions { revision: None }).await,
        found => found,
    }
}

/// The headers of a member's response that describe the response itself, with those of Kubernetes.
/// Any other may affect the whole origin of this server (`Clear-Site-Data`, `Set-Cookie`,
/// `WWW-Authenticate`), and new ones of that kind appear.
const PASSED_ON: [&str; 29] = [
    "accept-ranges",
    "age",
    "allow",
    "audit-id",
    "cache-control",
    "content-disposition",
    "content-encoding",
    "content-language",
    "content-length",
    "content-range",
    "content-type",
    "date",
    "etag",
    "expires",
    "last-modified",
    "location",
    "pragma",
    "retry-after",
    "vary",
    "warning",
    "x-accepted-stream-protocol-versions",
    "x-kubernetes-pf-flowschema-uid",
    "x-kubernetes-pf-prioritylevel-uid",
    "x-stream-protocol-version",
    // Headers of a response that switches the protocol.
    "connection",
    "sec-websocket-accept",
    "sec-websocket-extensions",
    "sec-websocket-protocol",
    "upgrade",
];

/// Removes headers that affect the whole origin, and keeps a browser from running the response as a
/// page of this server. Differs from Karmada (D58), which does neither.
fn sanitize(answer: &mut Response) {
    let headers = answer.headers_mut();
    let foreign: Vec<_> = headers.keys().filter(|name| !PASSED_ON.contains(&name.as_str())).cloned().collect();
    for name in foreign {
        headers.remove(name);
    }
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'; sandbox"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
}

/// The body of a proxied response. It releases its permit on drop.
struct ProxiedBody {
    body: Body,
    /// Resolves when the server shuts down.
    end: Pin<Box<dyn Future<Output = ()> + Send>>,
    _kept: (Place, metrics::GaugeGuard),
}

/// The server shuts down before the end of the response.
#[derive(Debug, thiserror::Error)]
#[error("the server closes")]
struct Closing;

impl http_body::Body for ProxiedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.end.as_mut().poll(context).is_ready() {
            return Poll::Ready(Some(Err(axum::Error::new(Closing))));
        }
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Copies bytes between two connections that have switched their protocol, until both have ended or
/// no bytes have arrived for `IDLE_MAX`.
async fn join(near: OnUpgrade, far: OnUpgrade) {
    let switched = tokio::time::timeout(SWITCH_MAX, async { tokio::try_join!(near, far) }).await;
    let Ok(Ok((near, far))) = switched else {
        tracing::debug!("a connection was lost while it switched its protocol");
        return;
    };
    let (near_in, near_out) = tokio::io::split(TokioIo::new(near));
    let (far_in, far_out) = tokio::io::split(TokioIo::new(far));
    let copied = AtomicU64::new(0);
    let both = async { tokio::join!(copy(near_in, far_out, &copied), copy(far_in, near_out, &copied)) };
    tokio::select! {
        _ends = both => {}
        () = idle(&copied) => tracing::debug!("a connection without a byte in {IDLE_MAX:?} was ended"),
    }
}

/// Copies one direction to its end, then shuts down the other side.
async fn copy(mut from: impl AsyncRead + Unpin, mut to: impl AsyncWrite + Unpin, copied: &AtomicU64) {
    let mut chunk = vec![0; CHUNK_BYTES];
    while let Ok(read @ 1..) = from.read(&mut chunk).await {
        if to.write_all(&chunk[..read]).await.is_err() || to.flush().await.is_err() {
            break;
        }
        copied.fetch_add(1, Ordering::Relaxed);
    }
    let _it_may_have_gone = to.shutdown().await;
}

/// Returns when nothing was copied for `IDLE_MAX`, or slightly later.
async fn idle(copied: &AtomicU64) {
    let (mut seen, mut since) = (copied.load(Ordering::Relaxed), Instant::now());
    while since.elapsed() < IDLE_MAX {
        tokio::time::sleep_until(since + IDLE_MAX).await;
        let now = copied.load(Ordering::Relaxed);
        if now != seen {
            (seen, since) = (now, Instant::now());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn cp5_joined_connections_end_when_nothing_comes_for_long() {
        let copied = AtomicU64::new(0);
        let before = Instant::now();
        let noise = async {
            tokio::time::sleep(IDLE_MAX / 2).await;
            copied.fetch_add(1, Ordering::Relaxed);
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = idle(&copied) => {}
            () = noise => {}
        }
        assert_eq!(before.elapsed(), 2 * IDLE_MAX, "a byte in between counts");
    }

    #[tokio::test]
    async fn cp5_each_direction_ends_by_itself() {
        let (mut client, near) = tokio::io::duplex(64);
        let (far, mut server) = tokio::io::duplex(64);
        let ((near_in, near_out), (far_in, far_out)) = (tokio::io::split(near), tokio::io::split(far));
        let copied = AtomicU64::new(0);
        let both = async { tokio::join!(copy(near_in, far_out, &copied), copy(far_in, near_out, &copied)) };
        let talk = async {
            client.write_all(b"all of it").await.unwrap();
            client.shutdown().await.unwrap();
            let mut heard = Vec::new();
            server.read_to_end(&mut heard).await.unwrap();
            assert_eq!(heard, b"all of it");
            server.write_all(b"the answer").await.unwrap();
            drop(server);
            let mut heard = Vec::new();
            client.read_to_end(&mut heard).await.unwrap();
            assert_eq!(heard, b"the answer");
        };
        tokio::join!(both, talk);
    }
}
