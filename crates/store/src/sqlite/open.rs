//! Opens a database file. A file of another program is refused unchanged; a file of Ballast is
//! created or migrated.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use sqlx::migrate::{Migration, MigrationType, Migrator};
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection, SqliteJournalMode, SqliteSynchronous};
use sqlx::{ConnectOptions, Connection, SqlSafeStr};

use super::checkpoint;
use super::errors::{classify, corrupt};
use super::interned_entries::InternedEntries;
use super::{RESTORE, private_file, tables};
use crate::{Error, NO_WAY_BACK, Table};

/// The files of `migrations/sqlite`. They are listed here because `sqlx::migrate!` would build
/// SQLite and most of sqlx a second time, for the compiler.
static MIGRATIONS: LazyLock<Migrator> = LazyLock::new(|| {
    let migration = |version, description: &'static str, text: &'static str| {
        Migration::new(version, description.into(), MigrationType::Simple, text.into_sql_str(), false)
    };
    Migrator::with_migrations(vec![
        migration(1, "log", include_str!("../../../../migrations/sqlite/0001_log.sql")),
        migration(2, "managers", include_str!("../../../../migrations/sqlite/0002_managers.sql")),
        migration(3, "checksums", include_str!("../../../../migrations/sqlite/0003_checksums.sql")),
        migration(4, "packed", include_str!("../../../../migrations/sqlite/0004_packed.sql")),
    ])
});

/// The `PRAGMA application_id` of Ballast's files, set by the first migration.
pub(super) const APPLICATION_ID: i64 = 1_112_298_324;

const MAGIC: &[u8; 16] = b"SQLite format 3\0";
/// The length of the database header.
const HEADER_BYTES: u64 = 100;
const OPEN: &str = "failed to open the file";
/// The state in a lock file while its holder creates the database.
const CREATES: &str = "creates";

/// An exclusive lock of the database for this process. It locks a separate file, because SQLite
/// loses its locks when another handle of the database file is closed in this process.
pub(super) struct Lock {
    file: File,
    /// The text that an earlier holder has left in the lock file.
    left: String,
}

impl Drop for Lock {
    fn drop(&mut self) {
        // A child process that is being spawned briefly has a copy of the handle. Closing only this
        // one would leave the lock with that copy.
        let _ = self.file.unlock();
    }
}

pub(super) struct Opened {
    pub lock: Lock,
    pub options: SqliteConnectOptions,
    pub writer: SqliteConnection,
    pub reader: SqliteConnection,
    pub interned: InternedEntries,
    /// Whether the previous process did not close the file.
    pub is_unclean: bool,
}

pub(super) async fn open(path: &Path, tables: &[Table]) -> Result<Opened, Error> {
    check_folder(path)?;
    // Without a lock file no Ballast process has the file open. It is inspected before a lock file
    // is created next to it: it may belong to another program.
    if !lock_path(path).exists() {
        check_file(path)?;
        inspect(path, false).await.map_err(|error| blame_wal(path, error))?;
    }
    let mut lock = Lock::take(path)?;
    check_file(path)?;
    let is_unclean = has_wal(path);
    let schema = inspect(path, lock.is_unfinished()).await.map_err(|error| blame_wal(path, error))?;
    lock.sign(if schema == 0 { CREATES } else { "" });
    private_file::keep(path).map_err(|error| unavailable(OPEN, error))?;
    let options = options(path);
    let mut writer = options.connect().await.map_err(|error| classify(OPEN, error))?;
    let newest = newest_schema();
    if (1..newest).contains(&schema) {
        let file = path.display();
        tracing::warn!(%file, from = schema, to = newest, "migrating the database, {NO_WAY_BACK}");
    }
    MIGRATIONS.run(&mut writer).await.map_err(|error| unavailable("failed to migrate the file", error))?;
    if (1..newest).contains(&schema) {
        tracing::info!(schema = newest, "migrated the database");
    }
    lock.sign("");
    tables::create(&mut writer, tables).await.map_err(|error| classify("failed to create the tables", error))?;
    let interned =
        InternedEntries::load(&mut writer).await.map_err(|error| classify("failed to read the words", error))?;
    let reader = options.connect().await.map_err(|error| classify(OPEN, error))?;
    // A file that was removed meanwhile is not created again.
    let options = options.create_if_missing(false);
    Ok(Opened { lock, options, writer, reader, interned, is_unclean })
}

/// Returns the newest schema that this program supports.
fn newest_schema() -> i64 {
    MIGRATIONS.iter().map(|migration| migration.version).max().unwrap_or_default()
}

/// Refuses a file that is no Ballast database, judging by its header. Only reads. Must not be
/// called in a process that has the file open: closing a handle drops the locks of other
/// connections.
pub fn check_header(path: &Path) -> Result<(), Error> {
    let start = header(path)?.unwrap_or_default();
    if start.is_empty() {
        return misplaced(empty(path));
    }
    if !start.starts_with(MAGIC) {
        return Err(corrupt(format!("{} is not a SQLite database; name another file", path.display()), None));
    }
    match number(&start, 68).map(i64::from) {
        // The first page may be older than the WAL.
        Some(0 | APPLICATION_ID) | None => Ok(()),
        Some(_) => Err(foreign(path)),
    }
}

/// Reads the first bytes of a file; `None` if there is no file.
fn header(path: &Path) -> Result<Option<Vec<u8>>, Error> {
    let mut start = Vec::new();
    match File::open(path) {
        Ok(file) => file.take(HEADER_BYTES).read_to_end(&mut start).map_err(|error| unavailable(OPEN, error))?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unavailable(OPEN, error)),
    };
    Ok(Some(start))
}

/// Reads a big-endian number of four bytes in the header.
fn number(start: &[u8], at: usize) -> Option<u32> {
    start.get(at..at + 4).map(|bytes| u32::from_be_bytes(bytes.try_into().expect("four bytes")))
}

fn empty(path: &Path) -> String {
    let shown = path.display();
    format!(
        "{shown} is empty (0 bytes), as a copy that failed leaves it: put the backup in its place, or remove the file \
         to begin with a new database"
    )
}

fn foreign(path: &Path) -> Error {
    corrupt(format!("{} belongs to another program; name another file", path.display()), None)
}

fn lock_path(path: &Path) -> PathBuf {
    let mut beside = path.as_os_str().to_owned();
    beside.push("-lock");
    PathBuf::from(beside)
}

/// Returns whether the WAL has content. After a clean shutdown it is empty or missing.
fn has_wal(path: &Path) -> bool {
    let mut beside = path.as_os_str().to_owned();
    beside.push("-wal");
    std::fs::metadata(PathBuf::from(beside)).is_ok_and(|wal| wal.len() > 0)
}

/// Extends the advice for a damaged file that has a WAL. It may be an intact backup that was copied
/// over another file and found the WAL of that file.
pub(super) fn blame_wal(path: &Path, error: Error) -> Error {
    match error {
        Error::Corrupt { advice, source } if has_wal(path) => {
            let shown = path.display();
            let advice = format!(
                "if you have just put a backup at {shown}, remove {shown}-wal and {shown}-shm, which belong to the \
                 file that was there before; otherwise {advice}"
            );
            Error::Corrupt { advice, source }
        }
        error => error,
    }
}

/// Checks the path before any file is created there.
fn check_folder(path: &Path) -> Result<(), Error> {
    let folder = folder_of(path);
    let shown = folder.display();
    match std::fs::metadata(folder) {
        Ok(found) if found.is_dir() && path.is_dir() => {
            misplaced(format!("{} is a folder; name a file in it", path.display()))
        }
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => misplaced(format!("{shown} is not a folder; name a file in a folder")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            misplaced(format!("the folder {shown} does not exist; create it, or name another place"))
        }
        Err(error) => misplaced(format!("the folder {shown} cannot be used ({error}); name another place")),
    }
}

/// Checks that an existing file is writable. Must be called with the lock held: closing a handle of
/// the database file drops the locks of other connections of this process.
fn check_file(path: &Path) -> Result<(), Error> {
    match OpenOptions::new().read(true).append(true).open(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => misplaced(format!(
            "{} cannot be written ({error}); let the user that runs this program write it, or name another place",
            path.display()
        )),
        _ => Ok(()),
    }
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn misplaced<T>(advice: String) -> Result<T, Error> {
    Err(Error::Misplaced { advice })
}

impl Lock {
    fn take(path: &Path) -> Result<Lock, Error> {
        let beside = lock_path(path);
        let mut options = private_file::options();
        let opened = options.read(true).write(true).create(true).truncate(false).open(&beside);
        let mut file = match opened {
            Ok(file) => file,
            Err(error) => {
                let folder = folder_of(path).display();
                return misplaced(format!(
                    "no file can be made in the folder {folder} ({error}); let the user that runs this program write \
                     to it, or name another place"
                ));
            }
        };
        let is_taken = file.try_lock();
        let mut left = String::new();
        let _ = file.read_to_string(&mut left);
        match is_taken {
            Ok(()) => Ok(Lock { file, left }),
            Err(TryLockError::WouldBlock) => {
                let holder = left.split_whitespace().next().unwrap_or_default();
                let text = format!("process {holder} serves from {}", path.display());
                Err(unavailable("another process has the file", io::Error::other(text)))
            }
            Err(TryLockError::Error(error)) => Err(unavailable("failed to lock the file", error)),
        }
    }

    /// Returns whether an earlier holder stopped while it created the database.
    fn is_unfinished(&self) -> bool {
        self.left.trim_end().ends_with(CREATES)
    }

    /// Writes the id of this process and its state into the lock file, for the error message of
    /// another process. The lock does not depend on them.
    fn sign(&mut self, state: &str) {
        let text = format!("{} {state}", std::process::id());
        let file = &mut self.file;
        let _ = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| writeln!(file, "{}", text.trim_end()));
    }
}

/// Refuses a file that must not be written to, and returns its schema; zero if there is none yet.
/// Only reads. A process that stopped while it created the database leaves an empty file.
async fn inspect(path: &Path, is_unfinished: bool) -> Result<i64, Error> {
    let Some(start) = header(path)? else { return Ok(0) };
    if start.is_empty() {
        return if is_unfinished { Ok(0) } else { misplaced(empty(path)) };
    }
    check_header(path)?;
    if !has_wal(path) {
        check_length(path, &start)?;
    }
    // For a file without a WAL, SQLite would otherwise leave files next to it.
    let options = SqliteConnectOptions::new().filename(path).read_only(true).immutable(!has_wal(path));
    let options = options.disable_statement_logging();
    let mut connection = options.connect().await.map_err(|error| classify(OPEN, error))?;
    let verdict = inspect_contents(&mut connection, path).await;
    let _ = connection.close().await;
    verdict
}

async fn inspect_contents(connection: &mut SqliteConnection, path: &Path) -> Result<i64, Error> {
    const READ: &str = "failed to read the file";
    let failed = |error| classify(READ, error);
    let id: i64 = sqlx::query_scalar("PRAGMA application_id").fetch_one(&mut *connection).await.map_err(failed)?;
    let contents: i64 = sqlx::query_scalar("SELECT count(*) FROM sqlite_schema WHERE tbl_name <> '_sqlx_migrations'")
        .fetch_one(&mut *connection)
        .await
        .map_err(failed)?;
    if id == 0 && contents == 0 {
        // The file is empty, or was created shortly before a crash.
        return Ok(0);
    }
    if id != APPLICATION_ID {
        return Err(foreign(path));
    }
    let newest: Option<i64> = sqlx::query_scalar("SELECT max(version) FROM _sqlx_migrations")
        .fetch_one(&mut *connection)
        .await
        .map_err(failed)?;
    let (newest, known) = (newest.unwrap_or_default(), newest_schema());
    if newest > known {
        let advice = format!(
            "{} was written by a newer version of this program (its schema is {newest}, the newest known here is {known}); \
             run that version, or name another file",
            path.display()
        );
        return Err(corrupt(advice, None));
    }
    glance(connection).await.map_err(failed)?;
    Ok(newest)
}

/// Checks the ends of the log and of its index. `check` reads every page, which takes too long for
/// each start.
async fn glance(connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
    const ENDS: [&str; 4] = [
        "SELECT min(revision) FROM changes",
        "SELECT max(revision) FROM changes",
        "SELECT max(previous) FROM changes WHERE previous > 0",
        "SELECT max(swept) FROM compaction",
    ];
    for end in ENDS {
        let _found: Option<i64> = sqlx::query_scalar(end).fetch_one(&mut *connection).await?;
    }
    Ok(())
}

/// Refuses a truncated file. Its first page contains its length when the WAL was last emptied.
fn check_length(path: &Path, start: &[u8]) -> Result<(), Error> {
    let (Some(changed), Some(pages), Some(valid_for)) = (number(start, 24), number(start, 28), number(start, 92))
    else {
        return Err(cut_off(path));
    };
    let page_bytes = match u16::from_be_bytes([start[16], start[17]]) {
        1 => 65_536,
        bytes => u64::from(bytes),
    };
    // Other programs may leave the length unset, which these two numbers indicate.
    let is_said = pages > 0 && changed == valid_for;
    let there = std::fs::metadata(path).map_err(|error| unavailable(OPEN, error))?.len();
    match is_said && there < u64::from(pages) * page_bytes {
        true => Err(cut_off(path)),
        false => Ok(()),
    }
}

fn cut_off(path: &Path) -> Error {
    corrupt(format!("{} is damaged (its end is missing); {RESTORE}", path.display()), None)
}

fn options(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(true)
        .page_size(PAGE_BYTES)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        // Checkpoints run outside of commits (`checkpoint`).
        .pragma("wal_autocheckpoint", "0")
        // A longer WAL is truncated when it restarts from its beginning.
        .pragma("journal_size_limit", checkpoint::WAL_BYTES_MAX.to_string())
        .pragma("cache_size", format!("-{CACHE_KIB}"))
        .pragma("temp_store", "memory")
        .pragma("trusted_schema", "off")
        .foreign_keys(false)
        .row_buffer_size(ROWS_IN_FLIGHT)
        .disable_statement_logging()
}

/// The page size of new files. Commits and checkpoints write whole pages, each with two system
/// calls: with the default 4 KiB, rescheduling a binding costs an eighth more, while a single write
/// saves little, because it waits for the disk.
const PAGE_BYTES: u32 = 16 << 10;
/// Enough for the inner pages of the index.
const CACHE_KIB: u32 = 16 << 10;
/// Rows that the thread of a connection may read ahead, which speeds up the start.
const ROWS_IN_FLIGHT: usize = 500;

pub(super) fn unavailable(action: &'static str, error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::Unavailable { action, source: Arc::new(error) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A database records the checksum of each migration, and a server refuses a database with
    /// another one. A change of the format is a new file and a new line here.
    #[test]
    fn every_migration_is_listed_and_none_that_was_released_has_changed() {
        let released = [
            "0001_log.sql bea0527a7702f537",
            "0002_managers.sql b44de1b6eee1cc78",
            "0003_checksums.sql a4577b74577eee1f",
            "0004_packed.sql dc55a1d19f8f52aa",
        ];
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let listed: Vec<String> = MIGRATIONS
            .iter()
            .map(|migration| {
                let Migration { version, description, checksum, .. } = migration;
                format!("{version:04}_{description}.sql {}", hex(&checksum[..8]))
            })
            .collect();
        assert_eq!(listed, released);
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../migrations/sqlite");
        let mut files: Vec<String> =
            std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        files.sort();
        let listed: Vec<&str> = listed.iter().filter_map(|line| line.split(' ').next()).collect();
        assert_eq!(listed, files);
    }

    #[test]
    fn a_lock_ends_when_it_is_dropped_whoever_has_a_copy_of_its_handle() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("ballast.db");
        let lock = Lock::take(&path).unwrap();
        let copy = lock.file.try_clone().unwrap();
        assert!(Lock::take(&path).is_err());
        drop(lock);
        assert!(Lock::take(&path).is_ok());
        drop(copy);
    }

    #[test]
    fn a_lock_keeps_the_state_of_its_holder() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("ballast.db");
        let mut lock = Lock::take(&path).unwrap();
        assert!(!lock.is_unfinished());
        lock.sign(CREATES);
        drop(lock);
        let mut lock = Lock::take(&path).unwrap();
        assert!(lock.is_unfinished());
        lock.sign("");
        drop(lock);
        assert!(!Lock::take(&path).unwrap().is_unfinished());
    }
}
