//! RebalanceSchedule: creates ClusterRebalances at fixed times or after an event.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

use super::amounts::Mode;
use super::rebalance::RebalanceSpec;
use super::rebalance_rules;
use super::schedule_rules;
use super::select_rules;
use crate::lean::Pairs;
use crate::meta::{Condition, LabelSelector};
use crate::tree;
use crate::type_meta::kind;
use ballast_k8s::{FieldErrors, Selector, Time, selector};
use ballast_resource::schema::mark::{Atomic, MapList};
use ballast_resource::{Column, Given, Inspection, Resource, Schema, Scope, SqlColumn};

kind! {
    /// Creates ClusterRebalances from a template, at fixed times or when a cluster has recovered.
    pub struct RebalanceSchedule {
        /// When ClusterRebalances are created, and the template they are created from.
        pub spec: RebalanceScheduleSpec,
        /// The last created ClusterRebalance, and the time at which the next one is due.
        #[serde(default, skip_serializing_if = "crate::optional::is_default")]
        pub status: RebalanceScheduleStatus,
    }
}

const fn column(name: &'static str, kind: &'static str, path: &'static str, description: &'static str) -> Column {
    Column { name, kind, path, priority: 0, description }
}

const COLUMNS: &[Column] = &[
    column("SCHEDULE", "string", ".spec.schedule", "When ClusterRebalances are created."),
    column("TIMEZONE", "string", ".spec.timeZone", "The time zone of the schedule."),
    column("SUSPEND", "boolean", ".spec.suspend", "Whether the schedule is suspended."),
    column("ACTIVE", "integer", "#.status.active[*]", "ClusterRebalances that are not finished."),
    column("LAST-SCHEDULE", "date", ".status.lastScheduleTime", "When a ClusterRebalance was last created."),
    column("AGE", "date", ".metadata.creationTimestamp", ""),
];

impl Resource for RebalanceSchedule {
    const GROUP: &'static str = super::GROUP;
    const VERSION: &'static str = super::VERSION;
    const KIND: &'static str = "RebalanceSchedule";
    const PLURAL: &'static str = "rebalanceschedules";
    const SINGULAR: &'static str = "rebalanceschedule";
    const SHORT_NAMES: &'static [&'static str] = &["rebs"];
    const CATEGORIES: &'static [&'static str] = super::CATEGORIES;
    const SCOPE: Scope = Scope::Cluster;
    const STATUS_SUBRESOURCE: bool = true;
    const COLUMNS: &'static [Column] = COLUMNS;
    const SQL_COLUMNS: &'static [SqlColumn] = &[
        SqlColumn::field("last_schedule_at", &["status", "lastScheduleTime"]),
        SqlColumn::field("next_schedule_at", &["status", "nextScheduleTime"]),
    ];
    const OPENAPI_PACKAGE: &'static str = super::OPENAPI_PACKAGE;

    /// Renames the key `true` to `on`, without a warning. YAML 1.1 parsers such as kubectl's read
    /// the key `on` as `true`, and `true` has no other meaning here.
    fn mend(object: &mut Map<String, Value>) -> Vec<String> {
        if let Some(spec) = tree::object(object, &["spec"])
            && !spec.contains_key("on")
            && let Some(on) = spec.remove("true")
        {
            spec.insert("on".to_owned(), on);
        }
        Vec::new()
    }

    fn inspect(schema: &Schema, object: &Map<String, Value>) -> Inspection {
        let found = select_rules::inspect(schema, object, &["spec", "template", "spec"]);
        // The event contains a cluster selector, so a misspelt field there is an error as well.
        let mut errors = schema.unknown_fields(object, &["spec", "on"]);
        errors.append(found.errors);
        Inspection { errors, ..found }
    }

    fn prepare(object: &mut Map<String, Value>, given: &Given<'_>) {
        let old = given.old.and_then(|old| old.get("spec")?.get("template")?.get("spec")?.as_object());
        let recovers = object.get("spec").is_some_and(|spec| !spec["on"]["clusterRecovered"].is_null());
        if let Some(spec) = tree::object(object, &["spec", "template", "spec"]) {
            // A schedule that waits for recovered clusters restores placements by default.
            if recovers && !spec.contains_key("undo") {
                spec.entry("mode").or_insert_with(|| json!(Mode::AsBefore));
            }
            rebalance_rules::prepare_spec(spec, old);
        }
    }

    fn advise(object: &Map<String, Value>) -> Vec<String> {
        let template = object.get("spec").and_then(|spec| spec.get("template"));
        rebalance_rules::advise(template.and_then(|template| template.get("spec")), "spec.template.spec")
    }

    fn validate(object: &RebalanceSchedule, _old: Option<&RebalanceSchedule>) -> FieldErrors {
        schedule_rules::check(object)
    }
}

/// When ClusterRebalances are created, and the template they are created from. Exactly one of
/// `schedule` and `on` is given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RebalanceScheduleSpec {
    /// A cron expression with five fields: minute, hour, day of the month, month, day of the week.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 256)]
    pub schedule: Option<String>,
    /// The event after which a ClusterRebalance is created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<ScheduleOn>,
    /// Time zone of `schedule`, as in the tz database: `Europe/Berlin`. Default: UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(min_length = 1, max_length = 64)]
    pub time_zone: Option<String>,
    /// While true, no ClusterRebalance is created.
    #[serde(default)]
    #[schema(default = false)]
    pub suspend: bool,
    /// Treatment of a ClusterRebalance that is due while an earlier one of this schedule is not
    /// finished.
    #[serde(default)]
    #[schema(default = "Allow")]
    pub concurrency_policy: ConcurrencyPolicy,
    /// Seconds after its due time within which a ClusterRebalance must be created. After that it is
    /// skipped. Absent: it is created as soon as possible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 2147483647_i64)]
    pub starting_deadline_seconds: Option<i64>,
    /// Number of completed ClusterRebalances to retain.
    #[serde(default = "successful_history_limit")]
    #[schema(minimum = 0, maximum = 1000, default = 3)]
    pub successful_history_limit: i32,
    /// Number of ClusterRebalances to retain that were aborted or have failed moves.
    #[serde(default = "failed_history_limit")]
    #[schema(minimum = 0, maximum = 1000, default = 1)]
    pub failed_history_limit: i32,
    /// The content of each ClusterRebalance.
    pub template: RebalanceTemplate,
}

impl ClusterRecovered {
    /// Returns the selector of the clusters to watch for recovery.
    pub fn selector(&self) -> Result<Selector, selector::Malformed> {
        let LabelSelector { match_labels, match_expressions } = &self.cluster_selector;
        let labels = match_labels.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        let expressions =
            match_expressions.iter().map(|it| (it.key.as_str(), it.operator.as_str(), it.values.as_slice()));
        Selector::from_parts(labels, expressions)
    }
}

fn successful_history_limit() -> i32 {
    3
}

fn failed_history_limit() -> i32 {
    1
}

/// The event after which a schedule creates a ClusterRebalance.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScheduleOn {
    /// A cluster becomes Ready again, and stays Ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_recovered: Option<ClusterRecovered>,
}

/// A cluster becomes Ready again, and stays Ready.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterRecovered {
    /// The clusters to watch for recovery. Empty: all clusters.
    #[serde(default)]
    #[schema(value_type = Atomic<LabelSelector>, required = false)]
    pub cluster_selector: LabelSelector,
    /// Seconds for which the cluster must stay Ready. If it is lost earlier, nothing is created.
    #[serde(default = "stable_for_seconds")]
    #[schema(minimum = 0, maximum = 604800, default = 600)]
    pub stable_for_seconds: i64,
}

impl Default for ClusterRecovered {
    fn default() -> ClusterRecovered {
        ClusterRecovered { cluster_selector: LabelSelector::default(), stable_for_seconds: stable_for_seconds() }
    }
}

fn stable_for_seconds() -> i64 {
    600
}

/// Treatment of a ClusterRebalance that is due while an earlier one of its schedule is not
/// finished.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
pub enum ConcurrencyPolicy {
    /// The new one is created.
    #[default]
    Allow,
    /// The new one is skipped.
    Forbid,
    /// The earlier one is aborted, and the new one is created.
    Replace,
}

/// The template of the ClusterRebalances that a schedule creates.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RebalanceTemplate {
    /// Labels and annotations.
    #[serde(default, skip_serializing_if = "crate::optional::is_default")]
    pub metadata: TemplateMetadata,
    /// The workloads to move, and the bounds for moving them.
    pub spec: RebalanceSpec,
}

/// Labels and annotations of the ClusterRebalances that are created from a template.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TemplateMetadata {
    /// Labels of each ClusterRebalance.
    #[serde(default, skip_serializing_if = "Pairs::is_empty")]
    pub labels: Pairs<String>,
    /// Annotations of each ClusterRebalance.
    #[serde(default, skip_serializing_if = "Pairs::is_empty")]
    pub annotations: Pairs<String>,
}

/// The last created ClusterRebalance, and the time at which the next one is due.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RebalanceScheduleStatus {
    /// Due time of the last created ClusterRebalance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_schedule_time: Option<Time>,
    /// Time at which the next ClusterRebalance is due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_schedule_time: Option<Time>,
    /// Names of the ClusterRebalances that are not finished.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub active: Vec<String>,
    /// Clusters selected by `on.clusterRecovered` that are not Ready, or not for long enough yet.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub recoveries: Vec<Recovery>,
    /// Conditions of the schedule: `Ready`.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = MapList<Condition>)]
    pub conditions: Vec<Condition>,
}

/// A cluster that was lost, and may be Ready again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Recovery {
    /// Name of the cluster.
    pub cluster: String,
    /// Time since which the cluster is Ready again. Absent: it is not Ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_since: Option<Time>,
}
