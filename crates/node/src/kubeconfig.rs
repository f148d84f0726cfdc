//! Connects to the API server that a kubeconfig names, with kubectl's flags, files and rules.
//!
//! kube reads the kubeconfig: several files in `KUBECONFIG`, exec plugins, tokens, client
//! certificates and proxies. A kubeconfig that cannot be used is a usage error with a message that
//! names the remedy.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};

use super::UsageError;
use super::config::GoDuration;
use ballast_base::telemetry::with_causes;
use ballast_base::tls_fault::tls_fault;
use ballast_rebalance::suggestion::with_suggestion;

/// Timeout of a request unless a flag specifies another.
const ANSWER_WITHIN: Duration = Duration::from_secs(60);

/// Flags that select the server, with kubectl's names.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct KubeconfigArgs {
    /// Kubeconfig to use. Default: the files that KUBECONFIG lists, or else ~/.kube/config
    #[arg(long, value_name = "FILE", help_heading = "Server")]
    pub kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig to use, instead of its current one
    #[arg(long, value_name = "NAME", help_heading = "Server")]
    pub context: Option<String>,

    /// Cluster of the kubeconfig to use, instead of the cluster of the context
    #[arg(long, value_name = "NAME", help_heading = "Server", hide_short_help = true)]
    pub cluster: Option<String>,

    /// User of the kubeconfig to use, instead of the user of the context
    #[arg(long, value_name = "NAME", help_heading = "Server", hide_short_help = true)]
    pub user: Option<String>,

    /// URL of the server, instead of the URL in the kubeconfig
    #[arg(short = 's', long, value_name = "URL", help_heading = "Server", hide_short_help = true)]
    pub server: Option<http::Uri>,

    /// User to act as
    #[arg(long = "as", value_name = "USER", help_heading = "Server", hide_short_help = true)]
    pub impersonated: Option<String>,

    /// Group to act as; may be given several times
    #[arg(
        long = "as-group",
        value_name = "GROUP",
        requires = "impersonated",
        help_heading = "Server",
        hide_short_help = true
    )]
    pub impersonated_groups: Vec<String>,

    /// Do not verify the certificate of the server
    #[arg(long, help_heading = "Server", hide_short_help = true)]
    pub insecure_skip_tls_verify: bool,

    /// How long to wait for a response
    #[arg(long, value_name = "DURATION", default_value = "60s", help_heading = "Server", hide_short_help = true)]
    pub request_timeout: Option<GoDuration>,
}

/// A connection to the server that the kubeconfig selects. It is opened by the first request.
#[derive(Clone)]
pub struct Connected {
    pub client: Client,
    /// The server's URL, for messages.
    pub url: String,
    /// The context in use. `None` if the kubeconfig has no current one.
    pub context: Option<String>,
    /// The namespace of the context.
    pub namespace: String,
    /// Timeout of a request.
    pub within: Duration,
}

impl Connected {
    /// Sends a request and returns the response with its body unread.
    ///
    /// # Errors
    ///
    /// Returns an error if there are no credentials, no connection, or no response in time. The
    /// message names the server.
    pub async fn send(&self, request: Request<Body>) -> anyhow::Result<Response<Body>> {
        let Connected { client, url, within, .. } = self;
        let answer = tokio::time::timeout(*within, client.send(request)).await;
        let answer = answer.with_context(|| format!("{url} did not answer within {} s", within.as_secs_f32()))?;
        answer.map_err(|error| not_reached(url, &error))
    }
}

fn not_reached(url: &str, error: &kube::Error) -> anyhow::Error {
    // The innermost cause is the most specific; the outer layers only report that there was a
    // failure.
    let mut innermost: &dyn std::error::Error = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    let cause = tls_fault(error).map_or_else(|| innermost.to_string(), |(_, ours)| ours);
    match error {
        kube::Error::Auth(_) => anyhow::anyhow!("failed to get credentials for {url}: {}", with_causes(error)),
        _ => anyhow::anyhow!("{url} is not reachable: {cause}"),
    }
}

impl KubeconfigArgs {
    /// Reads the kubeconfig and prepares the connection.
    pub async fn connect(&self) -> anyhow::Result<Connected> {
        // kube needs a default provider for the process. It may be installed already.
        let _already_there = rustls::crypto::ring::default_provider().install_default();
        let (config, context) = self.config().await?;
        let (url, namespace) = (config.cluster_url.to_string(), config.default_namespace.clone());
        let url = url.trim_end_matches('/').to_owned();
        let client = Client::try_from(config).with_context(|| format!("failed to prepare the connection to {url}"));
        let within = self.request_timeout.map_or(ANSWER_WITHIN, |timeout| timeout.0);
        Ok(Connected { client: client.map_err(UsageError::because)?, url, context, namespace, within })
    }

    /// Returns the names of the contexts.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no kubeconfig, or if it cannot be read.
    pub fn contexts(&self) -> Result<Vec<String>, UsageError> {
        Ok(self.read()?.contexts.into_iter().map(|context| context.name).collect())
    }

    fn read(&self) -> Result<Kubeconfig, UsageError> {
        let read = match &self.kubeconfig {
            Some(path) => {
                Kubeconfig::read_from(path).with_context(|| format!("failed to use {} as kubeconfig", path.display()))
            }
            None => Kubeconfig::read().context(
                "failed to find a kubeconfig: name one with --kubeconfig or in KUBECONFIG (a server of its own writes \
                 certs/admin.kubeconfig)",
            ),
        };
        read.map_err(UsageError::because)
    }

    /// Returns the configuration of the connection, and the context in use.
    async fn config(&self) -> anyhow::Result<(Config, Option<String>)> {
        let kubeconfig = self.read()?;
        self.check_names(&kubeconfig)?;
        let context = self.context.clone().or_else(|| kubeconfig.current_context.clone());
        let options =
            KubeConfigOptions { context: self.context.clone(), cluster: self.cluster.clone(), user: self.user.clone() };
        let used = Config::from_custom_kubeconfig(kubeconfig, &options).await;
        let mut config = used.context("failed to use the kubeconfig").map_err(UsageError::because)?;
        if let Some(server) = &self.server {
            if server.scheme().is_none() || server.host().is_none() {
                return Err(UsageError(format!("--server {server}: give a URL, such as https://127.0.0.1:7443")).into());
            }
            config.cluster_url = server.clone();
        }
        if self.impersonated.is_some() {
            config.auth_info.impersonate = self.impersonated.clone();
            config.auth_info.impersonate_groups = Some(self.impersonated_groups.clone());
        }
        config.accept_invalid_certs |= self.insecure_skip_tls_verify;
        // Watches stay open for a long time without data. `send` has its own deadline.
        config.read_timeout = None;
        // The user of a command should see a failure at once, and can repeat the command.
        config.default_retry = false;
        Ok((config, context))
    }

    /// Checks the given names. The error for an unknown name suggests the closest known one.
    fn check_names(&self, kubeconfig: &Kubeconfig) -> Result<(), UsageError> {
        let contexts: Vec<&str> = kubeconfig.contexts.iter().map(|it| &*it.name).collect();
        let clusters: Vec<&str> = kubeconfig.clusters.iter().map(|it| &*it.name).collect();
        let users: Vec<&str> = kubeconfig.auth_infos.iter().map(|it| &*it.name).collect();
        let named =
            [("context", &self.context, contexts), ("cluster", &self.cluster, clusters), ("user", &self.user, users)];
        for (what, name, known) in named {
            let Some(name) = name.as_deref().filter(|name| !known.contains(name)) else { continue };
            let fault = format!("--{what} {name:?}: the kubeconfig has no {what} of this name");
            return Err(UsageError(with_suggestion(fault, name, known.into_iter())));
        }
        Ok(())
    }
}
