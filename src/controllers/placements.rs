//! What the controllers of Fleet placements share: their loop, and the objects of a placement in a view.
//!
//! *Invariant:* a controller looks at one placement in one view and answers with one batch, all or nothing; a conflict
//! throws the batch away, and it looks again.

use std::sync::Arc;

use futures_util::future::{BoxFuture, FutureExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::api::fleet::placement::v1beta1::names::{
    BINDINGS, PARENT_LABEL, PLACEMENTS, POLICY_SNAPSHOTS, RESOURCE_SNAPSHOTS, binding_prefix,
};
use crate::clock::Clock;
use crate::k8s::{GroupResource, Key, Object, Time};
use crate::registry::{Atomicity, Change, Client};
use crate::watch::{Event, View};
use crate::worker::{Failure, Next, Outcome, Queue, Work, Worked};

/// Placements in work at once, for each controller.
const CONCURRENCY: usize = 4;

/// Changes of one batch.
pub(super) type Changes = Vec<(GroupResource, Change)>;

/// What a controller wants changed about a placement, and when it wants to look again. None: nothing.
pub(super) type Look = fn(&View, &Key, Time) -> Option<(Changes, Next)>;

/// A loop over placements: each is a key, and so is whatever belongs to it.
pub struct Placements {
    name: &'static str,
    look: Look,
    client: Client,
    clock: Arc<dyn Clock>,
}

impl Placements {
    pub(super) fn new(name: &'static str, look: Look, client: Client, clock: Arc<dyn Clock>) -> Placements {
        Placements { name, look, client, clock }
    }
}

impl Work for Placements {
    fn name(&self) -> &'static str {
        self.name
    }

    fn interest(&self) -> Vec<GroupResource> {
        vec![PLACEMENTS, POLICY_SNAPSHOTS, RESOURCE_SNAPSHOTS, BINDINGS]
    }

    fn list(&mut self, view: &View, queue: &mut Queue) {
        for object in view.list(PLACEMENTS, None) {
            queue.mark(object.key.clone(), 0);
        }
    }

    fn notice(&mut self, event: &Event, queue: &mut Queue) {
        if let Some(placement) = placement_of(&event.object) {
            queue.mark(placement, 0);
        }
    }

    fn begin(&mut self, keys: Vec<Key>) -> BoxFuture<'static, Worked> {
        let (name, look, client, now) = (self.name, self.look, self.client.clone(), self.clock.now());
        async move {
            let mut worked = Worked::default();
            for key in keys {
                let next = match look(&client.view(), &key, now) {
                    Some((changes, next)) => commit(name, &client, &key, changes, next).await,
                    None => Next::Done,
                };
                worked.outcomes.push(Outcome::new(key, next));
            }
            worked
        }
        .boxed()
    }

    fn concurrency(&self) -> usize {
        CONCURRENCY
    }
}

async fn commit(name: &str, client: &Client, key: &Key, changes: Changes, next: Next) -> Next {
    if changes.is_empty() {
        return next;
    }
    tracing::debug!(controller = name, %key, writes = changes.len(), "committing");
    let refused = match client.batch(changes, Atomicity::All).await {
        Ok(outcomes) => outcomes.into_iter().find_map(Result::err),
        Err(status) => Some(status),
    };
    let Some(status) = refused else { return next };
    tracing::debug!(controller = name, %key, %status, "not committed, looking again");
    Failure::of(&status).into()
}

/// The placement that an object is, or belongs to.
fn placement_of(object: &Object) -> Option<Key> {
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
