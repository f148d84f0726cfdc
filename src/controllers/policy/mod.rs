//! Copies a changed PropagationPolicy or ClusterPropagationPolicy to the bindings that it manages
//! (R121).
//!
//! Labels and annotations of a binding name its policy (`PolicyIds`). A policy is copied when it is
//! created, when its spec changes, and at start. As with Karmada, a change made by hand on a
//! binding stays until then. A binding that is made without a placement gets the placement of its
//! policy at once.
//!
//! Whoever makes the bindings decides which policy claims a template first. A binding whose policy
//! is gone, no longer selects it, or is preempted goes to the next policy in upstream's order
//! (`plan`). If there is none, the binding keeps its placement and loses the name of its policy,
//! and the next policy that selects it gets it. Only a change that is seen here does that, because
//! a policy that was never here may be served elsewhere.
//!
//! All policies that have changed share one look at the bindings, so that the cost does not
//! multiply. A changed policy of a namespace costs a look at the bindings of that namespace alone.

mod plan;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt};

use self::plan::{Policy, Template};
use crate::api::karmada::policy::v1alpha1::{
    CLUSTER_PROPAGATION_POLICIES, LoweredSelector, POLICIES, PROPAGATION_POLICIES, PolicyIds,
};
use crate::api::karmada::work::v1alpha2::{BINDINGS, BindingSketch, RESOURCE_BINDINGS};
use crate::k8s::{GroupResource, Key, Object};
use crate::registry::{Atomicity, Change, Client, Part};
use crate::watch::{Event, EventKind, View};
use crate::worker::{Failure, Handled, Next, Queue, Work, Worked};

/// Policies that share one look at the bindings.
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
        POLICIES.into_iter().chain(BINDINGS).collect()
    }

    fn list(&mut self, view: &View, queue: &mut Queue) {
        for policy in POLICIES.into_iter().flat_map(|kind| view.list(kind, None)) {
            queue.mark(policy.key.clone(), 0);
        }
    }

    fn notice(&mut self, event: &Event, queue: &mut Queue) {
        if BINDINGS.contains(&event.object.key.resource) {
            if event.previous.is_none() && event.kind != EventKind::Deleted && lacks_placement(&event.object) {
                queue.mark(event.object.key.clone(), 0);
            }
            return;
        }
        let before = event.previous.as_ref().map(|object| (object.generation, &object.labels));
        if event.kind == EventKind::Deleted || before != Some((event.object.generation, &event.object.labels)) {
            queue.mark(event.object.key.clone(), 0);
        }
    }

    fn begin(&mut self, keys: Vec<Key>) -> BoxFuture<'static, Worked> {
        let client = self.client.clone();
        async move {
            let next = renew(&client, &keys).await;
            let outcomes = keys.into_iter().map(|key| Handled::new(key, next)).collect();
            Worked { outcomes, ..Worked::default() }
        }
        .boxed()
    }

    fn batch(&self) -> usize {
        BATCH_MAX
    }
}

/// Updates the bindings of these policies, and these bindings. Returns what is next for all of
/// them.
async fn renew(client: &Client, keys: &[Key]) -> Next {
    let (view, changed) = (client.view(), keys.iter().cloned().collect());
    let stale = tokio::task::spawn_blocking(move || stale(&view, &changed)).await;
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

/// The bindings that differ from what the changed policies, or the policies before or after them,
/// want. For changed bindings, those without a placement.
fn stale(view: &View, changed: &BTreeSet<Key>) -> Vec<(GroupResource, Change)> {
    let living = || POLICIES.into_iter().flat_map(|kind| view.list(kind, None)).filter(|policy| !policy.deleting);
    let known: BTreeMap<&Key, (plan::Tree, Vec<LoweredSelector>)> = living()
        .filter_map(|policy| {
            let tree = policy.value().ok()?;
            let selectors = plan::selectors(&tree);
            Some((&policy.key, (tree, selectors)))
        })
        .collect();
    let policy = |key: &Key| {
        let (key, (tree, selectors)) = known.get_key_value(key)?;
        Some(Policy { key, tree, selectors })
    };
    let ids = PolicyIds::of(living().map(|policy| &**policy));
    let mut of_kind: HashMap<(&str, &str), Vec<Policy<'_>>> = HashMap::new();
    for policy in known.keys().filter_map(|key| policy(key)) {
        let kinds: BTreeSet<_> = policy.selectors.iter().map(|wanted| (wanted.api_version(), wanted.kind())).collect();
        for kind in kinds {
            of_kind.entry(kind).or_default().push(policy);
        }
    }
    let bindings = concerned(view, changed);
    let renewed = |binding: &Arc<Object>| {
        let content = binding.text.content();
        let sketch = BindingSketch::of(&content).ok()?;
        let annotations = sketch.annotations();
        let named = ids.managers(binding, &annotations);
        if named.is_empty() && !PolicyIds::is_released(&annotations) {
            return None;
        }
        let resource = sketch.spec.resource()?;
        let template = Template::new(&resource, binding.labels.iter().map(|(key, value)| (&**key, &**value)));
        let there = named.iter().filter_map(policy).filter(|policy| policy.may_select(&template));
        let manager = there.max_by_key(|policy| (policy.is_of_namespace(), policy.priority()));
        let kind = (resource.api_version.as_str(), resource.kind.as_str());
        let claims = of_kind.get(&kind).map_or(&[][..], Vec::as_slice);
        let object = match (plan::successor(manager, claims, &template), manager) {
            (Some(successor), _) => plan::renewed(successor, binding.value().ok()?)?,
            (None, Some(manager)) if sketch.spec.placement().is_none() => {
                plan::renewed(manager, binding.value().ok()?)?
            }
            (None, Some(manager)) if changed.contains(manager.key) && plan::is_active(manager.tree) => {
                plan::renewed(manager, binding.value().ok()?)?
            }
            (None, None) => {
                let mut object = binding.value().ok()?;
                PolicyIds::release(named.iter().find(|policy| changed.contains(policy))?, &mut object);
                object
            }
            _ => return None,
        };
        Some((binding.key.resource, Change::Update { part: Part::Main, object }))
    };
    bindings.into_iter().filter(|binding| !binding.deleting).filter_map(renewed).collect()
}

/// The bindings that these changes can affect: those of a changed policy's namespace, and all for a
/// policy of all namespaces. A policy of a namespace selects nothing elsewhere, and a binding is in
/// the namespace of its template.
fn concerned<'a>(view: &'a View, changed: &BTreeSet<Key>) -> Vec<&'a Arc<Object>> {
    if changed.iter().any(|key| key.resource == CLUSTER_PROPAGATION_POLICIES) {
        return BINDINGS.into_iter().flat_map(|kind| view.list(kind, None)).collect();
    }
    let policies = changed.iter().filter(|key| key.resource == PROPAGATION_POLICIES);
    let namespaces: BTreeSet<&str> = policies.map(|key| &*key.namespace).collect();
    let changed_alone = changed.iter().filter(|key| BINDINGS.contains(&key.resource));
    let changed_alone = changed_alone.filter(|key| !namespaces.contains(&*key.namespace));
    let whole = namespaces.iter().flat_map(|&namespace| view.list(RESOURCE_BINDINGS, Some(namespace)));
    whole.chain(changed_alone.filter_map(|key| view.get(key))).collect()
}

/// Whether the binding was made without a placement. One that cannot be read counts as complete:
/// no policy can complete it.
fn lacks_placement(binding: &Object) -> bool {
    let content = binding.text.content();
    !shows_placement(&content) && BindingSketch::of(&content).is_ok_and(|binding| binding.spec.placement().is_none())
}

/// Whether the stored text shows a placement without being parsed, which would be a twentieth of
/// what a create costs. Labels and annotations are texts, so before the status only the spec can
/// have a member of this name that is an object. False says nothing.
fn shows_placement(text: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(text) else { return false };
    let Some(place) = text.find(r#""placement":{"#) else { return false };
    !text[..place].contains(r#""status":"#)
}

#[cfg(test)]
mod tests {
    use super::shows_placement;

    #[test]
    fn only_a_placement_of_the_spec_is_seen_without_parsing() {
        let shows = |text: &str| shows_placement(text.as_bytes());
        assert!(shows(r#"{"metadata":{"labels":{"placement":"edge"}},"spec":{"placement":{}}}"#));
        assert!(!shows(r#"{"metadata":{"labels":{"placement":"edge"}},"spec":{"replicas":1}}"#));
        assert!(!shows(r#"{"metadata":{"annotations":{"note":"\"placement\":{"}},"spec":{"replicas":1}}"#));
        assert!(!shows(r#"{"spec":{},"status":{"aggregatedStatus":[{"status":{"placement":{}}}]}}"#));
    }
}
