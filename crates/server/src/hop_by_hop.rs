//! Hop-by-hop headers, which belong to one connection and are not forwarded (RFC 9110, 7.6.1).

use http::header::{self, HeaderName};
use http::{HeaderMap, HeaderValue};

const HOP_BY_HOP: [HeaderName; 9] = [
    header::CONNECTION,
    header::PROXY_AUTHENTICATE,
    header::PROXY_AUTHORIZATION,
    header::TE,
    header::TRAILER,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
];

/// Removes these headers, and the headers that `Connection` names.
pub fn remove(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in HOP_BY_HOP.iter().chain(&named) {
        headers.remove(name);
    }
}

/// Returns the protocol in the upgrade header of a request or response.
pub fn upgrade(headers: &HeaderMap) -> Option<HeaderValue> {
    let asks = headers.get_all(header::CONNECTION).iter().filter_map(|value| value.to_str().ok());
    let asks = asks.flat_map(|value| value.split(',')).any(|name| name.trim().eq_ignore_ascii_case("upgrade"));
    headers.get(header::UPGRADE).filter(|_| asks).cloned()
}

/// Adds the headers of an upgrade again, which `remove` has removed.
pub fn request_upgrade(headers: &mut HeaderMap, protocol: HeaderValue) {
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::UPGRADE, protocol);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cp5_headers_of_a_connection_go_no_further() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "keep-alive, X-Mine"),
            ("connection", "Upgrade"),
            ("upgrade", "SPDY/3.1"),
            ("x-mine", "1"),
            ("te", "trailers"),
            ("accept", "*/*"),
        ] {
            headers.append(name, HeaderValue::from_static(value));
        }
        let protocol = upgrade(&headers);
        assert_eq!(protocol.as_ref().map(HeaderValue::as_bytes), Some(&b"SPDY/3.1"[..]));
        remove(&mut headers);
        let left: Vec<&str> = headers.keys().map(HeaderName::as_str).collect();
        assert_eq!(left, ["accept"]);
        assert_eq!(upgrade(&headers), None);
        request_upgrade(&mut headers, protocol.unwrap());
        assert_eq!(headers["connection"], "Upgrade");
    }

    #[test]
    fn an_upgrade_without_its_connection_header_is_none() {
        let mut headers = HeaderMap::new();
        headers.insert("upgrade", HeaderValue::from_static("websocket"));
        assert_eq!(upgrade(&headers), None);
    }
}
