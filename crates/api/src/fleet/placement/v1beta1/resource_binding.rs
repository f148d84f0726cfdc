//! ResourceBinding: one cluster of a namespaced placement.
//!
//! It has the same spec and status as ClusterResourceBinding.

use super::binding::{COLUMNS, ResourceBindingSpec, ResourceBindingStatus};
use crate::type_meta::kind;
use ballast_resource::{Column, Resource, Scope, SqlColumn};

kind! {
    /// Binding of the resources of a namespaced placement to one cluster.
    pub struct ResourceBinding {
        /// Cluster, its resources, and the state of the rollout.
        pub spec: ResourceBindingSpec,
        /// State of the resources on the cluster.
        #[serde(default, skip_serializing_if = "crate::optional::is_default")]
        pub status: ResourceBindingStatus,
    }
}

impl Resource for ResourceBinding {
    const GROUP: &'static str = "placement.kubernetes-fleet.io";
    const VERSION: &'static str = "v1beta1";
    const KIND: &'static str = "ResourceBinding";
    const PLURAL: &'static str = "resourcebindings";
    const SINGULAR: &'static str = "resourcebinding";
    // Upstream's short name, `rb`, is Karmada's too. The larger family keeps it (C17).
    const CATEGORIES: &'static [&'static str] = &["fleet", "fleet-placement"];
    const SCOPE: Scope = Scope::Namespaced;
    const STATUS_SUBRESOURCE: bool = true;
    const COLUMNS: &'static [Column] = COLUMNS;
    const SQL_COLUMNS: &'static [SqlColumn] = super::binding::SQL_COLUMNS;
    const OPENAPI_PACKAGE: &'static str = "com.github.kubefleet-dev.kubefleet.apis.placement.v1beta1";
}
