//! Required terms and preferences of a policy for labels and properties of clusters.
//!
//! A property is a resource figure (`resources.kubernetes-fleet.io/available-cpu`) or anything else
//! that the cluster reports by name. Both are quantities. Comparisons are exact, scores are
//! computed in float64.

use std::cmp::Ordering;

use super::cluster::Cluster;
use super::fault::Fault;
use super::property::ClusterProperty;
use ballast_k8s::{Quantity, Selector};

impl ClusterProperty {
    /// Returns the cluster's value of this property. None: the cluster does not report it.
    pub(super) fn observe(&self, cluster: &Cluster) -> Result<Option<Quantity>, Fault> {
        match cluster.find_property(self) {
            None => Ok(None),
            Some(Ok(quantity)) => Ok(Some(*quantity)),
            Some(Err(source)) => Err(Fault::Observed {
                property: self.name(),
                cluster: cluster.name.as_ref().into(),
                source: source.clone(),
            }),
        }
    }
}

/// How a property is compared with a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    Greater,
    GreaterOrEqual,
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
}

impl Comparison {
    pub fn parse(text: &str) -> Option<Comparison> {
        Some(match text {
            "Gt" => Comparison::Greater,
            "Ge" => Comparison::GreaterOrEqual,
            "Eq" => Comparison::Equal,
            "Ne" => Comparison::NotEqual,
            "Lt" => Comparison::Less,
            "Le" => Comparison::LessOrEqual,
            _ => return None,
        })
    }

    fn holds(self, ordering: Ordering) -> bool {
        match self {
            Comparison::Greater => ordering.is_gt(),
            Comparison::GreaterOrEqual => ordering.is_ge(),
            Comparison::Equal => ordering.is_eq(),
            Comparison::NotEqual => ordering.is_ne(),
            Comparison::Less => ordering.is_lt(),
            Comparison::LessOrEqual => ordering.is_le(),
        }
    }
}

/// One comparison of one property. A fault in it matters only for a cluster that has the property.
#[derive(Clone, Debug)]
pub struct PropertyRule {
    pub property: Result<ClusterProperty, Fault>,
    pub expected: Result<(Comparison, Quantity), Fault>,
}

impl PropertyRule {
    fn holds(&self, cluster: &Cluster) -> Result<bool, Fault> {
        let property = self.property.as_ref().map_err(Fault::clone)?;
        let Some(observed) = property.observe(cluster)? else { return Ok(false) };
        let (comparison, expected) = self.expected.as_ref().map_err(Fault::clone)?;
        Ok(comparison.holds(observed.cmp(expected)))
    }
}

/// Labels and properties that a cluster must have. All of them are required.
#[derive(Clone, Debug)]
pub struct AffinityTerm {
    pub labels: Result<Selector, Fault>,
    pub conditions: Vec<PropertyRule>,
}

impl AffinityTerm {
    pub(super) fn matches(&self, cluster: &Cluster) -> Result<bool, Fault> {
        if !self.labels.as_ref().map_err(Fault::clone)?.matches(&*cluster.labels) {
            return Ok(false);
        }
        for condition in &self.conditions {
            if !condition.holds(cluster)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Whether the smallest or the largest value is best.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The smallest value earns the whole weight.
    Ascending,
    /// The largest value earns the whole weight.
    Descending,
}

/// A preference for clusters. Matching clusters earn `weight`. With a sorter they earn a share of
/// it, by their position in the range of the property.
#[derive(Clone, Debug)]
pub struct Preference {
    pub weight: i32,
    pub labels: Result<Selector, Fault>,
    pub sorter: Option<Sorter>,
}

/// Sorts clusters by a property.
#[derive(Clone, Debug)]
pub struct Sorter {
    pub property: Result<ClusterProperty, Fault>,
    pub direction: Result<Direction, Fault>,
}

/// The smallest and the largest value of a property over all clusters, including ineligible ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    min: Quantity,
    max: Quantity,
}

impl Range {
    /// Computes the range. None: no cluster has the property.
    pub(super) fn over<'a>(
        property: &ClusterProperty,
        clusters: impl Iterator<Item = &'a Cluster>,
    ) -> Result<Option<Range>, Fault> {
        let mut range: Option<Range> = None;
        for cluster in clusters {
            let Some(value) = property.observe(cluster)? else { continue };
            range = Some(match range {
                None => Range { min: value, max: value },
                Some(known) => Range { min: known.min.min(value), max: known.max.max(value) },
            });
        }
        Ok(range)
    }

    /// Returns the share of `weight` that `value` earns. A range of one value earns nothing.
    ///
    /// The order of operations is upstream's, in float64. If an exact result would end in a half,
    /// upstream's may fall just below it (vector preferred-affinity-a-056).
    fn share(self, weight: i32, direction: Direction, value: Quantity) -> i32 {
        if self.min == self.max {
            return 0;
        }
        let min = approximate(self.min);
        let place = (approximate(value) - min) / (approximate(self.max) - min);
        let part = match direction {
            Direction::Ascending => 1.0 - place,
            Direction::Descending => place,
        };
        // Rounds half away from zero. The result is at most the weight, so it fits.
        (part * f64::from(weight)).round() as i32
    }
}

/// Converts the quantity to its shortest decimal mantissa times a power of ten, as upstream does.
fn approximate(quantity: Quantity) -> f64 {
    const POWERS: [f64; 10] = [1.0, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9];
    let (mut mantissa, mut digits) = (quantity.nanos(), POWERS.len() - 1);
    while digits > 0 && mantissa % 10 == 0 {
        mantissa /= 10;
        digits -= 1;
    }
    mantissa as f64 * POWERS[digits]
}

/// A preference, with the range of its property over all clusters.
pub(super) struct RankedPreference<'a> {
    preference: &'a Preference,
    range: Option<Range>,
}

impl<'a> RankedPreference<'a> {
    /// Prepares a preference for scoring. A preference of weight zero is skipped, so its faults do
    /// not matter.
    pub(super) fn rank<'c>(
        preference: &'a Preference,
        clusters: impl Iterator<Item = &'c Cluster>,
    ) -> Result<Option<RankedPreference<'a>>, Fault> {
        if preference.weight == 0 {
            return Ok(None);
        }
        let range = match &preference.sorter {
            Some(sorter) => Range::over(sorter.property.as_ref().map_err(Fault::clone)?, clusters)?,
            None => None,
        };
        Ok(Some(RankedPreference { preference, range }))
    }

    pub(super) fn score(&self, cluster: &Cluster) -> Result<i32, Fault> {
        let Preference { weight, labels, sorter } = self.preference;
        if !labels.as_ref().map_err(Fault::clone)?.matches(&*cluster.labels) {
            return Ok(0);
        }
        let Some(sorter) = sorter else { return Ok(*weight) };
        let property = sorter.property.as_ref().map_err(Fault::clone)?;
        let (Some(value), Some(range)) = (property.observe(cluster)?, self.range) else { return Ok(0) };
        let direction = *sorter.direction.as_ref().map_err(Fault::clone)?;
        Ok(range.share(*weight, direction, value))
    }
}
