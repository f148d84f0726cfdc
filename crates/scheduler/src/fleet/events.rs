//! The cause of a change of clusters of a placement, its message, and the result for the requester
//! (BD11). Pure.

use std::sync::Arc;

use super::dirty;
use crate::cause::{self, Cause};
use crate::convert::fleet::Settled;
use ballast_api::fleet::placement::v1beta1::any::{AnyBinding, AnyPlacement, AnyPolicySnapshot, PlacementKinds};
use ballast_api::fleet::placement::v1beta1::names::{MEMBER_CLUSTERS, NUMBER_OF_CLUSTERS};
use ballast_api::fleet::placement::v1beta1::{BindingState, ResourceBindingSpec, trigger};
use ballast_api::meta::ObjectMeta;
use ballast_engine::karmada::Target;
use ballast_k8s::{Key, Object, Revision};
use ballast_watch::View;
use ballast_worker::events::{ObjectReference, TriggerResult};
use ballast_worker::placements::{children, is_latest, read};

/// Returns the message about the change of a placement, or `None` if its clusters stay or this is
/// its first placement. `snapshot` and `before` have the state before the decision.
pub fn of(
    view: &View,
    kinds: &PlacementKinds,
    object: &Object,
    placement: &AnyPlacement,
    snapshot: &AnyPolicySnapshot,
    before: &[AnyBinding],
    settled: &Settled,
) -> Option<String> {
    if before.is_empty() {
        return None;
    }
    let was = before.iter().filter_map(|binding| cluster(&binding.metadata, &binding.spec));
    let is = settled.objects.bindings.iter().filter_map(|parts| cluster(&parts.metadata, &parts.spec));
    let (was, is): (Vec<Target>, Vec<Target>) = (was.map(target).collect(), is.map(target).collect());
    let diff = cause::difference(&was, &is)?;
    Some(cause::sentence(&diff, &why(view, kinds, object, placement, snapshot, &was, &is)))
}

fn why(
    view: &View,
    kinds: &PlacementKinds,
    object: &Object,
    placement: &AnyPlacement,
    snapshot: &AnyPolicySnapshot,
    was: &[Target],
    is: &[Target],
) -> Cause {
    if !is_decided(snapshot) {
        return match trigger::last_request(&placement.metadata)
            .filter(|_| is_for_trigger(view, kinds, object, snapshot))
        {
            Some((_, Some(requester))) => Cause::Requested(requester),
            Some((at, None)) => Cause::Trigger(Some(at)),
            None => Cause::Policy,
        };
    }
    let is_lost = |target: &&Target| {
        let stays = is.iter().any(|other| other.name == target.name);
        !stays && view.get(&Key::cluster(MEMBER_CLUSTERS, &*target.name)).is_none_or(|cluster| cluster.deleting)
    };
    let lost: Vec<String> = was.iter().filter(is_lost).map(|target| target.name.to_string()).collect();
    if !lost.is_empty() {
        return Cause::ClustersLost(lost);
    }
    let wanted = snapshot.metadata.annotations.get(NUMBER_OF_CLUSTERS).and_then(|number| number.parse::<i64>().ok());
    let assigned = was.len() as i64;
    match wanted {
        // A placement that lacked clusters uses further clusters that fit now.
        Some(wanted) if wanted != assigned && dirty::is_fulfilled(&snapshot.status) => {
            Cause::ClusterCount { assigned, wanted }
        }
        _ => Cause::Clusters,
    }
}

/// Returns the result of a pass over this snapshot, with the pending pass of the trigger that it
/// serves, or `None` if it serves no trigger. `before` has the state before the decision.
pub fn answer(
    snapshot: &AnyPolicySnapshot,
    before: &[AnyBinding],
    settled: &Settled,
) -> Option<(Revision, TriggerResult)> {
    let timestamp = snapshot.metadata.annotations.get(trigger::TRIGGERED_AT)?.parse().ok()?;
    let was: Vec<&str> = before.iter().filter_map(|binding| cluster(&binding.metadata, &binding.spec)).collect();
    let is = settled.objects.bindings.iter().filter_map(|parts| cluster(&parts.metadata, &parts.spec));
    let answer = match is.filter(|cluster| !was.contains(cluster)).count() {
        0 if dirty::is_fulfilled(&settled.objects.snapshot.status) => TriggerResult::Stayed,
        0 => TriggerResult::NoFit,
        joined => TriggerResult::Joined(joined as i64),
    };
    Some((trigger::pending_pass(timestamp), answer))
}

/// Returns the placement's last trigger and its requester, if no pass has served it. `strays` are
/// the children that are not named after the placement.
pub fn unanswered(view: &View, placement: &Arc<Object>, strays: &[Key]) -> Option<(Key, Revision, ObjectReference)> {
    let kinds = PlacementKinds::of(placement.key.resource)?;
    let metadata = &read::<AnyPlacement>(placement)?.metadata;
    let (timestamp, requester) = trigger::last_request(metadata)?;
    let mut snapshots = children(view, kinds.policy_snapshots, &placement.key, strays)
        .filter(|object| is_latest(object))
        .filter_map(read::<AnyPolicySnapshot>);
    let is_answered =
        |snapshot: Arc<AnyPolicySnapshot>| is_decided(&snapshot) && trigger::is_served(metadata, &snapshot.metadata);
    if snapshots.any(is_answered) {
        return None;
    }
    Some((placement.key.clone(), trigger::pending_pass(timestamp), requester?))
}

fn is_decided(snapshot: &AnyPolicySnapshot) -> bool {
    snapshot.status.conditions.iter().any(|condition| condition.type_ == "Scheduled")
}

/// Returns whether the snapshot was created for the placement's last trigger, and not for a later
/// policy.
fn is_for_trigger(view: &View, kinds: &PlacementKinds, object: &Object, snapshot: &AnyPolicySnapshot) -> bool {
    let timestamp = trigger::triggered_at(object);
    let own = snapshot.metadata.name.as_deref().unwrap_or_default();
    let serves = |other: &&Arc<Object>| trigger::triggered_at(other) == timestamp;
    let mut serving = children(view, kinds.policy_snapshots, &object.key, &[]).filter(serves);
    serving.all(|other| *other.key.name == *own)
}

/// Returns the cluster of a binding, unless the binding is about to be removed.
fn cluster<'b>(metadata: &ObjectMeta, spec: &'b ResourceBindingSpec) -> Option<&'b str> {
    let goes = spec.state == BindingState::Unscheduled || metadata.deletion_timestamp.is_some();
    (!goes).then_some(&*spec.target_cluster)
}

fn target(cluster: &str) -> Target {
    Target { name: cluster.into(), replicas: 0, components: Vec::new() }
}
