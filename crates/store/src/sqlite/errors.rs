//! Conversion of SQLite errors to errors of the store.

use std::sync::Arc;

use crate::Error;
use crate::checksum::damaged_row;
use crate::sqlite_codes::{CORRUPT, NOT_A_DATABASE, code};

/// Converts an error of SQLite to an error of the store.
pub(super) fn classify(action: &'static str, error: sqlx::Error) -> Error {
    if let Some(row) = damaged_row(&error) {
        return corrupt(row.advice(), None);
    }
    match code(&error).map(|code| code & 0xff) {
        Some(CORRUPT | NOT_A_DATABASE) => corrupt("it is damaged; restore it from a backup", Some(error)),
        // A row that was not written by Ballast.
        None if matches!(error, sqlx::Error::Decode(_)) => {
            corrupt("a row cannot be read; restore it from a backup", Some(error))
        }
        _ => Error::Unavailable { action, source: Arc::new(error) },
    }
}

pub(super) fn corrupt(advice: impl Into<String>, source: Option<sqlx::Error>) -> Error {
    let source = source.map(|source| Arc::new(source) as Arc<dyn std::error::Error + Send + Sync>);
    Error::Corrupt { advice: advice.into(), source }
}
