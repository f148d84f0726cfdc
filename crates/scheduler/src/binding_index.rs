//! An index of the bindings that a changed cluster can affect. These are the bindings on the
//! cluster, and the bindings that can be placed on it, if they are unsettled
//! (`Request::is_settled`) or unschedulable, which the queue knows.
//!
//! The index follows the bindings event by event. No lookup walks all bindings, all placements or
//! all clusters. Bindings are indexed by the text of their placement, because few texts differ, and
//! by their clusters.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::{convert, dirty};
use ballast_api::karmada::policy::v1alpha1::{Placement, PlacementPrice};
use ballast_api::karmada::work::v1alpha2::PartialSpec;
use ballast_engine::karmada::{Cluster, Reach, Shared};
use ballast_k8s::Key;
use ballast_worker::{KeyIndex, NumberSets};

#[derive(Default)]
pub struct BindingIndex {
    numbers: KeyIndex,
    /// Indexed by number, like the fields below. Sets of numbers are small and cheap to change.
    bindings: Vec<Option<Binding>>,
    placements: HashMap<Arc<str>, u32>,
    entries: Vec<Option<PlacementEntry>>,
    free_entries: Vec<u32>,
    reach: Reach,
    on: NumberSets,
}

struct Binding {
    priority: i32,
    entry: Option<u32>,
    targets: Box<[Arc<str>]>,
}

/// The bindings of one placement.
struct PlacementEntry {
    text: Arc<str>,
    price: PlacementPrice,
    count: usize,
    /// The bindings that are not settled.
    unsettled: BTreeSet<u32>,
}

/// The bindings that the change of a cluster can affect.
pub struct AffectedBindings {
    entries: BTreeSet<u32>,
    on_it: BTreeSet<u32>,
}

impl BindingIndex {
    /// Adds a binding, or updates it after a change.
    pub fn upsert(&mut self, key: &Key, spec: &PartialSpec<'_>) {
        let number = self.numbers.insert(key);
        let entry = spec.placement().map(|text| self.entry_of(text));
        // The new entry counts the binding before the old one releases it, because both may be the
        // same.
        if let Some(entry) = entry {
            self.entry_mut(entry).count += 1;
        }
        self.detach(number);
        if let Some(entry) = entry
            && !dirty::is_settled(spec, self.reach.find(entry))
        {
            self.entry_mut(entry).unsettled.insert(number);
        }
        let targets = spec.clusters().iter().map(|target| self.on.insert(&target.name, number)).collect();
        let binding = Binding { priority: spec.priority(), entry, targets };
        if number as usize == self.bindings.len() {
            self.bindings.push(None);
        }
        self.bindings[number as usize] = Some(binding);
    }

    pub fn remove(&mut self, key: &Key) {
        if let Some(number) = self.numbers.remove(key) {
            self.detach(number);
        }
    }

    /// Removes a binding from its entry and its clusters.
    fn detach(&mut self, number: u32) {
        let Some(binding) = self.bindings.get_mut(number as usize).and_then(Option::take) else { return };
        for cluster in &binding.targets {
            self.on.remove(cluster, number);
        }
        if let Some(entry) = binding.entry {
            self.remove_from_entry(entry, number);
        }
    }

    /// Returns the bindings that a cluster's change from `old` to `new` can affect.
    pub fn affected(&self, name: &str, old: Option<&Cluster>, new: Option<&Cluster>) -> AffectedBindings {
        let entries = [old, new].into_iter().flatten().flat_map(|cluster| self.reach.choosing(cluster)).collect();
        AffectedBindings { entries, on_it: self.on.get(name).cloned().unwrap_or_default() }
    }

    /// Iterates over the affected bindings that are unsettled, each once, with their priority.
    pub fn unsettled<'a>(&'a self, affected: &'a AffectedBindings) -> impl Iterator<Item = (&'a Key, i32)> {
        let entries = affected.entries.iter().filter_map(|entry| self.entries[*entry as usize].as_ref());
        let elsewhere = entries.flat_map(|entry| &entry.unsettled).filter(|number| !affected.on_it.contains(number));
        let numbers = affected.on_it.iter().chain(elsewhere);
        numbers.filter_map(|number| {
            let binding = self.bindings[*number as usize].as_ref()?;
            Some((self.numbers.key(*number)?, binding.priority))
        })
    }

    /// Returns the cost of a decision about the binding.
    pub fn price(&self, key: &Key) -> PlacementPrice {
        let binding = self.numbers.number(key).and_then(|number| self.bindings[number as usize].as_ref());
        let entry = binding.and_then(|binding| self.entries[binding.entry? as usize].as_ref());
        entry.map(|entry| entry.price).unwrap_or_default()
    }

    /// Returns whether the binding is unsettled.
    pub fn is_unsettled(&self, key: &Key) -> bool {
        let Some(number) = self.numbers.number(key) else { return false };
        let entry = self.bindings[number as usize].as_ref().and_then(|binding| binding.entry);
        let entry = entry.and_then(|entry| self.entries[entry as usize].as_ref());
        entry.is_some_and(|entry| entry.unsettled.contains(&number))
    }

    /// Returns whether the change can affect this binding, settled or not.
    pub fn concerns(&self, affected: &AffectedBindings, key: &Key) -> bool {
        let Some(number) = self.numbers.number(key) else { return false };
        let entry = self.bindings[number as usize].as_ref().and_then(|binding| binding.entry);
        affected.on_it.contains(&number) || entry.is_some_and(|entry| affected.entries.contains(&entry))
    }

    /// Returns the number of the placement's entry, and creates the entry for the first binding.
    fn entry_of(&mut self, text: &str) -> u32 {
        if let Some(known) = self.placements.get(text) {
            return *known;
        }
        let number = self.free_entries.pop().unwrap_or(self.entries.len() as u32);
        if number as usize == self.entries.len() {
            self.entries.push(None);
        }
        let text: Arc<str> = text.into();
        let mut price = PlacementPrice::default();
        // An invalid placement selects no cluster, now or later.
        if let Ok(placement) = serde_json::from_str::<Placement>(&text) {
            price = PlacementPrice::of(&placement);
            self.reach.insert(number, Shared::new(convert::karmada::placement(&placement)));
        }
        self.entries[number as usize] =
            Some(PlacementEntry { text: text.clone(), price, count: 0, unsettled: BTreeSet::new() });
        self.placements.insert(text, number);
        number
    }

    fn entry_mut(&mut self, number: u32) -> &mut PlacementEntry {
        self.entries[number as usize].as_mut().expect("a shelf stays while something is on it, or about to be")
    }

    fn remove_from_entry(&mut self, number: u32, binding: u32) {
        let place = &mut self.entries[number as usize];
        let Some(entry) = place else { return };
        entry.unsettled.remove(&binding);
        entry.count -= 1;
        if entry.count == 0 {
            self.placements.remove(&entry.text);
            self.reach.remove(number);
            *place = None;
            self.free_entries.push(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use ballast_api::karmada::work::v1alpha2::PartialBinding;
    use ballast_k8s::{GroupResource, Object, Revision};

    fn key(name: usize) -> Key {
        Key::namespaced(GroupResource::new("resourcebindings.work.karmada.io"), "shop", format!("b{name}").as_str())
    }

    fn object(name: usize, spec: &Value) -> Object {
        let json = serde_json::to_vec(&json!({"metadata": {}, "spec": spec})).unwrap();
        Object::decode(key(name), Revision(1), json.into()).unwrap()
    }

    fn cluster(region: &str) -> Cluster {
        let wire =
            serde_json::from_value(json!({"metadata": {"name": "m1"}, "spec": {"syncMode": "Push", "region": region}}))
                .unwrap();
        convert::karmada::cluster(&wire).0
    }

    fn in_region(region: &str) -> Value {
        let wanted = json!({"key": "region", "operator": "In", "values": [region]});
        json!({
            "clusterAffinity": {"fieldSelector": {"matchExpressions": [wanted]}},
            "replicaScheduling": {
                "replicaSchedulingType": "Divided", "replicaDivisionPreference": "Weighted",
                "weightPreference": {"dynamicWeight": "AvailableReplicas"},
            },
        })
    }

    fn woken(index: &BindingIndex, old: &Cluster, new: &Cluster) -> Vec<String> {
        let affected = index.affected("m1", Some(old), Some(new));
        let mut names: Vec<String> = index.unsettled(&affected).map(|(key, _)| key.name.to_string()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_cluster_wakes_who_is_on_it_and_who_could_use_it_and_nobody_else() {
        let mut index = BindingIndex::default();
        let specs = [
            // Waits for capacity in the region that the cluster moves to.
            json!({"replicas": 2, "placement": in_region("north")}),
            // Is placed in that region.
            json!({"replicas": 2, "placement": in_region("north"), "clusters": [{"name": "m2", "replicas": 2}]}),
            // Waits for another region.
            json!({"replicas": 2, "placement": in_region("west")}),
            // Is on the cluster.
            json!({"replicas": 2, "placement": in_region("west"), "clusters": [{"name": "m1", "replicas": 2}]}),
            // Is not divided, and may go anywhere.
            json!({"replicas": 2, "placement": {}, "clusters": [{"name": "m2", "replicas": 2}]}),
            // Is invalid.
            json!({"replicas": 2, "placement": {"clusterAffinity": 7}}),
        ];
        for (number, spec) in specs.iter().enumerate() {
            index.upsert(&key(number), &PartialBinding::of(&object(number, spec).text.content()).unwrap().spec);
        }
        assert_eq!(woken(&index, &cluster("south"), &cluster("north")), ["b0", "b3", "b4"]);
        assert_eq!(woken(&index, &cluster("south"), &cluster("")), ["b3", "b4"]);
        assert_eq!(woken(&index, &cluster("north"), &cluster("")), ["b0", "b3", "b4"], "what it could use is gone");
        let affected = index.affected("m1", None, Some(&cluster("north")));
        assert!(index.concerns(&affected, &key(1)) && !index.concerns(&affected, &key(2)));
    }

    #[test]
    fn what_is_no_longer_there_is_forgotten_entirely() {
        let mut index = BindingIndex::default();
        for name in 0..4 {
            let spec = json!({"replicas": 1, "placement": in_region("north"), "clusters": [{"name": "m1"}]});
            index.upsert(&key(name), &PartialBinding::of(&object(name, &spec).text.content()).unwrap().spec);
        }
        for name in 0..4 {
            index.remove(&key(name));
            index.remove(&key(name));
        }
        assert!(index.numbers.is_empty() && index.placements.is_empty() && index.on.is_empty());
        assert_eq!((index.bindings.len(), index.free_entries.len()), (4, 1));
        assert!(index.bindings.iter().all(Option::is_none));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

        /// The incrementally maintained index equals one rebuilt from scratch.
        #[test]
        fn history_leaves_no_trace(steps in prop::collection::vec((0_usize..5, 0_usize..6, 0_i32..3, 0_usize..3), 0..40)) {
            let placements = [in_region("north"), in_region("west"), json!({}), json!({"clusterAffinity": {"clusterNames": ["m1"]}})];
            let mut now: HashMap<usize, Value> = HashMap::new();
            let mut index = BindingIndex::default();
            for (name, placement, replicas, on) in steps {
                let Some(placement) = placements.get(placement) else {
                    index.remove(&key(name));
                    now.remove(&name);
                    continue;
                };
                let clusters: Vec<Value> = (0..on).map(|on| json!({"name": format!("m{on}"), "replicas": 1})).collect();
                let spec = json!({"replicas": replicas, "placement": placement, "clusters": clusters});
                index.upsert(&key(name), &PartialBinding::of(&object(name, &spec).text.content()).unwrap().spec);
                now.insert(name, spec);
            }
            let mut anew = BindingIndex::default();
            for (name, spec) in &now {
                anew.upsert(&key(*name), &PartialBinding::of(&object(*name, spec).text.content()).unwrap().spec);
            }
            for (old, new) in [("north", "north"), ("", "west"), ("", "")] {
                let (old, new) = (cluster(old), cluster(new));
                prop_assert_eq!(woken(&index, &old, &new), woken(&anew, &old, &new));
            }
        }
    }
}
