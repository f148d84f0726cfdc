//! Flags of a binding of either kind, for loops that see each change of a million bindings and act
//! on few.

use super::PENDING_PASS;
use ballast_k8s::Flag;

/// Annotation of a binding that a rebalance moves. Its value is the scheduler's `MoveAnnotation`.
pub const MOVE: &str = "ballast.dev/move";

/// The condition of a binding whose evictions wait, because its scheduling is suspended.
pub const EVICTION_SUSPENDED: &str = "EvictionSuspended";

/// The condition of a binding whose copy stays on a cluster beyond the grace period of its
/// eviction, because it has no other place, or is not ready there.
pub const LAST_COPY_KEPT: &str = "LastCopyKept";

/// A pass may be pending.
pub static IS_PENDING: Flag = Flag::new(0, PENDING_PASS);
/// A rebalance may be moving it.
pub static IS_MOVING: Flag = Flag::new(1, MOVE);
/// It may have eviction tasks.
pub static IS_EVICTING: Flag = Flag::new(2, "\"gracefulEvictionTasks\"");
/// It may leave clusters where its application is not healthy.
pub static HAS_APPLICATION_FAILOVER: Flag = Flag::new(3, "\"decisionConditions\"");
/// It may be placed.
pub static HAS_CLUSTERS: Flag = Flag::new(4, "\"clusters\":");
/// It may have the condition `LAST_COPY_KEPT`.
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
