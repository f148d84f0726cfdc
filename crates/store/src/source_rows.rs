//! Reads the rows of a log in parts for a copy. A part fits into one statement.

use std::collections::VecDeque;

use bytes::Bytes;
use serde_json::Value;

use super::{Bounds, Change, Error, Store};
use ballast_k8s::{GroupResource, Revision};

/// Rows per page; fewer if they are large.
const PAGE_ROWS: usize = 250;
/// The maximum number of object bytes per part, except for a part of a single row.
const PART_BYTES: usize = 8 << 20;

/// The rows of a log in revision order, in parts.
pub(super) struct SourceRows<'a> {
    from: &'a dyn Store,
    /// The kinds that are read without the content of their objects.
    left_out: Vec<GroupResource>,
    bounds: Bounds,
    after: Revision,
    /// Rows that were read and not returned yet.
    read: VecDeque<Change>,
    /// The number of rows of the next page.
    limit: usize,
    copied: u64,
}

impl<'a> SourceRows<'a> {
    pub async fn of(from: &'a dyn Store) -> Result<SourceRows<'a>, Error> {
        let bounds = from.bounds().await?;
        let (left_out, read) = (Vec::new(), VecDeque::new());
        Ok(SourceRows { from, left_out, bounds, after: Revision::ZERO, read, limit: PAGE_ROWS, copied: 0 })
    }

    /// Omits the content of objects of these kinds. Their rows are still copied, because a log has
    /// no gaps.
    pub fn leave_out(&mut self, kinds: &[GroupResource]) {
        self.left_out = kinds.to_vec();
    }

    /// Returns the bounds of the source log.
    pub fn bounds(&self) -> Bounds {
        self.bounds
    }

    /// Returns the number of rows returned so far.
    pub fn copied(&self) -> u64 {
        self.copied
    }

    /// Returns the rows of the next part, which fits into one statement; empty after the last one.
    pub async fn next(&mut self) -> Result<Vec<Change>, Error> {
        if self.read.is_empty() {
            let page = self.page().await?;
            self.limit = fitting(&page);
            self.read = page.into();
        }
        let part = part(&mut self.read);
        self.copied += part.len() as u64;
        Ok(part)
    }

    async fn page(&mut self) -> Result<Vec<Change>, Error> {
        let Bounds { last, compacted } = self.bounds;
        let mut page = Vec::new();
        if self.after < compacted {
            page = self.from.page(compacted, self.after, self.limit).await?;
            if page.is_empty() {
                self.after = compacted;
            }
        }
        if page.is_empty() {
            page = self.from.changes(self.after, self.limit).await?;
            page.retain(|change| change.revision <= last);
        }
        self.after = page.last().map_or(self.after, |change| change.revision);
        for change in page.iter_mut().filter(|change| self.left_out.contains(&change.key.resource)) {
            change.object = without_content(&change.object);
        }
        Ok(page)
    }
}

/// Strips an object down to its type and metadata.
fn without_content(object: &[u8]) -> Bytes {
    let Ok(Value::Object(mut object)) = serde_json::from_slice(object) else { return Bytes::from_static(b"{}") };
    object.retain(|member, _| ["apiVersion", "kind", "metadata"].contains(&member.as_str()));
    Bytes::from(Value::Object(object).to_string())
}

/// Estimates the number of rows like these that make one part.
fn fitting(page: &[Change]) -> usize {
    let bytes: usize = page.iter().map(|change| change.object.len()).sum();
    (PART_BYTES * page.len() / bytes.max(1)).clamp(1, PAGE_ROWS)
}

/// Takes the first rows from `read`: at least one, and as many as fit into a part.
fn part(read: &mut VecDeque<Change>) -> Vec<Change> {
    let mut bytes = 0;
    let fits = |change: &&Change| {
        bytes += change.object.len();
        bytes <= PART_BYTES
    };
    let rows = read.iter().take_while(fits).count().max(1);
    read.drain(..rows.min(read.len())).collect()
}

/// Fails unless a target log is empty.
pub(super) fn check_empty(bounds: Bounds) -> Result<(), Error> {
    match bounds.last {
        Revision::ZERO => Ok(()),
        last => {
            let advice = format!("it is not empty (it is at revision {last}); copy to a new database");
            Err(Error::Misplaced { advice })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MemoryStore, Operation, Term};
    use ballast_k8s::Key;

    #[tokio::test]
    async fn a_part_has_as_much_text_as_one_statement_can_write() {
        const KIND: GroupResource = GroupResource::new("clusters.cluster.karmada.io");
        const LARGE: usize = 800_000;
        // Small rows, large ones, and a row that exceeds the limit of a part.
        let lengths = [&[100_usize; 600][..], &[LARGE; 30], &[2 * PART_BYTES, 100]].concat();
        let changes: Vec<Change> = (1..)
            .zip(&lengths)
            .map(|(revision, length)| Change {
                revision: Revision(revision),
                key: Key::cluster(KIND, format!("member-{revision}")),
                operation: Operation::Create,
                created: Revision(revision),
                previous: Revision::ZERO,
                time_ms: revision,
                object: "x".repeat(*length).into(),
            })
            .collect();
        let store = MemoryStore::new();
        store.commit(Term::default(), &changes).await.unwrap();
        let mut rows = SourceRows::of(&store).await.unwrap();
        let (mut copied, mut parts) = (Vec::new(), 0);
        loop {
            let part = rows.next().await.unwrap();
            if part.is_empty() {
                break;
            }
            let bytes: usize = part.iter().map(|change| change.object.len()).sum();
            assert!(bytes <= PART_BYTES || part.len() == 1, "{} rows of {bytes} bytes", part.len());
            parts += 1;
            copied.extend(part);
        }
        assert!(copied == changes && rows.copied == changes.len() as u64);
        assert!(parts < 20, "{parts} parts");
    }
}
