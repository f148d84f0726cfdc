//! Cluster affinity: selects clusters by name, label, provider, region and zone.
//!
//! A selector that is malformed selects no cluster, and keeps the reason for error messages.
//! `select` evaluates all clusters at once, `matches` a single cluster. The two always agree.

use super::cluster::Cluster;
use super::cluster_set::{ClusterSet, ValueIndex};
use crate::bits::Bits;
use ballast_k8s::selector::Operator;
use ballast_k8s::{Requirement, Selector};

/// A cluster affinity. It selects the clusters for which all parts hold. An empty affinity selects
/// every cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Affinity {
    /// The names to select. Empty selects any name.
    pub names: Vec<Box<str>>,
    pub exclude: Vec<Box<str>>,
    pub labels: Clause<Selector>,
    pub fields: Clause<Vec<FieldRequirement>>,
}

/// One part of an affinity.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Clause<T> {
    #[default]
    Any,
    Where(T),
    /// Selects no cluster, for this reason.
    Malformed(Box<str>),
}

/// A requirement on a field of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FieldRequirement {
    pub field: Field,
    pub requirement: Requirement,
}

/// The cluster fields that a selector can match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Field {
    Provider,
    Region,
    /// A cluster can be in several zones. One of them is enough for `In`, and rules out `NotIn`.
    Zone,
    /// A key that is not a cluster field. It is absent from every cluster.
    Unknown,
}

impl Affinity {
    /// Returns whether the affinity selects the cluster. A cluster that is being deleted can match.
    pub fn matches(&self, cluster: &Cluster) -> bool {
        let listed = |list: &[Box<str>]| list.iter().any(|name| **name == *cluster.name);
        if listed(&self.exclude) || !(self.names.is_empty() || listed(&self.names)) {
            return false;
        }
        let labels = match &self.labels {
            Clause::Any => true,
            Clause::Where(selector) => selector.matches(&*cluster.labels),
            Clause::Malformed(_) => false,
        };
        labels
            && match &self.fields {
                Clause::Any => true,
                Clause::Where(requirements) => requirements.iter().all(|requirement| requirement.accepts(cluster)),
                Clause::Malformed(_) => false,
            }
    }

    /// Describes the first part of the affinity that the cluster does not satisfy: `wants
    /// region=us-east, has eu-west`. `None` if the affinity selects the cluster.
    pub fn mismatch(&self, cluster: &Cluster) -> Option<String> {
        let listed = |list: &[Box<str>]| list.iter().any(|name| **name == *cluster.name);
        if listed(&self.exclude) {
            return Some("the placement excludes it".to_owned());
        }
        if !(self.names.is_empty() || listed(&self.names)) {
            return Some(format!("wants {}", one_of(&self.names)));
        }
        if let Some(fault) = self.fault() {
            return Some(fault.to_owned());
        }
        if let Clause::Where(selector) = &self.labels {
            let value = |key: &str| cluster.label(key);
            let refusing = selector.requirements().iter().find(|it| !it.accepts(value(it.key())));
            if let Some(requirement) = refusing {
                return Some(wants(requirement, value(requirement.key()).unwrap_or_default()));
            }
        }
        let Clause::Where(requirements) = &self.fields else { return None };
        let refusing = requirements.iter().find(|requirement| !requirement.accepts(cluster))?;
        let has = match refusing.field {
            Field::Provider => cluster.provider.to_string(),
            Field::Region => cluster.region.to_string(),
            Field::Zone => cluster.zones.join(" and "),
            Field::Unknown => String::new(),
        };
        Some(wants(&refusing.requirement, &has))
    }

    /// Returns the reason why the affinity selects no cluster, if a part of it is malformed.
    pub fn fault(&self) -> Option<&str> {
        match (&self.labels, &self.fields) {
            (Clause::Malformed(why), _) | (_, Clause::Malformed(why)) => Some(why),
            _ => None,
        }
    }

    /// Returns the clusters that this affinity selects, without clusters that are being deleted.
    pub(super) fn select(&self, fleet: &ClusterSet) -> Bits {
        let attributes = fleet.attributes();
        let mut selected = if self.names.is_empty() {
            attributes.live.clone()
        } else {
            let mut named: Bits = self.names.iter().filter_map(|name| fleet.index_of(name)).collect();
            named.intersect_with(&attributes.live);
            named
        };
        for index in self.exclude.iter().filter_map(|name| fleet.index_of(name)) {
            selected.remove(index);
        }
        match &self.labels {
            Clause::Any => {}
            Clause::Where(selector) => {
                for requirement in selector.requirements() {
                    narrow(&mut selected, requirement, attributes.labels.get(requirement.key()));
                }
            }
            Clause::Malformed(_) => selected.clear(),
        }
        match &self.fields {
            Clause::Any => {}
            Clause::Where(requirements) => {
                for FieldRequirement { field, requirement } in requirements {
                    let values = match field {
                        Field::Provider => Some(&attributes.providers),
                        Field::Region => Some(&attributes.regions),
                        Field::Zone => Some(&attributes.zones),
                        Field::Unknown => None,
                    };
                    narrow(&mut selected, requirement, values);
                }
            }
            Clause::Malformed(_) => selected.clear(),
        }
        selected
    }
}

/// The most names of a list that a message contains. The rest is given as a number.
const NAMES_MAX: usize = 3;

fn one_of(names: &[Box<str>]) -> String {
    let shown: Vec<&str> = names.iter().take(NAMES_MAX).map(|name| &**name).collect();
    let more = names.len() - shown.len();
    let more = if more > 0 { format!(" or {more} more") } else { String::new() };
    format!("{}{more}", shown.join(" or "))
}

fn wants(requirement: &Requirement, has: &str) -> String {
    match has {
        "" => format!("wants {requirement}, has none"),
        has => format!("wants {requirement}, has {has}"),
    }
}

/// Removes the clusters that do not satisfy `requirement` from `selected`.
fn narrow(selected: &mut Bits, requirement: &Requirement, values: Option<&ValueIndex>) {
    let Some(values) = values else {
        // No cluster has the key.
        if !requirement.accepts(None) {
            selected.clear();
        }
        return;
    };
    let listed = || requirement.values().iter().filter_map(|value| values.by_value.get(value));
    match requirement.operator() {
        Operator::In => match requirement.values() {
            [value] => match values.by_value.get(value) {
                Some(indexes) => selected.intersect_with(indexes),
                None => selected.clear(),
            },
            _ => {
                let mut any = Bits::default();
                listed().for_each(|indexes| any.union_with(indexes));
                selected.intersect_with(&any);
            }
        },
        Operator::NotIn => listed().for_each(|indexes| selected.subtract(indexes)),
        Operator::Exists => selected.intersect_with(&values.any),
        Operator::DoesNotExist => selected.subtract(&values.any),
        Operator::Gt | Operator::Lt => {
            let mut any = Bits::default();
            // A union does not depend on the order of its parts.
            for (value, indexes) in &values.by_value {
                if requirement.accepts(Some(value)) {
                    any.union_with(indexes);
                }
            }
            selected.intersect_with(&any);
        }
    }
}

impl FieldRequirement {
    fn accepts(&self, cluster: &Cluster) -> bool {
        let known = |name: &'_ str| !name.is_empty();
        match self.field {
            Field::Unknown => self.requirement.accepts(None),
            Field::Provider => self.requirement.accepts(Some(&*cluster.provider).filter(|name| known(name))),
            Field::Region => self.requirement.accepts(Some(&*cluster.region).filter(|name| known(name))),
            Field::Zone => {
                let mut zones = cluster.zones.iter().filter(|name| known(name)).peekable();
                match self.requirement.operator() {
                    _ if zones.peek().is_none() => self.requirement.accepts(None),
                    Operator::NotIn => zones.all(|zone| self.requirement.accepts(Some(zone))),
                    _ => zones.any(|zone| self.requirement.accepts(Some(zone))),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ng7_a_mismatch_names_the_constraint_and_the_value() {
        let cluster = Cluster {
            name: "member2".into(),
            region: "eu-west".into(),
            labels: [("tier".into(), "test".into())].into(),
            deleting: false,
            provider: "".into(),
            zones: [].into(),
            taints: [].into(),
            apis: [].into(),
            capacity: None,
        };
        let wants = |key: &str, values: &[&str]| Requirement::new(key, Operator::In, values).unwrap();
        let labels = |requirement: Requirement| Affinity {
            labels: Clause::Where(Selector::new(vec![requirement])),
            ..Affinity::default()
        };
        let field = |field, key: &str, values: &[&str]| Affinity {
            fields: Clause::Where(vec![FieldRequirement { field, requirement: wants(key, values) }]),
            ..Affinity::default()
        };
        let names = |names: &[&str]| names.iter().map(|name| (*name).into()).collect();
        for (affinity, told) in [
            (Affinity::default(), None),
            (field(Field::Region, "region", &["eu-west", "asia"]), None),
            (field(Field::Region, "region", &["us-east"]), Some("wants region=us-east, has eu-west")),
            (field(Field::Zone, "zone", &["a", "b"]), Some("wants zone in (a,b), has none")),
            (labels(wants("tier", &["gold"])), Some("wants tier=gold, has test")),
            (labels(wants("env", &["prod"])), Some("wants env=prod, has none")),
            (Affinity { names: names(&["m1"]), ..Affinity::default() }, Some("wants m1")),
            (
                Affinity { names: names(&["m1", "m3", "m4", "m5", "m6"]), ..Affinity::default() },
                Some("wants m1 or m3 or m4 or 2 more"),
            ),
            (Affinity { exclude: names(&["member2"]), ..Affinity::default() }, Some("the placement excludes it")),
        ] {
            assert_eq!(affinity.mismatch(&cluster).as_deref(), told);
            assert_eq!(affinity.matches(&cluster), told.is_none());
        }
    }
}
