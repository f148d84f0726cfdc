//! Compresses the objects of rows that are history. A report of an agent changes a few numbers of
//! an object, but its row contains the whole object, so history would consist mostly of unchanged
//! data.
//!
//! Only replaced rows and deletions are compressed: states stay readable with SQL. Each compressed
//! row is independent of other rows.
//!
//! *Invariant.* A row reads the same before and after, so its checksum still matches.

use std::io::{self, Read, Write};

use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use sqlx::sqlite::SqliteConnection;

use super::statements::begin;
use crate::{Saved, Span};
use ballast_k8s::Revision;

/// Minimum size of a compressed object. Shorter ones stay uncompressed, because the rest of the row
/// is as long.
const TEXT_BYTES_MIN: i64 = 256;
/// Maximum size of a compressed object. It bounds the memory of one step, and the cost of reading a
/// row.
const TEXT_BYTES_MAX: i64 = 256 << 10;

/// An object that is history.
pub(super) struct PastText {
    /// The change that replaced the object.
    replaced_at: Revision,
    revision: Revision,
    object: String,
}

/// A compressed object to be written back.
pub(super) struct PackedText {
    revision: Revision,
    packed: Vec<u8>,
    saved: Saved,
}

/// Implements `Store::replaced_bytes`. The sizes are in the row headers, so no object is read.
pub(super) async fn replaced_bytes(
    connection: &mut SqliteConnection,
    after: Revision,
    limit: usize,
) -> Result<Vec<(Revision, u64)>, sqlx::Error> {
    let rows: Vec<(i64, i64)> = sqlx::query_as(
        "SELECT change.revision,
             ifnull(octet_length(before.packed), ifnull(octet_length(before.object), 0))
             + ifnull(octet_length(before.managers), 0)
             + CASE change.operation WHEN 'delete'
                 THEN ifnull(octet_length(change.packed), octet_length(change.object)) ELSE 0 END
         FROM changes AS change LEFT JOIN changes AS before ON before.revision = change.previous
         WHERE change.revision > ? ORDER BY change.revision LIMIT ?",
    )
    .bind(after.0)
    .bind(i64::try_from(limit).unwrap_or(i64::MAX))
    .fetch_all(connection)
    .await?;
    Ok(rows.into_iter().map(|(revision, bytes)| (Revision(revision), bytes.unsigned_abs())).collect())
}

/// Reads the uncompressed objects that the changes of a part of the log have replaced.
pub(super) async fn past_texts(connection: &mut SqliteConnection, span: Span) -> Result<Vec<PastText>, sqlx::Error> {
    let rows: Vec<(i64, i64, String)> = sqlx::query_as(
        "SELECT change.revision, past.revision, past.object
         FROM changes AS change JOIN changes AS past ON past.revision = change.previous
         WHERE change.revision > ?1 AND change.revision <= ?2 AND past.packed IS NULL
             AND octet_length(past.object) BETWEEN ?3 AND ?4
         UNION ALL
         SELECT revision, revision, object FROM changes
         WHERE revision > ?1 AND revision <= ?2 AND operation = 'delete' AND packed IS NULL
             AND octet_length(object) BETWEEN ?3 AND ?4",
    )
    .bind(span.after.0)
    .bind(span.through.0)
    .bind(TEXT_BYTES_MIN)
    .bind(TEXT_BYTES_MAX)
    .fetch_all(connection)
    .await?;
    let text = |(replaced_at, revision, object)| PastText {
        replaced_at: Revision(replaced_at),
        revision: Revision(revision),
        object,
    };
    Ok(rows.into_iter().map(text).collect())
}

/// Compresses the objects that get shorter by it. Takes some milliseconds for a hundred objects.
pub(super) fn pack_all(texts: &[PastText]) -> Vec<PackedText> {
    let pack_one = |text: &PastText| {
        let packed = pack(text.object.as_bytes());
        let bytes = text.object.len().checked_sub(packed.len()).filter(|bytes| *bytes > 0)?;
        let saved = Saved { replaced_at: text.replaced_at, bytes: bytes as u64 };
        Some(PackedText { revision: text.revision, packed, saved })
    };
    texts.iter().filter_map(pack_one).collect()
}

/// Writes compressed objects in one transaction. Returns the saved bytes.
///
/// The rows are removed and inserted again, because SQLite merges pages that removals leave nearly
/// empty, but not pages that an UPDATE leaves so.
pub(super) async fn write_packed(
    connection: &mut SqliteConnection,
    texts: Vec<PackedText>,
) -> Result<Vec<Saved>, sqlx::Error> {
    // The temporary table is in memory, and belongs to this connection.
    sqlx::raw_sql("CREATE TEMP TABLE IF NOT EXISTS packing AS SELECT * FROM changes WHERE FALSE")
        .execute(&mut *connection)
        .await?;
    begin(connection).await?;
    let mut saved = Vec::with_capacity(texts.len());
    for text in texts {
        // Compaction may have removed the row meanwhile, and then nothing is saved.
        let insert = sqlx::query(
            "INSERT INTO temp.packing
             SELECT revision, kind, namespace, name, operation, created, previous, time_ms, '', managers, checksum, ?1
             FROM changes WHERE revision = ?2 AND packed IS NULL",
        );
        let found = insert.bind(text.packed).bind(text.revision.0).execute(&mut *connection).await?;
        saved.extend((found.rows_affected() > 0).then_some(text.saved));
    }
    sqlx::raw_sql(
        "DELETE FROM changes WHERE revision IN (SELECT revision FROM temp.packing);
         INSERT INTO changes SELECT * FROM temp.packing ORDER BY revision;
         DELETE FROM temp.packing;
         COMMIT",
    )
    .execute(connection)
    .await?;
    Ok(saved)
}

fn pack(text: &[u8]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
    let packed = encoder.write_all(text).and_then(|()| encoder.finish());
    packed.expect("writing to a Vec cannot fail")
}

/// Decompresses an object. For a damaged row the result is an error, or a text that its checksum
/// does not match. Never returns more than `TEXT_BYTES_MAX`.
pub(super) fn unpack(packed: &[u8]) -> io::Result<String> {
    let mut text = String::new();
    DeflateDecoder::new(packed).take(TEXT_BYTES_MAX.unsigned_abs()).read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_unpacks_to_the_same_text_and_rubbish_to_an_error_or_a_bounded_text() {
        let text = "{\"name\":\"müller\",\"replicas\":3}".repeat(50);
        let packed = pack(text.as_bytes());
        assert!(packed.len() < text.len() / 10, "{} of {} bytes", packed.len(), text.len());
        assert_eq!(unpack(&packed).unwrap(), text);
        assert!(unpack(&packed[..packed.len() / 2]).is_err());
        assert!(unpack(b"no stream").is_err());
        let bomb = pack(&vec![b'a'; 64 << 20]);
        assert_eq!(unpack(&bomb).unwrap().len(), 256 << 10);
    }

    #[test]
    fn a_text_that_does_not_get_shorter_stays() {
        let text = |object: &str| PastText { replaced_at: Revision(2), revision: Revision(1), object: object.into() };
        let packed = pack_all(&[text("q7"), text(&"a".repeat(300))]);
        assert_eq!(packed.len(), 1);
        assert!(packed[0].saved.bytes > 280);
    }
}
