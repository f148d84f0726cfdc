//! Move and ClusterMove: the part of a plan that concerns one binding or KubeFleet placement
//! (BD10). Only workers write them. Any other change of the binding ends the move (BD6).

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::type_meta::kind;
use ballast_k8s::Time;
use ballast_resource::{Column, Resource, Scope, SqlColumn};

kind! {
    /// The move of one namespaced binding of a plan. Only the server writes it.
    pub struct Move {
        /// The binding to move, its source and its target clusters.
        pub spec: MoveSpec,
        /// The progress of the move.
        #[serde(default, skip_serializing_if = "crate::optional::is_default")]
        pub status: MoveStatus,
    }
}

kind! {
    /// The move of one cluster-scoped binding of a plan. Only the server writes it.
    pub struct ClusterMove {
        /// The binding to move, its source and its target clusters.
        pub spec: MoveSpec,
        /// The progress of the move.
        #[serde(default, skip_serializing_if = "crate::optional::is_default")]
        pub status: MoveStatus,
    }
}

const fn column(name: &'static str, kind: &'static str, path: &'static str, description: &'static str) -> Column {
    Column { name, kind, path, priority: 0, description }
}

const COLUMNS: &[Column] = &[
    column("WORKLOAD", "string", ".spec.workload.kind/.spec.workload.name", "The workload."),
    column("FROM", "string", ".spec.from[*].name:.replicas", "Where it was."),
    column("TO", "string", ".spec.to[*].name:.replicas", "Where it goes."),
    column("REPLICAS", "integer", ".spec.replicas", "Replicas that move."),
    column("PHASE", "string", ".status.phase", "The phase of the move."),
    column("REASON", "string", ".status.reason", "Why the move did not end as planned."),
    column("AGE", "date", ".metadata.creationTimestamp", ""),
];

const SQL_COLUMNS: &[SqlColumn] = &[
    SqlColumn::field("rebalance", &["spec", "rebalance"]),
    SqlColumn::field("binding", &["spec", "binding", "name"]),
    SqlColumn::field("replicas", &["spec", "replicas"]),
    SqlColumn::field("phase", &["status", "phase"]),
    SqlColumn::field("reason", &["status", "reason"]),
    SqlColumn::field("finished_at", &["status", "finishedAt"]),
];

impl Resource for Move {
    const GROUP: &'static str = super::GROUP;
    const VERSION: &'static str = super::VERSION;
    const KIND: &'static str = "Move";
    const PLURAL: &'static str = "moves";
    const SINGULAR: &'static str = "move";
    const CATEGORIES: &'static [&'static str] = super::CATEGORIES;
    const SCOPE: Scope = Scope::Namespaced;
    const WRITTEN_BY_CLIENTS: bool = false;
    const STATUS_SUBRESOURCE: bool = false;
    const COLUMNS: &'static [Column] = COLUMNS;
    const SQL_COLUMNS: &'static [SqlColumn] = SQL_COLUMNS;
    const OPENAPI_PACKAGE: &'static str = super::OPENAPI_PACKAGE;
}

impl Resource for ClusterMove {
    const GROUP: &'static str = super::GROUP;
    const VERSION: &'static str = super::VERSION;
    const KIND: &'static str = "ClusterMove";
    const PLURAL: &'static str = "clustermoves";
    const SINGULAR: &'static str = "clustermove";
    const CATEGORIES: &'static [&'static str] = super::CATEGORIES;
    const SCOPE: Scope = Scope::Cluster;
    const WRITTEN_BY_CLIENTS: bool = false;
    const STATUS_SUBRESOURCE: bool = false;
    const COLUMNS: &'static [Column] = COLUMNS;
    const SQL_COLUMNS: &'static [SqlColumn] = SQL_COLUMNS;
    const OPENAPI_PACKAGE: &'static str = super::OPENAPI_PACKAGE;
}

/// The binding to move, its source and its target clusters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MoveSpec {
    /// Name of the rebalance that the move belongs to.
    pub rebalance: String,
    /// The binding to move.
    pub binding: BindingRef,
    /// The workload of the binding.
    pub workload: WorkloadRef,
    /// Replicas per cluster before the move: as of its begin or, until then, as of the plan.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub from: Vec<Share>,
    /// Replicas per cluster after the move.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub to: Vec<Share>,
    /// Number of replicas that move, counted on their target clusters.
    #[serde(default)]
    pub replicas: i64,
}

/// A reference to a binding or a KubeFleet placement.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
pub struct BindingRef {
    /// Kind of the binding.
    pub kind: String,
    /// Namespace of the binding. Absent for cluster-scoped bindings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Name of the binding.
    pub name: String,
    /// UID of the binding.
    #[serde(default)]
    pub uid: String,
}

/// A reference to a workload.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadRef {
    /// API version of the workload.
    #[serde(default)]
    pub api_version: String,
    /// Kind of the workload.
    pub kind: String,
    /// Namespace of the workload. Absent for cluster-scoped workloads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Name of the workload.
    pub name: String,
}

/// Number of replicas on one cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
pub struct Share {
    /// Name of the cluster.
    pub name: String,
    /// Replicas on the cluster. 0 for a workload without replicas.
    #[serde(default)]
    pub replicas: i32,
}

/// Number of replicas on one cluster, and how many of them are ready.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
pub struct ShareNow {
    /// Name of the cluster.
    pub name: String,
    /// Replicas that are assigned to the cluster.
    #[serde(default)]
    pub replicas: i32,
    /// Replicas that are reported as ready on the cluster. Absent if no number is reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready: Option<i32>,
}

/// The progress of a move.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct MoveStatus {
    /// The phase of the move.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<MovePhase>,
    /// The reason why the move did not end as planned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<MoveReason>,
    /// The reason as a sentence, with numbers.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schema(required = false)]
    pub message: String,
    /// Time at which the first targets were written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    /// Time at which the move ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Time>,
    /// Whether the state of the workload on its clusters was reported. If not, the move is settled
    /// when its targets are written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed: Option<bool>,
    /// Number of the wave in which the move began, if the rollout has gates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wave: Option<i64>,
    /// Current replicas per cluster, with the number reported as ready.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    pub now: Vec<ShareNow>,
}

/// The phase of a move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
pub enum MovePhase {
    /// The move has not begun.
    Pending,
    /// The move is in progress.
    Moving,
    /// The move ended as planned.
    Settled,
    /// The move did not begin, and never will.
    Unchanged,
    /// The move was not possible, or did not settle in time.
    Failed,
    /// Another change of the binding replaced the move.
    Superseded,
}

impl MovePhase {
    pub fn as_str(self) -> &'static str {
        match self {
            MovePhase::Pending => "Pending",
            MovePhase::Moving => "Moving",
            MovePhase::Settled => "Settled",
            MovePhase::Unchanged => "Unchanged",
            MovePhase::Failed => "Failed",
            MovePhase::Superseded => "Superseded",
        }
    }

    /// Returns whether the phase is final.
    pub fn is_over(self) -> bool {
        !matches!(self, MovePhase::Pending | MovePhase::Moving)
    }
}

/// The reason why a move did not end as planned, or why there is no move. The set of values is
/// closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
pub enum MoveReason {
    /// The move would affect fewer replicas than `limits.minMovedReplicas`.
    NotWorthwhile,
    /// Some clusters fit, but they do not have enough capacity.
    NoRoom,
    /// No cluster fits.
    NoClusterFits,
    /// `limits` permit no part of the move.
    LimitReached,
    /// The move did not settle within `settle.timeoutSeconds`.
    SettleTimeout,
    /// The workload is not healthy on its new clusters.
    Unhealthy,
    /// The binding has been deleted.
    BindingGone,
    /// A trigger, an eviction or a changed placement replaced the move.
    TriggeredMeanwhile,
    /// The cluster of a target is gone, lost, or no longer selected.
    ClusterLost,
    /// The workload's number of replicas changed before the move ended.
    ReplicasChanged,
    /// The rebalance was aborted before the move began.
    Aborted,
    /// Another rebalance is moving the workload.
    MovingAlready,
    /// The scheduling of the workload is suspended.
    SchedulingSuspended,
    /// The workload belongs to another scheduler, or no policy manages it.
    OtherScheduler,
    /// Every cluster runs a full copy of the workload, so a copy cannot move to another cluster. A
    /// drain with `includeDuplicated` removes the copy.
    Duplicated,
    /// The workload is still leaving the cluster: its eviction or deletion has not ended.
    StillLeaving,
    /// The workload was placed on a drained cluster again after the drain had moved it.
    CameBack,
}

impl MoveReason {
    pub fn as_str(self) -> &'static str {
        match self {
            MoveReason::NotWorthwhile => "NotWorthwhile",
            MoveReason::NoRoom => "NoRoom",
            MoveReason::NoClusterFits => "NoClusterFits",
            MoveReason::LimitReached => "LimitReached",
            MoveReason::SettleTimeout => "SettleTimeout",
            MoveReason::Unhealthy => "Unhealthy",
            MoveReason::BindingGone => "BindingGone",
            MoveReason::TriggeredMeanwhile => "TriggeredMeanwhile",
            MoveReason::ClusterLost => "ClusterLost",
            MoveReason::ReplicasChanged => "ReplicasChanged",
            MoveReason::Aborted => "Aborted",
            MoveReason::MovingAlready => "MovingAlready",
            MoveReason::SchedulingSuspended => "SchedulingSuspended",
            MoveReason::OtherScheduler => "OtherScheduler",
            MoveReason::Duplicated => "Duplicated",
            MoveReason::StillLeaving => "StillLeaving",
            MoveReason::CameBack => "CameBack",
        }
    }
}

/// Maximum length of an object's name.
const NAME_BYTES_MAX: usize = 253;

/// Returns the name of a move: the rebalance's name, a dot, and the binding's name. Longer names
/// are truncated and end with a hash of the whole name. Names of rebalances contain no dot, so the
/// moves of two bindings of one kind, or of two rebalances of one kind, never share a name.
pub fn move_name(rebalance: &str, binding: &str) -> String {
    let whole = format!("{rebalance}.{binding}");
    if whole.len() <= NAME_BYTES_MAX { whole } else { with_hash(&whole, &whole) }
}

/// Returns the alternative name of a move, for use if another move already has the name returned by
/// `move_name`. That happens if a Rebalance and a ClusterRebalance have the same name, or a binding
/// and a KubeFleet placement. `uids` are the UIDs of the rebalance and the binding, so the name is
/// stable across restarts.
pub fn other_move_name(rebalance: &str, binding: &str, uids: [&str; 2]) -> String {
    with_hash(&format!("{rebalance}.{binding}"), &uids.concat())
}

fn with_hash(name: &str, hashed: &str) -> String {
    let hash = format!("-{:016x}", fnv_1a(hashed.as_bytes()));
    let end = name.floor_char_boundary(NAME_BYTES_MAX - hash.len());
    format!("{}{hash}", name[..end].trim_end_matches(|last: char| !last.is_ascii_alphanumeric()))
}

/// Computes the 64-bit FNV-1a hash, which is the same in every version and on every machine.
fn fnv_1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ballast_k8s::names;

    #[test]
    fn long_names_are_cut_and_stay_apart() {
        assert_eq!(move_name("after-outage", "web-deployment"), "after-outage.web-deployment");
        let long = |last: &str| move_name("after-outage", &format!("{}.{last}", "b".repeat(230)));
        let exact = move_name("r", &"b".repeat(251));
        assert_eq!(exact, format!("r.{}", "b".repeat(251)));
        assert_ne!(long("one-two-three"), long("one-two-four"));
        for name in [long("one-two-three"), exact, other_move_name("r", &"b".repeat(253), ["u-1", "u-2"])] {
            assert!(name.len() <= NAME_BYTES_MAX && names::subdomain_faults(&name).is_empty(), "{name}");
        }
    }

    #[test]
    fn moves_of_two_owners_have_names_of_their_own() {
        let one = other_move_name("r", "web", ["u-1", "b-1"]);
        assert!(one.starts_with("r.web-") && one != other_move_name("r", "web", ["u-2", "b-1"]), "{one}");
        assert_eq!(one, other_move_name("r", "web", ["u-1", "b-1"]));
    }
}
