//! A fake API server that stores clusters and bindings, as Karmada does for an attached server, and
//! its reflector.
//!
//! It fails like the store: each half of a write counts as one commit of the log.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use ballast::k8s::{Document, GroupResource, Key, Object, Revision, Status};
use ballast::registry::{RemoteStore, RemoteWrite};
use ballast::watch::{Atomicity, Cache, Draft, Expect, Write, Writer};
use serde_json::{Value, json};

use super::world::{CLUSTER, CRB, Fate, RB, resource_of};

/// The halves of a write; a fault can precede either.
const HALVES: [&[&str]; 2] = [&["metadata", "spec"], &["status"]];

pub struct FakeUpstream {
    kept: Mutex<StoredEvents>,
    fate: Arc<Fate>,
    /// The log that mirrors it.
    line: Mutex<Option<(Cache, Writer)>>,
}

#[derive(Default)]
struct StoredEvents {
    objects: BTreeMap<Key, Value>,
    version: u64,
    /// The version of each object in the log, and its revision there.
    reflected: HashMap<Key, (u64, Revision)>,
    /// Writes by clients other than the test.
    written: usize,
}

impl StoredEvents {
    fn version_of(&self, key: &Key) -> Option<u64> {
        self.objects.get(key)?["metadata"]["resourceVersion"].as_str()?.parse().ok()
    }

    fn put(&mut self, key: &Key, mut object: Value) {
        self.version += 1;
        let before = self.objects.get(key);
        let generation = before.map_or(1, |before| {
            let known = before["metadata"]["generation"].as_i64().expect("each object has one");
            known + i64::from(before["spec"] != object["spec"])
        });
        object["metadata"]["generation"] = generation.into();
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        self.objects.insert(key.clone(), object);
    }
}

impl FakeUpstream {
    pub fn new(fate: Arc<Fate>) -> Arc<FakeUpstream> {
        Arc::new(FakeUpstream { kept: Mutex::default(), fate, line: Mutex::default() })
    }

    /// Creates an object as another client of the upstream.
    pub fn create(&self, mut object: Value) -> Key {
        let (namespace, name) = (&object["metadata"]["namespace"], object["metadata"]["name"].as_str().unwrap());
        let resource = resource_of(&object);
        let key = match namespace.as_str() {
            Some(namespace) => Key::namespaced(resource, namespace, name),
            None => Key::cluster(resource, name),
        };
        object["metadata"]["uid"] = format!("uid-of-{name}").into();
        object["metadata"]["creationTimestamp"] = "2024-04-17T15:00:00Z".into();
        self.kept.lock().unwrap().put(&key, object);
        key
    }

    /// Changes an object as another client of the upstream.
    pub fn edit(&self, key: &Key, change: impl FnOnce(&mut Value)) {
        let mut kept = self.kept.lock().unwrap();
        let mut object = kept.objects[key].clone();
        change(&mut object);
        if object != kept.objects[key] {
            kept.put(key, object);
        }
    }

    pub fn get(&self, key: &Key) -> Value {
        self.kept.lock().unwrap().objects[key].clone()
    }

    /// Returns the number of writes by Ballast.
    pub fn written(&self) -> usize {
        self.kept.lock().unwrap().written
    }

    /// Attaches a log, which knows only the state that it has stored.
    pub async fn follow(&self, cache: Cache, writer: Writer) {
        self.kept.lock().unwrap().reflected.clear();
        *self.line.lock().unwrap() = Some((cache, writer));
        self.sync().await;
    }

    /// Writes all changes to the log, except for those that it already has.
    pub async fn sync(&self) {
        let _rest = self.fate.rest();
        let keys: Vec<Key> = self.kept.lock().unwrap().objects.keys().cloned().collect();
        for key in keys {
            self.bring(&key).await.expect("the log can be written");
        }
    }

    async fn bring(&self, key: &Key) -> Result<Arc<Object>, Status> {
        let (cache, writer) = self.line.lock().unwrap().clone().expect("it is followed");
        let (version, object) = {
            let kept = self.kept.lock().unwrap();
            (kept.version_of(key).expect("it is there"), kept.objects[key].clone())
        };
        let here = cache.view().get(key).cloned();
        let is_same = |here: &Arc<Object>| {
            let mut known = Value::Object(here.value().unwrap());
            known["metadata"]["resourceVersion"] = object["metadata"]["resourceVersion"].clone();
            known == object
        };
        let here = match here {
            Some(here) if is_same(&here) => here,
            here => {
                let Value::Object(tree) = object.clone() else { panic!("an object") };
                let expect = here.map_or(Expect::Absent, |here| Expect::At(here.revision));
                let write = Write { key: key.clone(), expect, draft: Draft::Put(Document::new(tree)) };
                let answer = writer.commit(vec![write], Atomicity::Each).await;
                let mut outcomes = answer.map_err(|error| Status::unavailable(error.to_string()))?;
                outcomes.pop().unwrap().expect("only the mirror writes it")
            }
        };
        self.kept.lock().unwrap().reflected.insert(key.clone(), (version, here.revision));
        Ok(here)
    }

    /// Returns whether `base` is the newest version.
    fn is_newest(&self, base: &Object) -> bool {
        let kept = self.kept.lock().unwrap();
        let newest = kept.version_of(&base.key).map(|version| (version, base.revision));
        newest.is_some() && kept.reflected.get(&base.key) == newest.as_ref()
    }

    async fn write_one(&self, RemoteWrite { base, object }: RemoteWrite) -> Result<Arc<Object>, Status> {
        let key = &base.key;
        if !self.is_newest(&base) {
            self.bring(key).await?;
            return Err(Status::conflict(key.resource, &key.name));
        }
        let object = Value::Object(object);
        for half in HALVES {
            let mut next = self.get(key);
            for member in half {
                let mut wanted = object[*member].clone();
                if *member == "metadata" {
                    let known = &next["metadata"];
                    wanted["generation"] = known["generation"].clone();
                    wanted["resourceVersion"] = known["resourceVersion"].clone();
                }
                if next[*member] != wanted {
                    next[*member] = wanted;
                }
            }
            if next == self.get(key) {
                continue;
            }
            if !self.fate.allows() {
                // The result of the first half is known here, as after a response.
                let _ = self.bring(key).await;
                return Err(Status::unavailable("the story says so"));
            }
            let mut kept = self.kept.lock().unwrap();
            kept.put(key, next);
            kept.written += 1;
        }
        self.bring(key).await
    }
}

#[async_trait]
impl RemoteStore for FakeUpstream {
    fn keeps(&self, resource: GroupResource) -> bool {
        [CLUSTER, RB, CRB].contains(&resource)
    }

    fn url(&self) -> &str {
        "https://home.example.com"
    }

    async fn write(&self, _: &str, writes: Vec<RemoteWrite>) -> Vec<Result<Arc<Object>, Status>> {
        let mut answers = Vec::with_capacity(writes.len());
        for write in writes {
            answers.push(self.write_one(write).await);
        }
        answers
    }
}

/// Returns a cluster's report of a workload.
pub fn report(cluster: &str, ready: i64, is_healthy: bool) -> Value {
    json!({
        "clusterName": cluster, "applied": true, "health": if is_healthy { "Healthy" } else { "Unhealthy" },
        "status": {"replicas": ready, "readyReplicas": ready},
    })
}
