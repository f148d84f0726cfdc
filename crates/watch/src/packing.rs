//! Packs the texts of objects that have rested, so that a large fleet takes less memory
//! (`k8s::Text::pack`). Whoever leads and whoever follows does it for itself.
//!
//! A state has rested that was published a while ago and is still there (`pack_queue`). What
//! changes often is never packed, so who works on it reads it as it is. What a start reads from the
//! log has rested there (`load`). Now and then everything is looked at, because a text may be
//! unpacked and then not be changed.
//!
//! *Invariant:* nothing is replaced, so readers, writers and the log notice nothing.

use std::convert::Infallible;

use tokio::task::{JoinError, spawn_blocking};
use tokio::time::Instant;

use super::Cache;
use super::packer::Packer;
use ballast_k8s::{Key, Object, Revision};

/// Objects that are looked at in one turn: some milliseconds. Then comes a rest that is as long.
const OBJECTS_PER_TURN_MAX: usize = 2_000;

/// Runs for as long as it is polled.
pub(super) async fn run(cache: Cache) -> Infallible {
    let mut packer = Packer::default();
    let mut seen = Revision::ZERO;
    loop {
        let look_at_all = Instant::now() + cache.limits().pack_all_every;
        while Instant::now() < look_at_all {
            tokio::time::sleep(cache.limits().pack_every).await;
            packer = pack_idle(&cache, packer).await;
        }
        // Nothing is unpacked without a reason to change something.
        let newest = cache.view().revision;
        if newest > seen {
            packer = pack_all(&cache, seen, packer).await;
            seen = newest;
        }
    }
}

/// Packs what was published long enough ago.
async fn pack_idle(cache: &Cache, mut packer: Packer) -> Packer {
    let limits = cache.limits();
    while let Some(idle) = cache.pack_queue().take_idle(limits.pack_after, OBJECTS_PER_TURN_MAX) {
        packer = in_background(move || {
            idle.iter().for_each(|object| packer.pack(object));
            packer
        })
        .await;
    }
    packer
}

/// Packs everything that is not younger than this revision.
async fn pack_all(cache: &Cache, through: Revision, mut packer: Packer) -> Packer {
    for kind in cache.view().kinds() {
        let mut place = Some(Key::cluster(kind, ""));
        while let Some(after) = place {
            // A view for each turn: an old one would keep what has been replaced since.
            let view = cache.view();
            (packer, place) = in_background(move || {
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
    packer
}

fn pack(object: &Object, through: Revision, packer: &mut Packer) {
    if object.revision <= through {
        packer.pack(object);
    }
}

/// Runs a turn beside the threads that serve, and rests as long as it took.
async fn in_background<T: Send + 'static>(turn: impl FnOnce() -> T + Send + 'static) -> T {
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
