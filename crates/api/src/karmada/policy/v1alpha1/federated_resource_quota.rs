//! FederatedResourceQuota: limits on the resource usage of a namespace, over all clusters.
//!
//! Bindings are charged to it when they are committed (`quota`).

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::quota_rules;
use crate::core::Quantity;
use crate::lean::Pairs;
use crate::type_meta::kind;
use ballast_k8s::{FieldErrors, GroupResource};
use ballast_resource::{Column, Resource, Scope};

pub const FEDERATED_RESOURCE_QUOTAS: GroupResource = GroupResource::new("federatedresourcequotas.policy.karmada.io");

kind! {
    /// Limits on the resource usage of the workloads of a namespace, over all clusters.
    pub struct FederatedResourceQuota {
        /// Limits of the quota.
        pub spec: FederatedResourceQuotaSpec,
        /// Usage of the quota.
        #[serde(default, skip_serializing_if = "crate::optional::is_default")]
        pub status: FederatedResourceQuotaStatus,
    }
}

/// The limits of a quota.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FederatedResourceQuotaSpec {
    /// Maximum of each resource that all bindings of the namespace may use together, over all
    /// clusters. Resources that are not named here have no limit.
    pub overall: Pairs<Quantity>,
    /// Parts of `overall` that are assigned to clusters. Karmada's controllers create a
    /// ResourceQuota for each.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub static_assignments: Vec<StaticClusterAssignment>,
}

/// The part of a quota that is assigned to one cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StaticClusterAssignment {
    /// Name of the cluster.
    pub cluster_name: String,
    /// Maximum of each resource that may be used on the cluster.
    pub hard: Pairs<Quantity>,
}

/// The usage of a quota.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FederatedResourceQuotaStatus {
    /// Limits that applied when `overallUsed` was counted.
    #[serde(default, skip_serializing_if = "Pairs::is_empty")]
    pub overall: Pairs<Quantity>,
    /// Usage of each resource in `overall` by the bindings of the namespace, over all clusters.
    #[serde(default, skip_serializing_if = "Pairs::is_empty")]
    pub overall_used: Pairs<Quantity>,
    /// Limits and usage that the ResourceQuotas of the clusters report.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub aggregated_status: Vec<ClusterQuotaStatus>,
}

/// The limits and usage that the ResourceQuota of one cluster reports.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterQuotaStatus {
    /// Name of the cluster.
    pub cluster_name: String,
    /// Maximum of each resource that may be used on the cluster.
    #[serde(default, skip_serializing_if = "Pairs::is_empty")]
    pub hard: Pairs<Quantity>,
    /// Usage of each resource on the cluster.
    #[serde(default, skip_serializing_if = "Pairs::is_empty")]
    pub used: Pairs<Quantity>,
}

const COLUMNS: &[Column] = &[
    Column { name: "OVERALL", kind: "string", path: ".status.overall", priority: 0, description: "" },
    Column { name: "OVERALL_USED", kind: "string", path: ".status.overallUsed", priority: 0, description: "" },
];

impl Resource for FederatedResourceQuota {
    const GROUP: &'static str = "policy.karmada.io";
    const VERSION: &'static str = "v1alpha1";
    const KIND: &'static str = "FederatedResourceQuota";
    const PLURAL: &'static str = "federatedresourcequotas";
    const SINGULAR: &'static str = "federatedresourcequota";
    const CATEGORIES: &'static [&'static str] = &["karmada-io"];
    const SCOPE: Scope = Scope::Namespaced;
    const STATUS_SUBRESOURCE: bool = true;
    const COLUMNS: &'static [Column] = COLUMNS;
    const OPENAPI_PACKAGE: &'static str = "com.github.karmada-io.karmada.pkg.apis.policy.v1alpha1";

    fn validate(object: &FederatedResourceQuota, _old: Option<&FederatedResourceQuota>) -> FieldErrors {
        quota_rules::check(object)
    }
}
