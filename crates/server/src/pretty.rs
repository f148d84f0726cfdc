//! Indents JSON for people. The query, the `Accept` header or the user agent indicates that a
//! person reads the response (CT8).
//!
//! The filter works on the bytes of any body while they are sent. Events of a watch stay on one
//! line each. Documents that clients cache by a hash are not indented.

use bytes::{BufMut, Bytes, BytesMut};
use http::header::{self, ACCEPT, CONTENT_LENGTH, USER_AGENT};
use http::request::Parts;
use http_body_util::BodyExt;

use axum::body::Body;

use super::codec;
use super::respond::Response;
use ballast_k8s::Query;

/// The prefixes of user agents whose responses a person reads.
const LOOKING: [&[u8]; 3] = [b"curl", b"Wget", b"Mozilla/5.0"];
/// The header in which a browser sends the purpose of a request: `navigate` shows the response.
const FETCH_MODE: &str = "sec-fetch-mode";
const STEP: usize = 2;

pub fn is_wanted(parts: &Parts) -> bool {
    let query = Query::parse(parts.uri.query().unwrap_or_default());
    if let Some(pretty) = query.text("pretty") {
        return matches!(pretty, "1" | "t" | "T" | "true" | "TRUE" | "True");
    }
    if parts.headers.get(FETCH_MODE).is_some_and(|mode| mode != "navigate") {
        // A script of a page reads it.
        return false;
    }
    let agent = parts.headers.get(USER_AGENT).map(http::HeaderValue::as_bytes).unwrap_or_default();
    LOOKING.iter().any(|start| agent.starts_with(start))
        || parts.headers.contains_key(ACCEPT) && codec::wants_pretty(&parts.headers)
}

/// Indents the response, if it is one to be indented.
pub fn indented(response: Response) -> Response {
    let headers = response.headers();
    let is_json = headers.get(header::CONTENT_TYPE).is_some_and(|value| value == "application/json");
    let is_fixed = headers.contains_key(header::ETAG) || headers.contains_key(header::CONTENT_ENCODING);
    if !is_json || is_fixed {
        return response;
    }
    let (mut head, body) = response.into_parts();
    head.headers.remove(CONTENT_LENGTH);
    let mut indent = Indent::default();
    let body = body.map_frame(move |frame| frame.map_data(|data| indent.next(&data)));
    Response::from_parts(head, Body::new(body))
}

/// The position in the JSON text.
#[derive(Default)]
struct Indent {
    depth: usize,
    in_text: bool,
    escaped: bool,
    /// Whether the last byte opened a bracket.
    opened: bool,
}

impl Indent {
    fn next(&mut self, data: &[u8]) -> Bytes {
        let mut out = BytesMut::with_capacity(data.len() * 2);
        for &byte in data {
            if self.in_text {
                out.put_u8(byte);
                self.in_text = self.escaped || byte != b'"';
                self.escaped = !self.escaped && byte == b'\\';
                continue;
            }
            match byte {
                b' ' | b'\t' | b'\r' | b'\n' if self.depth > 0 => {}
                b'}' | b']' => {
                    self.depth = self.depth.saturating_sub(1);
                    if !std::mem::take(&mut self.opened) {
                        self.break_line(&mut out);
                    }
                    out.put_u8(byte);
                }
                b',' => {
                    out.put_u8(byte);
                    self.break_line(&mut out);
                }
                b':' => out.put_slice(b": "),
                _ => {
                    if std::mem::take(&mut self.opened) {
                        self.break_line(&mut out);
                    }
                    out.put_u8(byte);
                    self.in_text = byte == b'"';
                    if matches!(byte, b'{' | b'[') {
                        self.depth += 1;
                        self.opened = true;
                    }
                }
            }
        }
        out.freeze()
    }

    fn break_line(&self, out: &mut BytesMut) {
        out.put_u8(b'\n');
        out.put_bytes(b' ', self.depth * STEP);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn ct8_text_is_indented_as_a_whole_whatever_pieces_it_comes_in() {
        let value = json!({"a": [1, {"b": "x:,{}[]\"\\"}, [], {}], "c": {"d": null, "é": -0.5}, "e": ""});
        for value in [value, json!([]), json!("x"), json!([[[1]]])] {
            let text = value.to_string();
            for size in 1..=text.len() {
                let mut indent = Indent::default();
                let pieces: Vec<u8> = text.as_bytes().chunks(size).flat_map(|piece| indent.next(piece)).collect();
                assert_eq!(String::from_utf8(pieces).unwrap(), format!("{value:#}"));
            }
        }
        let spaced = Indent::default().next(b" { \"a\" :\n[ 1 , 2 ] }\n");
        assert_eq!(serde_json::from_slice::<Value>(&spaced).unwrap(), json!({"a": [1, 2]}));
        assert!(spaced.ends_with(b"}\n"));
    }
}
