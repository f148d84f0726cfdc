//! `ballast serving-cert`: creates and renews the serving certificate of a Service in a Secret, and
//! makes the aggregator trust its CA. It is meant for a Job at installation and a CronJob after it.
//!
//! Each renewal creates a new CA and discards its key, so nothing else can be signed with it. The
//! bundle also contains the previous CA, because pods present the old certificate until they have
//! received the Secret. An interrupted run leaves a bundle that trusts more than needed, never
//! less.

use std::path::PathBuf;

use anyhow::Context;
use clap::Args as ClapArgs;
use rcgen::{Issuer, KeyPair};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName};
use webpki::EndEntityCert;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::output::print;
use ballast_base::clock::{Clock, SystemClock};
use ballast_base::telemetry;
use ballast_host::{Host, HostAddress, Pair, ServingCert};
use ballast_k8s::Time;
use ballast_node::config::GoDuration;
use ballast_node::{UsageError, certs};

#[derive(ClapArgs, Debug)]
pub struct Args {
    /// The Service that kube-apiserver connects to, as NAMESPACE/NAME; the certificate is for
    /// NAME.NAMESPACE.svc
    #[arg(long, default_value = "ballast-system/ballast")]
    pub service: String,

    /// The Secret, in the namespace of the Service
    #[arg(long, default_value = "ballast-serving-cert")]
    pub secret: String,

    /// Validity of a certificate in days
    #[arg(long, default_value_t = 90, value_parser = clap::value_parser!(u16).range(1..=3650))]
    pub valid_days: u16,

    /// Renew the certificate if it expires within this time
    #[arg(long, default_value = "720h")]
    pub renew_before: GoDuration,

    /// Kubeconfig of the cluster
    #[arg(long, env = "BALLAST_KUBECONFIG", conflicts_with = "in_cluster")]
    pub kubeconfig: Option<PathBuf>,

    /// Use the cluster that this process runs in
    #[arg(long, env = "BALLAST_IN_CLUSTER")]
    pub in_cluster: bool,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    let _lines = telemetry::start(telemetry::LogFormat::Text, telemetry::Detail::Verbosity(0));
    // kube needs a default provider for the process. It may be installed already.
    let _already_there = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let said = runtime.block_on(publish(args, SystemClock.now()))?;
    print(&format!("{said}\n"))
}

async fn publish(args: &Args, now: Time) -> anyhow::Result<String> {
    let usage = |text: &str| anyhow::Error::new(UsageError(text.to_owned()));
    let place = match (&args.kubeconfig, args.in_cluster) {
        (Some(path), _) => HostAddress::Kubeconfig(path.clone()),
        (None, true) => HostAddress::InCluster,
        (None, false) => return Err(usage("--kubeconfig or --in-cluster says which cluster it is for")),
    };
    let (namespace, service) = args.service.split_once('/').ok_or_else(|| usage("--service wants NAMESPACE/NAME"))?;
    let name = format!("{service}.{namespace}.svc");
    let there = ServingCert::new(Host::connect(&place).await?, namespace, service, &args.secret);
    let known = there.load().await?;
    let spare = i64::try_from(args.renew_before.0.as_secs()).unwrap_or(i64::MAX);
    if let Some(pair) = known.as_ref().filter(|pair| is_good(pair, &name, now.plus_seconds(spare))) {
        let changed = there.trust(&pair.cas).await?;
        return Ok(format!("the certificate is good; {} APIServices were told of its CA", changed.len()));
    }
    let before = known.as_ref().and_then(|pair| first_ca(&pair.cas)).unwrap_or_default();
    let mut pair = make(&name, args.valid_days, now).context("failed to make a certificate")?;
    pair.cas.push_str(&before);
    // The aggregator must trust the CA before a pod presents the certificate.
    let changed = there.trust(&pair.cas).await?;
    there.store(&pair).await?;
    Ok(format!("made a certificate for {name}; {} APIServices were told of its CA", changed.len()))
}

/// Returns whether a certificate is for this name, signed by the first of its CAs, and valid until
/// `until`.
fn is_good(pair: &Pair, name: &str, until: Time) -> bool {
    let check = || {
        let leaf = CertificateDer::from_pem_slice(pair.certificate.as_bytes()).ok()?;
        let ca = CertificateDer::from_pem_slice(pair.cas.as_bytes()).ok()?;
        let key = KeyPair::from_pem(&pair.key).ok()?;
        let (_, parsed) = X509Certificate::from_der(&leaf).ok()?;
        let (_, issuer) = X509Certificate::from_der(&ca).ok()?;
        let name = ServerName::try_from(name).ok()?;
        EndEntityCert::try_from(&leaf).ok()?.verify_is_valid_for_subject_name(&name).ok()?;
        let is_ours = parsed.public_key().raw == rcgen::PublicKeyData::subject_public_key_info(&key)
            && parsed.issuer() == issuer.subject();
        Some(is_ours && parsed.validity().not_after.timestamp() > until.seconds())
    };
    check().unwrap_or(false)
}

fn make(name: &str, valid_days: u16, now: Time) -> anyhow::Result<Pair> {
    let ca_key = KeyPair::generate()?;
    let ca_params = certs::ca_params(now, certs::Validity::Days(valid_days))?;
    let ca = ca_params.self_signed(&ca_key)?;
    let key = KeyPair::generate()?;
    let mut params = certs::server_params(&[name.to_owned()])?;
    certs::set_validity(&mut params, now, certs::Validity::Days(valid_days))?;
    let certificate = params.signed_by(&key, &Issuer::new(ca_params, ca_key))?;
    Ok(Pair { certificate: certificate.pem(), key: key.serialize_pem(), cas: ca.pem() })
}

/// Returns the first certificate of a bundle, as PEM.
fn first_ca(bundle: &str) -> Option<String> {
    const END: &str = "-----END CERTIFICATE-----";
    let end = bundle.find(END)? + END.len();
    Some(format!("{}\n", bundle[..end].trim_start()))
}
