//! From what a request asks for to who answers it.

use axum::body::Body;
use http::request::Parts;
use http::{Method, StatusCode};

use super::codec::Accepted;
use super::request_info::{RequestInfo, Target};
use super::respond::{self, Response};
use super::{App, health};
use crate::k8s::{Status, User};

pub async fn dispatch(
    app: &App,
    _user: &User,
    _parts: &Parts,
    info: &RequestInfo<'_>,
    _body: Body,
) -> Result<Response, Status> {
    match &info.target {
        Target::Path(_) => open_path(app, info),
        Target::Resource(_) => Ok(respond::page_not_found()),
    }
}

/// Health and version: answered to anybody.
pub fn open_path(app: &App, info: &RequestInfo<'_>) -> Result<Response, Status> {
    let Target::Path(segments) = &info.target else { return Ok(respond::page_not_found()) };
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    if !matches!(*info.method, Method::GET | Method::HEAD) {
        return Ok(respond::page_not_found());
    }
    let found = match *segments.as_slice() {
        [probe @ ("healthz" | "livez" | "readyz")] => health(app, probe, None, info),
        [probe @ ("healthz" | "livez" | "readyz"), check] => health(app, probe, Some(check), info),
        ["version"] => Some(respond::value(StatusCode::OK, Accepted::default(), &health::version())),
        _ => None,
    };
    Ok(found.unwrap_or_else(respond::page_not_found))
}

fn health(app: &App, probe: &str, check: Option<&str>, info: &RequestInfo<'_>) -> Option<Response> {
    health::answer(&app.checks, app.shutdown.has_begun(), probe, check, &info.query)
}
