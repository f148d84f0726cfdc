//! When the workers of this process start: at once, or when it holds the lease of the host cluster.

use std::future::pending;
use std::sync::Arc;

use crate::clock::Clock;
use crate::controllers::{self, FailoverOptions};
use crate::engine::karmada::Profile;
use crate::events::{Events, Kept, Recorder, Sink};
use crate::host::Lease;
use crate::k8s::User;
use crate::metrics;
use crate::registry::Registry;
use crate::scheduler::{FleetScheduler, Scheduler};
use crate::watch::Cache;
use crate::worker::Workers;

/// What the workers need to start.
pub struct Crew {
    pub registry: Arc<Registry>,
    pub cache: Cache,
    pub clock: Arc<dyn Clock>,
    pub recorder: Recorder,
    pub host_events: Option<Arc<dyn Sink>>,
    pub profile: Profile,
    pub failover: FailoverOptions,
}

impl Crew {
    pub fn start(self, workers: &mut Workers) {
        let Crew { registry, cache, clock, recorder, host_events, profile, failover } = self;
        let client = |name: &str| registry.client(User::component(name));
        let events = client("events");
        let mut sinks: Vec<Arc<dyn Sink>> = vec![Arc::new(Kept::new(events.clone()))];
        sinks.extend(host_events);
        workers.spawn(Box::new(Events::new(recorder.clone(), sinks, events, Arc::clone(&clock))), &cache, &clock);
        let karmada = controllers::karmada(&registry, &clock, &recorder, &profile.scheduler_name, failover);
        let scheduler = Scheduler::new(client("scheduler"), Arc::clone(&clock), profile, &recorder);
        workers.spawn(Box::new(scheduler), &cache, &clock);
        let scheduler = FleetScheduler::new(client("fleet-scheduler"), Arc::clone(&clock));
        workers.spawn(Box::new(scheduler), &cache, &clock);
        for controller in karmada.into_iter().chain(controllers::fleet(&registry, &clock)) {
            workers.spawn(controller, &cache, &clock);
        }
    }
}

/// Whether this process leads.
pub enum Leadership {
    /// There is nobody else.
    Alone,
    StandsBy(Box<Lease>, Box<Crew>),
    Leads(Box<Lease>),
}

/// What changed.
pub enum Turn {
    Leads(Box<Crew>),
    Lost,
}

impl Leadership {
    /// Starts the workers now where there is no lease to wait for.
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

    /// Waits for the next change. May be dropped while it waits.
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

    /// Gives up the lead, once the workers have ended.
    pub async fn end(self) {
        if let Leadership::Leads(lease) = self {
            lease.release().await;
        }
    }
}
