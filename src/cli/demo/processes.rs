//! The replicas of a demo: processes of this binary, over one database.

use std::fs::OpenOptions;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail};
use http::Method;
use http_body_util::BodyExt;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::Instant;

use super::Endpoint;
use crate::cli::client::Client;
use ballast_node::certs::Files;

/// Timeout for the start of a replica, and for the election of a leader.
const WITHIN: Duration = Duration::from_secs(60);
/// Interval at which the replicas are queried for the leader.
const ASK_EVERY: Duration = Duration::from_millis(50);

/// The common configuration of all replicas.
pub struct ReplicaConfig {
    /// The folder of the certificates and of the log.
    pub home: PathBuf,
    pub database_url: String,
    pub password_file: Option<PathBuf>,
    pub lease_seconds: u16,
}

/// A server process. It is killed when this is dropped.
pub struct Process {
    child: Child,
    pub address: SocketAddr,
}

impl Process {
    /// Starts a replica, and waits until it is ready.
    pub async fn start(config: &ReplicaConfig) -> anyhow::Result<Process> {
        let log = config.home.join("log");
        let errors = OpenOptions::new().create(true).append(true).open(&log)?;
        let mut command = Command::new(std::env::current_exe().context("failed to find this program")?);
        command
            .args(["serve", "--bind-address", "127.0.0.1", "--secure-port", "0", "--cert-dir"])
            .arg(config.home.join("certs"))
            .args(["--leader-lease-seconds", &config.lease_seconds.to_string()])
            // Not an argument: it may contain a password, and the list of processes is public.
            .env("BALLAST_DATABASE_URL", &config.database_url)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(errors)
            .kill_on_drop(true);
        if let Some(file) = &config.password_file {
            command.arg("--database-password-file").arg(file);
        }
        let mut child = command.spawn().context("failed to start a replica")?;
        let mut ready = String::new();
        let mut output = BufReader::new(child.stdout.take().context("its output is piped")?);
        let read = tokio::time::timeout(WITHIN, output.read_line(&mut ready));
        read.await.context("a replica did not become ready")??;
        let url = ready.split_whitespace().find_map(|word| word.strip_prefix("https://"));
        let Some(address) = url.and_then(|url| url.parse().ok()) else {
            bail!("a replica did not start: {}", last_line(&log));
        };
        Ok(Process { child, address })
    }

    pub fn id(&self) -> u32 {
        self.child.id().unwrap_or_default()
    }

    /// Sends SIGKILL: no handler runs, and nothing is flushed.
    pub async fn kill(&mut self) -> anyhow::Result<()> {
        self.child.kill().await.context("failed to kill a replica")
    }

    pub fn endpoint(&self, config: &ReplicaConfig) -> Endpoint {
        Endpoint { address: self.address, files: Files::in_dir(&config.home.join("certs")) }
    }
}

fn last_line(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    text.lines().last().unwrap_or("it said nothing").to_owned()
}

/// Waits for a leader, and returns its position among `endpoints`, and the term.
pub async fn leader(endpoints: &[Endpoint]) -> anyhow::Result<(usize, u64)> {
    let deadline = Instant::now() + WITHIN;
    loop {
        for (at, endpoint) in endpoints.iter().enumerate() {
            let Ok(client) = endpoint.connect().await else { continue };
            if let Ok((true, term)) = leads(&client).await {
                return Ok((at, term));
            }
        }
        if Instant::now() > deadline {
            bail!("no replica leads after {} s", WITHIN.as_secs());
        }
        tokio::time::sleep(ASK_EVERY).await;
    }
}

/// Returns whether the server leads, and the newest term that it knows.
async fn leads(client: &Client) -> anyhow::Result<(bool, u64)> {
    let (_, body) = client.send(Method::GET, "/metrics", None, Default::default()).await?;
    let body = body.collect().await?.to_bytes();
    let text = std::str::from_utf8(&body).context("metrics are text")?;
    let value = |name: &str| -> Option<u64> {
        text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
    };
    Ok((value("ballast_leader") == Some(1), value("ballast_leader_term").context("there is a term")?))
}
