//! Where log lines go: standard error, as text or as JSON lines. Standard output belongs to results.

use tracing_subscriber::EnvFilter;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    #[default]
    Text,
    Json,
}

/// Starts logging for the whole process; later calls change nothing. `verbosity` is the number of
/// Kubernetes' `-v`: 0 and 1 inform, 2 and 3 add requests and passes (debug), more traces.
pub fn start(format: LogFormat, verbosity: u8) {
    let level = match verbosity {
        0 | 1 => "info",
        2 | 3 => "debug",
        _ => "trace",
    };
    // The libraries below us log per connection and per statement; ask for them with a high -v only.
    let others = if verbosity >= 6 { "debug" } else { "warn" };
    let filter = EnvFilter::new(format!("{others},ballast={level}"));
    let lines = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // A second start (several servers in one test process) finds the first one in place, which is fine.
    let _already_started = match format {
        LogFormat::Text => lines.with_target(false).try_init(),
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
    };
}
