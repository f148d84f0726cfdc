//! The replicas that share a log: what each reports of itself, and when it last did.
//!
//! People read it. The lease alone elects the leader. After the database has lost commits, the
//! next leader lifts the log beyond everything that a replica reports to have seen.

use std::time::Duration;

use tokio::time::Instant;

use super::Candidate;
use ballast_k8s::Revision;

/// A replica without a report for this long is forgotten. Until then people can see that it is
/// missing.
pub const FORGOTTEN_AFTER: Duration = Duration::from_secs(10 * 60);
/// A replica whose last report is this much older than a loss was not there any more. It is some
/// reports long.
pub const THERE_WITHIN: Duration = Duration::from_secs(10);
/// The most replicas that are returned: those with the latest reports.
pub const REPLICAS_MAX: usize = 32;

/// What a replica reports of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaReport {
    /// Its name, and where other replicas reach it.
    pub replica: Candidate,
    /// The version of its program.
    pub version: String,
    /// The highest revision that it has seen.
    pub seen: Revision,
    /// The number of changes that its view is known to lack.
    pub missing: u64,
    /// The time since its view was last known to be the newest, in whole milliseconds.
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

/// The replicas of a log that lives within one process.
#[derive(Clone, Debug, Default)]
pub(super) struct ReplicaList(Vec<(ReplicaReport, Instant)>);

impl ReplicaList {
    /// `Store::announce`, while `leader` holds the lease.
    pub fn announce(&mut self, announcement: &ReplicaReport, leader: Option<&str>) -> Vec<KnownReplica> {
        let now = Instant::now();
        self.0.retain(|(known, heard)| {
            known.replica.name != announcement.replica.name && now.duration_since(*heard) < FORGOTTEN_AFTER
        });
        self.0.push((announcement.clone(), now));
        // They are in the order of their reports.
        let newest = self.0.iter().rev().take(REPLICAS_MAX);
        ordered(newest.map(|(known, heard)| KnownReplica {
            announcement: known.clone(),
            leads: leader == Some(&*known.replica.name),
            silent: now.duration_since(*heard),
        }))
    }

    /// The highest revision that one of them has seen.
    pub fn seen(&self) -> Revision {
        self.0.iter().map(|(known, _)| known.seen).max().unwrap_or_default()
    }

    /// The replicas without a report since `asked` that were there shortly before.
    pub fn awaited(&self, asked: Instant) -> usize {
        let was_there = |heard: Instant| heard < asked && asked.duration_since(heard) < THERE_WITHIN;
        self.0.iter().filter(|(_, heard)| was_there(*heard)).count()
    }

    /// `Store::depart`.
    pub fn depart(&mut self, name: &str) {
        self.0.retain(|(known, _)| known.replica.name != name);
    }
}

/// By name, so that the order is stable.
pub(super) fn ordered(known: impl Iterator<Item = KnownReplica>) -> Vec<KnownReplica> {
    let mut known: Vec<KnownReplica> = known.collect();
    known.sort_by(|one, other| one.announcement.replica.name.cmp(&other.announcement.replica.name));
    known
}
