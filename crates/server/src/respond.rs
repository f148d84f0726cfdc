//! Builds responses from statuses, documents and objects.
//!
//! *Invariant:* every error is a `Status` (ER26), except for two that upstream sends as text: the
//! 404 of an unknown path (VB9), and failed probes. Objects are sent as JSON without parsing them.

use axum::body::Body;
use bytes::{BufMut, Bytes, BytesMut};
use http::header;
use http::{HeaderValue, StatusCode};
use serde::Serialize;
use serde_json::Value;

use super::codec::{Accepted, Encoding};
use super::frames::{self, Size};
use ballast_k8s::Status;

pub type Response = http::Response<Body>;

/// The limit of all warnings of a response, in characters. Above it, each warning is truncated
/// (AD9).
const WARNINGS_CHARS_MAX: usize = 4096;
const WARNING_CHARS_MAX: usize = 256;

pub fn text(code: StatusCode, body: impl Into<Body>) -> Response {
    with_type(code, "text/plain; charset=utf-8", body)
}

/// Returns the response for an unknown path (VB9).
pub fn page_not_found() -> Response {
    let mut response = text(StatusCode::NOT_FOUND, "404 page not found\n");
    response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

pub fn with_type(code: StatusCode, content_type: &'static str, body: impl Into<Body>) -> Response {
    let mut response = http::Response::new(body.into());
    *response.status_mut() = code;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

pub fn status(status: &Status, encoding: Encoding) -> Response {
    let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::OK);
    let mut response = value(code, Accepted { encoding, ..Accepted::default() }, status);
    if let Some(seconds) = status.retry_after_seconds() {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    if code == StatusCode::FORBIDDEN {
        // The message contains text of the caller (ER11).
        response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    }
    response
}

pub fn value(code: StatusCode, accepted: Accepted, value: &impl Serialize) -> Response {
    match accepted.encoding {
        Encoding::Json => {
            let mut json = serde_json::to_vec(value).expect("a tree of JSON values always serializes");
            json.push(b'\n');
            document(code, accepted, json.into())
        }
        Encoding::Yaml => {
            let yaml = serde_saphyr::to_string(value).expect("a tree of JSON values always serializes");
            document(code, accepted, yaml.into())
        }
    }
}

/// Responds with an object from its stored bytes, with a trailing newline as in Kubernetes (VB23).
pub fn stored(code: StatusCode, accepted: Accepted, json: &[u8]) -> Result<Response, Status> {
    if accepted.encoding == Encoding::Yaml {
        let object: Value = serde_json::from_slice(json).map_err(Status::internal)?;
        return Ok(value(code, accepted, &object));
    }
    let mut body = BytesMut::with_capacity(json.len() + 1);
    body.put_slice(json);
    body.put_u8(b'\n');
    Ok(document(code, accepted, body.freeze()))
}

/// Responds with a complete body, which is compressed if it is large and the client accepts gzip.
pub fn document(code: StatusCode, accepted: Accepted, body: Bytes) -> Response {
    let mut response = with_type(code, accepted.encoding.content_type(), Body::empty());
    let size = body.len();
    frames::send(&mut response, std::iter::once(body), Size::Exactly(size), accepted.gzip);
    response
}

/// Adds one `Warning` header per warning (AD9).
pub fn warn(response: &mut Response, warnings: &[String]) {
    let total: usize = warnings.iter().map(|warning| warning.chars().count()).sum();
    let mut left = WARNINGS_CHARS_MAX;
    for warning in warnings {
        let text: String = match total > WARNINGS_CHARS_MAX {
            true => warning.chars().take(WARNING_CHARS_MAX).collect(),
            false => warning.clone(),
        };
        let Some(rest) = left.checked_sub(text.chars().count()) else { return };
        left = rest;
        let quoted = text.replace('\\', "\\\\").replace('"', "\\\"");
        let printable: String = quoted.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        // Bytes beyond ASCII are legal in a header value, and Go's clients read them as UTF-8.
        if let Ok(header) = HeaderValue::from_bytes(format!("299 - \"{printable}\"").as_bytes()) {
            response.headers_mut().append(header::WARNING, header);
        }
    }
}
