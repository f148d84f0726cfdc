//! The status of both kinds of bindings, and their printer columns.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::free_form::FreeForm;
use crate::meta::Condition;
use ballast_k8s::{JsonColumn, Time};
use ballast_resource::{Column, SqlColumn};

/// The printer columns of both kinds of bindings, with upstream's column names. Differs from
/// Karmada (D50): targets and replicas are shown with `-o wide`.
pub(super) const COLUMNS: &[Column] = &[
    Column {
        name: "SCHEDULED",
        kind: "string",
        path: r#".status.conditions[?(@.type=="Scheduled")].status"#,
        priority: 0,
        description: "",
    },
    Column {
        name: "FULLYAPPLIED",
        kind: "string",
        path: r#".status.conditions[?(@.type=="FullyApplied")].status"#,
        priority: 0,
        description: "",
    },
    Column {
        name: "TARGETS",
        kind: "string",
        path: ".spec.clusters[*].name:.replicas",
        priority: 1,
        description: "The clusters that the object is assigned to, each with its replicas.",
    },
    Column {
        name: "REPLICAS",
        kind: "integer",
        path: ".spec.replicas",
        priority: 1,
        description: "How many replicas are wanted, over all clusters.",
    },
    Column { name: "AGE", kind: "date", path: ".metadata.creationTimestamp", priority: 0, description: "" },
];

pub(super) const SQL_COLUMNS: &[SqlColumn] = &[
    SqlColumn::field("triggered_at", &["spec", "rescheduleTriggeredAt"]),
    SqlColumn::field("last_scheduled_at", &["status", "lastScheduledTime"]),
    SqlColumn::field("replicas", &["spec", "replicas"]),
    SqlColumn {
        name: "clusters",
        value: JsonColumn::Named { list: &["spec", "clusters"], name: "name", count: "replicas" },
    },
    SqlColumn::condition("scheduled", "Scheduled"),
];

/// The last results of the scheduler and the last reports of the member clusters.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceBindingStatus {
    /// The last generation of the binding that the scheduler has decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler_observed_generation: Option<i64>,
    /// The affinity group that the placement uses. The field name is upstream's.
    #[serde(default, rename = "schedulerObservingAffinityName", skip_serializing_if = "Option::is_none")]
    pub scheduler_observed_affinity_name: Option<String>,
    /// Time at which the scheduler last placed the object successfully.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_scheduled_time: Option<Time>,
    /// Conditions of the binding: `Scheduled` and `FullyApplied`.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// The reports of the clusters about the object.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub aggregated_status: Vec<AggregatedStatusItem>,
}

/// The report of one cluster about the object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AggregatedStatusItem {
    /// Name of the cluster.
    pub cluster_name: String,
    /// The object's status on the cluster, unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<FreeForm>,
    /// Whether the latest version of the object is applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied: Option<bool>,
    /// The reason why the object is not applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied_message: Option<String>,
    /// The health of the object on the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health: Option<ResourceHealth>,
}

impl AggregatedStatusItem {
    /// Returns whether the report shows how much of the assignment has arrived on the cluster: by a
    /// number of replicas or, for kinds without such a number, by being applied or healthy. An
    /// invalid number shows nothing.
    pub fn shows_what_was_assigned(&self) -> bool {
        let status = self.status.as_ref().map(|status| status.value()).unwrap_or_default();
        let field = ["replicas", "readyReplicas"].iter().map(|field| &status[*field]).find(|field| !field.is_null());
        match field {
            Some(number) => number.as_i64().is_some_and(|number| (0..=i64::from(i32::MAX)).contains(&number)),
            None => self.applied == Some(true) || self.health == Some(ResourceHealth::Healthy),
        }
    }

    /// Returns whether the cluster reports the workload as unhealthy although all `assigned`
    /// replicas are ready. In that case the application itself is unhealthy, and its replicas do
    /// not replace others. With fewer ready replicas, the missing ones are the cause.
    pub fn is_unwell(&self, assigned: i64) -> bool {
        self.health == Some(ResourceHealth::Unhealthy) && self.ready_replicas().is_none_or(|ready| ready >= assigned)
    }

    /// Returns the number of ready replicas that the cluster reports. If a status has other replica
    /// counts but not this one, none is ready. `None`: the kind has no such number, or nothing is
    /// reported.
    pub fn ready_replicas(&self) -> Option<i64> {
        let status = self.status.as_ref()?.value();
        let number = |field: &str| status.get(field).and_then(serde_json::Value::as_i64);
        let is_counted =
            || ["replicas", "updatedReplicas", "unavailableReplicas"].into_iter().any(|field| number(field).is_some());
        number("readyReplicas").or_else(|| number("numberReady")).or_else(|| is_counted().then_some(0))
    }
}

/// The health of an object on a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum ResourceHealth {
    Healthy,
    Unhealthy,
    Unknown,
}
