//! The certificates by which the replicas of a deployment know each other.
//!
//! The leader makes a CA at the first start and keeps it in the database, so that only who can
//! read the database is a replica. It makes a new one in good time before the old one ends. Each
//! replica trusts all that are there, signs a certificate of its own with the newest, and keeps
//! that in memory.
//!
//! The object has a key of no kind that is served, so no request reaches it.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use rcgen::{ExtendedKeyUsagePurpose, Issuer, KeyPair};
use rustls::ClientConfig;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::sync::watch;

use super::certs::{self, Validity};
use crate::auth::ClientCa;
use crate::clock::Clock;
use crate::k8s::{Document, GroupResource, Key, Object, Time};
use crate::server::{self, Lead, PEER_NAME, Replicas, Tls};
use crate::watch::{Atomicity, Cache, Draft, Expect, Interest, Write, WriteError, Writer};

const KIND: GroupResource = GroupResource::new("replicacertificates.internal.ballast.dev");
const NAME: &str = "deployment";
const CA_DAYS: u16 = 365;
/// A new CA is made this long before the newest one ends.
const CA_RENEWED_BEFORE_SECONDS: i64 = 90 * DAY_SECONDS;
const LEAF_DAYS: u16 = 30;
const DAY_SECONDS: i64 = 24 * 60 * 60;
/// CAs that are kept: the newest, and the one before, whose certificates are still in use.
const CAS_MAX: usize = 2;
/// Each replica renews its own certificate this often, and whenever there is a new CA.
const RENEWED_EVERY: Duration = Duration::from_secs(24 * 60 * 60);
/// The pause before the state is looked at again, after it moved on too quickly.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// What the database keeps.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Deployment {
    /// The newest first.
    authorities: Vec<Authority>,
}

/// A CA with its key (PEM).
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Authority {
    certificate: String,
    key: String,
    /// In seconds since 1970.
    not_after: i64,
}

/// Makes a CA if there is none, or none that lasts. Only the leader can.
async fn ensure(cache: &Cache, writer: &Writer, clock: &dyn Clock) -> anyhow::Result<()> {
    let key = Key::cluster(KIND, NAME);
    let there = cache.view().get(&key).cloned();
    let mut deployment = there.as_deref().map(read).transpose()?.unwrap_or_default();
    let now = clock.now();
    let lasts_until = deployment.authorities.first().map_or(0, |newest| newest.not_after);
    if lasts_until > now.seconds() + CA_RENEWED_BEFORE_SECONDS {
        return Ok(());
    }
    deployment.authorities.insert(0, authority(now)?);
    deployment.authorities.truncate(CAS_MAX);
    let Value::Object(mut tree) = serde_json::to_value(&deployment)? else {
        anyhow::bail!("the certificates are no object");
    };
    tree.insert("metadata".to_owned(), Value::Object(Map::from_iter([("name".to_owned(), Value::from(NAME))])));
    let expect = there.map_or(Expect::Absent, |there| Expect::At(there.revision));
    let write = Write { key, expect, draft: Draft::Put(Document::new(tree)) };
    match writer.commit(vec![write], Atomicity::All).await {
        Ok(_) => tracing::info!("made a CA by which the replicas know each other"),
        // Another replica leads by now, and sees to it.
        Err(WriteError::Following | WriteError::Deposed) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(())
}

/// What `follow` needs.
pub struct Upkeep {
    pub cache: Cache,
    pub writer: Writer,
    pub lead: watch::Receiver<Lead>,
    pub replicas: Arc<Replicas>,
    pub tls: Tls,
    pub clock: Arc<dyn Clock>,
}

/// Keeps what this replica shows to the others, and what it trusts, up to date.
pub async fn follow(upkeep: Upkeep) {
    let Upkeep { cache, writer, mut lead, replicas, tls, clock } = upkeep;
    loop {
        let leads = matches!(*lead.borrow_and_update(), Lead::Here { .. });
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
        let comes_to_lead = lead.wait_for(|lead| matches!(lead, Lead::Here { .. }));
        // Whatever ends the wait, the newest state is what counts.
        tokio::select! {
            _ = news.next() => {}
            Ok(_) = comes_to_lead, if !leads => {}
            () = tokio::time::sleep(RENEWED_EVERY) => {}
        }
    }
}

fn read(object: &Object) -> anyhow::Result<Deployment> {
    Ok(serde_json::from_value(Value::Object(object.value()?))?)
}

fn authority(now: Time) -> anyhow::Result<Authority> {
    let key = KeyPair::generate()?;
    let certificate = certs::ca_params(now, Validity::Days(CA_DAYS))?.self_signed(&key)?;
    let not_after = now.seconds() + i64::from(CA_DAYS) * DAY_SECONDS;
    Ok(Authority { certificate: certificate.pem(), key: key.serialize_pem(), not_after })
}

fn install(object: &Object, replicas: &Replicas, tls: &Tls, now: Time) -> anyhow::Result<()> {
    let Deployment { authorities } = read(object)?;
    let newest = authorities.first().context("there is no CA")?;
    let bundle: String = authorities.iter().map(|authority| authority.certificate.as_str()).collect();
    let ca = ClientCa::from_pem(bundle.as_bytes(), server::signature_algorithms())?;
    let (certificate, key) = leaf(newest, now)?;
    let mut roots = rustls::RootCertStore::empty();
    for root in CertificateDer::pem_slice_iter(bundle.as_bytes()) {
        roots.add(root?)?;
    }
    let chain = vec![CertificateDer::from_pem_slice(certificate.as_bytes())?];
    let client = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, PrivateKeyDer::from_pem_slice(key.as_bytes())?)?;
    tls.show_to_peers(certificate.as_bytes(), key.as_bytes())?;
    replicas.trust(ca, client);
    Ok(())
}

/// The certificate of this replica and its key (PEM).
fn leaf(authority: &Authority, now: Time) -> anyhow::Result<(String, String)> {
    let (ca_key, key) = (KeyPair::from_pem(&authority.key)?, KeyPair::generate()?);
    let mut params = certs::server_params(&[PEER_NAME.to_owned()])?;
    params.extended_key_usages.push(ExtendedKeyUsagePurpose::ClientAuth);
    certs::set_validity(&mut params, now, Validity::Days(LEAF_DAYS))?;
    let issuer = Issuer::from_ca_cert_pem(&authority.certificate, ca_key)?;
    Ok((params.signed_by(&key, &issuer)?.pem(), key.serialize_pem()))
}
