//! `ballast serve`: starts a server, prints a line when `/readyz` passes, and ends on SIGTERM or
//! Ctrl-C after everything is stored.

use std::io::Write;
use std::time::Duration;

use anyhow::Context;

use super::output::print;
use ballast_base::telemetry;
use ballast_node::config::ServeArgs;
use ballast_node::serve::start;
use ballast_node::{UsageError, memory, otlp};

/// Startup time after which a line names the address of a server that is not ready yet.
const READY_EXPECTED_WITHIN: Duration = Duration::from_secs(2);
/// Timeout for running computations when the server ends.
const COMPUTING_MAX: Duration = Duration::from_secs(1);

pub fn run(args: ServeArgs) -> anyhow::Result<()> {
    let args = args.settled()?;
    if args.print_config {
        let text = serde_saphyr::to_string(&args)?;
        return print(&text);
    }
    memory::keep_free_pages_longer();
    memory::without_huge_pages();
    // One thread per processor. With two more, a create costs 5 per cent more. Workers yield often,
    // so requests need no separate threads.
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let (format, detail) = (args.log_format.into(), telemetry::Detail::Verbosity(args.verbosity));
    let (_lines, exporter) = match args.tracing.export() {
        None => (telemetry::start(format, detail), None),
        Some(export) => {
            let started = runtime.block_on(async { otlp::start(format, detail, &export) });
            let (lines, exporter) = started.map_err(UsageError::because)?;
            (lines, Some(exporter))
        }
    };
    let served = runtime.block_on(serve(args));
    // A computation with an unused result on a blocking thread does not delay the end.
    runtime.shutdown_timeout(COMPUTING_MAX);
    if let Some(exporter) = exporter {
        exporter.stop();
    }
    served
}

/// Returns the termination signal besides Ctrl-C.
#[cfg(unix)]
fn terminations() -> std::io::Result<tokio::signal::unix::Signal> {
    tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())
}

/// Returns the termination signal besides Ctrl-C: the console is closed.
#[cfg(windows)]
fn terminations() -> std::io::Result<tokio::signal::windows::CtrlClose> {
    tokio::signal::windows::ctrl_close()
}

/// Prints a line about the state of the server. A closed standard output does not end the server.
fn announce(line: &str) {
    if let Err(error) = writeln!(std::io::stdout(), "{line}") {
        tracing::warn!(%error, line, "failed to write a line to standard output");
    }
}

async fn serve(args: ServeArgs) -> anyhow::Result<()> {
    let mut terminate = terminations()?;
    let mut running = tokio::select! {
        running = start(args) => running?,
        // Startup may wait a minute for the database.
        _ = terminate.recv() => return Ok(()),
    };
    let admin = running.certificates.as_ref().map(|files| files.admin_kubeconfig.display());
    let kubeconfig = admin.map(|path| format!(" (kubeconfig: {path})")).unwrap_or_default();
    let (url, ready) = (running.url(), running.ready());
    let announced = async {
        let mut ready = std::pin::pin!(ready);
        if tokio::time::timeout(READY_EXPECTED_WITHIN, &mut ready).await.is_err() {
            let why = "but is not ready yet: `/readyz?verbose` and the log name the reason";
            announce(&format!("ballast listens at {url}{kubeconfig} {why}"));
            ready.await;
        }
        announce(&format!("ballast is ready at {url}{kubeconfig}"));
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = announced => {}
        _ = terminate.recv() => tracing::info!("asked to end"),
        done = tokio::signal::ctrl_c() => done.context("failed to listen for signals")?,
        ended = running.ended() => return ended,
    }
    // A second signal ends the process at once.
    tokio::select! {
        stopped = running.stop() => stopped,
        _ = terminate.recv() => Err(anyhow::anyhow!("asked to end twice; requests were cut off")),
    }
}
