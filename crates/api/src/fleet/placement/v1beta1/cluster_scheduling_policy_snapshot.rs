//! ClusterSchedulingPolicySnapshot: the policy of a cluster-scoped placement, as the scheduler
//! reads it.

use super::policy_snapshot::{COLUMNS, SchedulingPolicySnapshotSpec, SchedulingPolicySnapshotStatus};
use super::validate;
use crate::type_meta::kind;
use ballast_k8s::FieldErrors;
use ballast_resource::{Column, Resource, Scope, SqlColumn};

kind! {
    /// The policy of a cluster-scoped placement at one time, and the decisions of the scheduler.
    pub struct ClusterSchedulingPolicySnapshot {
        /// The policy.
        pub spec: SchedulingPolicySnapshotSpec,
        /// The decisions of the scheduler.
        #[serde(default, skip_serializing_if = "crate::optional::is_default")]
        pub status: SchedulingPolicySnapshotStatus,
    }
}

impl Resource for ClusterSchedulingPolicySnapshot {
    const GROUP: &'static str = "placement.kubernetes-fleet.io";
    const VERSION: &'static str = "v1beta1";
    const KIND: &'static str = "ClusterSchedulingPolicySnapshot";
    const PLURAL: &'static str = "clusterschedulingpolicysnapshots";
    const SINGULAR: &'static str = "clusterschedulingpolicysnapshot";
    const SHORT_NAMES: &'static [&'static str] = &["csps"];
    const CATEGORIES: &'static [&'static str] = &["fleet", "fleet-placement"];
    const SCOPE: Scope = Scope::Cluster;
    const STATUS_SUBRESOURCE: bool = true;
    const COLUMNS: &'static [Column] = COLUMNS;
    const SQL_COLUMNS: &'static [SqlColumn] = super::policy_snapshot::SQL_COLUMNS;
    const OPENAPI_PACKAGE: &'static str = "com.github.kubefleet-dev.kubefleet.apis.placement.v1beta1";

    fn validate(
        object: &ClusterSchedulingPolicySnapshot,
        old: Option<&ClusterSchedulingPolicySnapshot>,
    ) -> FieldErrors {
        validate::policy_snapshot(&object.spec, old.map(|old| &old.spec))
    }
}
