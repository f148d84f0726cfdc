//! ClusterResourcePlacement: keeps the snapshots that the scheduler and the rollout work from, and says in its status
//! how it goes.
//!
//! Snapshots and status are written in two steps: the status speaks of snapshots that are there.

mod plan;
mod status;

use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use self::plan::Write;
use super::placement_objects::{self as objects, Changes};
use crate::api::fleet::placement::v1beta1::names::{
    BINDINGS, IS_LATEST_LABEL, PLACEMENTS, POLICY_SNAPSHOTS, RESOURCE_SNAPSHOTS,
};
use crate::api::fleet::placement::v1beta1::{
    ClusterResourceBinding, ClusterResourcePlacement, ClusterResourceSnapshot, ClusterSchedulingPolicySnapshot,
};
use crate::api::meta::ObjectMeta;
use crate::clock::Clock;
use crate::k8s::{GroupResource, Key, Time};
use crate::registry::{Atomicity, Change, Client, Part};
use crate::watch::{Event, View};
use crate::worker::{Failure, Next, Outcome, Queue, Work, Worked};

/// Placements in work at once.
const CONCURRENCY: usize = 4;

pub struct Placement {
    client: Client,
    clock: Arc<dyn Clock>,
}

impl Placement {
    pub fn new(client: Client, clock: Arc<dyn Clock>) -> Placement {
        Placement { client, clock }
    }
}

impl Work for Placement {
    fn name(&self) -> &'static str {
        "placement"
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
                let next = keep(&client, &key, now).await;
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

async fn keep(client: &Client, key: &Key, now: Time) -> Next {
    let view = client.view();
    let Some(object) = view.get(key) else { return Next::Done };
    let Some(placement) = objects::read::<ClusterResourcePlacement>(object) else { return Next::Done };
    let policies: Vec<ClusterSchedulingPolicySnapshot> = all(&view, POLICY_SNAPSHOTS, &key.name);
    let resources: Vec<ClusterResourceSnapshot> = all(&view, RESOURCE_SNAPSHOTS, &key.name);
    let observed = plan::Observed { placement: &placement, policies: &policies, resources: &resources };
    let (changes, next) = match snapshots(&placement, plan::plan(&observed)) {
        changes if !changes.is_empty() => (changes, Next::Again),
        _ if object.deleting => return Next::Done,
        _ => (status_change(&view, &placement, &policies, &resources, now), Next::Done),
    };
    match objects::commit(client, changes, Atomicity::All).await {
        Ok(()) => next,
        Err(status) => {
            tracing::debug!(%key, %status, "not written, looking again");
            Failure::of(&status).into()
        }
    }
}

fn snapshots(placement: &ClusterResourcePlacement, plan: plan::Plan) -> Changes {
    let mut changes = Changes::new();
    if let Some(finalizers) = plan.finalizers {
        let metadata = ObjectMeta { finalizers, ..placement.metadata.clone() };
        let held = ClusterResourcePlacement { metadata, ..placement.clone() };
        changes.push((PLACEMENTS, Change::Update { part: Part::Main, object: objects::tree(&held) }));
    }
    changes.extend(plan.policies.into_iter().map(|write| change(POLICY_SNAPSHOTS, write)));
    changes.extend(plan.resources.into_iter().map(|write| change(RESOURCE_SNAPSHOTS, write)));
    changes
}

fn change<T: Serialize>(resource: GroupResource, write: Write<T>) -> (GroupResource, Change) {
    let change = match write {
        Write::Create(object) => {
            let mut object = objects::tree(&object);
            // The status of a snapshot is the scheduler's to begin.
            object.remove("status");
            Change::Create(object)
        }
        Write::Update(object) => Change::Update { part: Part::Main, object: objects::tree(&object) },
        Write::Delete(name) => Change::Delete { key: Key::cluster(resource, name), revision: None },
    };
    (resource, change)
}

fn status_change(
    view: &View,
    placement: &ClusterResourcePlacement,
    policies: &[ClusterSchedulingPolicySnapshot],
    resources: &[ClusterResourceSnapshot],
    now: Time,
) -> Changes {
    let name = placement.metadata.name.as_deref().unwrap_or_default();
    let bindings: Vec<ClusterResourceBinding> = all(view, BINDINGS, name);
    let is_latest = |metadata: &ObjectMeta| metadata.labels.get(IS_LATEST_LABEL).is_some_and(|value| value == "true");
    let policy = policies.iter().find(|snapshot| is_latest(&snapshot.metadata));
    let resources = resources.iter().find(|snapshot| is_latest(&snapshot.metadata));
    let status = status::status(&status::Observed { placement, policy, resources, bindings: &bindings, now });
    if status == placement.status {
        return Changes::new();
    }
    let mut object = objects::tree(placement);
    object.insert("status".to_owned(), json!(status));
    vec![(PLACEMENTS, Change::Update { part: Part::Status, object })]
}

fn all<T: DeserializeOwned + Clone + Send + Sync + 'static>(
    view: &View,
    resource: GroupResource,
    placement: &str,
) -> Vec<T> {
    objects::children(view, resource, placement)
        .filter_map(objects::read::<T>)
        .map(|object| T::clone(&object))
        .collect()
}
