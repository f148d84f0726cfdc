//! The replicas that share a log, with the latest report of each.
//!
//! The list is for display; only the lease elects the leader. After the database has lost commits,
//! the next leader bumps the log beyond every revision that a replica reports to have seen.

use std::time::Duration;

use tokio::time::Instant;

use super::Candidate;
use ballast_k8s::Revision;

/// A replica without a report for this long is forgotten. Until then it is listed as missing.
pub const FORGOTTEN_AFTER: Duration = Duration::from_secs(10 * 60);
/// The maximum age of the last report of a replica at the time of a loss to be considered alive
/// then. Spans several reports.
pub const THERE_WITHIN: Duration = Duration::from_secs(10);
/// The maximum number of replicas returned, the most recently reported first.
pub const REPLICAS_MAX: usize = 32;

/// The status that a replica reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaReport {
    /// Name and address of the replica.
    pub replica: Candidate,
    /// The version of the replica's program.
    pub version: String,
    /// The highest revision that it has seen.
    pub seen: Revision,
    /// The number of changes that the replica's view is known to lack.
    pub missing: u64,
    /// The time since the replica's view was last known to be current, in whole milliseconds.
    pub lag: Duration,
}

/// A replica, with its latest report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownReplica {
    pub announcement: ReplicaReport,
    /// Whether it holds the lease.
    pub leads: bool,
    /// The time since its latest report, by the clock of the log.
    pub silent: Duration,
}

/// The replicas of a log within one process.
#[derive(Clone, Debug, Default)]
pub(super) struct ReplicaList(Vec<(ReplicaReport, Instant)>);

impl ReplicaList {
    /// Implements `Store::announce` while `leader` holds the lease.
    pub fn announce(&mut self, announcement: &ReplicaReport, leader: Option<&str>) -> Vec<KnownReplica> {
        let now = Instant::now();
        self.0.retain(|(known, heard)| {
            known.replica.name != announcement.replica.name && now.duration_since(*heard) < FORGOTTEN_AFTER
        });
        self.0.push((announcement.clone(), now));
        // The list is in the order of the reports.
        let newest = self.0.iter().rev().take(REPLICAS_MAX);
        ordered(newest.map(|(known, heard)| KnownReplica {
            announcement: known.clone(),
            leads: leader == Some(&*known.replica.name),
            silent: now.duration_since(*heard),
        }))
    }

    /// Returns the highest revision that a replica has seen.
    pub fn seen(&self) -> Revision {
        self.0.iter().map(|(known, _)| known.seen).max().unwrap_or_default()
    }

    /// Counts the replicas without a report since `asked` that were alive shortly before.
    pub fn awaited(&self, asked: Instant) -> usize {
        let was_there = |heard: Instant| heard < asked && asked.duration_since(heard) < THERE_WITHIN;
        self.0.iter().filter(|(_, heard)| was_there(*heard)).count()
    }

    /// Implements `Store::depart`.
    pub fn depart(&mut self, name: &str) {
        self.0.retain(|(known, _)| known.replica.name != name);
    }
}

/// Sorts by name, so that the order is stable.
pub(super) fn ordered(known: impl Iterator<Item = KnownReplica>) -> Vec<KnownReplica> {
    let mut known: Vec<KnownReplica> = known.collect();
    known.sort_by(|one, other| one.announcement.replica.name.cmp(&other.announcement.replica.name));
    known
}
