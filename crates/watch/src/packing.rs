//! Packs idle objects, so that a large fleet takes less memory (`k8s::Text::pack`). Each process
//! does it for its own view.
//!
//! A state is idle if it was published some time ago and was not replaced since (`pack_queue`). An
//! object that changes often is never packed, so workers read it without unpacking. States that a
//! start reads from the log are packed at once (`load`). All objects are examined once a minute,
//! because an object may be unpacked and then not be changed.
//!
//! *Invariant:* packing replaces no object. Its JSON reads the same before and after.

use std::convert::Infallible;

use tokio::task::{JoinError, spawn_blocking};
use tokio::time::Instant;

use super::Cache;
use super::packer::Packer;
use ballast_k8s::{Key, Object, Revision};

/// Maximum number of objects per step: some milliseconds, followed by a pause of the same length.
const OBJECTS_PER_TURN_MAX: usize = 2_000;

/// Runs while it is polled.
pub(super) async fn run(cache: Cache) -> Infallible {
    let mut packer = Packer::default();
    let mut seen = Revision::ZERO;
    loop {
        let look_at_all = Instant::now() + cache.limits().pack_all_every;
        while Instant::now() < look_at_all {
            tokio::time::sleep(cache.limits().pack_every).await;
            packer = pack_idle(&cache, packer).await;
        }
        // Without writes, few objects are unpacked.
        let newest = cache.view().revision;
        if newest > seen {
            packer = pack_all(&cache, seen, packer).await;
            seen = newest;
        }
    }
}

/// Packs states that have become idle.
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

/// Packs all objects up to this revision.
async fn pack_all(cache: &Cache, through: Revision, mut packer: Packer) -> Packer {
    for kind in cache.view().kinds() {
        let mut place = Some(Key::cluster(kind, ""));
        while let Some(after) = place {
            // A new view for each step: an old one would keep replaced objects in memory.
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

/// Runs a step on a blocking thread, and then pauses for the duration of the step.
async fn in_background<T: Send + 'static>(turn: impl FnOnce() -> T + Send + 'static) -> T {
    let began = Instant::now();
    let done = match spawn_blocking(turn).await.map_err(JoinError::try_into_panic) {
        Ok(done) => done,
        Err(Ok(panic)) => std::panic::resume_unwind(panic),
        // The runtime is shutting down, and this future is not polled any more.
        Err(Err(_)) => std::future::pending().await,
    };
    tokio::time::sleep(began.elapsed()).await;
    done
}
