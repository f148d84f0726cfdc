//! Opens connections to estimators: HTTP/2, with TLS if the flags enable it.
//!
//! Certificates are read again for each connection, so a rotated one is used from the next
//! connection on.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};

use super::addresses::endpoint;
use ballast_base::any_certificate::AcceptAnyCertificate;
use ballast_base::telemetry;

/// The TCP keepalive interval. It detects an estimator that disappears without closing an idle
/// connection.
const KEEPALIVE_EVERY: Duration = Duration::from_secs(30);

/// The TLS files for connections to estimators. As upstream, TLS is off without a CA and without
/// `skip_verify`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// The CAs that sign the certificates of estimators (PEM).
    pub ca: Option<PathBuf>,
    /// The client certificate and its key (PEM).
    pub identity: Option<(PathBuf, PathBuf)>,
    /// Whether every server certificate is accepted.
    pub skip_verify: bool,
}

impl TlsFiles {
    /// Checks that the files can be used.
    ///
    /// # Errors
    ///
    /// A file is missing or invalid. The text names it.
    pub fn check(&self) -> Result<(), String> {
        if self.is_on() {
            // Only the files are checked, so the address does not matter.
            self.secured("localhost:1")?;
        }
        Ok(())
    }

    fn is_on(&self) -> bool {
        self.ca.is_some() || self.skip_verify
    }

    fn secured(&self, address: &str) -> Result<Endpoint, String> {
        let endpoint = prepared(address, "https")?;
        let read =
            |path: &PathBuf| std::fs::read(path).map_err(|error| format!("failed to read {}: {error}", path.display()));
        let mut tls = ClientTlsConfig::new();
        if let Some((certificate, key)) = &self.identity {
            tls = tls.identity(Identity::from_pem(read(certificate)?, read(key)?));
        }
        let named = |error: tonic::transport::Error| {
            let files = self.ca.iter().chain(self.identity.iter().flat_map(|(certificate, key)| [certificate, key]));
            let files: Vec<String> = files.map(|path| path.display().to_string()).collect();
            format!("failed to set up TLS with {}: {}", files.join(", "), telemetry::with_causes(&error))
        };
        if self.skip_verify {
            return endpoint.tls_config_with_verifier(tls, Arc::new(AcceptAnyCertificate::new())).map_err(named);
        }
        let ca = self.ca.as_ref().map(read).transpose()?.unwrap_or_default();
        endpoint.tls_config(tls.ca_certificate(Certificate::from_pem(ca))).map_err(named)
    }

    /// Connects to the first of these addresses that accepts a connection.
    ///
    /// # Errors
    ///
    /// No address accepts a connection. The text contains the reason for each.
    pub async fn connect(&self, addresses: &[String]) -> Result<Channel, String> {
        let mut refusals = Vec::new();
        for address in addresses {
            let endpoint = match self.is_on() {
                true => self.secured(address),
                false => prepared(address, "http"),
            };
            match endpoint?.connect().await {
                Ok(channel) => return Ok(channel),
                Err(error) => refusals.push(format!("{address}: {}", telemetry::with_causes(&error))),
            }
        }
        Err(refusals.join("; "))
    }
}

fn prepared(address: &str, scheme: &str) -> Result<Endpoint, String> {
    let uri = endpoint(address, scheme).ok_or_else(|| format!("{address:?} is no HOST:PORT"))?;
    Ok(Endpoint::from(uri).tcp_keepalive(Some(KEEPALIVE_EVERY)))
}
