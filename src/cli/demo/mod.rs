//! `ballast demo`: plays a story of the seed documents from start to finish, and shows each request
//! as the equivalent kubectl command.
//!
//! It starts a real server with a free port, a temporary SQLite file and the real HTTPS API. The
//! exit status is 0 only if every step had the expected result. `replicas` contains the story of
//! several servers over one database.

mod agents;
mod balance;
mod failures;
mod fleet;
mod processes;
mod regions;
mod replicas;
mod reports;
mod safe;
mod runner;
mod stories;
mod traffic;

use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use clap::ValueEnum;

use self::agents::Agents;
use self::reports::Reports;
use self::runner::{Held, StoryRunner};
use super::ui::Page;
use crate::cli::client::{Client, Credentials};
use crate::cli::{output, signals};
use ballast_api as api;
use ballast_base::telemetry;
use ballast_node::certs::Files;
use ballast_node::config::{FailoverArgs, GoDuration, ServeArgs};
use ballast_node::{features, serve};

#[derive(clap::Args, Debug)]
pub struct Args {
    /// Story to play. Default: `rebalance`, and `safe` with --ui
    #[arg(long, value_enum)]
    pub story: Option<Story>,

    /// Also show the story on a page in the browser at a slower pace, and keep the server and the
    /// page until Ctrl-C
    #[arg(long)]
    pub ui: bool,

    /// Port of the page on 127.0.0.1; 0 picks a free one
    #[arg(long, default_value_t = 0, requires = "ui")]
    pub port: u16,

    /// Stop after this step of the story, and keep the server and its fleet until Ctrl-C, so that
    /// the next steps can be done manually
    #[arg(long, value_name = "STEP", conflicts_with_all = ["ui", "replicas"],
        value_parser = clap::value_parser!(u32).range(1..))]
    pub hold_after: Option<u32>,

    #[command(flatten)]
    pub shared: replicas::SharedArgs,
}

/// Pause before each step of a story that is shown on the page.
const PACE: Duration = Duration::from_secs(4);
/// Interval between two reports after an outage: a rebalance of 150 workloads then takes several
/// seconds, so that a reader can pause it.
const REPORT_EVERY: Duration = Duration::from_millis(30);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Story {
    /// A cluster fails and recovers; a WorkloadRebalancer returns the replicas to it
    #[default]
    Rebalance,
    /// nginx moved to the backup cluster; a RescheduleTask returns it to the primary
    Task,
    /// A cluster fails, and its replicas are evicted and replaced; it recovers, and a rebalance
    /// returns them
    Failover,
    /// Groups of clusters that are tried in order: private before rented, a primary before its
    /// backup
    Groups,
    /// A number of replicas for each cluster and for each region
    Regions,
    /// A ClusterResourcePlacement over four member clusters: it grows, loses a cluster, and moves
    /// when its policy changes
    Fleet,
    /// A new cluster takes its share with few moves, a cluster is drained, and a price changes
    Balance,
    /// Two of twelve clusters are lost and recover; displaced workloads are counted, previewed, and
    /// returned in waves; one wave fails and is undone
    Safe,
}

pub fn run(args: Args) -> anyhow::Result<()> {
    let _lines = telemetry::start(telemetry::LogFormat::Text, telemetry::Detail::Warnings);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let out = &mut output::stream();
    if args.ui {
        features::PAGE.needed_by("--ui")?;
    }
    if let Some(count) = args.shared.replicas {
        return runtime.block_on(replicas::play(count, &args.shared, out));
    }
    let folder = tempfile::tempdir()?;
    // These run until a signal ends them.
    let is_kept = args.ui || args.hold_after.is_some();
    let outcome = runtime.block_on(async {
        let story = async {
            match (args.hold_after, args.ui) {
                (Some(step), _) => hold(args.story.unwrap_or_default(), folder.path(), step, out).await,
                (None, true) => show(args.story.unwrap_or(Story::Safe), folder.path(), args.port, out).await,
                (None, false) => play_in(folder.path(), args.story.unwrap_or_default(), out).await,
            }
        };
        tokio::select! {
            told = story => told,
            ended = signals::ended() => match is_kept {
                true => ended,
                false => ended.and(Err(anyhow::anyhow!("the story was interrupted"))),
            },
        }
    });
    // The server must stop writing before its folder is removed, which contains the key of an
    // admin.
    drop(runtime);
    folder.close().context("failed to remove the files of the server")?;
    outcome
}

/// Plays `story` and writes it to `out`.
pub async fn play<W: Write>(story: Story, out: &mut W) -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    play_in(folder.path(), story, out).await
}

async fn play_in<W: Write>(folder: &Path, story: Story, out: &mut W) -> anyhow::Result<()> {
    let server = serve::start(config(story, folder)).await?;
    writeln!(out, "Ballast serves at {}, objects in a SQLite file, for as long as the story lasts.", server.url())?;
    let told = tell(story, &server, Duration::ZERO, None, out).await;
    server.stop().await?;
    drop(told?);
    Ok(writeln!(out, "\n{}", end(story))?)
}

/// Plays `story` up to this step, and keeps the server running until this is dropped.
async fn hold<W: Write>(story: Story, folder: &Path, step: u32, out: &mut W) -> anyhow::Result<()> {
    let server = serve::start(config(story, folder)).await?;
    let files = server.certificates.as_ref().context("a server on its own has development certificates")?;
    let kubeconfig = files.admin_kubeconfig.display();
    let _agents = tell(story, &server, Duration::ZERO, Some(step), out).await?;
    writeln!(
        out,
        "\nHeld after step {step}. In another shell:\n\n  export KUBECONFIG={kubeconfig}\n\nThe server stays until \
         Ctrl-C."
    )?;
    out.flush()?;
    // The agents continue to report, so that moves become ready.
    std::future::pending::<()>().await;
    Ok(())
}

/// Plays `story` together with the page, and keeps both running until this is dropped.
async fn show<W: Write>(story: Story, folder: &Path, port: u16, out: &mut W) -> anyhow::Result<()> {
    let server = serve::start(config(story, folder)).await?;
    let files = server.certificates.as_ref().context("a server on its own has development certificates")?;
    let page = Page::of(&files.admin_kubeconfig, port).await?;
    let kubeconfig = files.admin_kubeconfig.display();
    writeln!(out, "Ballast serves at {} (kubeconfig: {kubeconfig}).", server.url())?;
    writeln!(out, "\n  Open the page and watch: {}\n", page.address)?;
    let agents = tell(story, &server, PACE, None, out).await?;
    agents.mend();
    writeln!(out, "\n{}\n\n  The page: {}\n\nServer and page stay until Ctrl-C.", end(story), page.address)?;
    // The agents continue to report, so that rebalances on the page become ready.
    std::future::pending::<()>().await;
    Ok(())
}

/// A server with the fleet of the story `safe` and its running agents. Pages of the documentation
/// show its responses.
pub struct FleetAtWork {
    server: serve::Running,
    agents: Reports,
}

impl FleetAtWork {
    /// Starts at the recovery of the lost clusters, as docs/after-an-outage.md does.
    pub async fn after_an_outage(folder: &Path) -> anyhow::Result<FleetAtWork> {
        let (fleet, client) = FleetAtWork::start(Story::Safe, folder).await?;
        let out = &mut std::io::sink();
        safe::outage(&mut silent(client, out)).await?;
        fleet.agents.slow_down(REPORT_EVERY);
        Ok(fleet)
    }

    /// Starts in the first minute of an outage, before evictions, as docs/during-an-outage.md does.
    pub async fn during_an_outage(folder: &Path) -> anyhow::Result<FleetAtWork> {
        // It keeps the default eviction timeout.
        let (fleet, client) = FleetAtWork::start(Story::Balance, folder).await?;
        let out = &mut std::io::sink();
        let runner = &mut silent(client, out);
        safe::fleet(runner).await?;
        safe::lose(runner, "member1").await?;
        Ok(fleet)
    }

    /// Starts a server with the flags of this story and with agents, and connects to it.
    async fn start(story: Story, folder: &Path) -> anyhow::Result<(FleetAtWork, Client)> {
        let server = serve::start(config(story, folder)).await?;
        let agents = Reports::start(&Endpoint::of(&server)?).await?;
        let client = connect(&server).await?;
        Ok((FleetAtWork { server, agents }, client))
    }

    pub fn kubeconfig(&self) -> anyhow::Result<&Path> {
        let files = self.server.certificates.as_ref().context("a server on its own has development certificates")?;
        Ok(&files.admin_kubeconfig)
    }

    pub async fn stop(self) -> anyhow::Result<()> {
        self.server.stop().await
    }
}

/// Returns a runner that plays steps without pauses.
fn silent<W: Write>(client: Client, out: &mut W) -> StoryRunner<'_, W> {
    StoryRunner { client, kinds: api::kinds(), pace: Duration::ZERO, steps_left: None, out }
}

fn config(story: Story, folder: &Path) -> ServeArgs {
    ServeArgs {
        secure_port: 0,
        database_url: format!("sqlite://{}", folder.join("ballast.db").display()),
        cert_dir: folder.join("certs"),
        failover: failover(story),
        ..ServeArgs::default()
    }
}

/// The agents of a story, running until this is dropped.
enum RunningAgents {
    Nobody,
    Fleet(#[expect(dead_code, reason = "it works for as long as it is kept")] Agents),
    Karmada(Reports),
}

impl RunningAgents {
    /// Ends the failure that the story caused.
    fn mend(&self) {
        if let RunningAgents::Karmada(reports) = self {
            reports.mend();
        }
    }
}

/// Plays `story`, with this pause before each step, up to the step `hold_after`.
async fn tell<W: Write>(
    story: Story,
    server: &serve::Running,
    pace: Duration,
    hold_after: Option<u32>,
    out: &mut W,
) -> anyhow::Result<RunningAgents> {
    let client = connect(server).await?;
    let mut runner = StoryRunner { client, kinds: api::kinds(), pace, steps_left: hold_after, out };
    let (agents, played) = match story {
        Story::Rebalance => (RunningAgents::Nobody, stories::rebalance(&mut runner).await),
        Story::Task => (RunningAgents::Nobody, stories::task(&mut runner).await),
        Story::Failover => (RunningAgents::Nobody, failures::failover(&mut runner).await),
        Story::Groups => (RunningAgents::Nobody, failures::groups(&mut runner).await),
        Story::Regions => (RunningAgents::Nobody, regions::story(&mut runner).await),
        Story::Balance => (RunningAgents::Nobody, balance::story(&mut runner).await),
        Story::Fleet => {
            let agents = Agents::start(connect(server).await?, connect(server).await?);
            (RunningAgents::Fleet(agents), fleet::story(&mut runner).await)
        }
        Story::Safe => {
            let agents = Reports::start(&Endpoint::of(server)?).await?;
            let witness = (connect(server).await?, connect(server).await?);
            let played = safe::story(&mut runner, witness, &agents).await;
            (RunningAgents::Karmada(agents), played)
        }
    };
    match played {
        Err(error) if error.is::<Held>() => {
            if let RunningAgents::Karmada(reports) = &agents {
                reports.slow_down(REPORT_EVERY);
            }
        }
        played => played?,
    }
    Ok(agents)
}

fn end(story: Story) -> &'static str {
    match story {
        Story::Rebalance | Story::Task | Story::Failover | Story::Groups => "The replicas are home.",
        Story::Regions => "The replicas are where the numbers say.",
        Story::Balance => "The fleet is in shape.",
        Story::Fleet => "The placement is where its policy wants it.",
        Story::Safe => "Two teams are home, and the third is where it was.",
    }
}

/// Returns the failover flags of a story, with short timeouts: a story cannot wait for five
/// minutes, nor for two seconds with each of hundreds of workloads.
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
    Endpoint::of(server)?.connect().await
}

/// The address of the server, and the certificates of its administrator.
#[derive(Clone)]
struct Endpoint {
    address: SocketAddr,
    files: Files,
}

impl Endpoint {
    fn of(server: &serve::Running) -> anyhow::Result<Endpoint> {
        let files = server.certificates.clone().context("a server on its own has development certificates")?;
        Ok(Endpoint { address: server.address, files })
    }

    async fn connect(&self) -> anyhow::Result<Client> {
        let files = &self.files;
        let credentials = Credentials { ca: &files.ca_cert, certificate: &files.admin_cert, key: &files.admin_key };
        Client::connect(self.address, &credentials).await
    }
}
