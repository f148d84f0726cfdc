//! Reads the states that a part of the log has replaced.

use std::sync::RwLock;

use sqlx::sqlite::SqliteConnection;

use super::interned_entries::InternedEntries;
use crate::rows as read;
use crate::{Change, Span};
use ballast_k8s::{GroupResource, Revision};

/// Implements `Store::replaced`. Walks the index of replaced revisions, and reads only the returned
/// rows and the rows of other kinds between them. The caller makes sure that they still exist.
pub(super) async fn replaced(
    connection: &mut SqliteConnection,
    resource: GroupResource,
    span: Span,
    after: Revision,
    limit: usize,
    interned: &RwLock<InternedEntries>,
) -> Result<Vec<Change>, sqlx::Error> {
    let asked = sqlx::query(
        "SELECT state.revision, state.kind, state.namespace, state.name, state.operation, state.created,
             state.previous, state.time_ms, state.checksum, state.object, state.managers, state.packed
         FROM changes AS later INDEXED BY changes_by_previous
         CROSS JOIN changes AS state ON state.revision = later.previous
         WHERE later.previous > ?1 AND later.previous > 0 AND later.previous <= ?2
             AND later.revision > ?2 AND later.revision <= ?3 AND state.kind = ?4
         ORDER BY later.previous LIMIT ?5",
    )
    .bind(after.0)
    .bind(span.after.0)
    .bind(span.through.0)
    .bind(resource.as_str())
    .bind(i64::try_from(limit).unwrap_or(i64::MAX));
    read::changes(asked.fetch(connection), interned).await
}
