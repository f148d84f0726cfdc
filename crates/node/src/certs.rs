//! Development certificates: a CA, the server's certificate, an administrator's, and a kubeconfig.
//!
//! *Invariant:* existing certificates and keys are never overwritten. A pair of certificate and key
//! is created if both are missing. An incomplete, unreadable or expired pair, or one that the CA
//! did not sign, is an error that names the files and the remedy. A deleted pair is created again
//! from the same CA.
//!
//! Deliberately absent: rotation, and certificates from elsewhere (`--tls-cert-file`,
//! `--client-ca-file`).

use std::fs;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail, ensure};
use base64::Engine;
use rcgen::{
    BasicConstraints, Certificate, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, PublicKeyData,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use webpki::{EndEntityCert, KeyUsage};
use x509_parser::prelude::{FromDer, X509Certificate};

use ballast_base::file_mode;
use ballast_k8s::{Time, User};

/// Names that every serving certificate contains.
const LOCAL_NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];
const ADMIN_NAME: &str = "ballast-admin";
const CA_VALID: Validity = Validity::Years(10);
const LEAF_VALID: Validity = Validity::Years(2);
/// The first line of a kubeconfig that may be overwritten when the address changes.
const KUBECONFIG_MARK: &str =
    "# Written by ballast, and again whenever the address changes. To keep edits, delete this line.";

/// The paths of the certificates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    pub ca_cert: PathBuf,
    pub ca_key: PathBuf,
    pub server_cert: PathBuf,
    pub server_key: PathBuf,
    pub admin_cert: PathBuf,
    pub admin_key: PathBuf,
    pub admin_kubeconfig: PathBuf,
}

impl Files {
    /// Returns the paths below `dir`. The files need not exist.
    pub fn in_dir(dir: &Path) -> Files {
        Files {
            ca_cert: dir.join("ca.crt"),
            ca_key: dir.join("ca.key"),
            server_cert: dir.join("server.crt"),
            server_key: dir.join("server.key"),
            admin_cert: dir.join("admin.crt"),
            admin_key: dir.join("admin.key"),
            admin_kubeconfig: dir.join("admin.kubeconfig"),
        }
    }
}

/// Creates the missing files below `dir` and checks the existing ones. `names` are further DNS
/// names and addresses that the serving certificate must contain.
pub fn ensure(dir: &Path, names: &[String], now: Time) -> anyhow::Result<Files> {
    let names: Vec<String> = LOCAL_NAMES.iter().map(|name| (*name).to_owned()).chain(names.iter().cloned()).collect();
    let files = ensure_files(dir, &names, now)?;
    for name in &names {
        ensure!(
            holds(&files, name)?,
            "{} does not hold the name {name:?}. Remove it and {} to have them made anew",
            files.server_cert.display(),
            files.server_key.display()
        );
    }
    Ok(files)
}

/// Like `ensure`, for a server that listens on `address`. A new certificate contains the address.
/// An existing one need not, because the address of a pod changes with every start.
pub fn ensure_for(dir: &Path, address: IpAddr, now: Time) -> anyhow::Result<Files> {
    if !dir.join("server.crt").exists() && !address.is_unspecified() {
        return ensure(dir, &[address.to_string()], now);
    }
    ensure(dir, &[], now)
}

/// Returns the address at which a client on this machine reaches a server that listens on
/// `address`. The unspecified addresses (`0.0.0.0`, `::`) stand for every address of the machine,
/// and no certificate contains them.
pub fn reachable(address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => SocketAddr::new(Ipv4Addr::LOCALHOST.into(), address.port()),
        IpAddr::V6(ip) if ip.is_unspecified() => SocketAddr::new(Ipv6Addr::LOCALHOST.into(), address.port()),
        _ => address,
    }
}

fn ensure_files(dir: &Path, names: &[String], now: Time) -> anyhow::Result<Files> {
    fs::create_dir_all(dir).with_context(|| {
        let whole = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
        format!("failed to create {} (--cert-dir)", whole.display())
    })?;
    let files = Files::in_dir(dir);
    let ca = ensure_ca(&files, now)?;
    ensure_leaf(&ca, &files.server_cert, &files.server_key, &server_params(names)?, now)?;
    ensure_leaf(&ca, &files.admin_cert, &files.admin_key, &admin_params()?, now)?;
    Ok(files)
}

/// Writes the administrator's kubeconfig for a server at `url`, unless the existing one was not
/// written by Ballast.
///
/// Certificates and key are embedded, so that the file can be copied elsewhere. If the serving
/// certificate does not contain the host of `url`, the kubeconfig sets `tls-server-name:
/// localhost`.
pub fn write_kubeconfig(files: &Files, url: &str) -> anyhow::Result<()> {
    let uri: http::Uri = url.parse().with_context(|| format!("{url:?} is not a URL such as https://127.0.0.1:7443"))?;
    let host = uri.host().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    let verified_name = if holds(files, host)? { "" } else { "\n    tls-server-name: localhost" };
    let path = &files.admin_kubeconfig;
    let embed = |path: &Path| anyhow::Ok(base64::engine::general_purpose::STANDARD.encode(read(path)?));
    let (ca, cert, key) = (embed(&files.ca_cert)?, embed(&files.admin_cert)?, embed(&files.admin_key)?);
    let text = format!(
        r#"{KUBECONFIG_MARK}
apiVersion: v1
kind: Config
current-context: ballast
contexts:
- name: ballast
  context: {{cluster: ballast, user: {ADMIN_NAME}}}
clusters:
- name: ballast
  cluster:
    server: {url}{verified_name}
    certificate-authority-data: {ca}
users:
- name: {ADMIN_NAME}
  user:
    client-certificate-data: {cert}
    client-key-data: {key}
"#
    );
    match fs::read_to_string(path) {
        Ok(existing) if existing == text || !existing.starts_with(KUBECONFIG_MARK) => Ok(()),
        Ok(_) => write(path, &text, Secrecy::Secret, Existing::Replace),
        Err(error) if error.kind() == io::ErrorKind::NotFound => write(path, &text, Secrecy::Secret, Existing::Refuse),
        Err(error) => Err(error).with_context(|| format!("failed to read {}", path.display())),
    }
}

/// The CA. Its key may be missing because it is stored elsewhere; certificates can then be checked
/// but not created.
struct Ca {
    cert: CertificateDer<'static>,
    cert_path: PathBuf,
    key_path: PathBuf,
    key: Option<KeyPair>,
}

impl Ca {
    fn sign(&self, params: &CertificateParams, key: &KeyPair) -> anyhow::Result<Certificate> {
        let (cert, missing) = (self.cert_path.display(), self.key_path.display());
        let ca_key = self.key.as_ref().with_context(|| {
            format!("{missing} is missing, so no certificate can be made that fits {cert}. Put it back, or remove {cert} and everything it signed")
        })?;
        let issuer = Issuer::from_ca_cert_der(&self.cert, ca_key).with_context(|| format!("failed to use {cert}"))?;
        Ok(params.signed_by(key, &issuer)?)
    }
}

fn ensure_ca(files: &Files, now: Time) -> anyhow::Result<Ca> {
    let (cert_path, key_path) = (&files.ca_cert, &files.ca_key);
    let orphans: Vec<String> = [&files.server_cert, &files.server_key, &files.admin_cert, &files.admin_key]
        .into_iter()
        .filter(|path| path.exists())
        .map(|path| path.display().to_string())
        .collect();
    match (exists(cert_path)?, exists(key_path)?) {
        (false, false) if orphans.is_empty() => {
            let key = KeyPair::generate()?;
            let cert = ca_params(now, CA_VALID)?.self_signed(&key)?;
            write_pair(cert_path, &cert.pem(), key_path, &key)?;
        }
        (false, false) => bail!(
            "{} is missing, but what it signed is there. Put it back, or remove {} to have all of them made anew",
            cert_path.display(),
            orphans.join(", ")
        ),
        (false, true) => return Err(half(cert_path, key_path)),
        (true, _) => {}
    }
    let cert = read_cert(cert_path)?;
    let key = exists(key_path)?.then(|| read_key(key_path)).transpose()?;
    if let Some(key) = &key {
        check_key(&cert, cert_path, key, key_path)?;
    }
    webpki::anchor_from_trusted_cert(&cert).with_context(|| format!("{} cannot be a CA", cert_path.display()))?;
    Ok(Ca { cert, cert_path: cert_path.clone(), key_path: key_path.clone(), key })
}

fn ensure_leaf(
    ca: &Ca,
    cert_path: &Path,
    key_path: &Path,
    params: &CertificateParams,
    now: Time,
) -> anyhow::Result<()> {
    match (exists(cert_path)?, exists(key_path)?) {
        (false, false) => {
            let key = KeyPair::generate()?;
            let mut params = params.clone();
            set_validity(&mut params, now, LEAF_VALID)?;
            let cert = ca.sign(&params, &key)?;
            write_pair(cert_path, &cert.pem(), key_path, &key)?;
        }
        (true, true) => {}
        (true, false) => return Err(half(key_path, cert_path)),
        (false, true) => return Err(half(cert_path, key_path)),
    }
    let cert = read_cert(cert_path)?;
    check_key(&cert, cert_path, &read_key(key_path)?, key_path)?;
    let usage = match params.extended_key_usages.as_slice() {
        [ExtendedKeyUsagePurpose::ClientAuth] => KeyUsage::client_auth(),
        _ => KeyUsage::server_auth(),
    };
    let anchor = webpki::anchor_from_trusted_cert(&ca.cert)?;
    let seconds = u64::try_from(now.seconds()).unwrap_or_default();
    let time = UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds));
    let algorithms = rustls::crypto::ring::default_provider().signature_verification_algorithms.all;
    EndEntityCert::try_from(&cert)
        .and_then(|leaf| leaf.verify_for_usage(algorithms, &[anchor], &[], time, usage, None, None).map(drop))
        .map_err(|error| {
            let (cert, key, ca) = (cert_path.display(), key_path.display(), ca.cert_path.display());
            anyhow!("{cert} cannot be used with {ca}: {error}. Remove {cert} and {key} to have them made anew")
        })
}

/// Returns whether the serving certificate is valid for this DNS name or address.
fn holds(files: &Files, name: &str) -> anyhow::Result<bool> {
    let cert = read_cert(&files.server_cert)?;
    let leaf = EndEntityCert::try_from(&cert)?;
    let server_name = ServerName::try_from(name).with_context(|| bad_name(name))?;
    Ok(leaf.verify_is_valid_for_subject_name(&server_name).is_ok())
}

fn bad_name(name: &str) -> String {
    format!("{name:?} is neither a DNS name nor an IP address")
}

/// Returns the parameters of a CA that is valid from `now` on.
pub fn ca_params(now: Time, validity: Validity) -> anyhow::Result<CertificateParams> {
    let mut params = CertificateParams::new(vec![])?;
    // The time distinguishes this CA from an earlier one that a client may still trust.
    params.distinguished_name = name(&[(DnType::CommonName, &format!("ballast-ca@{}", now.seconds()))]);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    set_validity(&mut params, now, validity)?;
    Ok(params)
}

/// Returns the parameters of a serving certificate for these DNS names and IP addresses.
pub fn server_params(names: &[String]) -> anyhow::Result<CertificateParams> {
    for name in names {
        let known = name.parse::<IpAddr>().is_ok() || ServerName::try_from(name.as_str()).is_ok();
        ensure!(known, "{}", bad_name(name));
    }
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name = name(&[(DnType::CommonName, "ballast")]);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    Ok(leaf(params))
}

fn admin_params() -> anyhow::Result<CertificateParams> {
    let mut params = CertificateParams::new(vec![])?;
    params.distinguished_name = name(&[(DnType::OrganizationName, User::MASTERS), (DnType::CommonName, ADMIN_NAME)]);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    Ok(leaf(params))
}

fn leaf(mut params: CertificateParams) -> CertificateParams {
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.use_authority_key_identifier_extension = true;
    params
}

fn name(parts: &[(DnType, &str)]) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    for (kind, value) in parts {
        name.push(kind.clone(), *value);
    }
    name
}

/// Validity period of a certificate.
#[derive(Clone, Copy, Debug)]
pub enum Validity {
    Years(i16),
    Days(u16),
}

/// Sets the validity in whole days. It begins the day before, to allow for clock skew.
pub fn set_validity(params: &mut CertificateParams, now: Time, validity: Validity) -> anyhow::Result<()> {
    let day = |date: jiff::civil::Date| {
        rcgen::date_time_ymd(date.year().into(), date.month().unsigned_abs(), date.day().unsigned_abs())
    };
    let from = jiff::Timestamp::from_second(now.seconds())?.to_zoned(jiff::tz::TimeZone::UTC).date().yesterday()?;
    params.not_before = day(from);
    params.not_after = day(from.checked_add(match validity {
        Validity::Years(years) => jiff::Span::new().years(years),
        // One additional day for the day before.
        Validity::Days(days) => jiff::Span::new().days(i64::from(days) + 1),
    })?);
    Ok(())
}

fn check_key(cert: &CertificateDer<'_>, cert_path: &Path, key: &KeyPair, key_path: &Path) -> anyhow::Result<()> {
    let (_, parsed) =
        X509Certificate::from_der(cert).with_context(|| format!("failed to read {}", cert_path.display()))?;
    ensure!(
        parsed.public_key().raw == key.subject_public_key_info(),
        "{} is not the key of {}. Put the right one back, or remove both to have them made anew",
        key_path.display(),
        cert_path.display()
    );
    Ok(())
}

fn half(missing: &Path, present: &Path) -> anyhow::Error {
    let (missing, present) = (missing.display(), present.display());
    anyhow!("{missing} is missing, but {present} is there. Put it back, or remove {present} too to have both made anew")
}

fn exists(path: &Path) -> anyhow::Result<bool> {
    path.try_exists().with_context(|| format!("failed to look for {}", path.display()))
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("failed to read {}", path.display()))
}

fn read_cert(path: &Path) -> anyhow::Result<CertificateDer<'static>> {
    CertificateDer::from_pem_slice(&read(path)?).map_err(|error| {
        anyhow!(
            "{} holds no PEM certificate: {error}. Put the right file back, or remove it together with its key",
            path.display()
        )
    })
}

fn read_key(path: &Path) -> anyhow::Result<KeyPair> {
    let pem = String::from_utf8(read(path)?).unwrap_or_default();
    KeyPair::from_pem(&pem).map_err(|error| {
        anyhow!(
            "{} holds no usable PEM private key: {error}. Put the right file back, or remove it together with its certificate",
            path.display()
        )
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Secrecy {
    Public,
    Secret,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Existing {
    Refuse,
    Replace,
}

/// Writes the key first. A certificate without a key would look as if the key had been moved.
fn write_pair(cert_path: &Path, cert: &str, key_path: &Path, key: &KeyPair) -> anyhow::Result<()> {
    write(key_path, &key.serialize_pem(), Secrecy::Secret, Existing::Refuse)?;
    write(cert_path, cert, Secrecy::Public, Existing::Refuse)
}

/// Writes a file atomically, by renaming a temporary file in the same folder.
fn write(path: &Path, text: &str, secrecy: Secrecy, existing: Existing) -> anyhow::Result<()> {
    let place = |error| anyhow::Error::new(error).context(format!("failed to write {}", path.display()));
    let mut fresh = path.as_os_str().to_owned();
    fresh.push(format!(".{}.new", std::process::id()));
    let fresh = PathBuf::from(fresh);
    let mode = if secrecy == Secrecy::Secret { file_mode::PRIVATE } else { file_mode::PUBLIC };
    let mut file = file_mode::options(mode).write(true).create(true).truncate(true).open(&fresh).map_err(place)?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(place)?;
    let placed = match existing {
        Existing::Replace => fs::rename(&fresh, path),
        // A hard link fails if another process that started at the same time has created the file.
        Existing::Refuse => fs::hard_link(&fresh, path).and_then(|()| fs::remove_file(&fresh)),
    };
    placed.map_err(|error| {
        let _ = fs::remove_file(&fresh);
        place(error)
    })
}

#[cfg(test)]
mod tests;
