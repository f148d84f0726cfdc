//! Brings a changed PropagationPolicy or ClusterPropagationPolicy to the bindings that it manages (R121).
//!
//! Bindings say by labels and annotations who manages them (`PolicyIds`). A policy reaches them when it is
//! created or its spec changes, and at start; what is changed on a binding by hand stays until then, as
//! with Karmada. Which policy claims which template first is for whoever makes the bindings; a binding
//! whose policy is gone, or is preempted, goes to the next in upstream's order (`plan`).
//!
//! One look into all bindings serves as many policies as have changed: their number must not multiply.

mod plan;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt};
use serde::Deserialize;
use serde_json::Value;

use self::plan::Policy;
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
        if event.kind == EventKind::Deleted || before != Some((event.object.generation, &event.object.labels)) {
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

/// The bindings that do not say what these policies, or those that come after or before them, want.
fn stale(view: &View, changed: &BTreeSet<Key>) -> Vec<(GroupResource, Change)> {
    let living = || POLICIES.into_iter().flat_map(|kind| view.list(kind, None)).filter(|policy| !policy.deleting);
    let trees: BTreeMap<&Key, plan::Tree> =
        living().filter_map(|policy| Some((&policy.key, policy.value().ok()?))).collect();
    let policies: Vec<Policy<'_>> = trees.iter().map(|(key, tree)| Policy { key, tree }).collect();
    let ids = PolicyIds::of(living().map(|policy| &**policy));
    let mut of_kind: HashMap<(&str, &str), Vec<Policy<'_>>> = HashMap::new();
    for policy in &policies {
        for kind in kinds(policy.tree) {
            of_kind.entry(kind).or_default().push(*policy);
        }
    }
    let bindings = BINDINGS.into_iter().flat_map(|kind| view.list(kind, None)).filter(|binding| !binding.deleting);
    let renewed = |binding: &Arc<Object>| {
        let Head { metadata, spec } = serde_json::from_slice(&binding.json).ok()?;
        let named = ids.managers(binding, &metadata.annotations);
        if named.is_empty() {
            return None;
        }
        let there = named.iter().filter_map(|key| trees.get_key_value(key)).map(|(key, tree)| Policy { key, tree });
        let manager = there.max_by_key(|policy| (policy.is_of_namespace(), policy.priority()));
        let kind = (spec.resource["apiVersion"].as_str()?, spec.resource["kind"].as_str()?);
        let claims = of_kind.get(&kind).map_or(&[][..], Vec::as_slice);
        let object = match (plan::successor(manager, claims, &spec.resource), manager) {
            (Some(successor), _) => plan::claimed(successor, binding.value().ok()?)?,
            (None, Some(manager)) if changed.contains(manager.key) && plan::is_active(manager.tree) => {
                plan::renewed(manager.tree, binding.value().ok()?)?
            }
            _ => return None,
        };
        Some((binding.key.resource, Change::Update { part: Part::Main, object }))
    };
    bindings.filter_map(renewed).collect()
}

/// API versions and kinds that a policy selects.
fn kinds(policy: &plan::Tree) -> BTreeSet<(&str, &str)> {
    let selectors = policy.get("spec").and_then(|spec| spec["resourceSelectors"].as_array());
    let named = selectors.into_iter().flatten();
    named.filter_map(|selector| Some((selector["apiVersion"].as_str()?, selector["kind"].as_str()?))).collect()
}

/// Read without decoding the rest.
#[derive(Deserialize)]
struct Head {
    metadata: Metadata,
    spec: Spec,
}

#[derive(Deserialize)]
struct Metadata {
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Spec {
    #[serde(default)]
    resource: Value,
}
