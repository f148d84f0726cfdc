//! Joint decisions for the triggers that one pass serves, so that they converge.
//!
//! A Fresh decision divides by the free capacity that it sees. If triggered workloads are decided
//! one after the other, later decisions change the state that earlier ones saw, and the next
//! trigger moves the workloads again. Therefore the decisions are first sketched: each workload
//! leaves its previous clusters when it moves, and all decide again until none would move. A second
//! trigger then moves nothing (S8). A workload that is divided by capacity stays if a move would
//! gain next to nothing.
//!
//! The sketch counts capacity as free that other workloads have not released yet. Therefore a
//! workload follows it only if the capacity is free now, and is otherwise decided without the
//! sketch.

use ballast_engine::karmada::{
    ClusterSet, Decision, Mode, Outcome, Pass, Profile, Request, Rules, Target, TargetIndex, WorkloadGroups, Workloads,
};

/// Maximum number of rounds. If decisions form a cycle, the last round counts.
const ROUNDS_MAX: usize = 16;

/// Sketches the decisions of several triggered workloads, on clusters with their free capacity.
/// Returns one item for each item of `asked`. A workload that fits nowhere stays, and has no
/// sketch. Without reservations, and with upstream's rules, nothing is sketched. The requests are
/// returned unchanged.
pub fn sketch(clusters: &ClusterSet, profile: &Profile, asked: Vec<Option<&mut Request>>) -> Vec<Option<Decision>> {
    let mut sketched = Vec::from_iter(asked.iter().map(|_| None));
    if !profile.reserves || profile.rules != Rules::Default {
        return sketched;
    }
    let asked = asked.into_iter().enumerate();
    let asked = asked.filter_map(|(place, request)| Some((place, request.filter(|request| takes_part(request))?)));
    let mut asked: Vec<(usize, &mut Request)> = asked.collect();
    if asked.len() < 2 {
        return sketched;
    }
    let present = Vec::from_iter(asked.iter().map(|(_, request)| request.targets.clone()));
    let mut pass = Pass::new(clusters, &Workloads::default(), profile);
    for _ in 0..ROUNDS_MAX {
        let mut is_at_rest = true;
        for (place, request) in &mut asked {
            let mut decision = pass.decide_as(request, Mode::Fresh);
            let Outcome::Placed(placed) = &mut decision.outcome else {
                sketched[*place] = None;
                continue;
            };
            if !is_at(&request.targets, &placed.targets) {
                if pass.is_about_as_even(request, placed) {
                    placed.targets.clone_from(&request.targets);
                } else {
                    is_at_rest = false;
                    pass.reassign(request, &request.targets, &placed.targets);
                    request.targets.clone_from(&placed.targets);
                }
            }
            sketched[*place] = Some(decision);
        }
        if is_at_rest {
            break;
        }
    }
    for ((_, request), targets) in asked.into_iter().zip(present) {
        request.targets = targets;
    }
    sketched
}

/// Returns whether the workload can be decided jointly. The members of a workload group depend on
/// each other in more than capacity.
fn takes_part(request: &Request) -> bool {
    request.is_workload() && request.groups == WorkloadGroups::default()
}

/// Returns whether there is free capacity for the replicas that the decision adds to its clusters.
pub fn has_room(pass: &Pass, request: &Request, decision: &Decision) -> bool {
    decision.targets().is_some_and(|targets| pass.overfilled(request, targets).is_none())
}

/// Returns whether the present targets equal these targets, in any order.
pub fn is_at(present: &[Target], targets: &[Target]) -> bool {
    let known = TargetIndex::new(present);
    present.len() == targets.len() && targets.iter().all(|target| known.find(&target.name) == Some(target))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::convert;
    use ballast_api::karmada::cluster::v1alpha1::Cluster;
    use ballast_api::karmada::work::v1alpha2::AnyBinding;

    fn fleet(clusters: usize) -> ClusterSet {
        ClusterSet::new((0..clusters).map(|number| {
            let cluster = json!({"metadata": {"name": format!("member{number:02}")}, "spec": {"syncMode": "Push"}, "status": {
                "apiEnablements": [{"groupVersion": "apps/v1", "resources": [{"kind": "Deployment", "name": "deployments"}]}],
                "resourceSummary": {"allocatable": {"cpu": "500", "pods": "4000"}},
            }});
            let cluster: Cluster = serde_json::from_value(cluster).unwrap();
            convert::karmada::cluster(&cluster).0
        }))
    }

    fn workload(number: usize) -> Request {
        let binding = json!({"metadata": {"name": format!("w{number}"), "namespace": "shop"}, "spec": {
            "resource": {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop",
                "name": format!("w{number}"), "uid": format!("{number:05}")},
            "replicas": 2 + number % 9, "replicaRequirements": {"resourceRequest": {"cpu": "250m"}},
            "placement": {"replicaScheduling": {
                "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
                "weightPreference": {"dynamicWeight": "AvailableReplicas"}}},
        }});
        let binding: AnyBinding = serde_json::from_value(binding).unwrap();
        let request = convert::karmada::request(&binding.metadata, &binding.spec, &binding.status);
        Request { placement_changed: false, ..request }
    }

    /// Triggers all workloads, and returns the number that moved.
    fn trigger(pass: &mut Pass, profile: &Profile, requests: &mut [Request]) -> usize {
        let sketched = sketch(&pass.fleet().clone(), profile, requests.iter_mut().map(Some).collect());
        let mut moved = 0;
        for (request, decision) in requests.iter_mut().zip(sketched) {
            let to = decision.expect("there is room for all").targets().unwrap().to_vec();
            if !is_at(&request.targets, &to) {
                moved += 1;
                pass.reassign(request, &request.targets, &to);
                request.targets = to;
            }
        }
        moved
    }

    #[test]
    fn s8_a_trigger_of_many_moves_what_new_clusters_are_for_and_the_next_one_nothing() {
        let profile = Profile::default();
        let mut requests = Vec::from_iter((0..400).map(workload));
        let mut pass = Pass::new(&fleet(8), &Workloads::default(), &profile);
        for request in &mut requests {
            let decision = pass.decide_as(request, Mode::Fresh);
            let to = decision.targets().expect("there is room for all").to_vec();
            pass.reassign(request, &[], &to);
            request.targets = to;
        }
        assert_eq!(trigger(&mut pass, &profile, &mut requests), 0, "the fleet is even to a hundredth");

        let mut pass = Pass::new(&fleet(10), &Workloads::default(), &profile);
        requests.iter().for_each(|request| pass.reassign(request, &[], &request.targets));
        let moved = trigger(&mut pass, &profile, &mut requests);
        assert!((100..300).contains(&moved), "{moved}");
        assert_eq!(trigger(&mut pass, &profile, &mut requests), 0);
        let on = |name: &str| {
            let targets = requests.iter().flat_map(|request| &request.targets);
            targets.filter(|target| *target.name == *name).map(|target| target.replicas).sum::<i32>()
        };
        let replicas: i32 = requests.iter().map(|request| request.replicas).sum();
        let each = replicas / 10;
        for number in 0..10 {
            let there = on(&format!("member{number:02}"));
            assert!((each - 20..=each + 20).contains(&there), "{there} of {each} on member{number:02}");
        }
    }
}
