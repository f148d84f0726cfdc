//! Rebalance: moves bindings of its own namespace, and can be paused, aborted, undone (BD7) and
//! made to wait for an approval (BD8). It has the same spec and status as ClusterRebalance.

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
        /// What is to be moved, and within which bounds.
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

/// What is to be moved, and within which bounds. Exactly one of `select`, `undo` and `drain` is
/// given. After creation only `approved`, `paused`, `abort` and `ttlSecondsAfterFinished` may
/// change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RebalanceSpec {
    /// The workloads: the union of these entries. `[{all: true}]` is everything in scope.
    #[serde(default, deserialize_with = "super::select::entries", skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 100)]
    pub select: Vec<SelectEntry>,
    /// Workloads that `select` includes and that do not move.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 100)]
    pub exclude: Vec<SelectEntry>,
    /// Moves the workloads of another rebalance back to where they were before it, as far as the
    /// present filters and capacity allow.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undo: Option<Undo>,
    /// Takes the workloads off these clusters, and moves nothing else. Only in a ClusterRebalance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain: Option<Drain>,
    /// How placements are decided. Not used by `undo` and `drain`. Absent: `AsBefore` in the
    /// template of a schedule that waits for clusters to recover, `Fresh` elsewhere.
    #[serde(default)]
    pub mode: Mode,
    /// What the plan is to reach for the fleet as a whole. Absent: each workload goes where its own
    /// placement wants it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objective: Option<Objective>,
    /// With `AsBefore`: the moment whose placements come back, as far as the log remembers. Absent:
    /// each workload goes back to where it was before it lost clusters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<AsOf>,
    /// Limits on what may move, for each workload separately. With `undo`, absent: those of what is
    /// undone.
    #[serde(default, skip_serializing_if = "crate::optional::is_default")]
    pub limits: Limits,
    /// How the plan is carried out. With `undo`, absent: as what is undone was carried out.
    #[serde(default)]
    pub rollout: Rollout,
    /// The plan that is expected, as `status.planHash` of a review or a dry run names it. If
    /// planning comes to other moves, the rebalance ends as Aborted with the reason PlanChanged,
    /// and nothing moves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^[0-9a-f]{32}-[0-9]{1,10}-[0-9]{1,19}$")]
    pub expect_plan: Option<String>,
    /// Whether the plan must be approved before anything moves.
    #[serde(default)]
    #[schema(default = "NotRequired")]
    pub approval: Approval,
    /// Approves the plan. A user who sets it needs the verb `approve` on the resource. It cannot be
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
    /// The entries that select workloads: those of `select`, or what runs on the clusters that are
    /// drained.
    pub fn selected(&self) -> Cow<'_, [SelectEntry]> {
        let Some(drain) = &self.drain else { return Cow::Borrowed(&self.select) };
        let on = |name: &String| SelectEntry { placed_on: vec![name.clone()], ..SelectEntry::default() };
        drain.clusters.iter().map(on).collect()
    }

    /// Whether the moves wait for an approval.
    pub fn awaits_approval(&self) -> bool {
        self.approval == Approval::Required && !self.approved
    }
}

/// Names the rebalance that is undone. It has the same kind and namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Undo {
    /// Name of the rebalance.
    #[schema(min_length = 1, max_length = 253)]
    pub name: String,
    /// Only what was taken off these clusters goes back, and nothing else moves. Absent: everything
    /// that was moved goes back.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 1000)]
    pub clusters: Vec<String>,
}

/// The clusters that are drained. They are closed to new workloads before the first move begins, by
/// the taint `cluster.karmada.io/unschedulable`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Drain {
    /// Names of the clusters.
    #[schema(min_items = 1, max_items = 1000)]
    pub clusters: Vec<String>,
    /// Whether copies of workloads leave, too, that each cluster runs as a whole. They have no
    /// other place.
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
