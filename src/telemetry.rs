//! Where log lines go: standard error, as text or as JSON lines. Standard output belongs to results.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    #[default]
    Text,
    Json,
}

/// How much is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// What somebody should look at, nothing else.
    Warnings,
    /// Kubernetes' `-v`: 0 and 1 inform, 2 and 3 add requests and passes (debug), more traces.
    Verbosity(u8),
}

/// Starts logging for the whole process; later calls change nothing.
pub fn start(format: LogFormat, detail: Detail) {
    let (level, verbosity) = match detail {
        Detail::Warnings => ("warn", 0),
        Detail::Verbosity(verbosity @ (0 | 1)) => ("info", verbosity),
        Detail::Verbosity(verbosity @ (2 | 3)) => ("debug", verbosity),
        Detail::Verbosity(verbosity) => ("trace", verbosity),
    };
    // The libraries below us log per connection and per statement; ask for them with a high -v only.
    let others = if verbosity >= 6 { "debug" } else { "warn" };
    let filter = EnvFilter::new(format!("{others},ballast={level}"));
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr);
    // A second start (several servers in one test process) finds the first one in place, which is fine.
    let _already_started = match format {
        LogFormat::Text => lines.with_target(false).try_init(),
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
    };
}
