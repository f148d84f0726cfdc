//! Brings a changed PropagationPolicy or ClusterPropagationPolicy to the bindings that it manages (R121).
//!
//! Bindings say by labels and annotations who manages them (`PolicyIds`). A policy reaches them when it is
//! created or its spec changes, and at start; what is changed on a binding by hand stays until then, as
//! with Karmada. Which policy claims which template is for whoever makes the bindings.
//!
//! One look into all bindings serves as many policies as have changed: their number must not multiply.

mod plan;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::api::karmada::policy::v1alpha1::{POLICIES, PolicyIds};
use crate::api::karmada::work::v1alpha2::BINDINGS;
use crate::k8s::{GroupResource, Key, Object};
use crate::registry::{Atomicity, Change, Client, Part};
use crate::watch::{Event, EventKind, View};
use crate::worker::{Failure, Next, Outcome, Queue, Work, Worked};

/// Policies that share one look into the bindings.
const BATCH_MAX: usize = 10_000;
/// Bindings written in one batch.
const BINDINGS_PER_COMMIT_MAX: usize = 1_000;

pub struct Policies {
    client: Client,
}

impl Policies {
    pub fn new(client: Client) -> Policies {
        Policies { client }
    }
}

impl Work for Policies {
    fn name(&self) -> &'static str {
        "policy"
    }

    fn interest(&self) -> Vec<GroupResource> {
        POLICIES.to_vec()
    }

    fn list(&mut self, view: &View, queue: &mut Queue) {
        for policy in POLICIES.into_iter().flat_map(|kind| view.list(kind, None)) {
            queue.mark(policy.key.clone(), 0);
        }
    }

    fn notice(&mut self, event: &Event, queue: &mut Queue) {
        let before = event.previous.as_ref().map(|object| (object.generation, &object.labels));
        if event.kind != EventKind::Deleted && before != Some((event.object.generation, &event.object.labels)) {
            queue.mark(event.object.key.clone(), 0);
        }
    }

    fn begin(&mut self, keys: Vec<Key>) -> BoxFuture<'static, Worked> {
        let client = self.client.clone();
        async move {
            let next = renew(&client, &keys).await;
            let outcomes = keys.into_iter().map(|key| Outcome::new(key, next)).collect();
            Worked { outcomes, ..Worked::default() }
        }
        .boxed()
    }

    fn batch(&self) -> usize {
        BATCH_MAX
    }
}

/// Renews the bindings of these policies, and says what is next for the policies.
async fn renew(client: &Client, policies: &[Key]) -> Next {
    let (view, policies) = (client.view(), policies.iter().cloned().collect());
    let stale = tokio::task::spawn_blocking(move || stale(&view, &policies)).await;
    let Ok(stale) = stale else { return Next::Retry };
    if !stale.is_empty() {
        tracing::info!(bindings = stale.len(), "policies changed");
    }
    let mut next = Next::Done;
    let mut changes = stale.into_iter().peekable();
    while changes.peek().is_some() {
        let chunk: Vec<(GroupResource, Change)> = changes.by_ref().take(BINDINGS_PER_COMMIT_MAX).collect();
        let outcomes = match client.batch(chunk, Atomicity::Each).await {
            Ok(outcomes) => outcomes,
            Err(status) => vec![Err(status)],
        };
        for status in outcomes.into_iter().filter_map(Result::err) {
            tracing::debug!(%status, "a binding was not renewed, looking again");
            next = match (next, Failure::of(&status).into()) {
                (Next::Retry, _) | (_, Next::Retry) => Next::Retry,
                (_, other) => other,
            };
        }
    }
    next
}

/// The bindings that these policies manage and that do not say what the policies say.
fn stale(view: &View, policies: &BTreeSet<Key>) -> Vec<(GroupResource, Change)> {
    let active = |key: &Key| view.get(key)?.value().ok().filter(plan::is_active);
    let active: BTreeMap<&Key, Map<String, Value>> =
        policies.iter().filter_map(|key| Some((key, active(key)?))).collect();
    if active.is_empty() {
        return Vec::new();
    }
    let ids = PolicyIds::of(active.keys().filter_map(|key| view.get(key)).map(|policy| &**policy));
    let bindings = BINDINGS.into_iter().flat_map(|kind| view.list(kind, None)).filter(|binding| !binding.deleting);
    let renewed = |binding: &Arc<Object>| {
        let managers = ids.managers(binding, &annotations(binding)?);
        let policy = managers.iter().find_map(|key| active.get(key))?;
        let object = plan::renewed(policy, binding.value().ok()?)?;
        Some((binding.key.resource, Change::Update { part: Part::Main, object }))
    };
    bindings.filter_map(renewed).collect()
}

/// Read without decoding the rest.
fn annotations(binding: &Object) -> Option<BTreeMap<String, String>> {
    #[derive(Deserialize)]
    struct Binding {
        metadata: Metadata,
    }
    #[derive(Deserialize)]
    struct Metadata {
        #[serde(default)]
        annotations: BTreeMap<String, String>,
    }
    serde_json::from_slice::<Binding>(&binding.json).ok().map(|binding| binding.metadata.annotations)
}
