//! A placement of either scope, and the objects that belong to it.
//!
//! The kinds of the two scopes differ only in their names. Workers use this scope-independent form.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::names::PARENT_LABEL;
use super::{
    PlacementSpec, PlacementStatus, ResourceBindingSpec, ResourceBindingStatus, ResourceSnapshotSpec,
    ResourceSnapshotStatus, SchedulingPolicySnapshotSpec, SchedulingPolicySnapshotStatus,
};
use crate::meta::ObjectMeta;
use ballast_k8s::{GroupResource, Key, Object};

pub const API_VERSION: &str = "placement.kubernetes-fleet.io/v1beta1";

/// The kinds of one scope.
#[derive(Debug, PartialEq, Eq)]
pub struct PlacementKinds {
    pub placements: GroupResource,
    pub policy_snapshots: GroupResource,
    pub resource_snapshots: GroupResource,
    pub bindings: GroupResource,
    /// Kind of the placement. The types of its conditions start with it.
    pub kind: &'static str,
}

/// The cluster-scoped kinds.
pub static CLUSTER: PlacementKinds = PlacementKinds {
    placements: GroupResource::new("clusterresourceplacements.placement.kubernetes-fleet.io"),
    policy_snapshots: GroupResource::new("clusterschedulingpolicysnapshots.placement.kubernetes-fleet.io"),
    resource_snapshots: GroupResource::new("clusterresourcesnapshots.placement.kubernetes-fleet.io"),
    bindings: GroupResource::new("clusterresourcebindings.placement.kubernetes-fleet.io"),
    kind: "ClusterResourcePlacement",
};

/// The namespaced kinds.
pub static NAMESPACED: PlacementKinds = PlacementKinds {
    placements: GroupResource::new("resourceplacements.placement.kubernetes-fleet.io"),
    policy_snapshots: GroupResource::new("schedulingpolicysnapshots.placement.kubernetes-fleet.io"),
    resource_snapshots: GroupResource::new("resourcesnapshots.placement.kubernetes-fleet.io"),
    bindings: GroupResource::new("resourcebindings.placement.kubernetes-fleet.io"),
    kind: "ResourcePlacement",
};

pub static SCOPES: [&PlacementKinds; 2] = [&CLUSTER, &NAMESPACED];

impl PlacementKinds {
    /// Returns the kinds of the scope that `resource` belongs to, or `None` if the kind does not
    /// belong to a placement.
    pub fn of(resource: GroupResource) -> Option<&'static PlacementKinds> {
        SCOPES.into_iter().find(|kinds| kinds.all().contains(&resource))
    }

    /// Returns all kinds of the scope: placements, policy snapshots, resource snapshots and
    /// bindings.
    pub fn all(&self) -> [GroupResource; 4] {
        [self.placements, self.policy_snapshots, self.resource_snapshots, self.bindings]
    }

    fn kind_of(&self, resource: GroupResource) -> &'static str {
        let is_cluster = *self == CLUSTER;
        match self.all().iter().position(|known| *known == resource) {
            Some(0) => self.kind,
            Some(1) if is_cluster => "ClusterSchedulingPolicySnapshot",
            Some(1) => "SchedulingPolicySnapshot",
            Some(2) if is_cluster => "ClusterResourceSnapshot",
            Some(2) => "ResourceSnapshot",
            _ if is_cluster => "ClusterResourceBinding",
            _ => "ResourceBinding",
        }
    }

    /// Serializes the object, with its `apiVersion` and `kind`.
    pub fn tree(&self, resource: GroupResource, object: &impl Serialize) -> Map<String, Value> {
        let Ok(Value::Object(mut tree)) = serde_json::to_value(object) else {
            unreachable!("a kind is written as a JSON object")
        };
        tree.insert("apiVersion".to_owned(), API_VERSION.into());
        tree.insert("kind".to_owned(), self.kind_of(resource).into());
        tree
    }
}

/// Returns the key of the placement that the object is or belongs to.
pub fn placement_of(object: &Object) -> Option<Key> {
    let kinds = PlacementKinds::of(object.key.resource)?;
    if object.key.resource == kinds.placements {
        return Some(object.key.clone());
    }
    let name = object.label(PARENT_LABEL)?;
    Some(Key { resource: kinds.placements, namespace: object.key.namespace.clone(), name: name.into() })
}

/// A ClusterResourcePlacement or ResourcePlacement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AnyPlacement {
    #[serde(default)]
    pub metadata: ObjectMeta,
    pub spec: PlacementSpec,
    #[serde(default, skip_serializing_if = "crate::optional::is_default")]
    pub status: PlacementStatus,
}

/// A ClusterSchedulingPolicySnapshot or SchedulingPolicySnapshot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AnyPolicySnapshot {
    #[serde(default)]
    pub metadata: ObjectMeta,
    pub spec: SchedulingPolicySnapshotSpec,
    #[serde(default, skip_serializing_if = "crate::optional::is_default")]
    pub status: SchedulingPolicySnapshotStatus,
}

/// A ClusterResourceSnapshot or ResourceSnapshot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AnyResourceSnapshot {
    #[serde(default)]
    pub metadata: ObjectMeta,
    pub spec: ResourceSnapshotSpec,
    #[serde(default, skip_serializing_if = "crate::optional::is_default")]
    pub status: ResourceSnapshotStatus,
}

/// A ClusterResourceBinding or ResourceBinding.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AnyBinding {
    #[serde(default)]
    pub metadata: ObjectMeta,
    pub spec: ResourceBindingSpec,
    #[serde(default, skip_serializing_if = "crate::optional::is_default")]
    pub status: ResourceBindingStatus,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kinds_are_those_of_the_rows() {
        let rows = crate::fleet::rows();
        for kinds in SCOPES {
            for resource in kinds.all() {
                let row = rows.iter().find(|row| row.resource == resource).unwrap();
                assert_eq!((kinds.kind_of(resource), API_VERSION.to_owned()), (row.kind, row.api_version()));
            }
        }
    }
}
