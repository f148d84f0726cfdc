//! Checks the integrity of a database file by reading every page.
//!
//! The duration is proportional to the size of the file, so a start does not wait for it. It runs
//! in the background after an unclean shutdown, and for `ballast check`. `open` has the short
//! checks of each start, and a read reports a missing row.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, RwLock};
use std::time::{Duration, Instant};

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{AssertSqlSafe, ConnectOptions, Connection};
use tokio::task::JoinHandle;

use super::RESTORE;
use super::errors::{classify, corrupt};
use super::interned_entries::InternedEntries;
use super::open::{APPLICATION_ID, blame_wal};
use super::statements;
use crate::Error;
use crate::checksum::{EXAMINED_ROWS, Examined};
use ballast_base::telemetry;
use ballast_k8s::Revision;

const READ: &str = "failed to read the file";
/// The maximum number of faults that are reported. One is reason enough to restore a backup.
const FAULTS_MAX: usize = 10;
/// Instructions of SQLite's virtual machine between two checks for cancellation.
const STEPS_PER_LOOK: i32 = 100_000;
/// How long a shutdown waits for a cancelled check.
const STOP_MAX: Duration = Duration::from_secs(5);

/// The faults of a file, in SQLite's wording. Empty if the file is intact.
pub type Faults = Vec<String>;

/// Checks every page of the file, the consistency of its index, and the checksum of each row. Reads
/// a single snapshot, so other processes may write meanwhile. Fails if the file cannot be read as a
/// database at all.
pub async fn check(database: &Path) -> Result<Faults, Error> {
    let faults = look(database, "integrity_check", Arc::default()).await;
    match faults.map_err(|error| blame_wal(database, error))? {
        faults if faults.is_empty() => damaged_rows(database).await,
        faults => Ok(faults),
    }
}

/// Returns missing and unreadable rows, at most `FAULTS_MAX`.
async fn damaged_rows(database: &Path) -> Result<Faults, Error> {
    let failed = |error| classify(READ, error);
    let mut connection = read_only(database).await?;
    // A single snapshot, because compaction may run meanwhile.
    sqlx::raw_sql("BEGIN").execute(&mut connection).await.map_err(failed)?;
    let interned = RwLock::new(InternedEntries::load(&mut connection).await.map_err(failed)?);
    let (bounds, swept) = statements::bounds(&mut connection).await.map_err(failed)?;
    let (mut faults, mut known, mut after) = (Faults::new(), swept, Revision::ZERO);
    while faults.len() < FAULTS_MAX {
        let examined = statements::examine(&mut connection, after, EXAMINED_ROWS, &interned);
        let Examined { revisions, damaged } = examined.await.map_err(failed)?;
        let Some(last) = revisions.last().copied() else { break };
        // After the swept part, every revision has a row.
        for revision in revisions.into_iter().filter(|revision| *revision > swept) {
            if revision != known.next() {
                faults.push(missing(known.next()));
            }
            known = revision;
        }
        faults.extend(damaged.iter().map(ToString::to_string));
        after = last;
    }
    if faults.is_empty() && known < bounds.last {
        faults.push(missing(known.next()));
    }
    let _ = connection.close().await;
    faults.truncate(FAULTS_MAX);
    Ok(faults)
}

fn missing(revision: Revision) -> String {
    format!("the row of revision {revision} is missing")
}

async fn read_only(database: &Path) -> Result<SqliteConnection, Error> {
    let options = SqliteConnectOptions::new().filename(database).read_only(true).disable_statement_logging();
    options.connect().await.map_err(|error| classify(READ, error))
}

async fn look(database: &Path, pragma: &str, is_stopped: Arc<AtomicBool>) -> Result<Faults, Error> {
    let failed = |error| classify(READ, error);
    let mut connection = read_only(database).await?;
    let id: i64 = sqlx::query_scalar("PRAGMA application_id").fetch_one(&mut connection).await.map_err(failed)?;
    if id != APPLICATION_ID {
        return Err(corrupt(format!("{} is no database of ours; name another file", database.display()), None));
    }
    let goes_on = move || !is_stopped.load(Ordering::Relaxed);
    connection.lock_handle().await.map_err(failed)?.set_progress_handler(STEPS_PER_LOOK, goes_on);
    let statement = AssertSqlSafe(format!("PRAGMA {pragma}({FAULTS_MAX})"));
    let said: Vec<String> = sqlx::query_scalar(statement).fetch_all(&mut connection).await.map_err(failed)?;
    let _ = connection.close().await;
    Ok(said.into_iter().filter(|line| line != "ok").map(|line| line.replace('\n', " ")).collect())
}

/// The check after an unclean shutdown.
pub(super) struct Audit {
    is_due: AtomicBool,
    is_stopped: Arc<AtomicBool>,
    task: Mutex<Option<JoinHandle<()>>>,
    fault: Arc<OnceLock<String>>,
}

impl Audit {
    pub fn due(is_due: bool) -> Audit {
        Audit {
            is_due: AtomicBool::new(is_due),
            is_stopped: Arc::default(),
            task: Mutex::default(),
            fault: Arc::default(),
        }
    }

    /// Starts the check if it is due. It runs at most once.
    pub fn begin(&self, path: &Path) {
        if !self.is_due.swap(false, Ordering::Relaxed) {
            return;
        }
        let (path, fault, is_stopped) = (path.to_owned(), Arc::clone(&self.fault), Arc::clone(&self.is_stopped));
        let task = tokio::spawn(async move {
            let began = Instant::now();
            let faults = match look(&path, "quick_check", Arc::clone(&is_stopped)).await {
                Ok(faults) if faults.is_empty() => {
                    let seconds = began.elapsed().as_secs_f64();
                    return tracing::info!(
                        seconds,
                        "the last end was not clean: each page was checked, and all are whole"
                    );
                }
                Ok(faults) => faults.join("; "),
                Err(Error::Corrupt { .. }) => "it cannot be read to its end".to_owned(),
                Err(_) if is_stopped.load(Ordering::Relaxed) => return,
                Err(error) => {
                    let error = telemetry::with_causes(&error);
                    return tracing::warn!(error, "the last end was not clean, and the database could not be checked");
                }
            };
            tracing::error!(faults, "the database is damaged; {RESTORE}");
            let _first = fault.set(format!("{} is damaged ({faults}); {RESTORE}", path.display()));
        });
        *self.task() = Some(task);
    }

    /// Returns the faults that the check has found.
    pub fn fault(&self) -> Option<String> {
        self.fault.get().cloned()
    }

    /// Returns once the check no longer reads, so that the file can be closed.
    pub async fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
        let task = self.task().take();
        if let Some(task) = task {
            // If it is late, the next start checks again.
            let _ = tokio::time::timeout(STOP_MAX, task).await;
        }
    }

    fn task(&self) -> std::sync::MutexGuard<'_, Option<JoinHandle<()>>> {
        self.task.lock().expect("no holder of this lock can panic")
    }
}

impl Drop for Audit {
    fn drop(&mut self) {
        self.is_stopped.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn rows_that_are_missing_at_the_end_are_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ballast.db");
        let store = crate::open(&format!("sqlite://{}", path.display()), &[]).await.unwrap();
        store.close().await.unwrap();
        assert_eq!(check(&path).await.unwrap(), Faults::new());
        let options = SqliteConnectOptions::new().filename(&path);
        let mut connection = options.connect().await.unwrap();
        sqlx::raw_sql("UPDATE compaction SET compacted = 5").execute(&mut connection).await.unwrap();
        connection.close().await.unwrap();
        assert_eq!(check(&path).await.unwrap(), ["the row of revision 1 is missing"]);
    }
}
