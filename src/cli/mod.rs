//! The commands. `node` puts a server together; this module does the same for the command line.
//!
//! Exit status: 0 done, 1 failed, 2 wrong usage, 3 the answer is no, 4 something would move
//! (`--exit-code`), 141 the reader of standard
//! output left too early (`output`). Results go to standard output, logs to standard error.
//!
//! # Modules
//!
//! What commands share:
//! - `arguments`: reads the command line
//! - `output`: standard output
//! - `signals`: what ends a command that runs until it is ended
//! - `screen`: the terminal's width and colours
//! - `table`: tables that fit the terminal
//! - `client`: a small HTTP/2 client for the demo and tests
//! - `embedded`: a server inside a command, for a Karmada without Ballast
//!
//! A server and its data:
//! - `serve`, `health`, `backup`, `check`, `copy`, `lift`
//! - `certs`, `serving_cert`
//! - `transfer`: `import` and `export`
//!
//! For an operator:
//! - `operator`: `top`, `displaced`, `why`, `preview`, `rebalance` and the rest
//! - `ui`: the page on the user's machine (`no_ui`: a refusal)
//!
//! Without a server:
//! - `simulate` and `simulate_fleet`: decisions from manifests
//! - `demo`: stories against a server of its own
//! - `bench`: measures a server of its own
//! - `openapi`, `manual`: documents about the program
//! - `completion`: what a shell completes

use std::io::Write;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod arguments;
mod backup;
pub mod bench;
mod certs;
mod check;
pub mod client;
mod completion;
mod copy;
pub mod demo;
mod embedded;
mod health;
mod lift;
mod manifest_check;
mod manual;
pub mod openapi;
pub mod operator;
mod output;
mod screen;
mod serve;
mod serving_cert;
mod signals;
pub mod simulate;
pub mod simulate_fleet;
mod table;
mod transfer;
#[cfg_attr(not(feature = "page"), path = "no_ui.rs")]
pub mod ui;

use ballast_base::telemetry;
use ballast_k8s::natural;
use ballast_node::{UsageError, config};

/// Places workloads over a fleet of Kubernetes clusters, and reschedules them on request.
#[derive(Parser)]
#[command(name = "ballast", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Serve the placement APIs over HTTPS and run the scheduler
    Serve(Box<config::ServeArgs>),
    /// Play a story against a real server of its own: a cluster is lost and returns, and a
    /// rebalance brings the replicas back
    Demo(demo::Args),
    /// Show clusters, placements and rebalances as a page in the browser, with the rights of a
    /// kubeconfig
    Ui(ui::Args),
    #[command(flatten)]
    Operator(Box<operator::Command>),
    /// Measure a server of the command's own on this machine, and another API server beside it
    Bench(bench::Args),
    /// Decide offline what the scheduler would decide, from manifests or recorded cases
    Simulate(simulate::Args),
    /// Write the OpenAPI documents of what is served, or check the committed ones
    Openapi(openapi::Args),
    /// Make or renew the serving certificate in a Secret of the host cluster, and have its
    /// aggregator trust it
    ServingCert(serving_cert::Args),
    /// Ask a server whether it is ready: exit status 0 if so, 1 if not
    Health(health::Args),
    /// Copy the database of a server while it runs
    Backup(backup::Args),
    /// Check every page of a database file: exit status 0 if it is intact, 3 if it is damaged
    Check(check::Args),
    /// Move a log between SQLite and PostgreSQL, either way, while no server runs
    Copy(copy::Args),
    /// Raise the revisions of a stopped server's log, so that clients that saw later ones list
    /// again
    Lift(lift::Args),
    /// Copy the objects of an API server, unchanged, into the log of a stopped server
    Import(Box<transfer::ImportArgs>),
    /// Write the objects of a stopped server's log to files, or back to an API server
    Export(Box<transfer::ExportArgs>),
    /// Make the development certificates and the admin's kubeconfig, or check those that are there
    Certs(certs::Args),
    /// Print the completions for a shell
    Completion(completion::CompletionArgs),
    /// Write the manual pages of all commands to a folder
    Man(manual::ManArgs),
}

/// The command answers a question, and the answer is no: exit status 3.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct AnswerIsNo(pub String);

/// Something would move, and `--exit-code` asks for exit status 4. It has no message.
#[derive(Debug, thiserror::Error)]
#[error("something would move")]
pub struct WouldMove;

/// All commands with their flags.
pub fn definition() -> clap::Command {
    arguments::definition(&[])
}

/// Runs the command that the command line names.
pub fn main() -> ExitCode {
    if completion::is_answered() {
        return ExitCode::SUCCESS;
    }
    let done = match arguments::parsed() {
        Ok(Cli { command }) => run(command),
        Err(error) => Err(error),
    };
    let Err(error) = done else { return ExitCode::SUCCESS };
    if output::has_reader_left(&error) {
        return ExitCode::from(output::READER_LEFT_STATUS);
    }
    if error.is::<WouldMove>() {
        return ExitCode::from(4);
    }
    // If standard error is closed too, only the exit status tells.
    let _ = writeln!(std::io::stderr(), "ballast: {}", telemetry::with_causes(error.as_ref()));
    ExitCode::from(match () {
        () if error.is::<UsageError>() => 2,
        () if error.is::<AnswerIsNo>() => 3,
        () => 1,
    })
}

fn run(command: Command) -> anyhow::Result<()> {
    let is_offline = matches!(command, Command::Copy(_) | Command::Lift(_) | Command::Import(_) | Command::Export(_));
    // A migration of the database is announced.
    let _lines = is_offline.then(|| telemetry::start(telemetry::LogFormat::Text, telemetry::Detail::Warnings));
    match command {
        Command::Operator(command) => operator::run(*command),
        Command::Serve(args) => serve::run(*args),
        Command::Demo(args) => demo::run(args),
        Command::Ui(args) => ui::run(args),
        Command::Bench(args) => bench::run(&args),
        Command::Simulate(args) => simulate::run(&args),
        Command::Openapi(args) => openapi::run(&args),
        Command::ServingCert(args) => serving_cert::run(&args),
        Command::Health(args) => health::run(&args),
        Command::Backup(args) => backup::run(&args),
        Command::Certs(args) => certs::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Copy(args) => copy::run(&args),
        Command::Lift(args) => lift::run(&args),
        Command::Import(args) => transfer::import::run(*args),
        Command::Export(args) => transfer::export::run(*args),
        Command::Completion(args) => completion::run(&args),
        Command::Man(args) => manual::pages(&args),
    }
}
