//! A small client for the demo and the tests: one HTTP/2 connection over TLS with the
//! administrator's client certificate. It does nothing that a user with curl could not do.

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

/// The longest time to an answer. A working server needs less for every request of a story.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);

pub struct Client {
    authority: String,
    requests: SendRequest<Full<Bytes>>,
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
        // The task ends with the last clone of `requests`. Its errors show up in the requests.
        tokio::spawn(connection);
        Ok(Client { authority: address.to_string(), requests })
    }

    /// The connection has ended: every further request fails.
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

    /// Reads a watch until `seen` returns `true`, or until the server ends the watch. Returns which
    /// of the two happened: `true` for the first. The path includes the query, without `watch`.
    pub async fn watch(&self, path: &str, mut seen: impl FnMut(&Value) -> bool) -> anyhow::Result<bool> {
        let read = |line: &[u8]| {
            let event: Value = serde_json::from_slice(line).context("a watch event is not JSON")?;
            if event["type"] == "ERROR" {
                bail!("the watch failed: {}", event["object"]["message"]);
            }
            Ok(seen(&event))
        };
        self.watch_lines(path, read).await
    }

    /// Like `watch`, with each event as an unparsed line.
    pub async fn watch_lines(
        &self,
        path: &str,
        mut seen: impl FnMut(&[u8]) -> anyhow::Result<bool>,
    ) -> anyhow::Result<bool> {
        let joint = if path.contains('?') { '&' } else { '?' };
        let mut body = self.send(Method::GET, &format!("{path}{joint}watch=1"), None, Bytes::new()).await?.1;
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

    /// Sends a request and returns the answer with its body unread.
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
