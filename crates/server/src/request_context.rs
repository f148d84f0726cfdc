//! The data of a request that the layers share, and the counting and auditing of its start and end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use http::HeaderValue;
use http::request::Parts;
use http_body_util::BodyExt as _;

use super::app::App;
use super::audit::{self, Stage as AuditStage};
use super::connections::{self, Stage};
use super::in_flight::Origin;
use super::peer::Peer;
use super::request_info::RequestInfo;
use super::request_state::RequestState;
use super::respond::Response;
use super::web_socket::UntilClosed;
use super::{deadline, entrance, measure};
use ballast_auth::Attributes;
use ballast_base::metrics;
use ballast_k8s::{Status, User};

/// A request on its way through the layers.
pub struct RequestContext<'a> {
    pub app: &'a App,
    pub parts: &'a Parts,
    pub info: &'a RequestInfo<'a>,
    pub state: &'a RequestState,
    pub audit_id: &'a HeaderValue,
    pub received_ms: i64,
}

impl RequestContext<'_> {
    /// Records the stage of the request on its connection.
    pub fn reach(&self, stage: Stage) -> Result<(), Status> {
        connections::reach(self.parts, stage)
    }

    /// Returns the deadline of the response.
    pub fn deadline(&self) -> Result<tokio::time::Instant, Status> {
        let passed = self.app.clock.now_ms().saturating_sub(self.received_ms).max(0).unsigned_abs();
        let left = deadline::asked_for(&self.info.query)?.saturating_sub(Duration::from_millis(passed));
        Ok(tokio::time::Instant::now() + left)
    }

    /// Counts and audits the response.
    pub async fn record(&self, mut response: Response, started: Instant) -> Response {
        let asked = measure::request(self.app.registry.kinds(), self.info, &self.parts.headers);
        let code = response.status().as_u16();
        metrics::request(&asked, code, started.elapsed(), http_body::Body::size_hint(response.body()).exact());
        if matches!(code, 429 | 504) {
            metrics::terminated(&asked, code);
        }
        let is_open_watch = self.info.is_watch() && matches!(code, 200 | 101);
        // The response of a member cluster may have no end either, and is not audited.
        let is_open = is_open_watch || self.info.is_proxied();
        let held = is_open_watch.then(|| metrics::long_running(&asked));
        let Some((audit, scope)) = self.audited(code) else {
            return if is_open_watch { hold_until_end(response, held) } else { response };
        };
        let stage = match (is_open, self.state.panicked.get()) {
            (true, _) => AuditStage::ResponseStarted,
            (false, Some(())) => AuditStage::Panic,
            (false, None) => AuditStage::ResponseComplete,
        };
        let mut answer = None;
        if (scope.wants_answer() || code >= 400) && !is_open {
            let (head, body) = response.into_parts();
            // The response was made in this process, so it has an end and no error.
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
        let mut last = self.entry(AuditStage::ResponseComplete);
        last.code = Some(code);
        hold_until_end(
            response,
            (held, Some(audit::CompletionEntry::new(audit, scope, last, Arc::clone(&self.app.clock)))),
        )
    }

    /// Returns the audit log and the audit scope of this request. To the policy, a request without
    /// a user is anonymous.
    fn audited(&self, code: u16) -> Option<(Arc<audit::Audit>, audit::Scope)> {
        let audit = self.app.audit.as_ref()?;
        let method = self.parts.method.as_str().to_ascii_lowercase();
        let unknown = || audit.scope(&User::default(), &self.info.attributes(&method)).filter(|_| code == 401);
        let scope = self.state.audited.get().copied().or_else(unknown)?;
        Some((Arc::clone(audit), scope))
    }

    fn entry(&self, stage: AuditStage) -> audit::Entry {
        let method = self.parts.method.as_str().to_ascii_lowercase();
        let peer = self.parts.extensions.get::<Arc<Peer>>().map(|peer| peer.address.ip());
        audit::Entry::new(audit::Request {
            id: self.audit_id,
            method: &method,
            uri: &self.parts.uri,
            headers: &self.parts.headers,
            info: self.info,
            peer,
            user: self.state.user.get(),
            acting_as: self.state.acting_as.get(),
            permission: self.state.permission.get(),
            warnings: &self.state.warnings,
            body: self.state.body.get(),
            received_ms: self.received_ms,
            now_ms: self.app.clock.now_ms(),
            stage,
        })
    }

    /// Decides what is audited, records the begin of the request, and keeps its body if needed.
    pub async fn begin_audit(&self, user: &User, attributes: &Attributes<'_>, body: Body) -> Result<Body, Status> {
        let Some(audit) = &self.app.audit else { return Ok(body) };
        let Some(scope) = audit.scope(user, attributes) else { return Ok(body) };
        let _ = self.state.audited.set(scope);
        audit.write(scope, self.entry(AuditStage::RequestReceived));
        if !scope.wants_question() || self.info.is_read_only() || self.info.is_proxied() {
            return Ok(body);
        }
        let whole = entrance::read(&self.app.in_flight, Origin::of(user), user, body).await?;
        let _ = self.state.body.set(whole.clone());
        Ok(Body::from(whole))
    }
}

/// Keeps a value until the body of a response is dropped, or the connection ends that it has
/// switched to another protocol.
fn hold_until_end<T: Send + 'static>(response: Response, kept: T) -> Response {
    if let Some(open) = response.extensions().get::<UntilClosed>() {
        open.keep(kept);
        return response;
    }
    let (head, body) = response.into_parts();
    // The closure owns the value, and the body owns the closure.
    let body = body.map_frame(move |frame| {
        let _kept = &kept;
        frame
    });
    Response::from_parts(head, Body::new(body))
}
