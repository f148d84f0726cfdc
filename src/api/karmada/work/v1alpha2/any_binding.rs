//! Either of the two binding kinds, for readers that do not care which: they share spec and status.
//! Read only: what is written back is the object's tree, so that nothing unknown here is lost.

use serde::Deserialize;

use super::{ResourceBindingSpec, ResourceBindingStatus};
use crate::api::meta::ObjectMeta;
use crate::k8s::{GroupResource, Key};

pub const RESOURCE_BINDINGS: GroupResource = GroupResource::new("resourcebindings.work.karmada.io");
pub const CLUSTER_RESOURCE_BINDINGS: GroupResource = GroupResource::new("clusterresourcebindings.work.karmada.io");
pub const BINDINGS: [GroupResource; 2] = [RESOURCE_BINDINGS, CLUSTER_RESOURCE_BINDINGS];

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct AnyBinding {
    #[serde(default)]
    pub metadata: ObjectMeta,
    pub spec: ResourceBindingSpec,
    #[serde(default)]
    pub status: ResourceBindingStatus,
}

/// The key of the binding that a workload has if its policy was applied: `<name>-<kind>` in lower case,
/// with a dot for each colon (R28). A workload without a namespace has a ClusterResourceBinding (R69).
pub fn key_of_workload(kind: &str, namespace: &str, name: &str) -> Key {
    let binding = format!("{name}-{kind}").replace(':', ".").to_lowercase();
    match namespace {
        "" => Key::cluster(CLUSTER_RESOURCE_BINDINGS, binding),
        namespace => Key::namespaced(RESOURCE_BINDINGS, namespace, binding),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ClusterResourceBinding, ResourceBinding};
    use super::*;
    use crate::resource::Resource;

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
