//! The new server of the benchmark, and the measurements that need its scheduler.

use std::time::Instant;

use anyhow::Context;
use http::Method;
use serde_json::{Value, json};

use super::load::{Exchange, Measured, exchanges, send};
use super::placed::{self, Binding};
use super::{objects, peer};
use crate::cli::client::{Client, Credentials};
use ballast_node::config::ServeArgs;
use ballast_node::kubeconfig::{Connected, KubeconfigArgs};
use ballast_node::serve;

/// The namespaces of bindings without a scheduler, and of scheduled bindings.
const IDLE: &str = "idle";
const PLACED: &str = "placed";
const CLUSTERS: usize = 20;
/// Enough cpu for all replicas of 100,000 bindings on one cluster.
const CLUSTER_CPU: &str = "640000";

/// Returns the rows in display order. Rows that a peer supports, too, come first.
pub async fn measured(count: usize) -> anyhow::Result<Vec<(&'static str, Measured)>> {
    let folder = tempfile::tempdir()?;
    let config = ServeArgs {
        secure_port: 0,
        database_url: format!("sqlite://{}", folder.path().join("ballast.db").display()),
        cert_dir: folder.path().join("certs"),
        ..ServeArgs::default()
    };
    let server = serve::start(config).await?;
    let rows = rows(&server, count).await;
    server.stop().await?;
    rows
}

async fn rows(server: &serve::Running, count: usize) -> anyhow::Result<Vec<(&'static str, Measured)>> {
    let files = server.certificates.as_ref().context("a server on its own has development certificates")?;
    let named = KubeconfigArgs { kubeconfig: Some(files.admin_kubeconfig.clone()), ..KubeconfigArgs::default() };
    let connected = named.connect().await?;
    let credentials = Credentials { ca: &files.ca_cert, certificate: &files.admin_cert, key: &files.admin_key };
    let watch = Client::connect(server.address, &credentials).await?;
    let mut rows = peer::common(&connected, IDLE, count).await?;
    make_clusters(&connected).await?;

    let began = Instant::now();
    let to = objects::bindings_path(PLACED);
    let create = move |number| Exchange {
        method: Method::POST,
        body: objects::binding(PLACED, number).to_string().into(),
        ..Exchange::get(to.clone())
    };
    let (_, there) = exchanges(&connected, count, create).await?;
    let path = objects::bindings_path(PLACED);
    placed::wait(&watch, &path, there, Binding::is_placed).await?;
    rows.push(("create and place: bindings", Measured::once(there, began.elapsed())));

    let review = json!({
        "apiVersion": "ballast.dev/v1alpha1", "kind": "PlacementReview", "metadata": {},
        "spec": {"select": [{"all": true}], "mode": "Fresh"},
    });
    let began = Instant::now();
    post(&connected, "/apis/ballast.dev/v1alpha1/placementreviews", &review).await?;
    rows.push(("review all: bindings", Measured::once(there, began.elapsed())));

    let workloads: Vec<Value> = (0..there).map(|number| objects::workload(PLACED, number)).collect();
    let rebalancer = json!({
        "apiVersion": "apps.karmada.io/v1alpha1", "kind": "WorkloadRebalancer", "metadata": {"name": "bench"},
        "spec": {"workloads": workloads},
    });
    let began = Instant::now();
    let made = post(&connected, objects::REBALANCERS, &rebalancer).await?;
    let since = made["metadata"]["resourceVersion"].as_str().context("a created object has a revision")?;
    placed::wait(&watch, &format!("{path}?resourceVersion={since}"), there, Binding::is_decided_again).await?;
    rows.push(("rebalance all: bindings", Measured::once(there, began.elapsed())));
    Ok(rows)
}

async fn post(server: &Connected, path: &str, object: &Value) -> anyhow::Result<Value> {
    let exchange = Exchange { method: Method::POST, body: object.to_string().into(), ..Exchange::get(path.to_owned()) };
    Ok(serde_json::from_slice(&send(server, exchange).await?)?)
}

async fn make_clusters(server: &Connected) -> anyhow::Result<()> {
    for number in 0..CLUSTERS {
        post(server, objects::CLUSTERS, &objects::cluster(number)).await?;
        let status = Exchange {
            method: Method::PATCH,
            path: format!("{}/member{number}/status", objects::CLUSTERS),
            content_type: "application/merge-patch+json",
            body: objects::cluster_status(CLUSTER_CPU).to_string().into(),
        };
        send(server, status).await?;
    }
    Ok(())
}
