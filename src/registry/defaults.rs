//! Defaults of today for objects of yesterday: what was stored before a field had its default gets
//! it when the server starts, as a write like any other, so that every reader and watcher sees it
//! (AD4).
//!
//! The generation stays: nobody asked for anything else than before.

use std::sync::Arc;

use super::commit::failure;
use super::core::{Core, Registry};
use super::stored::Stored;
use crate::k8s::{Document, Status};
use crate::watch::{Atomicity, Draft, Expect, Write};

/// Objects filled in in one transaction.
const WRITES_PER_COMMIT_MAX: usize = 1_000;

impl Registry {
    /// Returns how many objects lacked something.
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
    for row in core.rows.values() {
        for object in view.list(row.resource, None) {
            // What cannot be read is not made better by being written.
            if !row.schema.lacks_defaults(object.text.content()).unwrap_or(false) {
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
