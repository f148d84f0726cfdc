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

use ballast_engine::karmada::{
    ClusterSet, Decision, Mode, Outcome, Pass, Profile, Request, Rules, Target, WorkloadGroups, Workloads,
};
use ballast_k8s::Key;

/// The most rounds. A thousand workloads that a lost cluster has dispersed need nine, and each
/// round moves a third of the one before it. Where decisions follow each other in a circle, the
/// last round counts.
const ROUNDS_MAX: usize = 16;

/// Sketches the decisions of several triggered workloads, on clusters with the room that is left. A
/// workload that fits nowhere stays where it is, and has no sketch. Without reservations, and with
/// upstream's rules, nothing is sketched, and `asked` is not read.
pub fn sketch(
    clusters: &ClusterSet,
    profile: &Profile,
    asked: impl Iterator<Item = (Key, Request)>,
) -> HashMap<Key, Decision> {
    let mut sketched = HashMap::new();
    if !profile.reserves || profile.rules != Rules::Default {
        return sketched;
    }
    let mut asked = Vec::from_iter(asked.filter(|(_, request)| takes_part(request)));
    if asked.len() < 2 {
        return sketched;
    }
    let mut pass = Pass::new(clusters, &Workloads::default(), profile);
    for _ in 0..ROUNDS_MAX {
        let mut is_at_rest = true;
        for (key, request) in &mut asked {
            let decision = pass.decide_as(request, Mode::Fresh);
            let Outcome::Placed(placed) = &decision.outcome else {
                sketched.remove(key);
                continue;
            };
            if !is_at(&request.targets, &placed.targets) {
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
fn takes_part(request: &Request) -> bool {
    request.is_workload() && request.groups == WorkloadGroups::default()
}

/// Whether there is room now for what this decision brings to its clusters.
pub fn has_room(pass: &Pass, request: &Request, decision: &Decision) -> bool {
    decision.targets().is_some_and(|targets| pass.overfilled(request, targets).is_none())
}

/// Whether a workload that is at `present` is at these targets, in any order.
pub fn is_at(present: &[Target], targets: &[Target]) -> bool {
    present.len() == targets.len() && targets.iter().all(|target| present.contains(target))
}
