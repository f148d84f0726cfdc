//! The signals that end a long-running command. A command with temporary files then removes them.

use anyhow::Context;

/// Waits for a termination signal: Ctrl-C, SIGTERM, or SIGHUP when the terminal is closed. A signal
/// that the caller had ignored stays ignored (`nohup`).
#[cfg(unix)]
pub async fn ended() -> anyhow::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};

    const FAILED: &str = "failed to listen for signals";
    let mut terminate = signal(SignalKind::terminate()).context(FAILED)?;
    let mut hangup = match is_ignored(SignalKind::hangup().as_raw_value()) {
        true => None,
        false => Some(signal(SignalKind::hangup()).context(FAILED)?),
    };
    let hung_up = async {
        match &mut hangup {
            Some(hangup) => hangup.recv().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        done = tokio::signal::ctrl_c() => done.context(FAILED),
        _ = terminate.recv() => Ok(()),
        _ = hung_up => Ok(()),
    }
}

/// Waits for a termination signal: Ctrl-C, or a closed console.
#[cfg(windows)]
pub async fn ended() -> anyhow::Result<()> {
    const FAILED: &str = "failed to listen for signals";
    let mut closed = tokio::signal::windows::ctrl_close().context(FAILED)?;
    tokio::select! {
        done = tokio::signal::ctrl_c() => done.context(FAILED),
        _ = closed.recv() => Ok(()),
    }
}

/// Returns whether this process was started with the signal ignored. Linux reports it; elsewhere
/// the result is false.
#[cfg(unix)]
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let set = ignored.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).unwrap_or_default();
    set & (1 << (signal - 1)) != 0
}
