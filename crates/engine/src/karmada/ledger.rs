//! Capacity accounting: arriving replicas reserve capacity of a cluster, leaving ones release it.
//!
//! Amounts have the units of the estimates: whole units, and thousandths for cpu. So after `n`
//! replicas have arrived, exactly `n` fewer of the same kind fit.
//!
//! Where a cluster reports kinds of nodes, an arriving replica takes its capacity from the first
//! node that has any, as estimates assume. A leaving replica leaves a hole of its own size. Its
//! node is unknown, so holes are never joined: a larger replica does not fit into two of them. Some
//! divisions ignore capacity. Their replicas can make sums negative, which counts as no capacity;
//! on nodes they do not count.

use std::sync::Arc;

use super::cluster::{ClusterCapacity, Grade, amount, counted};
use super::cluster_set::ClusterSet;
use super::components;
use super::estimate::{Estimator, UNLIMITED, is_node_resource, pods_on_a_node};
use super::pass::Pass;
use super::placement::{Division, Placement};
use super::request::{Component, Mode, Request, Requirements, Target, TargetIndex};
use super::settle;
use super::workloads::Workloads;
use ballast_k8s::Quantity;

/// The most kinds of nodes that are tracked per cluster. Beyond it the smallest is dropped, which
/// is safe: capacity is lost, never invented.
const GRADES_MAX: usize = 64;

/// Why a workload cannot go to given targets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The cluster does not exist, or is being deleted.
    Lost { cluster: Arc<str> },
    /// A filter objects to the cluster.
    Unfit { cluster: Arc<str>, objection: String },
    /// The cluster has capacity for `capacity` of the `arriving` copies.
    NoCapacity { cluster: Arc<str>, arriving: i64, capacity: i64 },
    /// The targets would violate a rule about all targets together that the current ones satisfy.
    Breaks { rule: String },
}

impl Pass {
    /// Moves the workload from the targets `from` to the targets `to`, for the decisions that
    /// follow: arrivals reserve capacity, departures release it, and the workload groups are
    /// updated. Clusters that report no resources stay unchanged.
    pub fn reassign(&mut self, request: &Request, from: &[Target], to: &[Target]) {
        self.workloads.record(request, to);
        self.move_capacity(request, from, to);
    }

    /// Moves the capacity only, without the workload groups.
    pub fn move_capacity(&mut self, request: &Request, from: &[Target], to: &[Target]) {
        let Some(footprint) = Footprint::of(request) else { return };
        self.answered.move_copies(request, from, to);
        let (before, after) = (TargetIndex::new(from), TargetIndex::new(to));
        let is_new = |target: &&Target| before.find(&target.name).is_none();
        for cluster in from.iter().chain(to.iter().filter(is_new)).map(|target| &target.name) {
            let leaving = self.leaving(request);
            let arriving = footprint.held(&after, leaving, cluster) - footprint.held(&before, leaving, cluster);
            if arriving != 0 && self.fleet.change_capacity(cluster, |capacity| footprint.change(capacity, arriving)) {
                self.estimates.forget(self.fleet.index_of(cluster).expect("its room has just changed"));
            }
        }
    }

    /// Returns how many more copies of the workload the cluster can take. Unlimited if the division
    /// ignores capacity, or the cluster reports none.
    pub fn capacity(&self, request: &Request, cluster: &str) -> i64 {
        let Some(found) = self.fleet.find(cluster) else { return 0 };
        match &request.placement {
            Some(placement) if depends_on_capacity(placement) && found.capacity.is_some() => {
                self.capacity_for(request, placement, cluster)
            }
            _ => i64::from(UNLIMITED),
        }
    }

    /// Returns the clusters with their remaining capacity.
    pub fn fleet(&self) -> &ClusterSet {
        &self.fleet
    }

    /// Returns the workload groups, so that callers can add workloads that this pass has not
    /// decided.
    pub fn workloads_mut(&mut self) -> &mut Workloads {
        &mut self.workloads
    }

    /// Returns the copies that the cluster's estimator reported, and how many of them remain.
    /// `None` if there is no estimate, or it has no limit.
    pub fn answer(&self, request: &Request, cluster: &str) -> Option<(i64, i64)> {
        let placement = request.placement.as_ref()?;
        let of_sets = components::counts_sets(&self.context(request, placement, None, Mode::Steady));
        let answers = self.answered.about(request, of_sets)?;
        Some((i64::from(answers.said(cluster)?), i64::from(answers.left(cluster)?)))
    }

    /// Checks whether the workload may go to the targets `to`, which no decision has produced: each
    /// cluster admits its arrivals (`admit_each`), and no rule about all targets together is newly
    /// violated. Returns the affinity group that the clusters belong to.
    pub fn admit(&self, request: &Request, to: &[Target]) -> Result<Option<Box<str>>, Refusal> {
        let term = self.admit_each(request, to)?;
        let Some(placement) = &request.placement else { return Ok(term) };
        let position = term.as_ref().and_then(|name| placement.terms.iter().position(|term| term.name == *name));
        let context = self.context(request, placement, position, Mode::Fresh);
        match settle::newly_broken(&context, &request.targets, to) {
            None => Ok(term),
            Some(rule) => Err(Refusal::Breaks { rule }),
        }
    }

    /// Checks each cluster that copies arrive at on its own: it has to pass the filters, and to
    /// have capacity for them. So `to` may be a part of a placement. Returns the affinity group
    /// that the clusters belong to.
    pub fn admit_each(&self, request: &Request, to: &[Target]) -> Result<Option<Box<str>>, Refusal> {
        let Some(placement) = &request.placement else { return Ok(None) };
        let term = self.term_for(request, placement, &arriving(request, to))?;
        self.overfilled(request, to).map_or(Ok(term), Err)
    }

    /// Returns the first cluster that lacks capacity for its arrivals, regardless of the division
    /// (RM32). A decision by capacity overfills no cluster.
    ///
    /// In the scheduler's passes, static weights and Duplicated ignore capacity, as upstream
    /// documents.
    pub fn overfilled(&self, request: &Request, to: &[Target]) -> Option<Refusal> {
        let placement = request.placement.as_ref()?;
        let looks = depends_on_capacity(placement);
        if Footprint::of(request).is_none() || !looks && !self.profile.deviates() {
            return None;
        }
        arriving(request, to).into_iter().find_map(|(cluster, arriving)| {
            // Unreported capacity is unknown, not full.
            let is_known = looks || self.fleet.find(&cluster).is_some_and(|found| found.capacity.is_some());
            let capacity = self.capacity_for(request, placement, &cluster);
            (is_known && capacity < arriving).then_some(Refusal::NoCapacity { cluster, arriving, capacity })
        })
    }

    /// Returns the first affinity group with filters that accept all the clusters.
    fn term_for(
        &self,
        request: &Request,
        placement: &Placement,
        clusters: &[(Arc<str>, i64)],
    ) -> Result<Option<Box<str>>, Refusal> {
        let objection = |term: Option<usize>| {
            let context = self.context(request, placement, term, Mode::Fresh);
            clusters.iter().find_map(|(name, _)| {
                let cluster = Arc::clone(name);
                match self.fleet.find(name).filter(|cluster| !cluster.deleting) {
                    None => Some(Refusal::Lost { cluster }),
                    Some(found) => context.reason(found).map(|(_, objection)| Refusal::Unfit { cluster, objection }),
                }
            })
        };
        let mut first = None;
        for term in 0..placement.terms.len() {
            match objection(Some(term)) {
                None => return Ok(Some(placement.terms[term].name.clone())),
                refusal => first = first.or(refusal),
            }
        }
        match first.or_else(|| objection(None)) {
            None => Ok(None),
            Some(refusal) => Err(refusal),
        }
    }

    fn capacity_for(&self, request: &Request, placement: &Placement, cluster: &str) -> i64 {
        let Some(index) = self.fleet.index_of(cluster) else { return 0 };
        let of_sets = components::counts_sets(&self.context(request, placement, None, Mode::Steady));
        let estimate = match of_sets {
            true => components::sets(self.fleet.cluster(index), &request.components),
            false => Estimator::new(&self.fleet, request.requirements.as_deref()).replicas(index),
        };
        let fits = self.answered.about(request, of_sets).map_or(estimate, |answers| answers.least(cluster, estimate));
        let own = if self.profile.reserves { request.own_leaving(cluster) } else { 0 };
        i64::from(fits).saturating_add(own)
    }

    /// Returns the replicas on clusters that the workload is leaving. Empty without reservations.
    pub(super) fn leaving<'r>(&self, request: &'r Request) -> &'r [Target] {
        if self.profile.reserves { &request.leaving } else { &[] }
    }
}

/// Returns the copies that arrive at each cluster if these are the targets. New clusters are listed
/// even if they get none.
fn arriving(request: &Request, to: &[Target]) -> Vec<(Arc<str>, i64)> {
    let footprint = Footprint::of(request).unwrap_or(OBJECT);
    let present = TargetIndex::new(&request.targets);
    let more = |target: &Target| {
        let there = present.find(&target.name);
        let count = footprint.of_target(target) - there.map_or(0, |there| footprint.of_target(there));
        (count > 0 || there.is_none()).then_some((Arc::clone(&target.name), count))
    };
    to.iter().filter_map(more).collect()
}

fn depends_on_capacity(placement: &Placement) -> bool {
    matches!(placement.division, Division::Dynamic | Division::Aggregated)
}

/// The copies of an object without pods are counted like sets that need nothing.
const OBJECT: Footprint<'static> = Footprint::Set(&[]);

/// The resources of one copy of a workload on a cluster.
#[derive(Clone, Copy)]
pub(super) enum Footprint<'a> {
    /// One pod. `None` if it has no requirements, and nodes are not considered.
    Replica(Option<&'a Requirements>),
    /// One pod set of several templates.
    Set(&'a [Component]),
}

impl<'a> Footprint<'a> {
    /// Returns the footprint of a request. `None` if the object has no pods.
    pub fn of(request: &'a Request) -> Option<Footprint<'a>> {
        if !request.is_workload() {
            return None;
        }
        if request.is_divisible() {
            return Some(Footprint::Replica(request.requirements.as_deref()));
        }
        Some(Footprint::Set(&request.components))
    }

    /// Returns how many copies are on `cluster` with these targets, including leaving ones.
    pub fn held(self, targets: &TargetIndex<'_>, leaving: &[Target], cluster: &str) -> i64 {
        let there = targets.find(cluster).map_or(0, |target| self.of_target(target));
        let leaving = leaving.iter().filter(|target| *target.name == *cluster);
        there.max(leaving.map(|target| self.of_target(target)).sum())
    }

    /// Returns how many copies are on this target.
    pub fn of_target(self, target: &Target) -> i64 {
        match self {
            Footprint::Replica(_) => i64::from(target.replicas),
            Footprint::Set(_) => i64::from(target.replicas.max(1)),
        }
    }

    /// Changes the capacity by `arriving` copies. A negative number releases capacity.
    pub fn change(self, capacity: &mut ClusterCapacity, arriving: i64) {
        match self {
            Footprint::Replica(requirements) => capacity.change(arriving, requirements),
            Footprint::Set(components) => {
                for component in components {
                    // Unlike a replica, a pod of a set without requirements still needs a node.
                    let nothing = Requirements::default();
                    let requirements = component.requirements.as_ref().unwrap_or(&nothing);
                    let pods = arriving.saturating_mul(i64::from(component.replicas.max(0)));
                    capacity.change(pods, Some(requirements));
                }
            }
        }
    }
}

impl ClusterCapacity {
    fn change(&mut self, arriving: i64, requirements: Option<&Requirements>) {
        let amounts = requirements.map_or(&[][..], |requirements| &requirements.amounts);
        self.pods = self.pods.saturating_sub(arriving);
        for (name, free) in &mut self.free {
            let needed = match amount(amounts, name) {
                Some(needed) => counted(name, needed),
                // Each replica is a pod, even if its requirements omit pods.
                None if **name == *"pods" => 1,
                None => continue,
            };
            *free = free.minus(quantity(name, arriving.saturating_mul(needed)));
        }
        if let (Some(grades), Some(requirements)) = (&mut self.grades, requirements) {
            let mut nodes = std::mem::take(grades).into_vec();
            match u64::try_from(arriving) {
                Ok(pods) => take(&mut nodes, pods, requirements),
                Err(_) => give(&mut nodes, arriving.unsigned_abs(), requirements),
            }
            *grades = nodes.into();
        }
    }
}

/// Returns the inverse of `counted`.
pub(super) fn quantity(resource: &str, amount: i64) -> Quantity {
    if resource == "cpu" { Quantity::from_millis(amount) } else { Quantity::from_units(amount) }
}

/// Reserves the capacity of `pods` on the first nodes that have any.
fn take(grades: &mut Vec<Grade>, mut pods: u64, requirements: &Requirements) {
    let mut index = 0;
    while pods > 0 && index < grades.len() {
        let each = pods_on_a_node(&grades[index], requirements);
        if each == 0 || grades[index].nodes == 0 {
            index += 1;
            continue;
        }
        let grade = grades.remove(index);
        let full = grade.nodes.min(pods / each);
        let partial = if full < grade.nodes { pods % each } else { 0 };
        pods -= full * each + partial;
        let partly = u64::from(partial > 0);
        let pieces = [
            Grade { nodes: full, ..after(&grade, each, requirements) },
            Grade { nodes: partly, ..after(&grade, partial, requirements) },
            Grade { nodes: grade.nodes - full - partly, ..grade },
        ];
        for piece in pieces {
            index += usize::from(file(grades, index, piece));
        }
    }
    bound(grades);
}

/// Returns a node after it has taken `pods`.
fn after(grade: &Grade, pods: u64, requirements: &Requirements) -> Grade {
    let pods = pods.min(grade.pods);
    let left = |(name, has): &(Box<str>, Quantity)| {
        let needed = amount(&requirements.amounts, name).filter(|_| is_node_resource(name));
        let taken = needed.map_or(0, |needed| counted(name, needed).saturating_mul(pods as i64));
        (name.clone(), has.minus(quantity(name, taken)))
    };
    Grade { nodes: 1, pods: grade.pods - pods, capacity: grade.capacity.iter().map(left).collect() }
}

/// Adds holes of the size of one pod. They come first, so that they are filled first.
fn give(grades: &mut Vec<Grade>, pods: u64, requirements: &Requirements) {
    let amounts = requirements.amounts.iter().filter(|(name, _)| is_node_resource(name));
    let capacity = amounts.map(|(name, needed)| (name.clone(), quantity(name, counted(name, *needed)))).collect();
    file(grades, 0, Grade { nodes: pods, pods: 1, capacity });
    bound(grades);
}

/// Adds a grade at `index`, or to an equal one. Returns whether it became a new entry.
fn file(grades: &mut Vec<Grade>, index: usize, grade: Grade) -> bool {
    if grade.nodes == 0 || grade.pods == 0 {
        return false;
    }
    if let Some(known) = grades.iter_mut().find(|known| known.pods == grade.pods && known.capacity == grade.capacity) {
        known.nodes = known.nodes.saturating_add(grade.nodes);
        return false;
    }
    grades.insert(index, grade);
    true
}

fn bound(grades: &mut Vec<Grade>) {
    while grades.len() > GRADES_MAX {
        let smallest = (0..grades.len()).min_by_key(|index| grades[*index].nodes.saturating_mul(grades[*index].pods));
        grades.remove(smallest.expect("there are more than the bound"));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::cluster::Cluster;
    use super::*;

    fn amounts(cpu: i64, memory: i64) -> Box<[(Box<str>, Quantity)]> {
        let amounts = [("cpu", Quantity::from_millis(cpu)), ("memory", Quantity::from_units(memory))];
        amounts.into_iter().filter(|(_, amount)| *amount > Quantity::ZERO).map(|(name, a)| (name.into(), a)).collect()
    }

    fn requirements() -> impl Strategy<Value = Requirements> {
        (1_i64..9, 0_i64..9).prop_map(|(cpu, memory)| Requirements { amounts: amounts(cpu, memory) })
    }

    fn cluster() -> impl Strategy<Value = Cluster> {
        let grades = prop::collection::vec((1_u64..4, 0_i64..30, 0_i64..30), 0..4);
        let grades = prop::option::of(grades.prop_map(|grades| {
            grades.into_iter().map(|(nodes, cpu, memory)| Grade::new(nodes, amounts(cpu, memory))).collect()
        }));
        (0_i64..40, 0_i64..200, 0_i64..200, grades).prop_map(|(pods, cpu, memory, grades)| Cluster {
            name: "m1".into(),
            deleting: false,
            labels: [].into(),
            provider: "".into(),
            region: "".into(),
            zones: [].into(),
            taints: [].into(),
            apis: [].into(),
            capacity: Some(ClusterCapacity { pods, free: amounts(cpu, memory), grades }),
        })
    }

    fn fitting(clusters: &ClusterSet, requirements: &Requirements) -> i64 {
        i64::from(Estimator::new(clusters, Some(requirements)).replicas(0))
    }

    proptest! {
        #[test]
        fn what_arrives_leaves_room_for_just_as_many_fewer_and_comes_back_whole(
            cluster in cluster(),
            first in requirements(),
            other in requirements(),
            share in 0_i64..=100,
        ) {
            let mut clusters = ClusterSet::new([cluster]);
            let (capacity, others) = (fitting(&clusters, &first), fitting(&clusters, &other));
            let count = capacity * share / 100;
            let footprint = Footprint::Replica(Some(&first));
            clusters.change_capacity("m1", |capacity| footprint.change(capacity, count));
            prop_assert_eq!(fitting(&clusters, &first), capacity - count);
            prop_assert!(fitting(&clusters, &other) <= others);
            clusters.change_capacity("m1", |capacity| footprint.change(capacity, -count));
            prop_assert_eq!(fitting(&clusters, &first), capacity);
            prop_assert!(fitting(&clusters, &other) <= others, "holes are not joined, so nothing is won");
        }

        #[test]
        fn what_leaves_makes_room_for_as_many_of_its_kind(
            cluster in cluster(),
            first in requirements(),
            count in 1_i64..20,
        ) {
            let mut clusters = ClusterSet::new([cluster]);
            let before = clusters.find("m1").unwrap().capacity.clone().unwrap();
            let capacity = fitting(&clusters, &first);
            clusters.change_capacity("m1", |capacity| Footprint::Replica(Some(&first)).change(capacity, -count));
            let has = |name: &str| amount(&before.free, name).is_some();
            // Unreported resources stay unknown, and on nodes the pods still count.
            if before.grades.is_none() && first.amounts.iter().all(|(name, _)| has(name)) {
                prop_assert_eq!(fitting(&clusters, &first), (capacity + count).min(before.pods + count).max(capacity));
            }
            prop_assert!(fitting(&clusters, &first) >= capacity);
        }
    }

    #[test]
    fn a_set_takes_its_pods_node_by_node() {
        let component = |name: &str, replicas, cpu| Component {
            name: name.into(),
            replicas,
            requirements: Some(Requirements { amounts: amounts(cpu, 0) }),
        };
        let set = [component("head", 1, 4), component("worker", 2, 3)];
        let grades = Some([Grade::new(3, amounts(6, 0))].into());
        let mut capacity = ClusterCapacity { pods: 10, free: amounts(18, 0), grades };
        Footprint::Set(&set).change(&mut capacity, 1);
        assert_eq!((capacity.pods, amount(&capacity.free, "cpu").unwrap().millis()), (7, 8));
        let left: Vec<(u64, i64)> = capacity
            .grades
            .unwrap()
            .iter()
            .map(|grade| (grade.nodes, amount(&grade.capacity, "cpu").unwrap().millis()))
            .collect();
        assert_eq!(left, [(1, 2), (1, 0), (1, 6)]);
    }

    #[test]
    fn many_shapes_are_bounded_and_lose_room() {
        let mut capacity = ClusterCapacity { pods: 1_000, free: amounts(100_000, 0), grades: Some([].into()) };
        for cpu in 1..200 {
            Footprint::Replica(Some(&Requirements { amounts: amounts(cpu, 0) })).change(&mut capacity, -cpu);
        }
        let grades = capacity.grades.unwrap();
        assert_eq!(grades.len(), GRADES_MAX);
        assert!(grades.iter().all(|grade| grade.nodes > 100), "the smallest are forgotten first");
    }

    #[test]
    fn whoever_does_not_look_at_room_takes_it_all_the_same() {
        let mut capacity = ClusterCapacity { pods: 2, free: amounts(10, 0), grades: None };
        Footprint::Replica(Some(&Requirements { amounts: amounts(4, 0) })).change(&mut capacity, 5);
        assert_eq!((capacity.pods, amount(&capacity.free, "cpu").unwrap().millis()), (-3, -10));
    }
}
