//! The size of the log's history in bytes, for its quota.
//!
//! A change makes the replaced change history. So the size of the history after a revision is the
//! size of the changes that were replaced after it, and they are counted as the log grows. The
//! count is kept per part of the log, oldest first: the quota removes whole parts.

use std::collections::VecDeque;

use ballast_k8s::Revision;
use ballast_store::{Error, Saved, Store};

/// The number of parts of a full quota, which determines the granularity of the quota.
const PARTS: u64 = 64;
/// Rows per query.
const ROWS_MAX: usize = 10_000;

/// The size of the history in bytes, in parts of the log.
#[derive(Debug)]
pub(super) struct HistoryBytes {
    bytes_max: u64,
    parts: VecDeque<Part>,
    total: u64,
    /// The revision up to which the log has been counted.
    counted: Revision,
}

#[derive(Debug, PartialEq, Eq)]
struct Part {
    through: Revision,
    bytes: u64,
}

impl HistoryBytes {
    pub fn new(bytes_max: u64) -> HistoryBytes {
        HistoryBytes { bytes_max, parts: VecDeque::new(), total: 0, counted: Revision::ZERO }
    }

    pub fn total(&self) -> u64 {
        self.total
    }

    pub fn is_above_quota(&self) -> bool {
        self.total > self.bytes_max
    }

    /// Counts the changes since the last call, up to `newest`.
    pub async fn count(&mut self, store: &dyn Store, newest: Revision) -> Result<(), Error> {
        if self.counted == Revision::ZERO {
            self.counted = store.bounds().await?.compacted;
        }
        while self.counted < newest {
            let rows = store.replaced_bytes(self.counted, ROWS_MAX).await?;
            let Some(&(last, _)) = rows.last() else { return Ok(()) };
            rows.into_iter().for_each(|(revision, bytes)| self.add(revision, bytes));
            self.counted = last;
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    /// Subtracts the bytes that compressing counted changes has saved.
    pub fn save(&mut self, saved: &[Saved]) {
        for Saved { replaced_at, bytes } in saved.iter().filter(|saved| saved.replaced_at <= self.counted) {
            let place = self.parts.partition_point(|part| part.through < *replaced_at);
            let Some(part) = self.parts.get_mut(place) else { continue };
            let bytes = (*bytes).min(part.bytes);
            part.bytes -= bytes;
            self.total -= bytes;
        }
    }

    /// Returns the revision through which the log has to be compacted to meet the quota.
    pub fn through(&self) -> Revision {
        let mut left = self.total;
        let mut parts = self.parts.iter();
        let mut through = Revision::ZERO;
        while left > self.bytes_max
            && let Some(oldest) = parts.next()
        {
            left -= oldest.bytes;
            through = oldest.through;
        }
        through
    }

    /// Forgets compacted parts. A partly compacted part still counts as a whole.
    pub fn forget(&mut self, compacted: Revision) {
        while self.parts.front().is_some_and(|oldest| oldest.through <= compacted) {
            self.total -= self.parts.pop_front().map_or(0, |oldest| oldest.bytes);
        }
        self.counted = self.counted.max(compacted);
    }

    fn add(&mut self, revision: Revision, bytes: u64) {
        self.total += bytes;
        match self.parts.back_mut() {
            Some(part) if part.bytes < self.bytes_max / PARTS => {
                *part = Part { through: revision, bytes: part.bytes + bytes };
            }
            _ => self.parts.push_back(Part { through: revision, bytes }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_takes_less_of_the_quota() {
        let mut bytes = HistoryBytes::new(6_400);
        (1..=100).for_each(|number| bytes.add(Revision(number), 100));
        bytes.counted = Revision(100);
        assert!(bytes.is_above_quota());
        let saved: Vec<Saved> = (1..=110).map(|number| Saved { replaced_at: Revision(number), bytes: 80 }).collect();
        bytes.save(&saved);
        assert_eq!((bytes.total(), bytes.through()), (2_000, Revision::ZERO), "what was not counted saves nothing");
        bytes.forget(Revision(100));
        assert_eq!(bytes.total(), 0);
    }

    #[test]
    fn the_oldest_parts_go_until_the_quota_holds() {
        let mut bytes = HistoryBytes::new(6_400);
        (1..=100).for_each(|number| bytes.add(Revision(number), 50));
        assert_eq!((bytes.total(), bytes.is_above_quota(), bytes.through()), (5_000, false, Revision::ZERO));
        (101..=200).for_each(|number| bytes.add(Revision(number), 50));
        assert!(bytes.parts.len() <= 101, "parts are bounded");
        let through = bytes.through();
        assert_eq!(through, Revision(72), "3,600 of 10,000 bytes have to go");
        bytes.forget(through);
        assert_eq!((bytes.total(), bytes.is_above_quota()), (6_400, false));
        // A single change may be larger than the quota.
        bytes.add(Revision(201), 10_000);
        assert_eq!(bytes.through(), Revision(201));
        bytes.forget(Revision(201));
        assert_eq!(bytes.total(), 0);
    }
}
