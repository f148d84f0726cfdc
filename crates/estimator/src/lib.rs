//! A client of Karmada's scheduler-estimators. They run per member cluster and know its nodes: they
//! return how many replicas of a workload fit, and how many cannot be scheduled.
//!
//! Bindings with equal requirements share one query ([`questions`]). An estimate is used for
//! `ANSWER_AGE_MAX`, and comes with the capacity that was reserved since the query, so that the
//! engine can deduct it.
//!
//! *Invariants:*
//! - Every wait has a bound, and an unresponsive estimator delays one batch, once.
//! - An estimate can only lower the number of replicas that a cluster gets.
//! - The numbers of concurrent queries, of cached estimates and of tasks are bounded.
//!
//! # Modules
//!
//! Each module uses only modules above it in this list.
//!
//! - `wire`: the messages
//! - `addresses`: the addresses of estimators
//! - `connector`: connections to estimators
//! - `member`: one estimator
//! - `known_answers`: the cache of estimates

mod addresses;
mod connector;
mod known_answers;
mod member;
pub mod wire;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use prost::Message;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout_at};

use self::known_answers::{KnownAnswer, KnownAnswers};
use self::member::{Asked, Member, Outcome};
use ballast_api::karmada::work::v1alpha2::ResourceBindingSpec;
use ballast_base::clock::Clock;
use ballast_engine::karmada::{Amounts, Answers, Question, Questions, Shared};

pub use self::addresses::{AddressFile, Addresses, AddressesFault, ServiceNames, Services};
pub use self::connector::TlsFiles;
pub use self::member::EstimatorAccess;
pub use self::wire::{AssumedWorkload, assumed_workload};

/// The maximum age of an estimate in use.
const ANSWER_AGE_MAX: Duration = Duration::from_secs(10);
/// The limit of concurrent queries to all estimators.
const AT_ONCE_MAX: usize = 256;
/// The time limit of a batch of queries, as a multiple of the time-out of one query: one for the
/// first and one for the last query of a batch that has to queue. Later responses are ignored.
const BATCH_TIMEOUTS_MAX: u32 = 2;
/// The initial pause before an unresponsive estimator is retried. It doubles up to `PAUSE_MAX`.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// The most clusters with their own metrics, as for `ballast_cluster_replicas`.
const SERIES_MAX: usize = 1_000;

/// The clusters to query, by query.
pub type ToAsk = Vec<(Shared<Question>, Vec<Arc<str>>)>;
/// Capacity by cluster.
pub type RoomByCluster = HashMap<Arc<str>, Arc<Amounts>>;

/// The resources that bindings hold on each cluster, at one moment.
#[derive(Clone, Debug, Default)]
pub struct Held {
    /// Assigned resources, including arriving and leaving replicas.
    pub all: RoomByCluster,
    /// The existing part, according to reports. An estimator accounts for it by itself.
    pub reported: RoomByCluster,
    /// The part that has not arrived, for estimators that accept `workloads` (`tells_assumed`).
    pub assumed: HashMap<Arc<str>, Assumed>,
}

/// Pods that are assigned to a cluster but do not exist there yet.
#[derive(Clone, Debug, Default)]
pub struct Assumed {
    pub workloads: Arc<Vec<AssumedWorkload>>,
    /// Resources that the estimator accounts for when `workloads` is sent: reported plus assumed.
    pub seen: Arc<Amounts>,
}

/// The estimators of a fleet. Cheap to clone.
#[derive(Clone)]
pub struct Estimators {
    shared: Arc<Everything>,
}

struct Everything {
    reach: EstimatorAccess,
    clock: Arc<dyn Clock>,
    places: Semaphore,
    members: Mutex<HashMap<Arc<str>, Arc<Member>>>,
    known: Mutex<KnownAnswers>,
    asks_pull_mode: bool,
    runtime: Handle,
    /// Serializes batches of queries, so that no query is sent twice.
    turn: tokio::sync::Mutex<()>,
}

/// Returns the queries for a binding. `namespace` is the namespace of its workload.
pub fn questions(spec: &ResourceBindingSpec, namespace: &str) -> Questions {
    let question = |is_of_sets: bool, body: Vec<u8>| Shared::new(Question { is_of_sets, body: body.into() });
    let replicas = wire::replicas_request(spec.replica_requirements.as_deref()).encode_to_vec();
    let sets = (!spec.components.is_empty()).then(|| wire::sets_request(&spec.components, namespace).encode_to_vec());
    Questions { replicas: question(false, replicas), sets: sets.map(|sets| question(true, sets)) }
}

/// A workload in a member cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    pub api_version: String,
    pub kind: String,
    pub namespace: String,
    pub name: String,
}

impl Estimators {
    /// Creates the client. Must be called in the runtime that sends the queries.
    pub fn new(reach: EstimatorAccess, asks_pull_mode: bool, clock: Arc<dyn Clock>) -> Estimators {
        let shared = Everything {
            reach,
            clock,
            places: Semaphore::new(AT_ONCE_MAX),
            members: Mutex::default(),
            known: Mutex::default(),
            asks_pull_mode,
            runtime: Handle::current(),
            turn: tokio::sync::Mutex::default(),
        };
        Estimators { shared: Arc::new(shared) }
    }

    /// Returns whether clusters in Pull mode are queried, too.
    pub fn asks_pull_mode(&self) -> bool {
        self.shared.asks_pull_mode
    }

    /// Returns whether queries contain the pods that are assumed in their cluster.
    pub fn tells_assumed(&self) -> bool {
        self.shared.reach.tells_assumed
    }

    /// Returns the maximum duration of one batch of queries.
    pub fn patience(&self) -> Duration {
        self.shared.reach.timeout * BATCH_TIMEOUTS_MAX
    }

    /// Sends these queries, except to clusters with a recent estimate. `held` contains the
    /// resources held before the queries were built.
    pub async fn ask(&self, to_ask: &ToAsk, held: &Held) {
        // Later callers find the results of this batch, and query only the rest.
        let _turn = self.shared.turn.lock().await;
        let asked_at = Instant::now();
        let missing = self.known().missing(to_ask, asked_at, ANSWER_AGE_MAX);
        let missing = missing.into_iter().filter_map(|(question, cluster)| Some((question, self.member(&cluster)?)));
        let missing: Vec<(Shared<Question>, Arc<Member>)> = missing.collect();
        if !missing.is_empty() {
            let answered = self.ask_all(missing, held, asked_at + self.patience()).await;
            let mut known = self.known();
            known.forget_older(asked_at, ANSWER_AGE_MAX);
            for (question, cluster, said) in answered {
                let told = held.assumed.get(&cluster).map(|assumed| &assumed.seen);
                let seen = told.or_else(|| held.reported.get(&cluster)).cloned().unwrap_or_default();
                known.note(&question, cluster, KnownAnswer { said, asked_at, seen });
            }
        }
    }

    /// Sends the queries like `ask`, for a thread that may block.
    pub fn ask_and_wait(&self, to_ask: &Arc<ToAsk>, held: &Arc<Held>) {
        let (estimators, to_ask, held) = (self.clone(), Arc::clone(to_ask), Arc::clone(held));
        let (sender, done) = std::sync::mpsc::sync_channel(1);
        self.shared.runtime.spawn(async move {
            estimators.ask(&to_ask, &held).await;
            // If the runtime ends, the thread waits no longer than `ask` takes.
            let _gone = sender.send(());
        });
        let _late = done.recv_timeout(self.patience() + PAUSE_MIN);
    }

    /// Returns the known estimates for these queries, for decisions while `held` is current.
    pub fn answers(&self, to_ask: &ToAsk, held: &Held) -> Answers {
        self.known().answers(to_ask, held, Instant::now(), ANSWER_AGE_MAX)
    }

    /// Returns how many replicas of a workload a cluster could not schedule for longer than
    /// `threshold`. `None` if that is unknown.
    pub async fn unschedulable(&self, cluster: &Arc<str>, workload: &Workload, threshold: Duration) -> Option<i32> {
        let member = self.member(cluster)?;
        let _place = self.shared.places.acquire().await.ok()?;
        let Workload { api_version, kind, namespace, name } = workload.clone();
        let request = wire::UnschedulableReplicasRequest {
            cluster: String::new(),
            resource: Some(wire::ObjectReference { api_version, kind, namespace, name }),
            unschedulable_threshold: i64::try_from(threshold.as_nanos()).unwrap_or(i64::MAX),
        };
        let outcome = member.ask(&self.shared.reach, &Asked::Unschedulable(&request), false).await?;
        match self.note(&member, outcome, None) {
            Outcome::Said(replicas) => Some(replicas),
            _ => None,
        }
    }

    /// Removes the estimators of clusters that no longer exist.
    pub fn keep_only(&self, is_there: impl Fn(&str) -> bool) {
        let mut members = self.members();
        members.retain(|cluster, member| {
            let stays = is_there(cluster);
            if !stays {
                member.forget();
            }
            stays
        });
    }

    /// Returns the number of known estimators.
    pub fn len(&self) -> usize {
        self.members().len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    async fn ask_all(
        &self,
        missing: Vec<(Shared<Question>, Arc<Member>)>,
        held: &Held,
        until: Instant,
    ) -> Vec<(Shared<Question>, Arc<str>, Option<i32>)> {
        let mut answered = Vec::with_capacity(missing.len());
        let asking = stream::iter(missing).map(|(question, member)| async move {
            let _place = self.shared.places.acquire().await.ok()?;
            let assumed = held.assumed.get(&member.cluster).map(|assumed| &**assumed.workloads);
            let asked = Asked::Room(&question, assumed.unwrap_or_default());
            let outcome = member.ask(&self.shared.reach, &asked, false).await?;
            match self.note(&member, outcome, Some(&question)) {
                Outcome::Said(said) => Some((question, Arc::clone(&member.cluster), Some(said))),
                outcome if outcome.is_of_reach() => None,
                // The same query is not repeated at once.
                _ => Some((question, Arc::clone(&member.cluster), None)),
            }
        });
        let mut asking = std::pin::pin!(asking.buffer_unordered(AT_ONCE_MAX));
        while let Ok(Some(answer)) = timeout_at(until, asking.next()).await {
            answered.extend(answer);
        }
        answered
    }

    /// Records an outcome. An estimator that becomes unreachable is retried in the background.
    fn note(&self, member: &Arc<Member>, outcome: Outcome, question: Option<&Shared<Question>>) -> Outcome {
        if member.note(&outcome, &self.shared.reach) {
            let nothing = || Shared::new(Question { is_of_sets: false, body: Box::default() });
            let question = question.cloned().unwrap_or_else(nothing);
            tokio::spawn(probe(Arc::downgrade(&self.shared), Arc::downgrade(member), question));
        }
        outcome
    }

    /// Returns the estimator of a cluster. `None` if there is none, or it is unreachable.
    fn member(&self, cluster: &Arc<str>) -> Option<Arc<Member>> {
        if !self.shared.reach.addresses.may_have(cluster) {
            return None;
        }
        let mut members = self.members();
        let count = members.len();
        let label = || if count < SERIES_MAX { Arc::clone(cluster) } else { Arc::from("other") };
        let member = members.entry(Arc::clone(cluster)).or_insert_with(|| Arc::new(Member::new(cluster, label())));
        (!member.is_out()).then(|| Arc::clone(member))
    }

    fn members(&self) -> MutexGuard<'_, HashMap<Arc<str>, Arc<Member>>> {
        self.shared.members.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn known(&self) -> MutexGuard<'_, KnownAnswers> {
        self.shared.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Retries an unreachable estimator, with a growing pause, until it responds or its cluster is
/// removed.
async fn probe(shared: Weak<Everything>, member: Weak<Member>, question: Shared<Question>) {
    let mut pause = PAUSE_MIN;
    loop {
        let Some(chance) = shared.upgrade().map(|shared| shared.clock.random()) else { return };
        // Jitter: estimators that became unreachable together are not retried together.
        sleep(pause.mul_f64(0.75 + (chance % 256) as f64 / 512.0)).await;
        let (Some(shared), Some(member)) = (shared.upgrade(), member.upgrade()) else { return };
        let outcome = member.ask(&shared.reach, &Asked::Room(&question, &[]), true).await;
        if let Some(outcome) = outcome
            && !outcome.is_of_reach()
        {
            member.note(&outcome, &shared.reach);
            return;
        }
        pause = (pause * 2).min(PAUSE_MAX);
    }
}
