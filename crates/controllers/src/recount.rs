//! Recounts each quota once at the start (QU5).
//!
//! While the server runs, the writer keeps quotas exact (`quota`). A quota is wrong only if it was
//! not maintained: the gate `FederatedQuotaEnforcement` was off, or the database was written by
//! another program.

use futures_util::future::{BoxFuture, FutureExt};
use serde_json::Value;

use super::commit::commit_one;
use ballast_api::karmada::policy::v1alpha1::{FEDERATED_RESOURCE_QUOTAS, FederatedResourceQuota};
use ballast_k8s::{Edit, GroupResource, Key};
use ballast_quota as quota;
use ballast_registry::{Change, Client};
use ballast_watch::{Event, View};
use ballast_worker::{BatchOutcome, KeyOutcome, Next, Queue, Work};

pub struct Recount {
    client: Client,
}

impl Recount {
    pub fn new(client: Client) -> Recount {
        Recount { client }
    }
}

impl Work for Recount {
    fn name(&self) -> &'static str {
        "quota"
    }

    fn interest(&self) -> Vec<GroupResource> {
        vec![FEDERATED_RESOURCE_QUOTAS]
    }

    fn list(&mut self, view: &View, queue: &mut Queue) {
        view.list(FEDERATED_RESOURCE_QUOTAS, None).for_each(|quota| queue.mark(quota.key.clone(), 0));
    }

    fn on_event(&mut self, _event: &Event, _queue: &mut Queue) {}

    fn begin(&mut self, keys: Vec<Key>) -> BoxFuture<'static, BatchOutcome> {
        let client = self.client.clone();
        async move {
            let mut worked = BatchOutcome::default();
            for key in keys {
                let next = recount(&client, &key).await;
                worked.outcomes.push(KeyOutcome::new(key, next));
            }
            worked
        }
        .boxed()
    }
}

/// Writes the usage of a quota if its status differs.
async fn recount(client: &Client, key: &Key) -> Next {
    let view = client.view();
    let Some(object) = view.get(key) else { return Next::Done };
    let (Ok(quota), Some(counted)) = (object.typed::<FederatedResourceQuota>(), quota::counted(&view, object)) else {
        return Next::Done;
    };
    if quota.status == counted {
        return Next::Done;
    }
    let Ok(status @ Value::Object(_)) = serde_json::to_value(&counted) else { return Next::Done };
    tracing::info!(%key, "a quota said something else than its bindings use");
    let edits = vec![Edit::set(&["status"], status)];
    commit_one(client, key, Change::Edit { base: object.clone(), edits }, Next::Done).await
}
