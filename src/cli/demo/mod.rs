//! `ballast demo`: plays a story of the seed documents, start to finish, against a real server of its
//! own (a free port, a temporary SQLite file, the real HTTPS API), showing each request as the kubectl
//! line that a user would type. Exit status 0 only if the replicas really came back.

mod stage;
mod stories;

use std::io::Write;

use clap::ValueEnum;

use self::stage::Stage;
use super::config::ServeArgs;
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
    /// nginx fled to the backup cluster; a RescheduleTask brings it back to the primary
    Task,
}

pub fn run(args: Args) -> anyhow::Result<()> {
    telemetry::start(telemetry::LogFormat::Text, telemetry::Detail::Warnings);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(play(args.story, &mut std::io::stdout()))
}

/// Plays `story` and tells it to `out`.
pub async fn play<W: Write>(story: Story, out: &mut W) -> anyhow::Result<()> {
    let folder = tempfile::tempdir()?;
    let config = ServeArgs {
        secure_port: 0,
        database_url: format!("sqlite://{}", folder.path().join("ballast.db").display()),
        cert_dir: folder.path().join("certs"),
        ..ServeArgs::default()
    };
    let server = serve::start(config).await?;
    writeln!(out, "Ballast serves at {}, objects in a SQLite file, for as long as the story lasts.", server.url())?;
    let client = Client::connect(
        server.address,
        &Credentials {
            ca: &server.certificates.ca_cert,
            certificate: &server.certificates.admin_cert,
            key: &server.certificates.admin_key,
        },
    )
    .await?;
    let mut stage = Stage { client, kinds: api::kinds(), out };
    let told = match story {
        Story::Rebalance => stories::rebalance(&mut stage).await,
        Story::Task => stories::task(&mut stage).await,
    };
    server.stop().await?;
    told?;
    writeln!(out, "\nThe replicas are home.")?;
    Ok(())
}
