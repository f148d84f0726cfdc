//! All clusters, indexed for scheduling: which cluster has which label, API, place or taint as bit
//! sets, and what is free of each resource as one array over all clusters.
//!
//! A cluster sits in a slot, which it keeps while it exists; bit sets and arrays are by slot. Names
//! decide between equals, so each slot also knows its cluster's rank by name. Changing one cluster
//! costs that cluster. Cloning a fleet is free; the first change to a clone that shares its parts
//! copies the part it changes.

use std::collections::HashMap;
use std::sync::Arc;

use super::cluster::{Cluster, amount};
use crate::engine::bits::Bits;
use crate::k8s::taint::Effect;

/// Index into the arrays of a [`ClusterSet`].
pub type Slot = usize;

#[derive(Clone, Debug, Default)]
pub struct ClusterSet {
    rows: Arc<Rows>,
    traits: Arc<Traits>,
    columns: Arc<Columns>,
}

/// What an update of one cluster changed, for whoever decides which bindings to look at again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// The cluster came, went, or began to go.
    pub presence: bool,
    /// Labels, taints, places or APIs: where workloads may go.
    pub traits: bool,
    /// How much fits.
    pub room: bool,
}

impl Difference {
    /// From one state of a cluster to another; None: it is not there.
    pub fn between(old: Option<&Cluster>, new: Option<&Cluster>) -> Difference {
        match (old, new) {
            (None, None) => Difference::default(),
            (Some(old), Some(new)) => Difference {
                presence: old.deleting != new.deleting,
                traits: !old.has_traits_of(new),
                room: old.room != new.room,
            },
            _ => Difference { presence: true, traits: true, room: true },
        }
    }

    /// What may go there is not what it was; otherwise only how much.
    pub fn is_of_fit(self) -> bool {
        self.presence || self.traits
    }

    pub fn is_none(self) -> bool {
        self == Difference::default()
    }
}

#[derive(Clone, Debug, Default)]
struct Rows {
    clusters: Vec<Option<Arc<Cluster>>>,
    slots: HashMap<Arc<str>, u32>,
    vacant: Vec<u32>,
    /// Slots sorted by the name of their cluster, and its inverse.
    by_name: Vec<u32>,
    ranks: Vec<u32>,
}

/// Who has what. Sets of absent things are absent or empty.
#[derive(Clone, Debug, Default)]
pub(super) struct Traits {
    /// Neither absent nor deleting.
    pub live: Bits,
    /// Has a taint that keeps new workloads away from those that do not tolerate it.
    pub tainted: Bits,
    pub labels: HashMap<Box<str>, Values>,
    pub providers: Values,
    pub regions: Values,
    pub zones: Values,
    /// Providers and regions again, the other way around.
    pub provider_of: Places,
    pub region_of: Places,
    /// By group version and kind.
    pub apis: HashMap<Box<str>, HashMap<Box<str>, Bits>>,
}

/// One property of clusters, by its value.
#[derive(Clone, Debug, Default)]
pub(super) struct Values {
    /// Has any value.
    pub any: Bits,
    pub by_value: HashMap<Box<str>, Bits>,
}

/// The place that each cluster is in, as a number. Names keep their number for ever: there are few.
#[derive(Clone, Debug, Default)]
pub(super) struct Places {
    numbers: HashMap<Box<str>, u32>,
    names: Vec<Box<str>>,
    by_slot: Vec<u32>,
}

impl Places {
    /// Number of the place of a slot that is taken.
    pub fn number(&self, slot: Slot) -> u32 {
        self.by_slot[slot]
    }

    pub fn name(&self, number: u32) -> &str {
        &self.names[number as usize]
    }

    pub fn count(&self) -> usize {
        self.names.len()
    }

    fn put(&mut self, slot: Slot, name: &str) {
        let number = self.numbers.get(name).copied().unwrap_or_else(|| {
            self.numbers.insert(name.into(), self.names.len() as u32);
            self.names.push(name.into());
            self.names.len() as u32 - 1
        });
        if self.by_slot.len() <= slot {
            self.by_slot.resize(slot + 1, 0);
        }
        self.by_slot[slot] = number;
    }
}

#[derive(Clone, Debug, Default)]
struct Columns {
    /// Free pods; 0 without a summary.
    pods: Vec<i64>,
    /// What is free of the commonest resources, thousandths for cpu and units for the rest.
    free: Vec<(Box<str>, Vec<i64>)>,
    /// Has grades of nodes, so the sums alone do not tell what fits.
    graded: Bits,
}

/// More resources than this are looked up cluster by cluster. It bounds the memory that odd
/// clusters can take.
const COLUMNS_MAX: usize = 32;

/// The cluster does not have the resource.
const ABSENT: i64 = i64::MIN;

impl ClusterSet {
    pub fn new(clusters: impl IntoIterator<Item = Cluster>) -> ClusterSet {
        let mut fleet = ClusterSet::default();
        for cluster in clusters {
            fleet.upsert(cluster);
        }
        fleet
    }

    /// Clusters that are being deleted count.
    pub fn len(&self) -> usize {
        self.rows.by_name.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// By name, ascending.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Cluster>> + '_ {
        self.slots_by_name().map(|slot| self.cluster(slot))
    }

    pub fn find(&self, name: &str) -> Option<&Arc<Cluster>> {
        self.slot(name).map(|slot| self.cluster(slot))
    }

    pub fn upsert(&mut self, cluster: Cluster) -> Difference {
        let Some(slot) = self.slot(&cluster.name) else {
            let slot = Arc::make_mut(&mut self.rows).insert(Arc::new(cluster));
            let cluster = Arc::clone(self.cluster(slot));
            Arc::make_mut(&mut self.traits).add(slot, &cluster);
            Arc::make_mut(&mut self.columns).put(slot, &cluster);
            return Difference::between(None, Some(&cluster));
        };
        let old = Arc::clone(self.cluster(slot));
        let difference = Difference::between(Some(&old), Some(&cluster));
        if difference.is_none() {
            return difference;
        }
        let cluster = Arc::new(cluster);
        if difference.is_of_fit() {
            let traits = Arc::make_mut(&mut self.traits);
            traits.remove(slot, &old);
            traits.add(slot, &cluster);
        }
        if difference.room {
            Arc::make_mut(&mut self.columns).put(slot, &cluster);
        }
        Arc::make_mut(&mut self.rows).clusters[slot] = Some(cluster);
        difference
    }

    pub fn remove(&mut self, name: &str) -> Difference {
        let Some(slot) = self.slot(name) else { return Difference::default() };
        let old = Arc::make_mut(&mut self.rows).remove(slot);
        Arc::make_mut(&mut self.traits).remove(slot, &old);
        Arc::make_mut(&mut self.columns).clear(slot);
        Difference::between(Some(&old), None)
    }

    pub(super) fn slot(&self, name: &str) -> Option<Slot> {
        self.rows.slots.get(name).map(|slot| *slot as Slot)
    }

    /// Of a slot that is taken.
    pub(super) fn cluster(&self, slot: Slot) -> &Arc<Cluster> {
        self.rows.clusters[slot].as_ref().expect("only taken slots are handed out")
    }

    /// Position of the slot's cluster among all by name.
    pub(super) fn rank(&self, slot: Slot) -> u32 {
        self.rows.ranks[slot]
    }

    pub(super) fn slots_by_name(&self) -> impl Iterator<Item = Slot> + '_ {
        self.rows.by_name.iter().map(|slot| *slot as Slot)
    }

    /// The inverse of `rank`.
    pub(super) fn slot_at(&self, rank: u32) -> Slot {
        self.rows.by_name[rank as usize] as Slot
    }

    /// Slots are below this number.
    pub(super) fn slot_count(&self) -> usize {
        self.rows.clusters.len()
    }

    pub(super) fn traits(&self) -> &Traits {
        &self.traits
    }

    pub(super) fn free_pods(&self, slot: Slot) -> i64 {
        self.columns.pods[slot]
    }

    pub(super) fn is_graded(&self, slot: Slot) -> bool {
        self.columns.graded.contains(slot)
    }

    /// One resource over all clusters.
    pub(super) fn column<'a>(&'a self, resource: &'a str) -> Column<'a> {
        match self.columns.free.iter().find(|(name, _)| name.as_ref() == resource) {
            Some((_, free)) => Column::Array(free),
            None if self.columns.free.len() < COLUMNS_MAX => Column::Nowhere,
            None => Column::Rows(self, resource),
        }
    }
}

/// What is free of one resource, cluster by cluster.
pub(super) enum Column<'a> {
    Array(&'a [i64]),
    Nowhere,
    Rows(&'a ClusterSet, &'a str),
}

impl Column<'_> {
    /// Thousandths for cpu, units for the rest; None where the cluster does not have the resource.
    pub fn free(&self, slot: Slot) -> Option<i64> {
        match self {
            Column::Array(free) => free.get(slot).copied().filter(|free| *free != ABSENT),
            Column::Nowhere => None,
            Column::Rows(fleet, resource) => {
                let room = fleet.cluster(slot).room.as_ref()?;
                Some(counted(resource, amount(&room.free, resource)?))
            }
        }
    }
}

/// A quantity in the unit that replicas are counted in.
pub(super) fn counted(resource: &str, quantity: crate::k8s::Quantity) -> i64 {
    if resource == "cpu" { quantity.millis() } else { quantity.units() }
}

impl Rows {
    fn insert(&mut self, cluster: Arc<Cluster>) -> Slot {
        let slot = match self.vacant.pop() {
            Some(slot) => slot,
            None => {
                self.clusters.push(None);
                self.ranks.push(0);
                (self.clusters.len() - 1) as u32
            }
        };
        let rank = self.by_name.partition_point(|other| self.name(*other) < cluster.name.as_ref());
        self.slots.insert(Arc::clone(&cluster.name), slot);
        self.clusters[slot as Slot] = Some(cluster);
        self.by_name.insert(rank, slot);
        self.rank_from(rank);
        slot as Slot
    }

    fn remove(&mut self, slot: Slot) -> Arc<Cluster> {
        let old = self.clusters[slot].take().expect("only taken slots are handed out");
        self.slots.remove(&old.name);
        let rank = self.ranks[slot] as usize;
        self.by_name.remove(rank);
        self.rank_from(rank);
        self.vacant.push(slot as u32);
        old
    }

    fn name(&self, slot: u32) -> &str {
        self.clusters[slot as Slot].as_ref().map_or("", |cluster| &cluster.name)
    }

    fn rank_from(&mut self, first: usize) {
        for (rank, slot) in self.by_name.iter().enumerate().skip(first) {
            self.ranks[*slot as Slot] = rank as u32;
        }
    }
}

impl Cluster {
    fn has_traits_of(&self, other: &Cluster) -> bool {
        self.labels == other.labels
            && self.provider == other.provider
            && self.region == other.region
            && self.zones == other.zones
            && self.taints == other.taints
            && self.apis == other.apis
    }

    fn keeps_workloads_away(&self) -> bool {
        self.taints.iter().any(|taint| matches!(taint.effect, Effect::NoSchedule | Effect::NoExecute))
    }
}

impl Traits {
    fn add(&mut self, slot: Slot, cluster: &Cluster) {
        self.live.put(slot, !cluster.deleting);
        self.tainted.put(slot, cluster.keeps_workloads_away());
        for (key, value) in &cluster.labels {
            entry(&mut self.labels, key).add(slot, value);
        }
        self.provider_of.put(slot, &cluster.provider);
        self.region_of.put(slot, &cluster.region);
        self.providers.add_place(slot, &cluster.provider);
        self.regions.add_place(slot, &cluster.region);
        cluster.zones.iter().for_each(|zone| self.zones.add_place(slot, zone));
        for (group_version, kind) in &cluster.apis {
            entry(entry(&mut self.apis, group_version), kind).insert(slot);
        }
    }

    fn remove(&mut self, slot: Slot, cluster: &Cluster) {
        self.live.remove(slot);
        self.tainted.remove(slot);
        for (key, value) in &cluster.labels {
            let Some(values) = self.labels.get_mut(key) else { continue };
            values.remove(slot, value);
            if values.by_value.is_empty() {
                self.labels.remove(key);
            }
        }
        self.providers.remove(slot, &cluster.provider);
        self.regions.remove(slot, &cluster.region);
        cluster.zones.iter().for_each(|zone| self.zones.remove(slot, zone));
        for (group_version, kind) in &cluster.apis {
            let Some(kinds) = self.apis.get_mut(group_version) else { continue };
            if let Some(slots) = kinds.get_mut(kind) {
                slots.remove(slot);
                if slots.is_empty() {
                    kinds.remove(kind);
                }
            }
            if kinds.is_empty() {
                self.apis.remove(group_version);
            }
        }
    }
}

impl Values {
    fn add(&mut self, slot: Slot, value: &str) {
        self.any.insert(slot);
        entry(&mut self.by_value, value).insert(slot);
    }

    /// An empty name is no place.
    fn add_place(&mut self, slot: Slot, name: &str) {
        if !name.is_empty() {
            self.add(slot, name);
        }
    }

    fn remove(&mut self, slot: Slot, value: &str) {
        self.any.remove(slot);
        if let Some(slots) = self.by_value.get_mut(value) {
            slots.remove(slot);
            if slots.is_empty() {
                self.by_value.remove(value);
            }
        }
    }
}

/// `map.entry(key)` without making an owned key for one that is there.
fn entry<'a, T: Default>(map: &'a mut HashMap<Box<str>, T>, key: &str) -> &'a mut T {
    if !map.contains_key(key) {
        map.insert(key.into(), T::default());
    }
    map.get_mut(key).expect("inserted if it was absent")
}

impl Columns {
    fn put(&mut self, slot: Slot, cluster: &Cluster) {
        self.clear(slot);
        let Some(room) = &cluster.room else { return };
        self.pods[slot] = room.pods;
        self.graded.put(slot, room.grades.is_some());
        for (name, quantity) in &room.free {
            let column = match self.free.iter().position(|(known, _)| known == name) {
                Some(column) => column,
                None if self.free.len() < COLUMNS_MAX => {
                    self.free.push((name.clone(), Vec::new()));
                    self.free.len() - 1
                }
                None => continue,
            };
            let column = &mut self.free[column].1;
            if column.len() <= slot {
                column.resize(slot + 1, ABSENT);
            }
            column[slot] = counted(name, *quantity);
        }
    }

    fn clear(&mut self, slot: Slot) {
        if self.pods.len() <= slot {
            self.pods.resize(slot + 1, 0);
        }
        self.pods[slot] = 0;
        self.graded.remove(slot);
        for (_, column) in &mut self.free {
            if let Some(free) = column.get_mut(slot) {
                *free = ABSENT;
            }
        }
    }
}
