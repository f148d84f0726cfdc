//! TLS with the serving certificate. Client certificates are optional.
//!
//! *Invariant:* the handshake only checks that the client holds the key of its certificate. A
//! certificate of an unknown CA does not end the handshake: the client gets a 401 that it can read
//! (AN1).

use std::fmt;
use std::sync::Arc;

use arc_swap::{ArcSwap, ArcSwapOption};
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{DigitallySignedStruct, DistinguishedName, ServerConfig, SignatureScheme};

/// The DNS name in the certificates with which replicas connect to each other.
pub const PEER_NAME: &str = "replica.ballast.internal";

/// The configuration of TLS. Clones share it. A renewed certificate applies to new connections;
/// open ones continue (AN12).
#[derive(Clone)]
pub struct Tls {
    config: Arc<ArcSwap<ServerConfig>>,
    peers: PeerKey,
}

/// The certificate for other replicas, which request `PEER_NAME`.
type PeerKey = Arc<ArcSwapOption<CertifiedKey>>;

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
    /// Creates the configuration. `certificate` is a PEM chain, leaf first; `key` its PEM key.
    /// `subjects` contains the names (DER) of the accepted client CAs.
    pub fn new(certificate: &[u8], key: &[u8], subjects: &[Vec<u8>]) -> Result<Tls, TlsError> {
        let peers = PeerKey::default();
        let config = config(certificate, key, subjects, &peers)?;
        Ok(Tls { config: Arc::new(ArcSwap::new(config)), peers })
    }

    /// Replaces the configuration for future connections. On error the old one stays.
    pub fn renew(&self, certificate: &[u8], key: &[u8], subjects: &[Vec<u8>]) -> Result<(), TlsError> {
        self.config.store(config(certificate, key, subjects, &self.peers)?);
        Ok(())
    }

    /// Presents this certificate to other replicas, from their next connection on.
    pub fn show_to_peers(&self, certificate: &[u8], key: &[u8]) -> Result<(), TlsError> {
        self.peers.store(Some(certified(certificate, key, &ring::default_provider())?));
        Ok(())
    }

    pub(super) fn current(&self) -> Arc<ServerConfig> {
        self.config.load_full()
    }
}

fn config(
    certificate: &[u8],
    key: &[u8],
    subjects: &[Vec<u8>],
    peers: &PeerKey,
) -> Result<Arc<ServerConfig>, TlsError> {
    let provider = Arc::new(ring::default_provider());
    let certificates = Arc::new(ByName { own: certified(certificate, key, &provider)?, peers: Arc::clone(peers) });
    let verifier = Arc::new(AskForCertificate::new(&provider, subjects));
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13, &rustls::version::TLS12])?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(certificates);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

fn certified(certificate: &[u8], key: &[u8], provider: &CryptoProvider) -> Result<Arc<CertifiedKey>, TlsError> {
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(certificate)
        .collect::<Result<_, _>>()
        .map_err(|error| TlsError::Certificate(error.to_string()))?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| TlsError::Key(error.to_string()))?;
    Ok(Arc::new(CertifiedKey::from_der(chain, key, provider)?))
}

/// Selects the certificate by the requested server name.
#[derive(Debug)]
struct ByName {
    own: Arc<CertifiedKey>,
    peers: PeerKey,
}

impl ResolvesServerCert for ByName {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let for_peers = self.peers.load_full().filter(|_| hello.server_name() == Some(PEER_NAME));
        Some(for_peers.unwrap_or_else(|| Arc::clone(&self.own)))
    }
}

/// Returns the algorithms that verify chains of client certificates.
pub fn signature_algorithms() -> &'static [&'static dyn rustls::pki_types::SignatureVerificationAlgorithm] {
    ring::default_provider().signature_verification_algorithms.all
}

/// Accepts every certificate if the client holds its key. `auth` verifies it afterwards.
struct AskForCertificate {
    hints: Vec<DistinguishedName>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl AskForCertificate {
    fn new(provider: &CryptoProvider, subjects: &[Vec<u8>]) -> AskForCertificate {
        AskForCertificate {
            hints: subjects.iter().map(|subject| DistinguishedName::in_sequence(subject)).collect(),
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
