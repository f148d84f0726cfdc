//! One binding as the engine reads it: what to place, where it is placed now, and whether a pass is
//! wanted.

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
    /// Whether a label says that a policy or another binding made this binding.
    pub managed: bool,
    /// Empty: the default scheduler.
    pub scheduler_name: Box<str>,
    pub suspended: bool,
    pub resource: Resource,
    pub placement: Option<Shared<Placement>>,
    /// Whether the placement differs from the last applied one in a part that the scheduler reads.
    pub placement_changed: bool,
    /// Whether no pass has applied any placement yet. Then `placement_changed` means that nothing
    /// is known of an earlier one.
    pub never_applied: bool,
    pub replicas: i32,
    pub requirements: Option<Shared<Requirements>>,
    /// Several pod templates, each with its own replicas.
    pub components: Vec<Component>,
    /// Where the workload is placed now. The order matters in one case (see `assign`).
    pub targets: Vec<Target>,
    /// Clusters that the workload is being evicted from.
    pub evicting: Vec<Box<str>>,
    /// What it still holds on clusters that it is being evicted from, and is no target of. This is
    /// room of its own until it has left (RM4).
    pub leaving: Vec<Target>,
    /// Clusters with a taint that the workload tolerates no longer: its time has run out.
    pub outstayed: Vec<Box<str>>,
    /// Clusters that nothing is sent to at present. Of equal clusters, the others come first (T6).
    pub paused: Vec<Box<str>>,
    pub force: bool,
    pub triggered_at: Option<Time>,
    /// Whether a trigger was accepted that no pass has served, whatever the times say.
    pub pass_pending: bool,
    pub last_scheduled_at: Option<Time>,
    /// The affinity group that the last pass chose. Empty: none.
    pub observed_term: Box<str>,
    pub priority: i32,
    pub groups: WorkloadGroups,
    /// What estimators can be asked about the workload. `None`: its caller asks none.
    pub questions: Option<Questions>,
    /// Why the binding cannot be read, if it cannot.
    pub fault: Option<Box<str>>,
}

/// The object that the binding places.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Resource {
    pub api_version: Box<str>,
    pub kind: Box<str>,
    pub namespace: Box<str>,
    pub name: Box<str>,
    pub uid: Box<str>,
}

/// Groups for workload affinity: a workload goes where others of its affinity group are, and where
/// none of its anti-affinity group is. Empty: no group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct WorkloadGroups {
    pub affinity: Box<str>,
    pub anti_affinity: Box<str>,
}

/// A cluster that the workload is placed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub name: Arc<str>,
    pub replicas: i32,
    /// Empty, or the replicas by component.
    pub components: Vec<TargetComponent>,
}

/// The replicas of one component on a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TargetComponent {
    pub name: Box<str>,
    pub replicas: i32,
}

/// What one replica needs: only positive amounts, sorted by resource.
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

/// A value with its hash. It is cheap to clone and to look up.
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

/// Whether a pass builds on the present targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum Mode {
    /// With as few moves as possible.
    Steady,
    /// As if nothing were placed yet.
    Fresh,
}

/// Up to so many targets are searched one after the other, which takes no memory. Nearly all
/// bindings have fewer.
const SEARCHED_TARGETS_MAX: usize = 32;

/// Finds targets by the name of their cluster. A binding may have thousands of targets, so that a
/// search for each of them would cost the square of their number.
pub struct TargetIndex<'t> {
    targets: &'t [Target],
    /// Empty up to `SEARCHED_TARGETS_MAX`.
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

    /// The replicas on `cluster`. 0 if it is no target.
    pub fn replicas_on(&self, cluster: &str) -> i64 {
        self.find(cluster).map_or(0, |target| i64::from(target.replicas))
    }
}

impl Request {
    /// Whether a trigger is pending: it requests a Fresh pass, and no pass has served it yet.
    pub fn is_triggered(&self, profile: &Profile) -> bool {
        let triggered = match (self.triggered_at, self.last_scheduled_at) {
            // Differs from Karmada (D21), which goes by the times alone.
            (Some(triggered), Some(last)) => triggered > last || self.pass_pending,
            // Differs from Karmada (D6): a trigger counts even if no pass has succeeded before.
            (Some(_), None) => profile.deviates(),
            (None, _) => self.pass_pending,
        };
        triggered || self.force
    }

    /// Fresh if a trigger is pending, Steady otherwise.
    pub fn mode(&self, profile: &Profile) -> Mode {
        if self.is_triggered(profile) { Mode::Fresh } else { Mode::Steady }
    }

    /// Whether the object has replicas or pods, unlike a Service or a ConfigMap.
    pub fn is_workload(&self) -> bool {
        self.replicas > 0 || self.requirements.is_some() || !self.components.is_empty()
    }

    /// Whether the replicas can be divided among clusters. A workload of several pod templates is
    /// placed as a whole, like an object without replicas.
    pub fn is_divisible(&self) -> bool {
        (self.replicas > 0 || self.requirements.is_some()) && self.components.len() <= 1
    }

    /// The copies that are leaving a cluster, beyond those that are on it as a target: as many more
    /// find room there.
    pub(super) fn own_leaving(&self, cluster: &str) -> i64 {
        let of_target =
            |target: &Target| i64::from(if self.is_divisible() { target.replicas } else { target.replicas.max(1) });
        let copies = |targets: &[Target]| -> i64 {
            targets.iter().filter(|target| *target.name == *cluster).map(of_target).sum()
        };
        match copies(&self.leaving) {
            // Nearly always, and a binding may have thousands of targets.
            0 => 0,
            leaving => (leaving - copies(&self.targets)).max(0),
        }
    }

    /// Whether the clusters share the replicas. If not, each of them has all, or there are none.
    pub fn is_shared(&self) -> bool {
        let duplicates = self.placement.as_ref().is_some_and(|placement| placement.division == Division::Duplicated);
        self.is_divisible() && !duplicates
    }

    /// Whether the targets hold another number of replicas than the workload wants.
    pub(super) fn has_other_replicas_than(&self, placement: &Placement) -> bool {
        let wanted = i64::from(self.replicas);
        match placement.division {
            Division::Duplicated => self.targets.iter().any(|target| i64::from(target.replicas) != wanted),
            _ => self.targets.iter().map(|target| i64::from(target.replicas)).sum::<i64>() != wanted,
        }
    }

    /// Whether any change of clusters needs a pass, as upstream does for objects that are not
    /// divided.
    pub(super) fn is_decided_at_every_chance(&self, placement: &Placement) -> bool {
        !self.is_workload() || placement.division == Division::Duplicated
    }

    /// Whether all replicas are placed, so that changes of other clusters need no pass. A failed
    /// pass or a pending trigger is not considered here.
    pub fn is_settled(&self) -> bool {
        self.placement.as_ref().is_some_and(|placement| {
            let asks = self.is_decided_at_every_chance(placement) || self.has_other_replicas_than(placement);
            // A workload of no replicas that is nowhere looks for a place, too.
            let is_nowhere = self.replicas <= 0 && self.targets.is_empty();
            !asks && !is_nowhere && self.components.is_empty()
        })
    }

    /// Whether the placement was edited since the last pass that applied one.
    pub(super) fn is_edited(&self) -> bool {
        self.placement_changed && !self.never_applied
    }

    /// The replicas on `cluster` now. 0 if there are none.
    pub fn replicas_on(&self, cluster: &str) -> i64 {
        self.targets.iter().filter(|target| *target.name == *cluster).map(|target| i64::from(target.replicas)).sum()
    }
}
