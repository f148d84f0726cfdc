//! Authentication: finds the user of a request. It tries the headers of a front proxy, then the
//! client certificate, then the bearer token, then the anonymous user (AN2).
//!
//! *Invariants:*
//! - The trust that credentials are checked against can be replaced at any time. The next request
//!   uses the new one, also on an open connection (AN4, AN12).
//! - A certificate is verified once per connection, and again when the trust has changed or the
//!   certificate has expired.

use std::net::IpAddr;
use std::sync::Arc;

use arc_swap::{ArcSwap, ArcSwapOption};
use http::{HeaderMap, header};
use rustls_pki_types::CertificateDer;

use super::client_cert::{self, ClientCa, Untrusted};
use super::front_proxy::FrontProxy;
use super::token_file::TokenFile;
use super::token_review::{TokenReviews, Unreviewed};
use super::well_known::{ANONYMOUS, UNAUTHENTICATED};
use ballast_base::clock::Clock;
use ballast_base::metrics;
use ballast_base::places::Busy;
use ballast_k8s::{Time, User};

/// The time for which a rejected certificate is not verified again. It may not have been valid yet.
const REFUSAL_SECONDS: i64 = 5;

/// The CAs and tokens that credentials are checked against.
#[derive(Debug, Default)]
pub struct Trust {
    pub client_ca: Option<ClientCa>,
    pub front_proxy: Option<FrontProxy>,
    pub tokens: TokenFile,
}

/// The certificate chain of a peer, and the result of its last verification.
#[derive(Debug)]
pub struct Certificate {
    chain: Vec<CertificateDer<'static>>,
    verification: ArcSwapOption<Verification>,
}

#[derive(Debug)]
struct Verification {
    trust: Arc<Trust>,
    until: Time,
    /// Whether the peer is a front proxy.
    proxy: Result<(), Untrusted>,
    user: Result<Arc<User>, Untrusted>,
}

impl Verification {
    /// Returns whether the verification is still valid. It ends with the certificate, also on an
    /// open connection.
    fn holds(&self, trust: &Arc<Trust>, now: Time) -> bool {
        Arc::ptr_eq(&self.trust, trust) && now < self.until
    }
}

/// The reason why a credential was rejected. It is logged; the client only sees `Unauthorized`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error(transparent)]
    Certificate(Untrusted),
    #[error("no user has this token")]
    Token,
    #[error("the token could not be reviewed: {0}")]
    Unreviewed(String),
    /// Too many tokens wait for their review.
    #[error("too many tokens are reviewed: {0}")]
    Busy(Busy),
    #[error("the Authorization header is not understood")]
    Scheme,
}

pub struct Authenticator {
    trust: ArcSwap<Trust>,
    reviews: Option<TokenReviews>,
    anonymous: Option<Arc<User>>,
    clock: Arc<dyn Clock>,
}

impl Trust {
    /// Returns the names of all accepted CAs (AN1).
    pub fn subjects(&self) -> Vec<Vec<u8>> {
        let cas = [self.client_ca.as_ref(), self.front_proxy.as_ref().map(|proxy| &proxy.ca)];
        let mut subjects: Vec<Vec<u8>> =
            cas.into_iter().flatten().flat_map(ClientCa::subjects).map(<[u8]>::to_vec).collect();
        subjects.sort();
        subjects.dedup();
        subjects
    }
}

impl Certificate {
    pub fn new(chain: Vec<CertificateDer<'static>>) -> Certificate {
        Certificate { chain, verification: ArcSwapOption::empty() }
    }
}

impl Authenticator {
    pub fn new(trust: Trust, clock: Arc<dyn Clock>) -> Authenticator {
        Authenticator { trust: ArcSwap::from_pointee(trust), reviews: None, anonymous: None, clock }
    }

    /// Also accepts bearer tokens that are not in the token file, if `reviews` accepts them.
    #[must_use]
    pub fn with_reviews(mut self, reviews: TokenReviews) -> Authenticator {
        self.reviews = Some(reviews);
        self
    }

    /// Accepts requests without a credential as those of `system:anonymous`. Authorization decides
    /// on their permissions (AN10).
    #[must_use]
    pub fn with_anonymous(mut self) -> Authenticator {
        let groups = vec![UNAUTHENTICATED.to_owned()];
        self.anonymous = Some(Arc::new(User { name: ANONYMOUS.to_owned(), groups, ..User::default() }));
        self
    }

    pub fn trust(&self) -> Arc<Trust> {
        self.trust.load_full()
    }

    /// Replaces the trust, from the next request on.
    pub fn replace(&self, trust: Trust) {
        self.trust.store(Arc::new(trust));
    }

    /// Returns the user of a request. `None` if there is no credential and anonymous users are not
    /// accepted. `address` is that of the client.
    pub async fn authenticate(
        &self,
        certificate: Option<&Certificate>,
        headers: &HeaderMap,
        address: Option<IpAddr>,
    ) -> Result<Option<Arc<User>>, Refused> {
        let found = self.find(certificate, headers, address).await;
        metrics::authentication(match &found {
            Ok(Some(_)) => "success",
            Ok(None) => "none",
            Err(Refused::Unreviewed(_) | Refused::Busy(_)) => "error",
            Err(_) => "failure",
        });
        found
    }

    /// Returns whether the peer is a front proxy, so that its headers are trusted.
    pub fn is_front_proxy(&self, certificate: &Certificate) -> bool {
        self.verify(&self.trust.load_full(), certificate).proxy.is_ok()
    }

    /// Returns whether a browser adds the credential of a request automatically: a client
    /// certificate, or none. A browser adds neither a bearer token nor the headers of a front
    /// proxy. The order of the credentials is that of `authenticate`.
    pub fn is_added_by_browser(&self, certificate: Option<&Certificate>, headers: &HeaderMap) -> bool {
        let trust = self.trust.load_full();
        let verification = certificate.map(|certificate| self.verify(&trust, certificate));
        let is_named_by_proxy = verification.as_ref().is_some_and(|it| it.proxy.is_ok())
            && trust.front_proxy.as_ref().is_some_and(|proxy| proxy.headers.user(headers).is_some());
        let is_by_certificate = verification.is_some_and(|it| it.user.is_ok());
        let has_token = headers.get(header::AUTHORIZATION).is_some_and(|it| token_of(it.as_bytes()).is_ok());
        !is_named_by_proxy && (is_by_certificate || !has_token)
    }

    /// Returns whether the peer has proved to be a user or a front proxy.
    pub fn is_trusted(&self, certificate: &Certificate) -> bool {
        let verification = self.verify(&self.trust.load_full(), certificate);
        verification.user.is_ok() || verification.proxy.is_ok()
    }

    async fn find(
        &self,
        certificate: Option<&Certificate>,
        headers: &HeaderMap,
        address: Option<IpAddr>,
    ) -> Result<Option<Arc<User>>, Refused> {
        let trust = self.trust.load();
        let mut refused = None;
        if let Some(certificate) = certificate {
            let verification = self.verify(&trust, certificate);
            if verification.proxy.is_ok()
                && let Some(user) = trust.front_proxy.as_ref().and_then(|proxy| proxy.headers.user(headers))
            {
                return Ok(Some(Arc::new(user)));
            }
            match &verification.user {
                Ok(user) => return Ok(Some(Arc::clone(user))),
                Err(untrusted) => refused = Some(Refused::Certificate(untrusted.clone())),
            }
        }
        if let Some(credential) = headers.get(header::AUTHORIZATION) {
            // If both credentials fail, the error of the token is reported.
            match self.bearer(&trust, credential.as_bytes(), address).await {
                Ok(user) => return Ok(Some(user)),
                Err(fault) => refused = Some(fault),
            }
        }
        match refused {
            Some(refused) => Err(refused),
            None => Ok(self.anonymous.clone()),
        }
    }

    async fn bearer(&self, trust: &Trust, credential: &[u8], address: Option<IpAddr>) -> Result<Arc<User>, Refused> {
        let token = token_of(credential)?;
        if let Some(user) = trust.tokens.user(token) {
            return Ok(user);
        }
        let Some(reviews) = &self.reviews else { return Err(Refused::Token) };
        match reviews.user(token, address).await {
            Ok(Some(user)) => Ok(user),
            Ok(None) => Err(Refused::Token),
            Err(Unreviewed::Unavailable(unavailable)) => Err(Refused::Unreviewed(unavailable.0)),
            Err(Unreviewed::Busy(busy)) => Err(Refused::Busy(busy)),
        }
    }

    fn verify(&self, trust: &Arc<Trust>, certificate: &Certificate) -> Arc<Verification> {
        let now = self.clock.now();
        if let Some(verification) = &*certificate.verification.load()
            && verification.holds(trust, now)
        {
            return Arc::clone(verification);
        }
        let chain = &certificate.chain;
        let without_ca = || Untrusted::Refused("no CA is configured".to_owned());
        let proxy = trust.front_proxy.as_ref().map_or_else(|| Err(without_ca()), |proxy| proxy.verify(chain, now));
        let user = trust.client_ca.as_ref().map_or_else(|| Err(without_ca()), |ca| ca.identify(chain, now));
        let is_good = proxy.is_ok() || user.is_ok();
        let end = client_cert::valid_until(chain).filter(|_| is_good);
        let until = end.unwrap_or_else(|| now.plus_seconds(REFUSAL_SECONDS));
        let verification = Verification { trust: Arc::clone(trust), until, proxy, user: user.map(Arc::new) };
        let verification = Arc::new(verification);
        certificate.verification.store(Some(Arc::clone(&verification)));
        verification
    }
}

/// Returns the bearer token of an Authorization header.
fn token_of(credential: &[u8]) -> Result<&str, Refused> {
    let credential = std::str::from_utf8(credential).map_err(|_| Refused::Scheme)?;
    let (scheme, token) = credential.trim().split_once(' ').ok_or(Refused::Scheme)?;
    let token = token.trim();
    match scheme.eq_ignore_ascii_case("bearer") && !token.is_empty() {
        true => Ok(token),
        false => Err(Refused::Scheme),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wh5_a_verification_ends_with_its_certificate_and_with_other_cas() {
        let (trust, now) = (Arc::<Trust>::default(), Time::default());
        let refused = || Untrusted::Refused(String::new());
        let until = now.plus_seconds(60);
        let found = Verification { trust: Arc::clone(&trust), until, proxy: Err(refused()), user: Err(refused()) };
        assert!(found.holds(&trust, now) && found.holds(&trust, now.plus_seconds(59)));
        assert!(!found.holds(&trust, until) && !found.holds(&trust, now.plus_seconds(61)));
        assert!(!found.holds(&Arc::default(), now));
    }
}
