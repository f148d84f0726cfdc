//! Compact collections for typed objects, of which hundreds of thousands are in memory.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use ballast_resource::schema::mark::{generic_schema, map_to};

/// Deserializes a list into a vector without spare capacity.
pub fn list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    let mut list = Vec::deserialize(deserializer)?;
    list.shrink_to_fit();
    Ok(list)
}

/// A JSON object with few members of arbitrary names, such as labels, annotations and amounts. It
/// is sorted by key. A `BTreeMap` would allocate half a kilobyte for the first member.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pairs<V>(Vec<(String, V)>);

impl<V> Pairs<V> {
    pub fn get(&self, key: &str) -> Option<&V> {
        self.get_key_value(key).map(|(_, value)| value)
    }

    pub fn get_key_value(&self, key: &str) -> Option<(&String, &V)> {
        let place = self.find(key).ok()?;
        let (key, value) = &self.0[place];
        Some((key, value))
    }

    pub fn contains_key(&self, key: &str) -> bool {
        self.find(key).is_ok()
    }

    /// Inserts a member and returns the previous value.
    pub fn insert(&mut self, key: String, value: V) -> Option<V> {
        match self.find(&key) {
            Ok(place) => Some(std::mem::replace(&mut self.0[place].1, value)),
            Err(place) => {
                self.0.insert(place, (key, value));
                None
            }
        }
    }

    pub fn remove(&mut self, key: &str) -> Option<V> {
        self.find(key).ok().map(|place| self.0.remove(place).1)
    }

    pub fn iter(&self) -> Iter<'_, V> {
        self.0.iter().map(|(key, value)| (key, value))
    }

    pub fn keys(&self) -> impl ExactSizeIterator<Item = &String> {
        self.0.iter().map(|(key, _)| key)
    }

    pub fn values(&self) -> impl ExactSizeIterator<Item = &V> {
        self.0.iter().map(|(_, value)| value)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn find(&self, key: &str) -> Result<usize, usize> {
        self.0.binary_search_by(|(known, _)| known.as_str().cmp(key))
    }
}

pub type Iter<'a, V> = std::iter::Map<std::slice::Iter<'a, (String, V)>, fn(&(String, V)) -> (&String, &V)>;

impl<V> Default for Pairs<V> {
    fn default() -> Pairs<V> {
        Pairs(Vec::new())
    }
}

impl<V: fmt::Debug> fmt::Debug for Pairs<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// Keeps the last of equal keys.
impl<V> FromIterator<(String, V)> for Pairs<V> {
    fn from_iter<I: IntoIterator<Item = (String, V)>>(pairs: I) -> Pairs<V> {
        let mut sorted: Vec<(String, V)> = pairs.into_iter().collect();
        // The sort is stable, so equal keys keep their order.
        sorted.sort_by(|(a, _), (b, _)| a.cmp(b));
        sorted.dedup_by(|later, kept| {
            let same = later.0 == kept.0;
            if same {
                std::mem::swap(later, kept);
            }
            same
        });
        sorted.shrink_to_fit();
        Pairs(sorted)
    }
}

impl<V, const N: usize> From<[(String, V); N]> for Pairs<V> {
    fn from(pairs: [(String, V); N]) -> Pairs<V> {
        pairs.into_iter().collect()
    }
}

impl<'a, V> IntoIterator for &'a Pairs<V> {
    type Item = (&'a String, &'a V);
    type IntoIter = Iter<'a, V>;

    fn into_iter(self) -> Iter<'a, V> {
        self.0.iter().map(|(key, value)| (key, value))
    }
}

impl<V> IntoIterator for Pairs<V> {
    type Item = (String, V);
    type IntoIter = std::vec::IntoIter<(String, V)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<V: Serialize> Serialize for Pairs<V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self)
    }
}

impl<'de, V: Deserialize<'de>> Deserialize<'de> for Pairs<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Pairs<V>, D::Error> {
        struct Members<V>(PhantomData<V>);
        impl<'de, V: Deserialize<'de>> Visitor<'de> for Members<V> {
            type Value = Pairs<V>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs<V>, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(pairs.into_iter().collect())
            }
        }
        deserializer.deserialize_map(Members(PhantomData))
    }
}

generic_schema!(Pairs<V> => map_to::<V>());

#[cfg(test)]
mod tests {
    use super::*;
    use crate::karmada::work::v1alpha2::ResourceBinding;

    fn pairs(entries: &[(&str, i64)]) -> Pairs<i64> {
        entries.iter().map(|(key, value)| ((*key).to_owned(), *value)).collect()
    }

    #[test]
    fn pairs_are_sorted_and_the_last_of_equal_keys_counts() {
        let pairs = pairs(&[("b", 1), ("a", 2), ("b", 3)]);
        assert_eq!(serde_json::to_string(&pairs).unwrap(), r#"{"a":2,"b":3}"#);
        assert_eq!((pairs.get("b"), pairs.get("c"), pairs.len()), (Some(&3), None, 2));
    }

    #[test]
    fn pairs_keep_their_order_when_they_change() {
        let mut changed = pairs(&[("b", 1)]);
        assert_eq!((changed.insert("a".to_owned(), 2), changed.insert("b".to_owned(), 3)), (None, Some(1)));
        assert_eq!(changed, pairs(&[("a", 2), ("b", 3)]));
        assert_eq!((changed.remove("a"), changed.remove("a")), (Some(2), None));
    }

    #[test]
    fn reading_leaves_no_spare_room() {
        let written = pairs(&[("a", 1), ("b", 2), ("c", 3)]);
        let read: Pairs<i64> = serde_json::from_str(r#"{"c":3,"a":1,"b":2}"#).unwrap();
        assert_eq!((read.0.capacity(), read), (3, written));
    }

    /// Bounds the size of a typed binding: 100,000 of them must leave most of 600 MB free.
    #[test]
    fn a_binding_stays_small() {
        assert!(size_of::<ResourceBinding>() <= 768, "{} bytes", size_of::<ResourceBinding>());
    }
}
