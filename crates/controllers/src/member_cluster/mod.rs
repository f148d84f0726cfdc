//! MemberCluster: reports the membership as conditions, and keeps a deleted cluster by a finalizer
//! until no placement uses it.

mod plan;

use std::collections::BTreeSet;
use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt};
use serde_json::Value;

use super::commit::commit_one;
use super::placement_loop::read;
use ballast_api::fleet::cluster::v1beta1::MemberCluster;
use ballast_api::fleet::placement::v1beta1::any::SCOPES;
use ballast_api::fleet::placement::v1beta1::names::MEMBER_CLUSTERS;
use ballast_api::fleet::placement::v1beta1::{AnyBinding, BindingState};
use ballast_base::clock::Clock;
use ballast_k8s::{GroupResource, Key, Time};
use ballast_registry::{Change, Client, Part};
use ballast_watch::{Event, EventKind, View};
use ballast_worker::{BatchOutcome, KeyOutcome, Next, Queue, Work};

/// Clusters processed at once.
const CONCURRENCY: usize = 4;

pub struct MemberClusterController {
    client: Client,
    clock: Arc<dyn Clock>,
    /// The clusters that are being deleted. Any binding may be the last on one of them.
    leaving: BTreeSet<Key>,
}

impl MemberClusterController {
    pub fn new(client: Client, clock: Arc<dyn Clock>) -> MemberClusterController {
        MemberClusterController { client, clock, leaving: BTreeSet::new() }
    }
}

impl Work for MemberClusterController {
    fn name(&self) -> &'static str {
        "member-cluster"
    }

    fn interest(&self) -> Vec<GroupResource> {
        SCOPES.iter().map(|kinds| kinds.bindings).chain([MEMBER_CLUSTERS]).collect()
    }

    fn list(&mut self, view: &View, queue: &mut Queue) {
        let leaving = view.list(MEMBER_CLUSTERS, None).filter(|object| object.deleting);
        self.leaving = leaving.map(|object| object.key.clone()).collect();
        for object in view.list(MEMBER_CLUSTERS, None) {
            queue.mark(object.key.clone(), 0);
        }
    }

    fn on_event(&mut self, event: &Event, queue: &mut Queue) {
        let object = &event.object;
        if object.key.resource != MEMBER_CLUSTERS {
            return self.leaving.iter().for_each(|cluster| queue.mark(cluster.clone(), 0));
        }
        if event.kind == EventKind::Deleted {
            self.leaving.remove(&object.key);
            return;
        }
        if object.deleting {
            self.leaving.insert(object.key.clone());
        }
        queue.mark(object.key.clone(), 0);
    }

    fn begin(&mut self, keys: Vec<Key>) -> BoxFuture<'static, BatchOutcome> {
        let (client, now) = (self.client.clone(), self.clock.now());
        async move {
            let mut worked = BatchOutcome::default();
            for key in keys {
                let next = keep(&client, &key, now).await;
                worked.outcomes.push(KeyOutcome::new(key, next));
            }
            worked
        }
        .boxed()
    }

    fn concurrency(&self) -> usize {
        CONCURRENCY
    }
}

async fn keep(client: &Client, key: &Key, now: Time) -> Next {
    let view = client.view();
    let Some(object) = view.get(key) else { return Next::Done };
    let Some(cluster) = read::<MemberCluster>(object) else { return Next::Done };
    // Only a cluster that is being deleted needs this.
    let is_counted_on = object.deleting && is_counted_on(&view, &key.name);
    let plan = plan::plan(&plan::ObservedMember { cluster: &cluster, is_counted_on, now });
    let next = plan.next_check_seconds.map_or(Next::Done, |seconds| Next::After(seconds.saturating_mul(1_000)));
    let Some(kept) = plan.cluster else { return next };
    let Ok(Value::Object(tree)) = serde_json::to_value(&kept) else {
        unreachable!("a kind is written as a JSON object")
    };
    commit_one(client, key, Change::Update { part: Part::Whole, object: tree }, next).await
}

fn is_counted_on(view: &View, cluster: &str) -> bool {
    let mut bindings = SCOPES.iter().flat_map(|kinds| view.list(kinds.bindings, None));
    bindings.any(|object| {
        let counts = |binding: Arc<AnyBinding>| {
            let is_live = matches!(binding.spec.state, BindingState::Scheduled | BindingState::Bound);
            is_live && binding.spec.target_cluster == cluster
        };
        !object.deleting && read::<AnyBinding>(object).is_some_and(counts)
    })
}
