//! Packs the texts of rows that are history. A report of an agent changes a few numbers of an
//! object, and its row has the whole object, so history would be mostly what did not change.
//!
//! Only replaced rows and deletions are packed: states stay readable for people's queries. Each
//! packed row stands for itself, so no other row has to be there to read it.
//!
//! *Invariant.* A row reads the same before and after, so its checksum still fits.

use std::io::{self, Read, Write};

use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use sqlx::sqlite::SqliteConnection;

use super::statements::begin;
use crate::{Saved, Span};
use ballast_k8s::Revision;

/// Shorter texts stay as they are: the rest of the row is as long.
const TEXT_BYTES_MIN: i64 = 256;
/// Longer texts stay as they are. It bounds the memory of one step, and what reading a row costs.
const TEXT_BYTES_MAX: i64 = 256 << 10;

/// A text that is history.
pub(super) struct PastText {
    /// The change that made it history.
    replaced_at: Revision,
    revision: Revision,
    object: String,
}

/// A text as it is written back.
pub(super) struct PackedText {
    revision: Revision,
    packed: Vec<u8>,
    saved: Saved,
}

/// `Store::replaced_bytes`. The sizes are in the heads of the rows, so no object is read.
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

/// The texts that the changes of a part of the log made history, and that are not packed.
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

/// Packs the texts that get shorter by it. It takes some milliseconds for a hundred texts.
pub(super) fn pack_all(texts: &[PastText]) -> Vec<PackedText> {
    let pack_one = |text: &PastText| {
        let packed = pack(text.object.as_bytes());
        let bytes = text.object.len().checked_sub(packed.len()).filter(|bytes| *bytes > 0)?;
        let saved = Saved { replaced_at: text.replaced_at, bytes: bytes as u64 };
        Some(PackedText { revision: text.revision, packed, saved })
    };
    texts.iter().filter_map(pack_one).collect()
}

/// Writes packed texts in one transaction. Returns what that saves.
///
/// The rows are removed and inserted again: SQLite merges pages that removals leave nearly empty,
/// and lets those be that an UPDATE leaves so.
pub(super) async fn write_packed(
    connection: &mut SqliteConnection,
    texts: Vec<PackedText>,
) -> Result<Vec<Saved>, sqlx::Error> {
    // It is in memory, and belongs to this connection.
    sqlx::raw_sql("CREATE TEMP TABLE IF NOT EXISTS packing AS SELECT * FROM changes WHERE FALSE")
        .execute(&mut *connection)
        .await?;
    begin(connection).await?;
    let mut saved = Vec::with_capacity(texts.len());
    for text in texts {
        // Compaction may have removed the row meanwhile, and then nothing is to be saved.
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

/// The text that was packed. A damaged row gives an error, or another text, which its checksum
/// tells. It never gives more than was ever packed.
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
