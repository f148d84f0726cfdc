//! Reads the changes of one key in a part of the log.
//!
//! There is no index by key, but each row refers to the row that it replaces, so the history of a
//! live object is a linked list of rows with a known head. Only deleted objects and earlier objects
//! of the same key are searched by name.

use std::sync::RwLock;

use sqlx::sqlite::SqliteConnection;

use super::interned_entries::InternedEntries;
use crate::rows::{self as read, joined_columns};
use crate::{Replacement, Span};
use ballast_k8s::{Key, Revision};

/// Implements `Store::history` of a key. `newest` is the revision of its state, if it has one. The
/// caller makes sure that the replaced rows still exist.
pub(super) async fn key_history(
    connection: &mut SqliteConnection,
    key: &Key,
    newest: Option<Revision>,
    span: Span,
    limit: usize,
    interned: &RwLock<InternedEntries>,
) -> Result<Vec<Replacement>, sqlx::Error> {
    let Some(newest) = newest else { return by_name(connection, key, span, limit, interned).await };
    let created: Option<i64> = sqlx::query_scalar("SELECT created FROM changes WHERE revision = ?")
        .bind(newest.0)
        .fetch_optional(&mut *connection)
        .await?;
    let Some(created) = created.map(Revision) else { return by_name(connection, key, span, limit, interned).await };
    let before = Span { through: span.through.min(Revision(created.0 - 1)), ..span };
    let mut found = match before.after < before.through {
        true => by_name(connection, key, before, limit, interned).await?,
        false => Vec::new(),
    };
    let rest = limit - found.len();
    if rest > 0 && created <= span.through {
        let first = if created > span.after { Some(created) } else { first_in(connection, newest, span).await? };
        if let Some(first) = first {
            found.extend(chain(connection, first, span.through, rest, interned).await?);
        }
    }
    Ok(found)
}

/// Reads the changes of the key by the names of all rows of the span. Other objects are not
/// decompressed.
async fn by_name(
    connection: &mut SqliteConnection,
    key: &Key,
    span: Span,
    limit: usize,
    interned: &RwLock<InternedEntries>,
) -> Result<Vec<Replacement>, sqlx::Error> {
    let asked = sqlx::query(concat!(
        "SELECT ",
        joined_columns!(", change.managers, change.packed", ", before.managers, before.packed"),
        " FROM changes AS change LEFT JOIN changes AS before ON before.revision = change.previous
         WHERE change.revision > ?1 AND change.revision <= ?2
             AND change.name = ?4 AND change.namespace = ?5 AND change.kind = ?6
         ORDER BY change.revision LIMIT ?3"
    ))
    .bind(span.after.0)
    .bind(span.through.0)
    .bind(i64::try_from(limit).unwrap_or(i64::MAX))
    .bind(key.name.to_string())
    .bind(key.namespace.to_string())
    .bind(key.resource.as_str());
    read::replacements(asked.fetch(connection), interned).await
}

/// Returns the first change in the span of an object that was created before it.
async fn first_in(
    connection: &mut SqliteConnection,
    newest: Revision,
    span: Span,
) -> Result<Option<Revision>, sqlx::Error> {
    let first: Option<i64> = sqlx::query_scalar(
        "WITH RECURSIVE older(revision, previous) AS (
             SELECT revision, previous FROM changes WHERE revision = ?1 AND revision > ?2
             UNION ALL
             SELECT change.revision, change.previous
             FROM older CROSS JOIN changes AS change ON change.revision = older.previous
             WHERE older.previous > ?2)
         SELECT min(revision) FROM older",
    )
    .bind(newest.0)
    .bind(span.after.0)
    .fetch_one(connection)
    .await?;
    Ok(first.map(Revision).filter(|first| *first <= span.through))
}

/// Reads the change `first`, and the chain of changes that replaced it.
async fn chain(
    connection: &mut SqliteConnection,
    first: Revision,
    through: Revision,
    limit: usize,
    interned: &RwLock<InternedEntries>,
) -> Result<Vec<Replacement>, sqlx::Error> {
    let asked = sqlx::query(concat!(
        "WITH RECURSIVE chain(revision) AS (
             SELECT ?1
             UNION ALL
             SELECT next.revision
             FROM chain CROSS JOIN changes AS next INDEXED BY changes_by_previous ON next.previous = chain.revision
             WHERE next.previous > 0 AND next.revision <= ?2
             LIMIT ?3)
         SELECT ",
        joined_columns!(", change.managers, change.packed", ", before.managers, before.packed"),
        " FROM chain CROSS JOIN changes AS change ON change.revision = chain.revision
         LEFT JOIN changes AS before ON before.revision = change.previous
         ORDER BY change.revision"
    ))
    .bind(first.0)
    .bind(through.0)
    .bind(i64::try_from(limit).unwrap_or(i64::MAX));
    read::replacements(asked.fetch(connection), interned).await
}
