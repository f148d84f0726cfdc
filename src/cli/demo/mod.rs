//! `ballast demo`: plays a story of the seed documents from start to finish, and shows each request
//! as the kubectl line that a user would type. It starts a real server for it, with a free port, a
//! temporary SQLite file and the real HTTPS API. The exit status is 0 only if everything happened
//! as the story says.

mod agents;
mod failures;
mod fleet;
mod regions;
mod reports;
mod safe;
mod stage;
mod stories;

use std::io::Write;
use std::time::Duration;

use anyhow::Context;
use clap::ValueEnum;

use self::agents::Agents;
use self::reports::Reports;
use self::stage::Stage;
use super::config::{FailoverArgs, GoDuration, ServeArgs};
use super::serve;
use crate::cli::client::{Client, Credentials};
use crate::{api, telemetry};

#[derive(clap::Args, Debug)]
pub struct Args {
    /// Which story to play
    #[arg(long, value_enum, default_value_t)]
    pub story: Story,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Story {
    /// A cluster fails and recovers; a WorkloadRebalancer brings the replicas home
    #[default]
    Rebalance,
    /// nginx moved to the backup cluster; a RescheduleTask brings it back to the primary
    Task,
    /// A cluster fails, and its replicas are evicted and replaced; it returns, and a rebalance
    /// brings them back
    Failover,
    /// Groups of clusters that are tried in order: private before rented, a primary before its
    /// backup
    Groups,
    /// A number of replicas for each cluster and for each region
    Regions,
    /// A ClusterResourcePlacement over four member clusters: it grows, loses a cluster, and moves
    /// when its policy changes
    Fleet,
    /// Two of twelve clusters are lost and return; what is displaced is counted, previewed, and
    /// moved home in waves; one wave fails and is undone
    Safe,
}

pub fn run(args: Args) -> anyhow::Result<()> {
    telemetry::start(telemetry::LogFormat::Text, telemetry::Detail::Warnings);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(play(args.story, &mut std::io::stdout()))
}

/// Plays `story` and writes it to `out`.
pub async fn play<W: Write>(story: Story, out: &mut W) -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let config = ServeArgs {
        secure_port: 0,
        database_url: format!("sqlite://{}", folder.path().join("ballast.db").display()),
        cert_dir: folder.path().join("certs"),
        failover: failover(story),
        ..ServeArgs::default()
    };
    let server = serve::start(config).await?;
    writeln!(out, "Ballast serves at {}, objects in a SQLite file, for as long as the story lasts.", server.url())?;
    let mut stage = Stage { client: connect(&server).await?, kinds: api::kinds(), out };
    let told = match story {
        Story::Rebalance => stories::rebalance(&mut stage).await,
        Story::Task => stories::task(&mut stage).await,
        Story::Failover => failures::failover(&mut stage).await,
        Story::Groups => failures::groups(&mut stage).await,
        Story::Regions => regions::story(&mut stage).await,
        Story::Fleet => {
            let _at_work = Agents::start(connect(&server).await?, connect(&server).await?);
            fleet::story(&mut stage).await
        }
        Story::Safe => {
            let agents = Reports::start(connect(&server).await?, connect(&server).await?);
            safe::story(&mut stage, safe::Crew { witness: connect(&server).await?, agents }).await
        }
    };
    server.stop().await?;
    told?;
    let end = match story {
        Story::Rebalance | Story::Task | Story::Failover | Story::Groups => "The replicas are home.",
        Story::Regions => "The replicas are where the numbers say.",
        Story::Fleet => "The placement is where its policy wants it.",
        Story::Safe => "Two teams are home, and the third is where it was.",
    };
    Ok(writeln!(out, "\n{end}")?)
}

/// A story cannot wait for five minutes, nor for two seconds with each of hundreds of workloads.
fn failover(story: Story) -> FailoverArgs {
    let defaults = ServeArgs::default().failover;
    match story {
        Story::Failover => FailoverArgs { failover_eviction_timeout: GoDuration(Duration::ZERO), ..defaults },
        Story::Safe => FailoverArgs {
            failover_eviction_timeout: GoDuration(Duration::ZERO),
            resource_eviction_rate: 1000.0,
            ..defaults
        },
        _ => defaults,
    }
}

async fn connect(server: &serve::Running) -> anyhow::Result<Client> {
    let files = server.certificates.as_ref().context("a server on its own has development certificates")?;
    let credentials = Credentials { ca: &files.ca_cert, certificate: &files.admin_cert, key: &files.admin_key };
    Client::connect(server.address, &credentials).await
}
