//! SchedulingPolicySnapshot: the policy of a namespaced placement, as the scheduler reads it.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::policy_snapshot::{COLUMNS, SchedulingPolicySnapshotSpec, SchedulingPolicySnapshotStatus};
use super::validate;
use crate::meta::ObjectMeta;
use crate::type_meta::{ApiVersion, Kind};
use ballast_k8s::FieldErrors;
use ballast_resource::{Column, Resource, Scope, SqlColumn};

/// The policy of a namespaced placement at one time, and the decisions of the scheduler.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SchedulingPolicySnapshot {
    /// Version of the API that the object is written in.
    #[serde(default)]
    #[schema(value_type = String)]
    pub api_version: ApiVersion<SchedulingPolicySnapshot>,
    /// Kind of the object.
    #[serde(default)]
    #[schema(value_type = String)]
    pub kind: Kind<SchedulingPolicySnapshot>,
    /// Standard metadata of the object.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// The policy.
    pub spec: SchedulingPolicySnapshotSpec,
    /// The decisions of the scheduler.
    #[serde(default, skip_serializing_if = "crate::optional::is_default")]
    pub status: SchedulingPolicySnapshotStatus,
}

impl Resource for SchedulingPolicySnapshot {
    const GROUP: &'static str = "placement.kubernetes-fleet.io";
    const VERSION: &'static str = "v1beta1";
    const KIND: &'static str = "SchedulingPolicySnapshot";
    const PLURAL: &'static str = "schedulingpolicysnapshots";
    const SINGULAR: &'static str = "schedulingpolicysnapshot";
    const SHORT_NAMES: &'static [&'static str] = &["sps"];
    const CATEGORIES: &'static [&'static str] = &["fleet", "fleet-placement"];
    const SCOPE: Scope = Scope::Namespaced;
    const STATUS_SUBRESOURCE: bool = true;
    const COLUMNS: &'static [Column] = COLUMNS;
    const SQL_COLUMNS: &'static [SqlColumn] = super::policy_snapshot::SQL_COLUMNS;
    const OPENAPI_PACKAGE: &'static str = "com.github.kubefleet-dev.kubefleet.apis.placement.v1beta1";

    fn validate(object: &SchedulingPolicySnapshot, old: Option<&SchedulingPolicySnapshot>) -> FieldErrors {
        validate::policy_snapshot(&object.spec, old.map(|old| &old.spec))
    }
}
