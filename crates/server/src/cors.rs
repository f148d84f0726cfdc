//! CORS: pages of the origins in `--cors-allowed-origins` may read responses. Without the flag no
//! response has a CORS header, so browsers hide responses from pages of other sites. Requests from
//! pages of other origins are rejected (`other_site`).

use http::header::{self, HeaderName};
use http::request::Parts;
use http::{HeaderValue, Method, StatusCode};
use regex::Regex;

use axum::body::Body;

use super::respond::Response;

const METHODS: HeaderValue = HeaderValue::from_static("POST, GET, OPTIONS, PUT, DELETE, PATCH");
const HEADERS: HeaderValue = HeaderValue::from_static(
    "Content-Type, Content-Length, Accept-Encoding, X-CSRF-Token, Authorization, X-Requested-With, If-Modified-Since",
);
const EXPOSED: HeaderValue = HeaderValue::from_static("Date, Warning");
const TRUE: HeaderValue = HeaderValue::from_static("true");

/// The origins that may read responses. The default is none.
#[derive(Clone, Debug, Default)]
pub struct Cors {
    allowed: Vec<Regex>,
}

/// The reason why a pattern is rejected.
#[derive(Debug, thiserror::Error)]
pub enum CorsError {
    #[error("{0:?} is no regular expression")]
    Unreadable(String, #[source] regex::Error),
    #[error("{0:?} would fit a part of a name: begin it with ^ or //, and end it with $ or a colon")]
    Open(String),
}

impl Cors {
    /// Compiles the patterns, which are regular expressions of origins. As in kube-apiserver each
    /// must match the whole origin, so that `good.example` does not allow `good.example.evil`.
    pub fn new(patterns: &[String]) -> Result<Cors, CorsError> {
        let read = |pattern: &String| {
            let begins = pattern.starts_with('^') || pattern.starts_with("//");
            if !begins || !pattern.ends_with(['$', ':']) {
                return Err(CorsError::Open(pattern.clone()));
            }
            Regex::new(pattern).map_err(|error| CorsError::Unreadable(pattern.clone(), error))
        };
        Ok(Cors { allowed: patterns.iter().map(read).collect::<Result<_, _>>()? })
    }

    /// Returns the origin of the request, if it is allowed.
    pub fn origin<'a>(&self, parts: &'a Parts) -> Option<&'a HeaderValue> {
        let origin = parts.headers.get(header::ORIGIN)?;
        let text = origin.to_str().ok()?;
        self.allowed.iter().any(|pattern| pattern.is_match(text)).then_some(origin)
    }

    /// Returns the response to a preflight request. Browsers send it without credentials.
    pub fn preflight(&self, parts: &Parts) -> Option<Response> {
        let asks = parts.method == Method::OPTIONS && parts.headers.contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
        let origin = self.origin(parts).filter(|_| asks)?;
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NO_CONTENT;
        allow(&mut response, origin);
        response.headers_mut().insert(header::ACCESS_CONTROL_ALLOW_METHODS, METHODS);
        response.headers_mut().insert(header::ACCESS_CONTROL_ALLOW_HEADERS, HEADERS);
        Some(response)
    }
}

/// Allows pages of this origin to read the response.
pub fn allow(response: &mut Response, origin: &HeaderValue) {
    let headers = response.headers_mut();
    let pairs: [(HeaderName, HeaderValue); 4] = [
        (header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone()),
        (header::ACCESS_CONTROL_ALLOW_CREDENTIALS, TRUE),
        (header::ACCESS_CONTROL_EXPOSE_HEADERS, EXPOSED),
        (header::VARY, HeaderValue::from_static("Origin")),
    ];
    for (name, value) in pairs {
        headers.append(name, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(method: Method, headers: &[(&str, &str)]) -> Parts {
        let mut request = http::Request::builder().method(method);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    #[test]
    fn only_origins_that_fit_from_end_to_end_are_allowed() {
        let cors = Cors::new(&[r"^https://good\.example$".to_owned(), "//localhost:".to_owned()]).unwrap();
        for (origin, expected) in [
            ("https://good.example", true),
            ("https://good.example.evil", false),
            ("http://localhost:3000", true),
            ("null", false),
        ] {
            let parts = request(Method::GET, &[("origin", origin)]);
            assert_eq!(cors.origin(&parts).is_some(), expected, "{origin}");
            assert!(Cors::default().origin(&parts).is_none(), "off unless configured");
        }
        for open in ["good.example", "^good", "("] {
            assert!(Cors::new(&[open.to_owned()]).is_err(), "{open}");
        }
    }

    #[test]
    fn a_browser_that_asks_beforehand_is_answered() {
        let cors = Cors::new(&["^https://good$".to_owned()]).unwrap();
        let asks = [("origin", "https://good"), ("access-control-request-method", "PATCH")];
        let answer = cors.preflight(&request(Method::OPTIONS, &asks)).unwrap();
        assert_eq!(answer.status(), 204);
        assert_eq!(answer.headers()[header::ACCESS_CONTROL_ALLOW_ORIGIN], "https://good");
        assert!(cors.preflight(&request(Method::OPTIONS, &asks[..1])).is_none());
        assert!(cors.preflight(&request(Method::GET, &asks)).is_none());
    }
}
