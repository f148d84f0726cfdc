//! Users of client certificates: the CN is the name, and each O is a group (AN7).
//!
//! A certificate proves a user if it chains to the client CA, is valid now and may be used for
//! client authentication. The TLS handshake has already proved that the peer holds the key.

use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, SignatureVerificationAlgorithm, TrustAnchor, UnixTime};
use sha2::{Digest, Sha256};
use webpki::{EndEntityCert, KeyUsage};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::well_known::AUTHENTICATED;
use ballast_k8s::{Time, User};

/// The attribute of a certificate's subject that holds the user's UID.
const UID_OID: &str = "1.3.6.1.4.1.57683.2";

/// The user's extra field that identifies the certificate.
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// The CA certificates that client certificates must chain to.
#[derive(Debug)]
pub struct ClientCa {
    anchors: Vec<TrustAnchor<'static>>,
    algorithms: &'static [&'static dyn SignatureVerificationAlgorithm],
}

#[derive(Debug, thiserror::Error)]
pub enum ClientCaError {
    #[error("no certificate found (PEM blocks 'BEGIN CERTIFICATE' are wanted)")]
    Empty,
    #[error("failed to read certificate {number}: {why}")]
    Unreadable { number: usize, why: String },
}

/// Why a certificate is not accepted. This is for the log; the client only sees `Unauthorized`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Untrusted {
    #[error("the client certificate is refused: {0}")]
    Refused(String),
    #[error("the client certificate has no common name")]
    Nameless,
    #[error("the client certificate's name {0:?} is not one of a front proxy")]
    NotAllowed(String),
}

impl ClientCa {
    /// Reads a bundle of one or more PEM certificates.
    pub fn from_pem(
        pem: &[u8],
        algorithms: &'static [&'static dyn SignatureVerificationAlgorithm],
    ) -> Result<ClientCa, ClientCaError> {
        let mut ca = ClientCa { anchors: vec![], algorithms };
        for (i, certificate) in CertificateDer::pem_slice_iter(pem).enumerate() {
            let unreadable = |why: String| ClientCaError::Unreadable { number: i + 1, why };
            let certificate = certificate.map_err(|error| unreadable(error.to_string()))?;
            let anchor =
                webpki::anchor_from_trusted_cert(&certificate).map_err(|error| unreadable(error.to_string()))?;
            ca.anchors.push(anchor.to_owned());
        }
        if ca.anchors.is_empty() {
            return Err(ClientCaError::Empty);
        }
        Ok(ca)
    }

    /// The names of the CAs (DER, without the outer SEQUENCE). The TLS handshake sends them as
    /// hints, so that a client can pick its certificate (AN1).
    pub fn subjects(&self) -> impl Iterator<Item = &[u8]> {
        self.anchors.iter().map(|anchor| anchor.subject.as_ref())
    }

    /// Returns the user that a chain proves at `now`. The chain starts with the client's own
    /// certificate.
    pub fn identify(&self, chain: &[CertificateDer<'_>], now: Time) -> Result<User, Untrusted> {
        user_of(self.verify(chain, now)?)
    }

    /// Returns the client's own certificate if the chain leads to one of these CAs at `now`.
    pub(super) fn verify<'c, 'd>(
        &self,
        chain: &'c [CertificateDer<'d>],
        now: Time,
    ) -> Result<&'c CertificateDer<'d>, Untrusted> {
        let refused = |error: webpki::Error| Untrusted::Refused(error.to_string());
        let [leaf, intermediates @ ..] = chain else {
            return Err(Untrusted::Refused("the chain is empty".to_owned()));
        };
        let seconds = u64::try_from(now.seconds()).unwrap_or_default();
        let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds));
        EndEntityCert::try_from(leaf)
            .map_err(refused)?
            .verify_for_usage(self.algorithms, &self.anchors, intermediates, now, KeyUsage::client_auth(), None, None)
            .map_err(refused)?;
        Ok(leaf)
    }
}

/// When the first certificate of a chain expires.
pub(super) fn valid_until(chain: &[CertificateDer<'_>]) -> Option<Time> {
    let ends = chain.iter().filter_map(|certificate| {
        let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
        Some(Time::from_seconds(parsed.validity().not_after.timestamp()))
    });
    ends.min()
}

/// The last common name of a certificate's subject.
pub(super) fn common_name(certificate: &CertificateDer<'_>) -> Option<String> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    parsed.subject().iter_common_name().filter_map(|name| name.as_str().ok()).last().map(str::to_owned)
}

fn user_of(certificate: &CertificateDer<'_>) -> Result<User, Untrusted> {
    let (_, parsed) = X509Certificate::from_der(certificate).map_err(|error| Untrusted::Refused(error.to_string()))?;
    let subject = parsed.subject();
    let texts = |attributes: &mut dyn Iterator<Item = &x509_parser::x509::AttributeTypeAndValue<'_>>| {
        attributes.filter_map(|attribute| attribute.as_str().ok().map(str::to_owned)).collect::<Vec<_>>()
    };
    let name = texts(&mut subject.iter_common_name()).pop().filter(|name| !name.is_empty());
    let mut groups = texts(&mut subject.iter_organization());
    groups.push(AUTHENTICATED.to_owned());
    let uid = texts(&mut subject.iter_attributes().filter(|it| it.attr_type().to_id_string() == UID_OID)).pop();
    let hash: String = Sha256::digest(certificate).iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(User {
        name: name.ok_or(Untrusted::Nameless)?,
        uid: uid.unwrap_or_default(),
        groups,
        extra: [(CREDENTIAL_ID.to_owned(), vec![format!("X509SHA256={hash}")])].into(),
    })
}
