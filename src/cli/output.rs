//! Standard output of all commands.
//!
//! The reader of a pipe may close it before everything is read, as `head` does. That is not an
//! error. A command that prints its complete output with `print` continues to its end, so its exit
//! status reflects its work. A command with unbounded output uses `stream`. It ends when the reader
//! closes the pipe: without a message, and with the exit status that a shell reports for a program
//! that SIGPIPE has ended.

use std::io::{self, BufWriter, ErrorKind, StdoutLock, Write};

/// 128 + SIGPIPE.
pub const READER_LEFT_STATUS: u8 = 141;

/// The reader of standard output has closed it.
#[derive(Debug, thiserror::Error)]
#[error("the reader of standard output has left")]
struct ReaderLeft;

/// Returns whether this error comes from a stream that its reader has closed.
pub fn has_reader_left(error: &anyhow::Error) -> bool {
    let io_errors = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>());
    io_errors.filter_map(io::Error::get_ref).any(|inner| inner.is::<ReaderLeft>())
}

/// Prints a complete output. A closed reader is not an error.
pub fn print(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written?),
    }
}

/// Returns standard output for unbounded output. Each line is sent when it is complete.
pub fn stream() -> Stream<io::Stdout> {
    Stream(io::stdout())
}

/// Returns standard output for one long output. It is sent in large pieces, so flush it at the end.
pub fn buffered() -> BufWriter<Stream<StdoutLock<'static>>> {
    BufWriter::new(Stream(io::stdout().lock()))
}

/// A writer with a distinct error for a closed reader.
pub struct Stream<W>(W);

impl<W: Write> Write for Stream<W> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.0.write(data).map_err(named)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().map_err(named)
    }
}

fn named(error: io::Error) -> io::Error {
    if error.kind() == ErrorKind::BrokenPipe { io::Error::new(ErrorKind::BrokenPipe, ReaderLeft) } else { error }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Closed(ErrorKind);

    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Err(self.0.into())
        }
    }

    #[test]
    fn only_a_reader_that_has_left_is_told_apart() {
        let wrote = |kind| anyhow::Error::new(Stream(Closed(kind)).write_all(b"x").unwrap_err());
        assert!(has_reader_left(&wrote(ErrorKind::BrokenPipe).context("failed to answer")));
        assert!(!has_reader_left(&wrote(ErrorKind::StorageFull)));
        // A server that breaks off a connection is a failure.
        assert!(!has_reader_left(&anyhow::Error::new(io::Error::from(ErrorKind::BrokenPipe))));
    }
}
