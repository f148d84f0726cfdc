//! What replicas take of a cluster's room when they arrive, and give back when they leave.
//!
//! Amounts are those that estimates count by: whole units, for cpu thousandths. So after `n`
//! replicas have arrived, exactly `n` fewer of the same kind fit.
//!
//! Where a cluster reports kinds of nodes, an arriving replica takes its room from the first node
//! that has any, as estimates assume. A leaving replica leaves a hole of its own size. Which node
//! it was on is not known, so holes are never joined: a larger replica does not fit into two of
//! them. Replicas that found no room (some divisions do not look) make sums negative, which counts
//! as no room. They do not count on nodes.

use super::cluster::{Grade, Room, amount};
use super::cluster_set::counted;
use super::estimate::{is_node_resource, pods_on_a_node};
use super::request::{Component, Request, Requirements, Target};
use crate::k8s::Quantity;

/// The most kinds of nodes that are told apart in one cluster. Beyond it the smallest is forgotten,
/// which is the safe side: room is lost, never invented.
const GRADES_MAX: usize = 64;

/// What one copy of a workload takes on a cluster.
#[derive(Clone, Copy)]
pub(super) enum Footprint<'a> {
    /// One pod. None: it asks for nothing, and nodes are not looked at.
    Replica(Option<&'a Requirements>),
    /// One pod set of several templates.
    Set(&'a [Component]),
}

impl<'a> Footprint<'a> {
    /// None: the object has no pods.
    pub fn of(request: &'a Request) -> Option<Footprint<'a>> {
        if !request.is_workload() {
            return None;
        }
        if request.is_divisible() {
            return Some(Footprint::Replica(request.requirements.as_deref()));
        }
        Some(Footprint::Set(&request.components))
    }

    /// How many copies are on `cluster`, if these are the targets.
    pub fn copies(self, targets: &[Target], cluster: &str) -> i64 {
        let there = targets.iter().filter(|target| *target.name == *cluster);
        let copies = |target: &Target| match self {
            Footprint::Replica(_) => i64::from(target.replicas),
            Footprint::Set(_) => i64::from(target.replicas.max(1)),
        };
        there.map(copies).sum()
    }

    /// Changes the room by `arriving` copies. A negative number leaves.
    pub fn change(self, room: &mut Room, arriving: i64) {
        match self {
            Footprint::Replica(requirements) => room.change(arriving, requirements),
            Footprint::Set(components) => {
                for component in components {
                    // Unlike a replica, a pod of a set that asks for nothing still needs a node.
                    let nothing = Requirements::default();
                    let requirements = component.requirements.as_ref().unwrap_or(&nothing);
                    let pods = arriving.saturating_mul(i64::from(component.replicas.max(0)));
                    room.change(pods, Some(requirements));
                }
            }
        }
    }
}

impl Room {
    fn change(&mut self, arriving: i64, requirements: Option<&Requirements>) {
        let amounts = requirements.map_or(&[][..], |requirements| &requirements.amounts);
        self.pods = self.pods.saturating_sub(arriving);
        for (name, free) in &mut self.free {
            let needed = match amount(amounts, name) {
                Some(needed) => counted(name, needed),
                // Each replica is a pod, whether it says so or not.
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

/// The inverse of `counted`.
fn quantity(resource: &str, amount: i64) -> Quantity {
    if resource == "cpu" { Quantity::from_millis(amount) } else { Quantity::from_units(amount) }
}

/// Takes the room of `pods` from the first nodes that have any.
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

/// A node after it has taken `pods`.
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

/// Adds a grade at `index`, or to an equal one. Returns whether it became an entry of its own.
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
