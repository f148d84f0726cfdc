//! Carries decisions out: Scheduled bindings become Bound, Unscheduled ones are deleted, bindings with old resources
//! get new ones, all within the bounds of the placement's strategy (R167-R173).
//!
//! A placement is one key: its bindings are looked at together, from one view, and written in one batch.

mod plan;

use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt};

use self::plan::{Plan, Rollout as Task, Step, Wanted};
use super::placement_objects::{self as objects, Changes};
use crate::api::fleet::placement::v1beta1::names::{
    BINDINGS, IS_LATEST_LABEL, NUMBER_OF_CLUSTERS, PLACEMENTS, POLICY_SNAPSHOTS, RESOURCE_SNAPSHOTS,
};
use crate::api::fleet::placement::v1beta1::{
    ClusterResourceBinding, ClusterResourcePlacement, ClusterSchedulingPolicySnapshot, PlacementType,
};
use crate::clock::Clock;
use crate::k8s::{GroupResource, Key, Time};
use crate::registry::{Atomicity, Change, Client, Part};
use crate::watch::{Event, View};
use crate::worker::{Failure, Next, Outcome, Queue, Work, Worked};

/// Placements in work at once.
const CONCURRENCY: usize = 4;

pub struct Rollout {
    client: Client,
    clock: Arc<dyn Clock>,
}

impl Rollout {
    pub fn new(client: Client, clock: Arc<dyn Clock>) -> Rollout {
        Rollout { client, clock }
    }
}

impl Work for Rollout {
    fn name(&self) -> &'static str {
        "rollout"
    }

    fn interest(&self) -> Vec<GroupResource> {
        vec![PLACEMENTS, POLICY_SNAPSHOTS, RESOURCE_SNAPSHOTS, BINDINGS]
    }

    fn list(&mut self, view: &View, queue: &mut Queue) {
        for object in view.list(PLACEMENTS, None) {
            queue.mark(object.key.clone(), 0);
        }
    }

    fn notice(&mut self, event: &Event, queue: &mut Queue) {
        if let Some(placement) = objects::placement_of(&event.object) {
            queue.mark(placement, 0);
        }
    }

    fn begin(&mut self, keys: Vec<Key>) -> BoxFuture<'static, Worked> {
        let (client, now) = (self.client.clone(), self.clock.now());
        async move {
            let mut worked = Worked::default();
            for key in keys {
                let next = roll(&client, &key, now).await;
                worked.outcomes.push(Outcome::new(key, next));
            }
            worked
        }
        .boxed()
    }

    fn concurrency(&self) -> usize {
        CONCURRENCY
    }
}

async fn roll(client: &Client, key: &Key, now: Time) -> Next {
    let view = client.view();
    let Some((changes, plan)) = observe(&view, key, now) else { return Next::Done };
    let next = plan.look_again_seconds.map_or(Next::Done, |seconds| Next::After(seconds.saturating_mul(1_000)));
    if changes.is_empty() {
        return next;
    }
    tracing::info!(%key, bindings = changes.len(), "rolling out");
    // Each by itself would do no harm, but the bounds hold for all of them together.
    match objects::commit(client, changes, Atomicity::All).await {
        Ok(()) => next,
        Err(status) => {
            tracing::debug!(%key, %status, "not rolled out, looking again");
            Failure::of(&status).into()
        }
    }
}

/// None while there is nothing to roll out, or the placement is on its way out: the scheduler clears it away.
fn observe(view: &View, key: &Key, now: Time) -> Option<(Changes, Plan)> {
    let placement = view.get(key).filter(|object| !object.deleting)?;
    let placement: Arc<ClusterResourcePlacement> = objects::read(placement)?;
    let policy = latest::<ClusterSchedulingPolicySnapshot>(view, POLICY_SNAPSHOTS, &key.name)?;
    let resources = objects::children(view, RESOURCE_SNAPSHOTS, &key.name)
        .find(|object| object.label(IS_LATEST_LABEL) == Some("true"))?;
    let bindings: Vec<ClusterResourceBinding> = objects::children(view, BINDINGS, &key.name)
        .filter_map(objects::read::<ClusterResourceBinding>)
        .map(|binding| ClusterResourceBinding::clone(&binding))
        .collect();
    let task = Task {
        strategy: &placement.spec.strategy,
        wanted: wanted(&policy),
        resources: &resources.key.name,
        bindings: &bindings,
        now,
    };
    let plan = plan::plan(&task);
    let mut changes = Changes::new();
    for binding in &bindings {
        let name = binding.metadata.name.as_deref().unwrap_or_default();
        let Some(step) = plan.steps.get(name) else { continue };
        if *step == Step::Delete {
            let key = Key::cluster(BINDINGS, name);
            let revision = view.get(&key).map(|object| object.revision);
            changes.push((BINDINGS, Change::Delete { key, revision }));
        } else if let Some(rolled) = plan::rolled(binding, *step, &task) {
            changes.push((BINDINGS, Change::Update { part: Part::Whole, object: objects::tree(&rolled) }));
        }
    }
    Some((changes, plan))
}

fn latest<T: serde::de::DeserializeOwned + Send + Sync + 'static>(
    view: &View,
    resource: GroupResource,
    placement: &str,
) -> Option<Arc<T>> {
    let mut children = objects::children(view, resource, placement);
    objects::read(children.find(|object| object.label(IS_LATEST_LABEL) == Some("true"))?)
}

fn wanted(snapshot: &ClusterSchedulingPolicySnapshot) -> Wanted {
    let Some(policy) = &snapshot.spec.policy else { return Wanted::All };
    match policy.placement_type.unwrap_or_default() {
        PlacementType::PickAll => Wanted::All,
        PlacementType::PickN => {
            let number = snapshot.metadata.annotations.get(NUMBER_OF_CLUSTERS);
            Wanted::Clusters(number.and_then(|number| number.parse().ok()).unwrap_or_default())
        }
        PlacementType::PickFixed => Wanted::Clusters(policy.cluster_names.len()),
    }
}
