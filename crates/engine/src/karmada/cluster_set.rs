//! The set of all clusters, indexed for scheduling.
//!
//! For each label, API, place and taint a bit set tells which clusters have it. For each resource
//! one array holds what is free, over all clusters.
//!
//! A cluster sits in a slot and keeps it while it exists. Bit sets and arrays are indexed by slot.
//! Names break ties, so each slot also knows the rank of its cluster by name. Changing one cluster
//! costs the size of that cluster, not of the set. Cloning a set is free: the first change to a
//! clone copies only the part that it changes.

use std::collections::HashMap;
use std::sync::Arc;

use super::cluster::{Cluster, Room, amount};
use crate::bits::Bits;
use ballast_k8s::taint::Effect;

/// Index into the arrays of a [`ClusterSet`].
pub type Slot = usize;

/// All clusters, indexed for scheduling. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct ClusterSet {
    rows: Arc<Rows>,
    traits: Arc<Traits>,
    columns: Arc<Columns>,
}

/// What an update of one cluster changed. It decides which bindings need another pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// The cluster was added or removed, or its deletion began.
    pub presence: bool,
    /// Labels, taints, places or APIs changed: where workloads may go.
    pub traits: bool,
    /// The free resources changed: how many replicas fit.
    pub room: bool,
}

impl Difference {
    /// The difference between two states of a cluster. None: the cluster does not exist.
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

    /// Whether the set of workloads that may go to the cluster changed, not only how many fit.
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
    /// Slots, sorted by the name of their cluster. `ranks` is its inverse.
    by_name: Vec<u32>,
    ranks: Vec<u32>,
}

/// The clusters that have each trait. A trait that no cluster has is absent, or has an empty set.
#[derive(Clone, Debug, Default)]
pub(super) struct Traits {
    /// Clusters that exist and are not being deleted.
    pub live: Bits,
    /// Clusters with a taint that keeps out new workloads which do not tolerate it.
    pub tainted: Bits,
    pub labels: HashMap<Box<str>, Values>,
    pub providers: Values,
    pub regions: Values,
    pub zones: Values,
    /// The provider and the region of each cluster: the inverse of the sets above.
    pub provider_of: Places,
    pub region_of: Places,
    /// By group version and kind.
    pub apis: HashMap<Box<str>, HashMap<Box<str>, Bits>>,
}

/// The clusters that have a property, by its value.
#[derive(Clone, Debug, Default)]
pub(super) struct Values {
    /// Clusters that have any value.
    pub any: Bits,
    pub by_value: HashMap<Box<str>, Bits>,
}

/// The place that each cluster is in, as a number.
///
/// A place keeps its number while a cluster is in it. After that, another place can take the
/// number. So there are never more numbers than clusters at one time. This bound matters, because
/// clients write the names and may write a new one every second.
#[derive(Clone, Debug, Default)]
pub(super) struct Places {
    numbers: HashMap<Box<str>, u32>,
    /// By number.
    names: Vec<Box<str>>,
    /// How many clusters are in the place, by number.
    uses: Vec<u32>,
    /// Numbers that no cluster uses.
    vacant: Vec<u32>,
    by_slot: Vec<u32>,
}

impl Places {
    /// The number of the place that the cluster in `slot` is in. The slot must be taken.
    pub fn number(&self, slot: Slot) -> u32 {
        self.by_slot[slot]
    }

    pub fn name(&self, number: u32) -> &str {
        &self.names[number as usize]
    }

    /// Every number is below this one.
    pub fn count(&self) -> usize {
        self.names.len()
    }

    fn put(&mut self, slot: Slot, name: &str) {
        let number = self.numbers.get(name).copied().unwrap_or_else(|| self.number_for(name));
        self.uses[number as usize] += 1;
        if self.by_slot.len() <= slot {
            self.by_slot.resize(slot + 1, 0);
        }
        self.by_slot[slot] = number;
    }

    fn number_for(&mut self, name: &str) -> u32 {
        let number = self.vacant.pop().unwrap_or_else(|| {
            self.names.push(Box::default());
            self.uses.push(0);
            self.names.len() as u32 - 1
        });
        self.names[number as usize] = name.into();
        self.numbers.insert(name.into(), number);
        number
    }

    /// Removes the cluster in `slot` from its place. The slot must be taken.
    fn remove(&mut self, slot: Slot) {
        let number = self.by_slot[slot];
        let uses = &mut self.uses[number as usize];
        *uses -= 1;
        if *uses == 0 {
            let name = std::mem::take(&mut self.names[number as usize]);
            self.numbers.remove(&name);
            self.vacant.push(number);
        }
    }
}

#[derive(Clone, Debug, Default)]
struct Columns {
    /// Free pods. 0 if the cluster has not reported its resources.
    pods: Vec<i64>,
    /// The free amounts of the most common resources: thousandths for cpu, units for the rest.
    free: Vec<(Box<str>, Vec<i64>)>,
    /// Clusters that report kinds of nodes. For these the sums alone do not tell what fits.
    graded: Bits,
}

/// The most resources that have an array. Others are looked up cluster by cluster. This bounds the
/// memory that unusual resource names can take.
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

    /// The number of clusters, with those that are being deleted.
    pub fn len(&self) -> usize {
        self.rows.by_name.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All clusters, ascending by name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Cluster>> + '_ {
        self.slots_by_name().map(|slot| self.cluster(slot))
    }

    pub fn find(&self, name: &str) -> Option<&Arc<Cluster>> {
        self.slot(name).map(|slot| self.cluster(slot))
    }

    /// Adds the cluster, or replaces the one of the same name. Returns what changed.
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

    /// Removes the cluster of this name, if it exists. Returns what changed.
    pub fn remove(&mut self, name: &str) -> Difference {
        let Some(slot) = self.slot(name) else { return Difference::default() };
        let old = Arc::make_mut(&mut self.rows).remove(slot);
        Arc::make_mut(&mut self.traits).remove(slot, &old);
        Arc::make_mut(&mut self.columns).clear(slot);
        Difference::between(Some(&old), None)
    }

    /// Changes the free resources of one cluster. Returns false if it is not there, or has not
    /// reported its resources.
    pub fn change_room(&mut self, name: &str, change: impl FnOnce(&mut Room)) -> bool {
        let Some(slot) = self.slot(name).filter(|slot| self.cluster(*slot).room.is_some()) else { return false };
        let cluster = Arc::make_mut(&mut self.rows).clusters[slot].as_mut().expect("just seen");
        let cluster = Arc::make_mut(cluster);
        change(cluster.room.as_mut().expect("just seen"));
        Arc::make_mut(&mut self.columns).put(slot, cluster);
        true
    }

    pub(super) fn slot(&self, name: &str) -> Option<Slot> {
        self.rows.slots.get(name).map(|slot| *slot as Slot)
    }

    /// The cluster in `slot`. The slot must be taken.
    pub(super) fn cluster(&self, slot: Slot) -> &Arc<Cluster> {
        self.rows.clusters[slot].as_ref().expect("only taken slots are handed out")
    }

    /// The position of the cluster in `slot` among all clusters by name.
    pub(super) fn rank(&self, slot: Slot) -> u32 {
        self.rows.ranks[slot]
    }

    pub(super) fn slots_by_name(&self) -> impl Iterator<Item = Slot> + '_ {
        self.rows.by_name.iter().map(|slot| *slot as Slot)
    }

    /// The slot of a rank: the inverse of `rank`.
    pub(super) fn slot_at(&self, rank: u32) -> Slot {
        self.rows.by_name[rank as usize] as Slot
    }

    /// Every slot is below this number.
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

    /// The free amounts of one resource over all clusters.
    pub(super) fn column<'a>(&'a self, resource: &'a str) -> Column<'a> {
        match self.columns.free.iter().find(|(name, _)| name.as_ref() == resource) {
            Some((_, free)) => Column::Array(free),
            None if self.columns.free.len() < COLUMNS_MAX => Column::Nowhere,
            None => Column::Rows(self, resource),
        }
    }
}

/// The free amounts of one resource, by slot.
pub(super) enum Column<'a> {
    Array(&'a [i64]),
    Nowhere,
    Rows(&'a ClusterSet, &'a str),
}

impl Column<'_> {
    /// Thousandths for cpu, units for the rest. None: the cluster does not have the resource.
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

/// A quantity in the unit that replicas are counted in: thousandths for cpu, units for the rest.
pub(super) fn counted(resource: &str, quantity: ballast_k8s::Quantity) -> i64 {
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
        self.provider_of.remove(slot);
        self.region_of.remove(slot);
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

    /// Adds a place. An empty name is no place.
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

/// Like `map.entry(key).or_default()`, without an owned key if the key exists.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn cluster(name: &str, place: &str) -> Cluster {
        Cluster {
            name: name.into(),
            deleting: false,
            labels: [].into(),
            provider: place.into(),
            region: place.into(),
            zones: [].into(),
            taints: [].into(),
            apis: [].into(),
            room: None,
        }
    }

    #[test]
    fn names_of_places_that_no_cluster_uses_are_forgotten() {
        let mut clusters = ClusterSet::new([cluster("a", "first"), cluster("b", "shared"), cluster("c", "shared")]);
        for number in 0..1_000 {
            clusters.upsert(cluster("a", &format!("place-{number}")));
        }
        for places in [&clusters.traits.region_of, &clusters.traits.provider_of] {
            assert_eq!((places.count(), places.numbers.len()), (2, 2));
            let name = |cluster: &str| places.name(places.number(clusters.slot(cluster).unwrap()));
            assert_eq!((name("a"), name("b"), name("c")), ("place-999", "shared", "shared"));
        }
        clusters.remove("b");
        assert_eq!(clusters.traits.region_of.numbers.len(), 2, "c is still there");
        clusters.remove("c");
        clusters.remove("a");
        assert_eq!((clusters.traits.region_of.count(), clusters.traits.region_of.numbers.len()), (2, 0));
    }
}
