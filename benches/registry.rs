//! Measures the verbs of the registry without HTTP: `cargo bench --bench registry`.
//!
//! It creates, updates in batches, patches and lists ResourceBindings of about 1.5 KB. The store is
//! in memory, so the figures are the registry's share of a request.
#![allow(clippy::print_stdout)]

use std::sync::Arc;
use std::time::Instant;

use ballast::api;
use ballast::clock::{Clock, SystemClock};
use ballast::k8s::{Body, GroupResource, ListOptions, Patch, User, WriteOptions};
use ballast::registry::{Atomicity, Caller, Change, Locator, Part, Registry, Warnings};
use ballast::store::MemoryStore;
use ballast::watch::{self, Limits};
use serde_json::{Map, Value, json};

const BINDINGS: GroupResource = GroupResource::new("resourcebindings.work.karmada.io");
const OBJECTS: usize = 10_000;
const CONCURRENT: usize = 32;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    runtime.block_on(run());
}

async fn run() {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let opened = watch::open(Arc::new(MemoryStore::new()), Arc::clone(&clock), Limits::default()).await;
    let (cache, writer, _task) = opened.expect("an empty store");
    let registry = Arc::new(Registry::new(Arc::new(api::kinds()), cache, writer, clock));
    let text = Arc::new(serde_json::to_string(&binding()).expect("a tree"));
    println!("objects of {} bytes", text.len());

    let start = Instant::now();
    let tasks = (0..CONCURRENT).map(|task| {
        let (registry, text) = (Arc::clone(&registry), Arc::clone(&text));
        tokio::spawn(async move {
            for i in (task..OBJECTS).step_by(CONCURRENT) {
                let mut body = Body::from_json(text.as_bytes()).expect("JSON");
                body.value["metadata"]["name"] = Value::from(format!("b{i:06}"));
                let (user, warnings, options) = (User::default(), Warnings::default(), WriteOptions::default());
                let caller = Caller { user: &user, warnings: &warnings };
                registry.create(caller, &target(&registry, None), body, &options).await.expect("created");
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.expect("no panic");
    }
    report("create", start, OBJECTS);

    let client = registry.client(User::component("bench"));
    let view = client.view();
    let objects: Vec<Map<String, Value>> =
        view.list(BINDINGS, None).map(|object| object.value().expect("an object")).collect();
    let stamped = objects.into_iter().map(|mut object| {
        object["spec"]["rescheduleTriggeredAt"] = Value::from("2026-01-02T03:04:05Z");
        (BINDINGS, Change::Update { part: Part::Main, object })
    });
    let changes: Vec<_> = stamped.collect();
    let start = Instant::now();
    let outcomes = client.batch(changes, Atomicity::All).await.expect("written");
    assert!(outcomes.iter().all(Result::is_ok));
    report("batch update", start, OBJECTS);

    let start = Instant::now();
    for i in 0..OBJECTS / 10 {
        let patch = format!(r#"{{"metadata":{{"labels":{{"step":"{i}"}}}}}}"#);
        let patch = Patch::merge(patch.as_bytes()).expect("a patch");
        let (user, warnings, options) = (User::default(), Warnings::default(), WriteOptions::default());
        let caller = Caller { user: &user, warnings: &warnings };
        let target = target(&registry, Some(format!("b{i:06}")));
        registry.patch(caller, &target, patch, &options).await.expect("patched");
    }
    report("patch, one after another", start, OBJECTS / 10);

    let start = Instant::now();
    let list = registry.list(&target(&registry, None), &ListOptions::default()).await.expect("listed");
    report("list, per object", start, list.items.len());
}

fn report(what: &str, start: Instant, count: usize) {
    let took = start.elapsed();
    let each = took.as_secs_f64() * 1e6 / count as f64;
    println!("{what}: {count} in {:.0} ms, {each:.2} us each, {:.0}/s", took.as_secs_f64() * 1e3, 1e6 / each);
}

fn target(registry: &Registry, name: Option<String>) -> Locator {
    let row = registry.kinds().find("work.karmada.io", "v1alpha2", "resourcebindings").expect("served");
    Locator { row: Arc::clone(row), namespace: Some("shop".to_owned()), name, status: false }
}

fn binding() -> Value {
    let clusters: Vec<Value> = (0..5).map(|i| json!({"name": format!("member-{i}"), "replicas": i + 1})).collect();
    let names: Vec<String> = (0..20).map(|i| format!("member-{i}")).collect();
    json!({
        "apiVersion": "work.karmada.io/v1alpha2", "kind": "ResourceBinding",
        "metadata": {"namespace": "shop", "name": "web", "labels": {"app": "web", "team.example.com/owner": "shop"},
            "annotations": {"policy.karmada.io/applied-placement": "x".repeat(300)}},
        "spec": {
            "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "web",
                "uid": "0b7c1a3e-1111-4222-8333-444455556666", "resourceVersion": "12345"},
            "replicas": 15,
            "replicaRequirements": {"resourceRequest": {"cpu": "250m", "memory": "512Mi"}},
            "clusters": clusters,
            "placement": {"clusterAffinity": {"clusterNames": names},
                "clusterTolerations": [{"key": "example.com/spot", "operator": "Exists", "effect": "NoSchedule"}],
                "replicaScheduling": {"replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
                    "weightPreference": {"dynamicWeight": "AvailableReplicas"}}},
            "schedulerName": "default-scheduler", "conflictResolution": "Abort"
        }
    })
}
