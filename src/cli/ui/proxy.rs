//! Responds to the page's browser: with the page's files, or with responses of the API.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::{Request, State};
use http::header::{self, HeaderName};
use http::request::Parts;
use http::{HeaderValue, Response, StatusCode};
use serde_json::json;
use tokio::sync::Semaphore;

use super::guard::{self, Guard, Refusal};
use super::upstream::Upstream;
use super::watch;
use ballast_base::telemetry;
use ballast_server::page::Surroundings;
use ballast_server::{BODY_BYTES_MAX, hop_by_hop, page};

/// Maximum number of concurrently forwarded requests. A browser sends six.
const REQUESTS_MAX: usize = 64;
/// Maximum number of concurrent watches, for all tabs together.
const WATCHES_MAX: usize = 256;

struct Proxy {
    guard: Guard,
    upstream: Upstream,
    surroundings: Surroundings,
    requests: Semaphore,
    watches: Arc<Semaphore>,
}

/// Returns the router. `surroundings` is the page's description of this proxy. Without a banner,
/// the server's banner is shown.
pub fn router(guard: Guard, upstream: Upstream, surroundings: Surroundings) -> axum::Router {
    let (requests, watches) = (Semaphore::new(REQUESTS_MAX), Arc::new(Semaphore::new(WATCHES_MAX)));
    let proxy = Proxy { guard, upstream, surroundings, requests, watches };
    axum::Router::new().fallback(serve).with_state(Arc::new(proxy))
}

type Upgrade = Result<WebSocketUpgrade, WebSocketUpgradeRejection>;

async fn serve(State(proxy): State<Arc<Proxy>>, upgrade: Upgrade, request: Request) -> Response<Body> {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path();
    if let Err(refusal) = proxy.guard.check_sender(&parts.method, path, &parts.headers) {
        return refused(&parts, refusal);
    }
    if let Some(page) = proxy.guard.enters(path) {
        return entered(&page);
    }
    // The files of the page are public: they contain nothing about the server.
    if path == "/" {
        return moved();
    }
    if page::is_for(path) && !page::is_surroundings(path) {
        return page::answer(&parts.method, path, &parts.headers, "");
    }
    if let Err(refusal) = proxy.guard.check_secret(&parts.headers) {
        return refused(&parts, refusal);
    }
    if page::is_for(path) {
        let mut surroundings = proxy.surroundings.clone();
        if page::is_surroundings(path) && surroundings.banner.is_none() {
            surroundings.banner = proxy.upstream.banner().await;
        }
        return page::answer(&parts.method, path, &parts.headers, &surroundings.to_json());
    }
    if let Err(refusal) = guard::check_path(path) {
        return refused(&parts, refusal);
    }
    if let Ok(upgrade) = upgrade {
        // Browsers send an Origin with each; without one the request is not from the page.
        return match (parts.headers.contains_key(header::ORIGIN), Arc::clone(&proxy.watches).try_acquire_owned()) {
            (false, _) => refused(&parts, Refusal::ForeignOrigin),
            (true, Err(_)) => failed(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", "too many watches are open"),
            (true, Ok(place)) => {
                let upstream = proxy.upstream.clone();
                upgrade.protocols([guard::PROTOCOL]).on_upgrade(move |socket| async move {
                    watch::pass_on(socket, &upstream, &parts).await;
                    drop(place);
                })
            }
        };
    }
    pass_on(&proxy, &parts, body).await
}

async fn pass_on(proxy: &Proxy, parts: &Parts, body: Body) -> Response<Body> {
    let Ok(_place) = proxy.requests.acquire().await else {
        return failed(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", "the page's proxy ends");
    };
    let Ok(body) = axum::body::to_bytes(body, BODY_BYTES_MAX).await else {
        let message = format!("a request has at most {BODY_BYTES_MAX} bytes");
        return failed(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", &message);
    };
    match proxy.upstream.ask(parts, body).await {
        Ok(mut answer) => {
            hop_by_hop::remove(answer.headers_mut());
            answer.headers_mut().remove(header::SET_COOKIE);
            harmless(answer)
        }
        Err(error) => failed(StatusCode::BAD_GATEWAY, "ServerUnreachable", &telemetry::with_causes(error.as_ref())),
    }
}

/// Sets headers so that a response of the API is never run as a page, nor read by another site.
fn harmless(mut answer: Response<Body>) -> Response<Body> {
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'; sandbox; frame-ancestors 'none'"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        answer.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    answer
}

fn refused(parts: &Parts, refusal: Refusal) -> Response<Body> {
    let reason = match refusal {
        Refusal::ForeignHost { .. } => "ForeignHost",
        Refusal::ForeignOrigin => "ForeignOrigin",
        Refusal::NoSecret => "NoSecret",
        Refusal::OutsideApi => "OutsideApi",
    };
    let is_looked_at = parts.headers.get("sec-fetch-mode").is_some_and(|mode| mode == "navigate");
    if !is_looked_at {
        return failed(StatusCode::FORBIDDEN, reason, &refusal.to_string());
    }
    let mut answer = Response::new(Body::from(format!("{refusal}\n")));
    *answer.status_mut() = StatusCode::FORBIDDEN;
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    harmless(answer)
}

/// Returns a Kubernetes Status, like the API.
fn failed(code: StatusCode, reason: &str, message: &str) -> Response<Body> {
    let mut answer = Response::new(Body::from(status(code, reason, message).to_string()));
    *answer.status_mut() = code;
    answer.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    harmless(answer)
}

pub(super) fn status(code: StatusCode, reason: &str, message: &str) -> serde_json::Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
           "message": message, "reason": reason, "code": code.as_u16()})
}

/// Returns a document that redirects to the page. It is not an HTTP redirect, because a browser
/// that comes from a file would send the redirected request as cross-site.
fn entered(page: &str) -> Response<Body> {
    let mut answer = Response::new(Body::from(leading_to(page)));
    for (name, value) in [
        (header::CONTENT_TYPE, "text/html; charset=utf-8"),
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'; frame-ancestors 'none'"),
        (header::CACHE_CONTROL, "no-store"),
        (header::REFERRER_POLICY, "no-referrer"),
    ] {
        answer.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    answer
}

/// Returns a document that redirects to an address, which needs no escaping.
pub(super) fn leading_to(address: &str) -> String {
    format!(
        "<!doctype html><meta charset=\"utf-8\"><meta name=\"referrer\" content=\"no-referrer\">\
         <meta http-equiv=\"refresh\" content=\"0; url={address}\"><title>Ballast</title>\
         <a href=\"{address}\">Open the page</a>\n"
    )
}

fn moved() -> Response<Body> {
    let mut answer = Response::new(Body::empty());
    *answer.status_mut() = StatusCode::SEE_OTHER;
    answer.headers_mut().insert(header::LOCATION, HeaderValue::from_static(page::ROOT));
    answer.headers_mut().insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    answer
}
