//! Who shares a log: what each replica says of itself, and when it was last heard of.
//!
//! It serves people who look. Nothing decides by it: who leads is the lease's business.

use std::time::Duration;

use tokio::time::Instant;

use super::Candidate;

/// A replica that was not heard of for so long is forgotten. Until then people can see that it is
/// missing.
pub const FORGOTTEN_AFTER: Duration = Duration::from_secs(10 * 60);
/// The most replicas that are told of: those that were heard of last.
pub const REPLICAS_MAX: usize = 32;

/// What a replica says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaReport {
    /// Its name, and where the others reach it.
    pub replica: Candidate,
    /// The version of its program.
    pub version: String,
    /// The changes that its view is known to lack.
    pub missing: u64,
    /// The time since its view was last known to be the newest, in whole milliseconds.
    pub lag: Duration,
}

/// A replica as it was last heard of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownReplica {
    pub announcement: ReplicaReport,
    /// Whether it holds the lease.
    pub leads: bool,
    /// How long it has said nothing, by the clock of the log.
    pub silent: Duration,
}

/// The replicas of a log that lives within one process.
#[derive(Debug, Default)]
pub(super) struct ReplicaList(Vec<(ReplicaReport, Instant)>);

impl ReplicaList {
    /// `Store::announce`, while `leader` holds the lease.
    pub fn announce(&mut self, announcement: &ReplicaReport, leader: Option<&str>) -> Vec<KnownReplica> {
        let now = Instant::now();
        self.0.retain(|(known, heard)| {
            known.replica.name != announcement.replica.name && now.duration_since(*heard) < FORGOTTEN_AFTER
        });
        self.0.push((announcement.clone(), now));
        // They are in the order in which they were heard of.
        let newest = self.0.iter().rev().take(REPLICAS_MAX);
        ordered(newest.map(|(known, heard)| KnownReplica {
            announcement: known.clone(),
            leads: leader == Some(&*known.replica.name),
            silent: now.duration_since(*heard),
        }))
    }

    /// `Store::depart`.
    pub fn depart(&mut self, name: &str) {
        self.0.retain(|(known, _)| known.replica.name != name);
    }
}

/// By name, so that nothing jumps from one look to the next.
pub(super) fn ordered(known: impl Iterator<Item = KnownReplica>) -> Vec<KnownReplica> {
    let mut known: Vec<KnownReplica> = known.collect();
    known.sort_by(|one, other| one.announcement.replica.name.cmp(&other.announcement.replica.name));
    known
}
