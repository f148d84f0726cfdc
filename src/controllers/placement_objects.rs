//! The objects of a Fleet placement in a view: found by their label, written as trees.

use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::api::fleet::placement::v1beta1::names::{PARENT_LABEL, PLACEMENTS, binding_prefix};
use crate::k8s::{GroupResource, Key, Object, Status};
use crate::registry::{Atomicity, Change, Client};
use crate::watch::View;

/// Changes of one batch.
pub(super) type Changes = Vec<(GroupResource, Change)>;

/// The placement that an object is, or belongs to.
pub(super) fn placement_of(object: &Object) -> Option<Key> {
    if object.key.resource == PLACEMENTS {
        return Some(object.key.clone());
    }
    object.label(PARENT_LABEL).map(|name| Key::cluster(PLACEMENTS, name))
}

/// Snapshots and bindings of a placement, by name. All are named after it, so only a part of the kind is walked.
pub(super) fn children<'a>(
    view: &'a View,
    resource: GroupResource,
    placement: &'a str,
) -> impl Iterator<Item = &'a Arc<Object>> {
    let of_placement = move |object: &&Arc<Object>| object.label(PARENT_LABEL) == Some(placement);
    view.list_prefixed(resource, binding_prefix(placement)).filter(of_placement)
}

/// An object that its kind's type cannot hold is left alone, and said so in the log.
pub(super) fn read<T: DeserializeOwned + Send + Sync + 'static>(object: &Arc<Object>) -> Option<Arc<T>> {
    object.typed().inspect_err(|error| tracing::warn!(%error, "left alone")).ok()
}

pub(super) fn tree(object: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(object) {
        Ok(Value::Object(tree)) => tree,
        _ => unreachable!("a kind is written as a JSON object"),
    }
}

/// The first refusal stands for all.
pub(super) async fn commit(client: &Client, changes: Changes, atomicity: Atomicity) -> Result<(), Status> {
    let outcomes = client.batch(changes, atomicity).await?;
    outcomes.into_iter().try_for_each(|outcome| outcome.map(drop))
}
