//! Placements: maintains the snapshots that the scheduler and the rollout use, and writes the
//! status.
//!
//! Snapshots and status are written in two steps, so the status only mentions snapshots that exist.

mod plan;
mod status;

use serde::Serialize;

use self::plan::ObjectWrite;
use super::placement_loop::{Changes, PlacementView, read};
use ballast_api::fleet::placement::v1beta1::any::{AnyBinding, AnyPlacement, AnyPolicySnapshot, AnyResourceSnapshot};
use ballast_api::fleet::placement::v1beta1::names::is_latest;
use ballast_api::meta::ObjectMeta;
use ballast_k8s::{GroupResource, Time};
use ballast_registry::{Change, Part};
use ballast_worker::Next;

pub(super) fn changes(placement_view: &PlacementView<'_>, now: Time) -> Option<(Changes, Next)> {
    let placement = read::<AnyPlacement>(placement_view.object)?;
    let policies: Vec<AnyPolicySnapshot> = placement_view.all(placement_view.kinds.policy_snapshots);
    let resources: Vec<AnyResourceSnapshot> = placement_view.all(placement_view.kinds.resource_snapshots);
    let is_taken = |name: &str| {
        placement_view.view.get(&placement_view.key(placement_view.kinds.policy_snapshots, name)).is_some()
    };
    let observed = plan::ObservedPlacement {
        placement: &placement,
        policies: &policies,
        resources: &resources,
        is_taken: &is_taken,
    };
    match snapshots(placement_view, &placement, plan::plan(&observed)) {
        changes if !changes.is_empty() => Some((changes, Next::Again)),
        _ if placement_view.object.deleting => None,
        _ => Some((status_change(placement_view, &placement, &policies, &resources, now), Next::Done)),
    }
}

fn snapshots(placement_view: &PlacementView<'_>, placement: &AnyPlacement, plan: plan::PlacementPlan) -> Changes {
    let mut changes = Changes::new();
    if let Some(finalizers) = plan.finalizers {
        let metadata = ObjectMeta { finalizers, ..placement.metadata.clone() };
        let held = AnyPlacement { metadata, ..placement.clone() };
        changes.push(placement_view.update(Part::Main, placement_view.kinds.placements, &held));
    }
    changes.extend(
        plan.policies.into_iter().map(|write| change(placement_view, placement_view.kinds.policy_snapshots, write)),
    );
    changes.extend(
        plan.resources.into_iter().map(|write| change(placement_view, placement_view.kinds.resource_snapshots, write)),
    );
    changes
}

fn change<T: Serialize>(
    placement_view: &PlacementView<'_>,
    resource: GroupResource,
    write: ObjectWrite<T>,
) -> (GroupResource, Change) {
    match write {
        ObjectWrite::Create(object) => placement_view.create(resource, &object),
        ObjectWrite::Update(object) => placement_view.update(Part::Main, resource, &object),
        ObjectWrite::Delete(name) => {
            (resource, Change::Delete { key: placement_view.key(resource, &name), revision: None })
        }
    }
}

fn status_change(
    placement_view: &PlacementView<'_>,
    placement: &AnyPlacement,
    policies: &[AnyPolicySnapshot],
    resources: &[AnyResourceSnapshot],
    now: Time,
) -> Changes {
    let bindings: Vec<AnyBinding> = placement_view.all(placement_view.kinds.bindings);
    let policy = policies.iter().find(|snapshot| is_latest(&snapshot.metadata));
    let resources = resources.iter().find(|snapshot| is_latest(&snapshot.metadata));
    let kind = placement_view.kinds.kind;
    let status = status::status(&status::StatusInput { kind, placement, policy, resources, bindings: &bindings, now });
    if status == placement.status {
        return Changes::new();
    }
    let reported = AnyPlacement { status, ..placement.clone() };
    vec![placement_view.update(Part::Status, placement_view.kinds.placements, &reported)]
}
