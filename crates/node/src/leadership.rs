//! Decides when the workers of this process run: at once if the log is not shared, while the
//! process holds the lease of the host cluster, or while it leads the replicas of a shared log. If
//! the log is shared, the lease of the host cluster decides within the election.

use std::convert::Infallible;
use std::future::pending;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::assembly::{self, WorkerOptions};
use super::election::{Election, LeadershipEvent};
use super::strays;
use ballast_base::clock::Clock;
use ballast_base::metrics;
use ballast_host::HostLease;
use ballast_registry::Registry;
use ballast_store::Term;
use ballast_watch::Cache;
use ballast_worker::Workers;

/// The workers, ready to start.
pub struct WorkerSet {
    pub registry: Arc<Registry>,
    pub cache: Cache,
    pub clock: Arc<dyn Clock>,
    pub options: WorkerOptions,
}

impl WorkerSet {
    pub fn start(&self, workers: &mut Workers) {
        for work in assembly::workers(&self.registry, &self.clock, self.options.clone()) {
            workers.spawn(work, &self.cache, &self.clock);
        }
        // Reading all bindings must not delay the workers.
        let view = self.cache.view();
        let _told = tokio::task::spawn_blocking(move || strays::tell(&view));
    }
}

/// The leadership of this process.
pub enum Leadership {
    /// There is no lease and no other replica.
    Alone,
    /// The lease of the host cluster, and whether this process holds it.
    Leased(Box<HostLease>, bool),
    Elected(Elected),
    /// The lead has been handed over. The election continues, to follow the leader.
    Left(JoinHandle<Infallible>),
}

/// A running election.
pub struct Elected {
    events: mpsc::Receiver<LeadershipEvent>,
    stop: CancellationToken,
    left: CancellationToken,
    task: JoinHandle<Infallible>,
}

impl Elected {
    pub fn begin(election: Election) -> Elected {
        let (tells, events) = mpsc::channel(1);
        let (stop, left) = (CancellationToken::new(), election.left());
        Elected { events, stop: stop.clone(), left, task: tokio::spawn(election.run(tells, stop)) }
    }
}

impl Leadership {
    /// Waits for the next change. Cancel-safe.
    pub async fn next(&mut self) -> LeadershipEvent {
        match self {
            Leadership::Alone | Leadership::Left(_) => pending().await,
            Leadership::Leased(lease, is_held @ false) => {
                lease.acquire().await;
                *is_held = true;
                // A log that is not shared has no terms.
                LeadershipEvent::Leads(Term::default())
            }
            Leadership::Leased(lease, true) => {
                lease.keep().await;
                LeadershipEvent::Ended(anyhow::anyhow!("the lease was lost; another replica may be working"))
            }
            Leadership::Elected(elected) => match elected.events.recv().await {
                Some(event) => event,
                None => LeadershipEvent::Ended(anyhow::anyhow!("the election ended by itself")),
            },
        }
    }

    /// Returns whether another replica may be able to lead.
    pub fn can_hand_over(&self) -> bool {
        matches!(self, Leadership::Elected(_))
    }

    /// Lets another replica lead at once. Waiting writes are rejected.
    pub async fn hand_over(&mut self) {
        let elected = match std::mem::replace(self, Leadership::Alone) {
            Leadership::Elected(elected) => elected,
            other => {
                *self = other;
                return;
            }
        };
        let Elected { mut events, stop, left, mut task } = elected;
        stop.cancel();
        // An event that is not received must not delay the election.
        events.close();
        tokio::select! {
            () = left.cancelled() => *self = Leadership::Left(task),
            // The task has panicked.
            _ = &mut task => {}
        }
        metrics::leader(false);
    }

    /// Releases the lease. Must be called after the workers have ended.
    pub async fn end(mut self) {
        self.hand_over().await;
        match self {
            Leadership::Leased(mut lease, true) => lease.release().await,
            Leadership::Left(learning) => learning.abort(),
            Leadership::Leased(_, false) | Leadership::Alone | Leadership::Elected(_) => {}
        }
    }
}
