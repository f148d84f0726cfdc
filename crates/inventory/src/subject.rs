//! Sets of source objects that share one published name. Objects of several kinds may have the same
//! name: the published object of the first kind keeps it, and the others get a suffix.

use std::sync::Arc;

use ballast_api::fleet::placement::v1beta1::any::{CLUSTER, NAMESPACED, PlacementKinds, placement_of};
use ballast_api::fleet::placement::v1beta1::names::MEMBER_CLUSTERS;
use ballast_api::karmada::work::v1alpha2::{CLUSTER_RESOURCE_BINDINGS, RESOURCE_BINDINGS};
use ballast_api::multicluster::v1alpha1::{CLUSTER_PROFILES, PLACEMENT_DECISIONS};
use ballast_k8s::{GroupResource, Key, Object};

use super::CLUSTERS;

/// The clusters, or the placements, of one name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    Clusters(Arc<str>),
    /// Placements whose decisions are in this namespace.
    Placements {
        namespace: Arc<str>,
        name: Arc<str>,
    },
}

/// The source kinds.
pub(crate) const SOURCES: [GroupResource; 6] = [
    CLUSTERS,
    MEMBER_CLUSTERS,
    RESOURCE_BINDINGS,
    CLUSTER_RESOURCE_BINDINGS,
    NAMESPACED.placements,
    CLUSTER.placements,
];

/// The kinds of placements, in order of precedence for their names, with the suffix that others
/// get.
pub(crate) const PLACEMENTS: [(GroupResource, &str); 4] = [
    (RESOURCE_BINDINGS, ""),
    (NAMESPACED.placements, "-fleet"),
    (CLUSTER_RESOURCE_BINDINGS, "-cluster"),
    (CLUSTER.placements, "-cluster-fleet"),
];

/// The suffix of the profile of a MemberCluster that has the name of a Cluster.
pub(crate) const MEMBER_SUFFIX: &str = "-fleet";
/// The separator between the name of a decision and the number of a slice after the first.
pub(crate) const SLICE: &str = ".slice-";

impl Subject {
    /// Returns the subjects that an object belongs to, as a source or as a published object.
    pub fn of(object: &Object, inventory: &Arc<str>) -> Vec<Subject> {
        let Key { resource, namespace, name } = &object.key;
        let placements = |name: &str| Subject::Placements { namespace: Arc::clone(namespace), name: name.into() };
        match *resource {
            CLUSTERS | MEMBER_CLUSTERS => vec![Subject::Clusters(Arc::clone(name))],
            CLUSTER_PROFILES => {
                let member = name.strip_suffix(MEMBER_SUFFIX).map(|name| Subject::Clusters(name.into()));
                member.into_iter().chain([Subject::Clusters(Arc::clone(name))]).collect()
            }
            PLACEMENT_DECISIONS => {
                let name = name.rsplit_once(SLICE).map_or(&**name, |(name, _)| name);
                PLACEMENTS.iter().filter_map(|(_, suffix)| name.strip_suffix(suffix)).map(placements).collect()
            }
            _ => Subject::of_placement(&object.key, inventory).into_iter().collect(),
        }
    }

    /// Returns the subject of a Karmada binding or a KubeFleet placement.
    pub fn of_placement(key: &Key, inventory: &Arc<str>) -> Option<Subject> {
        let is_placement = PLACEMENTS.iter().any(|(kind, _)| *kind == key.resource);
        let namespace = if key.namespace.is_empty() { inventory } else { &key.namespace };
        is_placement.then(|| Subject::Placements { namespace: Arc::clone(namespace), name: Arc::clone(&key.name) })
    }
}

/// Returns the placement that a KubeFleet binding belongs to.
pub(crate) fn placement_of_fleet_binding(object: &Object) -> Option<Key> {
    let kinds = PlacementKinds::of(object.key.resource)?;
    (object.key.resource == kinds.bindings).then(|| placement_of(object)).flatten()
}
