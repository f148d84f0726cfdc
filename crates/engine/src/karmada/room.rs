//! Resources of replicas, for capacity accounting outside the engine: of existing replicas, and of
//! reservations (replicas that are assigned, and not reported yet).
//!
//! Amounts have the units of the estimates: whole units, and thousandths for cpu. Sums have 128
//! bits and saturate.

use std::collections::BTreeMap;

use super::cluster::{ClusterCapacity, Grade, amount, counted};
use super::ledger::{Footprint, quantity};
use super::pass::Pass;
use super::request::{Component, Request, Requirements, Target, TargetIndex};
use ballast_k8s::Quantity;

const PODS: &str = "pods";

/// The resources of one copy of a workload.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Needs {
    /// One pod. `None` if it has no requirements.
    Replica(Option<Requirements>),
    /// One pod set of several templates.
    Set(Box<[Component]>),
}

/// Sums of amounts by resource, including `pods`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Amounts(BTreeMap<Box<str>, i128>);

impl Needs {
    /// Returns the needs of the workload, or `None` if the object has no pods.
    pub fn of(request: &Request) -> Option<Needs> {
        Some(match Footprint::of(request)? {
            Footprint::Replica(requirements) => Needs::Replica(requirements.cloned()),
            Footprint::Set(components) => Needs::Set(components.into()),
        })
    }

    /// Returns the number of copies on a target.
    pub fn copies(&self, target: &Target) -> i64 {
        self.footprint().of_target(target)
    }

    /// Returns the resources of one copy.
    pub fn amounts(&self) -> Amounts {
        let mut amounts = Amounts::default();
        match self {
            Needs::Replica(requirements) => amounts.add_pods(1, requirements.as_ref()),
            Needs::Set(components) => {
                for component in components {
                    amounts.add_pods(i64::from(component.replicas.max(0)), component.requirements.as_ref());
                }
            }
        }
        amounts
    }

    fn footprint(&self) -> Footprint<'_> {
        match self {
            Needs::Replica(requirements) => Footprint::Replica(requirements.as_ref()),
            Needs::Set(components) => Footprint::Set(components),
        }
    }
}

impl Amounts {
    /// Adds `each` this many times. A negative number subtracts.
    pub fn add(&mut self, each: &Amounts, times: i64) {
        for (name, amount) in &each.0 {
            let sum = self.0.entry(name.clone()).or_default();
            *sum = sum.saturating_add(amount.saturating_mul(i128::from(times)));
            if *sum == 0 {
                self.0.remove(name);
            }
        }
    }

    /// Returns the amount of a resource, or 0: thousandths for cpu, whole units for the others.
    pub fn get(&self, resource: &str) -> i128 {
        self.0.get(resource).copied().unwrap_or_default()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Iterates over the amounts by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, i128)> {
        self.0.iter().map(|(name, amount)| (&**name, *amount))
    }

    /// Returns the amounts by which `self` exceeds `other`.
    #[must_use]
    pub fn beyond(&self, other: &Amounts) -> Amounts {
        let more = |(name, amount): (&str, i128)| {
            let more = amount.saturating_sub(other.get(name));
            (more > 0).then(|| (Box::from(name), more))
        };
        Amounts(self.iter().filter_map(more).collect())
    }

    /// Returns how many copies of `each` do not fit any more if these amounts are taken, according
    /// to the sums of their requests: never too few. Negative if more was released than reserved.
    /// Pods are considered only for copies that request nothing else: the summary of a cluster has
    /// their exact number, and small pods are not the resource that larger ones lack.
    pub(super) fn displaces(&self, each: &Amounts) -> i64 {
        // Rounds up.
        let copies =
            |(name, needed): (&str, i128)| (needed > 0).then(|| -(self.get(name).saturating_neg().div_euclid(needed)));
        let requested = each.iter().filter(|(name, _)| *name != PODS).filter_map(copies).max();
        let most = requested.or_else(|| copies((PODS, each.get(PODS)))).unwrap_or(0);
        i64::try_from(most.max(i128::from(i64::MIN))).unwrap_or(i64::MAX)
    }

    fn add_pods(&mut self, pods: i64, requirements: Option<&Requirements>) {
        let says_pods = requirements.is_some_and(|requirements| amount(&requirements.amounts, PODS).is_some());
        let one = (!says_pods).then(|| (Box::from(PODS), 1));
        let amounts = requirements.map_or(&[][..], |requirements| &requirements.amounts);
        let amounts = amounts.iter().map(|(name, needed)| (name.clone(), i128::from(counted(name, *needed))));
        let each = Amounts(amounts.chain(one).collect());
        self.add(&each, pods);
    }
}

impl ClusterCapacity {
    /// Counts existing replicas: if `reported` exceeds the `allocated` amounts of the cluster's
    /// summary, the difference is not free (RM1). The nodes of the difference are unknown, so each
    /// kind of nodes loses the same share.
    pub fn count_reported(&mut self, allocated: &[(Box<str>, Quantity)], reported: &Amounts) {
        // The smallest remaining share of a resource, as a fraction.
        let (mut left, mut had) = (1_i128, 1_i128);
        for (name, free) in &mut self.free {
            let known = amount(allocated, name).map_or(0, |known| i128::from(counted(name, known)));
            let excess = reported.get(name).saturating_sub(known);
            if excess <= 0 {
                continue;
            }
            let before = i128::from(counted(name, *free)).max(0);
            let after = before.saturating_sub(excess).max(0);
            if before > 0 && after.saturating_mul(had) < left.saturating_mul(before) {
                (left, had) = (after, before);
            }
            *free = free.minus(quantity(name, clamped(excess)));
            if **name == *PODS {
                self.pods = self.pods.saturating_sub(clamped(excess));
            }
        }
        if let (Some(grades), true) = (&mut self.grades, left < had) {
            let share = |nodes: u64| u64::try_from(i128::from(nodes).saturating_mul(left) / had).unwrap_or_default();
            let kept = grades.iter().map(|grade| Grade { nodes: share(grade.nodes), ..grade.clone() });
            *grades = kept.filter(|grade| grade.nodes > 0).collect();
        }
    }

    /// Returns the free amount of a resource, in the units of `Amounts`.
    pub fn amount(&self, resource: &str) -> i128 {
        match resource {
            PODS => i128::from(self.pods),
            resource => amount(&self.free, resource).map_or(0, |free| i128::from(counted(resource, free))),
        }
    }

    /// Subtracts these amounts from the sums. Kinds of nodes are not changed: see `take`.
    pub fn take_sums(&mut self, amounts: &Amounts) {
        self.pods = self.pods.saturating_sub(clamped(amounts.get(PODS)));
        for (name, free) in &mut self.free {
            *free = free.minus(quantity(name, clamped(amounts.get(name))));
        }
    }

    /// Reserves the capacity of this many copies.
    pub fn take(&mut self, needs: &Needs, copies: i64) {
        needs.footprint().change(self, copies);
    }
}

fn clamped(amount: i128) -> i64 {
    i64::try_from(amount.max(i128::from(i64::MIN))).unwrap_or(i64::MAX)
}

impl Pass {
    /// Reserves, for later decisions, the capacity of the replicas that the targets `to` have in
    /// addition to the targets `from`. Nothing is released: leaving replicas exist until the change
    /// is written, and the write may fail. Returns the arriving copies by target.
    pub fn take_arrivals(&mut self, request: &Request, from: &[Target], to: &[Target]) -> Vec<(Target, i64)> {
        let Some(footprint) = Footprint::of(request) else { return Vec::new() };
        let mut arrivals = Vec::new();
        let (before, after) = (TargetIndex::new(from), TargetIndex::new(to));
        for target in to {
            let leaving = self.leaving(request);
            let count = footprint.held(&after, leaving, &target.name) - footprint.held(&before, leaving, &target.name);
            if count > 0 {
                self.answered.take(request, &target.name, count);
                if self.fleet.change_capacity(&target.name, |capacity| footprint.change(capacity, count)) {
                    self.estimates.forget(self.fleet.index_of(&target.name).expect("its room has just changed"));
                }
                arrivals.push((target.clone(), count));
            }
        }
        arrivals
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amounts(list: &[(&str, i64)]) -> Box<[(Box<str>, Quantity)]> {
        list.iter().map(|(name, amount)| (Box::from(*name), quantity(name, *amount))).collect()
    }

    fn one_cpu() -> Needs {
        Needs::Replica(Some(Requirements { amounts: amounts(&[("cpu", 1_000)]) }))
    }

    fn held(needs: &Needs, copies: i64) -> Amounts {
        let mut held = Amounts::default();
        held.add(&needs.amounts(), copies);
        held
    }

    #[test]
    fn rm1_the_larger_of_summary_and_reports_is_used() {
        for (allocated, reported, free) in [(4, 0, 16), (4, 4, 16), (4, 9, 11), (9, 4, 11), (0, 30, -10)] {
            let mut capacity = ClusterCapacity {
                pods: 100 - allocated,
                free: amounts(&[("cpu", (20 - allocated) * 1_000), ("pods", 100 - allocated)]),
                grades: None,
            };
            let of_summary = amounts(&[("cpu", allocated * 1_000), ("pods", allocated)]);
            capacity.count_reported(&of_summary, &held(&one_cpu(), reported));
            let cpu = amount(&capacity.free, "cpu").unwrap().millis();
            assert_eq!((cpu, capacity.pods), (free * 1_000, 100 - allocated.max(reported)), "{allocated} {reported}");
        }
    }

    #[test]
    fn rm1_nodes_lose_the_share_that_reports_have_more() {
        let grades = Some([Grade::new(10, amounts(&[("cpu", 2_000)]))].into());
        let mut capacity = ClusterCapacity { pods: 100, free: amounts(&[("cpu", 20_000)]), grades };
        capacity.count_reported(&[], &held(&one_cpu(), 7));
        assert_eq!(capacity.grades.unwrap()[0].nodes, 6, "13 of 20 cpu are left, so 6.5 of 10 nodes");
    }

    #[test]
    fn rm8_amounts_beyond_64_bits_fill_the_cluster_and_come_back_whole() {
        let huge = Needs::Replica(Some(Requirements { amounts: amounts(&[("memory", i64::MAX)]) }));
        let mut sum = held(&huge, i64::from(i32::MAX));
        let mut capacity = ClusterCapacity { pods: 9, free: amounts(&[("memory", 64)]), grades: None };
        capacity.take_sums(&sum);
        assert!(amount(&capacity.free, "memory").unwrap().is_negative());
        sum.add(&huge.amounts(), -i64::from(i32::MAX));
        assert!(sum.is_empty());
    }

    #[test]
    fn pods_displace_only_copies_that_request_nothing_else() {
        let cpu = |millis| Needs::Replica(Some(Requirements { amounts: amounts(&[("cpu", millis)]) }));
        let given = held(&cpu(1_000), 4);
        assert_eq!(given.displaces(&cpu(2_000).amounts()), 2);
        assert_eq!(given.displaces(&cpu(3_000).amounts()), 2, "rounded up");
        assert_eq!(given.displaces(&Needs::Replica(None).amounts()), 4);
        assert_eq!(held(&Needs::Replica(None), 4).displaces(&cpu(1_000).amounts()), 0);
    }

    #[test]
    fn a_set_takes_all_its_pods() {
        let component = |replicas| Component {
            name: "worker".into(),
            replicas,
            requirements: Some(Requirements { amounts: amounts(&[("cpu", 500)]) }),
        };
        let set = Needs::Set([component(1), component(3)].into());
        assert_eq!((set.amounts().get("cpu"), set.amounts().get("pods")), (2_000, 4));
    }
}
