//! The status of both bindings, and their printer columns.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::free_form::FreeForm;
use crate::meta::Condition;
use ballast_k8s::{JsonColumn, Time};
use ballast_resource::{Column, SqlColumn};

/// The printer columns of both bindings, in upstream's capitals. Differs from Karmada (D50): the
/// targets and replicas are shown with `-o wide`.
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

/// What the scheduler and the member clusters last reported.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceBindingStatus {
    /// The generation of the binding that the scheduler last decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler_observed_generation: Option<i64>,
    /// The affinity group that the placement comes from. The field has upstream's name.
    #[serde(default, rename = "schedulerObservingAffinityName", skip_serializing_if = "Option::is_none")]
    pub scheduler_observed_affinity_name: Option<String>,
    /// When the scheduler last placed the object successfully.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_scheduled_time: Option<Time>,
    /// Conditions of the binding: `Scheduled` and `FullyApplied`.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// What each cluster reports about the object.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub aggregated_status: Vec<AggregatedStatusItem>,
}

/// What one cluster reports about the object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AggregatedStatusItem {
    /// Name of the cluster.
    pub cluster_name: String,
    /// The object's own status on the cluster, unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<FreeForm>,
    /// Whether the latest version of the object is applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied: Option<bool>,
    /// Why the object is not applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied_message: Option<String>,
    /// The health of the object on the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health: Option<ResourceHealth>,
}

impl AggregatedStatusItem {
    /// Whether the report shows how much the cluster has of what was assigned to it: by a number of
    /// replicas, or, of a kind without numbers, as applied or healthy. A number that cannot be
    /// shows nothing.
    pub fn shows_what_was_assigned(&self) -> bool {
        let status = self.status.as_ref().map(|status| status.value()).unwrap_or_default();
        let field = ["replicas", "readyReplicas"].iter().map(|field| &status[*field]).find(|field| !field.is_null());
        match field {
            Some(number) => number.as_i64().is_some_and(|number| (0..=i64::from(i32::MAX)).contains(&number)),
            None => self.applied == Some(true) || self.health == Some(ResourceHealth::Healthy),
        }
    }

    /// Whether the cluster reports the workload as unhealthy although all `assigned` replicas are
    /// ready: then it is the application that is not well, and the replicas replace no others. With
    /// fewer replicas ready, these are what is missing.
    pub fn is_unwell(&self, assigned: i64) -> bool {
        self.health == Some(ResourceHealth::Unhealthy) && self.ready_replicas().is_none_or(|ready| ready >= assigned)
    }

    /// The ready replicas that the cluster reports. A workload of which none is ready leaves the
    /// number out, and has others. `None`: the kind has no such number, or nothing is reported.
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
