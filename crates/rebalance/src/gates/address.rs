//! Which addresses gates may ask (SG17). Pure.
//!
//! Addresses are compared as parsed: scheme, host, port and whole segments of the path. Parsing
//! resolves `..`, so that no path leaves its prefix.

use std::fmt;
use std::str::FromStr;

use url::Url;

/// An address below which gates may ask.
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
    /// Whether the address is this one, or below it.
    pub fn covers(&self, url: &Url) -> bool {
        let is_same = |of: fn(&Url) -> Option<String>| of(&self.0) == of(url);
        is_same(|url| Some(url.scheme().to_owned()))
            && is_same(|url| url.host_str().map(str::to_owned))
            && is_same(|url| url.port_or_known_default().map(|port| port.to_string()))
            && is_below(self.0.path(), url.path())
    }
}

/// Whether the path is the prefix, or goes on with another segment.
fn is_below(prefix: &str, path: &str) -> bool {
    let prefix = prefix.trim_end_matches('/');
    path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// An address of http or https, without a user.
///
/// # Errors
///
/// What is wrong with it, in words.
pub fn parse(text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| format!("is no address: {error}"))?;
    let is_web = matches!(url.scheme(), "http" | "https") && url.has_host();
    if !is_web {
        return Err("must begin with http:// or https:// and name a host".to_owned());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("must not name a user: headers come from --gate-headers-file".to_owned());
    }
    // Some servers take a slash or a dot that is written as %2F or %2E for a plain one.
    let path = url.path().to_ascii_lowercase();
    if ["%2f", "%5c", "%2e", "//"].iter().any(|part| path.contains(part)) {
        return Err("must have a plain path, without //, %2F, %5C and %2E".to_owned());
    }
    Ok(url)
}

/// The address, if one of the allowed ones covers it.
///
/// # Errors
///
/// What is wrong with it, in words.
pub fn allowed(text: &str, allow: &[AllowedAddress]) -> Result<Url, String> {
    let url = parse(text)?;
    if url.fragment().is_some() {
        return Err("must not have a fragment".to_owned());
    }
    match allow.iter().any(|allowed| allowed.covers(&url)) {
        true => Ok(url),
        false => Err("is not allowed: an administrator names the addresses by --gate-address-allow".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
            ("http://prom.example:9090/api/v1/query", true),
            ("http://prom.example/api", false),
            ("file:///etc/passwd", false),
            ("ftp://ci.example/hooks", false),
            ("ci.example/hooks", false),
            ("", false),
        ] {
            assert_eq!(allowed(address, &allow).is_ok(), is_allowed, "{address}");
        }
        assert!("https://ci.example/?x=1".parse::<AllowedAddress>().is_err());
        assert!(allowed("https://ci.example/hooks", &[]).is_err());
    }
}
