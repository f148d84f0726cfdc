//! Translates placement policies for the engine.

use ballast_api::fleet::placement::v1beta1::{
    self as api, ClusterAffinity, ClusterSelectorTerm, PlacementPolicy, PlacementType, PreferredClusterSelector,
    PropertySelectorRequirement, UnsatisfiableConstraintAction,
};
use ballast_api::meta::LabelSelector;
use ballast_engine::fleet::{
    AffinityTerm, ClusterProperty, Comparison, Direction, Fault, Placement, Preference, PropertyRule, Requirements,
    Sorter, SpreadConstraint, WhenUnsatisfiable,
};
use ballast_k8s::{Selector, Toleration};

/// Translates a policy. An absent policy picks every cluster. `wanted` is the number of clusters
/// for PickN, which is stored outside the policy.
pub(super) fn placement(
    policy: Option<&PlacementPolicy>,
    wanted: Result<usize, Fault>,
    namespace: Option<&str>,
) -> Placement {
    let namespace = namespace.map(Into::into);
    let Some(policy) = policy else {
        return Placement::All(Requirements { namespace, ..Requirements::default() });
    };
    let affinity = policy.affinity.as_ref().and_then(|affinity| affinity.cluster_affinity.as_ref());
    let requirements = || Requirements {
        terms: affinity.map(required).unwrap_or_default(),
        tolerations: policy.tolerations.iter().map(toleration).collect(),
        namespace,
    };
    match policy.placement_type.unwrap_or_default() {
        PlacementType::PickAll => Placement::All(requirements()),
        PlacementType::PickN => Placement::Count {
            wanted,
            requirements: requirements(),
            preferences: affinity.map(preferred).unwrap_or_default(),
            constraints: policy.topology_spread_constraints.iter().map(spread_constraint).collect(),
        },
        PlacementType::PickFixed => {
            Placement::Fixed(policy.cluster_names.iter().map(|name| name.as_str().into()).collect())
        }
    }
}

fn required(affinity: &ClusterAffinity) -> Vec<AffinityTerm> {
    let selector = affinity.required.iter();
    selector.flat_map(|selector| &selector.cluster_selector_terms).map(term).collect()
}

fn term(term: &ClusterSelectorTerm) -> AffinityTerm {
    let conditions = term.property_selector.iter().flat_map(|selector| &selector.match_expressions);
    AffinityTerm { labels: labels(term.label_selector.as_ref()), conditions: conditions.map(condition).collect() }
}

fn condition(requirement: &PropertySelectorRequirement) -> PropertyRule {
    let PropertySelectorRequirement { name, operator, values } = requirement;
    let expected = || {
        let [value] = values.as_slice() else {
            return Err(Fault::Values(name.as_str().into(), values.len()));
        };
        let value = value.parse().map_err(|source| Fault::Expected { property: name.as_str().into(), source })?;
        let comparison = Comparison::parse(operator)
            .ok_or_else(|| Fault::Comparison(name.as_str().into(), operator.as_str().into()))?;
        Ok((comparison, value))
    };
    PropertyRule { property: ClusterProperty::parse(name), expected: expected() }
}

/// Translates preferences, which may have labels and an order, but no property selector.
fn preferred(affinity: &ClusterAffinity) -> Vec<Preference> {
    let preference = |preferred: &PreferredClusterSelector| Preference {
        weight: preferred.weight,
        labels: labels(preferred.preference.label_selector.as_ref()),
        sorter: preferred.preference.property_sorter.as_ref().map(sorter),
    };
    affinity.preferred.iter().map(preference).collect()
}

fn sorter(sorter: &api::PropertySorter) -> Sorter {
    let direction = match sorter.sort_order.as_str() {
        "Ascending" => Ok(Direction::Ascending),
        "Descending" => Ok(Direction::Descending),
        other => Err(Fault::SortOrder(sorter.name.as_str().into(), other.into())),
    };
    Sorter { property: ClusterProperty::parse(&sorter.name), direction }
}

/// Translates a selector. An absent selector selects every cluster.
fn labels(selector: Option<&LabelSelector>) -> Result<Selector, Fault> {
    let Some(selector) = selector else { return Ok(Selector::default()) };
    let labels = selector.match_labels.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    let expressions = selector
        .match_expressions
        .iter()
        .map(|requirement| (requirement.key.as_str(), requirement.operator.as_str(), requirement.values.as_slice()));
    Selector::from_parts(labels, expressions).map_err(Fault::Selector)
}

fn toleration(toleration: &api::Toleration) -> Toleration {
    let text = |field: &Option<String>| field.clone().unwrap_or_default();
    let api::Toleration { key, operator, value, effect } = toleration;
    Toleration::from_parts(&text(key), &text(operator), &text(value), &text(effect), None)
}

fn spread_constraint(constraint: &api::TopologySpreadConstraint) -> SpreadConstraint {
    SpreadConstraint {
        // The schema's default. Upstream's scheduler panics without it.
        max_skew: constraint.max_skew.unwrap_or(1),
        topology_key: constraint.topology_key.as_str().into(),
        when_unsatisfiable: match constraint.when_unsatisfiable.unwrap_or_default() {
            UnsatisfiableConstraintAction::DoNotSchedule => WhenUnsatisfiable::DoNotSchedule,
            UnsatisfiableConstraintAction::ScheduleAnyway => WhenUnsatisfiable::ScheduleAnyway,
        },
    }
}
