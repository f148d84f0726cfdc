//! Decides when the workers of this process run: at once where nobody else has the log, while it
//! holds the lease of the host cluster, or while it leads the replicas of a shared log. Where the
//! log is shared, the lease of the host cluster decides within the election.

use std::future::pending;
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::assembly::{self, WorkerOptions};
use super::election::{Election, Turn};
use crate::clock::Clock;
use crate::host::Lease;
use crate::metrics;
use crate::registry::Registry;
use crate::store::Term;
use crate::watch::Cache;
use crate::worker::Workers;

/// The workers, ready to start.
pub struct Crew {
    pub registry: Arc<Registry>,
    pub cache: Cache,
    pub clock: Arc<dyn Clock>,
    pub options: WorkerOptions,
}

impl Crew {
    pub fn start(&self, workers: &mut Workers) {
        for work in assembly::workers(&self.registry, &self.clock, self.options.clone()) {
            workers.spawn(work, &self.cache, &self.clock);
        }
    }
}

/// Whether this process leads.
pub enum Leadership {
    /// There is no lease, and no other replica.
    Alone,
    /// The lease of the host cluster, and whether it is held.
    Leased(Box<Lease>, bool),
    Elected(Elected),
}

/// A running election.
pub struct Elected {
    turns: mpsc::Receiver<Turn>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Elected {
    pub fn begin(election: Election) -> Elected {
        let (tells, turns) = mpsc::channel(1);
        let stop = CancellationToken::new();
        Elected { turns, stop: stop.clone(), task: tokio::spawn(election.run(tells, stop)) }
    }
}

impl Leadership {
    /// Waits for the next change. This future may be dropped while it waits.
    pub async fn next(&mut self) -> Turn {
        match self {
            Leadership::Alone => pending().await,
            Leadership::Leased(lease, is_held @ false) => {
                lease.acquire().await;
                *is_held = true;
                // The log has no terms where this process has it to itself.
                Turn::Leads(Term::default())
            }
            Leadership::Leased(lease, true) => {
                lease.keep().await;
                Turn::Ended(anyhow::anyhow!("the lease was lost; another replica may be working"))
            }
            Leadership::Elected(elected) => match elected.turns.recv().await {
                Some(turn) => turn,
                None => Turn::Ended(anyhow::anyhow!("the election ended by itself")),
            },
        }
    }

    /// Whether there may be another replica that can lead.
    pub fn can_hand_over(&self) -> bool {
        matches!(self, Leadership::Elected(_))
    }

    /// Lets another replica lead at once. What waits to be written is refused.
    pub async fn hand_over(&mut self) {
        if let Leadership::Elected(elected) = self {
            elected.stop.cancel();
            // A turn that nobody takes any more must not hold the election up.
            elected.turns.close();
            let _ended = (&mut elected.task).await;
            *self = Leadership::Alone;
            metrics::leader(false);
        }
    }

    /// Gives back what is held. Call it when the workers have ended.
    pub async fn end(mut self) {
        self.hand_over().await;
        if let Leadership::Leased(mut lease, true) = self {
            lease.release().await;
        }
    }
}
