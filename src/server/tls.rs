//! TLS: the serving certificate, and a client's certificate asked for but not demanded.
//!
//! *Invariant:* a certificate that proves nobody is no reason to end the handshake: it becomes a 401 that
//! the client can read (AN1). The handshake only makes sure that the client holds the key of what it shows.

use std::fmt;
use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, ServerConfig, SignatureScheme};

use crate::auth::ClientCa;

/// What the server shows, and whose certificates it asks for.
#[derive(Clone)]
pub struct Tls {
    pub(super) config: Arc<ServerConfig>,
    pub(super) client_ca: Option<Arc<ClientCa>>,
}

#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("failed to read the serving certificate: {0}")]
    Certificate(String),
    #[error("failed to read the serving key: {0}")]
    Key(String),
    #[error("failed to set up TLS")]
    Config(#[from] rustls::Error),
}

impl Tls {
    /// `certificate` is a PEM chain, leaf first; `key` its PEM key.
    pub fn new(certificate: &[u8], key: &[u8], client_ca: Option<ClientCa>) -> Result<Tls, TlsError> {
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(certificate)
            .collect::<Result<_, _>>()
            .map_err(|error| TlsError::Certificate(error.to_string()))?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| TlsError::Key(error.to_string()))?;
        let provider = Arc::new(ring::default_provider());
        let client_ca = client_ca.map(Arc::new);
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])?;
        let builder = match &client_ca {
            Some(ca) => builder.with_client_cert_verifier(Arc::new(AskForCertificate::new(&provider, ca))),
            None => builder.with_no_client_auth(),
        };
        let mut config = builder.with_single_cert(chain, key)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Tls { config: Arc::new(config), client_ca })
    }
}

/// The algorithms with which chains of client certificates are verified.
pub fn signature_algorithms() -> &'static [&'static dyn rustls::pki_types::SignatureVerificationAlgorithm] {
    ring::default_provider().signature_verification_algorithms.all
}

/// Accepts every certificate whose key the client holds; `ClientCa` judges it afterwards.
struct AskForCertificate {
    hints: Vec<DistinguishedName>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl AskForCertificate {
    fn new(provider: &CryptoProvider, ca: &ClientCa) -> AskForCertificate {
        AskForCertificate {
            hints: ca.subjects().map(DistinguishedName::in_sequence).collect(),
            algorithms: provider.signature_verification_algorithms,
        }
    }
}

impl fmt::Debug for AskForCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AskForCertificate").field("hints", &self.hints.len()).finish_non_exhaustive()
    }
}

impl ClientCertVerifier for AskForCertificate {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.hints
    }

    fn verify_client_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(message, cert, dss, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(message, cert, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
