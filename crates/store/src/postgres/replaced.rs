//! Reads the states that a part of the log has replaced.

use sqlx::postgres::PgConnection;

use super::statements::rows_of;
use crate::rows::{self as read, Whole, columns};
use crate::{Change, Span};
use ballast_k8s::{GroupResource, Revision};

/// Implements `Store::replaced`; returns nothing if the log is compacted beyond the start of the
/// span.
///
/// Walks the index of replaced revisions, which covers both revisions, and looks up the rows one by
/// one: `+ 0` prevents walking all rows written in the span, and `OFFSET 0` prevents another join
/// strategy.
pub(super) async fn replaced(
    connection: &mut PgConnection,
    resource: GroupResource,
    span: Span,
    after: Revision,
    limit: usize,
) -> Result<Vec<Change>, sqlx::Error> {
    let asked = sqlx::query(concat!(
        "SELECT state.* FROM changes AS later
         CROSS JOIN LATERAL (
             SELECT ",
        columns!(),
        " FROM changes WHERE revision = later.previous AND kind = $4 OFFSET 0) AS state
         WHERE later.previous > 0 AND later.previous > $1 AND later.previous <= $2
             AND later.revision + 0 > $2 AND later.revision + 0 <= $3
             AND $2 >= (SELECT compacted FROM compaction)
         ORDER BY later.previous LIMIT $5"
    ))
    .bind(after.0)
    .bind(span.after.0)
    .bind(span.through.0)
    .bind(resource.as_str())
    .bind(rows_of(limit));
    read::changes(asked.fetch(connection), &Whole).await
}
