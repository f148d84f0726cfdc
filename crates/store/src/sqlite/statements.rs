//! The SQL statements, and the conversion between rows and changes.

use std::sync::{Arc, RwLock, RwLockWriteGuard};

use futures_util::TryStreamExt;
use sqlx::sqlite::{SqliteArguments, SqliteConnection};
use sqlx::{Arguments, AssertSqlSafe, Row};

use crate::checksum::checksum;
use crate::log::{Heads, NewestOf};
use crate::rows::{self as read, Keys, columns, joined_columns};
use crate::{Bounds, Change, Operation, Replacement, Size, Span};
use ballast_k8s::{GroupResource, Revision};

use super::interned_entries::{InternedEntries, SplitText};
pub(super) use super::key_history::key_history;
pub(super) use super::packed_rows::{past_texts, replaced_bytes, write_packed};
pub(super) use super::quarantine::{examine, quarantined, set_aside};
pub(super) use super::replaced::replaced;

/// The columns of a new row.
const COLUMNS: &str = concat!(columns!(), ", managers");
const COLUMNS_COUNT: usize = 11;

/// Rows per INSERT. A group of up to this size is a single INSERT, and SQLite parses each size
/// once.
const INSERT_ROWS: usize = 64;
/// Rows per INSERT of a large batch.
const INSERT_ROWS_LARGE: usize = 256;

/// Appends the changes in one transaction. Returns the size of their objects as stored, in bytes.
pub(super) async fn append(
    connection: &mut SqliteConnection,
    changes: &[Change],
    interned: &RwLock<InternedEntries>,
) -> Result<usize, sqlx::Error> {
    let (texts, unstored) = split(changes, interned)?;
    let bytes = texts.iter().map(SplitText::len).sum();
    if unstored.is_empty() && insert_rows(changes.len()) == changes.len() {
        // A single statement is a transaction by itself, and saves two round trips to the thread.
        insert(connection, changes, texts).await?;
        return Ok(bytes);
    }
    begin(connection).await?;
    insert_split(connection, changes, texts, unstored).await?;
    sqlx::raw_sql("COMMIT").execute(connection).await?;
    lock(interned).mark_stored();
    Ok(bytes)
}

/// Interned entries with their ids.
type Numbered = Vec<(i64, Arc<str>)>;

/// Splits the objects for storage in rows, and returns the interned entries that must be stored
/// with them.
fn split(changes: &[Change], interned: &RwLock<InternedEntries>) -> Result<(Vec<SplitText>, Numbered), sqlx::Error> {
    let mut interned = lock(interned);
    Ok((interned.split(changes)?, interned.unstored()))
}

fn lock(interned: &RwLock<InternedEntries>) -> RwLockWriteGuard<'_, InternedEntries> {
    interned.write().expect("no holder of this lock can panic")
}

pub(super) async fn begin(connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
    sqlx::raw_sql("BEGIN IMMEDIATE").execute(connection).await?;
    Ok(())
}

/// Inserts any number of rows, within a transaction.
pub(super) async fn insert_all(
    connection: &mut SqliteConnection,
    changes: &[Change],
    interned: &RwLock<InternedEntries>,
) -> Result<(), sqlx::Error> {
    let (texts, unstored) = split(changes, interned)?;
    insert_split(connection, changes, texts, unstored).await
}

async fn insert_split(
    connection: &mut SqliteConnection,
    changes: &[Change],
    texts: Vec<SplitText>,
    unstored: Numbered,
) -> Result<(), sqlx::Error> {
    for (id, text) in unstored {
        // The entries exist if a commit that seemed to have failed was stored.
        let insert = sqlx::query("INSERT OR IGNORE INTO words (id, text) VALUES (?, ?)").bind(id).bind(text);
        insert.execute(&mut *connection).await?;
    }
    let (mut rest, mut texts) = (changes, texts.into_iter());
    while !rest.is_empty() {
        let (chunk, after) = rest.split_at(insert_rows(rest.len()));
        insert(connection, chunk, texts.by_ref().take(chunk.len())).await?;
        rest = after;
    }
    Ok(())
}

/// Commits the rows of a copy, with the bounds of the source log.
pub(super) async fn end_copy(
    connection: &mut SqliteConnection,
    bounds: Bounds,
    interned: &RwLock<InternedEntries>,
) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE compaction SET compacted = ?1, swept = ?1")
        .bind(bounds.compacted.0)
        .execute(&mut *connection)
        .await?;
    sqlx::raw_sql("COMMIT").execute(connection).await?;
    lock(interned).mark_stored();
    Ok(())
}

/// Returns how many of `rows` rows go into the next INSERT.
fn insert_rows(rows: usize) -> usize {
    if rows < INSERT_ROWS_LARGE { rows.min(INSERT_ROWS) } else { INSERT_ROWS_LARGE }
}

async fn insert(
    connection: &mut SqliteConnection,
    changes: &[Change],
    texts: impl IntoIterator<Item = SplitText>,
) -> Result<(), sqlx::Error> {
    let row = format!("({})", ["?"; COLUMNS_COUNT].join(", "));
    let statement = format!("INSERT INTO changes ({COLUMNS}) VALUES {}", vec![row; changes.len()].join(", "));
    let mut arguments = SqliteArguments::default();
    arguments.reserve(changes.len() * COLUMNS_COUNT, 0);
    let mut rows = changes.iter().zip(texts);
    rows.try_for_each(|(change, text)| bind(&mut arguments, change, text)).map_err(sqlx::Error::Encode)?;
    sqlx::query_with(AssertSqlSafe(statement), arguments).execute(connection).await?;
    Ok(())
}

/// Binds the values in the order of `COLUMNS`.
fn bind(arguments: &mut SqliteArguments, change: &Change, text: SplitText) -> Result<(), sqlx::error::BoxDynError> {
    arguments.add(change.revision.0)?;
    arguments.add(change.key.resource.as_str())?;
    arguments.add(change.key.namespace.clone())?;
    arguments.add(change.key.name.clone())?;
    arguments.add(change.operation.as_str())?;
    arguments.add(change.created.0)?;
    arguments.add(change.previous.0)?;
    arguments.add(change.time_ms)?;
    arguments.add(checksum(change))?;
    arguments.add(text.object)?;
    arguments.add(text.managers)
}

/// A page of `Store::page`.
pub(super) struct Page {
    pub states: Vec<Change>,
    /// The revision of a missing row.
    pub missing: Option<Revision>,
}

/// Implements `Store::page`: reads the states at a revision.
///
/// No rows of history are read. Up to `swept` the log contains almost only states, so its rows are
/// walked. After it every revision has a row, and one that the index of replaced revisions does not
/// name is a state, or a deletion.
pub(super) async fn page(
    connection: &mut SqliteConnection,
    at: Revision,
    after: Revision,
    limit: usize,
    interned: &RwLock<InternedEntries>,
) -> Result<Page, sqlx::Error> {
    // A single snapshot, because compaction may run meanwhile.
    sqlx::raw_sql("BEGIN").execute(&mut *connection).await?;
    let (bounds, swept) = bounds(connection).await?;
    let at = at.min(bounds.last);
    let mut page = Page { states: Vec::new(), missing: None };
    if after < swept {
        page.states = walked(connection, at, Span { after, through: at.min(swept) }, limit, interned).await?;
    }
    let mut after = after.max(swept);
    let mut length = limit.clamp(1, LEFT_SPAN_MAX);
    while page.states.len() < limit && after < at && page.missing.is_none() {
        let span = Span { after, through: at.min(Revision(after.0.saturating_add(length as i64))) };
        let mut left = left(connection, at, span).await?;
        let wanted = limit - page.states.len();
        // Revisions beyond the page start the next one.
        after = if left.len() > wanted { left[wanted - 1] } else { span.through };
        left.truncate(wanted);
        let found = rows(connection, &left, interned).await?;
        if found.len() < left.len() {
            page.missing = left.iter().zip(&found).find(|(left, row)| **left != row.revision).map(|(left, _)| *left);
            page.missing = page.missing.or(left.get(found.len()).copied());
        }
        page.states.extend(found.into_iter().filter(|change| change.operation != Operation::Delete));
        // A long stretch of history is crossed in a few steps.
        length = (length * 4).min(LEFT_SPAN_MAX);
    }
    sqlx::raw_sql("COMMIT").execute(connection).await?;
    Ok(page)
}

/// The maximum number of revisions per step. The result names each that was replaced.
const LEFT_SPAN_MAX: usize = 64 * 1024;

/// Reads the states at a revision in a part of the log in which rows may have been removed.
async fn walked(
    connection: &mut SqliteConnection,
    at: Revision,
    span: Span,
    limit: usize,
    interned: &RwLock<InternedEntries>,
) -> Result<Vec<Change>, sqlx::Error> {
    let asked = sqlx::query(concat!(
        "SELECT ",
        columns!(),
        ", managers, packed FROM changes AS state
         WHERE revision > ?1 AND revision <= ?2 AND operation <> 'delete' AND NOT EXISTS (
             SELECT 1 FROM changes AS later
             WHERE later.previous = state.revision AND later.previous > 0 AND later.revision <= ?3)
         ORDER BY revision LIMIT ?4"
    ))
    .bind(span.after.0)
    .bind(span.through.0)
    .bind(at.0)
    .bind(i64::try_from(limit).unwrap_or(i64::MAX));
    read::changes(asked.fetch(connection), interned).await
}

/// Returns the revisions of a part of the log that were not replaced up to `at`. Reads only the
/// index.
async fn left(connection: &mut SqliteConnection, at: Revision, span: Span) -> Result<Vec<Revision>, sqlx::Error> {
    // A single text instead of one row per revision, which would cost several times as much. Of two
    // lower bounds SQLite uses the first one to enter the index; the second one is there because
    // the index is partial.
    let replaced: Option<String> = sqlx::query_scalar(
        "SELECT group_concat(previous) FROM changes
         WHERE previous > ?1 AND previous > 0 AND previous <= ?2 AND revision <= ?3",
    )
    .bind(span.after.0)
    .bind(span.through.0)
    .bind(at.0)
    .fetch_one(connection)
    .await?;
    let mut is_left = vec![true; usize::try_from(span.through.0 - span.after.0).unwrap_or_default()];
    for number in replaced.iter().flat_map(|text| text.split(',')) {
        let number: i64 = number.parse().map_err(|error| sqlx::Error::Decode(Box::new(error)))?;
        is_left[(number - span.after.0 - 1) as usize] = false;
    }
    let left = (span.after.0 + 1..=span.through.0).zip(is_left).filter(|(_, is_left)| *is_left);
    Ok(left.map(|(revision, _)| Revision(revision)).collect())
}

pub(super) async fn heads(connection: &mut SqliteConnection) -> Result<Heads, sqlx::Error> {
    let (bounds, _) = bounds(connection).await?;
    let mut heads = Heads { last: bounds.last, newest: NewestOf::default() };
    let mut keys = Keys::default();
    let mut states = sqlx::query(
        "SELECT kind, namespace, name, revision FROM changes AS state
         WHERE operation <> 'delete' AND NOT EXISTS (
             SELECT 1 FROM changes AS later WHERE later.previous = state.revision AND later.previous > 0)",
    )
    .fetch(connection);
    while let Some(row) = states.try_next().await? {
        let key = keys.next(row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        heads.newest.insert(key, Revision(row.try_get(3)?));
    }
    Ok(heads)
}

pub(super) async fn changes(
    connection: &mut SqliteConnection,
    after: Revision,
    limit: usize,
    interned: &RwLock<InternedEntries>,
) -> Result<Vec<Change>, sqlx::Error> {
    let asked = sqlx::query(concat!(
        "SELECT ",
        columns!(),
        ", managers, packed FROM changes WHERE revision > ? ORDER BY revision LIMIT ?"
    ))
    .bind(after.0)
    .bind(i64::try_from(limit).unwrap_or(i64::MAX));
    read::changes(asked.fetch(connection), interned).await
}

/// Implements `Store::history` of a kind. The caller makes sure that the replaced rows still exist.
pub(super) async fn kind_history(
    connection: &mut SqliteConnection,
    resource: GroupResource,
    span: Span,
    limit: usize,
    interned: &RwLock<InternedEntries>,
) -> Result<Vec<Replacement>, sqlx::Error> {
    let asked = sqlx::query(concat!(
        "SELECT ",
        joined_columns!(", change.managers, change.packed", ", before.managers, before.packed"),
        " FROM changes AS change LEFT JOIN changes AS before ON before.revision = change.previous
         WHERE change.revision > ?1 AND change.revision <= ?2 AND change.kind = ?3
         ORDER BY change.revision LIMIT ?4"
    ))
    .bind(span.after.0)
    .bind(span.through.0)
    .bind(resource.as_str())
    .bind(i64::try_from(limit).unwrap_or(i64::MAX));
    read::replacements(asked.fetch(connection), interned).await
}

pub(super) async fn rows(
    connection: &mut SqliteConnection,
    revisions: &[Revision],
    interned: &RwLock<InternedEntries>,
) -> Result<Vec<Change>, sqlx::Error> {
    let revisions: Vec<i64> = revisions.iter().map(|revision| revision.0).collect();
    let asked = sqlx::query(concat!(
        "SELECT ",
        columns!(),
        ", managers, packed FROM changes WHERE revision IN (SELECT value FROM json_each(?)) ORDER BY revision"
    ))
    .bind(serde_json::to_string(&revisions).expect("numbers always serialize"));
    read::changes(asked.fetch(connection), interned).await
}

/// Returns the revision and the time of the first row at or after `revision`.
pub(super) async fn row_from(
    connection: &mut SqliteConnection,
    revision: Revision,
) -> Result<Option<(Revision, i64)>, sqlx::Error> {
    let row: Option<(i64, i64)> =
        sqlx::query_as("SELECT revision, time_ms FROM changes WHERE revision >= ? ORDER BY revision LIMIT 1")
            .bind(revision.0)
            .fetch_optional(connection)
            .await?;
    Ok(row.map(|(revision, time_ms)| (Revision(revision), time_ms)))
}

/// Returns the bounds of the log, and the revision up to which compaction has examined it.
pub(super) async fn bounds(connection: &mut SqliteConnection) -> Result<(Bounds, Revision), sqlx::Error> {
    // The newest row may be compacted itself if it is a deletion.
    let (last, compacted, swept): (i64, i64, i64) = sqlx::query_as(
        "SELECT max(compacted, coalesce((SELECT max(revision) FROM changes), 0)), compacted, swept FROM compaction",
    )
    .fetch_one(connection)
    .await?;
    Ok((Bounds { last: Revision(last), compacted: Revision(compacted) }, Revision(swept)))
}

pub(super) async fn set_compacted(connection: &mut SqliteConnection, through: Revision) -> Result<(), sqlx::Error> {
    sqlx::query("UPDATE compaction SET compacted = ?").bind(through.0).execute(connection).await?;
    Ok(())
}

/// Removes the rows that the changes of a part of the log have replaced, in one transaction.
pub(super) async fn sweep(
    connection: &mut SqliteConnection,
    after: Revision,
    through: Revision,
) -> Result<(), sqlx::Error> {
    begin(connection).await?;
    // The changes in the range refer to the rows that they superseded. A deletion supersedes the
    // last state and is no state itself.
    sqlx::query(
        "DELETE FROM changes WHERE revision IN (
             SELECT previous FROM changes WHERE revision > ?1 AND revision <= ?2 AND previous > 0
             UNION ALL
             SELECT revision FROM changes WHERE revision > ?1 AND revision <= ?2 AND operation = 'delete')",
    )
    .bind(after.0)
    .bind(through.0)
    .execute(&mut *connection)
    .await?;
    sqlx::query("UPDATE compaction SET swept = ?").bind(through.0).execute(&mut *connection).await?;
    sqlx::raw_sql("COMMIT").execute(connection).await?;
    Ok(())
}

/// Removes all rows but the states.
pub(super) const REMOVE_HISTORY: &str = "DELETE FROM changes WHERE operation = 'delete' OR revision IN
     (SELECT previous FROM changes WHERE previous > 0)";

/// Removes all rows but the states, and makes `to` the end of the log, in one transaction. With the
/// compaction bound beyond the last row, the bound is the end of the log.
pub(super) async fn bump_revision(connection: &mut SqliteConnection, to: Revision) -> Result<(), sqlx::Error> {
    begin(connection).await?;
    sqlx::raw_sql(REMOVE_HISTORY).execute(&mut *connection).await?;
    sqlx::query("UPDATE compaction SET compacted = ?1, swept = ?1").bind(to.0).execute(&mut *connection).await?;
    sqlx::raw_sql("COMMIT").execute(connection).await?;
    Ok(())
}

/// Returns the size of the file, without the WAL.
pub(super) async fn size(connection: &mut SqliteConnection) -> Result<Size, sqlx::Error> {
    let (bytes, free): (i64, i64) = sqlx::query_as(
        "SELECT page_count * page_size, freelist_count * page_size
         FROM pragma_page_count(), pragma_page_size(), pragma_freelist_count()",
    )
    .fetch_one(connection)
    .await?;
    Ok(Size { bytes: bytes.unsigned_abs(), free: Some(free.unsigned_abs()), wal: None })
}

/// Makes a page durable that contains only the marker, with an unchanged value.
pub(super) async fn probe(connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
    let mark = mark(connection).await?;
    set_mark(connection, mark).await
}

/// Implements `Store::mark`.
pub(super) async fn mark(connection: &mut SqliteConnection) -> Result<i32, sqlx::Error> {
    sqlx::query_scalar("PRAGMA user_version").fetch_one(connection).await
}

/// Implements `Store::set_mark`. A version without markers writes 1 here, at its start and
/// occasionally.
pub(super) async fn set_mark(connection: &mut SqliteConnection, mark: i32) -> Result<(), sqlx::Error> {
    sqlx::raw_sql(AssertSqlSafe(format!("PRAGMA user_version = {mark}"))).execute(connection).await?;
    Ok(())
}

/// Moves the WAL into the database file and truncates it. Returns false if a reader prevents it.
pub(super) async fn truncate(connection: &mut SqliteConnection) -> Result<bool, sqlx::Error> {
    let (busy, _pages, _moved): (i64, i64, i64) =
        sqlx::query_as("PRAGMA wal_checkpoint(TRUNCATE)").fetch_one(connection).await?;
    Ok(busy == 0)
}

/// The WAL after a checkpoint, in bytes.
pub(super) struct Checkpointed {
    /// The length of the WAL.
    pub wal: i64,
    /// The part that is not in the file yet.
    pub not_moved: i64,
}

/// Moves as many pages as possible without waiting.
pub(super) async fn checkpoint(connection: &mut SqliteConnection) -> Result<Checkpointed, sqlx::Error> {
    let (_busy, pages, moved): (i64, i64, i64) =
        sqlx::query_as("PRAGMA wal_checkpoint(PASSIVE)").fetch_one(&mut *connection).await?;
    let page_bytes: i64 = sqlx::query_scalar("PRAGMA page_size").fetch_one(connection).await?;
    Ok(Checkpointed { wal: pages * page_bytes, not_moved: (pages - moved) * page_bytes })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};

    use sqlx::Connection;

    use super::*;
    use ballast_k8s::Key;

    async fn empty() -> SqliteConnection {
        let mut connection = SqliteConnection::connect("sqlite::memory:").await.unwrap();
        for tables in [
            include_str!("../../../../migrations/sqlite/0001_log.sql"),
            include_str!("../../../../migrations/sqlite/0002_managers.sql"),
            include_str!("../../../../migrations/sqlite/0003_checksums.sql"),
            include_str!("../../../../migrations/sqlite/0004_packed.sql"),
        ] {
            sqlx::raw_sql(tables).execute(&mut connection).await.unwrap();
        }
        connection
    }

    /// Returns the creation of an object with one manager.
    fn create(revision: i64, name: &str) -> Change {
        let time = "2026-11-24T08:00:00Z";
        let text = format!(r#"{{"metadata":{{"managedFields":[{{"manager":"m","time":"{time}"}}],"name":"{name}"}}}}"#);
        Change {
            revision: Revision(revision),
            key: Key::namespaced(GroupResource::new("pods"), "shop", name),
            operation: Operation::Create,
            created: Revision(revision),
            previous: Revision::ZERO,
            time_ms: 0,
            object: text.into(),
        }
    }

    #[tokio::test]
    async fn the_words_of_a_commit_that_failed_are_stored_with_the_next_one() {
        let mut connection = empty().await;
        let interned = RwLock::default();
        append(&mut connection, &[create(1, "a")], &interned).await.unwrap();
        let twice = append(&mut connection, &[create(2, "b"), create(2, "c")], &interned).await;
        assert!(twice.is_err());
        sqlx::raw_sql("ROLLBACK").execute(&mut connection).await.unwrap();
        append(&mut connection, &[create(2, "b")], &interned).await.unwrap();
        // The same entries again, as after a commit that was stored but seemed to have failed.
        lock(&interned).mark_unstored();
        append(&mut connection, &[create(3, "c")], &interned).await.unwrap();
        let is_split: Vec<bool> = sqlx::query_scalar("SELECT managers IS NOT NULL FROM changes ORDER BY revision")
            .fetch_all(&mut connection)
            .await
            .unwrap();
        assert_eq!(is_split, [false, true, true]);
        let interned = RwLock::new(InternedEntries::load(&mut connection).await.unwrap());
        let rows = changes(&mut connection, Revision::ZERO, 10, &interned).await.unwrap();
        assert_eq!(rows, [create(1, "a"), create(2, "b"), create(3, "c")]);
    }

    #[tokio::test]
    async fn a_checkpoint_leaves_what_a_reader_still_needs_and_moves_it_later() {
        let folder = tempfile::tempdir().unwrap();
        let address = format!("sqlite://{}?mode=rwc", folder.path().join("log").display());
        let mut writer = SqliteConnection::connect(&address).await.unwrap();
        sqlx::raw_sql("PRAGMA journal_mode = WAL; CREATE TABLE numbers (number)").execute(&mut writer).await.unwrap();
        let mut reader = SqliteConnection::connect(&address).await.unwrap();
        sqlx::raw_sql("BEGIN; SELECT count(*) FROM numbers").execute(&mut reader).await.unwrap();
        sqlx::raw_sql("INSERT INTO numbers VALUES (1)").execute(&mut writer).await.unwrap();
        let held = checkpoint(&mut writer).await.unwrap();
        // One page of 4096 bytes was changed since the reader started.
        assert!(held.not_moved == 4096 && held.wal % 4096 == 0 && held.wal > 4096, "{}", held.wal);
        sqlx::raw_sql("COMMIT").execute(&mut reader).await.unwrap();
        assert_eq!(checkpoint(&mut writer).await.unwrap().not_moved, 0);
    }

    /// A late page must not walk the index from its start. The cost is counted in instructions of
    /// SQLite's virtual machine.
    #[tokio::test]
    async fn a_late_page_costs_as_much_as_an_early_one() {
        const ROWS: i64 = 20_000;
        let mut connection = empty().await;
        // A single object that was updated continuously.
        let filled = sqlx::query(
            "INSERT INTO changes
             WITH RECURSIVE rows (number) AS (SELECT 1 UNION ALL SELECT number + 1 FROM rows WHERE number < ?)
             SELECT number, 'pods', 'shop', 'busy', 'update', 1, number - 1, 0, '{}', NULL, NULL, NULL FROM rows",
        );
        filled.bind(ROWS).execute(&mut connection).await.unwrap();
        let steps = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&steps);
        let count = move || {
            counted.fetch_add(1, Ordering::Relaxed);
            true
        };
        connection.lock_handle().await.unwrap().set_progress_handler(1, count);
        let mut taken = Vec::new();
        for after in [1_000, ROWS - 2_000] {
            let before = steps.load(Ordering::Relaxed);
            let span = Span { after: Revision(after), through: Revision(after + 1_000) };
            assert_eq!(left(&mut connection, Revision(ROWS), span).await.unwrap(), []);
            taken.push(steps.load(Ordering::Relaxed) - before);
        }
        assert!(taken[0] > 1_000 && taken[1] < taken[0] * 2, "{taken:?} steps");
    }
}
