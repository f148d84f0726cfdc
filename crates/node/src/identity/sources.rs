//! Reads certificates, CAs, tokens and rules from files, flags and the host cluster's ConfigMap,
//! and reloads them when they change (AN4, AN12).
//!
//! *Invariants:*
//! - All parts are read and checked before any of them is used.
//! - If a part cannot be used, the last valid ones stay in use, and the fault is logged once.
//! - Files are compared by content, so any way of replacing them works: renaming, writing in place,
//!   or swapping the volumes of a pod.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use http::HeaderName;
use tokio::sync::watch;

use super::expiry::Expiry;
use crate::UsageError;
use crate::config::IdentityArgs;
use ballast_auth::{Authenticator, Authorizer, ClientCa, FrontProxy, HeaderNames, Policy, TokenFile, Trust};
use ballast_base::clock::Clock;
use ballast_base::metrics;
use ballast_host::Data;
use ballast_server::{Tls, signature_algorithms};

/// Interval at which the files are read. They are few and small.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The sources of certificates, CAs, tokens and rules.
pub struct Sources {
    pub certificate: PathBuf,
    pub key: PathBuf,
    /// The client CA if neither a flag nor the host cluster names one.
    pub development_ca: Option<PathBuf>,
    pub args: IdentityArgs,
    pub config_map: Option<watch::Receiver<Data>>,
}

/// The consumers of the content. They are updated after a change.
pub struct Followed {
    pub tls: Tls,
    pub authenticator: Arc<Authenticator>,
    pub authorizer: Arc<Authorizer>,
}

/// The unparsed content of all sources.
#[derive(Clone, PartialEq, Eq)]
pub struct Material {
    certificate: Vec<u8>,
    key: Vec<u8>,
    client_ca: Option<Vec<u8>>,
    proxy: Option<Proxy>,
    tokens: Option<String>,
    policy: Option<(PathBuf, String)>,
}

#[derive(Clone, PartialEq, Eq)]
struct Proxy {
    ca: Vec<u8>,
    allowed_names: Vec<String>,
    headers: HeaderNames,
}

impl Sources {
    /// Reads all sources once.
    ///
    /// # Errors
    ///
    /// Returns an error if a file cannot be read, or does not have the expected form.
    pub fn read(&self) -> anyhow::Result<Material> {
        let args = &self.args;
        let data = self.config_map.as_ref().map(|data| data.borrow().clone()).unwrap_or_default();
        let client_ca = match (&args.client_ca_file, data.get("client-ca-file"), &self.development_ca) {
            (Some(path), _, _) => Some(read_cas(path)?),
            (None, Some(pem), _) => Some(pem.clone().into_bytes()),
            (None, None, Some(path)) => Some(read(path)?),
            (None, None, None) => None,
        };
        let proxy = match &args.requestheader_client_ca_file {
            Some(path) => Some(Proxy {
                ca: read_cas(path)?,
                allowed_names: args.requestheader_allowed_names.clone(),
                headers: headers_of_flags(args)?,
            }),
            None => proxy_of_config_map(&data)
                .context("failed to read the front proxy from the authentication configuration of the host cluster")?,
        };
        Ok(Material {
            certificate: read(&self.certificate)?,
            key: read(&self.key)?,
            client_ca,
            proxy,
            tokens: args.token_auth_file.as_deref().map(read_text).transpose()?,
            policy: match &args.authorization_policy_file {
                Some(path) => Some((path.clone(), read_text(path)?)),
                None => None,
            },
        })
    }

    /// Reloads what changes, until it is dropped.
    pub async fn follow(mut self, mut known: Material, followed: Followed, clock: Arc<dyn Clock>) {
        let mut last_fault = None;
        let mut expiry = Expiry::of(&known.certificate);
        loop {
            expiry.look(clock.now());
            self.wait().await;
            let renewed = self.read().and_then(|material| {
                if material == known {
                    return Ok(None);
                }
                material.apply(&followed).map(|()| Some(material))
            });
            match renewed {
                Ok(None) => last_fault = None,
                Ok(Some(material)) => {
                    tracing::info!("certificates, CAs, tokens or rules changed, and are in use from now on");
                    metrics::trust_reloaded("success");
                    if material.certificate != known.certificate {
                        expiry = Expiry::of(&material.certificate);
                    }
                    (known, last_fault) = (material, None);
                }
                Err(error) => {
                    let fault = format!("{error:#}");
                    if last_fault.as_ref() != Some(&fault) {
                        tracing::error!(
                            fault,
                            "failed to read certificates, CAs, tokens or rules; the last good ones stay in use"
                        );
                        metrics::trust_reloaded("failure");
                    }
                    last_fault = Some(fault);
                }
            }
        }
    }

    async fn wait(&mut self) {
        let tick = tokio::time::sleep(LOOK_EVERY);
        match &mut self.config_map {
            None => tick.await,
            Some(data) => tokio::select! {
                () = tick => {}
                // The watch of the ConfigMap has ended. Its last content stays in use.
                changed = data.changed() => if changed.is_err() { tokio::time::sleep(LOOK_EVERY).await },
            },
        }
    }
}

impl Material {
    /// Parses the trusted sources of authentication: CAs, front proxies and tokens.
    pub fn trust(&self) -> anyhow::Result<Trust> {
        let client_ca =
            self.client_ca.as_ref().map(|pem| ca(pem).context("failed to use the client CA")).transpose()?;
        let proxy = self.proxy.as_ref().map(|proxy| {
            let Proxy { ca: pem, allowed_names, headers } = proxy.clone();
            anyhow::Ok(FrontProxy {
                ca: ca(&pem).context("failed to use the front proxies' CA")?,
                allowed_names,
                headers,
            })
        });
        let tokens = self.tokens.as_deref().map(TokenFile::parse).transpose();
        let tokens = tokens.context("failed to use the token file").map_err(UsageError::because)?;
        Ok(Trust { client_ca, front_proxy: proxy.transpose()?, tokens: tokens.unwrap_or_default() })
    }

    /// Returns TLS with the serving certificate. Clients may present a certificate of the CAs in
    /// `trust`.
    pub fn tls(&self, trust: &Trust) -> anyhow::Result<Tls> {
        let tls = Tls::new(&self.certificate, &self.key, &trust.subjects()).context(BELONG);
        Ok(tls.map_err(UsageError::because)?)
    }

    /// Parses the authorization policy, and logs names in it that no request has. `None` if there
    /// is no policy.
    pub fn policy(&self) -> anyhow::Result<Option<Policy>> {
        let Some((path, text)) = &self.policy else { return Ok(None) };
        let file = path.display();
        let policy = Policy::parse(text).with_context(|| format!("failed to use the authorization policy {file}"));
        let policy = policy.map_err(UsageError::because)?;
        let kinds = ballast_api::all_kinds();
        let served: Vec<(&str, &str)> = kinds.rows().iter().map(|row| (row.group, row.plural)).collect();
        for fault in policy.unknown_names(&served) {
            tracing::warn!("{file}: {fault}");
        }
        Ok(Some(policy))
    }

    fn apply(&self, to: &Followed) -> anyhow::Result<()> {
        let (trust, policy) = (self.trust()?, self.policy()?);
        to.tls.renew(&self.certificate, &self.key, &trust.subjects()).context(BELONG)?;
        to.authenticator.replace(trust);
        if let Some(policy) = policy {
            to.authorizer.replace(policy);
        }
        Ok(())
    }
}

const BELONG: &str = "failed to serve with this certificate and key: do they belong together?";

fn ca(pem: &[u8]) -> anyhow::Result<ClientCa> {
    Ok(ClientCa::from_pem(pem, signature_algorithms())?)
}

fn headers_of_flags(args: &IdentityArgs) -> anyhow::Result<HeaderNames> {
    header_names(
        &args.requestheader_username_headers,
        &args.requestheader_uid_headers,
        &args.requestheader_group_headers,
        &args.requestheader_extra_headers_prefix,
    )
}

/// Parses the front proxy in the ConfigMap. Its lists are JSON, as kube-apiserver writes them.
/// Without a CA there is no front proxy.
fn proxy_of_config_map(data: &Data) -> anyhow::Result<Option<Proxy>> {
    let Some(ca) = data.get("requestheader-client-ca-file").filter(|pem| !pem.trim().is_empty()) else {
        return Ok(None);
    };
    let list = |key: &str| match data.get(key).filter(|text| !text.is_empty()) {
        None => Ok(Vec::new()),
        Some(text) => serde_json::from_str::<Vec<String>>(text).with_context(|| format!("{key} is not a list")),
    };
    let username = list("requestheader-username-headers")?;
    if username.is_empty() {
        bail!("requestheader-username-headers names no header");
    }
    let headers = header_names(
        &username,
        &list("requestheader-uid-headers")?,
        &list("requestheader-group-headers")?,
        &list("requestheader-extra-headers-prefix")?,
    )?;
    let allowed_names = list("requestheader-allowed-names")?;
    Ok(Some(Proxy { ca: ca.clone().into_bytes(), allowed_names, headers }))
}

fn header_names(
    username: &[String],
    uid: &[String],
    group: &[String],
    prefixes: &[String],
) -> anyhow::Result<HeaderNames> {
    let names = |list: &[String]| {
        let names = list.iter().map(|name| name.trim()).filter(|name| !name.is_empty());
        names
            .map(|name| name.parse::<HeaderName>().with_context(|| format!("{name:?} is not the name of a header")))
            .collect::<anyhow::Result<Vec<_>>>()
    };
    let prefixes = prefixes.iter().map(|prefix| prefix.trim().to_ascii_lowercase()).filter(|prefix| !prefix.is_empty());
    Ok(HeaderNames {
        username: names(username)?,
        uid: names(uid)?,
        group: names(group)?,
        extra_prefixes: prefixes.collect(),
    })
}

fn read(path: &Path) -> Result<Vec<u8>, UsageError> {
    fs::read(path).with_context(|| format!("failed to read {}", path.display())).map_err(UsageError::because)
}

fn read_text(path: &Path) -> Result<String, UsageError> {
    fs::read_to_string(path).with_context(|| format!("failed to read {}", path.display())).map_err(UsageError::because)
}

/// Reads a file of CAs and checks them, so that an error can name the file.
fn read_cas(path: &Path) -> Result<Vec<u8>, UsageError> {
    let pem = read(path)?;
    ca(&pem).with_context(|| format!("failed to use {} as CAs", path.display())).map_err(UsageError::because)?;
    Ok(pem)
}
