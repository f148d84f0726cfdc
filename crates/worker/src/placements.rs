//! The objects of a Fleet placement in a view, and the commit of their changes, shared by the Fleet
//! scheduler and the Fleet controllers.
//!
//! *Invariant:* the changes of a placement are one batch, all or nothing.

use std::sync::Arc;

use serde::de::DeserializeOwned;

use crate::{Changes, Failure, Next, commit_together};
use ballast_api::core::ObjectReference;
use ballast_api::fleet::placement::v1beta1::any::{API_VERSION, PlacementKinds, placement_of};
use ballast_api::fleet::placement::v1beta1::names::{IS_LATEST_LABEL, binding_prefix};
use ballast_k8s::{GroupResource, Key, Object};
use ballast_registry::Client;
use ballast_watch::View;

/// Commits the changes of one placement. Returns `next`, or the retry that the failure requires.
pub async fn commit(worker: &str, client: &Client, placement: &Key, changes: Changes, next: Next) -> Next {
    if changes.is_empty() {
        return next;
    }
    tracing::debug!(worker, key = %placement, writes = changes.len(), "committing a placement");
    let Err(failed) = commit_together(client, changes, |_| false).await else { return next };
    tracing::debug!(worker, key = %placement, status = %failed.status, "not committed, deciding again");
    Failure::of(&failed.status).into()
}

/// Returns the snapshots or bindings of a placement. `strays` are the keys of objects that are not
/// named after it. All others are, so only a part of the kind is read.
pub fn children<'a>(
    view: &'a View,
    resource: GroupResource,
    placement: &'a Key,
    strays: &'a [Key],
) -> impl Iterator<Item = &'a Arc<Object>> {
    let of_placement = move |object: &&Arc<Object>| placement_of(object).as_ref() == Some(placement);
    let strays = strays.iter().filter(move |stray| stray.resource == resource).filter_map(|stray| view.get(stray));
    let named_alike = view.list_prefixed(resource, &placement.namespace, binding_prefix(&placement.name));
    named_alike.chain(strays).filter(of_placement)
}

/// Returns whether the snapshot is labeled as the latest one.
pub fn is_latest(snapshot: &Object) -> bool {
    snapshot.label(IS_LATEST_LABEL) == Some("true")
}

/// Returns the typed object. An object that does not match the type of its kind is logged and
/// ignored.
pub fn read<T: DeserializeOwned + Send + Sync + 'static>(object: &Arc<Object>) -> Option<Arc<T>> {
    object.typed().inspect_err(|error| tracing::warn!(%error, "left alone")).ok()
}

/// Returns the reference to a placement for its events.
pub fn reference(kinds: &PlacementKinds, placement: &Object) -> ObjectReference {
    ObjectReference {
        api_version: Some(API_VERSION.to_owned()),
        kind: Some(kinds.kind.to_owned()),
        namespace: (!placement.key.namespace.is_empty()).then(|| placement.key.namespace.to_string()),
        name: Some(placement.key.name.to_string()),
        uid: Some(placement.uid.to_string()),
        ..ObjectReference::default()
    }
}
