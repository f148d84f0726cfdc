//! Placements: maintains the snapshots that the scheduler and the rollout use, and writes the
//! status.
//!
//! Snapshots and status are written in two steps, so the status only mentions snapshots that exist.

mod plan;
mod status;

use serde::Serialize;

use self::plan::Write;
use super::placements::{Changes, Scene, read};
use ballast_api::fleet::placement::v1beta1::any::{AnyBinding, AnyPlacement, AnyPolicySnapshot, AnyResourceSnapshot};
use ballast_api::fleet::placement::v1beta1::names::is_latest;
use ballast_api::meta::ObjectMeta;
use ballast_k8s::{GroupResource, Time};
use ballast_registry::{Change, Part};
use ballast_worker::Next;

pub(super) fn look(scene: &Scene<'_>, now: Time) -> Option<(Changes, Next)> {
    let placement = read::<AnyPlacement>(scene.object)?;
    let policies: Vec<AnyPolicySnapshot> = scene.all(scene.kinds.policy_snapshots);
    let resources: Vec<AnyResourceSnapshot> = scene.all(scene.kinds.resource_snapshots);
    let is_taken = |name: &str| scene.view.get(&scene.key(scene.kinds.policy_snapshots, name)).is_some();
    let observed =
        plan::Observed { placement: &placement, policies: &policies, resources: &resources, is_taken: &is_taken };
    match snapshots(scene, &placement, plan::plan(&observed)) {
        changes if !changes.is_empty() => Some((changes, Next::Again)),
        _ if scene.object.deleting => None,
        _ => Some((status_change(scene, &placement, &policies, &resources, now), Next::Done)),
    }
}

fn snapshots(scene: &Scene<'_>, placement: &AnyPlacement, plan: plan::Plan) -> Changes {
    let mut changes = Changes::new();
    if let Some(finalizers) = plan.finalizers {
        let metadata = ObjectMeta { finalizers, ..placement.metadata.clone() };
        let held = AnyPlacement { metadata, ..placement.clone() };
        changes.push(scene.update(Part::Main, scene.kinds.placements, &held));
    }
    changes.extend(plan.policies.into_iter().map(|write| change(scene, scene.kinds.policy_snapshots, write)));
    changes.extend(plan.resources.into_iter().map(|write| change(scene, scene.kinds.resource_snapshots, write)));
    changes
}

fn change<T: Serialize>(scene: &Scene<'_>, resource: GroupResource, write: Write<T>) -> (GroupResource, Change) {
    match write {
        Write::Create(object) => scene.create(resource, &object),
        Write::Update(object) => scene.update(Part::Main, resource, &object),
        Write::Delete(name) => (resource, Change::Delete { key: scene.key(resource, &name), revision: None }),
    }
}

fn status_change(
    scene: &Scene<'_>,
    placement: &AnyPlacement,
    policies: &[AnyPolicySnapshot],
    resources: &[AnyResourceSnapshot],
    now: Time,
) -> Changes {
    let bindings: Vec<AnyBinding> = scene.all(scene.kinds.bindings);
    let policy = policies.iter().find(|snapshot| is_latest(&snapshot.metadata));
    let resources = resources.iter().find(|snapshot| is_latest(&snapshot.metadata));
    let kind = scene.kinds.kind;
    let status = status::status(&status::Observed { kind, placement, policy, resources, bindings: &bindings, now });
    if status == placement.status {
        return Changes::new();
    }
    let reported = AnyPlacement { status, ..placement.clone() };
    vec![scene.update(Part::Status, scene.kinds.placements, &reported)]
}
