//! ClusterRebalance: moves bindings of all namespaces, and cluster-scoped ones.

use serde_json::{Map, Value};

use super::rebalance::RebalanceSpec;
use super::rebalance_rules;
use super::rebalance_status::{COLUMNS, RebalanceStatus, SQL_COLUMNS};
use super::select_rules::{self, Reach};
use crate::type_meta::kind;
use ballast_k8s::FieldErrors;
use ballast_resource::{Column, Given, Inspection, Resource, Schema, Scope, SqlColumn};

kind! {
    /// Moves workloads of all namespaces, and cluster-scoped workloads, by one plan and within
    /// bounds. The moves can be undone.
    pub struct ClusterRebalance {
        /// The workloads to move, and the bounds for moving them.
        pub spec: RebalanceSpec,
        /// The plan, and its progress.
        #[serde(default, skip_serializing_if = "crate::optional::is_default")]
        pub status: RebalanceStatus,
    }
}

impl Resource for ClusterRebalance {
    const GROUP: &'static str = super::GROUP;
    const VERSION: &'static str = super::VERSION;
    const KIND: &'static str = "ClusterRebalance";
    const PLURAL: &'static str = "clusterrebalances";
    const SINGULAR: &'static str = "clusterrebalance";
    const SHORT_NAMES: &'static [&'static str] = &["creb"];
    const CATEGORIES: &'static [&'static str] = super::CATEGORIES;
    const SCOPE: Scope = Scope::Cluster;
    const STATUS_SUBRESOURCE: bool = true;
    const COLUMNS: &'static [Column] = COLUMNS;
    const SQL_COLUMNS: &'static [SqlColumn] = SQL_COLUMNS;
    const OPENAPI_PACKAGE: &'static str = super::OPENAPI_PACKAGE;

    fn inspect(schema: &Schema, object: &Map<String, Value>) -> Inspection {
        select_rules::inspect(schema, object, &["spec"])
    }

    fn prepare(object: &mut Map<String, Value>, given: &Given<'_>) {
        rebalance_rules::prepare(object, given.old);
    }

    fn advise(object: &Map<String, Value>) -> Vec<String> {
        rebalance_rules::advise(object.get("spec"), "spec")
    }

    fn validate(object: &ClusterRebalance, old: Option<&ClusterRebalance>) -> FieldErrors {
        rebalance_rules::check(&object.metadata, &object.spec, old.map(|old| &old.spec), Reach::All)
    }
}
