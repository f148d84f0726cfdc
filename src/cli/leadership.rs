//! Decides when the workers of this process start: at once, or when it holds the lease of the host
//! cluster.

use std::future::pending;
use std::sync::Arc;

use super::assembly::{self, WorkerOptions};
use crate::clock::Clock;
use crate::host::Lease;
use crate::metrics;
use crate::registry::Registry;
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
    pub fn start(self, workers: &mut Workers) {
        let Crew { registry, cache, clock, options } = self;
        for work in assembly::workers(&registry, &clock, options) {
            workers.spawn(work, &cache, &clock);
        }
    }
}

/// Whether this process leads.
pub enum Leadership {
    /// There is no lease, and no other replica.
    Alone,
    StandsBy(Box<Lease>, Box<Crew>),
    Leads(Box<Lease>),
}

/// A change of the leadership.
pub enum Turn {
    Leads(Box<Crew>),
    Lost,
}

impl Leadership {
    /// Starts the workers now if there is no lease to wait for.
    pub fn begin(lease: Option<Lease>, crew: Crew, workers: &mut Workers) -> Leadership {
        match lease {
            Some(lease) => Leadership::StandsBy(Box::new(lease), Box::new(crew)),
            None => {
                crew.start(workers);
                metrics::leader(true);
                Leadership::Alone
            }
        }
    }

    /// Waits for the next change. This future may be dropped while it waits.
    pub async fn next(&mut self) -> Turn {
        match self {
            Leadership::Alone => pending().await,
            Leadership::Leads(lease) => {
                lease.keep().await;
                Turn::Lost
            }
            Leadership::StandsBy(lease, _) => {
                lease.acquire().await;
                match std::mem::replace(self, Leadership::Alone) {
                    Leadership::StandsBy(lease, crew) => {
                        *self = Leadership::Leads(lease);
                        Turn::Leads(crew)
                    }
                    _ => unreachable!("matched above"),
                }
            }
        }
    }

    /// Releases the lease. Call it when the workers have ended.
    pub async fn end(self) {
        if let Leadership::Leads(lease) = self {
            lease.release().await;
        }
    }
}
