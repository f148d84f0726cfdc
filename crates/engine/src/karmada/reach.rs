//! Finds the placements that can choose a given cluster, without trying each placement.
//!
//! An affinity is indexed by an anchor: a name, a label or a topology domain that every selected
//! cluster has. Without one, the anchor is `Anything`. A look-up visits the anchors of the cluster,
//! and tries only the placements there. So the index may visit too many placements, but never too
//! few.

use std::collections::{BTreeSet, HashMap};

use super::affinity::{Affinity, Clause, Field};
use super::cluster::Cluster;
use super::placement::Placement;
use super::request::Shared;
use ballast_k8s::selector::Operator;

/// An index of placements by the clusters that they can choose.
#[derive(Debug, Default)]
pub struct Reach {
    placements: HashMap<u32, Shared<Placement>>,
    filed: HashMap<Anchor, BTreeSet<u32>>,
}

/// An attribute of a cluster.
#[derive(Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Anchor {
    Anything,
    Name(Box<str>),
    /// A label with any value.
    LabelKey(Box<str>),
    Label(Box<str>, Box<str>),
    Provider(Box<str>),
    Region(Box<str>),
    Zone(Box<str>),
}

impl Reach {
    /// Adds a placement under a number that the caller chooses. The number must be free.
    pub fn insert(&mut self, number: u32, placement: Shared<Placement>) {
        for anchor in anchors(&placement) {
            self.filed.entry(anchor).or_default().insert(number);
        }
        self.placements.insert(number, placement);
    }

    pub fn remove(&mut self, number: u32) {
        let Some(placement) = self.placements.remove(&number) else { return };
        for anchor in anchors(&placement) {
            let Some(numbers) = self.filed.get_mut(&anchor) else { continue };
            numbers.remove(&number);
            if numbers.is_empty() {
                self.filed.remove(&anchor);
            }
        }
    }

    pub fn find(&self, number: u32) -> Option<&Shared<Placement>> {
        self.placements.get(&number)
    }

    /// Returns the numbers of the placements that can choose the cluster in its present state.
    pub fn choosing(&self, cluster: &Cluster) -> BTreeSet<u32> {
        let label = |(key, value): &(Box<str>, Box<str>)| {
            [Anchor::LabelKey(key.clone()), Anchor::Label(key.clone(), value.clone())]
        };
        let places = [Anchor::Provider(cluster.provider.clone()), Anchor::Region(cluster.region.clone())];
        [Anchor::Anything, Anchor::Name((&*cluster.name).into())]
            .into_iter()
            .chain(cluster.labels.iter().flat_map(label))
            .chain(places)
            .chain(cluster.zones.iter().cloned().map(Anchor::Zone))
            .filter_map(|anchor| self.filed.get(&anchor))
            .flatten()
            .copied()
            .filter(|number| self.placements[number].can_choose(cluster))
            .collect()
    }
}

fn anchors(placement: &Placement) -> BTreeSet<Anchor> {
    match placement.affinities() {
        None => BTreeSet::from([Anchor::Anything]),
        Some(affinities) => affinities.flat_map(anchors_of).collect(),
    }
}

/// Returns anchors such that every selected cluster has at least one of them.
fn anchors_of(affinity: &Affinity) -> Vec<Anchor> {
    if affinity.fault().is_some() {
        return Vec::new();
    }
    if !affinity.names.is_empty() {
        return affinity.names.iter().cloned().map(Anchor::Name).collect();
    }
    let labels = match &affinity.labels {
        Clause::Where(selector) => selector.requirements(),
        _ => &[],
    };
    if let Some(listed) = labels.iter().find(|requirement| requirement.operator() == Operator::In) {
        return listed.values().iter().map(|value| Anchor::Label(listed.key().into(), value.clone())).collect();
    }
    let needs_key = |operator| matches!(operator, Operator::Exists | Operator::Gt | Operator::Lt);
    if let Some(present) = labels.iter().find(|requirement| needs_key(requirement.operator())) {
        return vec![Anchor::LabelKey(present.key().into())];
    }
    let fields = match &affinity.fields {
        Clause::Where(requirements) => &requirements[..],
        _ => &[],
    };
    if let Some(listed) = fields.iter().find(|field| field.requirement.operator() == Operator::In) {
        let anchor: fn(Box<str>) -> Anchor = match listed.field {
            Field::Provider => Anchor::Provider,
            Field::Region => Anchor::Region,
            Field::Zone => Anchor::Zone,
            Field::Unknown => return Vec::new(),
        };
        return listed.requirement.values().iter().cloned().map(anchor).collect();
    }
    vec![Anchor::Anything]
}
