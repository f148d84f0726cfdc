//! Opens connections to members: directly or through the proxy of their Cluster, and with TLS if
//! the endpoint is https.

use std::error::Error;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderValue, Uri};
use hyper_rustls::{ConfigBuilderExt, HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::rt::TokioIo;
use percent_encoding::percent_decode_str;
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tower::Service;

use ballast_base::any_certificate::AcceptAnyCertificate;

/// Timeout for TCP, proxy and TLS together.
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// Idle time before TCP keepalive probes. With the values below, a member that disappears without
/// closing its connections is noticed after about a minute, including during a watch.
const KEEPALIVE: Duration = Duration::from_secs(30);
const KEEPALIVE_EVERY: Duration = Duration::from_secs(10);
const KEEPALIVES_MAX: u32 = 3;

/// The accepted certificates.
pub enum Trust {
    Any,
    /// Certificates of these CAs (PEM).
    Cas(Vec<u8>),
    /// Certificates of the CAs that this machine trusts.
    System,
}

/// The route from this server to the member.
pub enum ProxyRoute {
    Direct,
    Proxy {
        /// `http`, `https`, `socks5` or `socks5h`. May contain a user and a password.
        address: Uri,
        headers: HeaderMap,
    },
}

/// A connector to one member that limits each attempt to `CONNECT_MAX`.
pub type Connector = WithTimeout<HttpsConnector<Transport>>;

/// Returns a connector with this trust and this route. The error is a sentence for the client.
pub fn connector(trust: &Trust, via: &ProxyRoute) -> Result<Connector, String> {
    let https = HttpsConnectorBuilder::new().with_tls_config(tls(trust)?).https_or_http().enable_http1();
    Ok(WithTimeout(https.wrap_connector(transport(via)?)))
}

fn tls(trust: &Trust) -> Result<ClientConfig, String> {
    let provider = Arc::new(ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let config = config.map_err(|error| format!("failed to set up TLS: {error}"))?;
    match trust {
        Trust::Any => Ok(config
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AcceptAnyCertificate::new()))
            .with_no_client_auth()),
        Trust::Cas(pem) => {
            let mut store = RootCertStore::empty();
            let read = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>();
            let (known, _) = store.add_parsable_certificates(read.unwrap_or_default());
            match known {
                0 => Err("spec.secretRef: the secret's \"caBundle\" holds no certificate (PEM)".to_owned()),
                _ => Ok(config.with_root_certificates(store).with_no_client_auth()),
            }
        }
        Trust::System => match config.with_native_roots() {
            Ok(config) => Ok(config.with_no_client_auth()),
            Err(error) => Err(format!("spec.secretRef is absent, and this machine trusts no CA: {error}")),
        },
    }
}

fn transport(via: &ProxyRoute) -> Result<Transport, String> {
    let ProxyRoute::Proxy { address, headers } = via else { return Ok(Transport::Direct(tcp())) };
    let scheme = address.scheme_str().unwrap_or_default();
    let trust = if scheme == "https" { tls(&Trust::System)? } else { tls_without_roots()? };
    let to_proxy = HttpsConnectorBuilder::new().with_tls_config(trust).https_or_http().enable_http1();
    let to_proxy = to_proxy.wrap_connector(tcp());
    let authority = address.authority().map(http::uri::Authority::as_str).unwrap_or_default();
    let (login, host) = authority.rsplit_once('@').map_or((None, authority), |(login, host)| (Some(login), host));
    let login = login.map(|login| {
        let (user, password) = login.split_once(':').unwrap_or((login, ""));
        [user, password].map(|text| percent_decode_str(text).decode_utf8_lossy().into_owned())
    });
    let uri = |scheme: &str, port: u16| {
        let has_port = address.port_u16().is_some();
        let port = if has_port { String::new() } else { format!(":{port}") };
        format!("{scheme}://{host}{port}").parse::<Uri>().map_err(|error| format!("spec.proxyURL: {error}"))
    };
    if scheme.starts_with("socks5") {
        let socks = SocksV5::new(uri("http", 1080)?, to_proxy);
        return Ok(Transport::Socks(match login {
            Some([user, password]) => socks.with_auth(user, password),
            None => socks,
        }));
    }
    let port = if scheme == "https" { 443 } else { 80 };
    let mut tunnel = Tunnel::new(uri(scheme, port)?, to_proxy).with_headers(headers.clone());
    if let Some([user, password]) = login {
        let basic = format!("Basic {}", STANDARD.encode(format!("{user}:{password}")));
        tunnel = tunnel.with_auth(HeaderValue::from_str(&basic).map_err(|error| format!("spec.proxyURL: {error}"))?);
    }
    Ok(Transport::Tunnel(tunnel))
}

/// Returns a TLS configuration that accepts no certificate, for proxies without TLS.
fn tls_without_roots() -> Result<ClientConfig, String> {
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = config.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
    Ok(config.with_root_certificates(RootCertStore::empty()).with_no_client_auth())
}

fn tcp() -> HttpConnector {
    let mut connector = HttpConnector::new();
    connector.enforce_http(false);
    connector.set_nodelay(true);
    connector.set_connect_timeout(Some(CONNECT_MAX));
    connector.set_keepalive(Some(KEEPALIVE));
    connector.set_keepalive_interval(Some(KEEPALIVE_EVERY));
    connector.set_keepalive_retries(Some(KEEPALIVES_MAX));
    connector
}

type Fault = Box<dyn Error + Send + Sync>;
type Connecting<T> = Pin<Box<dyn Future<Output = Result<T, Fault>> + Send>>;
type Stream = MaybeHttpsStream<TokioIo<TcpStream>>;

/// The connection to a member or its proxy, before the member's own TLS.
#[derive(Clone)]
pub enum Transport {
    Direct(HttpConnector),
    Tunnel(Tunnel<HttpsConnector<HttpConnector>>),
    Socks(SocksV5<HttpsConnector<HttpConnector>>),
}

impl Service<Uri> for Transport {
    type Response = Stream;
    type Error = Fault;
    type Future = Connecting<Stream>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        match self {
            Transport::Direct(tcp) => tcp.poll_ready(context).map_err(Fault::from),
            Transport::Tunnel(tunnel) => tunnel.poll_ready(context).map_err(Fault::from),
            Transport::Socks(socks) => socks.poll_ready(context).map_err(|error| error.to_string().into()),
        }
    }

    fn call(&mut self, to: Uri) -> Connecting<Stream> {
        match self {
            Transport::Direct(tcp) => {
                let connecting = tcp.call(to);
                Box::pin(async move { Ok(MaybeHttpsStream::Http(connecting.await?)) })
            }
            Transport::Tunnel(tunnel) => {
                let connecting = tunnel.call(to);
                Box::pin(async move { connecting.await.map_err(|error| format!("spec.proxyURL: {error}").into()) })
            }
            Transport::Socks(socks) => {
                let connecting = socks.call(to);
                Box::pin(async move { connecting.await.map_err(|error| format!("spec.proxyURL: {error}").into()) })
            }
        }
    }
}

/// A connector that fails after `CONNECT_MAX`.
#[derive(Clone)]
pub struct WithTimeout<C>(C);

impl<C> Service<Uri> for WithTimeout<C>
where
    C: Service<Uri, Error = Fault>,
    C::Future: Send + 'static,
    C::Response: 'static,
{
    type Response = C::Response;
    type Error = Fault;
    type Future = Connecting<C::Response>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        let connecting = tokio::time::timeout(CONNECT_MAX, self.0.call(to));
        Box::pin(async move {
            connecting.await.unwrap_or_else(|_| Err(format!("no connection within {CONNECT_MAX:?}").into()))
        })
    }
}
