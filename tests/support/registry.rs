//! A registry of the served kinds over the memory store, without HTTP.

use std::sync::Arc;

use ballast::clock::ManualClock;
use ballast::k8s::{Body, FieldValidation, GetOptions, Status, User, WriteOptions};
use ballast::registry::{Caller, Locator, Registry, Warnings, Written};
use ballast::store::MemoryStore;
use ballast::{api, watch};
use serde_json::{Map, Value};

/// The namespace of all objects.
pub const NAMESPACE: &str = "default";

pub struct Api {
    registry: Registry,
    _writer: watch::Task,
}

impl Api {
    pub async fn start() -> Api {
        let clock = ManualClock::at("2024-04-17T15:04:05Z".parse().expect("a time"));
        let store = Arc::new(MemoryStore::new());
        let limits = watch::Limits::default();
        let (cache, writer, task) = watch::open(store, clock.clone(), limits).await.expect("an empty store opens");
        Api { registry: Registry::new(Arc::new(api::kinds()), cache, writer, clock), _writer: task }
    }

    pub async fn create(&self, object: Value, validation: FieldValidation) -> Result<Written, Status> {
        let target = self.target(&object, None);
        let options = WriteOptions { field_validation: validation, ..WriteOptions::default() };
        let caller = Caller { user: &User::default(), warnings: &Warnings::default() };
        self.registry.create(caller, &target, body(object), &options).await
    }

    /// PUTs to `/status` with the stored resourceVersion.
    pub async fn put_status(&self, mut object: Value) -> Result<Written, Status> {
        let name = object["metadata"]["name"].as_str().expect("a name").to_owned();
        let target = Locator { status: true, ..self.target(&object, Some(name)) };
        let stored = self.get(&object).await;
        object["metadata"]["resourceVersion"] = stored["metadata"]["resourceVersion"].clone();
        let caller = Caller { user: &User::default(), warnings: &Warnings::default() };
        self.registry.update(caller, &target, body(object), &WriteOptions::default()).await
    }

    pub async fn get(&self, object: &Value) -> Value {
        let name = object["metadata"]["name"].as_str().expect("a name").to_owned();
        let target = self.target(object, Some(name));
        let found = self.registry.get(&target, &GetOptions::default()).await.expect("it is there");
        serde_json::from_slice(&found.text.whole()).expect("JSON")
    }

    fn target(&self, object: &Value, name: Option<String>) -> Locator {
        let (api_version, kind) = (object["apiVersion"].as_str(), object["kind"].as_str());
        let rows = self.registry.kinds().rows();
        let served = rows.iter().find(|row| Some(row.kind) == kind && Some(&*row.api_version()) == api_version);
        let row = served.unwrap_or_else(|| panic!("{api_version:?} {kind:?} is served")).clone();
        let namespace = row.is_namespaced().then(|| NAMESPACE.to_owned());
        Locator { row, namespace, name, status: false }
    }
}

pub fn tree(written: &Written) -> Value {
    serde_json::from_slice(&written.object.text.whole()).expect("JSON")
}

fn body(object: Value) -> Body {
    let Value::Object(object) = object else { panic!("an object") };
    Body::of(object as Map<String, Value>)
}
