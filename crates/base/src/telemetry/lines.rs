//! Asynchronous writing of log lines to standard error.
//!
//! A collector that hangs leaves the pipe of standard error full, and a write into it blocks
//! forever. So a separate thread writes the lines, and all others only queue them (LG4).
//!
//! *Invariant:* logging never waits. If the queue is full, a line is dropped and counted, and the
//! number of dropped lines is logged once the log is writable again.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io::{self, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use tracing_appender::non_blocking::{ErrorCounter, NonBlocking, NonBlockingBuilder, WorkerGuard};

use crate::metrics;

/// Maximum number of queued lines. At a few hundred bytes per line this takes a few megabytes, and
/// suffices for the burst of a start or a failover.
const QUEUED_LINES_MAX: usize = 8192;

/// The lines that this process has dropped; set by the first start.
static DROPPED: OnceLock<ErrorCounter> = OnceLock::new();
/// How many of them `newly_dropped` has returned.
static COUNTED: AtomicU64 = AtomicU64::new(0);

/// The thread that writes log lines. Dropping it waits until they are written, for about a second.
pub struct LogLines(#[allow(dead_code, reason = "its drop is what counts")] WorkerGuard);

/// Returns the number of lines dropped since the last call.
fn newly_dropped() -> u64 {
    let dropped = DROPPED.get().map_or(0, |dropped| dropped.dropped_lines() as u64);
    dropped.saturating_sub(COUNTED.fetch_max(dropped, Ordering::Relaxed))
}

/// Queues lines for `out`, to which a separate thread writes.
pub(super) fn to(out: impl Write + Send + 'static) -> (NonBlocking, LogLines) {
    metrics::count_dropped_lines(newly_dropped);
    queued(out, QUEUED_LINES_MAX, &DROPPED)
}

fn queued(
    out: impl Write + Send + 'static,
    lines_max: usize,
    dropped: &'static OnceLock<ErrorCounter>,
) -> (NonBlocking, LogLines) {
    let builder = NonBlockingBuilder::default().lossy(true).buffered_lines_limit(lines_max).thread_name("log");
    let (queue, guard) = builder.finish(Teller { out, dropped, told: 0 });
    let _set_by_an_earlier_start = dropped.set(queue.error_counter());
    (queue, LogLines(guard))
}

/// Logs panics as lines. The standard library's own message would block on standard error.
pub(super) fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let thread = std::thread::current();
        let thread = thread.name().unwrap_or("unnamed");
        let backtrace = Backtrace::capture();
        let backtrace = (backtrace.status() == BacktraceStatus::Captured).then(|| backtrace.to_string());
        tracing::error!(target: "ballast", thread, backtrace, "{panic}");
    }));
}

/// Writes lines, and reports the number of dropped lines once all queued ones are written.
struct Teller<W> {
    out: W,
    dropped: &'static OnceLock<ErrorCounter>,
    told: usize,
}

impl<W: Write> Write for Teller<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        self.out.write(line)
    }

    /// Logs the number of newly dropped lines. The thread calls it when no line is queued, so the
    /// queue has capacity for this one.
    fn flush(&mut self) -> io::Result<()> {
        let dropped = self.dropped.get().map_or(0, ErrorCounter::dropped_lines);
        if dropped > self.told {
            let lines = dropped - self.told;
            self.told = dropped;
            tracing::warn!(target: "ballast", lines, "log lines were dropped, because standard error was not read");
        }
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// A pipe with a reader that takes a line on request.
    struct Pipe {
        takes: Receiver<()>,
        begun: Sender<()>,
        out: Sender<Vec<u8>>,
    }

    impl Write for Pipe {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            let _ = self.begun.send(());
            self.takes.recv().map_err(io::Error::other)?;
            self.out.send(line.to_vec()).map_err(io::Error::other)?;
            Ok(line.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lg4_lines_that_nothing_reads_are_dropped_and_counted_and_logging_goes_on() {
        static LOST: OnceLock<ErrorCounter> = OnceLock::new();
        let ((take, takes), (begun, has_begun), (out, lines)) = (channel(), channel(), channel());
        let (mut queue, kept) = queued(Pipe { takes, begun, out }, 2, &LOST);
        let mut log = |line: &[u8]| queue.write_all(line).expect("a queue takes or drops");
        log(b"in the pipe");
        has_begun.recv().unwrap();
        [&b"waits"[..], b"waits, too", b"dropped", b"dropped, too"].into_iter().for_each(&mut log);
        assert_eq!(LOST.get().unwrap().dropped_lines(), 2);
        (0..3).for_each(|_| take.send(()).unwrap());
        let written: Vec<Vec<u8>> = (0..3).map(|_| lines.recv().unwrap()).collect();
        assert_eq!(written, [&b"in the pipe"[..], b"waits", b"waits, too"]);
        drop(kept);
    }
}
