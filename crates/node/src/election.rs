//! Elects the leader among the replicas that share a database. The database holds the lease, and
//! its clock decides when the lease ends.
//!
//! With `--leader-elect` a Lease of the host cluster decides instead, and its number of transitions
//! is the term. The database then records the leader and does not elect one itself
//! (`Store::lead_in`). All replicas must have the flag: a replica without it would take the lead
//! that appears to be free. Even then two leaders never both commit, because commits check the
//! term.
//!
//! *Invariants:*
//! - This process believes that it leads for at most the remaining time of the lease at the moment
//!   when it *sent* its last renewal. The database counts from a later moment.
//! - This belief only decides when workers stop and where requests are forwarded. A process that
//!   was paused is prevented from writing by the term, which the store checks in each commit.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use ballast_base::metrics;
use ballast_base::telemetry;
use ballast_host as host;
use ballast_server::KnownLeader;
use ballast_store::{self as store, Candidate, Store, Term};
use ballast_watch::RoleHandle;

/// Number of renewals within the duration of the lease.
const RENEWALS: u32 = 4;
/// Longest pause between two attempts to take the lease. It bounds how long a released lease stays
/// free.
const TRY_EVERY: Duration = Duration::from_millis(250);
/// Pause after a failed attempt.
const RETRY_PAUSE: Duration = Duration::from_millis(200);
/// Timeout for the commit in progress when this process stops leading.
const LEAVE_MAX: Duration = Duration::from_millis(500);
/// Timeout for releasing the lease. After it, other replicas wait until the lease expires.
const RESIGN_MAX: Duration = Duration::from_millis(500);

/// A change of the leadership.
#[derive(Debug)]
pub enum LeadershipEvent {
    /// This process leads and its view has caught up, so its workers can start.
    Leads(Term),
    /// This process has stopped leading: its workers must stop.
    Lost,
    /// The election failed, and the process must end.
    Ended(anyhow::Error),
}

/// The election as seen by this process: it leads, or follows a known leader.
pub struct Election {
    store: Arc<dyn Store>,
    candidate: Candidate,
    lease: Duration,
    role: RoleHandle,
    lead: watch::Sender<KnownLeader>,
    /// The term of the last leader that was logged.
    known: Option<Term>,
    /// The Lease of the host cluster, if it decides the election.
    decides: Option<Box<host::HostLease>>,
    left: CancellationToken,
}

/// The kind of a request for the lead.
#[derive(Clone, Copy)]
enum Bid {
    /// Takes the lease if it is free.
    Free,
    /// Takes the lease in a term that the host cluster assigned.
    Given(Term),
    /// Only reads the state.
    Nothing,
}

/// The lease while this process holds it.
struct HeldLease {
    term: Term,
    until: Instant,
}

impl Election {
    pub fn new(store: Arc<dyn Store>, candidate: Candidate, lease: Duration, role: RoleHandle) -> Election {
        metrics::leader(false);
        let lead = watch::Sender::new(KnownLeader::Unknown);
        let left = CancellationToken::new();
        Election { store, candidate, lease, role, lead, known: None, decides: None, left }
    }

    /// Makes a Lease of the host cluster decide. Its durations replace those of the database's
    /// lease.
    pub fn decided_by(self, lease: host::HostLease) -> Election {
        Election { lease: lease.duration(), decides: Some(Box::new(lease)), ..self }
    }

    pub fn lead(&self) -> watch::Receiver<KnownLeader> {
        self.lead.subscribe()
    }

    /// Returns a token that is cancelled once this process has released the lease and will not
    /// stand again.
    pub fn left(&self) -> CancellationToken {
        self.left.clone()
    }

    /// Takes part in the election until `stop`, then releases the lease. Afterwards it only follows
    /// the leader, for the requests that are still forwarded, until it is aborted.
    pub async fn run(mut self, events: mpsc::Sender<LeadershipEvent>, stop: CancellationToken) -> Infallible {
        self.take_part(events, stop).await;
        self.left.cancel();
        loop {
            if let Ok(leader) = self.ask(Bid::Nothing).await
                && !leader.is_held_by(&self.candidate)
            {
                self.learn_of(&leader);
            }
            tokio::time::sleep(TRY_EVERY).await;
        }
    }

    async fn take_part(&mut self, events: mpsc::Sender<LeadershipEvent>, stop: CancellationToken) {
        let mut decides = self.decides.take();
        loop {
            let standing = async {
                match &mut decides {
                    None => self.stand().await,
                    Some(lease) => self.stand_for(lease).await,
                }
            };
            let held = tokio::select! {
                held = standing => held,
                () = stop.cancelled() => {
                    // The Lease may have been acquired at this moment.
                    give_back(&mut decides).await;
                    return;
                }
            };
            let term = held.term;
            let fault = self.serve(held, &mut decides, &events, &stop).await;
            self.lead.send_replace(KnownLeader::Unknown);
            metrics::leader(false);
            // A commit that hangs is not awaited: the store rejects it once the term is over.
            let left = tokio::time::timeout(LEAVE_MAX, self.role.follow()).await.unwrap_or(Ok(()));
            // Resign also from a term that seems lost: in a new term, late commits of the old one
            // are rejected.
            self.resign(term).await;
            give_back(&mut decides).await;
            if stop.is_cancelled() {
                return;
            }
            let event = match (fault, left) {
                (Some(fault), _) => LeadershipEvent::Ended(fault),
                (None, Err(closed)) => LeadershipEvent::Ended(closed.into()),
                (None, Ok(())) => LeadershipEvent::Lost,
            };
            tracing::warn!(%term, "this replica does not lead any more");
            let is_over = matches!(event, LeadershipEvent::Ended(_));
            if events.send(event).await.is_err() || is_over {
                return;
            }
        }
    }

    /// Waits until this process holds the lease.
    async fn stand(&mut self) -> HeldLease {
        loop {
            let sent = Instant::now();
            let pause = match self.ask(Bid::Free).await {
                Ok(leader) if leader.is_held_by(&self.candidate) => {
                    self.learn(leader.term, None);
                    return HeldLease { term: leader.term, until: sent + leader.remaining };
                }
                Ok(leader) => {
                    self.learn_of(&leader);
                    leader.remaining.min(TRY_EVERY)
                }
                Err(error) => {
                    tracing::debug!(error = telemetry::with_causes(&error), "failed to ask who leads");
                    RETRY_PAUSE
                }
            };
            tokio::time::sleep(pause.max(Duration::from_millis(1))).await;
        }
    }

    /// Waits until this process holds the Lease of the host cluster and leads in its term.
    async fn stand_for(&mut self, lease: &mut host::HostLease) -> HeldLease {
        loop {
            match self.take_for(lease).await {
                Ok(Some(held)) => return held,
                Ok(None) => {}
                Err(error) => tracing::debug!(error = telemetry::with_causes(&error), "failed to ask who leads"),
            }
            // The known leader is updated often; the Lease is requested at its own retry period.
            let next = Instant::now() + lease.retry_period();
            while Instant::now() < next {
                tokio::time::sleep(TRY_EVERY.min(lease.retry_period())).await;
                if let Ok(leader) = self.ask(Bid::Nothing).await {
                    self.learn_of(&leader);
                }
            }
        }
    }

    /// Tries to take the Lease once. A process that cannot reach the database does not take it.
    async fn take_for(&mut self, lease: &mut host::HostLease) -> Result<Option<HeldLease>, store::Error> {
        let leader = self.ask(Bid::Nothing).await?;
        self.learn_of(&leader);
        if !lease.take_above(leader.term.0).await {
            return Ok(None);
        }
        let term = Term(lease.term());
        let leader = self.ask(Bid::Given(term)).await?;
        match lease.held_until() {
            Some(until) if leader.is_held_by(&self.candidate) && leader.term == term => {
                self.learn(term, None);
                Ok(Some(HeldLease { term, until }))
            }
            // There is a later term by now. The next attempt starts above it.
            _ => Ok(None),
        }
    }

    /// Leads until the lease is lost, the store rejects a commit, or `stop`. An error ends the
    /// process.
    async fn serve(
        &mut self,
        held: HeldLease,
        decides: &mut Option<Box<host::HostLease>>,
        events: &mpsc::Sender<LeadershipEvent>,
        stop: &CancellationToken,
    ) -> Option<anyhow::Error> {
        let term = held.term;
        let (store, candidate, lease) = (Arc::clone(&self.store), self.candidate.clone(), self.lease);
        let (lead, until) = (self.lead.clone(), Mutex::new(held.until));
        let renewed = |renewed| {
            *until.lock().expect("no panic while it is held") = renewed;
            // Only once `RoleHandle::lead` has returned: `Local` means that writes are accepted.
            lead.send_if_modified(|lead| match lead {
                KnownLeader::Local { until } => std::mem::replace(until, renewed) != renewed,
                KnownLeader::Remote { .. } | KnownLeader::Unknown => false,
            });
        };
        let renewing = async {
            match decides {
                None => keep(&*store, &candidate, lease, held, renewed).await,
                Some(decides) => keep_for(decides, &*store, &candidate, held, renewed).await,
            }
        };
        let mut renewing = std::pin::pin!(renewing);
        tokio::select! {
            biased;
            () = stop.cancelled() => return None,
            _ = &mut renewing => return None,
            taken = self.role.lead(term) => if let Err(closed) = taken { return Some(closed.into()) },
        }
        let until = *until.lock().expect("no panic while it is held");
        self.lead.send_replace(KnownLeader::Local { until });
        metrics::leader(true);
        tracing::info!(%term, name = candidate.name, "this replica leads: its workers start");
        let told = tokio::select! {
            biased;
            () = stop.cancelled() => return None,
            // The receiver may be busy.
            () = &mut renewing => return None,
            told = events.send(LeadershipEvent::Leads(term)) => told,
        };
        if told.is_err() {
            return None;
        }
        tokio::select! {
            biased;
            () = stop.cancelled() => None,
            () = &mut renewing => None,
            // Another replica leads, or the database has lost changes. The log reports which.
            lost = self.role.lost() => lost.err().map(anyhow::Error::from),
        }
    }

    async fn ask(&self, bid: Bid) -> Result<store::ElectionState, store::Error> {
        ask(&*self.store, &self.candidate, self.lease, bid).await
    }

    /// Records the leader in this state of the database, if it is another replica.
    fn learn_of(&mut self, leader: &store::ElectionState) {
        let is_there = !leader.holder.is_empty() && !leader.remaining.is_zero();
        self.learn(leader.term, Some(&*leader.address).filter(|_| is_there));
    }

    /// Records the address of another replica that leads, if there is one. A new leader is logged.
    fn learn(&mut self, term: Term, address: Option<&str>) {
        metrics::leader_term(term.0);
        let lead = match address {
            None => KnownLeader::Unknown,
            Some(address) => KnownLeader::Remote { address: address.to_owned() },
        };
        if self.known.replace(term) != Some(term)
            && let Some(address) = address
        {
            tracing::info!(%term, address, "another replica leads");
        }
        self.lead.send_if_modified(|known| std::mem::replace(known, lead.clone()) != lead);
    }

    async fn resign(&self, term: Term) {
        match tokio::time::timeout(RESIGN_MAX, self.store.resign(term)).await {
            Ok(Ok(())) => tracing::info!(%term, "this term is over"),
            Ok(Err(_)) | Err(_) => tracing::warn!(%term, "the lease could not be given back; others wait for its end"),
        }
    }
}

/// Renews the lease until it is lost.
async fn keep(store: &dyn Store, candidate: &Candidate, lease: Duration, held: HeldLease, renewed: impl Fn(Instant)) {
    let HeldLease { term, mut until } = held;
    loop {
        let renew = async {
            tokio::time::sleep(lease / RENEWALS).await;
            let mut is_logged = false;
            loop {
                let sent = Instant::now();
                match ask(store, candidate, lease, Bid::Free).await {
                    Ok(leader) => return (sent, leader),
                    Err(error) => {
                        if !std::mem::replace(&mut is_logged, true) {
                            let error = telemetry::with_causes(&error);
                            tracing::warn!(error, "failed to renew the lease; trying until it ends");
                        }
                        tokio::time::sleep(RETRY_PAUSE).await;
                    }
                }
            }
        };
        tokio::select! {
            biased;
            // Checked first: after a pause of the process the lease is over, regardless of any
            // response.
            () = tokio::time::sleep_until(until) => return,
            (sent, leader) = renew => {
                if !leader.is_held_by(candidate) || leader.term != term {
                    return;
                }
                until = sent + leader.remaining;
                renewed(until);
            }
        }
    }
}

/// Renews the Lease of the host cluster until it is lost. The lead is also renewed in the database,
/// so that followers know the leader; if that fails, commits report it.
async fn keep_for(
    lease: &mut host::HostLease,
    store: &dyn Store,
    candidate: &Candidate,
    held: HeldLease,
    renewed: impl Fn(Instant),
) {
    let HeldLease { term, mut until } = held;
    loop {
        let pause = lease.retry_period();
        let renew = async {
            tokio::time::sleep(pause).await;
            let told = ask(store, candidate, lease.duration(), Bid::Given(term));
            // The Lease does not wait for the database.
            let told = tokio::time::timeout(pause, told).await;
            let is_deposed = matches!(&told, Ok(Ok(leader)) if leader.term != term);
            if is_deposed || !lease.renew().await || lease.term() != term.0 {
                return None;
            }
            lease.held_until()
        };
        tokio::select! {
            biased;
            () = tokio::time::sleep_until(until) => return,
            still = renew => match still {
                Some(still) => {
                    until = still;
                    renewed(until);
                }
                None => return,
            },
        }
    }
}

/// Releases the Lease, so that another replica can take it at once. Does nothing if none is held.
async fn give_back(decides: &mut Option<Box<host::HostLease>>) {
    if let Some(lease) = decides {
        lease.release().await;
        lease.forget();
    }
}

/// Takes or renews the lease, or reads which process holds it. A response after the deadline counts
/// as an error.
async fn ask(
    store: &dyn Store,
    candidate: &Candidate,
    lease: Duration,
    bid: Bid,
) -> Result<store::ElectionState, store::Error> {
    let asked = async {
        match bid {
            Bid::Free => store.lead(candidate, lease).await,
            Bid::Given(term) => store.lead_in(candidate, term, lease).await,
            Bid::Nothing => store.lead_in(candidate, Term::default(), lease).await,
        }
    };
    tokio::time::timeout(lease, asked).await.unwrap_or_else(|late| {
        Err(store::Error::Unavailable { action: "failed to ask who leads", source: Arc::new(late) })
    })
}
