//! Triggers that are served in one pass are decided together, so that they come to rest.
//!
//! A Fresh decision divides by the room that it sees. One after the other, the first decisions see
//! a fleet that the later ones change, and the next trigger moves them again. So the decisions are
//! first sketched: each workload leaves its old place when it goes to a new one, and all decide
//! again until none would move. Then a second trigger finds nothing to do (S8).
//!
//! The sketch counts room as free that others have not left yet. So it only says where a workload
//! goes if there is room for it now. If there is none, the workload is decided without the sketch.

use std::collections::HashMap;

use ballast_engine::karmada::{self as engine, Decision, Mode, Outcome, Request, Target, WorkloadGroups};
use ballast_k8s::Key;

/// The most rounds. A thousand workloads that a lost cluster has dispersed need nine, and each
/// round moves a third of the one before it. Where decisions follow each other in a circle, the
/// last round counts.
const ROUNDS_MAX: usize = 16;

/// Sketches the decisions of several triggered workloads in this pass, which is used up. A workload
/// that fits nowhere stays where it is, and has no sketch.
pub fn sketch(pass: &mut engine::Pass, mut asked: Vec<(Key, Request)>) -> HashMap<Key, Decision> {
    let mut sketched = HashMap::new();
    if asked.len() < 2 {
        return sketched;
    }
    for _ in 0..ROUNDS_MAX {
        let mut is_at_rest = true;
        for (key, request) in &mut asked {
            let decision = pass.decide_as(request, Mode::Fresh);
            let Outcome::Placed(placed) = &decision.outcome else {
                sketched.remove(key);
                continue;
            };
            if !is_same(&request.targets, &placed.targets) {
                is_at_rest = false;
                pass.reassign(request, &request.targets, &placed.targets);
                request.targets.clone_from(&placed.targets);
            }
            sketched.insert(key.clone(), decision);
        }
        if is_at_rest {
            break;
        }
    }
    sketched
}

/// Whether the workload can be decided with others. The members of a workload group depend on each
/// other in more than room.
pub fn takes_part(request: &Request) -> bool {
    request.is_workload() && request.groups == WorkloadGroups::default()
}

/// Whether there is room now for what this decision brings to its clusters.
pub fn has_room(pass: &engine::Pass, request: &Request, decision: &Decision) -> bool {
    decision.targets().is_some_and(|targets| pass.overfilled(request, targets).is_none())
}

/// Whether the workload has as many replicas on each cluster.
fn is_same(before: &[Target], after: &[Target]) -> bool {
    before.len() == after.len()
        && after
            .iter()
            .all(|target| before.iter().any(|known| known.name == target.name && known.replicas == target.replicas))
}
