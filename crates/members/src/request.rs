//! Converts a client's request to the request for the member (CP2).

use std::net::IpAddr;
use std::sync::Arc;

use axum::body::Body;
use http::header::{self, HeaderName};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderMap, HeaderValue, Request, Uri, Version};
use percent_encoding::percent_decode_str;

use ballast_k8s::{Status, User};
use ballast_server::{Peer, hop_by_hop};

const USER: HeaderName = HeaderName::from_static("impersonate-user");
const GROUP: HeaderName = HeaderName::from_static("impersonate-group");
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
/// Groups that the member adds to each user itself. An impersonator must not name them (CP2).
const IMPLIED_GROUPS: [&str; 2] = ["system:authenticated", "system:unauthenticated"];
/// Prefixes of headers that identify a user to this server. They are not forwarded.
const OF_IDENTITY: [&str; 3] = ["impersonate-", "x-remote-", "x-ballast-"];

/// The address of a member's API server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint {
    pub scheme: Scheme,
    pub authority: Authority,
    /// The prefix of all paths, without a trailing slash.
    pub prefix: String,
}

/// Returns the URL of `path` at the member. Fails if the path leaves the endpoint.
pub fn target(endpoint: &Endpoint, path: &str, query: Option<&str>) -> Result<Uri, Status> {
    let climbs = path.split('/').any(|segment| {
        let segment = percent_decode_str(segment).decode_utf8_lossy();
        segment.split(['/', '\\']).any(|part| part == "." || part == "..")
    });
    if climbs {
        return Err(Status::bad_request("the path after /proxy may not have the segments '.' and '..'"));
    }
    let path = if path.is_empty() { "/" } else { path };
    let query = query.map(|query| format!("?{query}")).unwrap_or_default();
    let whole = format!("{}{path}{query}", endpoint.prefix);
    let whole: PathAndQuery = whole.parse().map_err(|_| Status::bad_request("the path after /proxy is no path"))?;
    let uri = Uri::builder().scheme(endpoint.scheme.clone()).authority(endpoint.authority.clone());
    uri.path_and_query(whole).build().map_err(Status::internal)
}

/// Returns the request for the member: with URL `target` and bearer token `token`, on behalf of
/// `user`.
pub fn to_member(
    request: Request<Body>,
    target: Uri,
    user: &User,
    token: &HeaderValue,
) -> Result<Request<Body>, Status> {
    let (parts, body) = request.into_parts();
    let mut headers = parts.headers;
    // Only HTTP/1.1 supports upgrades to other protocols.
    let protocol = hop_by_hop::upgrade(&headers).filter(|_| parts.version == Version::HTTP_11);
    hop_by_hop::remove(&mut headers);
    let is_of_identity = |name: &HeaderName| OF_IDENTITY.iter().any(|start| name.as_str().starts_with(start));
    let own: Vec<HeaderName> = headers.keys().filter(|name| is_of_identity(name)).cloned().collect();
    let about_body = [header::CONTENT_LENGTH, header::EXPECT, header::HOST, header::COOKIE];
    for name in own.iter().chain(&about_body) {
        headers.remove(name);
    }
    if let Some(peer) = parts.extensions.get::<Arc<Peer>>() {
        forwarded_for(&mut headers, peer.address.ip());
    }
    if let Some(protocol) = protocol {
        hop_by_hop::request_upgrade(&mut headers, protocol);
    }
    headers.insert(header::AUTHORIZATION, token.clone());
    name_user(&mut headers, user)?;
    let mut request = Request::new(body);
    *request.method_mut() = parts.method;
    *request.uri_mut() = target;
    *request.headers_mut() = headers;
    Ok(request)
}

/// Adds headers that name the user and the groups, as Karmada does. The UID and extra fields are
/// omitted, because the role of Karmada's impersonator does not allow them.
fn name_user(headers: &mut HeaderMap, user: &User) -> Result<(), Status> {
    let value = |text: &str| {
        HeaderValue::from_bytes(text.as_bytes())
            .map_err(|_| Status::bad_request("the name of the user or of a group cannot be sent to a member cluster"))
    };
    headers.insert(USER, value(&user.name)?);
    for group in user.groups.iter().filter(|group| !IMPLIED_GROUPS.contains(&group.as_str())) {
        headers.append(GROUP, value(group)?);
    }
    Ok(())
}

/// Appends the client's address to the header `X-Forwarded-For`.
fn forwarded_for(headers: &mut HeaderMap, address: IpAddr) {
    let before = headers.get_all(&FORWARDED_FOR).iter().filter_map(|value| value.to_str().ok());
    let all: Vec<String> = before.map(str::to_owned).chain([address.to_string()]).collect();
    if let Ok(value) = HeaderValue::from_str(&all.join(", ")) {
        headers.insert(FORWARDED_FOR, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(prefix: &str) -> Endpoint {
        Endpoint { scheme: Scheme::HTTPS, authority: "m1:6443".parse().unwrap(), prefix: prefix.to_owned() }
    }

    #[test]
    fn cp2_a_path_stays_below_its_endpoint_and_is_not_changed() {
        for (prefix, path, query, expected) in [
            ("", "", None, "https://m1:6443/"),
            ("/k8s/c-1", "", None, "https://m1:6443/k8s/c-1/"),
            ("/k8s/c-1", "/api/v1/pods", Some("watch=1&x=%2F"), "https://m1:6443/k8s/c-1/api/v1/pods?watch=1&x=%2F"),
            ("", "/a%2Fb/", None, "https://m1:6443/a%2Fb/"),
        ] {
            assert_eq!(target(&endpoint(prefix), path, query).unwrap(), expected);
        }
        for path in ["/..", "/../c-2/api", "/a/./b", "/%2e%2E/c-2", "/a%2F..%2Fb", "/..%5Cb"] {
            assert_eq!(target(&endpoint("/k8s/c-1"), path, None).unwrap_err().code, 400, "{path}");
        }
    }

    #[test]
    fn cp2_the_member_is_told_the_user_and_nothing_that_the_client_says_of_itself() {
        let mut request = Request::builder().method("POST").uri("/x").header("content-length", "0");
        for (name, value) in [
            ("Authorization", "Bearer mine"),
            ("Impersonate-User", "root"),
            ("Impersonate-Group", "system:masters"),
            ("Impersonate-Extra-Scope", "all"),
            ("X-Remote-User", "root"),
            ("Cookie", "a=b"),
            ("Connection", "Upgrade, X-Mine"),
            ("X-Mine", "1"),
            ("Upgrade", "SPDY/3.1"),
            ("X-Stream-Protocol-Version", "v4.channel.k8s.io"),
        ] {
            request = request.header(name, value);
        }
        let user = User {
            name: "jané".to_owned(),
            uid: "7".to_owned(),
            groups: ["ops", "system:authenticated"].map(str::to_owned).to_vec(),
            extra: [("scope".to_owned(), vec!["read".to_owned()])].into(),
        };
        let token = HeaderValue::from_static("Bearer theirs");
        let uri: Uri = "https://m1/api".parse().unwrap();
        let request = to_member(request.body(Body::empty()).unwrap(), uri, &user, &token).unwrap();
        let mut headers: Vec<String> = request
            .headers()
            .iter()
            .map(|(name, value)| format!("{name}: {}", String::from_utf8_lossy(value.as_bytes())))
            .collect();
        headers.sort();
        assert_eq!(
            headers,
            [
                "authorization: Bearer theirs",
                "connection: Upgrade",
                "impersonate-group: ops",
                "impersonate-user: jané",
                "upgrade: SPDY/3.1",
                "x-stream-protocol-version: v4.channel.k8s.io",
            ]
        );
        assert_eq!((request.method().as_str(), request.uri().host()), ("POST", Some("m1")));
    }
}
