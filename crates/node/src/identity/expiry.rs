//! Reports the expiry of the serving certificate: always as a metric, and as a log line when it is
//! near.
//!
//! An expired certificate is still served. Clients reject it with an error that names the reason,
//! and the certificate of a running server can be replaced.

use std::time::Duration;

use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use x509_parser::prelude::{FromDer, X509Certificate};

use ballast_base::metrics;
use ballast_k8s::Time;

/// Remaining validity at which a warning is logged. A renewal should have happened before.
const NEAR: Duration = Duration::from_secs(7 * 24 * 60 * 60);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Fine,
    Near,
    Over,
}

/// The expiry of a certificate, and the last phase that was logged.
pub struct Expiry {
    /// Seconds since 1970. `None` if the certificate cannot be read.
    not_after: Option<i64>,
    said: Phase,
}

impl Expiry {
    /// Returns the expiry of the first certificate of a PEM chain.
    pub fn of(chain: &[u8]) -> Expiry {
        let not_after = not_after(chain);
        metrics::serving_certificate(not_after.unwrap_or_default());
        Expiry { not_after, said: Phase::Fine }
    }

    /// Logs once when the expiry is near, and once when it has passed.
    pub fn look(&mut self, now: Time) {
        let Some(not_after) = self.not_after else { return };
        let phase = phase(not_after, now);
        if phase == self.said {
            return;
        }
        self.said = phase;
        let seconds_left = not_after - now.seconds();
        match phase {
            Phase::Fine => {}
            Phase::Near => tracing::warn!(seconds_left, "the serving certificate expires soon: renew it"),
            Phase::Over => tracing::error!(seconds_left, "the serving certificate has expired: clients refuse it"),
        }
    }
}

fn phase(not_after: i64, now: Time) -> Phase {
    match not_after - now.seconds() {
        ..0 => Phase::Over,
        left if left.unsigned_abs() < NEAR.as_secs() => Phase::Near,
        _ => Phase::Fine,
    }
}

fn not_after(chain: &[u8]) -> Option<i64> {
    let leaf = CertificateDer::pem_slice_iter(chain).next()?.ok()?;
    let (_, parsed) = X509Certificate::from_der(&leaf).ok()?;
    Some(parsed.validity().not_after.timestamp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_is_fine_then_near_its_end_then_over() {
        let now: Time = "2026-01-08T00:00:00Z".parse().unwrap();
        let at = |seconds: i64| phase(now.seconds() + seconds, now);
        assert_eq!(
            [at(7 * 86_400), at(7 * 86_400 - 1), at(0), at(-1)],
            [Phase::Fine, Phase::Near, Phase::Near, Phase::Over]
        );
    }
}
