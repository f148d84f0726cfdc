//! Packs objects, with one dictionary per kind (`k8s::Text::pack`).

use std::collections::BTreeMap;

use ballast_k8s::{Dictionaries, GroupResource, Object};

/// Packs objects with the dictionaries of their kinds.
#[derive(Default)]
pub(super) struct Packer(BTreeMap<GroupResource, Dictionaries>);

impl Packer {
    pub fn pack(&mut self, object: &Object) {
        object.text.pack(self.0.entry(object.key.resource).or_default());
    }
}
