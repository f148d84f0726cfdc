//! The certificates by which the replicas of a deployment authenticate each other.
//!
//! The leader creates a CA at the first start and stores it in the database, so only a process that
//! can read the database is a replica. It creates a new CA 90 days before the newest one expires.
//! Each replica trusts all stored CAs, signs its own certificate with one of them, and keeps that
//! certificate in memory.
//!
//! *Invariant:* no replica presents a certificate of a CA that another replica may not trust yet. A
//! new CA signs only after it has been stored for longer than a replica can lag behind
//! (`ADOPTED_AFTER_SECONDS`).
//!
//! The key of the object belongs to no served kind, so no request reaches it.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use rcgen::{ExtendedKeyUsagePurpose, Issuer, KeyPair};
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::sync::watch;

use super::certs::{self, Validity};
use ballast_auth::ClientCa;
use ballast_base::clock::Clock;
use ballast_k8s::{Document, GroupResource, Key, Object, Time};
use ballast_server::{self as server, KnownLeader, PEER_NAME, Replicas, Shutdown, Tls};
use ballast_watch::{Atomicity, Cache, Draft, Expect, Interest, Write, WriteError, Writer};

/// The resource in the key of the object. A copy to SQLite omits the content (WH3).
pub const KIND: GroupResource = GroupResource::new("replicacertificates.internal.ballast.dev");
const NAME: &str = "deployment";
const CA_DAYS: u16 = 365;
/// A new CA is created this long before the newest one expires.
const CA_RENEWED_BEFORE_SECONDS: i64 = 90 * DAY_SECONDS;
const LEAF_DAYS: u16 = 30;
const DAY_SECONDS: i64 = 24 * 60 * 60;
/// A new CA signs after this time, if another one is valid that long. A replica that cannot reach
/// the database rejects all requests after a minute, so no replica lags behind as much.
const ADOPTED_AFTER_SECONDS: i64 = DAY_SECONDS;
/// Number of CAs kept: the newest, and its predecessor, because certificates of it are still in
/// use.
const CAS_MAX: usize = 2;
/// Each replica renews its own certificate at this interval, and whenever there is a new CA.
const RENEWED_EVERY: Duration = Duration::from_secs(24 * 60 * 60);
/// Pause before the state is read again after it changed during a write.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// The content of the stored object.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Deployment {
    /// The newest first. Absent in a log that was copied from a file.
    #[serde(default)]
    authorities: Vec<Authority>,
}

/// A CA with its key (PEM).
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Authority {
    certificate: String,
    key: String,
    /// The expiry in seconds since 1970.
    not_after: i64,
}

impl Deployment {
    /// Returns the deployment with a new CA. `None` if the newest one is valid for long enough.
    fn renewed(mut self, now: Time) -> anyhow::Result<Option<Deployment>> {
        let lasts_until = self.authorities.first().map_or(0, |newest| newest.not_after);
        if lasts_until > now.seconds() + CA_RENEWED_BEFORE_SECONDS {
            return Ok(None);
        }
        self.authorities.insert(0, Authority::new(now)?);
        self.authorities.truncate(CAS_MAX);
        Ok(Some(self))
    }

    /// Returns the CA that signs now: the newest one that all replicas trust and that expires after
    /// the certificates that it signs. If there is none, returns the newest of all.
    fn signer(&self, now: Time) -> Option<&Authority> {
        let is_adopted = |it: &&Authority| {
            it.made() + ADOPTED_AFTER_SECONDS <= now.seconds()
                && it.not_after > now.seconds() + i64::from(LEAF_DAYS) * DAY_SECONDS
        };
        self.authorities.iter().find(is_adopted).or(self.authorities.first())
    }

    /// Issues the credentials of a replica, valid from now on.
    fn credentials(&self, now: Time) -> anyhow::Result<Credentials> {
        let signer = self.signer(now).context("there is no CA")?;
        let trusted = self.authorities.iter().map(|authority| authority.certificate.as_str()).collect();
        let (certificate, key) = leaf(signer, now)?;
        Ok(Credentials { trusted, certificate, key })
    }
}

/// The certificate that a replica presents to the others, and the CAs that it trusts (PEM).
struct Credentials {
    trusted: String,
    certificate: String,
    key: String,
}

impl Authority {
    fn new(now: Time) -> anyhow::Result<Authority> {
        let key = KeyPair::generate()?;
        let certificate = certs::ca_params(now, Validity::Days(CA_DAYS))?.self_signed(&key)?;
        let not_after = now.seconds() + i64::from(CA_DAYS) * DAY_SECONDS;
        Ok(Authority { certificate: certificate.pem(), key: key.serialize_pem(), not_after })
    }

    /// Returns the time of creation in seconds since 1970.
    fn made(&self) -> i64 {
        self.not_after - i64::from(CA_DAYS) * DAY_SECONDS
    }
}

/// Creates a CA if none is valid for long enough. Only the leader can store it.
async fn ensure(cache: &Cache, writer: &Writer, clock: &dyn Clock) -> anyhow::Result<()> {
    let key = Key::cluster(KIND, NAME);
    let there = cache.view().get(&key).cloned();
    let deployment = there.as_deref().map(read).transpose()?.unwrap_or_default();
    let Some(renewed) = deployment.renewed(clock.now())? else { return Ok(()) };
    let Value::Object(mut tree) = serde_json::to_value(&renewed)? else {
        anyhow::bail!("the certificates are not an object");
    };
    tree.insert("metadata".to_owned(), Value::Object(Map::from_iter([("name".to_owned(), Value::from(NAME))])));
    let expect = there.map_or(Expect::Absent, |there| Expect::At(there.revision));
    let write = Write { key, expect, draft: Draft::Put(Document::new(tree)) };
    match writer.commit(vec![write], Atomicity::All).await {
        Ok(_) => tracing::info!("made a CA by which the replicas authenticate each other"),
        // Another replica leads by now, and creates the CA.
        Err(WriteError::Following | WriteError::Deposed) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

/// The task that renews the certificates of this replica.
pub struct PeerCertificates {
    pub cache: Cache,
    pub writer: Writer,
    pub lead: watch::Receiver<KnownLeader>,
    pub replicas: Arc<Replicas>,
    pub tls: Tls,
    pub clock: Arc<dyn Clock>,
}

impl PeerCertificates {
    /// Returns the known replicas, and the task that renews the certificate of this one.
    pub fn of(
        lead: watch::Receiver<KnownLeader>,
        shutdown: &Shutdown,
        cache: Cache,
        writer: Writer,
        tls: Tls,
        clock: Arc<dyn Clock>,
    ) -> (Arc<Replicas>, PeerCertificates) {
        let database = cache.clone();
        let is_cut_off = move || database.is_cut_off();
        let replicas = Arc::new(Replicas::new(lead.clone(), Arc::clone(&clock), shutdown.clone(), is_cut_off));
        let certificates = PeerCertificates { cache, writer, lead, replicas: Arc::clone(&replicas), tls, clock };
        (replicas, certificates)
    }

    /// Keeps the certificate of this replica and the CAs that it trusts up to date.
    pub async fn keep_current(self) {
        let PeerCertificates { cache, writer, mut lead, replicas, tls, clock } = self;
        loop {
            let leads = matches!(*lead.borrow_and_update(), KnownLeader::Local { .. });
            if leads && let Err(error) = ensure(&cache, &writer, &*clock).await {
                tracing::error!(error = format!("{error:#}"), "failed to make a CA for the replicas");
            }
            let view = cache.view();
            if let Some(object) = view.get(&Key::cluster(KIND, NAME))
                && let Err(error) = install(object, &replicas, &tls, clock.now())
            {
                tracing::error!(error = format!("{error:#}"), "the certificates of the replicas cannot be used");
            }
            let Ok(mut news) = cache.subscribe(Interest::Kinds(vec![KIND]), view.revision) else {
                tokio::time::sleep(RETRY_PAUSE).await;
                continue;
            };
            let comes_to_lead = lead.wait_for(|lead| matches!(lead, KnownLeader::Local { .. }));
            // The newest state is read, whatever ended the wait.
            tokio::select! {
                _ = news.next() => {}
                Ok(_) = comes_to_lead, if !leads => {}
                () = tokio::time::sleep(RENEWED_EVERY) => {}
            }
        }
    }
}

fn read(object: &Object) -> anyhow::Result<Deployment> {
    Ok(serde_json::from_value(Value::Object(object.value()?))?)
}

fn install(object: &Object, replicas: &Replicas, tls: &Tls, now: Time) -> anyhow::Result<()> {
    let Credentials { trusted, certificate, key } = read(object)?.credentials(now)?;
    let ca = ClientCa::from_pem(trusted.as_bytes(), server::signature_algorithms())?;
    let roots = roots(&trusted)?;
    let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes())?];
    let client = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, PrivateKeyDer::from_pem_slice(key.as_bytes())?)?;
    tls.show_to_peers(certificate.as_bytes(), key.as_bytes())?;
    replicas.trust(ca, client);
    Ok(())
}

fn roots(trusted: &str) -> anyhow::Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for root in CertificateDer::pem_slice_iter(trusted.as_bytes()) {
        roots.add(root?)?;
    }
    Ok(roots)
}

/// Issues a certificate for this replica and returns it with its key (PEM).
fn leaf(authority: &Authority, now: Time) -> anyhow::Result<(String, String)> {
    let (ca_key, key) = (KeyPair::from_pem(&authority.key)?, KeyPair::generate()?);
    let mut params = certs::server_params(&[PEER_NAME.to_owned()])?;
    params.extended_key_usages.push(ExtendedKeyUsagePurpose::ClientAuth);
    certs::set_validity(&mut params, now, Validity::Days(LEAF_DAYS))?;
    let issuer = Issuer::from_ca_cert_pem(&authority.certificate, ca_key)?;
    Ok((params.signed_by(&key, &issuer)?.pem(), key.serialize_pem()))
}

#[cfg(test)]
mod tests {
    use rustls::client::WebPkiServerVerifier;
    use rustls::client::danger::ServerCertVerifier;
    use rustls_pki_types::{ServerName, UnixTime};

    use super::*;
    use ballast_auth::Untrusted;

    const HOUR_SECONDS: i64 = 60 * 60;
    /// Delay in hours after which each replica receives a new CA, relative to the leader.
    const BEHIND_HOURS: [i64; 3] = [0, 1, 20];

    /// Returns whether a replica that trusts `ours` accepts `theirs`, as a server and as a client.
    fn accepts(ours: &Credentials, theirs: &Credentials, now: Time) -> bool {
        let shown = CertificateDer::from_pem_slice(theirs.certificate.as_bytes()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let roots = Arc::new(roots(&ours.trusted).unwrap());
        let verifier = WebPkiServerVerifier::builder_with_provider(roots, provider).build().unwrap();
        let name = ServerName::try_from(PEER_NAME).unwrap();
        let time = UnixTime::since_unix_epoch(Duration::from_secs(now.seconds().unsigned_abs()));
        let ca = ClientCa::from_pem(ours.trusted.as_bytes(), server::signature_algorithms()).unwrap();
        verifier.verify_server_cert(&shown, &[], &name, &[], time).is_ok()
            && matches!(ca.identify(&[shown], now), Ok(_) | Err(Untrusted::Nameless))
    }

    /// Simulates twenty months. Each replica checks once a day, at a different hour, and whenever
    /// it receives a new CA, which is later for some.
    #[test]
    fn re7_while_the_ca_is_rotated_every_replica_accepts_every_other() {
        let begin = Time::from_seconds(1_800_000_000);
        let mut states = vec![(0, Deployment::default().renewed(begin).unwrap().unwrap())];
        let mut replicas: Vec<(usize, Credentials)> =
            BEHIND_HOURS.iter().map(|_| (0, states[0].1.credentials(begin).unwrap())).collect();
        for hour in 0..600 * 24 {
            let now = begin.plus_seconds(hour * HOUR_SECONDS);
            // The leader checks once a day.
            if hour % 24 == 0
                && let Some(renewed) = copy(&states.last().unwrap().1).renewed(now).unwrap()
            {
                states.push((hour, renewed));
            }
            let mut has_changed = false;
            for (number, behind) in BEHIND_HOURS.into_iter().enumerate() {
                let heard = states.iter().rposition(|(told, _)| told + behind <= hour).unwrap_or(0);
                if heard != replicas[number].0 || hour % 24 == 7 * number as i64 {
                    replicas[number] = (heard, states[heard].1.credentials(now).unwrap());
                    has_changed = true;
                }
            }
            if has_changed {
                for (one, other) in [(0, 1), (1, 2), (2, 0), (1, 0), (2, 1), (0, 2)] {
                    assert!(accepts(&replicas[one].1, &replicas[other].1, now), "{one} refuses {other} in hour {hour}");
                }
            }
        }
        assert!(states.len() > 2, "the CA was rotated {} times", states.len() - 1);
        let stranger = Deployment::default().renewed(begin).unwrap().unwrap().credentials(begin).unwrap();
        assert!(!accepts(&stranger, &replicas[0].1, begin), "and no other process");
    }

    fn copy(deployment: &Deployment) -> Deployment {
        serde_json::from_value(serde_json::to_value(deployment).unwrap()).unwrap()
    }
}
