//! An index of bindings by cluster, so that the failure of a cluster does not need a scan of all
//! bindings.
//!
//! The controller updates the index when it reads a binding. An entry may therefore be out of date,
//! and the controller reads each binding that the index returns again.

use std::sync::Arc;

use ballast_k8s::Key;
use ballast_worker::{KeyIndex, NumberSets};

#[derive(Default)]
pub struct BindingsByCluster {
    numbers: KeyIndex,
    /// The clusters of each binding, indexed by the number of the binding.
    clusters: Vec<Box<[Arc<str>]>>,
    on: NumberSets,
}

impl BindingsByCluster {
    /// Inserts a binding under its clusters, or updates it. A binding without clusters is removed.
    pub fn file<'a>(&mut self, key: &Key, clusters: impl Iterator<Item = &'a str> + Clone) {
        if clusters.clone().next().is_none() {
            return self.forget(key);
        }
        let number = self.numbers.insert(key);
        if number as usize == self.clusters.len() {
            self.clusters.push(Box::default());
        }
        let known = &self.clusters[number as usize];
        if known.iter().map(|cluster| &**cluster).eq(clusters.clone()) {
            return;
        }
        self.take_out(number);
        self.clusters[number as usize] = clusters.map(|cluster| self.on.insert(cluster, number)).collect();
    }

    pub fn forget(&mut self, key: &Key) {
        if let Some(number) = self.numbers.remove(key) {
            self.take_out(number);
        }
    }

    fn take_out(&mut self, number: u32) {
        for cluster in std::mem::take(&mut self.clusters[number as usize]) {
            self.on.remove(&cluster, number);
        }
    }

    /// Returns the bindings on a cluster.
    pub fn on(&self, cluster: &str) -> impl Iterator<Item = &Key> {
        self.on.get(cluster).into_iter().flatten().filter_map(|number| self.numbers.key(*number))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use ballast_api::karmada::work::v1alpha2::BINDINGS;

    fn key(name: usize) -> Key {
        Key::namespaced(BINDINGS[0], "shop", format!("web-{name}"))
    }

    fn on(by_cluster: &BindingsByCluster, cluster: &str) -> Vec<Key> {
        let mut found: Vec<Key> = by_cluster.on(cluster).cloned().collect();
        found.sort();
        found
    }

    #[test]
    fn a_binding_is_found_where_it_is_and_nowhere_else() {
        let mut by_cluster = BindingsByCluster::default();
        by_cluster.file(&key(0), ["m1", "m2"].into_iter());
        by_cluster.file(&key(1), ["m2"].into_iter());
        assert_eq!((on(&by_cluster, "m1"), on(&by_cluster, "m2")), (vec![key(0)], vec![key(0), key(1)]));
        // The binding moves to another cluster, returns, and is deleted.
        by_cluster.file(&key(0), ["m3"].into_iter());
        assert_eq!((on(&by_cluster, "m1"), on(&by_cluster, "m3")), (vec![], vec![key(0)]));
        by_cluster.file(&key(0), ["m1"].into_iter());
        by_cluster.forget(&key(0));
        by_cluster.forget(&key(0));
        assert_eq!((on(&by_cluster, "m1"), on(&by_cluster, "m2")), (vec![], vec![key(1)]));
        by_cluster.file(&key(1), [].into_iter());
        assert!(by_cluster.on.is_empty() && by_cluster.numbers.is_empty());
    }

    proptest! {
        /// The incrementally maintained index equals a scan of all bindings.
        #[test]
        fn the_index_equals_a_scan(steps in prop::collection::vec((0_usize..6, prop::collection::btree_set(0_usize..4, 0..4), any::<bool>()), 0..60)) {
            let mut by_cluster = BindingsByCluster::default();
            let mut now: BTreeMap<Key, Vec<String>> = BTreeMap::new();
            for (name, clusters, goes) in steps {
                let clusters: Vec<String> = clusters.into_iter().map(|number| format!("m{number}")).collect();
                if goes {
                    by_cluster.forget(&key(name));
                    now.remove(&key(name));
                } else {
                    by_cluster.file(&key(name), clusters.iter().map(String::as_str));
                    now.insert(key(name), clusters);
                }
                for cluster in ["m0", "m1", "m2", "m3"] {
                    let scan = now.iter().filter(|(_, clusters)| clusters.iter().any(|it| it == cluster));
                    let scan: Vec<Key> = scan.map(|(key, _)| key.clone()).collect();
                    prop_assert_eq!(on(&by_cluster, cluster), scan);
                }
            }
        }
    }
}
