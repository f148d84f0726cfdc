//! What a verb finds under a name. A follower may show a commit before its leader has heard that it
//! is stored. So that the leader denies nothing that others show, it says that an object is
//! missing, or that a name is taken, only from a view that has every commit which anybody can show
//! (RE6). It asks the log for that, in these rare cases alone, and not where no other process has
//! it.

use std::sync::Arc;

use super::commit;
use super::core::Core;
use super::stored::Stored;
use ballast_k8s::{Key, Object, Status};
use ballast_watch::View;

/// The stored object, for a write that needs one.
pub(super) async fn stored(core: &Core, key: &Key) -> Result<Stored, Status> {
    let object = object(core, key).await?;
    Stored::parse(object.ok_or_else(|| Status::not_found(key.resource, &key.name))?)
}

/// The object, if there is one.
pub(super) async fn object(core: &Core, key: &Key) -> Result<Option<Arc<Object>>, Status> {
    if let Some(object) = core.cache.view().get(key) {
        return Ok(Some(Arc::clone(object)));
    }
    asked(core, key).await
}

/// The object that has a name which is to be given to another one.
pub(super) async fn taken(core: &Core, key: &Key) -> Result<Option<Arc<Object>>, Status> {
    if core.cache.view().get(key).is_none() {
        return Ok(None);
    }
    asked(core, key).await
}

async fn asked(core: &Core, key: &Key) -> Result<Option<Arc<Object>>, Status> {
    Ok(view(core).await?.get(key).cloned())
}

/// A view with every write that was acknowledged before this call, by whatever replica (RE6).
pub(super) async fn view(core: &Core) -> Result<Arc<View>, Status> {
    core.cache.fresh().await.map_err(commit::try_again)?;
    Ok(core.cache.view())
}
