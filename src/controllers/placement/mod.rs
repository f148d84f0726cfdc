//! ClusterResourcePlacement: keeps the snapshots that the scheduler and the rollout work from, and says in its status
//! how it goes.
//!
//! Snapshots and status are written in two steps: the status speaks of snapshots that are there.

mod plan;
mod status;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use self::plan::Write;
use super::placements::{self as objects, Changes};
use crate::api::fleet::placement::v1beta1::names::{
    BINDINGS, IS_LATEST_LABEL, PLACEMENTS, POLICY_SNAPSHOTS, RESOURCE_SNAPSHOTS,
};
use crate::api::fleet::placement::v1beta1::{
    ClusterResourceBinding, ClusterResourcePlacement, ClusterResourceSnapshot, ClusterSchedulingPolicySnapshot,
};
use crate::api::meta::ObjectMeta;
use crate::k8s::{GroupResource, Key, Time};
use crate::registry::{Change, Part};
use crate::watch::View;
use crate::worker::Next;

pub(super) fn look(view: &View, key: &Key, now: Time) -> Option<(Changes, Next)> {
    let object = view.get(key)?;
    let placement = objects::read::<ClusterResourcePlacement>(object)?;
    let policies: Vec<ClusterSchedulingPolicySnapshot> = all(view, POLICY_SNAPSHOTS, &key.name);
    let resources: Vec<ClusterResourceSnapshot> = all(view, RESOURCE_SNAPSHOTS, &key.name);
    let observed = plan::Observed { placement: &placement, policies: &policies, resources: &resources };
    match snapshots(&placement, plan::plan(&observed)) {
        changes if !changes.is_empty() => Some((changes, Next::Again)),
        _ if object.deleting => None,
        _ => Some((status_change(view, &placement, &policies, &resources, now), Next::Done)),
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
