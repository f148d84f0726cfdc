//! Reads the changes of a kind or of a key in a part of the log.

use sqlx::postgres::PgConnection;

use super::statements::rows_of;
use crate::rows::{self as read, Whole, joined_columns};
use crate::{HistoryOf, Replacement, Span};

/// The statement of `history` with an additional condition.
macro_rules! joined_history {
    ($condition:literal) => {
        concat!(
            "SELECT ",
            joined_columns!(),
            " FROM changes AS change LEFT JOIN changes AS before ON before.revision = change.previous
             WHERE change.revision > $1 AND change.revision <= $2 AND change.kind = $3
                 AND $1 >= (SELECT compacted FROM compaction) ",
            $condition,
            " ORDER BY change.revision LIMIT $4"
        )
    };
}

/// Implements `Store::history`; returns nothing if the log is compacted beyond the start of the
/// span.
pub(super) async fn history(
    connection: &mut PgConnection,
    of: &HistoryOf,
    span: Span,
    limit: usize,
) -> Result<Vec<Replacement>, sqlx::Error> {
    const OF_KIND: &str = joined_history!("");
    // A separate statement, so that the index by key is used.
    const OF_KEY: &str = joined_history!("AND change.namespace = $5 AND change.name = $6");
    let asked = sqlx::query(if of.key().is_some() { OF_KEY } else { OF_KIND })
        .bind(span.after.0)
        .bind(span.through.0)
        .bind(of.resource().as_str())
        .bind(rows_of(limit));
    let asked = match of.key() {
        Some(key) => asked.bind(key.namespace.to_string()).bind(key.name.to_string()),
        None => asked,
    };
    read::replacements(asked.fetch(connection), &Whole).await
}
