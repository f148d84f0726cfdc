//! Serves the page (`ui`) below `/ui/`, and its icon also where browsers look for one by
//! themselves. It needs no credential, because its files contain nothing about objects; the API
//! does. `ballast ui` serves the page with the same code.
//!
//! The page must not load, run or send anything from or to other origins, so it has a strict
//! Content-Security-Policy.

use axum::body::Body;
use bytes::Bytes;
use http::header::{self, HeaderName};
use http::{HeaderMap, HeaderValue, Method, StatusCode};

use super::respond::{self, Response};
use crate::ui::{self, File};

pub use super::surroundings::{Surroundings, Through};

/// The path of the page, with the slash that its relative addresses need.
pub const ROOT: &str = "/ui/";
/// Browsers request this for every response that is not a page, such as JSON. A 401 would end their
/// connection (AN11), and with it a request that the user's next click has just started.
const FAVICON: &str = "/favicon.ico";
const ICON: &str = "icon.svg";
/// The document from which the page learns at its start how it reaches the API.
const SURROUNDINGS: &str = "surroundings.json";

/// Scripts, styles and requests from and to the own origin; no inline code; no frame around it.
/// Text cannot become markup, not even by a fault of the page: no policy makes trusted types.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
     connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; \
     require-trusted-types-for 'script'; trusted-types 'none'";

/// Returns whether a request is for the page.
pub fn is_for(path: &str) -> bool {
    path == "/ui" || path.starts_with(ROOT) || path == FAVICON
}

/// Returns whether a request is for the document about the server, and for no file of the page.
pub fn is_surroundings(path: &str) -> bool {
    path.strip_prefix(ROOT) == Some(SURROUNDINGS)
}

/// Serves the page. `surroundings` is the content of `SURROUNDINGS`.
pub fn answer(method: &Method, path: &str, headers: &HeaderMap, surroundings: &str) -> Response {
    let below_root = if path == FAVICON { Some(ICON) } else { path.strip_prefix(ROOT) };
    let mut response = match below_root {
        _ if !matches!(*method, Method::GET | Method::HEAD) => {
            respond::text(StatusCode::METHOD_NOT_ALLOWED, "the page can only be read\n")
        }
        None => redirect(),
        Some(SURROUNDINGS) => respond::with_type(StatusCode::OK, "application/json", surroundings.to_owned()),
        Some(path) => ui::find(path).map_or_else(respond::page_not_found, |file| file_response(file, headers)),
    };
    for (name, value) in [
        (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (header::CACHE_CONTROL, "no-cache"),
    ] {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

fn redirect() -> Response {
    let mut response = respond::text(StatusCode::PERMANENT_REDIRECT, Body::empty());
    response.headers_mut().insert(header::LOCATION, HeaderValue::from_static(ROOT));
    response
}

fn file_response(file: &'static File, headers: &HeaderMap) -> Response {
    let packed = file.packed();
    let etag = format!("\"{}\"", packed.etag);
    let mut response = if lists(headers, header::IF_NONE_MATCH, &etag) {
        let mut unchanged = http::Response::new(Body::empty());
        *unchanged.status_mut() = StatusCode::NOT_MODIFIED;
        unchanged
    } else if lists(headers, header::ACCEPT_ENCODING, "gzip") {
        let mut response =
            respond::with_type(StatusCode::OK, file.content_type, Bytes::from_static(packed.gzip.as_slice()));
        response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        response
    } else {
        respond::with_type(StatusCode::OK, file.content_type, Bytes::from_static(file.content))
    };
    if let Ok(etag) = HeaderValue::from_str(&etag) {
        response.headers_mut().insert(header::ETAG, etag);
    }
    response.headers_mut().insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    response
}

/// Returns whether a header lists this word.
fn lists(headers: &HeaderMap, name: HeaderName, word: &str) -> bool {
    let values = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|entry| entry.split(';').next().is_some_and(|it| it.trim() == word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(path: &str, headers: &[(HeaderName, &str)]) -> Response {
        let headers = headers.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect();
        answer(&Method::GET, path, &headers, "{}")
    }

    fn text(response: &Response, name: HeaderName) -> &str {
        response.headers().get(name).map_or("", |value| value.to_str().unwrap())
    }

    #[test]
    fn the_page_runs_nothing_but_its_own_files() {
        let page = get("/ui/", &[]);
        assert_eq!(page.status(), 200);
        let policy = text(&page, header::CONTENT_SECURITY_POLICY);
        assert!(policy.starts_with("default-src 'none'; script-src 'self';") && !policy.contains("unsafe"), "{policy}");
        assert_eq!(get("/ui", &[]).headers()[header::LOCATION], ROOT);
        assert_eq!(get("/ui/../certs/ca.key", &[]).status(), 404);
        assert_eq!(text(&get("/favicon.ico", &[]), header::CONTENT_TYPE), "image/svg+xml");
        assert_eq!(answer(&Method::POST, ROOT, &HeaderMap::new(), "{}").status(), 405);
    }

    #[test]
    fn files_are_compressed_and_sent_once() {
        let packed = get("/ui/main.js", &[(header::ACCEPT_ENCODING, "br, gzip;q=0.5")]);
        assert_eq!(text(&packed, header::CONTENT_ENCODING), "gzip");
        let etag = text(&packed, header::ETAG).to_owned();
        assert_eq!(get("/ui/main.js", &[(header::IF_NONE_MATCH, &etag)]).status(), 304);
        assert_eq!(text(&get("/ui/main.js", &[]), header::CONTENT_ENCODING), "");
    }
}
