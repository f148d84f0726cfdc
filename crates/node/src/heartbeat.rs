//! Announces this replica to the others through the database, and exports their announcements in
//! `/metrics`.
//!
//! Announcements are for observation, and for one decision: after the database may have lost
//! changes, a new leader waits until it knows the revisions that the other replicas have seen, and
//! raises the log's revision above them.

use std::sync::Arc;
use std::time::Duration;

use ballast_base::metrics;
use ballast_base::telemetry;
use ballast_store::{Candidate, KnownReplica, ReplicaReport, Store};
use ballast_watch::{Cache, Lag};

/// Interval between announcements.
const EVERY: Duration = Duration::from_secs(2);
/// Pause after a failed announcement.
const RETRY_EVERY: Duration = Duration::from_millis(250);
/// Timeout of an announcement. A late announcement is repeated.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// Timeout for recording that this replica ends. After it, the others drop the replica when its
/// announcements stop.
const LEAVE_MAX: Duration = Duration::from_millis(500);

/// The announcements of this process among the replicas of a shared log.
#[derive(Clone)]
pub struct Heartbeat {
    pub store: Arc<dyn Store>,
    pub cache: Cache,
    pub replica: Candidate,
}

impl Heartbeat {
    /// Announces this replica every two seconds, until it is dropped.
    pub async fn run(self) {
        loop {
            let pause = match tokio::time::timeout(ANSWER_MAX, self.store.announce(&self.announcement())).await {
                Ok(Ok(known)) => {
                    let shown = known.into_iter().map(|it| shown(it, &self.replica));
                    metrics::replicas(shown.collect());
                    EVERY
                }
                // Readiness and the election also log that the database is unreachable.
                Ok(Err(error)) => {
                    tracing::debug!(error = telemetry::with_causes(&error), "failed to tell the other replicas");
                    RETRY_EVERY
                }
                Err(_) => {
                    tracing::debug!("the database was too slow to tell the other replicas");
                    RETRY_EVERY
                }
            };
            // A new leader may wait for this replica.
            let _either = tokio::time::timeout(pause, self.cache.report_due()).await;
        }
    }

    /// Records that this replica ends, so that the others do not report it as silent.
    pub async fn leave(self) {
        let left = tokio::time::timeout(LEAVE_MAX, self.store.depart(&self.replica.name)).await;
        if !matches!(left, Ok(Ok(()))) {
            tracing::debug!("the other replicas were not told that this one ends");
        }
    }

    fn announcement(&self) -> ReplicaReport {
        let Lag { revisions, time } = self.cache.lag();
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let seen = self.cache.view().revision;
        ReplicaReport { replica: self.replica.clone(), version, seen, missing: revisions, lag: time }
    }
}

fn shown(sighting: KnownReplica, here: &Candidate) -> metrics::Replica {
    let KnownReplica { announcement, leads, silent } = sighting;
    let ReplicaReport { replica: Candidate { name, address }, version, missing, lag, .. } = announcement;
    let is_here = name == here.name;
    metrics::Replica { name, address, version, is_here, leads, missing, lag, silent }
}
