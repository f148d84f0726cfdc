//! A registry over the memory store with a clock that stands still, and short helpers for tests.

use std::sync::{Arc, Mutex};

use crate::support::objects;
use async_trait::async_trait;
use ballast::api;
use ballast::clock::{Clock, ManualClock};
use ballast::k8s::{
    Body, DeleteOptions, FieldValidation, GetOptions, GroupResource, ListOptions, Object, Patch, Query, Revision,
    Status, User, WriteOptions,
};
use ballast::registry::{
    Action, Caller, Client, Deleted, List, Locator, Registry, Warnings, Watch, WatchEvent, Written,
};
use ballast::resource::Kinds;
use ballast::store::MemoryStore;
use ballast::watch::{self, Limits};
use serde_json::{Map, Value, json};

pub const REBALANCERS: GroupResource = GroupResource::new("workloadrebalancers.apps.karmada.io");
pub const BINDINGS: GroupResource = GroupResource::new("resourcebindings.work.karmada.io");
pub const TASKS: GroupResource = GroupResource::new("rescheduletasks.task.karmada.io");

pub type Tree = Map<String, Value>;

pub struct World {
    pub registry: Registry,
    pub store: Arc<MemoryStore>,
    pub clock: Arc<ManualClock>,
    /// The calls of the action of RescheduleTasks: the name, and whether it was a dry run.
    pub acts: Arc<Mutex<Vec<(String, bool)>>>,
    user: User,
    warnings: Warnings,
}

struct Recorder(Arc<Mutex<Vec<(String, bool)>>>);

#[async_trait]
impl Action for Recorder {
    async fn create(&self, _caller: &User, object: &mut Tree, dry_run: bool) -> Result<Vec<String>, Status> {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        self.0.lock().unwrap().push((name.to_owned(), dry_run));
        match name {
            "broken" => Err(Status::internal("broken")),
            "wordy" => Ok(vec!["it goes on".to_owned()]),
            _ => Ok(Vec::new()),
        }
    }
}

pub fn tree(value: Value) -> Tree {
    let Value::Object(tree) = value else { panic!("not an object: {value}") };
    tree
}

pub fn rebalancer(name: &str) -> Tree {
    tree(json!({"apiVersion": "apps.karmada.io/v1alpha1", "kind": "WorkloadRebalancer", "metadata": {"name": name},
        "spec": {"workloads": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}]}}))
}

pub fn binding(namespace: &str, name: &str) -> Tree {
    tree(objects::binding_in(namespace, name, "web", json!({})))
}

pub fn policy(name: &str) -> Tree {
    tree(json!({"apiVersion": "policy.karmada.io/v1alpha1", "kind": "PropagationPolicy",
        "metadata": {"namespace": "shop", "name": name},
        "spec": {"resourceSelectors": [{"apiVersion": "apps/v1", "kind": "Deployment"}]}}))
}

pub fn task(name: &str) -> Tree {
    tree(json!({"apiVersion": "task.karmada.io/v1alpha1", "kind": "RescheduleTask", "metadata": {"name": name},
        "spec": {"targetRefPolicy": [{}]}}))
}

/// Merges `change` into `object`.
pub fn with(object: Tree, change: Value) -> Tree {
    Patch::merge(change.to_string().as_bytes()).unwrap().apply(object).unwrap()
}

pub fn value(object: &Object) -> Value {
    serde_json::from_slice(&object.text.whole()).unwrap()
}

pub fn names(list: &List) -> Vec<String> {
    list.items.iter().map(|object| object.key.name.to_string()).collect()
}

pub fn list_options(query: &str) -> ListOptions {
    ListOptions::from_query(&Query::parse(query)).unwrap()
}

pub fn strict() -> WriteOptions {
    WriteOptions { field_validation: FieldValidation::Strict, ..WriteOptions::default() }
}

pub fn dry() -> WriteOptions {
    WriteOptions { dry_run: true, ..WriteOptions::default() }
}

impl World {
    pub async fn new() -> World {
        World::with_limits(Limits::default()).await
    }

    pub async fn with_limits(limits: Limits) -> World {
        let clock = ManualClock::at("2026-01-02T03:04:05Z".parse().unwrap());
        let shared: Arc<dyn Clock> = clock.clone();
        let store = Arc::new(MemoryStore::new());
        let (cache, writer, _task) = watch::open(store.clone(), Arc::clone(&shared), limits).await.unwrap();
        let acts = Arc::new(Mutex::new(Vec::new()));
        let kinds: Arc<Kinds> = Arc::new(api::kinds());
        let registry = Registry::new(kinds, cache, writer, shared);
        let registry = registry.with_action(TASKS, Arc::new(Recorder(Arc::clone(&acts))));
        World { registry, store, clock, acts, user: User::component("test"), warnings: Warnings::default() }
    }

    pub fn client(&self) -> Client {
        self.registry.client(User::component("test"))
    }

    pub fn revision(&self) -> Revision {
        self.registry.cache().view().revision
    }

    /// The collection of all objects of a kind.
    pub fn all(&self, resource: GroupResource) -> Locator {
        let row = self.registry.kinds().rows().iter().find(|row| row.resource == resource).unwrap();
        Locator { row: Arc::clone(row), namespace: None, name: None, status: false }
    }

    pub fn in_namespace(&self, resource: GroupResource, namespace: &str) -> Locator {
        Locator { namespace: Some(namespace.to_owned()), ..self.all(resource) }
    }

    /// The locator of an object.
    pub fn at(&self, object: &Tree) -> Locator {
        let metadata = object.get("metadata").unwrap_or(&Value::Null);
        let text = |name: &str| metadata[name].as_str().map(str::to_owned);
        let kind = object["kind"].as_str().unwrap();
        let row = self.registry.kinds().rows().iter().find(|row| row.kind == kind).unwrap();
        Locator { row: Arc::clone(row), namespace: text("namespace"), name: text("name"), status: false }
    }

    pub fn caller(&self) -> Caller<'_> {
        Caller { user: &self.user, warnings: &self.warnings }
    }

    pub async fn create_at(&self, target: &Locator, body: Body, options: &WriteOptions) -> Result<Written, Status> {
        self.registry.create(self.caller(), target, body, options).await
    }

    pub async fn create_with(&self, object: Tree, options: &WriteOptions) -> Result<Written, Status> {
        let target = Locator { name: None, ..self.at(&object) };
        self.create_at(&target, Body::of(object), options).await
    }

    pub async fn try_create(&self, object: Tree) -> Result<Written, Status> {
        self.create_with(object, &WriteOptions::default()).await
    }

    pub async fn create(&self, object: Tree) -> Value {
        value(&self.try_create(object).await.unwrap().object)
    }

    pub async fn update_at(&self, target: &Locator, object: Tree, options: &WriteOptions) -> Result<Written, Status> {
        self.registry.update(self.caller(), target, Body::of(object), options).await
    }

    pub async fn try_update(&self, object: Tree) -> Result<Written, Status> {
        self.update_at(&self.at(&object), object, &WriteOptions::default()).await
    }

    pub async fn update(&self, object: Tree) -> Value {
        value(&self.try_update(object).await.unwrap().object)
    }

    pub async fn update_status(&self, object: Tree) -> Result<Written, Status> {
        let target = Locator { status: true, ..self.at(&object) };
        self.update_at(&target, object, &WriteOptions::default()).await
    }

    pub async fn patch_at(&self, target: &Locator, patch: Patch, options: &WriteOptions) -> Result<Written, Status> {
        self.registry.patch(self.caller(), target, patch, options).await
    }

    pub async fn merge(&self, object: &Tree, patch: Value) -> Result<Written, Status> {
        let patch = Patch::merge(patch.to_string().as_bytes())?;
        self.patch_at(&self.at(object), patch, &WriteOptions::default()).await
    }

    pub async fn delete_with(&self, object: &Tree, options: &DeleteOptions) -> Result<Deleted, Status> {
        self.registry.delete(self.caller(), &self.at(object), options).await
    }

    pub async fn delete(&self, object: &Tree) -> Deleted {
        self.delete_with(object, &DeleteOptions::default()).await.unwrap()
    }

    pub async fn delete_all(&self, target: &Locator, query: &str, options: &DeleteOptions) -> Result<List, Status> {
        self.registry.delete_collection(self.caller(), target, &list_options(query), options).await
    }

    pub async fn try_get(&self, object: &Tree) -> Result<Value, Status> {
        self.registry.get(&self.at(object), &GetOptions::default()).await.map(|object| value(&object))
    }

    pub async fn get(&self, object: &Tree) -> Value {
        self.try_get(object).await.unwrap()
    }

    pub async fn list(&self, target: &Locator, query: &str) -> Result<List, Status> {
        self.registry.list(target, &list_options(query)).await
    }

    pub async fn watch(&self, target: &Locator, query: &str) -> Watch {
        self.registry.watch(target, &list_options(&format!("watch=1&{query}"))).await.unwrap()
    }
}

/// Returns an event as text, `ADDED web 7`: its type, the name and the revision.
pub fn told(event: &WatchEvent) -> String {
    match event {
        WatchEvent::Added(object) | WatchEvent::Modified(object) | WatchEvent::Deleted(object) => {
            let value = value(object);
            assert_eq!(value["metadata"]["resourceVersion"], object.revision.to_string());
            format!("{} {} {}", event.kind(), object.key.name, object.revision)
        }
        WatchEvent::Bookmark { revision, initial_events_end: true } => format!("END {revision}"),
        WatchEvent::Bookmark { revision, .. } => format!("BOOKMARK {revision}"),
        WatchEvent::Error(status) => format!("ERROR {} {}", status.code, status.message),
    }
}

/// The events that are ready now.
pub fn ready(watch: &mut Watch) -> Vec<String> {
    std::iter::from_fn(|| watch.next_ready()).map(|event| told(&event)).collect()
}
