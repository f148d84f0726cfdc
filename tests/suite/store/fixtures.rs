//! Small objects and short calls.

use std::path::PathBuf;
use std::sync::Arc;

use ballast::clock::{Clock, SystemClock};
use ballast::k8s::{Document, GroupResource, Key, Object, Revision};
use ballast::store::{Change, Error, MemoryStore, Store};
use ballast::watch::{self, Atomicity, Cache, Draft, Expect, Limits, Rejected, Task, Write, WriteError, Writer};
use serde_json::{Map, Value, json};

pub const BINDINGS: GroupResource = GroupResource::new("resourcebindings.work.karmada.io");
pub const CLUSTERS: GroupResource = GroupResource::new("clusters.cluster.karmada.io");

pub fn binding(name: &str) -> Key {
    Key::namespaced(BINDINGS, "shop", name)
}

/// Returns an object with `spec.value` to distinguish its versions.
pub fn object(key: &Key, value: i64) -> Map<String, Value> {
    let object = json!({"metadata": {"namespace": *key.namespace, "name": *key.name}, "spec": {"value": value}});
    let Value::Object(object) = object else { unreachable!("written as an object above") };
    object
}

/// The database file in a temporary folder.
pub fn file(home: &tempfile::TempDir) -> PathBuf {
    home.path().join("ballast.db")
}

/// The URL of the database in a temporary folder.
pub fn url(home: &tempfile::TempDir) -> String {
    format!("sqlite://{}", file(home).display())
}

pub fn put(key: &Key, object: Map<String, Value>) -> Write {
    Write { key: key.clone(), expect: Expect::Absent, draft: Draft::Put(Document::new(object)) }
}

pub fn create(key: &Key, value: i64) -> Write {
    put(key, object(key, value))
}

pub fn update(key: &Key, at: Revision, value: i64) -> Write {
    Write { key: key.clone(), expect: Expect::At(at), draft: Draft::Put(Document::new(object(key, value))) }
}

pub fn delete(key: &Key, at: Revision) -> Write {
    Write { key: key.clone(), expect: Expect::At(at), draft: Draft::Delete(Document::new(object(key, -1))) }
}

pub fn value(object: &Object) -> i64 {
    object.value().unwrap()["spec"]["value"].as_i64().unwrap()
}

/// The newest change of each live key, in the order of their revisions.
pub async fn states(store: &Arc<dyn Store>) -> Vec<Change> {
    let last = store.bounds().await.unwrap().last;
    store.page(last, Revision::ZERO, i64::MAX as usize).await.unwrap()
}

/// The newest change of a live key.
pub async fn state(store: &Arc<dyn Store>, key: &Key) -> Option<Change> {
    states(store).await.into_iter().find(|state| state.key == *key)
}

/// A cache with its writer.
pub struct Room {
    pub cache: Cache,
    pub writer: Writer,
    pub task: Task,
}

impl Room {
    pub async fn open(store: Arc<dyn Store>, limits: Limits) -> Room {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let (cache, writer, task) = watch::open(store, clock, limits).await.unwrap();
        Room { cache, writer, task }
    }

    pub async fn in_memory() -> Room {
        Room::open(Arc::new(MemoryStore::new()), Limits::default()).await
    }

    pub async fn all(&self, writes: Vec<Write>) -> Vec<Result<Arc<Object>, Rejected>> {
        self.writer.commit(writes, Atomicity::All).await.unwrap()
    }

    /// Writes batches, each created from the number of objects so far, until the store fails. Adds
    /// the acknowledged ones to the count, and returns the error of the failed batch.
    pub async fn fill(&self, acknowledged: &mut usize, batch: fn(usize) -> Vec<Write>, too_many: usize) -> String {
        let error = loop {
            match self.writer.commit(batch(*acknowledged), Atomicity::All).await {
                Ok(outcomes) => *acknowledged += outcomes.iter().filter(|outcome| outcome.is_ok()).count(),
                Err(error) => break error,
            }
            assert!(*acknowledged < too_many, "the disk cannot hold that");
        };
        let WriteError::Unavailable(source) = &error else { panic!("{error:?}") };
        assert!(matches!(**source, Error::Unavailable { .. }), "{error:?}");
        error.to_string()
    }

    /// Writes one object, which must be accepted.
    pub async fn put(&self, write: Write) -> Arc<Object> {
        self.all(vec![write]).await.pop().unwrap().unwrap()
    }

    /// Lets the writer finish, so that the store can be opened again.
    pub async fn close(self) {
        drop((self.cache, self.writer));
        self.task.await.unwrap().unwrap();
    }
}
