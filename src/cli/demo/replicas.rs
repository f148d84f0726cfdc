//! `ballast demo --replicas`: three processes share a database, and the leader is killed in the
//! middle of a rebalance and of other clients' requests. The demo has a separate schema, which it
//! removes at the end.

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, ensure};
use tokio::time::Instant;

use super::Endpoint;
use super::processes::{self, Process, ReplicaConfig};
use super::runner::{Example, Part, StoryRunner, replicas_of};
use super::stories::{BINDINGS, REBALANCERS, is_finished, is_fresh, replicas};
use super::traffic::Traffic;
use crate::cli::signals;
use ballast_api as api;
use ballast_base::clock::{Clock, SystemClock};
use ballast_node::UsageError;
use ballast_store::{self as store, Scratch, Settings};

macro_rules! example {
    ($path:literal) => {
        Example { path: concat!("examples/", $path), text: include_str!(concat!("../../../examples/", $path)) }
    };
}

const DEPLOYMENT: &str = "demo-deploy-1-deployment";
/// Shorter than the default, to shorten the story.
const LEASE_SECONDS: u16 = 2;
/// Number of writes of other clients before the leader is killed, and after.
const WRITES: usize = 100;
const WRITES_WITHIN: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(20);

#[derive(clap::Args, Debug)]
pub struct SharedArgs {
    /// Play another story: this number of replicas share a database, and the leader is killed
    #[arg(long, requires = "database_url", conflicts_with_all = ["story", "ui"], allow_negative_numbers = true,
          value_parser = clap::value_parser!(u8).range(2..=9))]
    pub replicas: Option<u8>,

    /// The PostgreSQL database of --replicas, as postgres://USER@HOST/DATABASE. The story uses a
    /// separate schema there, which is removed at the end
    #[arg(long, requires = "replicas")]
    pub database_url: Option<String>,

    /// File with the password of the PostgreSQL user (otherwise PGPASSFILE or the URL)
    #[arg(long, env = "BALLAST_DATABASE_PASSWORD_FILE")]
    pub database_password_file: Option<PathBuf>,
}

/// Plays the story with this number of replicas, and removes its schema, also after Ctrl-C.
pub async fn play<W: Write>(count: u8, args: &SharedArgs, out: &mut W) -> anyhow::Result<()> {
    let url = args.database_url.as_deref().context("--replicas goes with --database-url")?;
    let settings = Settings { password_file: args.database_password_file.clone(), ..Settings::default() };
    let label = format!("demo_{}", SystemClock.uuid().replace('-', ""));
    let scratch = match Scratch::make(url, &label, &settings).await {
        Ok(scratch) => scratch,
        Err(error @ store::Error::Misplaced { .. }) => {
            return Err(UsageError(format!("--database-url {}: {error}", store::shown(url))).into());
        }
        Err(error) => return Err(anyhow::Error::new(error).context(format!("failed to use {}", store::shown(url)))),
    };
    let folder = tempfile::tempdir()?;
    let config = ReplicaConfig {
        home: folder.path().to_owned(),
        database_url: scratch.url.clone(),
        password_file: args.database_password_file.clone(),
        lease_seconds: LEASE_SECONDS,
    };
    let shown = store::shown(url);
    let outcome = tokio::select! {
        told = tell(count.into(), &config, &shown, out) => told,
        stopped = signals::ended() => stopped,
    };
    // The replicas have ended, so nothing is written any more.
    scratch.remove().await.context("the story's schema stays in the database")?;
    outcome
}

async fn tell<W: Write>(count: usize, config: &ReplicaConfig, database: &str, out: &mut W) -> anyhow::Result<()> {
    let mut fleet = Vec::new();
    for _ in 0..count {
        fleet.push(Process::start(config).await?);
    }
    let endpoints: Vec<Endpoint> = fleet.iter().map(|process| process.endpoint(config)).collect();
    let (first, term) = processes::leader(&endpoints).await?;
    writeln!(out, "{count} replicas share {database}, for as long as the story lasts.")?;
    show_roles(&fleet, first, out)?;
    let staying: Vec<Endpoint> =
        endpoints.iter().enumerate().filter(|(at, _)| *at != first).map(|(_, it)| it.clone()).collect();
    let follower = (first + 1) % count;
    let endpoint = &endpoints[follower];
    let client = endpoint.connect().await?;
    let mut runner = StoryRunner { client, kinds: api::kinds(), pace: Duration::ZERO, steps_left: None, out };

    let shown =
        format!("1. All requests of this story go to replica {}, which passes writes on to the leader.", follower + 1);
    runner.step(&shown).await?;
    runner.create(&example!("rebalance/clusters.yaml")).await?;
    for cluster in ["member1", "member2"] {
        runner.patch("cluster", cluster, Part::Status, &example!("rebalance/cluster-status.yaml")).await?;
    }
    runner.create(&example!("rebalance/bindings.yaml")).await?;
    let home = replicas(&[("member1", 2), ("member2", 2)]);
    runner.wait_for("the first placement", BINDINGS, DEPLOYMENT, |b| replicas_of(b) == home).await?;

    runner.step("2. member1 is lost and recovers. The replicas have fled, and stay where they are.").await?;
    runner.patch("cluster", "member1", Part::Main, &example!("rebalance/member1-fails.yaml")).await?;
    let fled = replicas(&[("member2", 4)]);
    runner.wait_for("the flight to member2", BINDINGS, DEPLOYMENT, |b| replicas_of(b) == fled).await?;
    runner.patch("cluster", "member1", Part::Main, &example!("rebalance/member1-recovers.yaml")).await?;
    runner.show_table().await?;

    runner.step("3. Other clients write at all replicas in turn, read, and watch. A rebalance begins, and the replica\n   that leads is killed.").await?;
    let traffic = Traffic::start(&endpoints, &staying).await?;
    wait_for_writes(&traffic, WRITES).await?;
    runner.create(&example!("rebalance/rebalancer.yaml")).await?;
    writeln!(runner.out, "$ kill -9 {}   # replica {}", fleet[first].id(), first + 1)?;
    traffic.measure_from_here();
    let killed = Instant::now();
    fleet[first].kill().await?;
    let (next, next_term) = processes::leader(&endpoints).await?;
    let took = killed.elapsed();
    ensure!(next_term > term && next != first, "the term goes on with another leader");

    runner
        .step(&format!(
            "4. Replica {} leads {:.1} s later, and goes on where the other one was.",
            next + 1,
            took.as_secs_f64()
        ))
        .await?;
    runner.wait_for("the way home", BINDINGS, DEPLOYMENT, |b| replicas_of(b) == home && is_fresh(b)).await?;
    runner.wait_for("the rebalancer's status", REBALANCERS, "demo", is_finished).await?;
    runner.show_table().await?;
    wait_for_writes(&traffic, traffic.acknowledged() + WRITES).await?;

    runner.step("5. The replica that was killed comes back, and follows.").await?;
    fleet[first] = Process::start(config).await?;
    let back = fleet[first].endpoint(config).connect().await?;
    show_roles(&fleet, next, runner.out)?;

    runner.step("6. What it cost, as the other clients saw it:").await?;
    // Queried from the replica that was restarted.
    let account = traffic.end(&back).await?;
    let ms = |wait: Duration| wait.as_millis();
    writeln!(
        runner.out,
        "  writes that were acknowledged  {:>7}   all are there, and the workers have finished all",
        account.acknowledged
    )?;
    writeln!(
        runner.out,
        "  writes that were cut off       {:>7}   by the kill; they may have been done",
        account.unanswered
    )?;
    writeln!(
        runner.out,
        "  longest wait of a write        {:>4} ms   the lease is {LEASE_SECONDS} s",
        ms(account.longest_write)
    )?;
    writeln!(
        runner.out,
        "  longest of {:>6} reads        {:>4} ms   at the replicas that stayed",
        account.reads,
        ms(account.longest_read)
    )?;
    writeln!(runner.out, "  events of one watch            {:>7}   each once, and in order", account.events)?;
    writeln!(runner.out, "\nThe replicas are home.")?;
    Ok(())
}

fn show_roles<W: Write>(fleet: &[Process], leader: usize, out: &mut W) -> anyhow::Result<()> {
    writeln!(out, "\n  {:<7}  {:<21}  {:>8}  ROLE", "REPLICA", "ADDRESS", "PROCESS")?;
    for (at, process) in fleet.iter().enumerate() {
        let role = if at == leader { "leads" } else { "follows" };
        writeln!(out, "  {:<7}  {:<21}  {:>8}  {role}", at + 1, process.address.to_string(), process.id())?;
    }
    Ok(())
}

/// Waits until this number of writes of other clients are acknowledged.
async fn wait_for_writes(traffic: &Traffic, enough: usize) -> anyhow::Result<()> {
    let deadline = Instant::now() + WRITES_WITHIN;
    while traffic.acknowledged() < enough {
        ensure!(Instant::now() < deadline, "the replicas acknowledge no more writes");
        tokio::time::sleep(LOOK_EVERY).await;
    }
    Ok(())
}
