//! One binding as the engine reads it: what to place, where it is now, and whether anybody asks for
//! a pass.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

use serde::Serialize;

use super::placement::{Division, Placement};
use super::profile::Profile;
use crate::k8s::{Quantity, Time};

#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Empty for cluster-scoped bindings.
    pub namespace: Box<str>,
    pub name: Box<str>,
    pub generation: i64,
    pub deleting: bool,
    /// Carries a label that says a policy or another binding made it.
    pub managed: bool,
    /// Empty: the default scheduler's.
    pub scheduler_name: Box<str>,
    pub suspended: bool,
    pub resource: Resource,
    pub placement: Option<Shared<Placement>>,
    /// The placement, as far as the scheduler looks at it, differs from the one it last applied.
    pub placement_changed: bool,
    pub replicas: i32,
    pub requirements: Option<Shared<Requirements>>,
    /// Several pod templates, each with its own replicas.
    pub components: Vec<Component>,
    /// Where it is now. The order counts in one place (see `assign`).
    pub targets: Vec<Target>,
    /// Clusters it is being moved away from.
    pub evicting: Vec<Box<str>>,
    pub force: bool,
    pub triggered_at: Option<Time>,
    pub last_scheduled_at: Option<Time>,
    /// The group that the last pass chose. Empty: none.
    pub observed_term: Box<str>,
    pub priority: i32,
    pub groups: WorkloadGroups,
    /// What makes it impossible to read, if anything does.
    pub fault: Option<Box<str>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Resource {
    pub api_version: Box<str>,
    pub kind: Box<str>,
    pub namespace: Box<str>,
    pub name: Box<str>,
    pub uid: Box<str>,
}

/// A workload wants to be where others of its group are, or where none is. Empty: no group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct WorkloadGroups {
    pub affinity: Box<str>,
    pub anti_affinity: Box<str>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub name: Arc<str>,
    pub replicas: i32,
    /// Empty, or replicas by component.
    pub components: Vec<TargetComponent>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TargetComponent {
    pub name: Box<str>,
    pub replicas: i32,
}

/// What one replica needs: the positive amounts, sorted by resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Requirements {
    pub amounts: Box<[(Box<str>, Quantity)]>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Component {
    pub name: Box<str>,
    pub replicas: i32,
    pub requirements: Option<Requirements>,
}

/// A value with its hash, cheap to clone and to look up by.
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

/// Whether a pass may build on where the replicas are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum Mode {
    /// As few moves as possible.
    Steady,
    /// As if nothing had been placed yet.
    Fresh,
}

impl Request {
    /// Somebody asked to place it anew, and no pass has served that yet.
    pub fn is_triggered(&self, profile: &Profile) -> bool {
        let triggered = match (self.triggered_at, self.last_scheduled_at) {
            (Some(triggered), Some(last)) => triggered > last,
            // Differs from Karmada (D6): a trigger is not lost only because the first success is
            // still to come.
            (Some(_), None) => profile.deviates(),
            (None, _) => false,
        };
        triggered || self.force
    }

    pub fn mode(&self, profile: &Profile) -> Mode {
        if self.is_triggered(profile) { Mode::Fresh } else { Mode::Steady }
    }

    /// Has replicas or pods, as opposed to a Service or a ConfigMap.
    pub fn is_workload(&self) -> bool {
        self.replicas > 0 || self.requirements.is_some() || !self.components.is_empty()
    }

    /// Its replicas can be divided among clusters. Several pod templates are placed as a whole,
    /// like objects without replicas.
    pub(super) fn is_divisible(&self) -> bool {
        (self.replicas > 0 || self.requirements.is_some()) && self.components.len() <= 1
    }

    /// The replicas there are not the replicas that are wanted.
    pub(super) fn has_other_replicas_than(&self, placement: &Placement) -> bool {
        let wanted = i64::from(self.replicas);
        match placement.division {
            Division::Duplicated => self.targets.iter().any(|target| i64::from(target.replicas) != wanted),
            _ => self.targets.iter().map(|target| i64::from(target.replicas)).sum::<i64>() != wanted,
        }
    }

    /// As upstream: what is not divided follows its clusters.
    pub(super) fn is_decided_at_every_chance(&self, placement: &Placement) -> bool {
        !self.is_workload() || placement.division == Division::Duplicated
    }

    /// Its replicas are all placed, so that clusters that it is not on can come and go without
    /// another decision. Where the last pass failed, or a trigger is pending, somebody else must
    /// know.
    pub fn is_settled(&self) -> bool {
        self.placement.as_ref().is_some_and(|placement| {
            let asks = self.is_decided_at_every_chance(placement) || self.has_other_replicas_than(placement);
            !asks && self.components.is_empty()
        })
    }

    /// Replicas now on `cluster`, 0 if none.
    pub fn replicas_on(&self, cluster: &str) -> i64 {
        self.targets.iter().filter(|target| *target.name == *cluster).map(|target| i64::from(target.replicas)).sum()
    }
}
