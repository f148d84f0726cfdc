//! Deletes finished WorkloadRebalancers when their time to live has passed (R84-R91).
//!
//! The decision is made from the newest object, and the delete names its revision. So an edit in
//! between wins (R87).

mod plan;

use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt};

use self::plan::Expiry;
use super::commit::commit_one;
use super::rebalancer::WORKLOAD_REBALANCERS;
use ballast_api::karmada::apps::v1alpha1::WorkloadRebalancer;
use ballast_base::clock::Clock;
use ballast_k8s::{Edit, GroupResource, Key, Time, read_json};
use ballast_registry::{Change, Client};
use ballast_watch::{Event, EventKind, View};
use ballast_worker::{BatchOutcome, KeyOutcome, Next, Queue, Work};

/// The member without which a WorkloadRebalancer stays.
const TIME_TO_LIVE: &[u8] = b"\"ttlSecondsAfterFinished\"";

pub struct Ttl {
    client: Client,
    clock: Arc<dyn Clock>,
}

impl Ttl {
    pub fn new(client: Client, clock: Arc<dyn Clock>) -> Ttl {
        Ttl { client, clock }
    }
}

impl Work for Ttl {
    fn name(&self) -> &'static str {
        "ttl"
    }

    fn interest(&self) -> Vec<GroupResource> {
        vec![WORKLOAD_REBALANCERS]
    }

    fn list(&mut self, view: &View, queue: &mut Queue) {
        for object in view.list(WORKLOAD_REBALANCERS, None) {
            queue.mark(object.key.clone(), 0);
        }
    }

    fn on_event(&mut self, event: &Event, queue: &mut Queue) {
        if event.kind != EventKind::Deleted {
            queue.mark_changed(event.object.key.clone(), 0, event.revision);
        }
    }

    fn begin(&mut self, keys: Vec<Key>) -> BoxFuture<'static, BatchOutcome> {
        let (client, now) = (self.client.clone(), self.clock.now());
        async move {
            let mut worked = BatchOutcome::default();
            for key in keys {
                let next = expire(&client, &key, now).await;
                worked.outcomes.push(KeyOutcome::new(key, next));
            }
            worked
        }
        .boxed()
    }
}

async fn expire(client: &Client, key: &Key, now: Time) -> Next {
    let view = client.view();
    let Some(object) = view.get(key).filter(|object| !object.deleting) else { return Next::Done };
    // Most have no time to live, and parsing a list of ten thousand workloads takes milliseconds.
    if memchr::memmem::find(&object.text.content(), TIME_TO_LIVE).is_none() {
        return Next::Done;
    }
    let rebalancer: WorkloadRebalancer = match read_json(&object.text.content()) {
        Ok(rebalancer) => rebalancer,
        Err(error) => {
            tracing::warn!(%key, %error, "cannot be read as a WorkloadRebalancer");
            return Next::Unschedulable;
        }
    };
    match plan::plan(object.generation, &rebalancer.spec, &rebalancer.status, now) {
        Expiry::Keep => Next::Done,
        Expiry::Wait { seconds } => Next::After(seconds.saturating_mul(1_000)),
        Expiry::Delete => {
            let delete = Change::Delete { key: key.clone(), revision: Some(object.revision) };
            commit_one(client, key, delete, Next::Done).await
        }
        Expiry::ResetFinishTime => {
            let edits = vec![Edit::set(&["status", "finishTime"], now.to_string())];
            commit_one(client, key, Change::Edit { base: Arc::clone(object), edits }, Next::Done).await
        }
    }
}
