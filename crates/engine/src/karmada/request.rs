//! One binding as the engine reads it: the object to schedule, its current placement, and whether a
//! pass is due.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

use serde::Serialize;

use super::answers::Questions;
use super::placement::{Division, Placement};
use super::profile::Profile;
use ballast_k8s::{Quantity, Time};

/// One binding, as the engine reads it.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Empty for cluster-scoped bindings.
    pub namespace: Box<str>,
    pub name: Box<str>,
    pub generation: i64,
    pub deleting: bool,
    /// Whether a label names the policy or binding that created this binding.
    pub managed: bool,
    /// Empty for the default scheduler.
    pub scheduler_name: Box<str>,
    pub suspended: bool,
    pub resource: Resource,
    pub placement: Option<Shared<Placement>>,
    /// Whether the placement differs from the last applied one in a part that the scheduler reads.
    pub placement_changed: bool,
    /// Whether no pass has applied a placement yet. Then `placement_changed` does not mean that the
    /// placement was edited.
    pub never_applied: bool,
    pub replicas: i32,
    pub requirements: Option<Shared<Requirements>>,
    /// Several pod templates, each with its own replicas.
    pub components: Vec<Component>,
    /// The current targets. Their order matters in one case (see `assign`).
    pub targets: Vec<Target>,
    /// Clusters that the workload is being evicted from.
    pub evicting: Vec<Box<str>>,
    /// Replicas on clusters that the workload is being evicted from and that are not its targets.
    /// Until they have left, they count as free capacity for this workload (RM4).
    pub leaving: Vec<Target>,
    /// Clusters with a taint that the workload tolerated until its toleration expired.
    pub outstayed: Vec<Box<str>>,
    /// Clusters to which changes are not propagated at present. Among equal clusters, the others
    /// are preferred (T6).
    pub paused: Vec<Box<str>>,
    pub force: bool,
    pub triggered_at: Option<Time>,
    /// Whether no pass has served an accepted trigger yet, regardless of the times.
    pub pass_pending: bool,
    pub last_scheduled_at: Option<Time>,
    /// The affinity group that the last pass chose, or empty.
    pub observed_term: Box<str>,
    pub priority: i32,
    pub groups: WorkloadGroups,
    /// The queries to estimators about the workload. `None` if the caller sends none.
    pub questions: Option<Questions>,
    /// The reason why the binding is invalid, if it is.
    pub fault: Option<Box<str>>,
}

/// The object that the binding propagates.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Resource {
    pub api_version: Box<str>,
    pub kind: Box<str>,
    pub namespace: Box<str>,
    pub name: Box<str>,
    pub uid: Box<str>,
}

/// The groups for workload affinity. A workload goes to the clusters of its affinity group, and to
/// none of the clusters of its anti-affinity group. Empty means no group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct WorkloadGroups {
    pub affinity: Box<str>,
    pub anti_affinity: Box<str>,
}

/// A cluster that the workload is assigned to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub name: Arc<str>,
    pub replicas: i32,
    /// The replicas by component, or empty.
    pub components: Vec<TargetComponent>,
}

/// The replicas of one component on a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TargetComponent {
    pub name: Box<str>,
    pub replicas: i32,
}

/// The resource requests of one replica: only positive amounts, sorted by resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Requirements {
    pub amounts: Box<[(Box<str>, Quantity)]>,
}

/// One pod template of a workload.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Component {
    pub name: Box<str>,
    pub replicas: i32,
    pub requirements: Option<Requirements>,
}

/// A value with its hash. Cheap to clone and to look up.
#[derive(Debug)]
pub struct Shared<T> {
    value: Arc<T>,
    hash: u64,
}

impl<T: Hash> Shared<T> {
    pub fn new(value: T) -> Shared<T> {
        let mut hasher = DefaultHasher::new();
        value.hash(&mut hasher);
        Shared { hash: hasher.finish(), value: Arc::new(value) }
    }
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Shared<T> {
        Shared { value: Arc::clone(&self.value), hash: self.hash }
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: PartialEq> PartialEq for Shared<T> {
    fn eq(&self, other: &Shared<T>) -> bool {
        self.hash == other.hash && (Arc::ptr_eq(&self.value, &other.value) || self.value == other.value)
    }
}

impl<T: Eq> Eq for Shared<T> {}

impl<T> Hash for Shared<T> {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        hasher.write_u64(self.hash);
    }
}

/// Whether a pass builds on the current targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum Mode {
    /// Moves as few replicas as possible.
    Steady,
    /// Ignores the current targets.
    Fresh,
}

/// The most targets that are searched linearly, which needs no memory. Nearly all bindings have
/// fewer.
const SEARCHED_TARGETS_MAX: usize = 32;

/// An index of targets by cluster. A binding may have thousands of targets, and a linear search for
/// each of them would take quadratic time.
pub struct TargetIndex<'t> {
    targets: &'t [Target],
    /// Empty up to `SEARCHED_TARGETS_MAX` targets.
    by_name: HashMap<&'t str, &'t Target>,
}

impl<'t> TargetIndex<'t> {
    pub fn new(targets: &'t [Target]) -> TargetIndex<'t> {
        let is_long = targets.len() > SEARCHED_TARGETS_MAX;
        let indexed = targets.iter().filter(|_| is_long);
        TargetIndex { targets, by_name: indexed.map(|target| (&*target.name, target)).collect() }
    }

    pub fn find(&self, cluster: &str) -> Option<&'t Target> {
        match self.by_name.is_empty() {
            true => self.targets.iter().find(|target| *target.name == *cluster),
            false => self.by_name.get(cluster).copied(),
        }
    }

    /// Returns the replicas on `cluster`, or 0 if it is not a target.
    pub fn replicas_on(&self, cluster: &str) -> i64 {
        self.find(cluster).map_or(0, |target| i64::from(target.replicas))
    }
}

impl Request {
    /// Returns whether a trigger is pending: it requests a Fresh pass, and no pass has served it
    /// yet.
    pub fn is_triggered(&self, profile: &Profile) -> bool {
        let triggered = match (self.triggered_at, self.last_scheduled_at) {
            // Differs from Karmada (D21), which compares only the times.
            (Some(triggered), Some(last)) => triggered > last || self.pass_pending,
            // Differs from Karmada (D6): a trigger is valid even if no pass has succeeded before.
            (Some(_), None) => profile.deviates(),
            (None, _) => self.pass_pending,
        };
        triggered || self.force
    }

    /// Returns `Fresh` if a trigger is pending, and `Steady` otherwise.
    pub fn mode(&self, profile: &Profile) -> Mode {
        if self.is_triggered(profile) { Mode::Fresh } else { Mode::Steady }
    }

    /// Returns whether the object has replicas or pods, unlike a Service or a ConfigMap.
    pub fn is_workload(&self) -> bool {
        self.replicas > 0 || self.requirements.is_some() || !self.components.is_empty()
    }

    /// Returns whether the replicas can be divided among clusters. A workload of several pod
    /// templates is placed as a whole, like an object without replicas.
    pub fn is_divisible(&self) -> bool {
        (self.replicas > 0 || self.requirements.is_some()) && self.components.len() <= 1
    }

    /// Returns the number of copies that are leaving a cluster, beyond the copies on it as a
    /// target. They count as free capacity for this workload there.
    pub(super) fn own_leaving(&self, cluster: &str) -> i64 {
        let of_target =
            |target: &Target| i64::from(if self.is_divisible() { target.replicas } else { target.replicas.max(1) });
        let copies = |targets: &[Target]| -> i64 {
            targets.iter().filter(|target| *target.name == *cluster).map(of_target).sum()
        };
        match copies(&self.leaving) {
            // The common case: a binding may have thousands of targets, which are not searched
            // then.
            0 => 0,
            leaving => (leaving - copies(&self.targets)).max(0),
        }
    }

    /// Returns whether the clusters share the replicas. If not, each of them has all, or there are
    /// none.
    pub fn is_shared(&self) -> bool {
        let duplicates = self.placement.as_ref().is_some_and(|placement| placement.division == Division::Duplicated);
        self.is_divisible() && !duplicates
    }

    /// Returns whether the targets hold another number of replicas than the workload requests.
    pub(super) fn has_other_replicas_than(&self, placement: &Placement) -> bool {
        let wanted = i64::from(self.replicas);
        match placement.division {
            Division::Duplicated => self.targets.iter().any(|target| i64::from(target.replicas) != wanted),
            _ => self.targets.iter().map(|target| i64::from(target.replicas)).sum::<i64>() != wanted,
        }
    }

    /// Returns whether any change of clusters requires a pass, as upstream does for objects that
    /// are not divided.
    pub(super) fn is_decided_at_every_chance(&self, placement: &Placement) -> bool {
        !self.is_workload() || placement.division == Division::Duplicated
    }

    /// Returns whether all replicas are placed, so that changes of other clusters require no pass.
    /// A failed pass or a pending trigger is not considered.
    pub fn is_settled(&self) -> bool {
        self.placement.as_ref().is_some_and(|placement| {
            let asks = self.is_decided_at_every_chance(placement) || self.has_other_replicas_than(placement);
            // A workload of zero replicas without targets needs a cluster, too.
            let is_nowhere = self.replicas <= 0 && self.targets.is_empty();
            !asks && !is_nowhere && self.components.is_empty()
        })
    }

    /// Returns whether the placement was edited since the last pass that applied one.
    pub(super) fn is_edited(&self) -> bool {
        self.placement_changed && !self.never_applied
    }

    /// Returns the replicas on `cluster`, or 0 if there are none.
    pub fn replicas_on(&self, cluster: &str) -> i64 {
        self.targets.iter().filter(|target| *target.name == *cluster).map(|target| i64::from(target.replicas)).sum()
    }
}
