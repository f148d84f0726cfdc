//! The stored object that a write is decided on, and the object that a dry run shows.

use std::sync::Arc;

use serde_json::Value;

use super::metadata::{self, Tree};
use ballast_k8s::{Key, Managers, Object, Revision, Status};

/// The stored object, parsed.
pub(super) struct Stored {
    pub object: Arc<Object>,
    /// The object without its managed fields.
    pub tree: Tree,
    /// The stored `metadata.managedFields`.
    pub managed: Vec<Value>,
}

impl Stored {
    pub fn parse(object: Arc<Object>) -> Result<Stored, Status> {
        let mut tree = object.value().map_err(Status::internal)?;
        let managed = match metadata::of_mut(&mut tree).remove("managedFields") {
            Some(Value::Array(list)) => list,
            _ => object.text.managers().map(Managers::values).unwrap_or_default(),
        };
        Ok(Stored { object, tree, managed })
    }

    /// Returns the object with its managed fields.
    pub fn whole(&self) -> Tree {
        let mut tree = self.tree.clone();
        if !self.managed.is_empty() {
            metadata::of_mut(&mut tree).insert("managedFields".to_owned(), Value::from(self.managed.clone()));
        }
        tree
    }
}

/// Returns an object that was not stored, or not with this content: the response to a dry run.
pub(super) fn unstored(key: Key, revision: Option<Revision>, mut tree: Tree) -> Result<Arc<Object>, Status> {
    let metadata = metadata::of_mut(&mut tree);
    match revision {
        Some(revision) => metadata.insert("resourceVersion".to_owned(), Value::from(revision.to_string())),
        None => metadata.remove("resourceVersion"),
    };
    let json = serde_json::to_vec(&tree).map_err(Status::internal)?;
    let object = Object::decode(key, revision.unwrap_or_default(), json.into()).map_err(Status::internal)?;
    Ok(Arc::new(object))
}
