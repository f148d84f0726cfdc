//! WorkloadRebalancer: a request for fresh placements of several workloads (R56-R66).

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::type_meta::kind;
use ballast_k8s::{FieldErrors, FieldPath, Time};
use ballast_resource::{Column, Resource, Scope, SqlColumn};

/// Reason of a failed workload that has no binding (R66).
pub const REFERENCED_BINDING_NOT_FOUND: &str = "ReferencedBindingNotFound";

kind! {
    /// A one-time request for a fresh placement of each listed workload, regardless of its current
    /// placement.
    pub struct WorkloadRebalancer {
        /// Workloads, and time for which the finished object is kept.
        pub spec: WorkloadRebalancerSpec,
        /// Progress of the request.
        #[serde(default, skip_serializing_if = "crate::optional::is_default")]
        pub status: WorkloadRebalancerStatus,
    }
}

impl Resource for WorkloadRebalancer {
    const GROUP: &'static str = "apps.karmada.io";
    const VERSION: &'static str = "v1alpha1";
    const KIND: &'static str = "WorkloadRebalancer";
    const PLURAL: &'static str = "workloadrebalancers";
    const SINGULAR: &'static str = "workloadrebalancer";
    /// Differs from Karmada (D50), which has none.
    const SHORT_NAMES: &'static [&'static str] = &["wr"];
    const SCOPE: Scope = Scope::Cluster;
    const STATUS_SUBRESOURCE: bool = true;
    const COLUMNS: &'static [Column] = COLUMNS;
    const SQL_COLUMNS: &'static [SqlColumn] = &[SqlColumn::field("finished_at", &["status", "finishTime"])];
    const OPENAPI_PACKAGE: &'static str = "com.github.karmada-io.karmada.pkg.apis.apps.v1alpha1";

    fn validate(object: &WorkloadRebalancer, _old: Option<&WorkloadRebalancer>) -> FieldErrors {
        let mut errors = FieldErrors::default();
        let path = FieldPath::new("spec");
        for (index, workload) in object.spec.workloads.iter().enumerate() {
            let path = path.child("workloads").index(index);
            let names = [("apiVersion", &workload.api_version), ("kind", &workload.kind), ("name", &workload.name)];
            for (name, _) in names.into_iter().filter(|(_, value)| value.is_empty()) {
                errors.required(&path.child(name), "");
            }
        }
        if let Some(seconds @ ..0) = object.spec.ttl_seconds_after_finished {
            let path = path.child("ttlSecondsAfterFinished");
            errors.invalid(&path, seconds, "must be greater than or equal to 0");
        }
        errors
    }
}

/// Differs from Karmada (D50), which shows only the age.
const COLUMNS: &[Column] = &[
    Column {
        name: "DONE",
        kind: "integer",
        path: r##"#.status.observedWorkloads[?(@.result=="Successful")]"##,
        priority: 1,
        description: "For how many workloads a fresh pass was requested.",
    },
    Column {
        name: "FAILED",
        kind: "integer",
        path: r##"#.status.observedWorkloads[?(@.result=="Failed")]"##,
        priority: 1,
        description: "How many workloads have no binding.",
    },
    Column {
        name: "FINISHED",
        kind: "date",
        path: ".status.finishTime",
        priority: 1,
        description: "How long ago the last workload got its result.",
    },
    Column {
        name: "Age",
        kind: "date",
        path: ".metadata.creationTimestamp",
        priority: 0,
        description: "How long ago the object was created.",
    },
];

/// The workloads to rebalance, and the time for which the finished object is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadRebalancerSpec {
    /// Workloads to rebalance. At least one.
    #[schema(min_items = 1)]
    pub workloads: Vec<ObjectReference>,
    /// Seconds until a finished request is deleted. 0: it is deleted immediately. Absent: it is
    /// kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_seconds_after_finished: Option<i32>,
}

/// A reference to a workload.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = RebalancedObjectReference)]
pub struct ObjectReference {
    /// API version of the workload.
    pub api_version: String,
    /// Kind of the workload.
    pub kind: String,
    /// Name of the workload.
    pub name: String,
    /// Namespace of the workload. Empty for cluster-scoped workloads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// The progress of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadRebalancerStatus {
    /// Workloads that were handled, one entry for each, sorted by `apiVersion/kind/namespace/name`.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub observed_workloads: Vec<ObservedWorkload>,
    /// Generation that this status was computed from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Time at which the last workload got its result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finish_time: Option<Time>,
}

/// The result of one workload.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObservedWorkload {
    /// Reference to the workload.
    pub workload: ObjectReference,
    /// `Successful` or `Failed`. Empty while the workload is in progress.
    #[serde(default, deserialize_with = "result_if_any", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub result: Option<RebalanceResult>,
    /// Reason for a failure, as one word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The result of one workload (R65). Absent while the workload is in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RebalanceResult {
    Failed,
    Successful,
}

/// Deserializes an empty result as absent. Clients in languages without absent strings write empty
/// ones.
fn result_if_any<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<RebalanceResult>, D::Error> {
    #[derive(Deserialize)]
    enum Written {
        Failed,
        Successful,
        #[serde(rename = "")]
        Nothing,
    }
    Ok(match Written::deserialize(deserializer)? {
        Written::Failed => Some(RebalanceResult::Failed),
        Written::Successful => Some(RebalanceResult::Successful),
        Written::Nothing => None,
    })
}
