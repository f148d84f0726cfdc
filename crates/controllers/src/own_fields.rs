//! Carries a policy's own fields (`own_fields`) to its bindings where Karmada's detector copies the
//! rest (D54).
//!
//! The detector parses a policy into its own type, which lacks these fields. So a change of these
//! fields alone makes it write no binding, and `actions::CarriedFields` has no write to add them
//! to. In this case this loop writes. If the rest of the placement has changed too, the detector's
//! write follows, and `actions::CarriedFields` adds the fields to it.
//!
//! It runs where `policy` does not, which copies whole placements.

use std::collections::HashMap;

use futures_util::future::{BoxFuture, FutureExt};
use serde_json::{Map, Value};

use super::commit::commit_all;
use ballast_api::karmada::policy::v1alpha1::{POLICIES, PolicyIds, own_fields};
use ballast_api::karmada::work::v1alpha2::{BINDINGS, PartialBinding};
use ballast_k8s::{GroupResource, Key};
use ballast_registry::{Change, Client, Part};
use ballast_watch::{Event, EventKind, View};
use ballast_worker::{BatchOutcome, KeyOutcome, Next, Queue, Work};

/// Maximum number of policies that share one scan of the bindings.
const BATCH_MAX: usize = 10_000;

pub struct OwnFields {
    client: Client,
}

impl OwnFields {
    pub fn new(client: Client) -> OwnFields {
        OwnFields { client }
    }
}

impl Work for OwnFields {
    fn name(&self) -> &'static str {
        "own-fields"
    }

    fn interest(&self) -> Vec<GroupResource> {
        POLICIES.to_vec()
    }

    /// Nothing is copied at start: fields that a user removed from a binding stay removed until the
    /// policy changes.
    fn list(&mut self, _view: &View, _queue: &mut Queue) {}

    fn on_event(&mut self, event: &Event, queue: &mut Queue) {
        let Some(before) = event.previous.as_deref().filter(|_| event.kind != EventKind::Deleted) else { return };
        if before.generation == event.object.generation {
            return;
        }
        let (Ok(before), Ok(after)) = (before.value(), event.object.value()) else { return };
        if !own_fields::has_same_own(&before, &after) {
            queue.mark(event.object.key.clone(), 0);
        }
    }

    fn begin(&mut self, keys: Vec<Key>) -> BoxFuture<'static, BatchOutcome> {
        let client = self.client.clone();
        async move {
            let next = carry(&client, &keys).await;
            let outcomes = keys.into_iter().map(|key| KeyOutcome::new(key, next)).collect();
            BatchOutcome { outcomes, ..BatchOutcome::default() }
        }
        .boxed()
    }

    fn batch(&self) -> usize {
        BATCH_MAX
    }
}

/// Copies the fields of these policies to their bindings. Returns the next step for all of them.
async fn carry(client: &Client, policies: &[Key]) -> Next {
    let (view, policies) = (client.view(), policies.to_vec());
    let Ok(stale) = tokio::task::spawn_blocking(move || stale(&view, &policies)).await else { return Next::Retry };
    commit_all(client, stale).await
}

/// Returns updates of the bindings that lack the fields of their policy.
fn stale(view: &View, policies: &[Key]) -> Vec<(GroupResource, Change)> {
    let found = policies.iter().filter_map(|key| Some((key, view.get(key)?)));
    let found: HashMap<&Key, Map<String, Value>> =
        found.filter_map(|(key, policy)| Some((key, policy.value().ok()?))).collect();
    // All policies are needed, because an unchanged one may take precedence.
    let ids = PolicyIds::of(POLICIES.into_iter().flat_map(|kind| view.list(kind, None)));
    let bindings = BINDINGS.into_iter().flat_map(|kind| view.list(kind, None)).filter(|binding| !binding.deleting);
    let carried = bindings.filter_map(|binding| {
        let content = binding.text.content();
        let partial = PartialBinding::of(&content).ok()?;
        // The policy of the binding's namespace precedes a cluster-wide one, and is listed first.
        let policy = found.get(ids.managing(binding, &partial).first()?)?;
        let mut object = binding.value().ok()?;
        own_fields::carry(policy, &mut object)
            .then_some((binding.key.resource, Change::Update { part: Part::Main, object }))
    });
    carried.collect()
}
