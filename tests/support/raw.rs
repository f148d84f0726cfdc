//! A plain HTTPS client that sends exactly the given request over the given protocol, and returns
//! the whole response.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use ballast::node::certs::Files;
use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::client::ResolvesClientCert;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Http1,
    Http2,
}

/// Where to connect, with which credentials, and how.
#[derive(Clone)]
pub struct Raw {
    address: SocketAddr,
    config: Arc<ClientConfig>,
    protocol: Protocol,
}

/// One connection. Clones share it. Over HTTP/2 they can send at the same time.
#[derive(Clone)]
pub struct Connection {
    sender: Sender,
}

#[derive(Clone)]
enum Sender {
    Http1(Arc<tokio::sync::Mutex<hyper::client::conn::http1::SendRequest<Full<Bytes>>>>),
    Http2(hyper::client::conn::http2::SendRequest<Full<Bytes>>),
}

#[derive(Debug)]
pub struct Reply {
    pub code: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Reply {
    async fn read(response: http::Response<Incoming>) -> Reply {
        let (parts, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Reply { code: parts.status, headers: parts.headers, body }
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {:?}", self.body))
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }
}

impl Raw {
    /// A client with the administrator's certificate, over HTTP/2.
    pub fn admin(address: SocketAddr, files: &Files) -> Raw {
        Raw::with_certificate(address, files, &files.admin_cert, &files.admin_key)
    }

    pub fn with_certificate(address: SocketAddr, files: &Files, cert: &Path, key: &Path) -> Raw {
        let chain: Vec<CertificateDer<'static>> =
            CertificateDer::pem_file_iter(cert).unwrap().collect::<Result<_, _>>().unwrap();
        let key = PrivateKeyDer::from_pem_file(key).unwrap();
        let config = builder(files, rustls::DEFAULT_VERSIONS).with_client_auth_cert(chain, key).unwrap();
        Raw { address, config: Arc::new(config), protocol: Protocol::Http2 }.over(Protocol::Http2)
    }

    /// A client with the certificate that `resolver` picks, over this version of TLS.
    pub fn with_resolver(
        address: SocketAddr,
        files: &Files,
        version: &'static SupportedProtocolVersion,
        resolver: Arc<dyn ResolvesClientCert>,
    ) -> Raw {
        let config = builder(files, &[version]).with_client_cert_resolver(resolver);
        Raw { address, config: Arc::new(config), protocol: Protocol::Http2 }.over(Protocol::Http2)
    }

    /// A client without a certificate.
    pub fn nobody(address: SocketAddr, files: &Files) -> Raw {
        let config = Arc::new(builder(files, rustls::DEFAULT_VERSIONS).with_no_client_auth());
        Raw { address, config, protocol: Protocol::Http2 }.over(Protocol::Http2)
    }

    #[must_use]
    pub fn over(mut self, protocol: Protocol) -> Raw {
        let alpn: &[u8] = if protocol == Protocol::Http2 { b"h2" } else { b"http/1.1" };
        Arc::make_mut(&mut self.config).alpn_protocols = vec![alpn.to_vec()];
        self.protocol = protocol;
        self
    }

    pub async fn connect(&self) -> Connection {
        let io = TokioIo::new(self.stream().await);
        let sender = match self.protocol {
            Protocol::Http1 => {
                let (sender, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
                tokio::spawn(connection);
                Sender::Http1(Arc::new(tokio::sync::Mutex::new(sender)))
            }
            Protocol::Http2 => {
                let mut builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
                builder.initial_stream_window_size(1 << 20).initial_connection_window_size(8 << 20);
                let (sender, connection) = builder.handshake(io).await.unwrap();
                tokio::spawn(connection);
                Sender::Http2(sender)
            }
        };
        Connection { sender }
    }

    /// Sends one request on a new connection.
    pub async fn send(&self, method: Method, path: &str, headers: &[(&str, &str)], body: impl Into<Bytes>) -> Reply {
        self.connect().await.send(method, path, headers, body).await
    }

    /// Sends a request with its body in pieces, on a new connection.
    pub async fn send_streamed<B>(&self, request: Request<B>) -> Reply
    where
        B: http_body::Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let io = TokioIo::new(self.stream().await);
        let response = match self.protocol {
            Protocol::Http1 => {
                let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
                tokio::spawn(connection);
                sender.send_request(request).await.unwrap()
            }
            Protocol::Http2 => {
                let (mut sender, connection) =
                    hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.unwrap();
                tokio::spawn(connection);
                sender.send_request(request).await.unwrap()
            }
        };
        Reply::read(response).await
    }

    /// Opens a TLS connection.
    pub async fn try_connect(&self) -> std::io::Result<TlsStream<TcpStream>> {
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::try_from("localhost").unwrap();
        TlsConnector::from(self.config.clone()).connect(name, stream).await
    }

    async fn stream(&self) -> TlsStream<TcpStream> {
        self.try_connect().await.unwrap()
    }

    pub async fn get(&self, path: &str) -> Reply {
        self.send(Method::GET, path, &[], "").await
    }
}

impl Connection {
    /// Sends a request and reads only the head of the response.
    pub async fn open(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Result<http::Response<Incoming>, hyper::Error> {
        let mut request = Request::builder().method(method);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let body = Full::new(body.into());
        match &self.sender {
            Sender::Http1(sender) => {
                let request = request.uri(path).header("host", "localhost").body(body).unwrap();
                let mut sender = sender.lock().await;
                sender.ready().await?;
                sender.send_request(request).await
            }
            Sender::Http2(sender) => {
                let request = request.uri(format!("https://localhost{path}")).body(body).unwrap();
                let mut sender = sender.clone();
                sender.ready().await?;
                sender.send_request(request).await
            }
        }
    }

    pub async fn send(&self, method: Method, path: &str, headers: &[(&str, &str)], body: impl Into<Bytes>) -> Reply {
        let response = self.open(method, path, headers, body).await.unwrap();
        Reply::read(response).await
    }
}

fn builder(
    files: &Files,
    versions: &[&'static SupportedProtocolVersion],
) -> rustls::ConfigBuilder<ClientConfig, rustls::client::WantsClientCert> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(&files.ca_cert).unwrap()).unwrap();
    ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots)
}
