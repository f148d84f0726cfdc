//! Leader election among replicas: the holder of a Lease of the host cluster (coordination.k8s.io)
//! runs the workers.
//!
//! *Invariants:*
//! - A replica believes that it holds the lease for at most `renew_deadline` after it *sent* its
//!   last renewal. Others may take the lease `duration` after they saw that renewal, which is
//!   later.
//! - Clocks of two machines are never compared. A replica measures the age of another's renewal
//!   from the moment at which it saw the change.
//! - `leaseTransitions` increases whenever another replica takes the lease. It can therefore be the
//!   term of a shared log, if it starts above all terms that the log has seen (`take_above`).

use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease as Record, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::Api;
use kube::api::{ObjectMeta, PostParams};
use tokio::time::Instant;

use super::connect::Host;
use super::reviews;
use ballast_base::metrics;

/// The settings of a lease. kube-controller-manager uses 15, 10 and 2 seconds.
#[derive(Clone, Debug)]
pub struct LeaseTimings {
    pub namespace: String,
    pub name: String,
    /// The name of this replica.
    pub identity: String,
    /// Other replicas take over after this time without a renewal.
    pub duration: Duration,
    /// This replica gives up after this time without a renewal.
    pub renew_deadline: Duration,
    /// The pause between two attempts.
    pub retry_period: Duration,
}

/// A shared flag for whether the lease is held. Clones share it.
#[derive(Clone, Default)]
pub struct Fence {
    held_until: Arc<Mutex<Option<Instant>>>,
}

impl Fence {
    /// Returns whether this replica holds the lease now.
    pub fn is_held(&self) -> bool {
        self.held_until().is_some_and(|until| Instant::now() < until)
    }

    fn held_until(&self) -> Option<Instant> {
        *self.held_until.lock().expect("no panic while it is held")
    }

    fn set(&self, until: Option<Instant>) {
        *self.held_until.lock().expect("no panic while it is held") = until;
    }
}

/// The result of an attempt to take or renew the lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LeaseAttempt {
    Held,
    /// Another replica holds it.
    Anothers,
    /// The host cluster did not respond, or another replica wrote at the same time.
    Unknown,
}

/// A lease that this replica tries to hold.
pub struct HostLease {
    api: Api<Record>,
    terms: LeaseTimings,
    fence: Fence,
    /// The last state of the lease, and when this replica saw it change.
    seen: Option<(LeaseSpec, Instant)>,
    /// The value that `leaseTransitions` must exceed when this replica takes the lease.
    above: Option<i64>,
    /// The last value of `leaseTransitions` that this replica wrote.
    transitions: i64,
}

impl HostLease {
    /// Prepares the lease. Nothing is sent before the first attempt to take it.
    pub fn new(host: &Host, terms: LeaseTimings) -> HostLease {
        let api = Api::namespaced(host.client.clone(), &terms.namespace);
        HostLease { api, terms, fence: Fence::default(), seen: None, above: None, transitions: 0 }
    }

    /// Returns the fence, with which other tasks check whether the lease is held.
    pub fn fence(&self) -> Fence {
        self.fence.clone()
    }

    /// Returns how long others wait without a renewal before they take the lease.
    pub fn duration(&self) -> Duration {
        self.terms.duration
    }

    /// Returns the pause between two attempts.
    pub fn retry_period(&self) -> Duration {
        self.terms.retry_period
    }

    /// Returns the time until which the lease is held; `None` if it is not held.
    pub fn held_until(&self) -> Option<Instant> {
        self.fence.held_until()
    }

    /// Returns the term of this replica. It is greater than the term of every earlier holder of the
    /// lease.
    pub fn term(&self) -> i64 {
        self.transitions
    }

    /// Tries once to take the lease with a term greater than `term`, also if this replica already
    /// holds it with a smaller one. Returns whether the lease is held.
    pub async fn take_above(&mut self, term: i64) -> bool {
        self.above = Some(term);
        self.try_once().await == LeaseAttempt::Held
    }

    /// Tries once to renew the lease. Returns false if it is lost.
    pub async fn renew(&mut self) -> bool {
        self.above = None;
        match self.try_once().await {
            LeaseAttempt::Held => true,
            LeaseAttempt::Unknown => self.fence.is_held(),
            LeaseAttempt::Anothers => false,
        }
    }

    /// Stops treating the lease as held. After that, this replica can take it again.
    pub fn forget(&mut self) {
        self.fence.set(None);
    }

    /// Tries until this replica holds the lease.
    pub async fn acquire(&mut self) {
        metrics::leader(false);
        while self.try_once().await != LeaseAttempt::Held {
            tokio::time::sleep(self.terms.retry_period).await;
        }
        metrics::leader(true);
        tracing::info!(identity = self.terms.identity, lease = self.terms.name, "holding the lease: workers start");
    }

    /// Renews the lease and returns when it is lost: it was not renewed in time, or another replica
    /// holds it. Must be called after `acquire`.
    pub async fn keep(&mut self) {
        loop {
            let until = self.fence.held_until().unwrap_or_else(Instant::now);
            let lost = tokio::time::sleep_until(until);
            let renewed = async {
                loop {
                    tokio::time::sleep(self.terms.retry_period).await;
                    match self.try_once().await {
                        LeaseAttempt::Unknown => {}
                        known => return known,
                    }
                }
            };
            tokio::select! {
                biased;
                () = lost => break,
                known = renewed => if known == LeaseAttempt::Anothers { break },
            }
        }
        self.fence.set(None);
        metrics::leader(false);
        tracing::error!(identity = self.terms.identity, lease = self.terms.name, "the lease was lost");
    }

    /// Releases the lease, so that another replica need not wait for its end.
    pub async fn release(&mut self) {
        if !self.fence.is_held() {
            return;
        }
        self.fence.set(None);
        metrics::leader(false);
        let released = tokio::time::timeout(self.terms.retry_period, self.try_release()).await;
        if !matches!(released, Ok(Ok(()))) {
            tracing::info!("failed to release the lease; other replicas wait until it ends");
        }
    }

    async fn try_release(&mut self) -> Result<(), kube::Error> {
        let mut record = self.api.get(&self.terms.name).await?;
        let spec = record.spec.get_or_insert_default();
        if spec.holder_identity.as_deref() == Some(&self.terms.identity) {
            spec.holder_identity = Some(String::new());
            spec.lease_duration_seconds = Some(1);
            self.api.replace(&self.terms.name, &PostParams::default(), &record).await?;
        }
        Ok(())
    }

    /// Takes the lease if it is free, or renews it.
    async fn try_once(&mut self) -> LeaseAttempt {
        let sent = Instant::now();
        // A request that hangs must not keep this replica from noticing that its lease has ended.
        match tokio::time::timeout(self.terms.renew_deadline, self.try_to_hold()).await {
            Ok(Ok(tried)) => {
                if tried == LeaseAttempt::Held {
                    self.fence.set(Some(sent + self.terms.renew_deadline));
                }
                tried
            }
            Ok(Err(error)) => {
                tracing::warn!(error = reviews::sentence(&error), lease = self.terms.name, "failed to get the lease");
                LeaseAttempt::Unknown
            }
            Err(_) => LeaseAttempt::Unknown,
        }
    }

    async fn try_to_hold(&mut self) -> Result<LeaseAttempt, kube::Error> {
        let now = MicroTime(jiff::Timestamp::now());
        let Some(mut record) = self.api.get_opt(&self.terms.name).await? else {
            let metadata = ObjectMeta {
                name: Some(self.terms.name.clone()),
                namespace: Some(self.terms.namespace.clone()),
                ..ObjectMeta::default()
            };
            let begins = self.above.map_or(0, next);
            let spec = LeaseSpec { lease_transitions: Some(begins), ..self.renewed(LeaseSpec::default(), &now) };
            let record = Record { metadata, spec: Some(spec) };
            let tried = won(self.api.create(&PostParams::default(), &record).await)?;
            self.transitions = i64::from(begins);
            return Ok(tried);
        };
        let spec = record.spec.take().unwrap_or_default();
        if self.seen.as_ref().is_none_or(|(seen, _)| *seen != spec) {
            self.seen = Some((spec.clone(), Instant::now()));
        }
        let holder = spec.holder_identity.clone().unwrap_or_default();
        let is_ours = holder == self.terms.identity;
        let changed = self.seen.as_ref().map_or_else(Instant::now, |(_, changed)| *changed);
        let lasts = Duration::from_secs(spec.lease_duration_seconds.unwrap_or_default().max(0).unsigned_abs().into());
        // Another replica may have run workers in the meantime. The state of this replica is then
        // out of date, so its own term has ended too.
        let is_taken_from_us = self.fence.held_until().is_some();
        if !is_ours && !holder.is_empty() && (is_taken_from_us || changed.elapsed() < lasts) {
            return Ok(LeaseAttempt::Anothers);
        }
        let mut transitions = spec.lease_transitions.unwrap_or_default();
        let mut renewed = self.renewed(spec, &now);
        // A term that the log has seen is over, even if it was this replica's own.
        if !is_ours || self.above.is_some_and(|above| i64::from(transitions) <= above) {
            transitions = next(i64::from(transitions).max(self.above.unwrap_or(i64::MIN)));
            renewed.lease_transitions = Some(transitions);
            renewed.acquire_time = Some(now);
        }
        record.spec = Some(renewed);
        let tried = won(self.api.replace(&self.terms.name, &PostParams::default(), &record).await)?;
        self.transitions = i64::from(transitions);
        Ok(tried)
    }

    fn renewed(&self, spec: LeaseSpec, now: &MicroTime) -> LeaseSpec {
        LeaseSpec {
            holder_identity: Some(self.terms.identity.clone()),
            lease_duration_seconds: Some(i32::try_from(self.terms.duration.as_secs().max(1)).unwrap_or(i32::MAX)),
            acquire_time: spec.acquire_time.clone().or_else(|| Some(now.clone())),
            renew_time: Some(now.clone()),
            ..spec
        }
    }
}

/// Returns the next number. It saturates at the maximum that a Lease can hold.
fn next(transitions: i64) -> i32 {
    i32::try_from(transitions.saturating_add(1)).unwrap_or(i32::MAX)
}

/// Converts the outcome of a write. A conflict means that another replica wrote first.
fn won<T>(outcome: Result<T, kube::Error>) -> Result<LeaseAttempt, kube::Error> {
    match outcome {
        Ok(_) => Ok(LeaseAttempt::Held),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(LeaseAttempt::Unknown),
        Err(error) => Err(error),
    }
}
