//! Builds authentication and authorization from the flags.
//!
//! A standalone server accepts its development CA and a token file, and decides by a policy file.
//! Behind a host cluster it accepts the users of that cluster and lets the cluster decide. The
//! development CA is then not accepted.

mod expiry;
mod sources;

use std::sync::Arc;

use anyhow::Context;
use tokio::task::JoinSet;

use self::sources::{Followed, Sources};
use super::config::{HostArgs, ServeArgs};
use super::{UsageError, certs};
use ballast_auth::{AccessReviews, Authenticator, Authorizer, Mode, Policy, TokenReviews};
use ballast_base::clock::Clock;
use ballast_host::{
    AdmissionPolicies, AuthenticationConfig, Host, HostAddress, HostAdmission, HostEvents, HostLease, LeaseTimings,
    Namespaces, Reviews, Webhooks,
};
use ballast_registry::ExternalAdmission;
use ballast_server::{Check, Counts, Tls};
use ballast_worker::events::{Recorder, Sink};

/// TLS, authentication and authorization of a server, and the tasks that keep them up to date.
pub struct Identity {
    pub tls: Tls,
    pub authenticator: Arc<Authenticator>,
    pub authorizer: Arc<Authorizer>,
    /// The development certificates, if they are in use.
    pub development: Option<certs::Files>,
    /// The host cluster, if the flags name one.
    pub host: Option<Host>,
    /// The namespaces of the host cluster, if its admission needs them.
    pub namespaces: Option<Namespaces>,
    pub background: JoinSet<()>,
    /// Readiness checks. Behind a host cluster, its CAs and its webhook configurations must have
    /// been read.
    pub checks: Vec<Check>,
}

impl HostArgs {
    /// Returns whether the flags name a host cluster for any purpose.
    pub fn is_given(&self) -> bool {
        self.place().is_some() || self.authentication_kubeconfig.is_some() || self.authorization_kubeconfig.is_some()
    }

    fn place(&self) -> Option<HostAddress> {
        match (&self.kubeconfig, self.in_cluster) {
            (Some(path), _) => Some(HostAddress::Kubeconfig(path.clone())),
            (None, true) => Some(HostAddress::InCluster),
            (None, false) => None,
        }
    }
}

impl Identity {
    /// Reads all files and objects that the flags name. Creates development certificates, if they
    /// are used.
    ///
    /// # Errors
    ///
    /// Returns an error if a file cannot be used, or if the host cluster does not respond.
    pub async fn assemble(args: &ServeArgs, clock: &Arc<dyn Clock>) -> anyhow::Result<Identity> {
        let Hosts { main, authentication, authorization } = Hosts::connect(&args.host).await?;
        let mut background = JoinSet::new();
        let mut config_map = None;
        if let Some(host) = authentication.as_ref().filter(|_| !args.host.authentication_skip_lookup) {
            let config = authentication_config(&args.host, host).await?;
            config_map = Some(config.data());
            background.spawn(config.follow());
        }
        let is_alone = !args.host.is_given();
        let (certificate, key, development) = match (&args.tls_cert_file, &args.tls_private_key_file) {
            // Nothing of `--cert-dir` is used, so no files are created there.
            (Some(certificate), Some(key)) if !is_alone || args.identity.client_ca_file.is_some() => {
                (certificate.clone(), key.clone(), None)
            }
            (certificate, key) => {
                let files = certs::ensure_for(&args.cert_dir, args.bind_address, clock.now())?;
                let certificate = certificate.as_ref().unwrap_or(&files.server_cert).clone();
                (certificate, key.as_ref().unwrap_or(&files.server_key).clone(), Some(files))
            }
        };
        let development_ca = development.as_ref().filter(|_| is_alone).map(|files| files.ca_cert.clone());
        let is_config_read = config_map.clone().map(|data| {
            let why = "the authentication configuration of the host cluster was not read yet";
            check("authentication-config", move || !data.borrow().is_empty(), why)
        });
        let sources = Sources { certificate, key, development_ca, args: args.identity.clone(), config_map };
        let material = sources.read()?;
        let trust = material.trust()?;
        let tls = material.tls(&trust)?;
        let authenticator = Arc::new(authenticator(args, trust, authentication, clock));
        let authorizer = Arc::new(authorizer(args, material.policy()?, authorization));
        let followed =
            Followed { tls: tls.clone(), authenticator: authenticator.clone(), authorizer: authorizer.clone() };
        background.spawn(sources.follow(material, followed, Arc::clone(clock)));
        let checks = is_config_read.into_iter().collect();
        Ok(Identity { tls, authenticator, authorizer, development, host: main, namespaces: None, background, checks })
    }

    /// Returns the host cluster's admission of writes, if enabled, and starts the watches that it
    /// needs.
    pub fn external_admission(&mut self, args: &HostArgs, recorder: &Recorder) -> Option<Arc<dyn ExternalAdmission>> {
        let is_wanted = args.namespace_lifecycle || args.admission_webhooks || args.admission_policies;
        let host = self.host.as_ref().filter(|_| is_wanted)?;
        let namespaces = Namespaces::new(host);
        self.namespaces = Some(namespaces.clone());
        self.background.spawn(namespaces.clone().follow());
        let calls = args.admission_webhooks;
        let evaluates = args.admission_policies;
        let recorder = recorder.named("admission");
        let policies = Arc::new(AdmissionPolicies::new(host.clone(), namespaces.clone(), recorder, evaluates));
        if evaluates {
            self.background.spawn(Arc::clone(&policies).follow());
            let known = Arc::clone(&policies);
            let why = "the admission policies were not read yet";
            self.checks.push(check("admission-policies", move || known.is_ready(), why));
        }
        let webhooks = Webhooks::new(host.clone(), namespaces, args.namespace_lifecycle, calls);
        let webhooks = Arc::new(match args.admission_webhooks_for_workers {
            true => webhooks,
            false => webhooks.for_clients_only(),
        });
        if calls {
            self.background.spawn(Arc::clone(&webhooks).follow());
            let known = Arc::clone(&webhooks);
            self.checks.push(check(
                "admission-webhooks",
                move || known.is_ready(),
                "the webhook configurations were not read yet",
            ));
        }
        let asks_for_workers = args.admission_webhooks_for_workers;
        Some(Arc::new(HostAdmission { policies, webhooks, asks_for_workers }))
    }

    /// Returns the sink that posts events to the host cluster, if enabled.
    pub fn events(&self, args: &HostArgs) -> Option<Arc<dyn Sink>> {
        let host = self.host.as_ref().filter(|_| args.host_events)?;
        Some(Arc::new(HostEvents::new(host.clone())))
    }

    /// Returns the host cluster that the inventory is copied into, if the server is behind one.
    pub fn inventory_host(&self, args: &HostArgs) -> Option<Host> {
        self.host.clone().filter(|_| args.is_given())
    }

    /// Returns the lease that decides which replica runs the workers, with `--leader-elect`.
    pub fn lease(&self, args: &HostArgs, clock: &dyn Clock) -> anyhow::Result<Option<HostLease>> {
        if !args.leader_elect {
            return Ok(None);
        }
        let Some(host) = &self.host else {
            return Err(UsageError("--leader-elect needs --kubeconfig or --in-cluster".to_owned()).into());
        };
        let (duration, deadline) = (args.leader_elect_lease_duration.0, args.leader_elect_renew_deadline.0);
        let retry = args.leader_elect_retry_period.0;
        if duration.subsec_nanos() != 0 {
            // A Lease contains whole seconds. Rounded down, it would end before its holder gives
            // up.
            let given = args.leader_elect_lease_duration;
            return Err(
                UsageError(format!("--leader-elect-lease-duration {given}: give whole seconds, such as 15s")).into()
            );
        }
        if duration <= deadline || deadline <= retry || retry.is_zero() {
            let order =
                "--leader-elect-lease-duration > --leader-elect-renew-deadline > --leader-elect-retry-period > 0";
            return Err(UsageError(format!("the three durations must keep this order: {order}")).into());
        }
        let machine = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        let terms = LeaseTimings {
            namespace: args.leader_elect_resource_namespace.clone(),
            name: args.leader_elect_resource_name.clone(),
            identity: format!("{}_{}", machine.trim(), clock.uuid()),
            duration,
            renew_deadline: deadline,
            retry_period: retry,
        };
        Ok(Some(HostLease::new(host, terms)))
    }
}

fn check(name: &'static str, is_so: impl Fn() -> bool + Send + Sync + 'static, otherwise: &'static str) -> Check {
    Check::new(name, Counts::Ready, move || if is_so() { Ok(()) } else { Err(otherwise.to_owned()) })
}

/// The clusters for each purpose.
struct Hosts {
    main: Option<Host>,
    authentication: Option<Host>,
    authorization: Option<Host>,
}

impl Hosts {
    async fn connect(args: &HostArgs) -> anyhow::Result<Hosts> {
        if args.is_given() {
            // kube needs a default provider for the process. It may be installed already.
            let _already_there = rustls::crypto::ring::default_provider().install_default();
        }
        let main = match args.place() {
            Some(place) => Some(connect(&place).await?),
            None => None,
        };
        let mut own = [&args.authentication_kubeconfig, &args.authorization_kubeconfig].map(|_| main.clone());
        for (host, path) in own.iter_mut().zip([&args.authentication_kubeconfig, &args.authorization_kubeconfig]) {
            if let Some(path) = path {
                *host = Some(connect(&HostAddress::Kubeconfig(path.clone())).await?);
            }
        }
        let [authentication, authorization] = own;
        Ok(Hosts { main, authentication, authorization })
    }
}

async fn connect(place: &HostAddress) -> Result<Host, UsageError> {
    Host::connect(place).await.map_err(UsageError::because)
}

async fn authentication_config(args: &HostArgs, host: &Host) -> anyhow::Result<AuthenticationConfig> {
    match AuthenticationConfig::load(host).await {
        Ok(config) => Ok(config),
        Err(error) if args.authentication_tolerate_lookup_failure => {
            tracing::warn!(%error, "failed to read the authentication configuration of the host cluster; trying again");
            Ok(AuthenticationConfig::unread(host))
        }
        Err(error) => Err(error).context(
            "failed to read kube-system/extension-apiserver-authentication of the host cluster (is the role \
             extension-apiserver-authentication-reader bound? --authentication-skip-lookup does without)",
        ),
    }
}

fn authenticator(
    args: &ServeArgs,
    trust: ballast_auth::Trust,
    host: Option<Host>,
    clock: &Arc<dyn Clock>,
) -> Authenticator {
    let is_anonymous_let_in = args.identity.anonymous_auth.unwrap_or(host.is_some());
    let mut authenticator = Authenticator::new(trust, Arc::clone(clock));
    if let Some(host) = host {
        let keep = args.host.authentication_token_webhook_cache_ttl.0;
        authenticator = authenticator.with_reviews(TokenReviews::new(Arc::new(Reviews::new(host)), keep));
    }
    if is_anonymous_let_in { authenticator.with_anonymous() } else { authenticator }
}

/// Returns the authorizer. A policy file is configured explicitly, so it overrides the host
/// cluster.
fn authorizer(args: &ServeArgs, policy: Option<Policy>, host: Option<Host>) -> Authorizer {
    let mode = match (policy, host) {
        (Some(policy), _) => policy.into(),
        (None, None) => Policy::default().into(),
        (None, Some(host)) => {
            let yes = args.host.authorization_webhook_cache_authorized_ttl.0;
            let no = args.host.authorization_webhook_cache_unauthorized_ttl.0;
            Mode::Reviews(AccessReviews::new(Arc::new(Reviews::new(host)), yes, no))
        }
    };
    Authorizer::new(mode, args.identity.authorization_always_allow_paths.clone())
}
