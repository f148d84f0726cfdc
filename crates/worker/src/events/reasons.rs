//! The reasons of all events that Ballast writes. docs/reference/events.md is generated from this
//! table.

/// A machine-readable reason of events.
#[derive(Clone, Copy, Debug)]
pub struct EventReason {
    pub reason: &'static str,
    /// The kinds of objects that have such events.
    pub about: &'static str,
    pub meaning: &'static str,
}

const fn reason(reason: &'static str, about: &'static str, meaning: &'static str) -> EventReason {
    EventReason { reason, about, meaning }
}

const BINDING: &str = "binding, workload";
const PLACED: &str = "binding, workload, ClusterResourcePlacement";
const ASKER: &str = "RescheduleTask, WorkloadRebalancer";
const REBALANCE: &str = "Rebalance, ClusterRebalance";
const SCHEDULE: &str = "RebalanceSchedule";
const CLUSTER: &str = "Cluster";
/// Policies of the host cluster.
const POLICY: &str = "ValidatingAdmissionPolicy, MutatingAdmissionPolicy";
/// Events about objects without a namespace, such as the database, are in this namespace.
const LIMIT: &str = "EvictionLimit";
const DATABASE: &str = "Namespace default";

/// In alphabetical order.
pub const REASONS: &[EventReason] = &[
    reason("Aborted", REBALANCE, "it was aborted, or its bound of failures was reached; moves that had begun settled"),
    reason("AlreadyActive", SCHEDULE, "its time came while a rebalance of it was active, and it forbids a second one"),
    reason("Approved", REBALANCE, "a user approved it; the message names the user"),
    reason("ArrivalsPlanned", REBALANCE, "a drain has planned workloads that came to its clusters after the plan"),
    reason("Completed", REBALANCE, "no move is left"),
    reason(
        "EvictWorkloadFromClusterSucceed",
        BINDING,
        "an eviction has ended, and the cluster has no replica any more",
    ),
    reason("EvictionCalledOff", BINDING, "the workload stays on a cluster that it was leaving; the message says why"),
    reason(
        "EvictionRateSet",
        LIMIT,
        "a user set the rate of evictions, or the flags set it again; the message names the user, the end and the note",
    ),
    reason("FailedCreate", SCHEDULE, "a ClusterRebalance could not be created"),
    reason(
        "GateFailed",
        REBALANCE,
        "a gate has not said yes in time; the message has its last words, and what follows",
    ),
    reason("GatesAsked", REBALANCE, "a wave has settled, and its gates are asked"),
    reason("GatesPassed", REBALANCE, "all gates of a wave have said yes"),
    reason(
        "HistoryCutShort",
        DATABASE,
        "the past is shorter than --history says, because a quota keeps less; the message says which",
    ),
    reason("HistoryLost", DATABASE, "the database has lost changes, as after a failover; all watches list again"),
    reason("HistoryWhole", DATABASE, "the past is as long as --history says again"),
    reason(
        "LastCopyKept",
        BINDING,
        "replicas have no other place, or are not ready there; the message says where they stay",
    ),
    reason("LastCopyLost", BINDING, "an eviction has ended although its replicas were not ready elsewhere"),
    reason("MissSchedule", SCHEDULE, "a time or a recovery was past its deadline, and is skipped"),
    reason("MissingRebalance", SCHEDULE, "a ClusterRebalance was active and is deleted"),
    reason("MoveFailed", BINDING, "a rebalance could not move it, or it did not settle in time"),
    reason("MovesDeleted", REBALANCE, "a client deleted Moves that had not ended"),
    reason("NotClosed", REBALANCE, "a cluster of a drain cannot be closed, so nothing moves; the message says why"),
    reason("NotPlanned", REBALANCE, "nothing is planned; the message says why"),
    reason("NothingSelected", REBALANCE, "the selection matches no workload, so nothing will move"),
    reason("Paused", REBALANCE, "no further move begins until it is resumed"),
    reason(
        "PlanChanged",
        REBALANCE,
        "the plan is not the expected one, and nothing moves; the message has the numbers",
    ),
    reason("Planned", REBALANCE, "the plan is made, with these numbers"),
    reason("PolicyFailed", POLICY, "an expression of it failed for a write; the message says why, and what followed"),
    reason("PolicyNotReadable", POLICY, "an expression of it cannot be evaluated here; the message says which and why"),
    reason("Rebalanced", PLACED, "a rebalance begins to move it"),
    reason("ReplicasMoved", PLACED, "a pass changed its clusters; the message says how, and because of what"),
    reason("RescheduleAnswered", ASKER, "all passes that it asked for are over; the message has their results"),
    reason("RescheduleAsked", ASKER, "it has asked for fresh passes over what it selects"),
    reason("RescheduleGoesOn", ASKER, "it has asked for some passes, and the others follow"),
    reason("Running", REBALANCE, "moves begin"),
    reason("SawCompletedRebalance", SCHEDULE, "a ClusterRebalance of it has completed"),
    reason("SawFailedRebalance", SCHEDULE, "a ClusterRebalance of it was aborted, or moves of it failed"),
    reason("ScheduleBindingFailed", BINDING, "a pass found no place, or a webhook or a quota refused it"),
    reason("ScheduleBindingSucceed", BINDING, "a pass has placed it; the message has its clusters"),
    reason(
        "SpecifiedReplicasOverlap",
        BINDING,
        "several entries of staticSpecifyList name a cluster; the first counts",
    ),
    reason("SuccessfulAbort", SCHEDULE, "an active ClusterRebalance was aborted, because a new one replaces it"),
    reason("SuccessfulCreate", SCHEDULE, "a ClusterRebalance was created; the message says because of what"),
    reason("SuccessfulDelete", SCHEDULE, "an old ClusterRebalance was deleted, beyond the limits of history"),
    reason("TaintClusterSucceed", CLUSTER, "its taints were changed, because of its conditions"),
    reason("TooManyMissedTimes", SCHEDULE, "more than a hundred times were missed; only the last one counts"),
    reason("Undone", REBALANCE, "it was aborted, because an undo takes back what it has moved"),
    reason("WaitingForBindings", CLUSTER, "it is being deleted, and a binding is still placed on it"),
];

pub(super) fn is_listed(reason: &str) -> bool {
    REASONS.binary_search_by_key(&reason, |listed| listed.reason).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_is_listed_once_and_in_its_place() {
        assert!(REASONS.is_sorted_by_key(|listed| listed.reason));
        assert!(REASONS.iter().all(|listed| is_listed(listed.reason)) && !is_listed("Reason"));
    }
}
