//! A small client for the demo and the tests: one HTTP/2 connection over TLS with the
//! administrator's client certificate. Everything it does is possible with curl, too.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::SendRequest;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Request timeout. A working server needs less for every request of a story.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);
/// Pause before a watch resumes after the server ended it because of a slow client.
const FOLLOW_PAUSE: Duration = Duration::from_millis(20);

pub struct Client {
    authority: String,
    requests: SendRequest<Full<Bytes>>,
}

/// An event that ended a watch, or the response that rejected it.
#[derive(Debug, thiserror::Error)]
#[error("the watch failed: {code} {message}")]
struct WatchFailed {
    code: u64,
    message: String,
}

impl WatchFailed {
    fn of(status: &Value) -> WatchFailed {
        let message = status["message"].as_str().unwrap_or("no message").to_owned();
        WatchFailed { code: status["code"].as_u64().unwrap_or_default(), message }
    }
}

/// The PEM files of a client.
pub struct Credentials<'a> {
    pub ca: &'a Path,
    pub certificate: &'a Path,
    pub key: &'a Path,
}

impl Client {
    pub async fn connect(address: SocketAddr, credentials: &Credentials<'_>) -> anyhow::Result<Client> {
        let tls = TlsConnector::from(Arc::new(tls_config(credentials)?));
        let tcp = TcpStream::connect(address).await.context("failed to connect to the server")?;
        tcp.set_nodelay(true)?;
        let name = ServerName::IpAddress(address.ip().into());
        let stream = tls.connect(name, tcp).await.context("failed to agree on TLS")?;
        let (requests, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await?;
        // The task ends with the last clone of `requests`. Its errors appear in the requests.
        tokio::spawn(connection);
        Ok(Client { authority: address.to_string(), requests })
    }

    /// Returns whether the connection has ended, so that every further request fails.
    pub fn is_closed(&self) -> bool {
        self.requests.is_closed()
    }

    pub async fn get(&self, path: &str) -> anyhow::Result<Value> {
        self.exchange(Method::GET, path, None, Bytes::new()).await
    }

    pub async fn post(&self, path: &str, object: &Value) -> anyhow::Result<Value> {
        self.exchange(Method::POST, path, Some("application/json"), serde_json::to_vec(object)?.into()).await
    }

    pub async fn merge_patch(&self, path: &str, patch: &Value) -> anyhow::Result<Value> {
        let body = serde_json::to_vec(patch)?.into();
        self.exchange(Method::PATCH, path, Some("application/merge-patch+json"), body).await
    }

    pub async fn delete(&self, path: &str) -> anyhow::Result<Value> {
        self.exchange(Method::DELETE, path, None, Bytes::new()).await
    }

    /// Reads a watch until `seen` returns `true`, or until the server ends the watch. Returns
    /// `true` in the first case. The path includes the query, without `watch`.
    pub async fn watch(&self, path: &str, mut seen: impl FnMut(&Value) -> bool) -> anyhow::Result<bool> {
        let read = |line: &[u8]| {
            let event: Value = serde_json::from_slice(line).context("a watch event is not JSON")?;
            if event["type"] == "ERROR" {
                return Err(WatchFailed::of(&event["object"]).into());
            }
            Ok(seen(&event))
        };
        self.watch_lines(path, read).await
    }

    /// Reads a watch until `seen` returns `true`, and resumes after the last event if the server
    /// ends the watch, because of its age or a slow client.
    ///
    /// `from` is the revision to start after. Without it, or once the server has compacted it, the
    /// watch starts with the current state.
    pub async fn follow(
        &self,
        path: &str,
        mut from: Option<String>,
        mut seen: impl FnMut(&Value) -> bool,
    ) -> anyhow::Result<()> {
        let joint = if path.contains('?') { '&' } else { '?' };
        loop {
            let part = match &from {
                Some(from) => format!("{path}{joint}resourceVersion={from}"),
                None => path.to_owned(),
            };
            let note = |event: &Value| {
                if let (Some(from), Some(at)) = (&mut from, event["object"]["metadata"]["resourceVersion"].as_str()) {
                    at.clone_into(from);
                }
                seen(event)
            };
            match self.watch(&part, note).await {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(error) => match error.downcast_ref::<WatchFailed>().map(|failed| failed.code) {
                    Some(410) => from = None,
                    Some(429) => tokio::time::sleep(FOLLOW_PAUSE).await,
                    _ => return Err(error),
                },
            }
        }
    }

    /// Like `watch`, but passes each event as an unparsed line.
    pub async fn watch_lines(
        &self,
        path: &str,
        mut seen: impl FnMut(&[u8]) -> anyhow::Result<bool>,
    ) -> anyhow::Result<bool> {
        let joint = if path.contains('?') { '&' } else { '?' };
        let watch = format!("{path}{joint}watch=1");
        let (status, mut body) = self.send(Method::GET, &watch, None, Bytes::new()).await?;
        if !status.is_success() {
            let answer =
                tokio::time::timeout(ANSWER_WITHIN, body.collect()).await.context("the answer did not end")??;
            let answer: Value = serde_json::from_slice(&answer.to_bytes()).unwrap_or_default();
            return Err(WatchFailed { code: status.as_u16().into(), ..WatchFailed::of(&answer) }.into());
        }
        let mut waiting = Vec::new();
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame?.into_data() else { continue };
            waiting.extend_from_slice(&data);
            let mut read = 0;
            while let Some(length) = waiting[read..].iter().position(|&byte| byte == b'\n') {
                let line = &waiting[read..read + length];
                read += length + 1;
                if seen(line)? {
                    return Ok(true);
                }
            }
            waiting.drain(..read);
        }
        Ok(false)
    }

    async fn exchange(&self, method: Method, path: &str, kind: Option<&str>, body: Bytes) -> anyhow::Result<Value> {
        let (status, body) = self.send(method, path, kind, body).await?;
        let body = tokio::time::timeout(ANSWER_WITHIN, body.collect()).await.context("the answer did not end")??;
        let value: Value = serde_json::from_slice(&body.to_bytes()).context("the answer is not JSON")?;
        if !status.is_success() {
            bail!("{status}: {}", value["message"].as_str().unwrap_or("no message"));
        }
        Ok(value)
    }

    /// Sends a request and returns the response with its body unread.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        content_type: Option<&str>,
        body: Bytes,
    ) -> anyhow::Result<(StatusCode, Incoming)> {
        let mut request = Request::builder()
            .method(&method)
            .uri(format!("https://{}{path}", self.authority))
            .header("accept", "application/json")
            .header("user-agent", concat!("ballast-demo/", env!("CARGO_PKG_VERSION")));
        if let Some(content_type) = content_type {
            request = request.header("content-type", content_type);
        }
        let request = request.body(Full::new(body))?;
        let answer = tokio::time::timeout(ANSWER_WITHIN, self.requests.clone().send_request(request));
        let answer = answer.await.with_context(|| format!("{method} {path} was not answered"))?;
        let answer = answer.with_context(|| format!("{method} {path} failed"))?;
        Ok((answer.status(), answer.into_body()))
    }
}

fn tls_config(credentials: &Credentials<'_>) -> anyhow::Result<rustls::ClientConfig> {
    let mut roots = rustls::RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(credentials.ca).context("failed to read the CA")? {
        roots.add(certificate?)?;
    }
    let chain = CertificateDer::pem_file_iter(credentials.certificate)?.collect::<Result<Vec<_>, _>>()?;
    let key = PrivateKeyDer::from_pem_file(credentials.key).context("failed to read the client key")?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, key)?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::service::service_fn;
    use serde_json::json;
    use std::sync::Mutex;

    /// Returns a client of a server that responds with these bodies in order, and the requested
    /// paths.
    async fn client_of(answers: &'static [(u16, &'static [&'static str])]) -> (Client, Arc<Mutex<Vec<String>>>) {
        let (here, there) = tokio::io::duplex(4096);
        let asked = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&asked);
        let service = service_fn(move |request: Request<Incoming>| {
            let mut asked = noted.lock().unwrap();
            let (status, lines) = answers[asked.len()];
            asked.push(request.uri().path_and_query().unwrap().to_string());
            let body: String = lines.iter().map(|line| format!("{line}\n")).collect();
            let answer = http::Response::builder().status(status).body(Full::new(Bytes::from(body)));
            std::future::ready(answer)
        });
        let serving = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        tokio::spawn(serving.serve_connection(TokioIo::new(there), service));
        let connected = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(here)).await;
        let (requests, connection) = connected.unwrap();
        tokio::spawn(connection);
        (Client { authority: "server".to_owned(), requests }, asked)
    }

    const FIRST: &str = r#"{"type":"MODIFIED","object":{"metadata":{"name":"a","resourceVersion":"7"}}}"#;
    const LATER: &str = r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9"}}}"#;
    const LAST: &str = r#"{"type":"ADDED","object":{"metadata":{"name":"b","resourceVersion":"12"}}}"#;
    const TOO_SLOW: &str = r#"{"type":"ERROR","object":{"code":429,"message":"its client does not read"}}"#;
    const TOO_OLD: &str = r#"{"type":"ERROR","object":{"code":410,"message":"too old resource version"}}"#;

    #[tokio::test]
    async fn a_watch_that_ends_rightly_goes_on_behind_its_last_event() {
        let answers = &[(200, &[FIRST] as &[_]), (200, &[LATER, TOO_SLOW]), (200, &[TOO_OLD]), (200, &[LAST])];
        let (client, asked) = client_of(answers).await;
        let mut seen = Vec::new();
        let note = |event: &Value| {
            seen.push(event["object"]["metadata"]["resourceVersion"].clone());
            event["object"]["metadata"]["name"] == "b"
        };
        client.follow("/things", Some("5".to_owned()), note).await.unwrap();
        assert_eq!(seen, [json!("7"), json!("9"), json!("12")]);
        let behind = |revision: &str| format!("/things?resourceVersion={revision}&watch=1");
        assert_eq!(*asked.lock().unwrap(), [behind("5"), behind("7"), behind("9"), "/things?watch=1".to_owned()]);
    }

    #[tokio::test]
    async fn a_watch_that_is_refused_says_why() {
        let (client, _) = client_of(&[(403, &[r#"{"code":403,"message":"bindings are forbidden"}"#])]).await;
        let refused = client.follow("/things", None, |_| false).await.unwrap_err();
        assert_eq!(refused.to_string(), "the watch failed: 403 bindings are forbidden");
    }
}
