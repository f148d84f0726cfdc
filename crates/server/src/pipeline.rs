//! The pipeline of layers that every request passes. This module lists them in order; each layer is
//! a module, or a function below.
//!
//! ```text
//!  1  cors             answers a preflight             ▲  allows origins to read the response
//!  2  body_drain       keeps the rest of the body      │  drains the unread rest
//!  3  audit id         of the client, or a new one     │  in a header of the response
//!  4  span, log line   opens the span                  │  logs the request
//!  5  HEAD, pretty                                     │  removes the body, or indents it
//!  6  metrics, audit                                   │  count and record the response
//!  7  errors                                           │  a Status becomes a response
//!  8  panic guard                                      │  a panic becomes a 500
//!  9  header bound, request info (parses the URL)      │
//! 10  deadline                                         │  504 when it passes
//! 11  other site       403 for a page of another site  │
//!     page             the files of `/ui/`             │
//! 12  forwarded write  another replica has done 13-16; │
//!                      it is audited here, too         │
//! 13  authentication   the user                        │
//! 14  audit            records the start               │
//! 15  impersonation    the user to act as              │
//! 16  authorization    403                             │
//! 17  entrance         body, permit; 408, 429          │  releases its permit
//! 18  forward          a follower sends writes on ─────┤
//!     dispatch         finds the handler ──────────────┘
//! ```
//!
//! Permits come after authentication, because users share them (LI4). A read acquires its permit
//! here. A write acquires it once its body is read, which happens in the first layer that needs the
//! body (`entrance`). A watch holds a permit until its first events are known, and has no deadline
//! (WA24). Proxied requests have separate limits (`proxy`).
//!
//! The layers are plain async functions and not tower services. They share the parsed request,
//! which borrows from its URI (`RequestContext`); a tower service would need an owned copy of it,
//! and a boxed future per layer. axum's fallback boxes one future per request.

use std::any::Any;
use std::borrow::Cow;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Instant;

use axum::body::Body;
use axum::extract::State;
use futures_util::FutureExt;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use tracing::Instrument;
use tracing::field::Empty;

use super::app::App;
use super::connections::{self, Stage};
use super::entrance::Entrance;
use super::forward::ForwardOutcome;
use super::in_flight::{Origin, Work};
use super::listen::HEADER_LIST_BYTES_MAX;
use super::peer::Peer;
use super::request_context::RequestContext;
use super::request_info::RequestInfo;
use super::request_state::RequestState;
use super::respond::{self, Response};
use super::{access, body_drain, codec, cors, deadline, dispatch, measure, pretty};
use ballast_auth::{Impersonation, Permission};
use ballast_base::telemetry;
use ballast_k8s::Status;

const AUDIT_ID: &str = "audit-id";
const AUDIT_ID_BYTES_MAX: usize = 64;

/// Serves any request: layers 1 to 9. It is the only handler of the router.
pub async fn serve(State(app): State<Arc<App>>, request: http::Request<Body>) -> Response {
    // The way in.
    let started = Instant::now();
    let (mut parts, body) = request.into_parts();
    if let Some(answer) = app.cors.preflight(&parts) {
        return answer;
    }
    let (body, rest) = body_drain::with_rest(&parts, body);
    let audit_id = audit_id(&app, &parts);
    let is_proxied = is_proxied(&parts);
    let is_pretty = !is_proxied && pretty::is_wanted(&parts);
    if !is_proxied && (is_pretty || app.audit.as_ref().is_some_and(|audit| audit.wants_answers())) {
        // A response that is audited or indented must not be compressed.
        parts.headers.remove(header::ACCEPT_ENCODING);
    }
    let parts = parts;
    let received_ms = app.clock.now_ms();
    let span = tracing::debug_span!("request", method = %parts.method, uri = %parts.uri, audit_id = %shown(&audit_id),
        otel.name = Empty, otel.kind = Empty, http.response.status_code = Empty);
    let state = RequestState::default();
    let info = check_headers(&parts.headers).and_then(|()| RequestInfo::read(&parts.method, &parts.uri));
    if telemetry::is_exporting() {
        trace(&app, &span, &parts, info.as_ref().ok());
    }
    let context_of =
        |info| RequestContext { app: &app, parts: &parts, info, state: &state, audit_id: &audit_id, received_ms };
    let outcome = match &info {
        Ok(info) => {
            let context = context_of(info);
            let guarded = AssertUnwindSafe(within_deadline(&context, body)).catch_unwind();
            guarded.instrument(span.clone()).await.unwrap_or_else(|panic| {
                let _ = state.panicked.set(());
                Err(panicked(&*panic))
            })
        }
        Err(status) => {
            drop(body);
            Err(status.clone())
        }
    };
    // The way out.
    let rest = body_drain::rest(rest);
    if rest.is_some() {
        // The request has ended, and its connection may be evicted.
        let _ = connections::reach(&parts, Stage::Unknown);
    }
    let mut response = outcome.unwrap_or_else(|status| {
        if status.code >= 500 && !status.is_logged {
            let (method, uri, message) = (&parts.method, &parts.uri, &status.message);
            let audit_id = shown(&audit_id);
            if is_asked_for(&status, info.as_ref().ok()) {
                tracing::debug!(%method, %uri, %audit_id, code = status.code, message, "a request failed as it asked for");
            } else {
                tracing::error!(%method, %uri, %audit_id, code = status.code, message, "a request failed");
            }
        }
        respond::status(&status, codec::negotiate_error(&parts.headers))
    });
    respond::warn(&mut response, &state.warnings.texts());
    if let Ok(info) = &info {
        response = context_of(info).record(response, started).await;
    }
    if is_pretty && !info.as_ref().is_ok_and(RequestInfo::is_watch) {
        response = pretty::indented(response);
    }
    if telemetry::is_exporting() {
        span.record("http.response.status_code", response.status().as_u16());
    }
    span.in_scope(|| access_log(&parts, response.status(), started));
    if parts.method == Method::HEAD {
        strip_body(&mut response);
    }
    if let Some(origin) = app.cors.origin(&parts) {
        cors::allow(&mut response, origin);
    }
    let headers = response.headers_mut();
    headers.insert(AUDIT_ID, audit_id);
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-cache, private"));
    body_drain::leave(&mut response, rest);
    response
}

/// Layer 10: applies the deadline.
async fn within_deadline(context: &RequestContext<'_>, body: Body) -> Result<Response, Status> {
    match context.info.is_long_running() {
        true => admit(context, body).await,
        false => deadline::within(&context.info.query, admit(context, body)).await,
    }
}

/// Layers 11 to 18, and the handler.
async fn admit(context: &RequestContext<'_>, body: Body) -> Result<Response, Status> {
    let RequestContext { app, parts, info, state, .. } = *context;
    access::check_site(app, parts, info)?;
    #[cfg(feature = "page")]
    if app.has_page && super::page::is_for(info.path) {
        return Ok(super::page::answer(info.method, info.path, &parts.headers, &app.surroundings));
    }
    let method = parts.method.as_str().to_ascii_lowercase();
    let attributes = info.attributes(&method);
    let is_open = app.authorizer.is_open(&attributes);

    if let Some(replicas) = &app.replicas
        && let Some(user) = replicas.user(parts).await
    {
        let user = user?;
        let _ = state.user.set(Arc::clone(&user));
        context.reach(Stage::Waiting)?;
        // The certificate of a replica can name any user, so the write is audited here as well.
        let _ = state.permission.set(Permission::Allow("allowed by the replica that forwards it".to_owned()));
        let body = context.begin_audit(&user, &attributes, body).await?;
        let work = if dispatch::only_asks(app, info) { Work::Ask } else { Work::Write };
        let entrance = Entrance::new(&app.in_flight, (Origin::Replica, &user), parts, work, body);
        let entrance = entrance.with_text(state.body.get().cloned());
        return dispatch::dispatch(app, (&user, &state.warnings), parts, info, &entrance).await;
    }

    let user = match access::authenticate(app, parts).await? {
        Some(user) => user,
        None if is_open => return dispatch::path(app, parts, info),
        None => return Err(access::unauthorized(parts)),
    };
    let _ = state.user.set(Arc::clone(&user));
    context.reach(Stage::Waiting)?;

    let body = context.begin_audit(&user, &attributes, body).await?;

    let user = match Impersonation::read(&parts.headers)? {
        Some(impersonation) => {
            let user = access::impersonate(app, info, &user, impersonation).await?;
            let _ = state.acting_as.set(Arc::clone(&user));
            user
        }
        None => user,
    };

    let permission = app.authorizer.decide(&user, &attributes).await;
    let _ = state.permission.set(permission.clone());
    access::check(&permission, &user, info, &attributes)?;

    let work = work(app, info);
    let entrance = Entrance::new(&app.in_flight, (Origin::of(&user), &user), parts, work, body);
    let entrance = entrance.with_text(state.body.get().cloned());
    match work {
        _ if info.is_proxied() => context.reach(Stage::AtWork)?,
        Work::Read if !is_open => entrance.enter().await?,
        _ => {}
    }

    // Each replica connects to member clusters directly.
    if let Some(replicas) = app.replicas.as_ref().filter(|_| work == Work::Write && !info.is_proxied())
        && let ForwardOutcome::Answered(response) =
            replicas.forward(parts, context.audit_id, &user, &entrance, context.deadline()?).await?
    {
        return Ok(response);
    }
    dispatch::dispatch(app, (&user, &state.warnings), parts, info, &entrance).await
}

/// Returns the permits that a request needs.
fn work(app: &App, info: &RequestInfo<'_>) -> Work {
    match info.is_read_only() {
        true if info.is_watch() => Work::Watch,
        true => Work::Read,
        false if dispatch::only_asks(app, info) => Work::Ask,
        false => Work::Write,
    }
}

/// Returns whether the request goes to a member cluster; its response is passed through unchanged.
fn is_proxied(parts: &Parts) -> bool {
    parts.uri.path().contains("/proxy")
        && RequestInfo::read(&parts.method, &parts.uri).is_ok_and(|info| info.is_proxied())
}

/// Returns whether the failure was requested by the client (LG3): a version that does not exist
/// yet, or a timeout that was too short. Any reader can cause these, and they are no fault of the
/// server.
fn is_asked_for(status: &Status, info: Option<&RequestInfo<'_>>) -> bool {
    let is_short = info.is_some_and(|info| deadline::is_short(&info.query));
    status.code == 504 && (is_short || status.has_cause(Status::RESOURCE_VERSION_TOO_LARGE))
}

/// Limits the total size of headers (LI5). hyper does so for HTTP/2; for HTTP/1.1 it only limits
/// the size of one read.
fn check_headers(headers: &HeaderMap) -> Result<(), Status> {
    let bytes: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    match bytes <= HEADER_LIST_BYTES_MAX as usize {
        true => Ok(()),
        false => Err(Status::failure(431, "RequestHeaderFieldsTooLarge", "the request's headers are too large")),
    }
}

/// Adds the request to the trace of its caller, with a span name of low cardinality (LG2).
fn trace(app: &App, span: &tracing::Span, parts: &Parts, info: Option<&RequestInfo<'_>>) {
    telemetry::follow(span, &parts.headers);
    span.record("otel.kind", "server");
    let labels = info.map(|info| measure::request(app.registry.kinds(), info, &parts.headers)).unwrap_or_default();
    span.record("otel.name", format!("{} {}", labels.verb, labels.resource).trim());
}

/// Logs a request (LG1). The method, the URI and the audit id come from its span.
fn access_log(parts: &Parts, code: StatusCode, started: Instant) {
    let peer = parts.extensions.get::<Arc<Peer>>().map(|peer| peer.address);
    let agent = parts.headers.get(header::USER_AGENT).map(|agent| String::from_utf8_lossy(agent.as_bytes()));
    let user_agent = agent.as_deref().unwrap_or_default();
    let latency_seconds = started.elapsed().as_secs_f64();
    let src_ip = peer.map(tracing::field::display);
    tracing::debug!(code = code.as_u16(), latency_seconds, src_ip, user_agent, "answered");
}

/// Returns the value of a header as text.
fn shown(value: &HeaderValue) -> Cow<'_, str> {
    String::from_utf8_lossy(value.as_bytes())
}

/// Removes the body of the response to a HEAD request, but keeps its length if that is known.
fn strip_body(response: &mut Response) {
    let size = http_body::Body::size_hint(response.body()).exact();
    if size == Some(0) && response.headers().contains_key(header::CONTENT_LENGTH) {
        // Another server has responded to the HEAD, and has set the length.
        return;
    }
    *response.body_mut() = Body::empty();
    if let Some(size) = size {
        response.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(size));
    }
}

/// Returns the audit id sent by the caller, or a new one: one id follows a request through all
/// servers (AU1).
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
