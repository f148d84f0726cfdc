//! Detects requests that a browser sends for a page of another site (WH1). Pure functions.
//!
//! A browser adds its user's client certificate or cookie to requests of any page, so a page of
//! another site could act as the user. Such a page can send a POST without a Content-Type, which
//! needs no preflight, and it can open WebSockets. The browser reports the origin of a request in
//! `Sec-Fetch-Site`, and older browsers only in `Origin`. Pages cannot set these headers.
//!
//! Other clients send neither, and pass. Requests with a credential that browsers do not add
//! automatically pass, too (`Authenticator::is_added_by_browser`).

use http::header::{self, HeaderName};
use http::{HeaderMap, HeaderValue, Method};

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");

/// Returns whether a browser sends the request for a page of another site. `is_own` checks an
/// origin; it is called only if the browser does not send `Sec-Fetch-Site`.
pub fn sends(headers: &HeaderMap, is_own: impl Fn(&str) -> bool) -> bool {
    if headers.contains_key(FETCH_SITE) {
        return headers.get_all(FETCH_SITE).iter().any(|site| site != "same-origin" && site != "none");
    }
    let is_foreign = |origin: &HeaderValue| !origin.to_str().is_ok_and(&is_own);
    headers.get_all(header::ORIGIN).iter().any(is_foreign)
}

/// Returns whether a browser opens the address in a window, by a link or a redirect. The page with
/// the link does not see the response.
pub fn is_navigation(method: &Method, headers: &HeaderMap) -> bool {
    method == Method::GET && headers.get(FETCH_MODE).is_some_and(|mode| mode == "navigate")
}

/// Returns whether an origin is `https://` or `http://` with this host and port.
pub fn is_at(origin: &str, host: &str) -> bool {
    ["https://", "http://"]
        .into_iter()
        .filter_map(|scheme| origin.strip_prefix(scheme))
        .any(|origin| !host.is_empty() && origin.eq_ignore_ascii_case(host))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_foreign(pairs: &[(&'static str, &str)]) -> bool {
        let headers = pairs.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()));
        sends(&headers.collect(), |origin| origin == "https://own:1")
    }

    #[test]
    fn wh1_what_the_browser_says_of_the_site_decides_before_the_origin() {
        for (expected, pairs) in [
            (false, [].as_slice()),
            (false, &[("sec-fetch-site", "same-origin"), ("origin", "http://elsewhere")]),
            (false, &[("sec-fetch-site", "none"), ("origin", "null")]),
            (true, &[("sec-fetch-site", "cross-site"), ("origin", "https://own:1")]),
            (true, &[("sec-fetch-site", "same-site")]),
            (true, &[("sec-fetch-site", "something-new")]),
            (false, &[("origin", "https://own:1")]),
            (true, &[("origin", "https://own:2")]),
            (true, &[("origin", "null")]),
            (true, &[("origin", "")]),
        ] {
            assert_eq!(is_foreign(pairs), expected, "{pairs:?}");
        }
        let mut twice = HeaderMap::new();
        twice.append(FETCH_SITE, HeaderValue::from_static("same-origin"));
        twice.append(FETCH_SITE, HeaderValue::from_static("cross-site"));
        assert!(sends(&twice, |_| true));
    }

    #[test]
    fn an_origin_is_a_scheme_and_the_whole_host_with_its_port() {
        for (origin, host, expected) in [
            ("https://a.example:7443", "a.example:7443", true),
            ("https://A.example:7443", "a.Example:7443", true),
            ("http://localhost:8001", "localhost:8001", true),
            ("https://a.example", "a.example:7443", false),
            ("https://a.example.evil:7443", "a.example:7443", false),
            ("ftp://a.example", "a.example", false),
            ("https://", "", false),
            ("null", "null", false),
        ] {
            assert_eq!(is_at(origin, host), expected, "{origin} {host}");
        }
    }
}
