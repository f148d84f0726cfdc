//! The set of all clusters, indexed for scheduling.
//!
//! For each label, API, topology domain and taint, a bit set holds the clusters that have it. For
//! each resource, an array holds the free amount of each cluster. A topology domain is a provider,
//! a region or a zone.
//!
//! Each cluster has an index, which it keeps while it exists. It is the number of the cluster in
//! bit sets and arrays. Names break ties, so each index also has the rank of its cluster by name.
//! Changing one cluster costs the size of that cluster, not of the set. Cloning a set is free: the
//! first change to a clone copies only the part that it changes.

use std::collections::HashMap;
use std::sync::Arc;

use super::cluster::{Cluster, ClusterCapacity, amount, counted};
use crate::bits::Bits;
use ballast_k8s::taint::Effect;

/// The number of a cluster in the bit sets and arrays of a [`ClusterSet`].
pub type ClusterIndex = usize;

/// All clusters, indexed for scheduling. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct ClusterSet {
    rows: Arc<Rows>,
    attributes: Arc<AttributeIndex>,
    columns: Arc<Columns>,
}

/// The kinds of changes in an update of one cluster. They decide which bindings need another pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// Whether the cluster was added or removed, or its deletion began.
    pub presence: bool,
    /// Whether labels, taints, topology domains or APIs changed, which affects feasibility.
    pub attributes: bool,
    /// Whether the free resources changed, which affects how many replicas fit.
    pub capacity: bool,
}

impl Difference {
    /// Compares two states of a cluster. `None` stands for a cluster that does not exist.
    pub fn between(old: Option<&Cluster>, new: Option<&Cluster>) -> Difference {
        match (old, new) {
            (None, None) => Difference::default(),
            (Some(old), Some(new)) => Difference {
                presence: old.deleting != new.deleting,
                attributes: !old.has_attributes_of(new),
                capacity: old.capacity != new.capacity,
            },
            _ => Difference { presence: true, attributes: true, capacity: true },
        }
    }

    /// Returns whether feasibility changed, not only capacity.
    pub fn is_of_fit(self) -> bool {
        self.presence || self.attributes
    }

    pub fn is_none(self) -> bool {
        self == Difference::default()
    }
}

#[derive(Clone, Debug, Default)]
struct Rows {
    clusters: Vec<Option<Arc<Cluster>>>,
    indexes: HashMap<Arc<str>, u32>,
    vacant: Vec<u32>,
    /// Indexes, sorted by the name of their cluster. `ranks` is its inverse.
    by_name: Vec<u32>,
    ranks: Vec<u32>,
}

/// The clusters that have each attribute. An attribute that no cluster has is absent, or has an
/// empty set.
#[derive(Clone, Debug, Default)]
pub(super) struct AttributeIndex {
    /// Clusters that exist and are not being deleted.
    pub live: Bits,
    /// Clusters with a taint that rejects new workloads without a toleration.
    pub tainted: Bits,
    pub labels: HashMap<Box<str>, ValueIndex>,
    pub providers: ValueIndex,
    pub regions: ValueIndex,
    pub zones: ValueIndex,
    /// The provider and the region of each cluster: the inverse of the sets above.
    pub provider_of: PlaceNumbers,
    pub region_of: PlaceNumbers,
    /// Clusters by the group version and kind of the APIs that they serve.
    pub apis: HashMap<Box<str>, HashMap<Box<str>, Bits>>,
}

/// The clusters that have a property, by its value.
#[derive(Clone, Debug, Default)]
pub(super) struct ValueIndex {
    /// Clusters that have any value.
    pub any: Bits,
    pub by_value: HashMap<Box<str>, Bits>,
}

/// The topology domain of each cluster, as a number.
///
/// A domain keeps its number while a cluster is in it. After that, another domain can take the
/// number. So there are never more numbers than clusters at one time. This bound matters, because
/// clients write the names and may write a new one every second.
#[derive(Clone, Debug, Default)]
pub(super) struct PlaceNumbers {
    numbers: HashMap<Box<str>, u32>,
    /// By number.
    names: Vec<Box<str>>,
    /// The number of clusters in the domain, by number.
    uses: Vec<u32>,
    /// Numbers that no cluster uses.
    vacant: Vec<u32>,
    by_index: Vec<u32>,
}

impl PlaceNumbers {
    /// Returns the number of the domain of the cluster with this index. The cluster must exist.
    pub fn number(&self, index: ClusterIndex) -> u32 {
        self.by_index[index]
    }

    pub fn name(&self, number: u32) -> &str {
        &self.names[number as usize]
    }

    /// Returns an exclusive upper bound of the numbers.
    pub fn count(&self) -> usize {
        self.names.len()
    }

    fn put(&mut self, index: ClusterIndex, name: &str) {
        let number = self.numbers.get(name).copied().unwrap_or_else(|| self.number_for(name));
        self.uses[number as usize] += 1;
        if self.by_index.len() <= index {
            self.by_index.resize(index + 1, 0);
        }
        self.by_index[index] = number;
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

    /// Removes the cluster with this index from its domain. The cluster must exist.
    fn remove(&mut self, index: ClusterIndex) {
        let number = self.by_index[index];
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
    /// Clusters that report kinds of nodes. For these, the sums alone are not enough for an
    /// estimate.
    graded: Bits,
}

/// The most resources that have an array. Others are looked up cluster by cluster. This bounds the
/// memory that unusual resource names can take.
const COLUMNS_MAX: usize = 32;

/// The entry of a cluster that does not have the resource.
const ABSENT: i64 = i64::MIN;

impl ClusterSet {
    pub fn new(clusters: impl IntoIterator<Item = Cluster>) -> ClusterSet {
        let mut fleet = ClusterSet::default();
        for cluster in clusters {
            fleet.upsert(cluster);
        }
        fleet
    }

    /// Returns the number of clusters, including clusters that are being deleted.
    pub fn len(&self) -> usize {
        self.rows.by_name.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns all clusters, ascending by name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Cluster>> + '_ {
        self.indexes_by_name().map(|index| self.cluster(index))
    }

    pub fn find(&self, name: &str) -> Option<&Arc<Cluster>> {
        self.index_of(name).map(|index| self.cluster(index))
    }

    /// Returns whether the cluster does not exist or is being deleted.
    pub fn is_gone(&self, name: &str) -> bool {
        self.find(name).is_none_or(|cluster| cluster.deleting)
    }

    /// Adds the cluster, or replaces the one of the same name. Returns what changed.
    pub fn upsert(&mut self, cluster: Cluster) -> Difference {
        let Some(index) = self.index_of(&cluster.name) else {
            let index = Arc::make_mut(&mut self.rows).insert(Arc::new(cluster));
            let cluster = Arc::clone(self.cluster(index));
            Arc::make_mut(&mut self.attributes).add(index, &cluster);
            Arc::make_mut(&mut self.columns).put(index, &cluster);
            return Difference::between(None, Some(&cluster));
        };
        let old = Arc::clone(self.cluster(index));
        let difference = Difference::between(Some(&old), Some(&cluster));
        if difference.is_none() {
            return difference;
        }
        let cluster = Arc::new(cluster);
        if difference.is_of_fit() {
            let attributes = Arc::make_mut(&mut self.attributes);
            attributes.remove(index, &old);
            attributes.add(index, &cluster);
        }
        if difference.capacity {
            Arc::make_mut(&mut self.columns).put(index, &cluster);
        }
        Arc::make_mut(&mut self.rows).clusters[index] = Some(cluster);
        difference
    }

    /// Removes the cluster of this name, if it exists. Returns what changed.
    pub fn remove(&mut self, name: &str) -> Difference {
        let Some(index) = self.index_of(name) else { return Difference::default() };
        let old = Arc::make_mut(&mut self.rows).remove(index);
        Arc::make_mut(&mut self.attributes).remove(index, &old);
        Arc::make_mut(&mut self.columns).clear(index);
        Difference::between(Some(&old), None)
    }

    /// Changes the free resources of one cluster. Returns false if the cluster does not exist, or
    /// has not reported its resources.
    pub fn change_capacity(&mut self, name: &str, change: impl FnOnce(&mut ClusterCapacity)) -> bool {
        let Some(index) = self.index_of(name).filter(|index| self.cluster(*index).capacity.is_some()) else {
            return false;
        };
        let cluster = Arc::make_mut(&mut self.rows).clusters[index].as_mut().expect("just seen");
        let cluster = Arc::make_mut(cluster);
        change(cluster.capacity.as_mut().expect("just seen"));
        Arc::make_mut(&mut self.columns).put(index, cluster);
        true
    }

    pub(super) fn index_of(&self, name: &str) -> Option<ClusterIndex> {
        self.rows.indexes.get(name).map(|index| *index as ClusterIndex)
    }

    /// Returns the cluster with this index. It must exist.
    pub(super) fn cluster(&self, index: ClusterIndex) -> &Arc<Cluster> {
        self.rows.clusters[index].as_ref().expect("only taken slots are handed out")
    }

    /// Returns the position of the cluster with this index among all clusters by name.
    pub(super) fn rank(&self, index: ClusterIndex) -> u32 {
        self.rows.ranks[index]
    }

    pub(super) fn indexes_by_name(&self) -> impl Iterator<Item = ClusterIndex> + '_ {
        self.rows.by_name.iter().map(|index| *index as ClusterIndex)
    }

    /// Returns the index of a rank: the inverse of `rank`.
    pub(super) fn index_at(&self, rank: u32) -> ClusterIndex {
        self.rows.by_name[rank as usize] as ClusterIndex
    }

    /// Returns an exclusive upper bound of the indexes.
    pub(super) fn index_bound(&self) -> usize {
        self.rows.clusters.len()
    }

    pub(super) fn attributes(&self) -> &AttributeIndex {
        &self.attributes
    }

    pub(super) fn free_pods(&self, index: ClusterIndex) -> i64 {
        self.columns.pods[index]
    }

    pub(super) fn is_graded(&self, index: ClusterIndex) -> bool {
        self.columns.graded.contains(index)
    }

    /// Returns the free amounts of one resource over all clusters.
    pub(super) fn column<'a>(&'a self, resource: &'a str) -> Column<'a> {
        match self.columns.free.iter().find(|(name, _)| name.as_ref() == resource) {
            Some((_, free)) => Column::Array(free),
            None if self.columns.free.len() < COLUMNS_MAX => Column::Nowhere,
            None => Column::Rows(self, resource),
        }
    }
}

/// The free amounts of one resource, by index.
pub(super) enum Column<'a> {
    Array(&'a [i64]),
    Nowhere,
    Rows(&'a ClusterSet, &'a str),
}

impl Column<'_> {
    /// Returns the free amount: thousandths for cpu, units for the rest. `None` if the cluster does
    /// not have the resource.
    pub fn free(&self, index: ClusterIndex) -> Option<i64> {
        match self {
            Column::Array(free) => free.get(index).copied().filter(|free| *free != ABSENT),
            Column::Nowhere => None,
            Column::Rows(fleet, resource) => {
                let capacity = fleet.cluster(index).capacity.as_ref()?;
                Some(counted(resource, amount(&capacity.free, resource)?))
            }
        }
    }
}

impl Rows {
    fn insert(&mut self, cluster: Arc<Cluster>) -> ClusterIndex {
        let index = match self.vacant.pop() {
            Some(index) => index,
            None => {
                self.clusters.push(None);
                self.ranks.push(0);
                (self.clusters.len() - 1) as u32
            }
        };
        let rank = self.by_name.partition_point(|other| self.name(*other) < cluster.name.as_ref());
        self.indexes.insert(Arc::clone(&cluster.name), index);
        self.clusters[index as ClusterIndex] = Some(cluster);
        self.by_name.insert(rank, index);
        self.rank_from(rank);
        index as ClusterIndex
    }

    fn remove(&mut self, index: ClusterIndex) -> Arc<Cluster> {
        let old = self.clusters[index].take().expect("only taken slots are handed out");
        self.indexes.remove(&old.name);
        let rank = self.ranks[index] as usize;
        self.by_name.remove(rank);
        self.rank_from(rank);
        self.vacant.push(index as u32);
        old
    }

    fn name(&self, index: u32) -> &str {
        self.clusters[index as ClusterIndex].as_ref().map_or("", |cluster| &cluster.name)
    }

    fn rank_from(&mut self, first: usize) {
        for (rank, index) in self.by_name.iter().enumerate().skip(first) {
            self.ranks[*index as ClusterIndex] = rank as u32;
        }
    }
}

impl Cluster {
    fn has_attributes_of(&self, other: &Cluster) -> bool {
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

impl AttributeIndex {
    fn add(&mut self, index: ClusterIndex, cluster: &Cluster) {
        self.live.put(index, !cluster.deleting);
        self.tainted.put(index, cluster.keeps_workloads_away());
        for (key, value) in &cluster.labels {
            entry(&mut self.labels, key).add(index, value);
        }
        self.provider_of.put(index, &cluster.provider);
        self.region_of.put(index, &cluster.region);
        self.providers.add_place(index, &cluster.provider);
        self.regions.add_place(index, &cluster.region);
        cluster.zones.iter().for_each(|zone| self.zones.add_place(index, zone));
        for (group_version, kind) in &cluster.apis {
            entry(entry(&mut self.apis, group_version), kind).insert(index);
        }
    }

    fn remove(&mut self, index: ClusterIndex, cluster: &Cluster) {
        self.live.remove(index);
        self.tainted.remove(index);
        for (key, value) in &cluster.labels {
            let Some(values) = self.labels.get_mut(key) else { continue };
            values.remove(index, value);
            if values.by_value.is_empty() {
                self.labels.remove(key);
            }
        }
        self.provider_of.remove(index);
        self.region_of.remove(index);
        self.providers.remove(index, &cluster.provider);
        self.regions.remove(index, &cluster.region);
        cluster.zones.iter().for_each(|zone| self.zones.remove(index, zone));
        for (group_version, kind) in &cluster.apis {
            let Some(kinds) = self.apis.get_mut(group_version) else { continue };
            if let Some(indexes) = kinds.get_mut(kind) {
                indexes.remove(index);
                if indexes.is_empty() {
                    kinds.remove(kind);
                }
            }
            if kinds.is_empty() {
                self.apis.remove(group_version);
            }
        }
    }
}

impl ValueIndex {
    fn add(&mut self, index: ClusterIndex, value: &str) {
        self.any.insert(index);
        entry(&mut self.by_value, value).insert(index);
    }

    /// Adds the cluster to a topology domain, unless the name is empty.
    fn add_place(&mut self, index: ClusterIndex, name: &str) {
        if !name.is_empty() {
            self.add(index, name);
        }
    }

    fn remove(&mut self, index: ClusterIndex, value: &str) {
        self.any.remove(index);
        if let Some(indexes) = self.by_value.get_mut(value) {
            indexes.remove(index);
            if indexes.is_empty() {
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
    fn put(&mut self, index: ClusterIndex, cluster: &Cluster) {
        self.clear(index);
        let Some(capacity) = &cluster.capacity else { return };
        self.pods[index] = capacity.pods;
        self.graded.put(index, capacity.grades.is_some());
        for (name, quantity) in &capacity.free {
            let column = match self.free.iter().position(|(known, _)| known == name) {
                Some(column) => column,
                None if self.free.len() < COLUMNS_MAX => {
                    self.free.push((name.clone(), Vec::new()));
                    self.free.len() - 1
                }
                None => continue,
            };
            let column = &mut self.free[column].1;
            if column.len() <= index {
                column.resize(index + 1, ABSENT);
            }
            column[index] = counted(name, *quantity);
        }
    }

    fn clear(&mut self, index: ClusterIndex) {
        if self.pods.len() <= index {
            self.pods.resize(index + 1, 0);
        }
        self.pods[index] = 0;
        self.graded.remove(index);
        for (_, column) in &mut self.free {
            if let Some(free) = column.get_mut(index) {
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
            capacity: None,
        }
    }

    #[test]
    fn names_of_places_that_no_cluster_uses_are_forgotten() {
        let mut clusters = ClusterSet::new([cluster("a", "first"), cluster("b", "shared"), cluster("c", "shared")]);
        for number in 0..1_000 {
            clusters.upsert(cluster("a", &format!("place-{number}")));
        }
        for places in [&clusters.attributes.region_of, &clusters.attributes.provider_of] {
            assert_eq!((places.count(), places.numbers.len()), (2, 2));
            let name = |cluster: &str| places.name(places.number(clusters.index_of(cluster).unwrap()));
            assert_eq!((name("a"), name("b"), name("c")), ("place-999", "shared", "shared"));
        }
        clusters.remove("b");
        assert_eq!(clusters.attributes.region_of.numbers.len(), 2, "c is still there");
        clusters.remove("c");
        clusters.remove("a");
        assert_eq!((clusters.attributes.region_of.count(), clusters.attributes.region_of.numbers.len()), (2, 0));
    }
}
