//! Logging and tracing. Log lines go to standard error, as text or as JSON lines; standard output
//! is for results. Spans go to an OpenTelemetry collector, if there is one (`spans`; `otlp` of
//! `node`). No thread that logs waits for the reader of standard error (`lines`).

mod lines;
mod spans;

use std::error::Error;
use std::io::IsTerminal;

use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry};

use super::tls_fault::tls_fault;

pub use lines::LogLines;
pub use spans::{Follow, follow, is_exporting};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    #[default]
    Text,
    Json,
}

/// The verbosity of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Only messages that an operator should look at.
    Warnings,
    /// Kubernetes' `-v`: 0 and 1 are info, 2 and 3 add requests and passes (debug), more is trace.
    Verbosity(u8),
}

/// Starts logging for the whole process. Later calls have no effect. A line that cannot be written,
/// because the disk is full or the reader is gone, is lost without further effects. The result must
/// be kept until the process ends: dropping it writes the waiting lines.
#[must_use]
pub fn start(format: LogFormat, detail: Detail) -> LogLines {
    let (writer, written) = lines::to(std::io::stderr());
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter(detail))
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(writer)
        // They would be written to standard error, and end the thread if that fails, too.
        .log_internal_errors(false);
    // Fails if logging has started before, as with several servers in one test process.
    let _already_started = match format {
        LogFormat::Text => lines.with_target(false).try_init(),
        LogFormat::Json => lines.json().flatten_event(true).with_span_list(false).try_init(),
    };
    lines::log_panics();
    written
}

/// Starts logging like [`start`], and passes all spans to `spans`. `follow` adds a span to the
/// trace of its caller.
#[must_use]
pub fn start_exporting<S>(format: LogFormat, detail: Detail, spans: S, follow: Follow) -> LogLines
where
    S: Layer<Registry> + Send + Sync,
{
    let (writer, written) = lines::to(std::io::stderr());
    let lines = tracing_subscriber::fmt::layer()
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(writer)
        .log_internal_errors(false);
    let lines = match format {
        LogFormat::Text => lines.with_target(false).boxed(),
        LogFormat::Json => lines.json().flatten_event(true).with_span_list(false).boxed(),
    };
    let _already_started =
        tracing_subscriber::registry().with(spans).with(lines.with_filter(filter(detail))).try_init();
    spans::register(follow);
    lines::log_panics();
    written
}

/// Error prefixes of HTTP client layers that only report that there was a failure.
const LAYERS: [&str; 4] =
    ["ServiceError: ", "client error (Connect): ", "client error (SendRequest): ", "tcp connect error: "];

/// Formats an error with its causes in one line. A cause with which the error's own message ends is
/// not repeated. A TLS error is replaced by a message with the remedy.
pub fn with_causes(error: &(dyn Error + 'static)) -> String {
    let mut told = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let text = cause.to_string();
        if !told.ends_with(&text) {
            told = format!("{told}: {text}");
        }
        next = cause.source();
    }
    for layer in LAYERS {
        told = told.replace(layer, "");
    }
    match tls_fault(error) {
        Some((theirs, ours)) => told.replace(&theirs, &ours),
        None => told,
    }
}

fn filter(detail: Detail) -> EnvFilter {
    let (level, verbosity) = match detail {
        Detail::Warnings => ("warn", 0),
        Detail::Verbosity(verbosity @ (0 | 1)) => ("info", verbosity),
        Detail::Verbosity(verbosity @ (2 | 3)) => ("debug", verbosity),
        Detail::Verbosity(verbosity) => ("trace", verbosity),
    };
    // The libraries log every connection and every statement, which only a high -v should show.
    // Failed calls of the host cluster and of the database are logged by their callers, which have
    // the context.
    let others = match verbosity {
        0..6 => "warn,kube_client::client=off,kube_runtime::watcher=off,sqlx_core::pool=off",
        _ => "debug",
    };
    EnvFilter::new(format!("{others},ballast={level}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{0}")]
    struct Failed(&'static str, #[source] Option<Box<Failed>>);

    #[test]
    fn causes_are_told_once() {
        let of = |text, source| Failed(text, Some(Box::new(source)));
        let refused = || Failed("connection refused", None);
        assert_eq!(with_causes(&of("no lease", refused())), "no lease: connection refused");
        let told_before = of("no lease: connection refused", refused());
        assert_eq!(with_causes(&of("not started", told_before)), "not started: no lease: connection refused");
    }

    #[test]
    fn calls_that_fail_are_told_once_unless_everything_is_asked_for() {
        let told = |verbosity| filter(Detail::Verbosity(verbosity)).to_string();
        assert!(told(0).contains("kube_client::client=off") && told(5).contains("kube_client::client=off"));
        assert!(!told(6).contains("kube_client"));
    }
}
