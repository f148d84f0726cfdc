//! The kind, namespace and name of a request's URL. Verbs that the kind does not have are rejected
//! here.

use std::sync::Arc;

use ballast_k8s::{Details, Key, Status};
use ballast_resource::{Lifetime, ResourceKind};

/// A resource URL, parsed.
#[derive(Clone)]
pub struct Locator {
    pub row: Arc<ResourceKind>,
    /// `None` for the collection of all namespaces, or for a cluster-scoped kind.
    pub namespace: Option<String>,
    /// `None` for a collection.
    pub name: Option<String>,
    /// The `/status` subresource.
    pub status: bool,
}

impl Locator {
    /// Returns the key of the named object; 404 where the scope does not fit (VB10).
    pub(super) fn key(&self) -> Result<Key, Status> {
        let Some(name) = self.name.as_deref().filter(|name| !name.is_empty()) else {
            return Err(Status::bad_request("name must be provided"));
        };
        let resource = self.row.resource;
        match (&self.namespace, self.row.is_namespaced()) {
            (Some(namespace), true) => Ok(Key::namespaced(resource, namespace.as_str(), name)),
            (None, false) => Ok(Key::cluster(resource, name)),
            _ => Err(Status::not_found(resource, name)),
        }
    }

    /// Rejects a verb that the kind, or its `/status`, does not have (VB8, ST8, ST10).
    ///
    /// # Errors
    ///
    /// 405, and 404 for a `/status` that the kind does not have.
    pub fn allow(&self, verb: &str) -> Result<(), Status> {
        let resource = self.row.resource;
        if self.row.lifetime == Lifetime::Action && verb != "create" {
            let message = "the server does not allow this method on the requested resource";
            return Err(Status::failure(405, "MethodNotAllowed", message).with(Details::default()));
        }
        if !self.status {
            return match self.row.verbs().contains(&verb) {
                true => Ok(()),
                false => Err(Status::method_not_allowed(resource, verb)),
            };
        }
        if !self.row.status_subresource {
            return Err(Status::not_found(resource, self.name.as_deref().unwrap_or_default()));
        }
        match verb {
            "get" | "update" | "patch" => Ok(()),
            _ => Err(Status::method_not_allowed(resource, verb)),
        }
    }
}
