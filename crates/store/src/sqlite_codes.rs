//! The result codes of SQLite and their classification. No other module interprets them.

use std::error::Error as StdError;
use std::io;

/// Primary result codes, <https://www.sqlite.org/rescode.html>.
const BUSY: u32 = 5;
const LOCKED: u32 = 6;
const READ_ONLY: u32 = 8;
const IO: u32 = 10;
pub const CORRUPT: u32 = 11;
const FULL: u32 = 13;
const CANNOT_OPEN: u32 = 14;
pub const NOT_A_DATABASE: u32 = 26;
/// Extended codes. The first means a revision that exists, the second a state that was replaced
/// twice.
const CONSTRAINT_PRIMARY_KEY: u32 = 1555;
const CONSTRAINT_UNIQUE: u32 = 2067;

/// Returns why the database is unavailable, as a short reason that clients may see.
pub fn reason(source: &(dyn StdError + Send + Sync + 'static)) -> &'static str {
    let kind = source.downcast_ref::<io::Error>().map(io::Error::kind);
    let code = source.downcast_ref::<sqlx::Error>().and_then(code).map(|code| code & 0xff);
    match (kind, code) {
        (Some(io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded), _) | (_, Some(FULL)) => "the disk is full",
        (Some(io::ErrorKind::ResourceBusy), _) => "another program keeps the WAL of the database from being moved",
        (_, Some(BUSY | LOCKED)) => "the database is locked by another program",
        (Some(io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem), _) | (_, Some(READ_ONLY)) => {
            "the database is read-only"
        }
        (_, Some(CANNOT_OPEN)) => "the database cannot be opened",
        (Some(_), _) | (_, Some(IO)) => "the disk failed",
        (None, _) => "the database refused it",
    }
}

/// Returns whether another process has written to the log.
pub fn is_conflict(error: &sqlx::Error) -> bool {
    matches!(code(error), Some(CONSTRAINT_PRIMARY_KEY | CONSTRAINT_UNIQUE))
}

pub fn code(error: &sqlx::Error) -> Option<u32> {
    error.as_database_error()?.code()?.parse().ok()
}
