//! Users of client certificates: the CN is the name, and each O is a group (AN7).
//!
//! A subject is parsed as by Go's crypto/x509, so that one certificate is one user for
//! kube-apiserver and for Ballast (WH5). Go parses each type of string, and rejects a certificate
//! with a malformed one. Skipping such a part could turn one user into another.
//!
//! A certificate proves a user if it chains to the client CA, is valid now and may be used for
//! client authentication. The TLS handshake has already proved that the peer holds the key.

use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, SignatureVerificationAlgorithm, TrustAnchor, UnixTime};
use sha2::{Digest, Sha256};
use webpki::{EndEntityCert, KeyUsage};
use x509_parser::asn1_rs::Tag;
use x509_parser::oid_registry::{OID_X509_COMMON_NAME, OID_X509_ORGANIZATION_NAME};
use x509_parser::prelude::{FromDer, X509Certificate};

use super::well_known::{self, AUTHENTICATED};
use ballast_k8s::{Time, User};

/// The attribute of a certificate's subject that holds the user's UID.
const UID_OID: &str = "1.3.6.1.4.1.57683.2";

/// The most characters of a name in the log, because clients choose their certificates.
const NAME_CHARS_MAX: usize = 128;

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

/// The reason why a certificate is not accepted. It is logged; the client only sees `Unauthorized`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Untrusted {
    #[error("the client certificate is refused: {0}")]
    Refused(String),
    #[error("the subject of the client certificate is malformed: {0}")]
    Subject(&'static str),
    #[error("the client certificate claims {0:?}, which no certificate can prove")]
    Reserved(String),
    #[error("the client certificate has no common name")]
    Nameless,
    #[error("the client certificate's name {0:?} is not one of a front proxy")]
    NotAllowed(String),
}

impl ClientCa {
    /// Parses a bundle of one or more PEM certificates.
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

    /// Returns the names of the CAs (DER, without the outer SEQUENCE). The TLS handshake sends them
    /// as hints, so that a client can pick its certificate (AN1).
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
        let refused = |error: webpki::Error| Untrusted::Refused(why_refused(&error, chain, now));
        let [leaf, intermediates @ ..] = chain else {
            return Err(Untrusted::Refused("the chain is empty".to_owned()));
        };
        let seconds = u64::try_from(now.seconds()).unwrap_or_default();
        let at = UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds));
        EndEntityCert::try_from(leaf)
            .map_err(refused)?
            .verify_for_usage(self.algorithms, &self.anchors, intermediates, at, KeyUsage::client_auth(), None, None)
            .map_err(refused)?;
        Ok(leaf)
    }
}

/// Returns the rejected certificate and the reason, for the log. Operators find it by its serial
/// number.
fn why_refused(error: &webpki::Error, chain: &[CertificateDer<'_>], now: Time) -> String {
    let parsed = chain.first().and_then(|leaf| X509Certificate::from_der(leaf).ok());
    let Some((_, leaf)) = parsed else { return error.to_string() };
    let time = |time: x509_parser::time::ASN1Time| Time::from_seconds(time.timestamp());
    let (begins, ends) = (time(leaf.validity().not_before), time(leaf.validity().not_after));
    let why = match error {
        webpki::Error::CertExpired { .. } if ends < now => format!("it expired at {ends}, and it is {now}"),
        webpki::Error::CertNotValidYet { .. } if begins > now => format!("it begins at {begins}, and it is {now}"),
        webpki::Error::UnknownIssuer | webpki::Error::InvalidSignatureForPublicKey => {
            "no CA of this server has signed it".to_owned()
        }
        other => other.to_string(),
    };
    let shown = |text: String| text.chars().take(NAME_CHARS_MAX).collect::<String>();
    let (subject, issuer) = (shown(leaf.subject().to_string()), shown(leaf.issuer().to_string()));
    format!("{subject:?}, serial {}, of {issuer:?}: {why}", shown(leaf.raw_serial_as_string()))
}

/// Returns the earliest expiry of the certificates of a chain.
pub(super) fn valid_until(chain: &[CertificateDer<'_>]) -> Option<Time> {
    let ends = chain.iter().filter_map(|certificate| {
        let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
        Some(Time::from_seconds(parsed.validity().not_after.timestamp()))
    });
    ends.min()
}

/// Returns the common name of a certificate's subject: the last one, as in Go.
pub(super) fn common_name(certificate: &CertificateDer<'_>) -> Option<String> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    Subject::read(&parsed).ok().map(|subject| subject.common_name)
}

fn user_of(certificate: &CertificateDer<'_>) -> Result<User, Untrusted> {
    let (_, parsed) = X509Certificate::from_der(certificate).map_err(|error| Untrusted::Refused(error.to_string()))?;
    let Subject { common_name, organizations, uid } = Subject::read(&parsed)?;
    if common_name.is_empty() {
        return Err(Untrusted::Nameless);
    }
    if well_known::is_reserved_user(&common_name) {
        return Err(Untrusted::Reserved(common_name));
    }
    if let Some(group) = organizations.iter().find(|group| well_known::is_reserved_group(group)) {
        return Err(Untrusted::Reserved(group.clone()));
    }
    let groups = organizations.into_iter().chain([AUTHENTICATED.to_owned()]).collect();
    let hash: String = Sha256::digest(certificate).iter().map(|byte| format!("{byte:02x}")).collect();
    let extra = [(CREDENTIAL_ID.to_owned(), vec![format!("X509SHA256={hash}")])].into();
    Ok(User { name: common_name, uid: uid.unwrap_or_default(), groups, extra })
}

/// The parts of a certificate's subject that identify the user.
#[derive(Debug, Default)]
struct Subject {
    /// The last CN of the subject.
    common_name: String,
    organizations: Vec<String>,
    /// The UID, of which a subject has at most one.
    uid: Option<String>,
}

impl Subject {
    fn read(certificate: &X509Certificate<'_>) -> Result<Subject, Untrusted> {
        let mut subject = Subject::default();
        for attribute in certificate.subject().iter_attributes() {
            let value = attribute.attr_value();
            let text = text(value.header.tag(), value.data).map_err(Untrusted::Subject)?;
            match attribute.attr_type() {
                oid if *oid == OID_X509_COMMON_NAME => subject.common_name = text,
                oid if *oid == OID_X509_ORGANIZATION_NAME => subject.organizations.push(text),
                // As in kube-apiserver, there is at most one UID, and it is not empty.
                oid if oid.to_id_string() == UID_OID => match subject.uid.replace(text) {
                    None if subject.uid.as_deref() != Some("") => {}
                    _ => return Err(Untrusted::Subject("it must have one UID at most, which is not empty")),
                },
                _ => {}
            }
        }
        Ok(subject)
    }
}

/// Parses a string of a subject as Go's `parseASN1String` does.
fn text(tag: Tag, bytes: &[u8]) -> Result<String, &'static str> {
    let ascii = |is_allowed: fn(u8) -> bool, why| match bytes.iter().copied().all(is_allowed) {
        true => Ok(bytes.iter().copied().map(char::from).collect()),
        false => Err(why),
    };
    match tag {
        Tag::Utf8String => String::from_utf8(bytes.to_vec()).map_err(|_| "invalid UTF8String"),
        Tag::PrintableString => ascii(is_printable, "invalid PrintableString"),
        Tag::Ia5String => ascii(|byte| byte.is_ascii(), "invalid IA5String"),
        Tag::NumericString => ascii(|byte| byte.is_ascii_digit() || byte == b' ', "invalid NumericString"),
        // As in Go and BoringSSL, T.61 is parsed as Latin-1.
        Tag::T61String => Ok(bytes.iter().copied().map(char::from).collect()),
        Tag::BmpString => bmp_text(bytes).ok_or("invalid BMPString"),
        _ => Err("unsupported type of string"),
    }
}

/// Returns whether a byte is printable. As in Go, `*` and `&` count as printable: certificates have
/// them, and other libraries allow them.
fn is_printable(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b" '()+,-./:=?*&".contains(&byte)
}

/// Parses UCS-2 in network order, with or without a trailing zero. Surrogates and noncharacters are
/// malformed.
fn bmp_text(bytes: &[u8]) -> Option<String> {
    if !bytes.len().is_multiple_of(2) {
        return None;
    }
    let bytes = bytes.strip_suffix(&[0, 0]).unwrap_or(bytes);
    let units = bytes.chunks_exact(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
    let read = units.map(|unit| match unit {
        0xfffe | 0xffff | 0xfdd0..=0xfdef => None,
        unit => char::from_u32(unit),
    });
    read.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wh5_each_type_of_string_is_read_as_go_reads_it() {
        for (tag, bytes, expected) in [
            (Tag::Utf8String, "jané".as_bytes(), Some("jané")),
            (Tag::Utf8String, b"\xff", None),
            (Tag::PrintableString, b"jane: a.b (*&)", Some("jane: a.b (*&)")),
            (Tag::PrintableString, b"jane@x", None),
            (Tag::Ia5String, b"jane@x", Some("jane@x")),
            (Tag::Ia5String, b"\xe9", None),
            (Tag::NumericString, b"12 3", Some("12 3")),
            (Tag::NumericString, b"1a", None),
            (Tag::T61String, b"jan\xe9", Some("jané")),
            (Tag::BmpString, b"\0j\0a\0n\0\xe9", Some("jané")),
            (Tag::BmpString, b"\0j\0a\0\0", Some("ja")),
            (Tag::BmpString, b"\0j\0", None),
            (Tag::BmpString, b"\xd8\x3d\xde\x00", None),
            (Tag::BmpString, b"\xff\xff", None),
            (Tag::UniversalString, b"\0\0\0j", None),
            (Tag::OctetString, b"jane", None),
        ] {
            assert_eq!(text(tag, bytes).ok().as_deref(), expected, "{tag:?} {bytes:?}");
        }
    }
}
