//! Placements of the KubeFleet family in a rebalance (BD10). Pure.
//!
//! Such a placement moves by its trigger, and its own rollout strategy paces it. The move is over
//! when the trigger is served, all wanted clusters are found, and all bindings are Bound.

use std::sync::Arc;

use ballast_api::fleet::placement::v1beta1::any::{AnyBinding, AnyPolicySnapshot, PlacementKinds};
use ballast_api::fleet::placement::v1beta1::{BindingState, trigger};
use ballast_k8s::{Edit, Object, Time};
use ballast_watch::View;
use ballast_worker::events::ObjectReference;
use ballast_worker::placements;

/// Returns the edits that trigger the placement because of this rebalance.
pub fn trigger(placement: &Object, now: Time, requester: &ObjectReference) -> [Edit; 2] {
    trigger::accepted(trigger::next(trigger::triggered_at(placement), now), requester)
}

/// Returns the missing condition for the trigger to be served, or `None` if it is served.
pub fn missing(view: &View, kinds: &PlacementKinds, placement: &Arc<Object>) -> Option<String> {
    let key = &placement.key;
    let timestamp = trigger::triggered_at(placement);
    let latest =
        placements::children(view, kinds.policy_snapshots, key, &[]).find(|object| placements::is_latest(object));
    let Some(latest) = latest.filter(|object| trigger::triggered_at(object) >= timestamp) else {
        return Some("no policy snapshot answers the trigger yet".to_owned());
    };
    let Some(snapshot) = placements::read::<AnyPolicySnapshot>(latest) else {
        return Some("its policy snapshot cannot be read".to_owned());
    };
    match snapshot.status.conditions.iter().find(|condition| condition.type_ == "Scheduled") {
        None => return Some("the scheduler has not decided yet".to_owned()),
        Some(scheduled) if scheduled.status != "True" => {
            return Some(format!("the scheduler does not find all clusters: {}", scheduled.message));
        }
        Some(_) => {}
    }
    let bindings = placements::children(view, kinds.bindings, key, &[]);
    bindings.into_iter().find_map(|object| {
        let binding = placements::read::<AnyBinding>(object)?;
        let cluster = &binding.spec.target_cluster;
        match binding.spec.state {
            _ if object.deleting => Some(format!("the binding on {cluster} is not gone yet")),
            BindingState::Bound => None,
            _ => Some(format!("the binding on {cluster} is not bound yet")),
        }
    })
}
