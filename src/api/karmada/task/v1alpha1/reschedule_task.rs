//! RescheduleTask: a create-only call that asks for everything it selects to be placed anew (R8-R25).

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::api::karmada::policy::v1alpha1::ResourceSelector;
use crate::api::meta::ObjectMeta;
use crate::api::type_meta::{ApiVersion, Kind};
use crate::resource::{Lifetime, Resource, Scope};

/// Asks once for what it selects to be placed anew. It acts when it is created and is never stored.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RescheduleTask {
    /// Version of the API that the object is written in.
    #[serde(default)]
    #[schema(value_type = String)]
    pub api_version: ApiVersion<RescheduleTask>,
    /// Kind of the object.
    #[serde(default)]
    #[schema(value_type = String)]
    pub kind: Kind<RescheduleTask>,
    /// What every stored object says about itself.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What to place anew: the union of both lists.
    pub spec: RescheduleTaskSpec,
}

impl Resource for RescheduleTask {
    const GROUP: &'static str = "task.karmada.io";
    const VERSION: &'static str = "v1alpha1";
    const KIND: &'static str = "RescheduleTask";
    const PLURAL: &'static str = "rescheduletasks";
    const SINGULAR: &'static str = "rescheduletask";
    const SCOPE: Scope = Scope::Cluster;
    const LIFETIME: Lifetime = Lifetime::Action;
    const STATUS_SUBRESOURCE: bool = false;
    const OPENAPI_PACKAGE: &'static str = "com.github.karmada-io.karmada.pkg.apis.task.v1alpha1";
}

/// What to place anew: the union of both lists.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RescheduleTaskSpec {
    /// Everything that these policies manage.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub target_ref_policy: Vec<PolicySelector>,
    /// These resources.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub target_ref_resource: Vec<ResourceSelector>,
}

/// Selects policies by namespace and name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PolicySelector {
    /// Namespace of the policies. Empty selects those of all namespaces and the cluster-wide ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Name of the policy. Empty selects all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}
