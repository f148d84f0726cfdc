//! Carries decisions out: Scheduled bindings become Bound, Unscheduled ones are deleted, bindings with old resources
//! get new ones, all within the bounds of the placement's strategy (R167-R173).
//!
//! A placement is one key: its bindings are looked at together, from one view, and written in one batch.

mod plan;

use std::sync::Arc;

use self::plan::{Rollout, Step, Wanted};
use super::placements::{self as objects, Changes};
use crate::api::fleet::placement::v1beta1::names::{
    BINDINGS, IS_LATEST_LABEL, NUMBER_OF_CLUSTERS, POLICY_SNAPSHOTS, RESOURCE_SNAPSHOTS,
};
use crate::api::fleet::placement::v1beta1::{
    ClusterResourceBinding, ClusterResourcePlacement, ClusterSchedulingPolicySnapshot, PlacementType,
};
use crate::k8s::{GroupResource, Key, Time};
use crate::registry::{Change, Part};
use crate::watch::View;
use crate::worker::Next;

/// None while there is nothing to roll out, or the placement is on its way out: the scheduler clears it away.
pub(super) fn look(view: &View, key: &Key, now: Time) -> Option<(Changes, Next)> {
    let placement = view.get(key).filter(|object| !object.deleting)?;
    let placement: Arc<ClusterResourcePlacement> = objects::read(placement)?;
    let policy = latest::<ClusterSchedulingPolicySnapshot>(view, POLICY_SNAPSHOTS, &key.name)?;
    let resources = objects::children(view, RESOURCE_SNAPSHOTS, &key.name)
        .find(|object| object.label(IS_LATEST_LABEL) == Some("true"))?;
    let bindings: Vec<ClusterResourceBinding> = objects::children(view, BINDINGS, &key.name)
        .filter_map(objects::read::<ClusterResourceBinding>)
        .map(|binding| ClusterResourceBinding::clone(&binding))
        .collect();
    let task = Rollout {
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
    // Each by itself would do no harm, but the bounds hold for all of them together: one batch, all or nothing.
    let next = plan.look_again_seconds.map_or(Next::Done, |seconds| Next::After(seconds.saturating_mul(1_000)));
    Some((changes, next))
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
