//! Distinguishes the history of a view from other histories: a failover to an asynchronous standby
//! discards commits, and other commits may reuse their revisions.
//!
//! *Invariant:* two logs with the same row at a revision have the same rows up to there, because a
//! leader continues only from rows that it has read. A bumped log has no row at its end; the number
//! of the bump stands for it.

use std::sync::Arc;
use std::time::Duration;

use ballast_k8s::{Revision, Time};
use ballast_store::{Change, Error, Store, Tip};

use super::window::Event;

/// Revisions that are compared at once, to find where two histories diverge.
const COMPARED_AT_ONCE: usize = 512;

/// The log at the revision of a view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    /// The row; `None` if the log had none at the revision, because it was bumped or compacted.
    pub row: Option<Change>,
    pub lift: i64,
}

/// The relation of a log to a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kinship {
    /// The log continues from the view.
    Same,
    /// The log is compacted beyond the view, so clients with its revisions list again in any case.
    Superseded,
    /// The log lacks changes of the view, or has others with their revisions.
    Other,
}

impl Origin {
    pub fn of(tip: &Tip) -> Origin {
        Origin { row: tip.own.clone(), lift: tip.lift }
    }

    /// Compares the log with the view at `revision`, for which `tip` was read.
    pub fn compare(&self, revision: Revision, tip: &Tip) -> Kinship {
        let compacted = tip.bounds.compacted;
        if revision < compacted {
            return Kinship::Superseded;
        }
        if revision > tip.bounds.last {
            return Kinship::Other;
        }
        let is_same = match (&self.row, &tip.own) {
            (Some(row), Some(own)) => row == own,
            // Compaction may have removed the row.
            (Some(_), None) if revision == compacted && self.lift == tip.lift => return Kinship::Superseded,
            (None, None) => self.lift == tip.lift || revision == Revision::ZERO,
            (Some(_), None) | (None, Some(_)) => false,
        };
        if is_same { Kinship::Same } else { Kinship::Other }
    }
}

/// The length of the log's history, announced when a quota starts or stops limiting it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryLength {
    pub length: Duration,
    /// The configured length (`--history`).
    pub wanted: Duration,
    /// The flag of the quota; `None` if only the age limits the history again.
    pub cut_short_by: Option<&'static str>,
}

/// Changes that the database has lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryLoss {
    /// The last revision that the lost history has in common with the log, as far as known.
    pub after: Revision,
    /// The last revision of the lost history that was seen.
    pub through: Revision,
    /// When the first and the last known lost changes were written.
    pub written: Option<(Time, Time)>,
}

impl HistoryLoss {
    /// Returns the number of lost revisions.
    pub fn revisions(&self) -> i64 {
        self.through.0 - self.after.0
    }

    /// Finds where the events of a view and the log diverge. The events end with `through`.
    pub async fn find(
        store: &dyn Store,
        events: &[Arc<Event>],
        after: Revision,
        through: Revision,
    ) -> Result<HistoryLoss, Error> {
        let (mut common, mut lost) = (after, events.len());
        'search: for chunk in events.rchunks(COMPARED_AT_ONCE) {
            let revisions: Vec<Revision> = chunk.iter().map(|event| event.revision).collect();
            let rows = store.rows(&revisions).await?;
            for event in chunk.iter().rev() {
                let is_there = |row: &Change| {
                    row.revision == event.revision && row.time_ms == event.time_ms && row.key == event.object.key
                };
                if rows.iter().any(is_there) {
                    common = event.revision;
                    break 'search;
                }
                lost -= 1;
            }
        }
        let time = |event: &Arc<Event>| Time::from_seconds(event.time_ms.div_euclid(1000));
        let lost = &events[lost.min(events.len())..];
        let written = lost.first().zip(lost.last()).map(|(first, last)| (time(first), time(last)));
        Ok(HistoryLoss { after: common, through, written })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ballast_k8s::{GroupResource, Key};
    use ballast_store::{Bounds, Operation};

    fn row(revision: i64, time_ms: i64, text: &'static str) -> Change {
        Change {
            revision: Revision(revision),
            key: Key::cluster(GroupResource::new("clusters.cluster.karmada.io"), "member1"),
            operation: Operation::Create,
            created: Revision(revision),
            previous: Revision::ZERO,
            time_ms,
            object: text.into(),
        }
    }

    fn tip(last: i64, compacted: i64, own: Option<Change>, lift: i64) -> Tip {
        let bounds = Bounds { last: Revision(last), compacted: Revision(compacted) };
        Tip { bounds, own, lift, timeline: 0, marked: Revision::ZERO }
    }

    #[test]
    fn re10_a_shorter_log_and_another_row_are_another_history() {
        let seen = Origin { row: Some(row(7, 70, "{}")), lift: 3 };
        for (what, tip, expected) in [
            ("the same", tip(7, 0, Some(row(7, 70, "{}")), 3), Kinship::Same),
            ("longer", tip(9, 0, Some(row(7, 70, "{}")), 3), Kinship::Same),
            ("shorter", tip(6, 0, None, 3), Kinship::Other),
            ("another time", tip(9, 0, Some(row(7, 71, "{}")), 3), Kinship::Other),
            ("another text", tip(9, 0, Some(row(7, 70, "[]")), 3), Kinship::Other),
            ("compacted up to there, the row is gone", tip(9, 7, None, 3), Kinship::Superseded),
            ("lifted to there from another log", tip(9, 7, None, 4), Kinship::Other),
            ("compacted beyond", tip(9, 8, None, 3), Kinship::Superseded),
            ("lifted beyond", tip(1_000, 1_000, None, 4), Kinship::Superseded),
        ] {
            assert_eq!(seen.compare(Revision(7), &tip), expected, "{what}");
        }
        let lifted = Origin { row: None, lift: 3 };
        for (what, tip, expected) in [
            ("the same lift", tip(7, 7, None, 3), Kinship::Same),
            ("another lift to the same revision", tip(7, 7, None, 4), Kinship::Other),
            ("a row in its place", tip(9, 0, Some(row(7, 70, "{}")), 3), Kinship::Other),
        ] {
            assert_eq!(lifted.compare(Revision(7), &tip), expected, "{what}");
        }
        let empty = Origin { row: None, lift: 0 };
        assert_eq!(empty.compare(Revision::ZERO, &tip(3, 0, None, 5)), Kinship::Same);
    }
}
