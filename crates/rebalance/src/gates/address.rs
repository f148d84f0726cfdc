//! The addresses that gates may request (SG17). Pure.
//!
//! Addresses are compared as parsed: scheme, host, port and whole segments of the path. Parsing
//! resolves `..`, so that no path leaves its prefix.
//!
//! An allowed address applies to one type of gate. Without a path, or with one that ends with
//! `/api/v1/query`, it allows only queries of Prometheus gates: otherwise a webhook gate could send
//! a POST with private headers to the rest of the API of a Prometheus, such as `/-/quit`. Any other
//! address is for webhooks.

use std::fmt;
use std::str::FromStr;

use url::Url;

use ballast_api::ballast::v1alpha1::Gate;

/// The path of an instant query, below the address of a Prometheus gate.
const QUERY_PATH: &str = "/api/v1/query";

/// The address of a request, with its type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateUrl {
    pub url: Url,
    is_query: bool,
}

impl GateUrl {
    /// Returns the address that a gate requests.
    ///
    /// # Errors
    ///
    /// The address is invalid; the error is a message.
    pub fn of(gate: &Gate) -> Result<GateUrl, String> {
        let (_, address) = gate.address().ok_or("names no address")?;
        let mut url = parse(address)?;
        if url.fragment().is_some() {
            return Err("must not have a fragment".to_owned());
        }
        let is_query = gate.prometheus.is_some();
        if is_query {
            if url.query().is_some() {
                return Err("must end with its path".to_owned());
            }
            let path = format!("{}{QUERY_PATH}", url.path().trim_end_matches('/'));
            url.set_path(&path);
        }
        Ok(GateUrl { url, is_query })
    }
}

/// An address prefix that gates may request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowedAddress(Url);

impl FromStr for AllowedAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<AllowedAddress, String> {
        let url = parse(text)?;
        match (url.query(), url.fragment()) {
            (None, None) => Ok(AllowedAddress(url)),
            _ => Err("an allowed address ends with its path".to_owned()),
        }
    }
}

impl fmt::Display for AllowedAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl AllowedAddress {
    /// Returns whether the address is for queries of Prometheus gates. Otherwise it is for
    /// webhooks.
    fn is_for_queries(&self) -> bool {
        self.0.path() == "/" || self.0.path().trim_end_matches('/').ends_with(QUERY_PATH)
    }

    /// Returns whether the request is for this address or below it, and of its type.
    fn covers(&self, to: &GateUrl) -> bool {
        self.is_for_queries() == to.is_query && self.is_above(&to.url)
    }

    /// Returns whether headers for this address are sent with the request. Headers of a whole
    /// Prometheus are for queries only.
    pub fn lends_headers_to(&self, to: &GateUrl) -> bool {
        (to.is_query || !self.is_for_queries()) && self.is_above(&to.url)
    }

    fn is_above(&self, url: &Url) -> bool {
        let is_same = |of: fn(&Url) -> Option<String>| of(&self.0) == of(url);
        is_same(|url| Some(url.scheme().to_owned()))
            && is_same(|url| url.host_str().map(str::to_owned))
            && is_same(|url| url.port_or_known_default().map(|port| port.to_string()))
            && is_below(self.0.path(), url.path())
    }
}

/// Returns whether the path is the prefix, or continues with another segment.
fn is_below(prefix: &str, path: &str) -> bool {
    let prefix = prefix.trim_end_matches('/');
    path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Parses an http or https address without a user.
///
/// # Errors
///
/// The address is invalid; the error is a message.
pub fn parse(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| format!("is no address: {error}"))?;
    let is_web = matches!(url.scheme(), "http" | "https") && url.has_host();
    if !is_web {
        return Err("must begin with http:// or https:// and name a host".to_owned());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("must not name a user: headers come from --gate-headers-file".to_owned());
    }
    // Some servers treat %2F or %2E as a plain slash or dot.
    let path = url.path().to_ascii_lowercase();
    if ["%2f", "%5c", "%2e", "//"].iter().any(|part| path.contains(part)) {
        return Err("must have a plain path, without //, %2F, %5C and %2E".to_owned());
    }
    Ok(url)
}

/// Returns the address that the gate requests, if an allowed address covers it.
///
/// # Errors
///
/// The address is invalid or not allowed; the error is a message.
pub fn allowed(gate: &Gate, allow: &[AllowedAddress]) -> Result<GateUrl, String> {
    let requested = GateUrl::of(gate)?;
    if allow.iter().any(|allowed| allowed.covers(&requested)) {
        return Ok(requested);
    }
    let url = &requested.url;
    Err(match requested.is_query {
        true => format!("is not allowed: an administrator allows the query by --gate-address-allow={url}"),
        false => "is not allowed: an administrator names the addresses of webhooks, with their paths, by \
                  --gate-address-allow"
            .to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ballast_api::ballast::v1alpha1::{PrometheusGate, WebhookGate};

    #[test]
    fn sg17_an_address_is_compared_as_parsed() {
        let allow: Vec<AllowedAddress> =
            ["https://ci.example/hooks/", "http://prom.example:9090"].map(|it| it.parse().unwrap()).to_vec();
        for (address, is_allowed) in [
            ("https://ci.example/hooks", true),
            ("https://ci.example/hooks/check?a=b", true),
            ("HTTPS://CI.Example:443/hooks/x", true),
            ("https://ci.example/hooksx", false),
            ("https://ci.example/hooks/../admin", false),
            ("https://ci.example/hooks/%2e%2e/admin", false),
            ("https://ci.example/hooks/..%2fadmin", false),
            ("https://ci.example/hooks//x", false),
            ("https://ci.example/hooks\\..\\admin", false),
            ("http://ci.example/hooks", false),
            ("https://ci.example:8443/hooks", false),
            ("https://ci.example.evil.example/hooks", false),
            ("https://ci.example@evil.example/hooks", false),
            ("https://evil.example/#https://ci.example/hooks", false),
            ("https://u:p@ci.example/hooks", false),
            ("https://ci.example/hooks#x", false),
            ("http://prom.example:9090/api/v1/query", false),
            ("http://prom.example:9090/-/quit", false),
            ("http://prom.example:9090", false),
            ("file:///etc/passwd", false),
            ("ftp://ci.example/hooks", false),
            ("ci.example/hooks", false),
            ("", false),
        ] {
            assert_eq!(allowed(&webhook(address), &allow).is_ok(), is_allowed, "{address}");
        }
        assert!("https://ci.example/?x=1".parse::<AllowedAddress>().is_err());
        assert!(allowed(&webhook("https://ci.example/hooks"), &[]).is_err());
    }

    fn webhook(url: &str) -> Gate {
        Gate { webhook: Some(WebhookGate { url: url.to_owned() }), ..Gate::default() }
    }

    #[test]
    fn sg17_the_address_of_the_query_is_compared() {
        let query = |address: &str| Gate {
            prometheus: Some(PrometheusGate { address: address.to_owned(), ..PrometheusGate::default() }),
            ..Gate::default()
        };
        for (allow, address, is_allowed) in [
            ("http://prom.example", "http://prom.example", true),
            ("http://prom.example", "http://prom.example/team/", true),
            ("http://prom.example/api/v1/query", "http://prom.example/", true),
            ("http://prom.example/team/api/v1/query", "http://prom.example/team", true),
            ("http://prom.example/team/api/v1/query", "http://prom.example", false),
            ("http://prom.example/team", "http://prom.example/team", false),
            ("http://prom.example/api", "http://prom.example", false),
            ("http://prom.example", "http://prom.example?x=1", false),
            ("http://prom.example", "http://prom.example:8080", false),
        ] {
            let found = allowed(&query(address), &[allow.parse().unwrap()]);
            assert_eq!(found.is_ok(), is_allowed, "{address} with {allow}");
            if let Ok(found) = found {
                assert!(found.url.path().ends_with(QUERY_PATH), "{}", found.url);
            }
        }
        let fault = allowed(&query("https://host/prom"), &["https://host/prom".parse().unwrap()]).unwrap_err();
        assert!(fault.ends_with("--gate-address-allow=https://host/prom/api/v1/query"), "{fault}");
        let allow = ["https://ci.example/api/v1/query".parse().unwrap()];
        assert!(allowed(&webhook("https://ci.example/api/v1/query"), &allow).is_err(), "of one sort");
    }
}
