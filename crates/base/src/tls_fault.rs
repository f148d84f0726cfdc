//! Explanations of failed TLS connections, with the remedy.

use std::error::Error;
use std::io;

use jiff::Timestamp;
use rustls::{AlertDescription, CertificateError, InvalidMessage};

/// Returns the text of the TLS error in a chain of causes, and the message that replaces it. `None`
/// if there is no TLS error, or no better message for it.
pub fn tls_fault(error: &(dyn Error + 'static)) -> Option<(String, String)> {
    let mut next = Some(error);
    while let Some(cause) = next {
        if let Some(fault) = tls_error(cause) {
            return Some((fault.to_string(), message(fault)?));
        }
        next = cause.source();
    }
    None
}

/// Returns the TLS error itself or inside an I/O error, which contains the error of the library
/// without having it as its source.
fn tls_error<'a>(cause: &'a (dyn Error + 'static)) -> Option<&'a rustls::Error> {
    match cause.downcast_ref::<io::Error>() {
        Some(error) => tls_error(error.get_ref()?),
        None => cause.downcast_ref(),
    }
}

fn message(fault: &rustls::Error) -> Option<String> {
    let text = match fault {
        rustls::Error::InvalidCertificate(fault) => return certificate(fault),
        rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
            "it does not speak TLS on this port: begin its URL with http://, or name its port for https"
        }
        rustls::Error::AlertReceived(AlertDescription::CertificateExpired) => {
            "it refuses the client certificate, which has expired: renew it"
        }
        rustls::Error::AlertReceived(
            AlertDescription::UnknownCA | AlertDescription::BadCertificate | AlertDescription::CertificateUnknown,
        ) => "it refuses the client certificate: use one that a CA of this server has signed",
        rustls::Error::AlertReceived(AlertDescription::CertificateRequired) => {
            "it requires a client certificate: name one in the kubeconfig (client-certificate, client-key)"
        }
        _ => return None,
    };
    Some(text.to_owned())
}

fn certificate(fault: &CertificateError) -> Option<String> {
    let day = |seconds: u64| i64::try_from(seconds).ok().and_then(|seconds| Timestamp::from_second(seconds).ok());
    Some(match fault {
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "its certificate is signed by another CA than the expected one: use the kubeconfig of this server, or name \
             its CA (certificate-authority)"
                .to_owned()
        }
        CertificateError::ExpiredContext { not_after, .. } => {
            let ended = day(not_after.as_secs()).map(|at| format!(" on {at}")).unwrap_or_default();
            format!("its certificate expired{ended}: renew it, or set the clock of this machine")
        }
        CertificateError::Expired => {
            "its certificate has expired: renew it, or set the clock of this machine".to_owned()
        }
        CertificateError::NotValidYetContext { not_before, .. } => {
            let begins = day(not_before.as_secs()).map(|at| format!(" before {at}")).unwrap_or_default();
            format!("its certificate is not valid{begins}: set the clocks of both machines")
        }
        CertificateError::NotValidForNameContext { expected, presented } => {
            let names = presented.join(", ");
            format!(
                "its certificate is not for {}, but for {names}: use one of these names, or tls-server-name in the \
                 kubeconfig",
                expected.to_str()
            )
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rustls::pki_types::UnixTime;

    use super::*;

    #[test]
    fn faults_of_tls_state_what_to_do() {
        let at = |seconds| UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        for (fault, message) in [
            (CertificateError::UnknownIssuer.into(), "signed by another CA"),
            (
                CertificateError::ExpiredContext { time: at(1_795_895_530), not_after: at(1_764_288_000) }.into(),
                "expired on 2025-11-28T00:00:00Z: renew it",
            ),
            (rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType), "begin its URL with http://"),
            (rustls::Error::AlertReceived(AlertDescription::CertificateExpired), "refuses the client certificate"),
        ] {
            let wrapped = io::Error::other(io::Error::new(io::ErrorKind::InvalidData, fault));
            let (_, ours) = tls_fault(&wrapped).unwrap();
            assert!(ours.contains(message), "{ours}");
        }
        assert_eq!(tls_fault(&io::Error::other("no route")), None);
    }
}
