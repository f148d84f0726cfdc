//! The one place that reads SQLite's codes.

use std::sync::Arc;

use crate::store::Error;

/// Primary result codes, <https://www.sqlite.org/rescode.html>.
const CORRUPT: u32 = 11;
const NOT_A_DATABASE: u32 = 26;
/// Extended codes: a revision that is there already, a second replacement of the same row.
const CONSTRAINT_PRIMARY_KEY: u32 = 1555;
const CONSTRAINT_UNIQUE: u32 = 2067;

/// What an error means for whoever called the store.
pub(super) fn classify(action: &'static str, error: sqlx::Error) -> Error {
    match code(&error).map(|code| code & 0xff) {
        Some(CORRUPT | NOT_A_DATABASE) => corrupt("it is damaged; restore it from a backup", Some(error)),
        _ => Error::Unavailable { action, source: Arc::new(error) },
    }
}

pub(super) fn corrupt(advice: impl Into<String>, source: Option<sqlx::Error>) -> Error {
    let source = source.map(|source| Arc::new(source) as Arc<dyn std::error::Error + Send + Sync>);
    Error::Corrupt { advice: advice.into(), source }
}

/// Somebody else has written what only we may write.
pub(super) fn is_conflict(error: &sqlx::Error) -> bool {
    matches!(code(error), Some(CONSTRAINT_PRIMARY_KEY | CONSTRAINT_UNIQUE))
}

fn code(error: &sqlx::Error) -> Option<u32> {
    error.as_database_error()?.code()?.parse().ok()
}
