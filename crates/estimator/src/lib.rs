//! A client of Karmada's scheduler-estimators, which run beside member clusters and know their
//! nodes: they say how many replicas of a workload fit, and how many of it cannot be scheduled.
//!
//! Bindings with equal requirements have one question ([`questions`]). An answer is used for
//! `ANSWER_AGE_MAX`, and comes with the room that was given away since it was asked for, so that
//! the engine can deduct it.
//!
//! *Invariants:*
//! - Every wait has a bound, and an estimator that does not answer delays one batch, once.
//! - What an estimator says can only lower what a cluster is given.
//! - The number of questions at a time, of answers that are kept, and of tasks is bounded.
//!
//! # Modules
//!
//! Each module uses only modules above it in this list.
//!
//! - `wire`: the messages
//! - `addresses`: where estimators are
//! - `connector`: connections to them
//! - `member`: one estimator
//! - `known_answers`: what was answered, and how old it is

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

/// How long an answer is used.
const ANSWER_AGE_MAX: Duration = Duration::from_secs(10);
/// Questions to all estimators at the same time.
const AT_ONCE_MAX: usize = 256;
/// A batch of questions takes at most this many times the time-out of one: of the first and of the
/// last of a batch that has to queue. What is not answered then counts as not asked.
const BATCH_TIMEOUTS_MAX: u32 = 2;
/// The pause before an estimator that does not answer is tried again. It doubles up to the second.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// Clusters with metrics of their own, as for `ballast_cluster_replicas`.
const SERIES_MAX: usize = 1_000;

/// The clusters to ask, by question.
pub type ToAsk = Vec<(Shared<Question>, Vec<Arc<str>>)>;
/// Room by cluster.
pub type RoomByCluster = HashMap<Arc<str>, Arc<Amounts>>;

/// What bindings hold on each cluster, at one moment.
#[derive(Clone, Debug, Default)]
pub struct Held {
    /// What is assigned, with what is on its way, or still there.
    pub all: RoomByCluster,
    /// The part of it that exists, as reports say. An estimator sees that by itself.
    pub reported: RoomByCluster,
    /// The part of it that is on its way, for estimators that are told so (`tells_assumed`).
    pub assumed: HashMap<Arc<str>, Assumed>,
}

/// What is on its way to a cluster.
#[derive(Clone, Debug, Default)]
pub struct Assumed {
    pub workloads: Arc<Vec<AssumedWorkload>>,
    /// What an estimator knows that is told so: this, and what is reported.
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
    /// Batches of questions go one after another, so that nothing is asked twice.
    turn: tokio::sync::Mutex<()>,
}

/// The questions about a binding. `namespace` is that of its workload.
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
    /// Call it in the runtime that is to ask.
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

    /// Whether clusters in Pull mode are asked, too.
    pub fn asks_pull_mode(&self) -> bool {
        self.shared.asks_pull_mode
    }

    /// Whether estimators are told what is on its way to their clusters.
    pub fn tells_assumed(&self) -> bool {
        self.shared.reach.tells_assumed
    }

    /// The longest time that one batch of questions takes.
    pub fn patience(&self) -> Duration {
        self.shared.reach.timeout * BATCH_TIMEOUTS_MAX
    }

    /// Asks these questions. Clusters whose answer is young are not asked again. `held` is what
    /// was held before the questions were made.
    pub async fn ask(&self, to_ask: &ToAsk, held: &Held) {
        // Whoever comes meanwhile finds the answers of this one, and asks for the rest.
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

    /// As `ask`, for a thread that may wait.
    pub fn ask_and_wait(&self, to_ask: &Arc<ToAsk>, held: &Arc<Held>) {
        let (estimators, to_ask, held) = (self.clone(), Arc::clone(to_ask), Arc::clone(held));
        let (sender, done) = std::sync::mpsc::sync_channel(1);
        self.shared.runtime.spawn(async move {
            estimators.ask(&to_ask, &held).await;
            // The thread waits no longer than `ask` takes, if the runtime ends.
            let _gone = sender.send(());
        });
        let _late = done.recv_timeout(self.patience() + PAUSE_MIN);
    }

    /// The answers that are known to these questions, for decisions while `held` is held.
    pub fn answers(&self, to_ask: &ToAsk, held: &Held) -> Answers {
        self.known().answers(to_ask, held, Instant::now(), ANSWER_AGE_MAX)
    }

    /// How many replicas of a workload a cluster could not schedule for longer than `threshold`.
    /// `None`: that is not known.
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

    /// Forgets the estimators of clusters that are gone.
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

    /// The number of estimators that are known.
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
                // It is not asked the same again at once.
                _ => Some((question, Arc::clone(&member.cluster), None)),
            }
        });
        let mut asking = std::pin::pin!(asking.buffer_unordered(AT_ONCE_MAX));
        while let Ok(Some(answer)) = timeout_at(until, asking.next()).await {
            answered.extend(answer);
        }
        answered
    }

    /// Takes down an outcome. An estimator that has gone out is tried again beside the passes.
    fn note(&self, member: &Arc<Member>, outcome: Outcome, question: Option<&Shared<Question>>) -> Outcome {
        if member.note(&outcome, &self.shared.reach) {
            let nothing = || Shared::new(Question { is_of_sets: false, body: Box::default() });
            let question = question.cloned().unwrap_or_else(nothing);
            tokio::spawn(probe(Arc::downgrade(&self.shared), Arc::downgrade(member), question));
        }
        outcome
    }

    /// The estimator of a cluster. `None`: there is none, or it does not answer.
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

/// Tries an estimator that is out, with a growing pause, until it answers or its cluster is gone.
async fn probe(shared: Weak<Everything>, member: Weak<Member>, question: Shared<Question>) {
    let mut pause = PAUSE_MIN;
    loop {
        let Some(chance) = shared.upgrade().map(|shared| shared.clock.random()) else { return };
        // Estimators that went out together are not tried together.
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
