//! Rebalance: moves bindings of its own namespace. It can be paused, aborted, undone (BD7) and made
//! to wait for an approval (BD8). Its spec and status are those of ClusterRebalance.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::amounts::{Limits, Mode};
use super::objective::Objective;
use super::rebalance_rules;
use super::rebalance_status::{COLUMNS, RebalanceStatus, SQL_COLUMNS};
use super::review::AsOf;
use super::rollout::Rollout;
use super::select::SelectEntry;
use super::select_rules::{self, Reach};
use crate::type_meta::kind;
use ballast_k8s::FieldErrors;
use ballast_resource::{Column, Given, Inspection, Resource, Schema, Scope, SqlColumn};

kind! {
    /// Moves workloads of its own namespace, by one plan and within bounds. The moves can be
    /// undone.
    pub struct Rebalance {
        /// The workloads to move, and the bounds for moving them.
        pub spec: RebalanceSpec,
        /// The plan, and its progress.
        #[serde(default, skip_serializing_if = "crate::optional::is_default")]
        pub status: RebalanceStatus,
    }
}

impl Resource for Rebalance {
    const GROUP: &'static str = super::GROUP;
    const VERSION: &'static str = super::VERSION;
    const KIND: &'static str = "Rebalance";
    const PLURAL: &'static str = "rebalances";
    const SINGULAR: &'static str = "rebalance";
    const SHORT_NAMES: &'static [&'static str] = &["reb"];
    const CATEGORIES: &'static [&'static str] = super::CATEGORIES;
    const SCOPE: Scope = Scope::Namespaced;
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

    fn validate(object: &Rebalance, old: Option<&Rebalance>) -> FieldErrors {
        let reach = Reach::OwnNamespace(object.metadata.namespace.as_deref().unwrap_or_default());
        rebalance_rules::check(&object.metadata, &object.spec, old.map(|old| &old.spec), reach)
    }
}

/// The workloads to move, and the bounds for moving them. Exactly one of `select`, `undo` and
/// `drain` is given. After creation only `approved`, `paused`, `abort` and
/// `ttlSecondsAfterFinished` may change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RebalanceSpec {
    /// The workloads: the union of these entries. `[{all: true}]` selects everything in scope.
    #[serde(default, deserialize_with = "super::select::entries", skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 100)]
    pub select: Vec<SelectEntry>,
    /// Workloads that do not move although `select` includes them.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 100)]
    pub exclude: Vec<SelectEntry>,
    /// Returns the workloads of another rebalance to their placements before it, as far as the
    /// present filters and capacity allow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undo: Option<Undo>,
    /// Moves the workloads off these clusters, and moves nothing else. Only in a ClusterRebalance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain: Option<Drain>,
    /// The mode in which placements are decided. Not used by `undo` and `drain`. Absent: `AsBefore`
    /// in the template of a schedule that waits for clusters to recover, `Fresh` otherwise.
    #[serde(default)]
    pub mode: Mode,
    /// The objective of the plan for all clusters together. Absent: each workload is placed by its
    /// own placement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objective: Option<Objective>,
    /// With `AsBefore`: the moment in the past to restore placements from, as far as the log
    /// reaches back. Absent: each workload returns to its placement before it lost clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<AsOf>,
    /// Limits on the replicas that may move, for each workload separately. With `undo`, absent: the
    /// limits of the undone rebalance.
    #[serde(default, skip_serializing_if = "crate::optional::is_default")]
    pub limits: Limits,
    /// The rollout of the plan. With `undo`, absent: the rollout of the undone rebalance.
    #[serde(default)]
    pub rollout: Rollout,
    /// The expected plan: `status.planHash` of a review or a dry run. If planning results in other
    /// moves, the rebalance ends as Aborted with the reason PlanChanged, and nothing moves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^[0-9a-f]{32}-[0-9]{1,10}-[0-9]{1,19}$")]
    pub expect_plan: Option<String>,
    /// Whether the plan must be approved before anything moves.
    #[serde(default)]
    #[schema(default = "NotRequired")]
    pub approval: Approval,
    /// Approves the plan. Setting it requires the verb `approve` on the resource. It cannot be
    /// unset.
    #[serde(default)]
    #[schema(default = false)]
    pub approved: bool,
    /// While true, no further move begins.
    #[serde(default)]
    #[schema(default = false)]
    pub paused: bool,
    /// Ends the rebalance early: no further move begins. It cannot be unset.
    #[serde(default)]
    #[schema(default = false)]
    pub abort: bool,
    /// Seconds until the finished object is deleted, with its moves. 0 deletes it at once. Absent:
    /// it is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0)]
    pub ttl_seconds_after_finished: Option<i32>,
}

impl RebalanceSpec {
    /// Returns the entries that select workloads: those of `select`, or one entry per drained
    /// cluster.
    pub fn selected(&self) -> Cow<'_, [SelectEntry]> {
        let Some(drain) = &self.drain else { return Cow::Borrowed(&self.select) };
        let on = |name: &String| SelectEntry { placed_on: vec![name.clone()], ..SelectEntry::default() };
        drain.clusters.iter().map(on).collect()
    }

    /// Returns whether the moves wait for an approval.
    pub fn awaits_approval(&self) -> bool {
        self.approval == Approval::Required && !self.approved
    }
}

/// A reference to the rebalance to undo. It has the same kind and namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Undo {
    /// Name of the rebalance.
    #[schema(min_length = 1, max_length = 253)]
    pub name: String,
    /// Only replicas that were moved off these clusters return, and nothing else moves. Absent: all
    /// moves are undone.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 1000)]
    pub clusters: Vec<String>,
}

/// The clusters to drain. Before the first move begins, they are closed to new workloads by the
/// taint `cluster.karmada.io/unschedulable`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Drain {
    /// Names of the clusters.
    #[schema(min_items = 1, max_items = 1000)]
    pub clusters: Vec<String>,
    /// Whether to remove the copies of workloads that run on every cluster as a whole. Such a copy
    /// cannot move to another cluster.
    #[serde(default)]
    #[schema(default = false)]
    pub include_duplicated: bool,
}

/// Whether a plan must be approved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
pub enum Approval {
    #[default]
    NotRequired,
    /// The rebalance stays Planned until `spec.approved` is true.
    Required,
}
