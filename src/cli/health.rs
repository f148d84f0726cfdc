//! `ballast health`: queries the readiness of a server. Intended for a container's HEALTHCHECK,
//! because the image contains no other program.
//!
//! Exit status 0 means ready. All other results are 1: not ready, not reachable, not trusted.
//! Docker reserves 2, so only an invalid command line ends with it.

use std::path::PathBuf;

use anyhow::{Context, bail};
use clap::Args as ClapArgs;

use super::output::print;
use ballast_host::{Probe, ProbeTarget, Readiness};
use ballast_node::certs;
use ballast_node::config::GoDuration;

#[derive(ClapArgs, Debug)]
pub struct Args {
    /// URL of the server. Default: the URL in the kubeconfig, or else https://127.0.0.1:7443
    #[arg(long)]
    pub server: Option<http::Uri>,

    /// Folder of the server's development certificates, with the CA and the kubeconfig to use
    #[arg(long, env = "BALLAST_CERT_DIR", default_value = "certs")]
    pub cert_dir: PathBuf,

    /// Kubeconfig of the server, instead of the one in the folder of certificates
    #[arg(long)]
    pub kubeconfig: Option<PathBuf>,

    /// Do not verify the certificate of the server
    #[arg(long)]
    pub insecure_skip_tls_verify: bool,

    /// How long to wait for the response
    #[arg(long, default_value = "5s")]
    pub timeout: GoDuration,
}

pub fn run(args: &Args) -> anyhow::Result<()> {
    // kube needs a default provider for the process. It may be installed already.
    let _already_there = rustls::crypto::ring::default_provider().install_default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let url = runtime.block_on(ask(args))?;
    print(&format!("{url} is ready\n"))
}

/// Returns the URL of a server that is ready.
async fn ask(args: &Args) -> anyhow::Result<String> {
    let probe = Probe::new(target(args)?).await?;
    let url = &probe.url;
    let answer = tokio::time::timeout(args.timeout.0, probe.ask());
    let answer = answer.await.with_context(|| format!("{url} did not answer within {}", args.timeout))?;
    match answer.with_context(|| format!("{url} is not reachable"))? {
        Readiness::Ready => Ok(probe.url),
        Readiness::NotReady(checks) => bail!("{url} is not ready: these checks fail: {}", checks.join(", ")),
        Readiness::Unclear(401) => bail!(
            "{url} does not know the credentials of the kubeconfig (401 Unauthorized): its client certificate may have \
             expired, so renew it (`ballast certs` does it for the development certificates)"
        ),
        Readiness::Unclear(code) => bail!("{url} answered /readyz with status {code}: is it a Ballast server?"),
    }
}

/// Returns the server to query. Existing development certificates are used.
fn target(args: &Args) -> anyhow::Result<ProbeTarget> {
    let files = certs::Files::in_dir(&args.cert_dir);
    let skips_verification = args.insecure_skip_tls_verify;
    let kubeconfig = args.kubeconfig.clone();
    let kubeconfig = kubeconfig.or_else(|| Some(files.admin_kubeconfig).filter(|path| path.exists()));
    if let Some(server) = args.server.as_ref().filter(|server| server.host().is_none() || server.scheme().is_none()) {
        bail!("--server {server}: give a URL, such as https://127.0.0.1:7443");
    }
    if kubeconfig.is_some() {
        return Ok(ProbeTarget { kubeconfig, server: args.server.clone(), ca_file: None, skips_verification });
    }
    let ca_file = Some(files.ca_cert).filter(|path| path.exists());
    if ca_file.is_none() && !skips_verification {
        let dir = args.cert_dir.display();
        bail!(
            "there are no development certificates in {dir}, so no server can be verified: name their folder \
             (--cert-dir) or a kubeconfig (--kubeconfig), or do without (--insecure-skip-tls-verify)"
        );
    }
    let server = args.server.clone().unwrap_or_else(|| http::Uri::from_static("https://127.0.0.1:7443"));
    Ok(ProbeTarget { kubeconfig: None, server: Some(server), ca_file, skips_verification })
}
