//! Users that a front proxy names in headers. kube-apiserver is a front proxy for the servers
//! behind its aggregator (AN3-AN5, AG6).
//!
//! *Invariant:* the headers are read only if the peer's certificate comes from the proxies' own CA
//! and its name is an allowed one. Otherwise they are ignored.

use std::collections::BTreeMap;

use http::{HeaderMap, HeaderName};
use percent_encoding::percent_decode_str;
use rustls_pki_types::CertificateDer;

use super::client_cert::{self, ClientCa, Untrusted};
use super::well_known::with_authenticated_group;
use ballast_k8s::{Time, User};

/// Which peers may name a user, and in which headers.
#[derive(Debug)]
pub struct FrontProxy {
    pub ca: ClientCa,
    /// Allowed common names. An empty list allows every certificate of the CA.
    pub allowed_names: Vec<String>,
    pub headers: HeaderNames,
}

/// The names of the headers. Each list is in order of preference.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeaderNames {
    pub username: Vec<HeaderName>,
    pub uid: Vec<HeaderName>,
    pub group: Vec<HeaderName>,
    /// In lower case.
    pub extra_prefixes: Vec<String>,
}

impl FrontProxy {
    /// Checks that this chain belongs to a front proxy.
    pub(super) fn verify(&self, chain: &[CertificateDer<'_>], now: Time) -> Result<(), Untrusted> {
        let name = client_cert::common_name(self.ca.verify(chain, now)?).unwrap_or_default();
        match self.allowed_names.is_empty() || self.allowed_names.contains(&name) {
            true => Ok(()),
            false => Err(Untrusted::NotAllowed(name)),
        }
    }
}

impl HeaderNames {
    /// Returns the user that the headers name, if there is one.
    pub(super) fn user(&self, headers: &HeaderMap) -> Option<User> {
        let name = first(headers, &self.username)?;
        let groups = self.group.iter().flat_map(|header| texts(headers, header)).collect();
        let uid = first(headers, &self.uid).unwrap_or_default();
        Some(with_authenticated_group(User { name, uid, groups, extra: self.extra(headers) }))
    }

    fn extra(&self, headers: &HeaderMap) -> BTreeMap<String, Vec<String>> {
        let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for header in headers.keys() {
            // `HeaderMap` has all names in lower case.
            let keys = self.extra_prefixes.iter().filter_map(|prefix| header.as_str().strip_prefix(prefix.as_str()));
            for key in keys {
                let values = headers.get_all(header).iter().map(|value| text(value.as_bytes()));
                extra.entry(unescape(key)).or_default().extend(values);
            }
        }
        extra
    }
}

/// Decodes the key of an extra field. A key with malformed encoding is used unchanged.
pub(super) fn unescape(key: &str) -> String {
    percent_decode_str(key).decode_utf8().map_or_else(|_| key.to_owned(), |key| key.into_owned())
}

fn first(headers: &HeaderMap, names: &[HeaderName]) -> Option<String> {
    names.iter().find_map(|name| texts(headers, name).next())
}

fn texts<'h>(headers: &'h HeaderMap, name: &HeaderName) -> impl Iterator<Item = String> + 'h {
    headers.get_all(name).iter().map(|value| text(value.as_bytes())).filter(|text| !text.is_empty())
}

/// Returns a header's value as text. User names need not be ASCII.
pub(super) fn text(value: &[u8]) -> String {
    String::from_utf8_lossy(value).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> HeaderNames {
        HeaderNames {
            username: vec![HeaderName::from_static("x-remote-user"), HeaderName::from_static("x-user")],
            uid: vec![HeaderName::from_static("x-remote-uid")],
            group: vec![HeaderName::from_static("x-remote-group")],
            extra_prefixes: vec!["x-remote-extra-".to_owned()],
        }
    }

    fn user(headers: &[(&str, &str)]) -> Option<User> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let name: HeaderName = name.parse().unwrap();
            map.append(name, http::HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        names().user(&map)
    }

    #[test]
    fn an5_ag6_headers_name_user_groups_uid_and_extra() {
        let found = user(&[
            ("X-Remote-User", "jané"),
            ("X-Remote-Group", "staff"),
            ("X-Remote-Group", "ops"),
            ("X-Remote-Uid", "7"),
            ("X-Remote-Extra-Example.com%2fScopes", "read"),
            ("X-Remote-Extra-Example.com%2fScopes", "write"),
            ("X-Remote-Extra-bad%ff", "kept"),
        ])
        .unwrap();
        assert_eq!((&*found.name, &*found.uid), ("jané", "7"));
        assert_eq!(found.groups, ["staff", "ops", "system:authenticated"]);
        assert_eq!(found.extra["example.com/scopes"], ["read", "write"]);
        assert_eq!(found.extra["bad%ff"], ["kept"]);
    }

    #[test]
    fn an5_the_first_header_that_says_something_names_the_user() {
        assert_eq!(user(&[("x-user", "second")]).unwrap().name, "second");
        assert_eq!(user(&[("x-remote-user", ""), ("x-user", "second")]).unwrap().name, "second");
        assert_eq!(user(&[("x-remote-group", "system:masters")]), None, "groups without a user are nobody");
    }

    #[test]
    fn an9_who_names_no_group_is_authenticated_all_the_same_and_who_is_not_stays_so() {
        assert_eq!(user(&[("x-remote-user", "system:aggregator")]).unwrap().groups, ["system:authenticated"]);
        let headers = [("x-remote-user", "system:anonymous"), ("x-remote-group", "system:unauthenticated")];
        assert_eq!(user(&headers).unwrap().groups, ["system:unauthenticated"]);
    }
}
