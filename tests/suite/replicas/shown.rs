//! Guarantee 6, for writes: a state that a follower has shown is not denied by its leader, even if
//! it has not yet received the response to its own commit.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;

use ballast::api;
use ballast::clock::{Clock, SystemClock};
use ballast::k8s::{Body, DeleteOptions, Revision, Status, User, WriteOptions};
use ballast::registry::{Caller, Locator, Registry, Warnings};
use ballast::watch::Limits;
use futures_util::FutureExt;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::store::faulty::FaultyStore;
use crate::store::replicas::{join_with, lead};

async fn create(registry: &Registry, target: &Locator) -> Result<(), Status> {
    let object = json!({"apiVersion": "apps.karmada.io/v1alpha1", "kind": "WorkloadRebalancer",
        "metadata": {"name": "web"},
        "spec": {"workloads": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}]}});
    let Value::Object(object) = object else { unreachable!("written as an object above") };
    let caller = Caller { user: &User::default(), warnings: &Warnings::default() };
    let target = Locator { name: None, ..target.clone() };
    registry.create(caller, &target, Body::of(object), &WriteOptions::default()).await.map(drop)
}

async fn delete(registry: &Registry, target: &Locator) -> Result<(), Status> {
    let caller = Caller { user: &User::default(), warnings: &Warnings::default() };
    registry.delete(caller, target, &DeleteOptions::default()).await.map(drop)
}

/// Two dependent writes. The second arrives when the first is stored and shown by others, with its
/// response still in flight.
async fn one_after_the_other(
    store: &FaultyStore,
    shown: impl Future<Output = ()>,
    first: impl Future<Output = Result<(), Status>>,
    second: impl Future<Output = Result<(), Status>>,
) {
    store.hold_answers();
    let (mut first, mut second) = (pin!(first), pin!(second));
    tokio::select! {
        ended = &mut first => panic!("nobody has answered: {ended:?}"),
        () = shown => {}
    }
    let early = second.as_mut().now_or_never();
    store.answers.add_permits(Semaphore::MAX_PERMITS / 2);
    first.await.unwrap();
    let ended = match early {
        Some(ended) => ended,
        None => second.await,
    };
    ended.unwrap();
}

#[tokio::test]
async fn re6_a_leader_does_not_deny_what_a_follower_has_shown() {
    let store = FaultyStore::new();
    let mut leader = join_with(store.clone(), Limits::default()).await;
    let follower = join_with(store.clone(), Limits::default()).await;
    lead(&*store, &mut leader, "one").await;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    let registry = Registry::new(Arc::new(api::kinds()), leader.cache, leader.writer, clock);
    let row = registry.kinds().rows().iter().find(|row| row.kind == "WorkloadRebalancer").unwrap().clone();
    let target = Locator { row, namespace: None, name: Some("web".to_owned()), status: false };

    // It exists, and can be deleted.
    one_after_the_other(
        &store,
        follower.cache.reached(Revision(1)),
        create(&registry, &target),
        delete(&registry, &target),
    )
    .await;
    create(&registry, &target).await.unwrap();
    // It was deleted, and can be created.
    one_after_the_other(
        &store,
        follower.cache.reached(Revision(4)),
        delete(&registry, &target),
        create(&registry, &target),
    )
    .await;
}
