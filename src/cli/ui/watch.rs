//! Watches of the page, over WebSockets.
//!
//! The page reaches this proxy over HTTP/1.1. A browser opens six such connections for all tabs
//! together, and a few watches would occupy them. WebSockets have no such limit. Each message
//! contains complete, unchanged lines of the watch.

use axum::extract::ws::{Message, WebSocket};
use bytes::BytesMut;
use http::StatusCode;
use http::request::Parts;
use http_body_util::{BodyExt, Limited};
use serde_json::{Value, json};

use super::proxy::status;
use super::upstream::Upstream;
use ballast_base::telemetry;

/// Maximum length of a line of a watch: an object has at most 3 MiB.
const LINE_BYTES_MAX: usize = 8 << 20;
/// Maximum size of a response that rejects a watch.
const REFUSAL_BYTES_MAX: usize = 64 << 10;

/// Forwards a watch until either side ends it.
pub async fn pass_on(mut socket: WebSocket, upstream: &Upstream, parts: &Parts) {
    let answer = match upstream.ask(parts, bytes::Bytes::new()).await {
        Ok(answer) => answer,
        Err(error) => {
            let why = telemetry::with_causes(error.as_ref());
            return end(&mut socket, status(StatusCode::BAD_GATEWAY, "ServerUnreachable", &why)).await;
        }
    };
    if !answer.status().is_success() {
        let code = answer.status();
        let body = Limited::new(answer.into_body(), REFUSAL_BYTES_MAX).collect().await.map(|body| body.to_bytes());
        let told = body.ok().and_then(|body| serde_json::from_slice::<Value>(&body).ok());
        let told = told.filter(|told| told["kind"] == "Status");
        let told = told.unwrap_or_else(|| status(code, "Unknown", &format!("the server answered {code}")));
        return end(&mut socket, told).await;
    }
    // The page interprets an empty line as a response of the server.
    if socket.send(Message::Text("\n".into())).await.is_err() {
        return;
    }
    let mut body = answer.into_body();
    let mut waiting = BytesMut::new();
    loop {
        let frame = tokio::select! {
            frame = body.frame() => frame,
            message = socket.recv() => match message {
                Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                Some(Ok(_)) => continue,
            },
        };
        let Some(Ok(frame)) = frame else { break };
        let Ok(data) = frame.into_data() else { continue };
        waiting.extend_from_slice(&data);
        let Some(last) = waiting.iter().rposition(|&byte| byte == b'\n') else {
            if waiting.len() > LINE_BYTES_MAX {
                break;
            }
            continue;
        };
        let lines = waiting.split_to(last + 1);
        let Ok(text) = std::str::from_utf8(&lines) else { break };
        if socket.send(Message::Text(text.into())).await.is_err() {
            return;
        }
    }
    // The page resumes by itself, so a failure to send this is ignored.
    let _ended = socket.send(Message::Close(None)).await;
}

/// Sends the reason of a failed watch as an event, because a browser hides the response to an
/// upgrade from a page.
async fn end(socket: &mut WebSocket, status: Value) {
    // The page reads complete lines.
    let event = format!("{}\n", json!({"type": "ERROR", "object": status}));
    if socket.send(Message::Text(event.into())).await.is_ok() {
        let _ended = socket.send(Message::Close(None)).await;
    }
}
