//! Replicas of a shared log with `--leader-elect`: the Lease of the host cluster names the leader,
//! and determines the term.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ballast::node::config::ServeArgs;
use ballast::store::{Candidate, ElectionState, MemoryStore, Store, Term};
use http::Method;
use serde_json::{Value, json};

use crate::support::aggregated::Aggregated;
use crate::support::objects::{BINDINGS, binding};
use crate::support::wait_for;

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/ballast-system/leases/ballast";
/// The group with all rights.
const MASTER: [(&str, &str); 3] =
    [("X-Remote-User", "admin"), ("X-Remote-Group", "system:masters"), ("Content-Type", "application/json")];

fn elected(args: &mut ServeArgs, _: &Path) {
    args.host.namespace_lifecycle = false;
    args.host.leader_elect = true;
    args.host.leader_elect_retry_period = "100ms".parse().unwrap();
    args.host.leader_elect_renew_deadline = "50s".parse().unwrap();
    args.host.leader_elect_lease_duration = "60s".parse().unwrap();
}

/// Returns the leader in the database, without taking the lead.
async fn election_state(store: &MemoryStore) -> ElectionState {
    let nobody = Candidate { name: "nobody".to_owned(), address: String::new() };
    store.lead_in(&nobody, Term::default(), Duration::from_secs(1)).await.unwrap()
}

fn transitions(lease: &Value) -> Option<i64> {
    lease["spec"]["holderIdentity"].as_str().filter(|holder| !holder.is_empty())?;
    lease["spec"]["leaseTransitions"].as_i64()
}

/// Waits until the database and the Lease agree, with a later term.
async fn leader_after(server: &Aggregated, store: &MemoryStore, before: Term) -> ElectionState {
    wait_for("one opinion", async || {
        let (told, lease) = (election_state(store).await, server.host.object(LEASE)?);
        (told.term > before && !told.holder.is_empty() && transitions(&lease) == Some(told.term.0)).then_some(told)
    })
    .await
}

async fn post(server: &Aggregated, name: &str) -> u16 {
    let path = format!("{BINDINGS}?timeout=20s");
    server.proxy().send(Method::POST, &path, &MASTER, binding(name).to_string()).await.code.as_u16()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn re2_the_lease_of_the_host_cluster_decides_and_its_transitions_are_the_term() {
    let store = Arc::new(MemoryStore::new());
    // Another replica has led this log before, without a Lease.
    let before = store
        .lead(&Candidate { name: "old".to_owned(), address: String::new() }, Duration::from_millis(1))
        .await
        .unwrap();
    let [first, second] = Aggregated::pair(store.clone(), elected).await;
    let leader = leader_after(&first, &store, before.term).await;
    assert_eq!(leader.address, first.address.to_string(), "the first one was there first");
    assert_eq!(post(&second, "web").await, 201, "who follows passes it on");
    assert_eq!(post(&first, "api").await, 201);

    // It hands both over: the Lease and the term.
    let (host, _folder) = first.stop().await;
    let next = leader_after(&second, &store, leader.term).await;
    assert_eq!(next.address, second.address.to_string());
    assert_eq!(post(&second, "db").await, 201);

    // The Lease has another holder, though the database names none.
    let mut lease = host.object(LEASE).unwrap();
    lease["spec"]["holderIdentity"] = json!("another");
    host.put(LEASE, lease);
    wait_for("the end of the term", async || election_state(&store).await.holder.is_empty().then_some(())).await;
    let path = format!("{BINDINGS}?timeout=1s");
    let refused = second.proxy().send(Method::POST, &path, &MASTER, binding("nobody").to_string()).await;
    assert_eq!(refused.code.as_u16(), 503, "nobody leads: {}", refused.text());

    // A deleted Lease starts to count again, but the term does not.
    let over = election_state(&store).await.term;
    host.remove(LEASE);
    let again = leader_after(&second, &store, over).await;
    assert_eq!(again.address, second.address.to_string());
    assert_eq!(post(&second, "again").await, 201);
    second.stop().await;
    assert!(election_state(&store).await.holder.is_empty(), "and it is given back");
}
