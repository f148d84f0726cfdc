//! The host cluster's other parts: namespaces, leader election, and events.

use std::path::Path;

use ballast::node::config::ServeArgs;
use http::Method;
use serde_json::{Value, json};

use crate::support::aggregated::Aggregated;
use crate::support::host::Fault;
use crate::support::objects::binding;
use crate::support::wait_for;

const BINDINGS: &str = "/apis/work.karmada.io/v1alpha2/namespaces/shop/resourcebindings";
const REBALANCERS: &str = "/apis/apps.karmada.io/v1alpha1/workloadrebalancers";
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/ballast-system/leases/ballast";
const MASTER: [(&str, &str); 3] =
    [("X-Remote-User", "admin"), ("X-Remote-Group", "system:masters"), ("Content-Type", "application/json")];

fn namespace(phase: &str) -> Value {
    json!({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "shop"}, "status": {"phase": phase}})
}

#[tokio::test]
async fn ad2_nothing_is_created_in_a_namespace_that_is_missing_or_about_to_go() {
    let server = Aggregated::start().await;
    let create = async || server.proxy().send(Method::POST, BINDINGS, &MASTER, binding("web").to_string()).await;
    let missing = create().await;
    assert_eq!((missing.code.as_u16(), &missing.json()["message"]), (404, &json!("namespaces \"shop\" not found")));
    server.host.put("/api/v1/namespaces/shop", namespace("Terminating"));
    let terminating = wait_for("the news", async || Some(create().await).filter(|it| it.code == 403)).await.json();
    assert_eq!(
        terminating["message"],
        "resourcebindings.work.karmada.io \"web\" is forbidden: unable to create new content in namespace shop \
         because it is being terminated"
    );
    let cause = json!({"reason": "NamespaceTerminating", "message": "namespace shop is being terminated",
        "field": "metadata.namespace"});
    assert_eq!(terminating["details"]["causes"][0], cause);
    server.host.put("/api/v1/namespaces/shop", namespace("Active"));
    wait_for("the namespace", async || Some(create().await).filter(|it| it.code == 201)).await;
    assert_eq!(create().await.code, 409);
    server.host.remove("/api/v1/namespaces/shop");
    wait_for("its end", async || Some(create().await).filter(|it| it.code == 404)).await;
    let gone = server.proxy().send(Method::DELETE, &format!("{BINDINGS}/web"), &MASTER, "").await;
    assert_eq!(gone.code, 200, "what is there can still be deleted");
    server.stop().await;
}

#[tokio::test]
async fn ad2_when_nobody_can_say_nothing_is_created_unless_the_switch_is_off() {
    let server = Aggregated::start().await;
    server.host.break_below("/api/v1/namespaces", Fault::Code(503));
    assert_eq!(server.proxy().send(Method::POST, BINDINGS, &MASTER, binding("web").to_string()).await.code, 500);
    server.stop().await;
    let server = Aggregated::with(|args, _| args.host.namespace_lifecycle = false).await;
    assert_eq!(server.proxy().send(Method::POST, BINDINGS, &MASTER, binding("web").to_string()).await.code, 201);
    server.stop().await;
}

fn rebalancer(name: &str) -> String {
    json!({"apiVersion": "apps.karmada.io/v1alpha1", "kind": "WorkloadRebalancer", "metadata": {"name": name},
        "spec": {"workloads": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "no", "namespace": "shop"}]}})
    .to_string()
}

async fn is_finished(server: &Aggregated, name: &str) -> bool {
    let reply = server.proxy().send(Method::GET, &format!("{REBALANCERS}/{name}"), &MASTER, "").await;
    reply.json()["status"]["finishTime"].is_string()
}

fn elected(args: &mut ServeArgs, _: &Path) {
    args.host.leader_elect = true;
    args.host.leader_elect_retry_period = "500ms".parse().unwrap();
    args.host.leader_elect_renew_deadline = "50s".parse().unwrap();
    args.host.leader_elect_lease_duration = "60s".parse().unwrap();
}

#[tokio::test]
async fn a_second_replica_stands_by_until_the_first_is_gone() {
    let first = Aggregated::with(|args, folder| {
        elected(args, folder);
        // This includes the time to release the lease.
        args.host.leader_elect_retry_period = "20s".parse().unwrap();
    })
    .await;
    let holder = |server: &Aggregated| {
        let holder = server.host.object(LEASE)?["spec"]["holderIdentity"].as_str()?.to_owned();
        (!holder.is_empty()).then_some(holder)
    };
    let leader = wait_for("a leader", async || holder(&first)).await;
    let second = first.beside(elected).await;
    for server in [&first, &second] {
        let reply = server.proxy().send(Method::POST, REBALANCERS, &MASTER, rebalancer("ours")).await;
        assert_eq!(reply.code, 201, "both serve");
    }
    wait_for("the leader's work", async || is_finished(&first, "ours").await.then_some(())).await;
    assert_eq!(holder(&first), Some(leader.clone()));
    assert!(!is_finished(&second, "ours").await, "the other stands by");
    first.stop().await;
    wait_for("the other's work", async || is_finished(&second, "ours").await.then_some(())).await;
    assert_ne!(holder(&second), Some(leader));
    second.stop().await;
}

#[tokio::test]
async fn a_replica_that_loses_its_lease_ends() {
    let server = Aggregated::with(|args, folder| {
        elected(args, folder);
        args.host.leader_elect_renew_deadline = "1s".parse().unwrap();
    })
    .await;
    wait_for("a leader", async || server.host.object(LEASE)).await;
    server.host.break_below("/apis/coordination.k8s.io", Fault::Hang);
    let error = server.ended().await.unwrap_err();
    assert!(format!("{error:#}").contains("the lease was lost"), "{error:#}");
}

/// The replica that took the lease is already active. A loser must not continue until the end of
/// its own term.
#[tokio::test]
async fn a_replica_that_sees_its_lease_in_other_hands_ends_at_once() {
    let server = Aggregated::with(|args, folder| {
        elected(args, folder);
        args.host.leader_elect_renew_deadline = "10m".parse().unwrap();
        args.host.leader_elect_lease_duration = "11m".parse().unwrap();
    })
    .await;
    let mut lease = wait_for("a leader", async || server.host.object(LEASE)).await;
    lease["spec"]["holderIdentity"] = json!("another");
    server.host.put(LEASE, lease);
    let error = server.ended().await.unwrap_err();
    assert!(format!("{error:#}").contains("the lease was lost"), "{error:#}");
}

#[tokio::test]
async fn events_are_posted_to_the_host_cluster_and_counted_there() {
    let server = Aggregated::with(|args, _| args.host.namespace_lifecycle = false).await;
    let mut impossible = binding("web");
    impossible["spec"]["replicas"] = json!(1);
    impossible["spec"]["placement"] = json!({"clusterAffinity": {"clusterNames": ["nowhere"]}});
    let reply = server.proxy().send(Method::POST, BINDINGS, &MASTER, impossible.to_string()).await;
    assert_eq!(reply.code, 201, "{}", reply.text());
    let event = wait_for("an event", async || server.host.objects_below("/api/v1/namespaces/shop/events/").pop()).await;
    assert_eq!((&event["type"], &event["metadata"]["namespace"]), (&json!("Warning"), &json!("shop")));
    assert!(event["involvedObject"]["name"].is_string() && event["message"].is_string(), "{event}");
    server.stop().await;
}
