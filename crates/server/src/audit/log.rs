//! The file of audit events. One thread writes it, and requests only queue their events. A file
//! that has reached its size is rotated.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant, SystemTime};

use super::event::Entry;
use super::policy::Scope;
use ballast_base::file_mode;
use ballast_base::log_limit::LogLimit;
use ballast_base::metrics;

/// Events that may wait to be written. Further ones are dropped.
const EVENTS_MAX: usize = 10_000;
/// How often events reach the file, at least.
const FLUSH_EVERY: Duration = Duration::from_millis(500);
/// How long a caller waits for a flush. The end of the process must not hang with the file.
const FLUSH_MAX: Duration = Duration::from_secs(10);
/// The interval of checks for space in a full queue.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// When a file is rotated, and when rotated files are removed. 0 means never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rotation {
    pub bytes_max: u64,
    pub backups_max: usize,
    pub age_max: Duration,
}

#[derive(Debug, thiserror::Error)]
#[error("failed to open the audit log {path}")]
pub struct LogError {
    path: String,
    #[source]
    source: io::Error,
}

pub struct Log {
    queue: SyncSender<Order>,
}

enum Order {
    Write(Scope, Box<Entry>),
    /// Acknowledged once all earlier events are in the file.
    Flush(SyncSender<()>),
}

impl Log {
    /// Opens the file to append to it. `-` is standard output.
    pub fn open(path: &Path, rotation: Rotation) -> Result<Log, LogError> {
        let failed = |source| LogError { path: path.display().to_string(), source };
        let sink = match path.to_str() {
            Some("-") => Sink::Stdout,
            _ => Sink::File(Rotated::open(path, rotation).map_err(failed)?),
        };
        let (queue, orders) = sync_channel(EVENTS_MAX);
        std::thread::Builder::new().name("audit-log".to_owned()).spawn(move || run(&orders, sink)).map_err(failed)?;
        Ok(Log { queue })
    }

    pub(super) fn write(&self, scope: Scope, entry: Entry) {
        if self.queue.try_send(Order::Write(scope, Box::new(entry))).is_err() {
            metrics::audit_event("dropped");
        }
    }

    pub(super) fn flush(&self) {
        self.flush_within(FLUSH_MAX);
    }

    fn flush_within(&self, max: Duration) {
        let end = Instant::now() + max;
        let (done, waiting) = sync_channel(1);
        let mut order = Order::Flush(done);
        loop {
            order = match self.queue.try_send(order) {
                Ok(()) => break,
                Err(TrySendError::Full(order)) if Instant::now() < end => order,
                Err(_) => return,
            };
            std::thread::sleep(LOOK_EVERY);
        }
        let _ = waiting.recv_timeout(end.saturating_duration_since(Instant::now()));
    }
}

/// Ends once the last `Log` is dropped and everything is written.
fn run(orders: &Receiver<Order>, mut sink: Sink) {
    let failures = LogLimit::new();
    loop {
        match orders.recv_timeout(FLUSH_EVERY) {
            Ok(Order::Write(scope, entry)) => {
                let written = sink.write(&entry.line(scope));
                if let Err(error) = &written
                    && let Some(left_out) = failures.pass()
                {
                    tracing::error!(%error, left_out, "failed to write to the audit log");
                }
                metrics::audit_event(if written.is_ok() { "written" } else { "dropped" });
            }
            Ok(Order::Flush(done)) => {
                sink.flush();
                let _ = done.send(());
            }
            Err(RecvTimeoutError::Timeout) => sink.flush(),
            Err(RecvTimeoutError::Disconnected) => return sink.flush(),
        }
    }
}

enum Sink {
    Stdout,
    File(Rotated),
}

impl Sink {
    fn write(&mut self, line: &str) -> io::Result<()> {
        match self {
            Sink::Stdout => writeln!(io::stdout(), "{line}"),
            Sink::File(file) => file.write(line),
        }
    }

    fn flush(&mut self) {
        let flushed = match self {
            Sink::Stdout => io::stdout().flush(),
            Sink::File(file) => file.file.flush(),
        };
        if let Err(error) = flushed {
            tracing::error!(%error, "failed to write to the audit log");
        }
    }
}

struct Rotated {
    path: PathBuf,
    file: BufWriter<File>,
    bytes: u64,
    rotation: Rotation,
}

impl Rotated {
    fn open(path: &Path, rotation: Rotation) -> io::Result<Rotated> {
        let file = append_to(path)?;
        let bytes = file.metadata()?.len();
        Ok(Rotated { path: path.to_owned(), file: BufWriter::new(file), bytes, rotation })
    }

    fn write(&mut self, line: &str) -> io::Result<()> {
        let size = line.len() as u64 + 1;
        let is_full = self.rotation.bytes_max > 0 && self.bytes > 0 && self.bytes + size > self.rotation.bytes_max;
        if is_full {
            self.rotate()?;
        }
        self.bytes += size;
        self.file.write_all(line.as_bytes())?;
        self.file.write_all(b"\n")
    }

    fn rotate(&mut self) -> io::Result<()> {
        self.file.flush()?;
        match fs::rename(&self.path, self.backup_name()) {
            // `logrotate` or an operator has taken the file away, with the events in it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            renamed => renamed?,
        }
        self.file = BufWriter::new(append_to(&self.path)?);
        self.bytes = 0;
        self.remove_old();
        Ok(())
    }

    /// Returns a name such as `audit-2026-11-21T16-00-00.123.log` in the same directory; a number
    /// follows if it exists.
    fn backup_name(&self) -> PathBuf {
        let (stem, extension) = self.name_parts();
        let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H-%M-%S%.3f");
        let named = |suffix: &str| self.path.with_file_name(format!("{stem}-{now}{suffix}{extension}"));
        let numbered = (1..).map(|number| named(&format!("-{number}")));
        std::iter::once(named("")).chain(numbered).find(|path| !path.exists()).expect("numbers do not end")
    }

    fn name_parts(&self) -> (String, String) {
        let text = |part: Option<&std::ffi::OsStr>| part.unwrap_or_default().to_string_lossy().into_owned();
        let extension = self.path.extension().map(|it| format!(".{}", it.to_string_lossy())).unwrap_or_default();
        (text(self.path.file_stem()), extension)
    }

    /// Removes old files. A failure is tried again at the next rotation.
    fn remove_old(&self) {
        let (stem, extension) = self.name_parts();
        let folder = self.path.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let Ok(entries) = fs::read_dir(folder) else { return };
        let is_backup = |name: &str| {
            let middle = name.strip_prefix(&format!("{stem}-")).and_then(|rest| rest.strip_suffix(&extension));
            middle.is_some_and(|middle| middle.starts_with(|c: char| c.is_ascii_digit()))
        };
        let mut backups: Vec<PathBuf> = entries
            .flatten()
            .filter(|entry| is_backup(&entry.file_name().to_string_lossy()))
            .map(|entry| entry.path())
            .collect();
        // The time in the name sorts them.
        backups.sort();
        let surplus = match self.rotation.backups_max {
            0 => 0,
            kept => backups.len().saturating_sub(kept),
        };
        for (at, backup) in backups.iter().enumerate() {
            if at < surplus || self.is_too_old(backup) {
                let _ = fs::remove_file(backup);
            }
        }
    }

    fn is_too_old(&self, backup: &Path) -> bool {
        let modified = fs::metadata(backup).and_then(|metadata| metadata.modified());
        let age = modified.ok().and_then(|modified| SystemTime::now().duration_since(modified).ok());
        !self.rotation.age_max.is_zero() && age.is_some_and(|age| age > self.rotation.age_max)
    }
}

/// Only the owner of the process may read it, because it records the actions of users.
fn append_to(path: &Path) -> io::Result<File> {
    file_mode::options(file_mode::PRIVATE).create(true).append(true).open(path)
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue, Method, Uri};

    use super::super::event::Request;
    use super::super::policy::{Policy, Stage};
    use super::*;
    use crate::request_info::RequestInfo;
    use ballast_k8s::User;
    use ballast_registry::Warnings;

    #[test]
    fn au4_a_file_that_hangs_holds_up_neither_requests_nor_the_end() {
        let (queue, orders) = sync_channel(1);
        let log = Log { queue };
        let uri: Uri = "/apis".parse().unwrap();
        let info = RequestInfo::read(&Method::GET, &uri).unwrap();
        let scope = Policy::metadata().scope(&User::default(), &info.attributes("get")).unwrap();
        for _ in 0..3 {
            let entry = Entry::new(Request {
                id: &HeaderValue::from_static("1"),
                method: "get",
                uri: &uri,
                headers: &HeaderMap::new(),
                info: &info,
                peer: None,
                user: None,
                acting_as: None,
                permission: None,
                warnings: &Warnings::default(),
                body: None,
                received_ms: 0,
                now_ms: 0,
                stage: Stage::ResponseComplete,
            });
            log.write(scope, entry);
        }
        log.flush_within(Duration::from_millis(50));
        assert!(matches!(orders.try_recv(), Ok(Order::Write(..))));
        assert!(orders.try_recv().is_err(), "what found no room was dropped");
    }

    /// api-03: `logrotate` or an operator has moved it away or removed it.
    #[test]
    fn au2_a_file_that_is_gone_is_made_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.log");
        let rotation = Rotation { bytes_max: 20, backups_max: 2, age_max: Duration::ZERO };
        let mut file = Rotated::open(&path, rotation).unwrap();
        file.write("line 1.234567890123").unwrap();
        fs::remove_file(&path).unwrap();
        file.write("line 2").unwrap();
        file.file.flush().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "line 2\n");
    }

    #[test]
    fn au2_a_full_file_is_put_aside_and_old_ones_go() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.log");
        let rotation = Rotation { bytes_max: 20, backups_max: 2, age_max: Duration::ZERO };
        let mut file = Rotated::open(&path, rotation).unwrap();
        for number in 0..5 {
            // Two lines of ten bytes fill a file.
            file.write(&format!("line {number}.{number}{number}")).unwrap();
            file.write(&format!("more {number}.{number}{number}")).unwrap();
        }
        file.file.flush().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "line 4.44\nmore 4.44\n");
        let mut names: Vec<String> = fs::read_dir(folder.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        assert_eq!(names.len(), 3, "{names:?}");
        assert!(names[..2].iter().all(|name| name.starts_with("audit-2") && name.ends_with(".log")), "{names:?}");
    }
}
