//! ClusterResourceBinding: one cluster of a cluster-scoped placement.
//!
//! It has the same spec and status as ResourceBinding.

use super::binding::{COLUMNS, ResourceBindingSpec, ResourceBindingStatus};
use crate::type_meta::kind;
use ballast_resource::{Column, Resource, Scope, SqlColumn};

kind! {
    /// Binding of the resources of a cluster-scoped placement to one cluster.
    pub struct ClusterResourceBinding {
        /// Cluster, its resources, and the state of the rollout.
        pub spec: ResourceBindingSpec,
        /// State of the resources on the cluster.
        #[serde(default, skip_serializing_if = "crate::optional::is_default")]
        pub status: ResourceBindingStatus,
    }
}

impl Resource for ClusterResourceBinding {
    const GROUP: &'static str = "placement.kubernetes-fleet.io";
    const VERSION: &'static str = "v1beta1";
    const KIND: &'static str = "ClusterResourceBinding";
    const PLURAL: &'static str = "clusterresourcebindings";
    const SINGULAR: &'static str = "clusterresourcebinding";
    // Upstream's short name, `crb`, is Karmada's too. The larger family keeps it (C17).
    const CATEGORIES: &'static [&'static str] = &["fleet", "fleet-placement"];
    const SCOPE: Scope = Scope::Cluster;
    const STATUS_SUBRESOURCE: bool = true;
    const COLUMNS: &'static [Column] = COLUMNS;
    const SQL_COLUMNS: &'static [SqlColumn] = super::binding::SQL_COLUMNS;
    const OPENAPI_PACKAGE: &'static str = "com.github.kubefleet-dev.kubefleet.apis.placement.v1beta1";
}
