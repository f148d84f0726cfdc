//! Places workloads with an estimator in each cluster: `cargo bench --bench load -- estimators`.
//!
//! The estimators are the fake ones of the tests, which implement the protocol of
//! karmada-scheduler-estimator without nodes, so their response time is negligible. 10,000
//! workloads with ten different requirements are created, and then rescheduled by a
//! WorkloadRebalancer.

use std::sync::Arc;
use std::time::Instant;

use ballast::cli::bench::placed::Binding;
use serde_json::{Value, json};

use super::estimator::{Estimator, Manner, addresses};
use super::process::ServerProcess;
use super::setup::{BINDINGS, REBALANCERS, await_scheduled, binding, make_fleet, storm};

const COUNT: usize = 10_000;
const CLUSTERS: usize = 20;
const REQUIREMENTS: usize = 10;
const ROUNDS: usize = 3;
/// Capacity for more than all workloads.
const ROOM: i32 = 1_000_000;

pub async fn run() {
    for has_estimators in [false, true] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut estimators = Vec::new();
        for _ in 0..CLUSTERS {
            estimators.push(Estimator::start(Manner::Say(ROOM)).await);
        }
        let names: Vec<String> = (0..CLUSTERS).map(|number| format!("member{number}")).collect();
        let named: Vec<_> = names.iter().map(String::as_str).zip(&estimators).collect();
        let file = addresses(folder.path(), &named);
        let file = format!("--scheduler-estimator-addresses-file={}", file.display());
        let flags = ["--enable-scheduler-estimator", &file];
        let server = ServerProcess::start(folder.path(), if has_estimators { &flags } else { &[] });
        let client = Arc::new(server.client().await);
        make_fleet(&client, CLUSTERS).await;
        println!("{COUNT} bindings over {CLUSTERS} clusters, with estimators: {has_estimators}");
        let asked = || estimators.iter().map(|estimator| estimator.asked().len()).sum::<usize>();
        let (begun, cpu) = (Instant::now(), server.cpu());
        let sender = Arc::clone(&client);
        storm(COUNT, 64, move |i| {
            let client = Arc::clone(&sender);
            async move {
                let mut object = binding(i);
                let cpu = format!("{}m", 100 + 10 * (i % REQUIREMENTS));
                object["spec"]["replicaRequirements"]["resourceRequest"]["cpu"] = cpu.into();
                client.post(BINDINGS, &object).await.expect("a binding");
            }
        })
        .await;
        await_scheduled(&client, COUNT, 0, Binding::is_placed).await;
        told("created and placed", begun, server.cpu() - cpu, asked());
        for round in 0..ROUNDS {
            let workload = |i| json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": format!("web-{i}"), "namespace": "default"});
            let workloads: Vec<Value> = (0..COUNT).map(workload).collect();
            let rebalancer = json!({"apiVersion": "apps.karmada.io/v1alpha1", "kind": "WorkloadRebalancer",
                "metadata": {"name": format!("all-{round}")}, "spec": {"workloads": workloads}});
            let (before, begun, cpu) = (asked(), Instant::now(), server.cpu());
            let created = client.post(REBALANCERS, &rebalancer).await.expect("created");
            let since = created["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
            await_scheduled(&client, COUNT, since, Binding::is_decided_again).await;
            told("rescheduled", begun, server.cpu() - cpu, asked() - before);
        }
    }
}

fn told(what: &str, begun: Instant, cpu: std::time::Duration, questions: usize) {
    let whole = begun.elapsed();
    let rate = COUNT as f64 / whole.as_secs_f64();
    println!("{what}: {whole:.2?}, {rate:.0} bindings a second (server CPU {cpu:.2?}), {questions} questions");
}
