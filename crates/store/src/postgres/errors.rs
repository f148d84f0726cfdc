//! Conversion of PostgreSQL errors to errors of the store.

use std::error::Error as StdError;
use std::sync::Arc;

use crate::Error;
use crate::checksum::damaged_row;
use crate::sqlstate::{Worded, code};

pub(super) fn classify(action: &'static str, error: sqlx::Error) -> Error {
    if let Some(row) = damaged_row(&error) {
        return corrupt(row.advice(), None);
    }
    match code(&error) {
        // Data corrupted, index corrupted.
        Some("XX001" | "XX002") => corrupt("it is damaged; restore it from a backup".to_owned(), Some(error)),
        _ => Error::Unavailable { action, source: Arc::new(Worded::of(error)) },
    }
}

pub(super) fn corrupt(advice: String, source: Option<sqlx::Error>) -> Error {
    let source = source.map(|source| Arc::new(Worded::of(source)) as Arc<dyn StdError + Send + Sync>);
    Error::Corrupt { advice, source }
}
