//! A binding of either kind, for code that reads only spec and status, which both kinds share.
//!
//! The type is read-only. Writers edit the object's JSON tree, which preserves unknown fields.

use serde::Deserialize;

use super::{ClusterResourceBinding, ResourceBinding, ResourceBindingSpec, ResourceBindingStatus};
use crate::core;
use crate::meta::ObjectMeta;
use ballast_k8s::{GroupResource, Key};
use ballast_resource::Resource;

pub const RESOURCE_BINDINGS: GroupResource = GroupResource::new("resourcebindings.work.karmada.io");
pub const CLUSTER_RESOURCE_BINDINGS: GroupResource = GroupResource::new("clusterresourcebindings.work.karmada.io");
pub const BINDINGS: [GroupResource; 2] = [RESOURCE_BINDINGS, CLUSTER_RESOURCE_BINDINGS];

/// The parts that both kinds of bindings share.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct AnyBinding {
    #[serde(default)]
    pub metadata: ObjectMeta,
    pub spec: ResourceBindingSpec,
    #[serde(default)]
    pub status: ResourceBindingStatus,
}

impl AnyBinding {
    /// Returns whether the binding with this key references a workload of another namespace, and so
    /// has no effect (WH7).
    pub fn is_elsewhere(&self, key: &Key) -> bool {
        self.spec.resource.is_elsewhere(&key.namespace)
    }

    /// Returns the objects that events about a binding refer to: the binding and the workload
    /// (R73).
    pub fn subjects(&self, key: &Key) -> [core::ObjectReference; 2] {
        let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let kind = kind_of(key.resource);
        let binding = core::ObjectReference {
            api_version: Some(format!("{}/{}", ResourceBinding::GROUP, ResourceBinding::VERSION)),
            kind: Some(kind.to_owned()),
            namespace: text(&key.namespace),
            name: text(&key.name),
            uid: self.metadata.uid.clone(),
            ..core::ObjectReference::default()
        };
        let resource = self.spec.resource.clone();
        let template = core::ObjectReference {
            api_version: Some(resource.api_version),
            kind: Some(resource.kind),
            // The binding's own namespace, even if `resource` names another one: no event is
            // written there (WH7).
            namespace: text(&key.namespace),
            name: Some(resource.name),
            uid: resource.uid,
            ..core::ObjectReference::default()
        };
        [binding, template]
    }
}

/// Returns the kind of a binding by its resource.
pub fn kind_of(bindings: GroupResource) -> &'static str {
    match bindings {
        CLUSTER_RESOURCE_BINDINGS => ClusterResourceBinding::KIND,
        _ => ResourceBinding::KIND,
    }
}

/// Returns the key of the binding of a workload: `<name>-<kind>` in lower case, with a dot for each
/// colon (R28). A workload without a namespace has a ClusterResourceBinding (R69).
pub fn key_of_workload(kind: &str, namespace: &str, name: &str) -> Key {
    let binding = format!("{name}-{kind}").replace(':', ".").to_lowercase();
    match namespace {
        "" => Key::cluster(CLUSTER_RESOURCE_BINDINGS, binding),
        namespace => Key::namespaced(RESOURCE_BINDINGS, namespace, binding),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r28_names_are_lowered_and_colons_become_dots() {
        assert_eq!(key_of_workload("Deployment", "shop", "nginx").name.as_ref(), "nginx-deployment");
        assert_eq!(key_of_workload("ClusterRole", "", "system:Foo").name.as_ref(), "system.foo-clusterrole");
    }

    #[test]
    fn the_kinds_are_those_of_the_rows() {
        let name = |plural: &str, group: &str| format!("{plural}.{group}");
        assert_eq!(RESOURCE_BINDINGS.as_str(), name(ResourceBinding::PLURAL, ResourceBinding::GROUP));
        assert_eq!(
            CLUSTER_RESOURCE_BINDINGS.as_str(),
            name(ClusterResourceBinding::PLURAL, ClusterResourceBinding::GROUP)
        );
    }
}
