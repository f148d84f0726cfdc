//! SchedulingPolicySnapshot: the policy of a namespaced placement, as the scheduler reads it.

use super::policy_snapshot::{COLUMNS, SchedulingPolicySnapshotSpec, SchedulingPolicySnapshotStatus};
use super::validate;
use crate::type_meta::kind;
use ballast_k8s::FieldErrors;
use ballast_resource::{Column, Resource, Scope, SqlColumn};

kind! {
    /// The policy of a namespaced placement at one time, and the decisions of the scheduler.
    pub struct SchedulingPolicySnapshot {
        /// The policy.
        pub spec: SchedulingPolicySnapshotSpec,
        /// The decisions of the scheduler.
        #[serde(default, skip_serializing_if = "crate::optional::is_default")]
        pub status: SchedulingPolicySnapshotStatus,
    }
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
