//! Guarantee 3: each write of any writer passes the fence. A replica that has lost the lead without
//! noticing stores nothing: client writes, actions, defaults filled at the start, and workers.

use std::sync::Arc;
use std::time::Duration;

use ballast::actions::MarkingLimits;
use ballast::clock::{Clock, ManualClock};
use ballast::engine::karmada::Profile;
use ballast::events::Recorder;
use ballast::k8s::{Body, Key, Revision, Status, User, WriteOptions};
use ballast::node::assembly::{self, WorkerOptions};
use ballast::node::config::Controllers;
use ballast::registry::{Caller, Locator, Registry, Warnings};
use ballast::store::{Candidate, Change, MemoryStore, Operation, Store, Term};
use ballast::watch::{self, Limits, RoleHandle};
use ballast::worker::Runner;
use serde_json::{Value, json};

use crate::support::fleet::{binding, by_room, cluster, without_a_rate};
use crate::support::kinds::{PP, resource_of};

const LEASE: Duration = Duration::from_secs(60);
/// Turns of each worker: more than it needs for the present work.
const TURNS: usize = 10;

/// A replica with work for each writer.
struct Replica {
    store: Arc<MemoryStore>,
    registry: Arc<Registry>,
    runners: Vec<Runner>,
    term: Term,
    _role: RoleHandle,
    _log: watch::Task,
}

fn candidate(name: &str) -> Candidate {
    Candidate { name: name.to_owned(), address: format!("{name}:7443") }
}

/// Stored by an older Ballast, without admission.
fn stored(revision: i64, mut object: Value) -> Change {
    object["metadata"]["resourceVersion"] = revision.to_string().into();
    object["metadata"]["uid"] = format!("uid-{revision}").into();
    object["metadata"]["generation"] = 1.into();
    object["metadata"]["creationTimestamp"] = "2024-04-17T15:00:05Z".into();
    let text = |name: &str| object["metadata"][name].as_str().unwrap_or_default();
    let key = Key::namespaced(resource_of(&object), text("namespace"), text("name"));
    let revision = Revision(revision);
    let (operation, previous, time_ms) = (Operation::Create, Revision::ZERO, 1_713_366_005_000);
    let object = serde_json::to_vec(&object).unwrap().into();
    Change { revision, key, operation, created: revision, previous, time_ms, object }
}

impl Replica {
    /// Starts it as the leader of a log with a policy that lacks defaults and a binding without a
    /// decision.
    async fn leads() -> Replica {
        let policy = json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
            "metadata": {"name": "old", "namespace": "default"},
            "spec": {"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}], "placement": {}}});
        let objects = [cluster("member1"), binding("web", 2, by_room()), policy];
        let changes: Vec<Change> = (1..).zip(objects).map(|(revision, object)| stored(revision, object)).collect();
        assert_eq!(changes[2].key.resource, PP);
        let store = Arc::new(MemoryStore::new());
        store.commit(Term::default(), &changes).await.unwrap();

        let clock: Arc<dyn Clock> = ManualClock::at("2024-04-17T16:00:05Z".parse().unwrap());
        let joined = watch::join(store.clone(), Arc::clone(&clock), Limits::default()).await.unwrap();
        let (cache, mut role) = (joined.cache, joined.role);
        let recorder = Recorder::new(Arc::clone(&clock));
        let (kinds, profile) = (Arc::new(ballast::api::kinds()), Profile::ours());
        let authorizer = Arc::default();
        let registry =
            assembly::registry(kinds, cache.clone(), joined.writer, &authorizer, &clock, &recorder, &profile);
        let registry = Arc::new(registry);
        let options = WorkerOptions {
            recorder,
            profile,
            failover: without_a_rate(),
            controllers: Controllers::default(),
            rescue: Default::default(),
            marking: MarkingLimits::default(),
            inventory: None,
            gates: Arc::new(ballast::rebalance::gates::NoGates),
            sinks: Vec::new(),
        };
        let workers = assembly::workers(&registry, &clock, options);
        let runners = workers.into_iter().map(|work| Runner::new(work, cache.clone(), Arc::clone(&clock))).collect();
        let term = store.lead(&candidate("one"), LEASE).await.unwrap().term;
        role.lead(term).await.unwrap();
        Replica { store, registry, runners, term, _role: role, _log: joined.task }
    }

    /// Makes another replica lead without notice to this one.
    async fn is_overtaken(&self) {
        self.store.resign(self.term).await.unwrap();
        let leader = self.store.lead(&candidate("two"), LEASE).await.unwrap();
        assert!(leader.is_held_by(&candidate("two")) && leader.term > self.term);
    }

    async fn post(&self, object: Value) -> Result<(), Status> {
        let rows = self.registry.kinds().rows();
        let (api_version, kind) = (object["apiVersion"].as_str(), object["kind"].as_str());
        let row = rows.iter().find(|row| Some(row.kind) == kind && Some(&*row.api_version()) == api_version);
        let row = row.expect("it is served").clone();
        let namespace = row.is_namespaced().then(|| "default".to_owned());
        let target = Locator { row, namespace, name: None, status: false };
        let Value::Object(object) = object else { unreachable!() };
        let caller = Caller { user: &User::default(), warnings: &Warnings::default() };
        self.registry.create(caller, &target, Body::of(object), &WriteOptions::default()).await.map(drop)
    }

    /// Runs one of the writers. An error means that the write was rejected; workers retry instead.
    async fn write(&mut self, who: Who) -> Result<(), Status> {
        match who {
            Who::Client => self.post(binding("api", 1, by_room())).await,
            Who::Action => {
                let task = json!({"apiVersion": "task.karmada.io/v1alpha1", "kind": "RescheduleTask",
                    "metadata": {"name": "task"}, "spec": {"targetRefPolicy": [{}]}});
                self.post(task).await
            }
            Who::Defaults => self.registry.fill_defaults().await.map(drop),
            Who::Worker(name) => {
                let runner = self.runners.iter_mut().find(|runner| runner.name() == name).expect(name);
                for _ in 0..TURNS {
                    runner.turn().await;
                }
                Ok(())
            }
        }
    }

    async fn last(&self) -> Revision {
        self.store.bounds().await.unwrap().last
    }
}

#[derive(Clone, Copy, Debug)]
enum Who {
    Client,
    Action,
    Defaults,
    Worker(&'static str),
}

#[tokio::test]
async fn re3_every_write_of_a_leader_of_the_past_is_refused_whoever_makes_it() {
    for who in [Who::Client, Who::Action, Who::Defaults, Who::Worker("scheduler")] {
        let mut leader = Replica::leads().await;
        let before = leader.last().await;
        leader.write(who).await.unwrap_or_else(|status| panic!("{who:?}: {}", status.message));
        assert!(leader.last().await > before, "{who:?} writes while it may");

        let mut past = Replica::leads().await;
        past.is_overtaken().await;
        let outcome = past.write(who).await;
        assert_eq!(past.last().await, before, "{who:?} has written beside the leader");
        if !matches!(who, Who::Worker(_)) {
            let refused = outcome.expect_err("it is told");
            assert_eq!(refused.code, 503, "{who:?}: {}", refused.message);
        }
    }
    // The other workers have no other path. None of them bypasses the fence either.
    let mut past = Replica::leads().await;
    past.is_overtaken().await;
    let before = past.last().await;
    let names: Vec<&'static str> = past.runners.iter().map(Runner::name).collect();
    for name in names {
        past.write(Who::Worker(name)).await.unwrap();
    }
    assert_eq!(past.last().await, before);
}
