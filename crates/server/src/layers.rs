//! The layers that every request passes, outermost first: request id, span, metrics, panic guard,
//! request info, deadline, authentication, audit, impersonation, authorization, in-flight limit,
//! dispatch. The body is read within its bound, once it is needed.
//!
//! The in-flight limit comes after authentication, because it depends on the user: a master waits
//! within its deadline, and others are refused at once (LI4). Watches have neither that limit nor a
//! deadline (WA24), and requests that are passed on have bounds of their own (`proxy`).

use std::any::Any;
use std::borrow::Cow;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::extract::State;
use bytes::{Bytes, BytesMut};
use futures_util::FutureExt;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use http_body_util::BodyExt as _;
use tokio::sync::{Semaphore, SemaphorePermit};
use tracing::Instrument;
use tracing::field::Empty;

use super::audit::{self, Stage};
use super::forward::ForwardOutcome;
use super::listen::HEADER_LIST_BYTES_MAX;
use super::request_info::RequestInfo;
use super::respond::{self, Response};
use super::{App, Peer, body_drain, codec, cors, dispatch, measure, page, pretty};
use ballast_auth::{Attributes, Impersonation, Permission, Refused};
use ballast_base::metrics;
use ballast_base::telemetry;
use ballast_k8s::{Query, Status, User, duration};
use ballast_registry::{Warnings, due_at};

const AUDIT_ID: &str = "audit-id";
const AUDIT_ID_BYTES_MAX: usize = 64;
/// The longest deadline of a request, and the default (LI1).
const DEADLINE: Duration = Duration::from_secs(60);
const TIMED_OUT: &str = "request did not complete within the allotted timeout";
/// The largest request body: 3 MiB, as in kube-apiserver (LI3).
pub const BODY_BYTES_MAX: usize = 3 * 1024 * 1024;

/// What the page is told: it reaches the API where it came from, once its user has signed in.
const SURROUNDINGS: &str = r#"{"through":"server"}"#;

/// Bounds how many requests run at a time (LI4).
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

/// What the layers find out about a request, for the audit log and the metrics.
#[derive(Debug, Default)]
pub struct RequestState {
    pub user: OnceLock<Arc<User>>,
    /// The user that is impersonated, if any.
    pub acting_as: OnceLock<Arc<User>>,
    pub permission: OnceLock<Permission>,
    /// What the audit log records of it.
    pub audited: OnceLock<audit::Scope>,
    pub body: OnceLock<Bytes>,
    /// Set if its handler panicked.
    pub panicked: OnceLock<()>,
    /// Warnings and annotations of webhooks.
    pub warnings: Warnings,
}

/// Answers any request. It is the only handler of the router.
pub async fn serve(State(app): State<Arc<App>>, request: http::Request<Body>) -> Response {
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
        // An answer that is audited or indented must not be compressed.
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
    let outcome = match &info {
        Ok(info) => {
            let context =
                RequestContext { app: &app, parts: &parts, info, state: &state, audit_id: &audit_id, received_ms };
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
    body_drain::drain(rest).await;
    let mut response = outcome.unwrap_or_else(|status| {
        if status.code >= 500 && !status.is_logged {
            let (method, uri, message) = (&parts.method, &parts.uri, &status.message);
            let audit_id = shown(&audit_id);
            tracing::error!(%method, %uri, %audit_id, code = status.code, message, "a request failed");
        }
        respond::status(&status, codec::negotiate_error(&parts.headers))
    });
    respond::warn(&mut response, &state.warnings.texts());
    if let Ok(info) = &info {
        let context =
            RequestContext { app: &app, parts: &parts, info, state: &state, audit_id: &audit_id, received_ms };
        response = context.record(response, started).await;
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
    response
}

/// Whether the request goes to another server, whose answer is passed on as it is.
fn is_proxied(parts: &Parts) -> bool {
    parts.uri.path().contains("/proxy")
        && RequestInfo::read(&parts.method, &parts.uri).is_ok_and(|info| info.is_proxied())
}

/// Bounds the sum of all headers (LI5). hyper does so for HTTP/2; for HTTP/1.1 it only bounds what
/// it reads at once.
fn check_headers(headers: &HeaderMap) -> Result<(), Status> {
    let bytes: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
    match bytes <= HEADER_LIST_BYTES_MAX as usize {
        true => Ok(()),
        false => Err(Status::failure(431, "RequestHeaderFieldsTooLarge", "the request's headers are too large")),
    }
}

/// Puts the request into the trace of its caller, under one of few names (LG2).
fn trace(app: &App, span: &tracing::Span, parts: &Parts, info: Option<&RequestInfo<'_>>) {
    telemetry::follow(span, &parts.headers);
    span.record("otel.kind", "server");
    let asked = info.map(|info| measure::request(app, info, &parts.headers)).unwrap_or_default();
    span.record("otel.name", format!("{} {}", asked.verb, asked.resource).trim());
}

/// Logs the line of a request (LG1). The method, the URI and the audit id come from its span.
fn access_log(parts: &Parts, code: StatusCode, started: Instant) {
    let peer = parts.extensions.get::<Arc<Peer>>().map(|peer| peer.address);
    let agent = parts.headers.get(header::USER_AGENT).map(|agent| String::from_utf8_lossy(agent.as_bytes()));
    let user_agent = agent.as_deref().unwrap_or_default();
    let latency_seconds = started.elapsed().as_secs_f64();
    let src_ip = peer.map(tracing::field::display);
    tracing::debug!(code = code.as_u16(), latency_seconds, src_ip, user_agent, "answered");
}

/// A header's value as text.
fn shown(value: &HeaderValue) -> Cow<'_, str> {
    String::from_utf8_lossy(value.as_bytes())
}

/// A running request with everything that is known about it.
struct RequestContext<'a> {
    app: &'a App,
    parts: &'a Parts,
    info: &'a RequestInfo<'a>,
    state: &'a RequestState,
    audit_id: &'a HeaderValue,
    received_ms: i64,
}

impl RequestContext<'_> {
    /// When the answer is due.
    fn deadline(&self) -> Result<tokio::time::Instant, Status> {
        let passed = self.app.clock.now_ms().saturating_sub(self.received_ms).max(0).unsigned_abs();
        let left = deadline(&self.info.query)?.saturating_sub(Duration::from_millis(passed));
        Ok(tokio::time::Instant::now() + left)
    }

    /// Counts and audits the answer.
    async fn record(&self, mut response: Response, started: Instant) -> Response {
        let asked = measure::request(self.app, self.info, &self.parts.headers);
        let code = response.status().as_u16();
        metrics::request(&asked, code, started.elapsed(), http_body::Body::size_hint(response.body()).exact());
        if matches!(code, 429 | 504) {
            metrics::terminated(&asked, code);
        }
        let is_open_watch = self.info.is_watch() && code == 200;
        // What another server answers may have no end either, and is no business of the audit log.
        let is_open = is_open_watch || self.info.is_proxied();
        let held = is_open_watch.then(|| metrics::long_running(&asked));
        let Some((audit, scope)) = self.audited(code) else {
            return if is_open_watch { hold_until_end(response, held) } else { response };
        };
        let stage = match (is_open, self.state.panicked.get()) {
            (true, _) => Stage::ResponseStarted,
            (false, Some(())) => Stage::Panic,
            (false, None) => Stage::ResponseComplete,
        };
        let mut answer = None;
        if (scope.wants_answer() || code >= 400) && !is_open {
            let (head, body) = response.into_parts();
            // The answer was made in this process, so it has an end and no error.
            let whole = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
            answer = Some(whole.clone());
            response = Response::from_parts(head, Body::from(whole));
        }
        let mut entry = self.entry(stage);
        entry.code = Some(code);
        entry.answer = answer;
        audit.write(scope, entry);
        if !is_open {
            return response;
        }
        let mut last = self.entry(Stage::ResponseComplete);
        last.code = Some(code);
        hold_until_end(response, (held, Some(audit::AtTheEnd::new(audit, scope, last, Arc::clone(&self.app.clock)))))
    }

    /// Where and how much is audited. To the policy, a request without a user is anonymous.
    fn audited(&self, code: u16) -> Option<(Arc<audit::Audit>, audit::Scope)> {
        let audit = self.app.audit.as_ref()?;
        let method = self.parts.method.as_str().to_ascii_lowercase();
        let unknown = || audit.scope(&User::default(), &self.info.attributes(&method)).filter(|_| code == 401);
        let scope = self.state.audited.get().copied().or_else(unknown)?;
        Some((Arc::clone(audit), scope))
    }

    fn entry(&self, stage: Stage) -> audit::Entry {
        let method = self.parts.method.as_str().to_ascii_lowercase();
        let peer = self.parts.extensions.get::<Arc<Peer>>().map(|peer| peer.address.ip());
        audit::Entry::new(audit::Request {
            id: self.audit_id,
            method: &method,
            uri: &self.parts.uri,
            headers: &self.parts.headers,
            info: self.info,
            peer,
            state: self.state,
            received_ms: self.received_ms,
            now_ms: self.app.clock.now_ms(),
            stage,
        })
    }

    /// Decides what is audited, records that the request came, and keeps its body if needed.
    async fn begin_audit(&self, user: &User, attributes: &Attributes<'_>, body: Body) -> Result<Body, Status> {
        let Some(audit) = &self.app.audit else { return Ok(body) };
        let Some(scope) = audit.scope(user, attributes) else { return Ok(body) };
        let _ = self.state.audited.set(scope);
        audit.write(scope, self.entry(Stage::RequestReceived));
        if !scope.wants_question() || self.info.is_read_only() || self.info.is_proxied() {
            return Ok(body);
        }
        let whole = read_body(body).await?;
        let _ = self.state.body.set(whole.clone());
        Ok(Body::from(whole))
    }
}

/// Keeps a value until the body of an answer is dropped.
fn hold_until_end<T: Send + 'static>(response: Response, kept: T) -> Response {
    let (head, body) = response.into_parts();
    // The closure owns the value, and the body owns the closure.
    let body = body.map_frame(move |frame| {
        let _kept = &kept;
        frame
    });
    Response::from_parts(head, Body::new(body))
}

/// HEAD is answered like GET without the body, but with its length if that is known.
fn strip_body(response: &mut Response) {
    let size = http_body::Body::size_hint(response.body()).exact();
    if size == Some(0) && response.headers().contains_key(header::CONTENT_LENGTH) {
        // Another server has answered the HEAD, and said how long its answer would be.
        return;
    }
    *response.body_mut() = Body::empty();
    if let Some(size) = size {
        response.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(size));
    }
}

/// The audit id of the caller, if it sends one: one id follows a request through all servers (AU1).
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

async fn within_deadline(context: &RequestContext<'_>, body: Body) -> Result<Response, Status> {
    if context.info.is_long_running() {
        return admitted(context, body).await;
    }
    let due = tokio::time::Instant::now() + deadline(&context.info.query)?;
    match tokio::time::timeout_at(due, due_at(Some(due), admitted(context, body))).await {
        Ok(outcome) => outcome,
        Err(_) => Err(Status::timeout(TIMED_OUT, 0)),
    }
}

async fn admitted(context: &RequestContext<'_>, body: Body) -> Result<Response, Status> {
    let RequestContext { app, parts, info, state, .. } = *context;
    let method = parts.method.as_str().to_ascii_lowercase();
    if app.has_page && page::is_for(info.path) {
        return Ok(page::answer(info.method, info.path, &parts.headers, SURROUNDINGS));
    }
    let attributes = info.attributes(&method);
    let is_open = app.authorizer.is_open(&attributes);
    if let Some(replicas) = &app.replicas
        && let Some(user) = replicas.user(parts).await
    {
        // Another replica has authorized and audited it.
        let user = user?;
        let _place = app.in_flight.enter(info, &user).await?;
        return dispatch::dispatch(app, (&user, &state.warnings), parts, info, body).await;
    }
    let user = match authenticate(app, parts).await? {
        Some(user) => user,
        None if is_open => return dispatch::path(app, parts, info),
        None => return Err(unauthorized(parts)),
    };
    let _ = state.user.set(Arc::clone(&user));
    let body = context.begin_audit(&user, &attributes, body).await?;
    let user = match Impersonation::read(&parts.headers)? {
        Some(wish) => {
            let user = impersonate(app, info, &user, wish).await?;
            let _ = state.acting_as.set(Arc::clone(&user));
            user
        }
        None => user,
    };
    let permission = app.authorizer.decide(&user, &attributes).await;
    let _ = state.permission.set(permission.clone());
    match permission {
        Permission::Allow(_) => {}
        Permission::Deny(reason) => return Err(attributes.forbidden(&user, &reason)),
        Permission::Failed(why) => return Err(undecided(info, &why)),
    }
    let _place = match info.is_long_running() || is_open {
        true => None,
        false => {
            let place = app.in_flight.enter(info, &user).await?;
            Some((place, metrics::in_flight(if info.is_read_only() { "readOnly" } else { "mutating" })))
        }
    };
    let body = match &app.replicas {
        // Every replica reaches member clusters by itself.
        Some(replicas) if !info.is_read_only() && !info.is_proxied() && !dispatch::only_asks(app, info) => {
            match replicas.forward(parts, &user, body, context.deadline()?).await? {
                ForwardOutcome::Local(body) => body,
                ForwardOutcome::Answered(response) => return Ok(response),
            }
        }
        _ => body,
    };
    dispatch::dispatch(app, (&user, &state.warnings), parts, info, body).await
}

/// None: nobody.
async fn authenticate(app: &App, parts: &Parts) -> Result<Option<Arc<User>>, Status> {
    let peer = parts.extensions.get::<Arc<Peer>>();
    let certificate = peer.and_then(|peer| peer.certificate.as_ref());
    app.authenticator.authenticate(certificate, &parts.headers).await.map_err(|refused| {
        match refused {
            // This is a fault of the server, so it is logged. The others are the client's (AN8).
            Refused::Unreviewed(why) => tracing::warn!(why, "a token could not be reviewed"),
            refused => tracing::debug!(%refused, "the client is not known"),
        }
        unauthorized(parts)
    })
}

/// Over HTTP/2 the connection ends as well. Otherwise a client could guess credentials on thousands
/// of streams cheaply (AN11).
fn unauthorized(parts: &Parts) -> Status {
    if parts.version == http::Version::HTTP_2
        && let Some(peer) = parts.extensions.get::<Arc<Peer>>()
    {
        peer.leave.cancel();
    }
    Status::unauthorized()
}

/// Every part of an impersonation must be authorized (IM1).
async fn impersonate(app: &App, info: &RequestInfo<'_>, user: &User, wish: Impersonation) -> Result<Arc<User>, Status> {
    for attributes in wish.attributes() {
        match app.authorizer.decide(user, &attributes).await {
            Permission::Allow(_) => {}
            Permission::Deny(reason) => return Err(attributes.forbidden(user, &reason)),
            Permission::Failed(why) => return Err(undecided(info, &why)),
        }
    }
    Ok(Arc::new(wish.user))
}

/// The answer if authorization could not decide. The request is refused, without blame (AZ6).
fn undecided(info: &RequestInfo<'_>, why: &str) -> Status {
    tracing::error!(path = info.path, why, "an access could not be reviewed");
    let path = info.path;
    Status::failure(500, "InternalError", format!("Internal Server Error: {path:?}: the access could not be reviewed"))
}

/// The deadline that `?timeout=` asks for. Zero, and more than the default, mean the default (LI1).
fn deadline(query: &Query<'_>) -> Result<Duration, Status> {
    let Some(text) = query.text("timeout") else { return Ok(DEADLINE) };
    let asked = duration::parse(text).ok_or_else(|| {
        Status::bad_request(format!("invalid timeout specified in the request URL - time: invalid duration {text:?}"))
    })?;
    Ok(if asked.is_zero() || asked > DEADLINE { DEADLINE } else { asked })
}

/// Reads a body to its end, within the bound. `body_drain` throws the rest of a larger one away.
pub async fn read_body(mut body: Body) -> Result<Bytes, Status> {
    let announced = http_body::Body::size_hint(&body).lower();
    if announced > BODY_BYTES_MAX as u64 {
        return Err(Status::too_large(BODY_BYTES_MAX));
    }
    let mut whole = BytesMut::new();
    let mut first: Option<Bytes> = None;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Status::bad_request(format!("failed to read the body: {error}")))?;
        let Ok(data) = frame.into_data() else { continue };
        if whole.len() + first.as_ref().map_or(0, Bytes::len) + data.len() > BODY_BYTES_MAX {
            return Err(Status::too_large(BODY_BYTES_MAX));
        }
        // Most bodies have one frame, which is not copied.
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
