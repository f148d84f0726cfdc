//! Packs the texts of objects that have rested, so that a large fleet takes less memory
//! (`k8s::Text::pack`). Whoever leads and whoever follows does it for itself.
//!
//! An object has rested that was there at the look before and is unchanged. What changes often is
//! never packed, so who works on it reads it as it is. The states that only the windows remember
//! are packed, too. What a start reads from the log has rested there (`load`).
//!
//! *Invariant:* nothing is replaced, so readers, writers and the log notice nothing.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use tokio::task::{JoinError, spawn_blocking};
use tokio::time::Instant;

use super::window::Event;
use super::{Cache, Interest};
use crate::k8s::{Dictionaries, GroupResource, Key, Object, Revision};

/// Objects that are looked at in one turn: some milliseconds. Then comes a rest that is as long.
const OBJECTS_PER_TURN_MAX: usize = 2_000;

/// Packs texts, each against others of its kind.
#[derive(Default)]
pub(super) struct Packer(BTreeMap<GroupResource, Dictionaries>);

impl Packer {
    pub fn pack(&mut self, object: &Object) {
        object.text.pack(self.0.entry(object.key.resource).or_default());
    }
}

/// Runs for as long as it is polled.
pub(super) async fn run(cache: Cache) -> Infallible {
    let mut packer = Packer::default();
    let (mut packed, mut seen) = (Revision::ZERO, cache.view().revision);
    loop {
        tokio::time::sleep(cache.limits().pack_every).await;
        if seen > packed {
            packer = pack_all(&cache, seen, packer).await;
            packed = seen;
        }
        seen = cache.view().revision;
    }
}

/// Packs everything that is not younger than this revision.
async fn pack_all(cache: &Cache, through: Revision, mut packer: Packer) -> Packer {
    for kind in cache.view().kinds() {
        let mut place = Some(Key::cluster(kind, ""));
        while let Some(after) = place {
            // A view for each turn: an old one would keep what has been replaced since.
            let view = cache.view();
            (packer, place) = in_turn(move || {
                let objects = view.list_after(kind, None, (&after.namespace, &after.name));
                let looked_at = objects.take(OBJECTS_PER_TURN_MAX).enumerate().map(|(number, object)| {
                    pack(object, through, &mut packer);
                    (number + 1, &object.key)
                });
                let last = looked_at.last().filter(|(count, _)| *count == OBJECTS_PER_TURN_MAX);
                let next = last.map(|(_, key)| key.clone());
                (packer, next)
            })
            .await;
        }
    }
    let past: Vec<Arc<Event>> = cache.read().between(&Interest::All, Revision::ZERO, through);
    for events in past.chunks(OBJECTS_PER_TURN_MAX) {
        let events = events.to_vec();
        packer = in_turn(move || {
            for event in events {
                let states = [Some(&event.object), event.previous.as_ref()];
                states.into_iter().flatten().for_each(|object| pack(object, through, &mut packer));
            }
            packer
        })
        .await;
    }
    packer
}

fn pack(object: &Object, through: Revision, packer: &mut Packer) {
    if object.revision <= through {
        packer.pack(object);
    }
}

/// Runs a turn beside the threads that serve, and rests as long as it took.
async fn in_turn<T: Send + 'static>(turn: impl FnOnce() -> T + Send + 'static) -> T {
    let began = Instant::now();
    let done = match spawn_blocking(turn).await.map_err(JoinError::try_into_panic) {
        Ok(done) => done,
        Err(Ok(panic)) => std::panic::resume_unwind(panic),
        // The runtime is shutting down, and this is not polled any more.
        Err(Err(_)) => std::future::pending().await,
    };
    tokio::time::sleep(began.elapsed()).await;
    done
}
