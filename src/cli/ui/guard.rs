//! Restricts the page's proxy to the page that this process served. Pure.
//!
//! A request that passes acts with the user's credentials. Therefore a name that resolves to the
//! loopback address (DNS rebinding) is rejected by `Host`, another site's page by `Origin`, and
//! other users of the machine by the secret.
//!
//! The secret is not in a cookie, because a browser sends the cookies of 127.0.0.1 to each of its
//! ports, and other users may listen there (RFC 6265, 8.5). The page keeps it in its storage, which
//! is separate for each origin, and sends it as a header, and as a subprotocol of a WebSocket.

use http::Method;
use http::header::{self, HeaderMap, HeaderName};

use ballast_server::{other_site, page};

/// Accessible paths besides the page: the API, and the status endpoints of a Kubernetes server.
const API: [&str; 8] = ["api", "apis", "openapi", "version", "healthz", "livez", "readyz", "metrics"];
const ENTRANCE: &str = "/enter/";
const SECRET: HeaderName = HeaderName::from_static("x-ballast-ui-secret");
/// The subprotocol of the page's WebSockets. A second one is this, a dot, and the secret, because a
/// page cannot set headers of a WebSocket.
pub const PROTOCOL: &str = "ballast-ui";

pub struct Guard {
    port: u16,
    /// The accepted forms of the own address.
    hosts: [String; 2],
    secret: String,
}

/// The reason of a rejection: a word for programs and a sentence for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error(
        "the Host of this request is not the page's own address: the page is only at port {port} of 127.0.0.1; forward \
         the same port, or choose another one with --port"
    )]
    ForeignHost { port: u16 },
    #[error("this request comes from another site than the page")]
    ForeignOrigin,
    #[error("the secret of this run is missing: open the address that `ballast ui` printed")]
    NoSecret,
    #[error("this path is not part of the Kubernetes API; only /api, /apis and what belongs to them are passed on")]
    OutsideApi,
}

impl Guard {
    pub fn new(port: u16, secret: String) -> Guard {
        let hosts = ["127.0.0.1", "localhost"].map(|name| format!("{name}:{port}"));
        Guard { port, hosts, secret }
    }

    /// Returns the address that admits a browser.
    pub fn entrance(&self) -> String {
        format!("http://{}{ENTRANCE}{}", self.hosts[0], self.secret)
    }

    /// Returns the address of the page with the secret, if this is the path of the entrance. A
    /// browser sends the fragment to no server.
    pub fn enters(&self, path: &str) -> Option<String> {
        let given = path.strip_prefix(ENTRANCE)?;
        same(given, &self.secret).then(|| format!("{}#enter={}", page::ROOT, self.secret))
    }

    /// Checks that a request comes from the own address. A link from another origin may lead to the
    /// entrance, such as the file that `--open` writes.
    pub fn check_sender(&self, method: &Method, path: &str, headers: &HeaderMap) -> Result<(), Refusal> {
        let text = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or_default());
        if !text(header::HOST).is_some_and(|host| self.hosts.iter().any(|own| own == host)) {
            return Err(Refusal::ForeignHost { port: self.port });
        }
        let is_own =
            |origin: &str| origin.strip_prefix("http://").is_some_and(|origin| Some(origin) == text(header::HOST));
        let enters = || other_site::is_navigation(method, headers) && path.starts_with(ENTRANCE);
        match other_site::sends(headers, is_own) && !enters() {
            true => Err(Refusal::ForeignOrigin),
            false => Ok(()),
        }
    }

    /// Checks that a request contains the secret.
    pub fn check_secret(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let texts = |name| headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
        let protocols = texts(header::SEC_WEBSOCKET_PROTOCOL).flat_map(|names| names.split(',')).map(str::trim);
        let of_sockets = protocols.filter_map(|name| name.strip_prefix(PROTOCOL)?.strip_prefix('.'));
        match texts(SECRET).chain(of_sockets).any(|given| same(given, &self.secret)) {
            true => Ok(()),
            false => Err(Refusal::NoSecret),
        }
    }
}

/// Checks that a path is forwarded. Paths that a server might interpret differently are not.
pub fn check_path(path: &str) -> Result<(), Refusal> {
    let mut segments = path.trim_start_matches('/').split('/');
    let is_known = segments.next().is_some_and(|first| API.contains(&first));
    let is_odd = |segment: &str| {
        let decoded = percent_encoding::percent_decode_str(segment).decode_utf8_lossy().into_owned();
        matches!(decoded.as_str(), "." | "..") || decoded.contains(['/', '\\'])
    };
    match is_known && path.starts_with('/') && !path.contains("//") && !segments.any(is_odd) {
        true => Ok(()),
        false => Err(Refusal::OutsideApi),
    }
}

/// Compares in constant time, so that the duration reveals nothing.
fn same(given: &str, secret: &str) -> bool {
    given.len() == secret.len() && given.bytes().zip(secret.bytes()).fold(0, |seen, (a, b)| seen | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect()
    }

    fn guard() -> Guard {
        Guard::new(4321, "s3cret".to_owned())
    }

    #[test]
    fn only_the_own_host_and_origin_get_in() {
        for (expected, pairs) in [
            (Ok(()), [("host", "127.0.0.1:4321"), ("origin", "http://127.0.0.1:4321")].as_slice()),
            (Ok(()), &[("host", "localhost:4321"), ("sec-fetch-site", "none")]),
            (Err(Refusal::ForeignHost { port: 4321 }), &[("host", "rebound.example:4321")]),
            (Err(Refusal::ForeignHost { port: 4321 }), &[("host", "127.0.0.1:80")]),
            (Err(Refusal::ForeignHost { port: 4321 }), &[]),
            (Err(Refusal::ForeignOrigin), &[("host", "127.0.0.1:4321"), ("origin", "http://evil.example")]),
            (Err(Refusal::ForeignOrigin), &[("host", "127.0.0.1:4321"), ("origin", "http://localhost:4321")]),
            (Err(Refusal::ForeignOrigin), &[("host", "127.0.0.1:4321"), ("origin", "null")]),
            (Err(Refusal::ForeignOrigin), &[("host", "127.0.0.1:4321"), ("sec-fetch-site", "cross-site")]),
        ] {
            assert_eq!(guard().check_sender(&Method::GET, "/version", &headers(pairs)), expected, "{pairs:?}");
        }
    }

    #[test]
    fn wh4_a_file_leads_to_the_entrance_and_to_nothing_else() {
        let host = ("host", "127.0.0.1:4321");
        let opened = [host, ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")];
        let fetched = [host, ("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "no-cors")];
        let foreign = Err(Refusal::ForeignOrigin);
        for (expected, method, path, pairs) in [
            (Ok(()), Method::GET, "/enter/s3cret", &opened),
            (foreign, Method::POST, "/enter/s3cret", &opened),
            (foreign, Method::GET, "/enter/s3cret", &fetched),
            (foreign, Method::GET, "/apis", &opened),
        ] {
            assert_eq!(guard().check_sender(&method, path, &headers(pairs)), expected, "{method} {path} {pairs:?}");
        }
    }

    #[test]
    fn the_secret_of_this_run_opens_and_no_other() {
        let guard = guard();
        assert_eq!(guard.entrance(), "http://127.0.0.1:4321/enter/s3cret");
        assert_eq!(guard.enters("/enter/s3cret").as_deref(), Some("/ui/#enter=s3cret"));
        assert_eq!(guard.enters("/enter/s3cre7"), None);
        let (secret, protocol) = ("x-ballast-ui-secret", "sec-websocket-protocol");
        for right in [(secret, "s3cret"), (protocol, "ballast-ui.s3cret"), (protocol, "ballast-ui, ballast-ui.s3cret")]
        {
            assert_eq!(guard.check_secret(&headers(&[right])), Ok(()), "{right:?}");
        }
        for wrong in [
            (secret, "x"),
            (secret, "s3cret0"),
            (protocol, "s3cret"),
            (protocol, "ballast-ui, ballast-ui.x"),
            // A cookie is sent to other ports, too.
            ("cookie", "ballast-ui-4321=s3cret"),
        ] {
            assert_eq!(guard.check_secret(&headers(&[wrong])), Err(Refusal::NoSecret), "{wrong:?}");
        }
    }

    #[test]
    fn only_paths_of_the_api_are_passed_on() {
        for path in ["/apis", "/api/v1/events", "/apis/g/v1/things/a%20b", "/metrics", "/version"] {
            assert_eq!(check_path(path), Ok(()), "{path}");
        }
        for path in ["/", "/etc/passwd", "/apis/../x", "/apis/%2e%2e/x", "/apis/a%2Fb", "//apis", "apis", "/apisx"] {
            assert_eq!(check_path(path), Err(Refusal::OutsideApi), "{path}");
        }
    }
}
