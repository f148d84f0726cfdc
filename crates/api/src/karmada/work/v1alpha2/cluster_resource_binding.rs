//! ClusterResourceBinding: the placement of one cluster-scoped object. Its spec and status are
//! those of ResourceBinding.

use serde_json::{Map, Value};

use super::arrivals;
use super::binding_rules;
use super::binding_spec::ResourceBindingSpec;
use super::binding_status::{COLUMNS, ResourceBindingStatus, SQL_COLUMNS};
use super::eviction_bound;
use super::trigger;
use crate::karmada::policy::v1alpha1::{cluster_bounds, ignored_rules, mend, own_fields, specified_replicas};
use crate::permanent_id::{self, OnChange};
use crate::type_meta::kind;
use ballast_k8s::FieldErrors;
use ballast_resource::{Column, Given, Resource, Scope, SqlColumn};

kind! {
    /// Binds one cluster-scoped object to clusters: its requirements, its placement and its state.
    pub struct ClusterResourceBinding {
        /// The bound object, its placement rules and its targets.
        pub spec: ResourceBindingSpec,
        /// The last results of the scheduler and the last reports of the member clusters.
        #[serde(default, skip_serializing_if = "crate::optional::is_default")]
        pub status: ResourceBindingStatus,
    }
}

impl ClusterResourceBinding {
    /// Label of objects on member clusters that identifies their binding.
    pub const PERMANENT_ID: &'static str = "clusterresourcebinding.karmada.io/permanent-id";
}

impl Resource for ClusterResourceBinding {
    const GROUP: &'static str = "work.karmada.io";
    const VERSION: &'static str = "v1alpha2";
    const KIND: &'static str = "ClusterResourceBinding";
    const PLURAL: &'static str = "clusterresourcebindings";
    const SINGULAR: &'static str = "clusterresourcebinding";
    const SHORT_NAMES: &'static [&'static str] = &["crb"];
    const CATEGORIES: &'static [&'static str] = &["karmada-io"];
    const SCOPE: Scope = Scope::Cluster;
    const STATUS_SUBRESOURCE: bool = true;
    const COLUMNS: &'static [Column] = COLUMNS;
    const SQL_COLUMNS: &'static [SqlColumn] = SQL_COLUMNS;
    const OPENAPI_PACKAGE: &'static str = "com.github.karmada-io.karmada.pkg.apis.work.v1alpha2";

    fn mend(object: &mut Map<String, Value>) -> Vec<String> {
        mend::mend_placement(object)
    }

    fn restore(object: &mut Map<String, Value>, before: &Map<String, Value>) {
        own_fields::restore(object, before);
    }

    fn prepare(object: &mut Map<String, Value>, given: &Given<'_>) {
        specified_replicas::prepare_extension(object, given.old);
        permanent_id::keep(object, ClusterResourceBinding::PERMANENT_ID, given, OnChange::Undo);
        trigger::keep(object, given);
        eviction_bound::lower(object, given);
        arrivals::note_by_client(object, given);
        binding_rules::set_fully_applied(object, given.old, given.now);
    }

    fn advise(object: &Map<String, Value>) -> Vec<String> {
        ignored_rules::advise(object).into_iter().chain(cluster_bounds::advise(object)).collect()
    }

    fn validate(object: &ClusterResourceBinding, old: Option<&ClusterResourceBinding>) -> FieldErrors {
        binding_rules::check(&object.metadata, &object.spec, old.map(|old| &old.spec))
    }
}
