//! Executes decisions: Scheduled bindings become Bound, Unscheduled ones are deleted, and
//! bindings with old resources get new ones, all within the bounds of the placement's strategy
//! (R167-R173).
//!
//! A placement is one key. Its bindings are read together from one view, and written in one batch.

mod plan;

use self::plan::{DesiredClusters, RolloutInput, RolloutStep};
use super::placement_loop::{Changes, PlacementView, read};
use ballast_api::fleet::placement::v1beta1::PlacementType;
use ballast_api::fleet::placement::v1beta1::any::{AnyBinding, AnyPlacement, AnyPolicySnapshot};
use ballast_api::fleet::placement::v1beta1::names::NUMBER_OF_CLUSTERS;
use ballast_k8s::Time;
use ballast_registry::{Change, Part};
use ballast_worker::Next;

/// Returns the changes of a rollout, or `None` if there is nothing to roll out. A placement that is
/// being deleted is left to the scheduler.
pub(super) fn changes(placement_view: &PlacementView<'_>, now: Time) -> Option<(Changes, Next)> {
    if placement_view.object.deleting {
        return None;
    }
    let placement = read::<AnyPlacement>(placement_view.object)?;
    let policy = read::<AnyPolicySnapshot>(placement_view.latest(placement_view.kinds.policy_snapshots)?)?;
    let resources = placement_view.latest(placement_view.kinds.resource_snapshots)?;
    let bindings: Vec<AnyBinding> = placement_view.all(placement_view.kinds.bindings);
    let task = RolloutInput {
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
        if step == Some(&RolloutStep::Delete) {
            let key = placement_view.key(placement_view.kinds.bindings, name);
            let revision = placement_view.view.get(&key).map(|object| object.revision);
            changes.push((key.resource, Change::Delete { key, revision }));
            continue;
        }
        let mut after = step.and_then(|step| plan::rolled(binding, *step, &task));
        if let Some((_, surplus)) = plan.duplicates.iter().find(|(kept, _)| kept == name) {
            tracing::warn!(binding = name, surplus, "two live bindings on one cluster: deleting one");
            after = Some(plan::without_twin(after.unwrap_or_else(|| binding.clone()), surplus, now));
        }
        if let Some(after) = after {
            changes.push(placement_view.update(Part::Whole, placement_view.kinds.bindings, &after));
        }
    }
    // The bounds hold for all changes together, so they are written in one batch, all or nothing.
    let next = plan.next_check_seconds.map_or(Next::Done, |seconds| Next::After(seconds.saturating_mul(1_000)));
    Some((changes, next))
}

fn wanted(snapshot: &AnyPolicySnapshot) -> DesiredClusters {
    let Some(policy) = &snapshot.spec.policy else { return DesiredClusters::All };
    match policy.placement_type.unwrap_or_default() {
        PlacementType::PickAll => DesiredClusters::All,
        PlacementType::PickN => {
            let number = snapshot.metadata.annotations.get(NUMBER_OF_CLUSTERS);
            DesiredClusters::Clusters(number.and_then(|number| number.parse().ok()).unwrap_or_default())
        }
        PlacementType::PickFixed => DesiredClusters::Clusters(policy.cluster_names.len()),
    }
}
