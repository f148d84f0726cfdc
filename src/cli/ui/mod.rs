//! `ballast ui`: serves the page on the user's machine, in front of the API that a kubeconfig
//! names.
//!
//! Nothing has to be installed on the server. Like `kubectl proxy`, it adds the credentials of the
//! kubeconfig to the page's requests, so it checks their origin (`guard`): it listens only on the
//! loopback address, and requires its own `Host`, its own `Origin`, and a per-process secret that
//! only the printed address contains.
//!
//! If the kubeconfig names a Karmada without Ballast, a server inside this process reads it and
//! responds to the page (`embedded`).

mod guard;
mod proxy;
mod upstream;
mod watch;

use std::future::pending;
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::Context;
use tempfile::NamedTempFile;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use self::guard::Guard;
use self::upstream::Upstream;
use super::embedded::{self, Embedded, ProfileArgs, ServerKind};
use super::output::print;
use ballast_base::clock::{Clock, SystemClock};
use ballast_base::telemetry;
use ballast_node::UsageError;
use ballast_node::config::banner;
use ballast_node::kubeconfig::{Connected, KubeconfigArgs};
use ballast_server::page::{Surroundings, Through};

#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    pub server: KubeconfigArgs,

    #[command(flatten)]
    pub rules: ProfileArgs,

    /// Port on 127.0.0.1; 0 picks a free one
    #[arg(long, default_value_t = 0)]
    pub port: u16,

    /// Open the page in the browser
    #[arg(long)]
    pub open: bool,

    /// Text over every screen, such as PRODUCTION, to distinguish servers. Default: the text of the
    /// server
    #[arg(long, value_name = "TEXT", env = "BALLAST_UI_BANNER", value_parser = banner)]
    pub ui_banner: Option<String>,
}

pub fn run(args: Args) -> anyhow::Result<()> {
    let _lines = telemetry::start(telemetry::LogFormat::Text, telemetry::Detail::Warnings);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let named = args.server.connect().await?;
        let server = named.url.clone();
        let mut embedded = embedded_for(&named, args.rules).await?;
        let client = embedded.as_ref().map_or_else(|| named.client.clone(), |embedded| embedded.connected().client);
        let surroundings = surroundings(&named, args.ui_banner);
        let page = Page::start(Upstream { url: server.clone(), client }, surroundings, args.port).await?;
        print(&format!("The page of {server} is at {}\nCtrl-C ends it.\n", page.address))?;
        let _leads_on = args.open.then(|| open(&page.address)).transpose()?;
        tokio::select! {
            done = tokio::signal::ctrl_c() => done.context("failed to listen for signals"),
            died = page.ended() => died,
            died = ended(&mut embedded) => Err(died),
        }
    })
}

/// Returns the description of the kubeconfig for the page.
fn surroundings(named: &Connected, banner: Option<String>) -> Surroundings {
    let Connected { url, context, namespace, .. } = named;
    Surroundings {
        through: Through::Proxy,
        server: Some(url.clone()),
        context: context.clone(),
        namespace: Some(namespace.clone()),
        banner,
    }
}

/// Starts an embedded server, if the kubeconfig names a Karmada without Ballast.
async fn embedded_for(named: &Connected, rules: ProfileArgs) -> anyhow::Result<Option<Embedded>> {
    match embedded::kind_of_server(named).await {
        Ok(ServerKind::Karmada) => Ok(Some(Embedded::start(named.clone(), rules, None).await?)),
        Ok(ServerKind::Ballast) => {
            rules.refuse_at(&named.url)?;
            Ok(None)
        }
        Err(error) if error.is::<UsageError>() => Err(error),
        // The page waits for a server that cannot be reached yet, and reports it.
        Err(_) => Ok(None),
    }
}

/// Waits until the embedded server ends unexpectedly. Without one, never returns.
async fn ended(embedded: &mut Option<Embedded>) -> anyhow::Error {
    match embedded {
        Some(embedded) => embedded.ended().await,
        None => pending().await,
    }
}

/// The page, served until this is dropped.
pub struct Page {
    /// The address for the browser. It contains the secret of this process.
    pub address: String,
    serving: JoinHandle<std::io::Result<()>>,
}

impl Page {
    /// Serves the page on the loopback address. Port 0 picks a free one.
    pub async fn start(upstream: Upstream, surroundings: Surroundings, port: u16) -> anyhow::Result<Page> {
        let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
            .await
            .with_context(|| format!("failed to listen on 127.0.0.1:{port}; --port 0 picks a free port"))?;
        let guard = Guard::new(listener.local_addr()?.port(), SystemClock.uuid());
        let address = guard.entrance();
        let serving =
            tokio::spawn(async move { axum::serve(listener, proxy::router(guard, upstream, surroundings)).await });
        Ok(Page { address, serving })
    }

    /// Serves the page of the server that this kubeconfig names.
    pub async fn of(kubeconfig: &Path, port: u16) -> anyhow::Result<Page> {
        let server = KubeconfigArgs { kubeconfig: Some(kubeconfig.to_owned()), ..KubeconfigArgs::default() };
        let named = server.connect().await?;
        let surroundings = surroundings(&named, None);
        Page::start(Upstream { url: named.url, client: named.client }, surroundings, port).await
    }

    /// Waits until serving ends unexpectedly, and returns the reason.
    pub async fn ended(mut self) -> anyhow::Result<()> {
        (&mut self.serving).await.context("serving the page panicked")?.context("the page is no longer served")
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Opens an address in the desktop's browser.
///
/// The arguments of a program are visible to all users of the machine, and the address contains the
/// secret. The browser therefore gets a file with a redirect, which only its owner can read (WH4).
/// The file is removed when the result is dropped.
fn open(address: &str) -> anyhow::Result<NamedTempFile> {
    let file = tempfile::Builder::new().prefix("ballast-ui-").suffix(".html").tempfile();
    let mut file = file.context("--open writes a file, and failed to")?;
    file.write_all(proxy::leading_to(address).as_bytes()).context("failed to write the file of --open")?;
    file.flush().context("failed to write the file of --open")?;

    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let mut command = Command::new(program);
    command.arg(file.path()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // The browser process is not awaited.
    let _running = command.spawn().with_context(|| format!("--open needs the program {program}"))?;
    Ok(file)
}
