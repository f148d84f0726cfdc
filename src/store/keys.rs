//! The keys of rows that are read one after the other. Most of them have the kind and the namespace
//! of the row before, and share these words with it.

use std::sync::Arc;

use crate::k8s::{GroupResource, Key};

#[derive(Default)]
pub(super) struct Keys {
    last: Option<(GroupResource, Arc<str>)>,
}

impl Keys {
    /// The key of the next row.
    pub fn next(&mut self, kind: &str, namespace: &str, name: &str) -> Key {
        let last = self.last.take().filter(|(resource, last)| resource.as_str() == kind && **last == *namespace);
        let (resource, namespace) = last.unwrap_or_else(|| (GroupResource::intern(kind), namespace.into()));
        self.last = Some((resource, Arc::clone(&namespace)));
        Key::namespaced(resource, namespace, name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_a_namespace_share_its_name_and_others_have_their_own() {
        let mut keys = Keys::default();
        let rows = [("pods", "shop", "a"), ("pods", "shop", "b"), ("pods", "", "b"), ("nodes", "", "b")];
        let made = rows.map(|(kind, namespace, name)| keys.next(kind, namespace, name));
        let expected =
            rows.map(|(kind, namespace, name)| Key::namespaced(GroupResource::intern(kind), namespace, name));
        assert_eq!(made, expected);
        assert!(Arc::ptr_eq(&made[0].namespace, &made[1].namespace));
    }
}
