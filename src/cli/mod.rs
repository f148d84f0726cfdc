//! The commands. `node` assembles a server; this module does the same for the command line.
//!
//! Exit status: 0 success, 1 failure, 2 usage error, 3 negative result, 4 something would move
//! (`--exit-code`), 141 the reader of standard output has closed it (`output`). Results go to
//! standard output, logs to standard error.
//!
//! # Modules
//!
//! Shared by commands:
//! - `arguments`: parses the command line
//! - `output`: standard output
//! - `signals`: the signals that end a long-running command
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
//! Operator's commands:
//! - `operator`: `top`, `displaced`, `why`, `preview`, `rebalance` and others
//! - `ui`: the page on the user's machine (`no_ui`: returns an error)
//!
//! Without a server:
//! - `simulate` and `simulate_fleet`: decisions from manifests
//! - `demo`: stories with a new server
//! - `bench`: measures a new server
//! - `openapi`, `manual`: documents about the program
//! - `completion`: shell completion

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

/// Places workloads on a fleet of Kubernetes clusters, and reschedules them on request.
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
    /// Play a story with a new, real server: a cluster is lost and recovers, and a rebalance
    /// returns the replicas to it
    Demo(demo::Args),
    /// Show clusters, placements and rebalances as a page in the browser, with the permissions of a
    /// kubeconfig
    Ui(ui::Args),
    #[command(flatten)]
    Operator(Box<operator::Command>),
    /// Measure a new server on this machine, and compare it with another API server
    Bench(bench::Args),
    /// Compute the decisions of the scheduler offline, from manifests or recorded cases
    Simulate(simulate::Args),
    /// Write the OpenAPI documents of the served APIs, or check the committed ones
    Openapi(openapi::Args),
    /// Create or renew the serving certificate in a Secret of the host cluster, and make its
    /// aggregator trust it
    ServingCert(serving_cert::Args),
    /// Query the readiness of a server: exit status 0 if it is ready, 1 otherwise
    Health(health::Args),
    /// Copy the database of a server while it runs
    Backup(backup::Args),
    /// Check every page of a database file: exit status 0 if it is intact, 3 if it is damaged
    Check(check::Args),
    /// Copy a log between SQLite and PostgreSQL, in either direction, while no server runs
    Copy(copy::Args),
    /// Raise the revisions of a stopped server's log, so that clients with later revisions list
    /// again
    Lift(lift::Args),
    /// Copy the objects of an API server, unchanged, into the log of a stopped server
    Import(Box<transfer::ImportArgs>),
    /// Write the objects of a stopped server's log to files, or back to an API server
    Export(Box<transfer::ExportArgs>),
    /// Create the development certificates and the admin's kubeconfig, or check existing ones
    Certs(certs::Args),
    /// Print the completions for a shell
    Completion(completion::CompletionArgs),
    /// Write the manual pages of all commands to a folder
    Man(manual::ManArgs),
}

/// The result of the command is negative: exit status 3.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct AnswerIsNo(pub String);

/// Something would move, and `--exit-code` requests exit status 4. It prints no message.
#[derive(Debug, thiserror::Error)]
#[error("something would move")]
pub struct WouldMove;

/// Returns the definition of all commands with their flags.
pub fn definition() -> clap::Command {
    arguments::definition(&[])
}

/// Runs the command on the command line.
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
    // If standard error is closed too, only the exit status reports the error.
    let _ = writeln!(std::io::stderr(), "ballast: {}", telemetry::with_causes(error.as_ref()));
    ExitCode::from(match () {
        () if error.is::<UsageError>() => 2,
        () if error.is::<AnswerIsNo>() => 3,
        () => 1,
    })
}

fn run(command: Command) -> anyhow::Result<()> {
    let is_offline = matches!(command, Command::Copy(_) | Command::Lift(_) | Command::Import(_) | Command::Export(_));
    // A migration of the database is logged.
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
