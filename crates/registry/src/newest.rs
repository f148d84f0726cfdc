//! Looks objects up by name, consistently across replicas (RE6).
//!
//! A follower may show a commit before the leader knows that it is stored, and the leader must not
//! contradict it. So the leader reports an object as missing, or a name as taken, only from a view
//! with every commit that any replica can show. In these rare cases it waits for the read index of
//! the log; a single process has nothing to wait for.

use std::sync::Arc;

use super::commit;
use super::core::Core;
use super::stored::Stored;
use ballast_k8s::{Key, Object, Status};
use ballast_watch::View;

/// Returns the stored object, for a write that needs one.
pub(super) async fn stored(core: &Core, key: &Key) -> Result<Stored, Status> {
    let object = object(core, key).await?;
    Stored::parse(object.ok_or_else(|| Status::not_found(key.resource, &key.name))?)
}

/// Returns the object, if it exists.
pub(super) async fn object(core: &Core, key: &Key) -> Result<Option<Arc<Object>>, Status> {
    if let Some(object) = core.cache.view().get(key) {
        return Ok(Some(Arc::clone(object)));
    }
    confirmed(core, key).await
}

/// Returns the object that already has the name of an object to be created.
pub(super) async fn taken(core: &Core, key: &Key) -> Result<Option<Arc<Object>>, Status> {
    if core.cache.view().get(key).is_none() {
        return Ok(None);
    }
    confirmed(core, key).await
}

async fn confirmed(core: &Core, key: &Key) -> Result<Option<Arc<Object>>, Status> {
    Ok(view(core).await?.get(key).cloned())
}

/// Returns a view with every write that was acknowledged before this call, by any replica (RE6).
pub(super) async fn view(core: &Core) -> Result<Arc<View>, Status> {
    core.cache.fresh().await.map_err(commit::try_again)?;
    Ok(core.cache.view())
}
