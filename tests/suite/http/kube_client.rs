//! kube-rs against the server: `Api`, `watcher` and `reflector`, as a controller uses them.

use std::borrow::Cow;
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt};
use kube::api::{
    Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams,
};
use kube::core::ObjectMeta;
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::{WatchStreamExt, reflector, watcher};
use kube::{Client, ResourceExt};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::support::objects::{binding, rebalancer};
use crate::support::server::TestServer;

const SOON: Duration = Duration::from_secs(20);

fn bindings(client: &Client) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("work.karmada.io", "v1alpha2", "ResourceBinding");
    Api::namespaced_with(client.clone(), "shop", &ApiResource::from_gvk(&kind))
}

fn object(name: &str) -> DynamicObject {
    serde_json::from_value(binding(name)).unwrap()
}

#[tokio::test]
async fn an_api_creates_reads_changes_and_deletes() {
    let server = TestServer::start().await;
    let api = bindings(&server.kube().await);
    let created = api.create(&PostParams::default(), &object("web")).await.unwrap();
    assert!(created.uid().is_some() && created.resource_version().is_some());
    let conflict = api.create(&PostParams::default(), &object("web")).await.unwrap_err();
    assert!(matches!(conflict, kube::Error::Api(status) if status.is_already_exists()));

    let mut changed = created.clone();
    changed.labels_mut().insert("tier".to_owned(), "front".to_owned());
    let replaced = api.replace("web", &PostParams::default(), &changed).await.unwrap();
    assert_ne!(replaced.resource_version(), created.resource_version());
    let stale = api.replace("web", &PostParams::default(), &created).await.unwrap_err();
    assert!(matches!(stale, kube::Error::Api(status) if status.is_conflict()));

    let patch = Patch::Merge(json!({"spec": {"replicas": 3}}));
    let patched = api.patch("web", &PatchParams::default(), &patch).await.unwrap();
    assert_eq!(patched.data["spec"]["replicas"], 3);
    let status = json!({"status": {"schedulerObservedGeneration": 7}});
    let patched = api.patch_status("web", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    assert_eq!(patched.data["status"]["schedulerObservedGeneration"], 7);

    let front = api.list(&ListParams::default().labels("tier=front")).await.unwrap();
    assert_eq!(front.items.iter().map(ResourceExt::name_any).collect::<Vec<_>>(), ["web"]);
    assert_eq!(api.list(&ListParams::default().labels("tier!=front")).await.unwrap().items.len(), 0);
    assert_eq!(api.list_metadata(&ListParams::default()).await.unwrap().items[0].name_any(), "web");

    assert!(api.delete("web", &DeleteParams::default()).await.unwrap().is_right());
    assert!(api.get_opt("web").await.unwrap().is_none());
    server.stop().await;
}

#[tokio::test]
async fn long_lists_come_in_pages_of_one_state() {
    let server = TestServer::start().await;
    let api = bindings(&server.kube().await);
    for i in 0..7 {
        api.create(&PostParams::default(), &object(&format!("w{i}"))).await.unwrap();
    }
    let mut names = vec![];
    let mut page = ListParams::default().limit(3);
    loop {
        let list = api.list(&page).await.unwrap();
        names.extend(list.items.iter().map(ResourceExt::name_any));
        // Changes between two pages are not included.
        api.create(&PostParams::default(), &object(&format!("x{}", names.len()))).await.unwrap();
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => break,
        }
    }
    assert_eq!(names, ["w0", "w1", "w2", "w3", "w4", "w5", "w6"]);
    server.stop().await;
}

#[tokio::test]
async fn a_watch_sees_every_change_in_order() {
    let server = TestServer::start().await;
    let api = bindings(&server.kube().await);
    let start = api.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    let mut events = Box::pin(api.watch(&WatchParams::default(), &start).await.unwrap());
    api.create(&PostParams::default(), &object("web")).await.unwrap();
    let patch = Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}}));
    api.patch("web", &PatchParams::default(), &patch).await.unwrap();
    api.delete("web", &DeleteParams::default()).await.unwrap();
    let mut seen = vec![];
    let mut revisions: Vec<u64> = vec![];
    while seen.len() < 3 {
        let event = tokio::time::timeout(SOON, events.try_next()).await.unwrap().unwrap().unwrap();
        let (kind, object) = match event {
            WatchEvent::Added(object) => ("ADDED", object),
            WatchEvent::Modified(object) => ("MODIFIED", object),
            WatchEvent::Deleted(object) => ("DELETED", object),
            WatchEvent::Bookmark(_) => continue,
            WatchEvent::Error(status) => panic!("{status:?}"),
        };
        seen.push(kind);
        revisions.push(object.resource_version().unwrap().parse().unwrap());
    }
    assert_eq!(seen, ["ADDED", "MODIFIED", "DELETED"]);
    assert!(revisions.is_sorted_by(|a, b| a < b), "{revisions:?}");
    server.stop().await;
}

#[tokio::test]
async fn a_reflector_follows_the_server_with_both_ways_of_listing() {
    let server = TestServer::start().await;
    let client = server.kube().await;
    for config in [watcher::Config::default(), watcher::Config::default().streaming_lists()] {
        let api = bindings(&client);
        api.create(&PostParams::default(), &object("old")).await.unwrap();
        let kind = GroupVersionKind::gvk("work.karmada.io", "v1alpha2", "ResourceBinding");
        let writer = reflector::store::Writer::new(ApiResource::from_gvk(&kind));
        let store = writer.as_reader();
        let mut changes = Box::pin(reflector(writer, watcher(api.clone(), config)).touched_objects());
        let mut next = async || tokio::time::timeout(SOON, changes.next()).await.unwrap().unwrap().unwrap();
        assert_eq!(next().await.name_any(), "old");
        api.create(&PostParams::default(), &object("new")).await.unwrap();
        assert_eq!(next().await.name_any(), "new");
        assert_eq!(store.len(), 2);
        api.delete("old", &DeleteParams::default()).await.unwrap();
        assert_eq!(next().await.name_any(), "old");
        assert_eq!(store.state().iter().map(|it| it.name_any()).collect::<Vec<_>>(), ["new"]);
        api.delete("new", &DeleteParams::default()).await.unwrap();
    }
    server.stop().await;
}

#[tokio::test]
async fn ap28_a_client_applies_forces_and_is_told_of_conflicts() {
    let server = TestServer::start().await;
    let api = bindings(&server.kube().await);
    let config = |replicas: i64| {
        let mut config = binding("web");
        config["spec"]["replicas"] = json!(replicas);
        Patch::Apply(config)
    };
    let applied = api.patch("web", &PatchParams::apply("one"), &config(2)).await.unwrap();
    assert_eq!(applied.data["spec"]["replicas"], 2);
    let refused = api.patch("web", &PatchParams::apply("two"), &config(3)).await.unwrap_err();
    assert!(matches!(refused, kube::Error::Api(status) if status.is_conflict()));
    let forced = api.patch("web", &PatchParams::apply("two").force(), &config(3)).await.unwrap();
    assert_eq!(forced.data["spec"]["replicas"], 3);
    let managers: Vec<&str> = forced.managed_fields().iter().filter_map(|entry| entry.manager.as_deref()).collect();
    assert_eq!(managers, ["one", "two"]);
    server.stop().await;
}

/// A kind as a controller in Rust declares it.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct WorkloadRebalancer {
    api_version: String,
    kind: String,
    metadata: ObjectMeta,
    spec: RebalancerSpec,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    status: Option<RebalancerStatus>,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct RebalancerSpec {
    workloads: Vec<serde_json::Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ttl_seconds_after_finished: Option<i32>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct RebalancerStatus {
    #[serde(default)]
    observed_generation: i64,
}

impl kube::Resource for WorkloadRebalancer {
    type DynamicType = ();
    type Scope = kube::core::ClusterResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "WorkloadRebalancer".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        "apps.karmada.io".into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1alpha1".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "workloadrebalancers".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

fn typed(name: &str) -> WorkloadRebalancer {
    serde_json::from_value(rebalancer(name)).unwrap()
}

#[tokio::test]
async fn a_typed_api_does_what_the_dynamic_one_does() {
    let server = TestServer::start().await;
    let api: Api<WorkloadRebalancer> = Api::all(server.kube().await);
    let created = api.create(&PostParams::default(), &typed("r")).await.unwrap();
    assert_eq!((created.metadata.generation, created.spec.workloads.len()), (Some(1), typed("r").spec.workloads.len()));

    let mut changed = created.clone();
    changed.spec.ttl_seconds_after_finished = Some(60);
    let replaced = api.replace("r", &PostParams::default(), &changed).await.unwrap();
    assert_eq!((replaced.metadata.generation, replaced.spec.ttl_seconds_after_finished), (Some(2), Some(60)));
    let mut seen = replaced.clone();
    seen.status = Some(RebalancerStatus { observed_generation: 2 });
    let seen = api.replace_status("r", &PostParams::default(), &seen).await.unwrap();
    assert_eq!(seen.status.unwrap().observed_generation, 2);

    // An apply sends the whole type, without the fields that only the server sets.
    let applied = api.patch("s", &PatchParams::apply("one"), &Patch::Apply(typed("s"))).await.unwrap();
    assert_eq!(applied.managed_fields()[0].manager.as_deref(), Some("one"));
    let page = api.list(&ListParams::default().limit(1)).await.unwrap();
    assert_eq!((page.items.len(), page.metadata.remaining_item_count), (1, Some(1)));
    let entry = api.entry("r").await.unwrap();
    assert!(matches!(entry, kube::api::entry::Entry::Occupied(_)));
    api.delete_collection(&DeleteParams::default(), &ListParams::default()).await.unwrap();
    assert!(api.get_opt("r").await.unwrap().is_none());
    server.stop().await;
}

#[tokio::test]
async fn a_typed_reflector_streams_its_first_list_and_goes_on_from_there() {
    let server = TestServer::start().await;
    let api: Api<WorkloadRebalancer> = Api::all(server.kube().await);
    for name in ["a", "b"] {
        api.create(&PostParams::default(), &typed(name)).await.unwrap();
    }
    let mut events = Box::pin(watcher(api.clone(), watcher::Config::default().streaming_lists()));
    let mut next = async || tokio::time::timeout(SOON, events.next()).await.unwrap().unwrap().unwrap();
    assert!(matches!(next().await, watcher::Event::Init));
    for name in ["a", "b"] {
        assert!(matches!(next().await, watcher::Event::InitApply(object) if object.name_any() == name));
    }
    assert!(matches!(next().await, watcher::Event::InitDone), "the bookmark that ends the list was understood");
    api.delete("a", &DeleteParams::default()).await.unwrap();
    assert!(matches!(next().await, watcher::Event::Delete(object) if object.name_any() == "a"));
    server.stop().await;
}
