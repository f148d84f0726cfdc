//! Flags of a binding of either kind, for loops that observe every change of up to a million
//! bindings and act on few of them.

use super::PENDING_PASS;
use ballast_k8s::Flag;

/// Annotation of a binding that a rebalance moves. Its value is the scheduler's `MoveAnnotation`.
pub const MOVE: &str = "ballast.dev/move";

/// Condition of a binding with evictions that wait because its scheduling is suspended.
pub const EVICTION_SUSPENDED: &str = "EvictionSuspended";

/// Condition of a binding with a copy that stays on a cluster beyond the grace period of its
/// eviction, because the workload has no other cluster, or is not ready there.
pub const LAST_COPY_KEPT: &str = "LastCopyKept";

/// A scheduling pass may be pending.
pub static IS_PENDING: Flag = Flag::new(0, PENDING_PASS);
/// A rebalance may be moving the binding.
pub static IS_MOVING: Flag = Flag::new(1, MOVE);
/// The binding may have eviction tasks.
pub static IS_EVICTING: Flag = Flag::new(2, "\"gracefulEvictionTasks\"");
/// The binding may be evicted from clusters on which its application is unhealthy.
pub static HAS_APPLICATION_FAILOVER: Flag = Flag::new(3, "\"decisionConditions\"");
/// The binding may have targets.
pub static HAS_CLUSTERS: Flag = Flag::new(4, "\"clusters\":");
/// The binding may have the condition `LAST_COPY_KEPT`.
pub static TELLS_OF_KEPT_COPY: Flag = Flag::new(5, "\"LastCopyKept\"");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_flag_has_a_number_of_its_own() {
        let flags =
            [&IS_PENDING, &IS_MOVING, &IS_EVICTING, &HAS_APPLICATION_FAILOVER, &HAS_CLUSTERS, &TELLS_OF_KEPT_COPY];
        assert_eq!(flags.map(Flag::number), [0, 1, 2, 3, 4, 5]);
    }
}
