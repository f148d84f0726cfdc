//! Sends a watch over a WebSocket: one text message with a JSON object and a newline for each
//! event, as kube-apiserver does (CU1). Browser consoles watch this way.
//!
//! A browser opens WebSockets for pages of any site, so a handshake without an `Origin` is
//! rejected, and `other_site` has already rejected those of other sites.
//!
//! *Invariant:* the watch ends with its connection, and a client that does not read costs one event
//! and the buffers of its connection. Meanwhile its watch falls out of the window of past events
//! (WA17).

use std::any::Any;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::extract::FromRequestParts as _;
use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade, close_code};
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Request, Uri, header};
use tokio_util::sync::CancellationToken;

use super::connections;
use super::hop_by_hop;
use super::peer::Peer;
use super::respond::Response;
use super::watch_stream::Lines;
use ballast_k8s::Status;

/// The only version of the protocol.
const VERSION: &str = "13";
/// The limit of a message from the client. A watching client has nothing to send.
const RECEIVED_BYTES_MAX: usize = 4096;
/// The read buffer, and the bytes that are collected before a write.
const BUFFER_BYTES: usize = 4096;
/// The time that the client may leave an event unread. The largest one is a few megabytes.
const UNREAD_MAX: Duration = Duration::from_secs(60);
/// The time that the client may take to acknowledge a close.
const GOODBYE_MAX: Duration = Duration::from_secs(1);

/// Holds values until a connection that has switched its protocol is closed. It is stored in the
/// extensions of the response that switches.
#[derive(Clone, Default)]
pub struct UntilClosed(Arc<Mutex<Vec<Box<dyn Any + Send>>>>);

impl UntilClosed {
    pub fn keep(&self, kept: impl Any + Send) {
        self.0.lock().expect("no panic while it is held").push(Box::new(kept));
    }
}

/// Returns whether the request is an upgrade to a WebSocket.
pub fn is_asked_for(headers: &HeaderMap) -> bool {
    hop_by_hop::upgrade(headers).is_some_and(|protocol| protocol.as_bytes().eq_ignore_ascii_case(b"websocket"))
}

/// A connection that waits for the response that switches the protocol.
pub struct Handshake {
    upgrade: WebSocketUpgrade,
}

/// Validates the client's side of the handshake. A 400 for an invalid handshake, and a 403 without
/// the origin of the page.
pub async fn handshake(parts: &Parts) -> Result<Handshake, Status> {
    let headers = &parts.headers;
    let is_empty = |name| headers.get(name).is_none_or(HeaderValue::is_empty);
    if headers.get(header::SEC_WEBSOCKET_VERSION).is_none_or(|version| version != VERSION) {
        return Err(Status::bad_request(format!("Sec-WebSocket-Version: only version {VERSION} is served")));
    }
    if is_empty(header::SEC_WEBSOCKET_KEY) {
        return Err(Status::bad_request("Sec-WebSocket-Key: the header is missing"));
    }
    if !headers.get(header::ORIGIN).is_some_and(is_origin) {
        let why = "Origin: a WebSocket is opened only with the address of the page that opens it, such as \
                   https://HOST:PORT of this server";
        return Err(Status::failure(403, "Forbidden", why));
    }
    let protocol = offered(headers)?;
    let mut own = Request::new(()).into_parts().0;
    own.version = parts.version;
    own.headers = headers.clone();
    own.extensions = parts.extensions.clone();
    let upgrade = WebSocketUpgrade::from_request_parts(&mut own, &()).await;
    let mut upgrade = upgrade.map_err(|refused| Status::bad_request(refused.body_text()))?;
    if let Some(protocol) = protocol {
        upgrade.set_selected_protocol(protocol);
    }
    let upgrade = upgrade
        .max_message_size(RECEIVED_BYTES_MAX)
        .max_frame_size(RECEIVED_BYTES_MAX)
        .read_buffer_size(BUFFER_BYTES)
        .write_buffer_size(BUFFER_BYTES);
    Ok(Handshake { upgrade })
}

/// Returns the subprotocol that the client offers. Watches define none, so a single one is
/// accepted, and a choice between two is rejected.
fn offered(headers: &HeaderMap) -> Result<Option<HeaderValue>, Status> {
    let values = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).into_iter();
    let names = values.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(',')).map(str::trim);
    let mut names = names.filter(|name| !name.is_empty());
    let first = names.next();
    if names.next().is_some() {
        return Err(Status::bad_request("Sec-WebSocket-Protocol: offer one subprotocol, or none"));
    }
    first.map(|name| HeaderValue::from_str(name).map_err(Status::internal)).transpose()
}

/// Returns whether the origin is an absolute URL or a path, as Go parses an origin. `null`, sent by
/// a page without an address, is not an origin.
fn is_origin(origin: &HeaderValue) -> bool {
    let uri = origin.to_str().ok().and_then(|origin| origin.parse::<Uri>().ok());
    uri.is_some_and(|uri| uri.scheme().is_some() || uri.authority().is_none())
}

impl Handshake {
    /// Switches the protocol, and sends the events until the watch or the connection ends.
    pub fn send(self, lines: Lines, parts: &Parts) -> Response {
        connections::switches_to_watch(parts);
        let gone = parts.extensions.get::<Arc<Peer>>().map(|peer| peer.gone.clone()).unwrap_or_default();
        let open = UntilClosed::default();
        let held = open.clone();
        let mut response = self.upgrade.on_upgrade(async move |socket| {
            watch(socket, lines, gone).await;
            drop(held);
        });
        response.extensions_mut().insert(open);
        response
    }
}

async fn watch(mut socket: WebSocket, mut lines: Lines, gone: CancellationToken) {
    let client_has_closed = loop {
        tokio::select! {
            line = lines.next_line() => {
                let Some(line) = line else { break false };
                let sent = tokio::time::timeout(UNREAD_MAX, socket.send(Message::Text(line.into())));
                let sent = tokio::select! {
                    sent = sent => sent,
                    () = gone.cancelled() => return,
                };
                if !matches!(sent, Ok(Ok(()))) {
                    return;
                }
            }
            received = socket.recv() => match received {
                // Messages of the client are ignored. The library responds to pings.
                Some(Ok(Message::Text(_) | Message::Binary(_) | Message::Ping(_) | Message::Pong(_))) => {}
                Some(Ok(Message::Close(_))) => break true,
                Some(Err(_)) | None => return,
            },
            () = gone.cancelled() => return,
        }
    };
    let close = Message::Close(Some(CloseFrame { code: close_code::NORMAL, reason: "".into() }));
    let goodbye = async {
        // The library responds to the client's close frame while the socket is read.
        if client_has_closed || socket.send(close).await.is_ok() {
            while matches!(socket.recv().await, Some(Ok(_))) {}
        }
    };
    let _the_client_may_not_answer = tokio::time::timeout(GOODBYE_MAX, goodbye).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cu1_an_origin_is_a_url_or_a_path() {
        for (origin, expected) in [
            ("https://host:7443", true),
            ("http://localhost", true),
            ("/", true),
            ("null", false),
            ("", false),
            ("host:80", false),
        ] {
            assert_eq!(is_origin(&HeaderValue::from_static(origin)), expected, "{origin}");
        }
    }

    #[test]
    fn cu1_one_subprotocol_is_echoed_and_two_are_refused() {
        let of = |values: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(value));
            }
            offered(&headers).map(|it| it.map(|it| it.to_str().unwrap().to_owned())).map_err(|status| status.code)
        };
        assert_eq!(of(&[]), Ok(None));
        assert_eq!(of(&[" binary.k8s.io "]), Ok(Some("binary.k8s.io".to_owned())));
        assert_eq!(of(&["a, b"]), Err(400));
        assert_eq!(of(&["a", "b"]), Err(400));
    }
}
