//! Carries decisions out: Scheduled bindings become Bound, Unscheduled ones are deleted, and
//! bindings with old resources get new ones, all within the bounds of the placement's strategy
//! (R167-R173).
//!
//! A placement is one key. Its bindings are read together from one view, and written in one batch.

mod plan;

use self::plan::{Rollout, Step, Wanted};
use super::placements::{Changes, Scene, read};
use ballast_api::fleet::placement::v1beta1::PlacementType;
use ballast_api::fleet::placement::v1beta1::any::{AnyBinding, AnyPlacement, AnyPolicySnapshot};
use ballast_api::fleet::placement::v1beta1::names::NUMBER_OF_CLUSTERS;
use ballast_k8s::Time;
use ballast_registry::{Change, Part};
use ballast_worker::Next;

/// `None` while there is nothing to roll out. A placement that is being deleted is left to the
/// scheduler.
pub(super) fn look(scene: &Scene<'_>, now: Time) -> Option<(Changes, Next)> {
    if scene.object.deleting {
        return None;
    }
    let placement = read::<AnyPlacement>(scene.object)?;
    let policy = read::<AnyPolicySnapshot>(scene.latest(scene.kinds.policy_snapshots)?)?;
    let resources = scene.latest(scene.kinds.resource_snapshots)?;
    let bindings: Vec<AnyBinding> = scene.all(scene.kinds.bindings);
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
        let step = plan.steps.get(name);
        if step == Some(&Step::Delete) {
            let key = scene.key(scene.kinds.bindings, name);
            let revision = scene.view.get(&key).map(|object| object.revision);
            changes.push((key.resource, Change::Delete { key, revision }));
            continue;
        }
        let mut after = step.and_then(|step| plan::rolled(binding, *step, &task));
        if let Some((_, surplus)) = plan.twins.iter().find(|(kept, _)| kept == name) {
            tracing::warn!(binding = name, surplus, "two live bindings on one cluster: deleting one");
            after = Some(plan::without_twin(after.unwrap_or_else(|| binding.clone()), surplus, now));
        }
        if let Some(after) = after {
            changes.push(scene.update(Part::Whole, scene.kinds.bindings, &after));
        }
    }
    // The bounds hold for all changes together, so they are written in one batch, all or nothing.
    let next = plan.look_again_seconds.map_or(Next::Done, |seconds| Next::After(seconds.saturating_mul(1_000)));
    Some((changes, next))
}

fn wanted(snapshot: &AnyPolicySnapshot) -> Wanted {
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
