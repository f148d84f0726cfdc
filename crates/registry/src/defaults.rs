//! Fills in defaults at start-up. If a field got a default after an object was stored, the object
//! gets the default by a write, so that every reader and watcher sees it (AD4).
//!
//! The generation does not change, because no user changed the object. The database stores a mark
//! of the defaults that its objects have, so that a start with the same defaults need not read all
//! objects (`defaults_mark`).

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use super::commit::failure;
use super::core::{Core, Registry};
use super::stored::Stored;
use ballast_k8s::{Document, Status};
use ballast_watch::{Atomicity, Draft, Expect, Write};

/// The most objects that one transaction changes.
const WRITES_PER_COMMIT_MAX: usize = 1_000;

impl Registry {
    /// Returns a number that identifies the defaults of all local kinds. It differs between
    /// programs with different defaults or kinds, and is neither 0 nor 1.
    pub fn defaults_mark(&self) -> i32 {
        let mut hasher = DefaultHasher::new();
        for row in self.core.rows.values().filter(|row| self.core.remote_store_of(row.resource).is_none()) {
            row.resource.as_str().hash(&mut hasher);
            row.schema.digest_defaults(&mut hasher);
        }
        i32::from_ne_bytes((hasher.finish() as u32 | 2).to_ne_bytes())
    }

    /// Returns the number of objects that lacked a default.
    pub async fn fill_defaults(&self) -> Result<usize, Status> {
        let core = Arc::clone(&self.core);
        let lacking = tokio::task::spawn_blocking(move || lacking(&core));
        let mut lacking = lacking.await.map_err(|_| Status::internal("failed to look for missing defaults"))?;
        let count = lacking.len();
        while !lacking.is_empty() {
            let rest = lacking.split_off(lacking.len().min(WRITES_PER_COMMIT_MAX));
            self.core.writer.commit(lacking, Atomicity::Each).await.map_err(failure)?;
            lacking = rest;
        }
        Ok(count)
    }
}

fn lacking(core: &Core) -> Vec<Write> {
    let view = core.cache.view();
    let mut writes = Vec::new();
    // Objects that are stored upstream get their defaults there.
    for row in core.rows.values().filter(|row| core.remote_store_of(row.resource).is_none()) {
        for object in view.list(row.resource, None) {
            // A write would not repair an object that cannot be read.
            if !row.schema.lacks_defaults(&object.text.content()).unwrap_or(false) {
                continue;
            }
            let Ok(mut stored) = Stored::parse(Arc::clone(object)) else { continue };
            row.schema.default(&mut stored.tree);
            let draft = Draft::Put(Document::new(stored.whole()));
            writes.push(Write { key: object.key.clone(), expect: Expect::At(object.revision), draft });
        }
    }
    writes
}
