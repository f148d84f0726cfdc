//! Queries the readiness of an API server, as `kubectl get --raw '/readyz?verbose'` does.
//!
//! Unlike the rest of this crate it queries any server, mainly Ballast itself. It sends one request
//! and leaves deadlines to its caller.

use std::path::PathBuf;

use http::Request;
use http_body_util::{BodyExt, Limited};
use kube::client::Body;
use kube::config::Config;
use kube::{Client, Error};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;

use super::connect::{ConnectError, from_kubeconfig};

/// Maximum size of a response in bytes. Each check is one short line.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// The server to query, and the credentials for it.
#[derive(Clone, Debug)]
pub struct ProbeTarget {
    /// The kubeconfig with the server, its CA and the caller's credentials. Without it there are no
    /// credentials.
    pub kubeconfig: Option<PathBuf>,
    /// The server's URL, instead of the URL in the kubeconfig.
    pub server: Option<http::Uri>,
    /// CAs (PEM) that verify the server's certificate, instead of the CAs in the kubeconfig.
    pub ca_file: Option<PathBuf>,
    /// Whether any certificate is accepted.
    pub skips_verification: bool,
}

/// The response of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    Ready,
    /// The names of the checks that failed.
    NotReady(Vec<String>),
    /// Neither ready nor a list of checks; contains the status code.
    Unclear(u16),
}

#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("failed to read CA certificates from {}", path.display())]
    Ca {
        path: PathBuf,
        #[source]
        source: rustls_pki_types::pem::Error,
    },
    #[error("{} holds no CA certificate", .0.display())]
    NoCa(PathBuf),
    #[error("neither a URL nor a kubeconfig names the server")]
    NoServer,
    #[error("failed to prepare the connection")]
    Client(#[source] Error),
    #[error("no answer")]
    Unanswered(#[source] Error),
    #[error("failed to read the answer")]
    Broken(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// A prepared connection to a server for readiness queries.
pub struct Probe {
    client: Client,
    /// The server's URL, for messages.
    pub url: String,
}

impl Probe {
    /// Prepares the connection. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// Returns an error if the target names no server, or if one of its files cannot be used.
    pub async fn new(target: ProbeTarget) -> Result<Probe, ProbeError> {
        let mut config = match (&target.kubeconfig, &target.server) {
            (Some(path), _) => from_kubeconfig(path).await?,
            (None, Some(server)) => Config::new(server.clone()),
            (None, None) => return Err(ProbeError::NoServer),
        };
        if let Some(server) = target.server {
            config.cluster_url = server;
        }
        if let Some(path) = target.ca_file {
            config.root_cert = Some(read_cas(path)?);
        }
        config.accept_invalid_certs |= target.skips_verification;
        config.default_retry = false;
        let url = config.cluster_url.to_string().trim_end_matches('/').to_owned();
        Ok(Probe { client: Client::try_from(config).map_err(ProbeError::Client)?, url })
    }

    /// Queries `/readyz` once.
    pub async fn ask(&self) -> Result<Readiness, ProbeError> {
        let request = Request::get("/readyz?verbose").body(Body::empty()).expect("a request of constants");
        let answer = self.client.send(request).await.map_err(ProbeError::Unanswered)?;
        let code = answer.status();
        let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await.map_err(ProbeError::Broken)?;
        let body = String::from_utf8_lossy(&body.to_bytes()).into_owned();
        let failed = body.lines().filter_map(|line| line.strip_prefix("[-]")?.split_whitespace().next());
        let failed: Vec<String> = failed.map(str::to_owned).collect();
        Ok(match code.as_u16() {
            200 => Readiness::Ready,
            _ if !failed.is_empty() => Readiness::NotReady(failed),
            code => Readiness::Unclear(code),
        })
    }
}

fn read_cas(path: PathBuf) -> Result<Vec<Vec<u8>>, ProbeError> {
    let read = CertificateDer::pem_file_iter(&path).and_then(|certificates| {
        certificates.map(|certificate| certificate.map(|it| it.to_vec())).collect::<Result<Vec<_>, _>>()
    });
    match read {
        Ok(cas) if cas.is_empty() => Err(ProbeError::NoCa(path)),
        Ok(cas) => Ok(cas),
        Err(source) => Err(ProbeError::Ca { path, source }),
    }
}
