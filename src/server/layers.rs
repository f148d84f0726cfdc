//! What every request passes, outermost first: request id, span, panic guard, request info, deadline,
//! authentication, authorization, in-flight limit, dispatch; the body is read, within its bound, by whoever
//! needs it.
//!
//! The in-flight limit comes after authentication because who asks decides what happens at the limit: a
//! master waits for its turn inside its deadline, others are sent away at once (LI4). Watches have neither
//! limit nor deadline (WA24).

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use bytes::{Bytes, BytesMut};
use futures_util::FutureExt;
use http::request::Parts;
use http::{HeaderValue, Method, header};
use http_body_util::BodyExt as _;
use tokio::sync::{Semaphore, SemaphorePermit};
use tracing::Instrument;

use super::request_info::{RequestInfo, Target};
use super::respond::{self, Response};
use super::{App, Peer, codec, dispatch, unread};
use crate::auth::{Decision, OPEN_PATHS};
use crate::k8s::{Query, Status, User};

const AUDIT_ID: &str = "audit-id";
const AUDIT_ID_BYTES_MAX: usize = 64;
/// The longest that a request may take, and what it gets when it asks for nothing else (LI1).
const DEADLINE: Duration = Duration::from_secs(60);
const TIMED_OUT: &str = "request did not complete within the allotted timeout";
/// LI3: 3 MiB, as kube-apiserver.
pub const BODY_BYTES_MAX: usize = 3 * 1024 * 1024;
/// What is read and thrown away behind a body that is too large, so that a client that sends it to the
/// end before it listens finds its 413 and not a broken connection.
const DISCARD_BYTES_MAX: usize = 16 * 1024 * 1024;

/// How many requests may be worked on at a time (LI4).
#[derive(Debug)]
pub struct InFlight {
    read_only: Semaphore,
    mutating: Semaphore,
}

impl InFlight {
    pub fn new(read_only: usize, mutating: usize) -> InFlight {
        InFlight { read_only: Semaphore::new(read_only), mutating: Semaphore::new(mutating) }
    }

    async fn enter(&self, info: &RequestInfo<'_>, user: &User) -> Result<SemaphorePermit<'_>, Status> {
        let places = if info.is_read_only() { &self.read_only } else { &self.mutating };
        match places.try_acquire() {
            Ok(place) => Ok(place),
            Err(_) if user.is_master() => Ok(places.acquire().await.expect("the semaphore is never closed")),
            Err(_) => Err(Status::too_many_requests(1)),
        }
    }
}

/// Answers any request; the one handler of the router.
pub async fn serve(State(app): State<Arc<App>>, request: http::Request<Body>) -> Response {
    let (parts, body) = request.into_parts();
    let (body, rest) = unread::lend(&parts, body);
    let audit_id = audit_id(&app, &parts);
    let span = tracing::debug_span!("request", method = %parts.method, uri = %parts.uri, ?audit_id);
    let guarded = AssertUnwindSafe(within_deadline(&app, &parts, body)).catch_unwind();
    let outcome = guarded.instrument(span.clone()).await.unwrap_or_else(|panic| Err(panicked(&*panic)));
    unread::discard_rest(rest).await;
    let _entered = span.enter();
    let mut response = outcome.unwrap_or_else(|status| {
        if status.code >= 500 {
            let (method, uri, message) = (&parts.method, &parts.uri, &status.message);
            tracing::error!(%method, %uri, ?audit_id, code = status.code, message, "a request failed");
        }
        respond::status(&status, codec::negotiate_error(&parts.headers))
    });
    tracing::debug!(code = response.status().as_u16(), "answered");
    if parts.method == Method::HEAD {
        strip_body(&mut response);
    }
    let headers = response.headers_mut();
    headers.insert(AUDIT_ID, audit_id);
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-cache, private"));
    response
}

/// HEAD is answered like GET, without the body but with its length where that is known.
fn strip_body(response: &mut Response) {
    let size = http_body::Body::size_hint(response.body()).exact();
    *response.body_mut() = Body::empty();
    if let Some(size) = size {
        response.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(size));
    }
}

/// The caller's, if it brings one, so that one id follows a request through all servers (AU1).
fn audit_id(app: &App, parts: &Parts) -> HeaderValue {
    let brought = parts.headers.get(AUDIT_ID).filter(|id| !id.is_empty());
    let shortened = brought.and_then(|id| {
        let bytes = id.as_bytes();
        HeaderValue::from_bytes(&bytes[..bytes.len().min(AUDIT_ID_BYTES_MAX)]).ok()
    });
    shortened
        .or_else(|| HeaderValue::from_str(&app.clock.uuid()).ok())
        .unwrap_or_else(|| HeaderValue::from_static("unknown"))
}

fn panicked(panic: &(dyn Any + Send)) -> Status {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let message = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
    tracing::error!(message, "a request panicked");
    let shown = "This request caused apiserver to panic. Look in the logs for details.";
    Status::failure(500, "InternalError", shown)
}

async fn within_deadline(app: &App, parts: &Parts, body: Body) -> Result<Response, Status> {
    let info = RequestInfo::read(&parts.method, &parts.uri)?;
    if info.is_watch() {
        return admitted(app, parts, &info, body).await;
    }
    let deadline = deadline(&info.query)?;
    match tokio::time::timeout(deadline, admitted(app, parts, &info, body)).await {
        Ok(outcome) => outcome,
        Err(_) => Err(Status::timeout(TIMED_OUT, 0)),
    }
}

async fn admitted(app: &App, parts: &Parts, info: &RequestInfo<'_>, body: Body) -> Result<Response, Status> {
    let Some(user) = authenticate(parts, info)? else {
        return dispatch::path(app, parts, info);
    };
    refuse_impersonation(parts)?;
    let method = parts.method.as_str().to_ascii_lowercase();
    let attributes = info.attributes(&method);
    if app.authorizer.decide(&user, &attributes) == Decision::Deny && !is_open(info) {
        return Err(attributes.forbidden(&user));
    }
    let _place = match info.is_watch() || is_open(info) {
        true => None,
        false => Some(app.in_flight.enter(info, &user).await?),
    };
    dispatch::dispatch(app, &user, parts, info, body).await
}

/// None: nobody, at a path that is open to everybody.
fn authenticate(parts: &Parts, info: &RequestInfo<'_>) -> Result<Option<Arc<User>>, Status> {
    let shown = match parts.extensions.get::<Arc<Peer>>() {
        Some(peer) => peer.user.clone().map_err(|_| Status::unauthorized())?,
        None => None,
    };
    match shown {
        Some(user) => Ok(Some(user)),
        // A credential that is not understood is a wrong one, not none (AN10).
        None if parts.headers.contains_key(header::AUTHORIZATION) => Err(Status::unauthorized()),
        None if is_open(info) => Ok(None),
        None => Err(Status::unauthorized()),
    }
}

fn is_open(info: &RequestInfo<'_>) -> bool {
    matches!(info.target, Target::Path(_)) && OPEN_PATHS.contains(&info.path)
}

/// Acting as somebody else is not supported: to ignore the wish would act as the wrong user (IM1).
fn refuse_impersonation(parts: &Parts) -> Result<(), Status> {
    match parts.headers.keys().any(|name| name.as_str().starts_with("impersonate-")) {
        true => Err(Status::failure(403, "Forbidden", "forbidden: this server does not support impersonation")),
        false => Ok(()),
    }
}

/// What `?timeout=` asks for; zero and more than the default are the default (LI1).
fn deadline(query: &Query<'_>) -> Result<Duration, Status> {
    let Some(text) = query.text("timeout") else { return Ok(DEADLINE) };
    let asked = go_duration(text).ok_or_else(|| {
        Status::bad_request(format!("invalid timeout specified in the request URL - time: invalid duration {text:?}"))
    })?;
    Ok(if asked.is_zero() || asked > DEADLINE { DEADLINE } else { asked })
}

/// A duration as Go writes it: `1m30s`, `1.5h`, `500ms`, `0`. Negative ones are none.
fn go_duration(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let is_digit = |c: char| c.is_ascii_digit() || c == '.';
    let mut rest = text;
    let mut seconds = 0.0;
    while !rest.is_empty() {
        let (number, after) = rest.split_at(rest.find(|c| !is_digit(c))?);
        let (unit, remaining) = after.split_at(after.find(is_digit).unwrap_or(after.len()));
        let unit_seconds = match unit {
            "ns" => 1e-9,
            "us" | "µs" | "μs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return None,
        };
        seconds += number.parse::<f64>().ok()? * unit_seconds;
        rest = remaining;
    }
    Duration::try_from_secs_f64(seconds).ok()
}

/// Reads a body to its end, within the bound.
pub async fn read_body(mut body: Body) -> Result<Bytes, Status> {
    let announced = http_body::Body::size_hint(&body).lower();
    if announced > BODY_BYTES_MAX as u64 {
        discard(&mut body, DISCARD_BYTES_MAX).await;
        return Err(Status::too_large(BODY_BYTES_MAX));
    }
    let mut whole = BytesMut::new();
    let mut first: Option<Bytes> = None;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Status::bad_request(format!("failed to read the body: {error}")))?;
        let Ok(data) = frame.into_data() else { continue };
        if whole.len() + first.as_ref().map_or(0, Bytes::len) + data.len() > BODY_BYTES_MAX {
            discard(&mut body, DISCARD_BYTES_MAX).await;
            return Err(Status::too_large(BODY_BYTES_MAX));
        }
        // Most bodies are one frame, which need not be copied.
        match (first.take(), whole.is_empty()) {
            (None, true) => first = Some(data),
            (Some(earlier), _) => {
                whole.extend_from_slice(&earlier);
                whole.extend_from_slice(&data);
            }
            (None, false) => whole.extend_from_slice(&data),
        }
    }
    Ok(first.unwrap_or_else(|| whole.freeze()))
}

pub(super) async fn discard(body: &mut Body, mut bytes_max: usize) {
    while let Some(Ok(frame)) = body.frame().await {
        let size = frame.data_ref().map_or(0, Bytes::len);
        let Some(left) = bytes_max.checked_sub(size) else { return };
        bytes_max = left;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn li1_deadlines_are_go_durations_up_to_the_default() {
        for (query, expected) in [
            ("", Some(60_000)),
            ("timeout=5s", Some(5_000)),
            ("timeout=1m30s", Some(60_000)),
            ("timeout=0s", Some(60_000)),
            ("timeout=0", Some(60_000)),
            ("timeout=500ms", Some(500)),
            ("timeout=0.5s", Some(500)),
            ("timeout=5", None),
            ("timeout=s", None),
            ("timeout=-1s", None),
            ("timeout=x", None),
        ] {
            let deadline = deadline(&Query::parse(query)).ok().map(|it| it.as_millis());
            assert_eq!(deadline, expected, "{query}");
        }
    }

    #[tokio::test]
    async fn li4_at_the_limit_masters_wait_and_others_are_sent_away() {
        let uri = "/apis/g/v1/things".parse().unwrap();
        let info = RequestInfo::read(&Method::POST, &uri).unwrap();
        let in_flight = InFlight::new(0, 1);
        let (master, other) = (User::component("test"), User::default());
        let place = in_flight.enter(&info, &other).await.unwrap();
        let status = in_flight.enter(&info, &other).await.unwrap_err();
        assert_eq!((status.code, status.retry_after_seconds()), (429, Some(1)));
        let mut waiting = std::pin::pin!(in_flight.enter(&info, &master));
        assert!(waiting.as_mut().now_or_never().is_none());
        drop(place);
        assert!(waiting.now_or_never().unwrap().is_ok());
    }

    #[tokio::test]
    async fn li3_a_body_may_have_3_mib_and_not_one_byte_more() {
        let fits = Body::from(vec![0; BODY_BYTES_MAX]);
        assert_eq!(read_body(fits).await.unwrap().len(), BODY_BYTES_MAX);
        let announced = read_body(Body::from(vec![0; BODY_BYTES_MAX + 1])).await.unwrap_err();
        assert_eq!((announced.code, &*announced.message), (413, "Request entity too large: limit is 3145728"));
        let pieces = futures_util::stream::iter((0..4).map(|_| Ok::<_, std::io::Error>(vec![0; 1 << 20])));
        assert_eq!(read_body(Body::from_stream(pieces)).await.unwrap_err().code, 413);
    }
}
