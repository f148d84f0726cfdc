//! Finds the bindings that a changed cluster can affect. These are the bindings on the cluster, and
//! those whose placement can choose it, if a pass would decide them (`Request::is_settled`) or if
//! they are parked, which the queue knows.
//!
//! The index is kept in step with the bindings, event by event. No lookup walks all bindings, all
//! placements or all clusters. Bindings are filed under the text of their placement, of which there
//! are few, and under their clusters.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::{dirty, lower};
use ballast_api::karmada::policy::v1alpha1::Placement;
use ballast_api::karmada::work::v1alpha2::SpecSketch;
use ballast_engine::karmada::{Cluster, Reach, Shared};
use ballast_k8s::Key;
use ballast_worker::{Groups, Roster};

#[derive(Default)]
pub struct Index {
    numbers: Roster,
    /// By number, like the fields below. Sets of numbers are small and cheap to change.
    bindings: Vec<Option<Binding>>,
    placements: HashMap<Arc<str>, u32>,
    shelves: Vec<Option<Shelf>>,
    vacant_shelves: Vec<u32>,
    reach: Reach,
    on: Groups,
}

struct Binding {
    priority: i32,
    shelf: Option<u32>,
    targets: Box<[Arc<str>]>,
}

/// The bindings of one placement.
struct Shelf {
    text: Arc<str>,
    count: usize,
    /// The bindings that are not settled.
    restless: BTreeSet<u32>,
}

/// The bindings that the change of a cluster can affect.
pub struct Reached {
    shelves: BTreeSet<u32>,
    on_it: BTreeSet<u32>,
}

impl Index {
    /// Files a binding, or files it again after a change.
    pub fn upsert(&mut self, key: &Key, spec: &SpecSketch<'_>) {
        let number = self.numbers.enter(key);
        let shelf = spec.placement().map(|text| self.shelf(text));
        // It is on the new shelf before it leaves the old one, which may be the same.
        if let Some(shelf) = shelf {
            self.on_shelf(shelf).count += 1;
        }
        self.take_out(number);
        if let Some(shelf) = shelf
            && !dirty::is_settled(spec, self.reach.find(shelf))
        {
            self.on_shelf(shelf).restless.insert(number);
        }
        let targets = spec.clusters().iter().map(|target| self.on.enter(&target.name, number)).collect();
        let binding = Binding { priority: spec.priority(), shelf, targets };
        if number as usize == self.bindings.len() {
            self.bindings.push(None);
        }
        self.bindings[number as usize] = Some(binding);
    }

    pub fn remove(&mut self, key: &Key) {
        if let Some(number) = self.numbers.remove(key) {
            self.take_out(number);
        }
    }

    /// Takes a binding, if it was filed, from where it was.
    fn take_out(&mut self, number: u32) {
        let Some(binding) = self.bindings.get_mut(number as usize).and_then(Option::take) else { return };
        for cluster in &binding.targets {
            self.on.remove(cluster, number);
        }
        if let Some(shelf) = binding.shelf {
            self.take_off(shelf, number);
        }
    }

    /// The bindings that a cluster's change from `old` to `new` can affect.
    pub fn reached(&self, name: &str, old: Option<&Cluster>, new: Option<&Cluster>) -> Reached {
        let shelves = [old, new].into_iter().flatten().flat_map(|cluster| self.reach.choosing(cluster)).collect();
        Reached { shelves, on_it: self.on.get(name).cloned().unwrap_or_default() }
    }

    /// The bindings that a pass would decide, each once, with their priority.
    pub fn restless<'a>(&'a self, reached: &'a Reached) -> impl Iterator<Item = (&'a Key, i32)> {
        let shelves = reached.shelves.iter().filter_map(|shelf| self.shelves[*shelf as usize].as_ref());
        let elsewhere = shelves.flat_map(|shelf| &shelf.restless).filter(|number| !reached.on_it.contains(number));
        let numbers = reached.on_it.iter().chain(elsewhere);
        numbers.filter_map(|number| {
            let binding = self.bindings[*number as usize].as_ref()?;
            Some((self.numbers.key(*number)?, binding.priority))
        })
    }

    /// Whether a pass would decide the binding, as far as its replicas tell.
    pub fn is_restless(&self, key: &Key) -> bool {
        let Some(number) = self.numbers.number(key) else { return false };
        let shelf = self.bindings[number as usize].as_ref().and_then(|binding| binding.shelf);
        let shelf = shelf.and_then(|shelf| self.shelves[shelf as usize].as_ref());
        shelf.is_some_and(|shelf| shelf.restless.contains(&number))
    }

    /// Whether the change can affect the binding, if that is parked or in work.
    pub fn concerns(&self, reached: &Reached, key: &Key) -> bool {
        let Some(number) = self.numbers.number(key) else { return false };
        let shelf = self.bindings[number as usize].as_ref().and_then(|binding| binding.shelf);
        reached.on_it.contains(&number) || shelf.is_some_and(|shelf| reached.shelves.contains(&shelf))
    }

    /// The number of the placement's shelf. The first binding with the placement makes the shelf.
    fn shelf(&mut self, text: &str) -> u32 {
        if let Some(known) = self.placements.get(text) {
            return *known;
        }
        let number = self.vacant_shelves.pop().unwrap_or(self.shelves.len() as u32);
        if number as usize == self.shelves.len() {
            self.shelves.push(None);
        }
        let text: Arc<str> = text.into();
        // A placement that cannot be read chooses no cluster, now or later.
        if let Ok(placement) = serde_json::from_str::<Placement>(&text) {
            self.reach.insert(number, Shared::new(lower::karmada::placement(&placement)));
        }
        self.shelves[number as usize] = Some(Shelf { text: text.clone(), count: 0, restless: BTreeSet::new() });
        self.placements.insert(text, number);
        number
    }

    fn on_shelf(&mut self, number: u32) -> &mut Shelf {
        self.shelves[number as usize].as_mut().expect("a shelf stays while something is on it, or about to be")
    }

    fn take_off(&mut self, number: u32, binding: u32) {
        let place = &mut self.shelves[number as usize];
        let Some(shelf) = place else { return };
        shelf.restless.remove(&binding);
        shelf.count -= 1;
        if shelf.count == 0 {
            self.placements.remove(&shelf.text);
            self.reach.remove(number);
            *place = None;
            self.vacant_shelves.push(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use ballast_api::karmada::work::v1alpha2::BindingSketch;
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
        lower::karmada::cluster(&wire).0
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

    fn woken(index: &Index, old: &Cluster, new: &Cluster) -> Vec<String> {
        let reached = index.reached("m1", Some(old), Some(new));
        let mut names: Vec<String> = index.restless(&reached).map(|(key, _)| key.name.to_string()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_cluster_wakes_who_is_on_it_and_who_could_use_it_and_nobody_else() {
        let mut index = Index::default();
        let specs = [
            // Waits for room in the region that the cluster moves to.
            json!({"replicas": 2, "placement": in_region("north")}),
            // Is served in that region.
            json!({"replicas": 2, "placement": in_region("north"), "clusters": [{"name": "m2", "replicas": 2}]}),
            // Waits for another region.
            json!({"replicas": 2, "placement": in_region("west")}),
            // Is on the cluster.
            json!({"replicas": 2, "placement": in_region("west"), "clusters": [{"name": "m1", "replicas": 2}]}),
            // Is not divided, and may go anywhere.
            json!({"replicas": 2, "placement": {}, "clusters": [{"name": "m2", "replicas": 2}]}),
            // Cannot be read.
            json!({"replicas": 2, "placement": {"clusterAffinity": 7}}),
        ];
        for (number, spec) in specs.iter().enumerate() {
            index.upsert(&key(number), &BindingSketch::of(&object(number, spec).text.content()).unwrap().spec);
        }
        assert_eq!(woken(&index, &cluster("south"), &cluster("north")), ["b0", "b3", "b4"]);
        assert_eq!(woken(&index, &cluster("south"), &cluster("")), ["b3", "b4"]);
        assert_eq!(woken(&index, &cluster("north"), &cluster("")), ["b0", "b3", "b4"], "what it could use is gone");
        let reached = index.reached("m1", None, Some(&cluster("north")));
        assert!(index.concerns(&reached, &key(1)) && !index.concerns(&reached, &key(2)));
    }

    #[test]
    fn what_is_no_longer_there_is_forgotten_entirely() {
        let mut index = Index::default();
        for name in 0..4 {
            let spec = json!({"replicas": 1, "placement": in_region("north"), "clusters": [{"name": "m1"}]});
            index.upsert(&key(name), &BindingSketch::of(&object(name, &spec).text.content()).unwrap().spec);
        }
        for name in 0..4 {
            index.remove(&key(name));
            index.remove(&key(name));
        }
        assert!(index.numbers.is_empty() && index.placements.is_empty() && index.on.is_empty());
        assert_eq!((index.bindings.len(), index.vacant_shelves.len()), (4, 1));
        assert!(index.bindings.iter().all(Option::is_none));
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

        /// However it came about, the index says what an index made anew says.
        #[test]
        fn history_leaves_no_trace(steps in prop::collection::vec((0_usize..5, 0_usize..6, 0_i32..3, 0_usize..3), 0..40)) {
            let placements = [in_region("north"), in_region("west"), json!({}), json!({"clusterAffinity": {"clusterNames": ["m1"]}})];
            let mut now: HashMap<usize, Value> = HashMap::new();
            let mut index = Index::default();
            for (name, placement, replicas, on) in steps {
                let Some(placement) = placements.get(placement) else {
                    index.remove(&key(name));
                    now.remove(&name);
                    continue;
                };
                let clusters: Vec<Value> = (0..on).map(|on| json!({"name": format!("m{on}"), "replicas": 1})).collect();
                let spec = json!({"replicas": replicas, "placement": placement, "clusters": clusters});
                index.upsert(&key(name), &BindingSketch::of(&object(name, &spec).text.content()).unwrap().spec);
                now.insert(name, spec);
            }
            let mut anew = Index::default();
            for (name, spec) in &now {
                anew.upsert(&key(*name), &BindingSketch::of(&object(*name, spec).text.content()).unwrap().spec);
            }
            for (old, new) in [("north", "north"), ("", "west"), ("", "")] {
                let (old, new) = (cluster(old), cluster(new));
                prop_assert_eq!(woken(&index, &old, &new), woken(&anew, &old, &new));
            }
        }
    }
}
