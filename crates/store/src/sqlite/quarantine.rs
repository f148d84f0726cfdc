//! Finds damaged rows, and moves them to the quarantine.

use std::sync::RwLock;

use sqlx::AssertSqlSafe;
use sqlx::sqlite::SqliteConnection;

use super::interned_entries::InternedEntries;
use super::statements::{REMOVE_HISTORY, begin, bounds};
use crate::checksum::{DamagedRow, Examined};
use crate::rows::{self as read, Keys, Lenient, columns};
use ballast_k8s::{Key, Revision};

/// Returns the columns of a change in the order that `Objects` reads, with NULL for columns that a
/// table of an earlier version lacks.
pub(super) async fn columns_there(connection: &mut SqliteConnection) -> Result<String, sqlx::Error> {
    let there: Vec<String> =
        sqlx::query_scalar("SELECT name FROM pragma_table_info('changes')").fetch_all(connection).await?;
    let known = concat!(columns!(), ", managers, packed").split(", ");
    let read: Vec<&str> =
        known.map(|column| if there.iter().any(|it| it == column) { column } else { "NULL" }).collect();
    Ok(read.join(", "))
}

/// Examines the rows after a revision, at most `limit`.
pub(super) async fn examine(
    connection: &mut SqliteConnection,
    after: Revision,
    limit: usize,
    interned: &RwLock<InternedEntries>,
) -> Result<Examined, sqlx::Error> {
    let columns = columns_there(connection).await?;
    let statement = format!("SELECT {columns} FROM changes WHERE revision > ? ORDER BY revision LIMIT ?");
    let objects = Lenient::new(interned);
    let asked = sqlx::query(AssertSqlSafe(statement)).bind(after.0).bind(i64::try_from(limit).unwrap_or(i64::MAX));
    let changes = read::changes(asked.fetch(connection), &objects).await?;
    Ok(Examined::of(changes, objects.take()))
}

/// Moves rows to the quarantine, in one transaction. All other rows but the states are removed, so
/// that an earlier state of a key does not become its state again. Returns the revision that the
/// log is bumped to, so that each client lists again.
pub(super) async fn set_aside(
    connection: &mut SqliteConnection,
    damaged: &[DamagedRow],
) -> Result<Revision, sqlx::Error> {
    begin(connection).await?;
    let (bounds, _) = bounds(connection).await?;
    let to = bounds.last.next();
    for row in damaged {
        let insert = sqlx::query(
            "INSERT OR REPLACE INTO quarantine
             SELECT ?1, ?2, revision, kind, namespace, name, operation, created, previous, time_ms, checksum, object,
                 managers, packed
             FROM changes WHERE revision = ?3",
        );
        insert.bind(to.0).bind(&row.fault).bind(row.revision.0).execute(&mut *connection).await?;
    }
    sqlx::raw_sql(REMOVE_HISTORY).execute(&mut *connection).await?;
    for row in damaged {
        let delete = sqlx::query("DELETE FROM changes WHERE revision = ?");
        delete.bind(row.revision.0).execute(&mut *connection).await?;
    }
    sqlx::query("UPDATE compaction SET compacted = ?1, swept = ?1").bind(to.0).execute(&mut *connection).await?;
    sqlx::raw_sql("COMMIT").execute(connection).await?;
    Ok(to)
}

/// Implements `Store::set_aside`.
pub(super) async fn quarantined(connection: &mut SqliteConnection) -> Result<Vec<Key>, sqlx::Error> {
    let rows: Vec<(String, String, String)> =
        sqlx::query_as("SELECT kind, namespace, name FROM quarantine ORDER BY revision").fetch_all(connection).await?;
    let mut keys = Keys::default();
    Ok(rows.iter().map(|(kind, namespace, name)| keys.next(kind, namespace, name)).collect())
}
