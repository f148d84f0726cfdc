//! Shared by the load benches: concurrent requests, and clusters with bindings to schedule.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use ballast::cli::bench::load;
pub use ballast::cli::bench::load::percentile;
use ballast::cli::bench::objects;
pub use ballast::cli::bench::objects::{CLUSTERS, REBALANCERS, unscheduled};
use ballast::cli::bench::placed::{self, Binding};
use ballast::cli::client::Client;
use bytes::Bytes;
use http::Method;
use http_body_util::BodyExt;
use serde_json::Value;

pub const BINDINGS: &str = "/apis/work.karmada.io/v1alpha2/namespaces/default/resourcebindings";
pub const ALL_BINDINGS: &str = "/apis/work.karmada.io/v1alpha2/resourcebindings";

/// Runs `request` for 0..count with this concurrency. Returns the total time, and the times of all
/// requests, sorted.
pub async fn storm<F, Fut>(count: usize, concurrent: usize, request: F) -> (Duration, Vec<Duration>)
where
    F: Fn(usize) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = ()> + Send,
{
    let request = move |number| {
        let asked = request(number);
        async move {
            asked.await;
            Ok(())
        }
    };
    load::storm(count, concurrent, Duration::MAX, request).await.expect("no request panics")
}

/// Creates `count` clusters with capacity for all workloads.
pub async fn make_fleet(client: &Client, count: usize) {
    add_clusters(client, 0..count, "64000").await;
}

/// Creates clusters with twice the capacity of the others. A fresh decision prefers them; with
/// equal capacity every workload would stay on its clusters.
pub async fn larger_clusters(client: &Client, numbers: Range<usize>) {
    add_clusters(client, numbers, "128000").await;
}

async fn add_clusters(client: &Client, numbers: Range<usize>, cpu: &str) {
    for number in numbers {
        client.post(CLUSTERS, &objects::cluster(number)).await.expect("a cluster");
        let status = format!("{CLUSTERS}/member{number}/status");
        client.merge_patch(&status, &objects::cluster_status(cpu)).await.expect("its status");
    }
}

/// Returns a binding of about 1.5 KB as JSON, divided by free capacity.
pub fn binding(number: usize) -> Value {
    objects::binding("default", number)
}

/// Creates `count` bindings that no scheduler handles. Each has about 1.5 KB in its stored form,
/// with its managed fields.
pub async fn make_idle_bindings(client: &Arc<Client>, count: usize) {
    let sender = client.clone();
    storm(count, 64, move |i| {
        let client = sender.clone();
        async move {
            let mut object = binding(i);
            unscheduled(&mut object);
            object["metadata"]["annotations"] = Value::Null;
            client.post(BINDINGS, &object).await.expect("a binding");
        }
    })
    .await;
}

/// Reads the whole body of a response without decoding it.
pub async fn body_of(client: &Client, method: Method, path: &str, kind: Option<&str>, body: Bytes) -> Bytes {
    let (status, body) = client.send(method, path, kind, body).await.expect("an answer");
    assert!(status.is_success(), "{path}: {status}");
    body.collect().await.expect("the answer ends").to_bytes()
}

/// Creates `count` bindings and waits until all of them are scheduled.
pub async fn make_bindings(client: &Arc<Client>, count: usize) {
    let sender = client.clone();
    storm(count, 64, move |i| {
        let client = sender.clone();
        async move {
            client.post(BINDINGS, &binding(i)).await.expect("a binding");
        }
    })
    .await;
    await_scheduled(client, count, 0, Binding::is_placed).await;
}

/// Waits until `count` different bindings satisfy `wanted`. Considers the changes after a revision,
/// or all bindings if the revision is 0.
pub async fn await_scheduled(client: &Client, count: usize, since: i64, wanted: impl Fn(&Binding) -> bool) {
    let path = match since {
        0 => ALL_BINDINGS.to_owned(),
        since => format!("{ALL_BINDINGS}?resourceVersion={since}"),
    };
    placed::wait(client, &path, count, wanted).await.expect("the watch goes on");
}
