//! Translates Karmada's API objects for the engine.
//!
//! The translation cannot fail. Malformed parts are omitted and reported. A cluster loses an
//! invalid resource or taint, and keeps the rest. A binding with a fault is decided, with that
//! fault as the reason.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use ballast_api::Pairs;
use ballast_api::core::{NodeSelectorRequirement, Quantity as WireQuantity};
use ballast_api::karmada::cluster::v1alpha1 as cluster_api;
use ballast_api::karmada::policy::v1alpha1 as policy_api;
use ballast_api::karmada::work::v1alpha2 as work_api;
use ballast_api::meta::ObjectMeta;
use ballast_engine::karmada::{
    Affinity, AffinityTerm, Clause, Cluster, ClusterBound, ClusterCapacity, Component, Division, Field,
    FieldRequirement, Grade, Placement, Request, Requirements, Resource, Share, Shared, SpreadBy, SpreadConstraint,
    Target, TargetComponent, Weight, WorkloadGroups,
};
use ballast_k8s::selector::Operator;
use ballast_k8s::taint::Effect;
use ballast_k8s::{Quantity, Requirement, Selector, Taint, Toleration};

/// The annotation with the placement that the binding's targets were computed from, as JSON.
pub const APPLIED_PLACEMENT: &str = "policy.karmada.io/applied-placement";

/// Labels of bindings that were created by a policy or for another binding.
const MANAGED_LABELS: [&str; 3] = [
    "propagationpolicy.karmada.io/permanent-id",
    "clusterpropagationpolicy.karmada.io/permanent-id",
    "binding.karmada.io/managed-by",
];

/// An invalid part of an object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {why}")]
pub struct Fault {
    pub field: String,
    pub why: String,
}

/// Translates a cluster, and returns the faults of omitted parts.
pub fn cluster(cluster: &cluster_api::Cluster) -> (Cluster, Vec<Fault>) {
    let mut faults = Vec::new();
    let labels = cluster.metadata.labels.iter().map(|(key, value)| (key.as_str().into(), value.as_str().into()));
    let apis = cluster.status.api_enablements.iter().flat_map(|enablement| {
        let group_version: &str = &enablement.group_version;
        enablement.resources.iter().map(move |resource| (group_version.into(), resource.kind.as_str().into()))
    });
    let converted = Cluster {
        name: name(&cluster.metadata).into(),
        deleting: cluster.metadata.deletion_timestamp.is_some(),
        labels: labels.collect(),
        provider: cluster.spec.provider.as_deref().unwrap_or_default().into(),
        region: cluster.spec.region.as_deref().unwrap_or_default().into(),
        zones: cluster.spec.zones.iter().map(|zone| zone.as_str().into()).collect(),
        taints: cluster.spec.taints.iter().map(taint).collect(),
        apis: apis.collect(),
        capacity: cluster.status.resource_summary.as_ref().map(|summary| capacity(&cluster.spec, summary, &mut faults)),
    };
    (converted, faults)
}

fn taint(taint: &ballast_api::core::Taint) -> Taint {
    use ballast_api::core::TaintEffect;
    Taint {
        key: taint.key.as_str().into(),
        value: taint.value.as_deref().unwrap_or_default().into(),
        effect: match taint.effect {
            TaintEffect::NoExecute => Effect::NoExecute,
            TaintEffect::NoSchedule => Effect::NoSchedule,
            TaintEffect::PreferNoSchedule => Effect::PreferNoSchedule,
        },
    }
}

/// Returns the resources that the cluster's summary counts as used, sorted by name: allocated plus
/// allocating.
pub fn allocated(cluster: &cluster_api::Cluster) -> Box<[(Box<str>, Quantity)]> {
    let Some(summary) = &cluster.status.resource_summary else { return Box::default() };
    let mut taken: BTreeMap<&str, Quantity> = BTreeMap::new();
    for (name, amount) in summary.allocated.iter().chain(summary.allocating.iter()) {
        let sum = taken.entry(name).or_default();
        *sum = sum.plus(amount.text().parse().unwrap_or_default());
    }
    taken.into_iter().map(|(name, amount)| (name.into(), amount)).collect()
}

/// Returns allocatable minus allocated and allocating. A resource with a malformed amount is
/// omitted, because no replica may use a cluster with unknown capacity.
fn capacity(
    spec: &cluster_api::ClusterSpec,
    summary: &cluster_api::ResourceSummary,
    faults: &mut Vec<Fault>,
) -> ClusterCapacity {
    let mut free = Vec::with_capacity(summary.allocatable.len());
    let mut pods = 0;
    for (name, allocatable) in &summary.allocatable {
        let field = |list: &str| format!("status.resourceSummary.{list}[{name}]");
        let taken = |list: &'static str, amounts: &Pairs<WireQuantity>| match amounts.get(name) {
            Some(amount) => quantity(amount, || field(list)),
            None => Ok(Quantity::ZERO),
        };
        let amounts = quantity(allocatable, || field("allocatable")).and_then(|allocatable| {
            let allocated = taken("allocated", &summary.allocated)?;
            Ok((allocatable, allocated, taken("allocating", &summary.allocating)?))
        });
        match amounts {
            Ok((allocatable, allocated, allocating)) if name == "pods" => {
                pods = allocatable.units().saturating_sub(allocated.units()).saturating_sub(allocating.units()).max(0);
                free.push((name.as_str().into(), Quantity::from_units(pods)));
            }
            Ok((allocatable, allocated, allocating)) => {
                free.push((name.as_str().into(), allocatable.minus(allocated).minus(allocating)));
            }
            Err(fault) => faults.push(fault),
        }
    }
    ClusterCapacity { pods, free: free.into(), grades: grades(spec, summary, faults) }
}

/// Returns the nodes by grade, in ascending order. `None`: there are no valid models, and only the
/// sums are used.
fn grades(
    spec: &cluster_api::ClusterSpec,
    summary: &cluster_api::ResourceSummary,
    faults: &mut Vec<Fault>,
) -> Option<Box<[Grade]>> {
    if summary.allocatable_modelings.is_empty() || spec.resource_models.is_empty() {
        return None;
    }
    let mut counts: BTreeMap<i32, u64> = BTreeMap::new();
    for modeling in &summary.allocatable_modelings {
        let Ok(count) = u64::try_from(modeling.count) else {
            let field = format!("status.resourceSummary.allocatableModelings[grade={}].count", modeling.grade);
            faults.push(Fault { field, why: "is negative".to_owned() });
            return None;
        };
        *counts.entry(modeling.grade).or_default() += count;
    }
    let mut grades: BTreeMap<i32, Grade> = BTreeMap::new();
    for model in &spec.resource_models {
        let mut capacity = Vec::with_capacity(model.ranges.len());
        for range in &model.ranges {
            let field = || format!("spec.resourceModels[grade={}].ranges[{}].min", model.grade, range.name);
            match quantity(&range.min, field) {
                Ok(min) => capacity.push((range.name.as_str().into(), min)),
                Err(fault) => faults.push(fault),
            }
        }
        capacity.sort_by(|a: &(Box<str>, Quantity), b| a.0.cmp(&b.0));
        let nodes = counts.get(&model.grade).copied().unwrap_or_default();
        grades.insert(model.grade, Grade::new(nodes, capacity.into()));
    }
    Some(grades.into_values().filter(|grade| grade.nodes > 0).collect())
}

fn quantity(quantity: &WireQuantity, field: impl FnOnce() -> String) -> Result<Quantity, Fault> {
    quantity
        .text()
        .parse()
        .map_err(|malformed: ballast_k8s::quantity::Malformed| Fault { field: field(), why: malformed.to_string() })
}

pub fn resource_binding(binding: &work_api::ResourceBinding) -> Request {
    request(&binding.metadata, &binding.spec, &binding.status)
}

pub fn cluster_resource_binding(binding: &work_api::ClusterResourceBinding) -> Request {
    request(&binding.metadata, &binding.spec, &binding.status)
}

/// Translates a binding of either kind; both share spec and status.
pub fn request(
    metadata: &ObjectMeta,
    spec: &work_api::ResourceBindingSpec,
    status: &work_api::ResourceBindingStatus,
) -> Request {
    request_with(metadata, spec, status, None)
}

/// Translates like `request`, and faster if the caller has the text of `spec.placement`.
pub fn request_with(
    metadata: &ObjectMeta,
    spec: &work_api::ResourceBindingSpec,
    status: &work_api::ResourceBindingStatus,
    written: Option<&str>,
) -> Request {
    let mut faults = Vec::new();
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    let observed_term = status.scheduler_observed_affinity_name.as_deref().unwrap_or_default();
    let applied = metadata.annotations.get(APPLIED_PLACEMENT).map(String::as_str).unwrap_or_default();
    let requirements = spec.replica_requirements.as_deref().map(|requirements| {
        let amounts = &requirements.resource_request;
        Shared::new(needs(amounts, "spec.replicaRequirements.resourceRequest", &mut faults))
    });
    let components = spec.components.iter().map(|component| component_of(component, &mut faults)).collect();
    let groups = spec.workload_affinity_groups.as_deref();
    Request {
        namespace: namespace.into(),
        name: name(metadata).into(),
        generation: metadata.generation.unwrap_or_default(),
        deleting: metadata.deletion_timestamp.is_some(),
        managed: MANAGED_LABELS.iter().any(|label| metadata.labels.contains_key(label)),
        scheduler_name: spec.scheduler_name.as_deref().unwrap_or_default().into(),
        // A binding that names a workload of another namespace is not scheduled (WH7).
        suspended: spec.suspension.as_deref().and_then(|suspension| suspension.scheduling).unwrap_or_default()
            || spec.resource.is_elsewhere(namespace),
        resource: resource(&spec.resource, namespace),
        placement: spec.placement.as_deref().map(|wanted| Shared::new(placement(wanted))),
        placement_changed: spec
            .placement
            .as_deref()
            .is_some_and(|wanted| written != Some(applied) && placement_changed(wanted, applied, observed_term)),
        never_applied: applied.is_empty(),
        replicas: spec.replicas.unwrap_or_default(),
        requirements,
        components,
        targets: targets(&spec.clusters),
        outstayed: Vec::new(),
        paused: paused(spec),
        leaving: leaving(spec),
        evicting: spec.graceful_eviction_tasks.iter().map(|task| task.from_cluster.as_str().into()).collect(),
        force: spec.force_rescheduling.unwrap_or_default(),
        triggered_at: spec.reschedule_triggered_at,
        pass_pending: metadata.annotations.contains_key(work_api::PENDING_PASS),
        last_scheduled_at: status.last_scheduled_time,
        observed_term: observed_term.into(),
        priority: spec.schedule_priority.as_ref().and_then(|priority| priority.priority).unwrap_or_default(),
        groups: WorkloadGroups {
            affinity: groups.and_then(|groups| groups.affinity_group.as_deref()).unwrap_or_default().into(),
            anti_affinity: groups.and_then(|groups| groups.anti_affinity_group.as_deref()).unwrap_or_default().into(),
        },
        questions: None,
        fault: faults.first().map(|fault| fault.to_string().into()),
    }
}

/// Returns the replicas on clusters that the binding leaves. A task that a user wrote may omit the
/// number.
fn leaving(spec: &work_api::ResourceBindingSpec) -> Vec<Target> {
    let mut leaving: Vec<Target> = Vec::new();
    for task in &spec.graceful_eviction_tasks {
        let is_known = spec.clusters.iter().any(|target| target.name == task.from_cluster)
            || leaving.iter().any(|target| *target.name == *task.from_cluster);
        if !is_known {
            let replicas = task.replicas.unwrap_or_default().max(0);
            leaving.push(Target { name: task.from_cluster.as_str().into(), replicas, components: Vec::new() });
        }
    }
    leaving
}

/// Returns the clusters with suspended dispatching, if it is not suspended for all.
fn paused(spec: &work_api::ResourceBindingSpec) -> Vec<Box<str>> {
    let clusters = spec.suspension.as_deref().and_then(|suspension| suspension.dispatching_on_clusters.as_ref());
    clusters.iter().flat_map(|clusters| &clusters.cluster_names).map(|name| name.as_str().into()).collect()
}

fn name(metadata: &ObjectMeta) -> &str {
    metadata.name.as_deref().unwrap_or_default()
}

/// Translates the reference; the workload is in the binding's namespace.
fn resource(reference: &work_api::ObjectReference, namespace: &str) -> Resource {
    Resource {
        api_version: reference.api_version.as_str().into(),
        kind: reference.kind.as_str().into(),
        namespace: namespace.into(),
        name: reference.name.as_str().into(),
        uid: reference.uid.as_deref().unwrap_or_default().into(),
    }
}

fn needs(amounts: &Pairs<WireQuantity>, field: &str, faults: &mut Vec<Fault>) -> Requirements {
    let mut needed = Vec::with_capacity(amounts.len());
    for (name, amount) in amounts {
        match quantity(amount, || format!("{field}[{name}]")) {
            // A requirement of zero or less is omitted.
            Ok(amount) if amount > Quantity::ZERO => needed.push((name.as_str().into(), amount)),
            Ok(_) => {}
            Err(fault) => faults.push(fault),
        }
    }
    Requirements { amounts: needed.into() }
}

/// Translates the requirements without invalid amounts.
pub fn requirements(requirements: &work_api::ReplicaRequirements) -> Requirements {
    needs(&requirements.resource_request, "", &mut Vec::new())
}

/// Translates the component without invalid amounts.
pub fn component(component: &work_api::Component) -> Component {
    component_of(component, &mut Vec::new())
}

fn component_of(component: &work_api::Component, faults: &mut Vec<Fault>) -> Component {
    let field = || format!("spec.components[{}].replicaRequirements.resourceRequest", component.name);
    let requirements = component.replica_requirements.as_ref();
    Component {
        name: component.name.as_str().into(),
        replicas: component.replicas,
        requirements: requirements.map(|requirements| needs(&requirements.resource_request, &field(), faults)),
    }
}

/// Up to this many targets, a linear search is used, which needs no memory. Nearly all bindings
/// have fewer.
const SEARCHED_TARGETS_MAX: usize = 32;

/// Returns one target for each cluster. Replicas of a cluster that is listed twice add up; negative
/// ones count as zero.
pub fn targets(clusters: &[work_api::TargetCluster]) -> Vec<Target> {
    let mut targets: Vec<Target> = Vec::with_capacity(clusters.len());
    // A client may list tens of thousands of clusters, so a linear search would take quadratic
    // time.
    let mut positions = HashMap::new();
    for cluster in clusters {
        let replicas = cluster.replicas.unwrap_or_default().max(0);
        let known = match clusters.len() <= SEARCHED_TARGETS_MAX {
            true => targets.iter().position(|known| *known.name == *cluster.name),
            false => match positions.entry(&*cluster.name) {
                Entry::Occupied(known) => Some(*known.get()),
                Entry::Vacant(new) => {
                    new.insert(targets.len());
                    None
                }
            },
        };
        if let Some(known) = known {
            let known = &mut targets[known];
            known.replicas = known.replicas.saturating_add(replicas);
            continue;
        }
        let components = cluster
            .components
            .iter()
            .map(|component| TargetComponent { name: component.name.as_str().into(), replicas: component.replicas });
        targets.push(Target { name: Arc::from(&*cluster.name), replicas, components: components.collect() });
    }
    targets
}

/// Returns whether the placement requires a new decision. An invalid annotation does not. With
/// several affinity groups, only the observed one counts.
fn placement_changed(wanted: &policy_api::Placement, applied: &str, observed_term: &str) -> bool {
    if applied.is_empty() {
        return true;
    }
    let Ok(applied) = serde_json::from_str::<policy_api::Placement>(applied) else { return false };
    if applied == *wanted {
        return false;
    }
    if applied.cluster_affinity != wanted.cluster_affinity
        || applied.cluster_tolerations != wanted.cluster_tolerations
        || applied.spread_constraints != wanted.spread_constraints
        || applied.replica_scheduling != wanted.replica_scheduling
    {
        return true;
    }
    let observed = |placement: &'_ policy_api::Placement| {
        placement.cluster_affinities.iter().find(|term| term.affinity_name == observed_term).cloned()
    };
    observed_term.is_empty() || observed(wanted).is_none() || observed(wanted) != observed(&applied)
}

pub fn placement(placement: &policy_api::Placement) -> Placement {
    let terms = placement.cluster_affinities.iter().map(|term| AffinityTerm {
        name: term.affinity_name.as_str().into(),
        affinity: affinity(&term.affinity),
        overflow: term.overflow_affinities.iter().map(|tier| affinity(&tier.affinity)).collect(),
    });
    let strategy = placement.replica_scheduling.as_ref();
    let is_wish = |constraint: &policy_api::SpreadConstraint| {
        constraint.when_unsatisfiable == Some(policy_api::WhenSpreadUnsatisfiable::ScheduleAnyway)
    };
    let constraints =
        |wishes: bool| placement.spread_constraints.iter().filter(move |constraint| is_wish(constraint) == wishes);
    Placement {
        affinity: placement.cluster_affinity.as_ref().map(affinity),
        terms: terms.collect(),
        tolerations: placement.cluster_tolerations.iter().map(toleration).collect(),
        spread: constraints(false).filter_map(spread).collect(),
        wishes: constraints(true).filter_map(spread).collect(),
        division: strategy.map_or(Division::Duplicated, division),
        bounds: strategy.iter().flat_map(|strategy| &strategy.cluster_bounds).map(bound).collect(),
        what_fits: strategy.and_then(|strategy| strategy.when_unsatisfiable)
            == Some(policy_api::WhenReplicasUnsatisfiable::ScheduleWhatFits),
    }
}

fn bound(bounds: &policy_api::ClusterBounds) -> ClusterBound {
    let (min, max) = (bounds.min_replicas.unwrap_or(0), bounds.max_replicas.unwrap_or(i64::MAX));
    ClusterBound { target: affinity(&bounds.target_cluster), min: min.max(0), max: max.max(0) }
}

fn toleration(toleration: &ballast_api::core::Toleration) -> Toleration {
    let text = |field: &'_ Option<String>| field.clone().unwrap_or_default();
    Toleration::from_parts(
        &text(&toleration.key),
        &text(&toleration.operator),
        &text(&toleration.value),
        &text(&toleration.effect),
        toleration.toleration_seconds,
    )
}

fn spread(constraint: &policy_api::SpreadConstraint) -> Option<SpreadConstraint> {
    use policy_api::SpreadField;
    let label = constraint.spread_by_label.as_deref().filter(|label| !label.is_empty());
    let by = match (constraint.spread_by_field, label) {
        (Some(SpreadField::Cluster), _) => SpreadBy::Cluster,
        (Some(SpreadField::Region), _) => SpreadBy::Region,
        (Some(SpreadField::Zone), _) => SpreadBy::Zone,
        (Some(SpreadField::Provider), _) => SpreadBy::Provider,
        (None, Some(label)) => SpreadBy::Label(label.into()),
        (None, None) => return None,
    };
    Some(SpreadConstraint {
        by,
        min: constraint.min_groups.unwrap_or_default(),
        max: constraint.max_groups.unwrap_or_default(),
    })
}

fn division(strategy: &policy_api::ReplicaSchedulingStrategy) -> Division {
    use policy_api::{ReplicaDivisionPreference as Preference, ReplicaSchedulingType as Type};
    let scheduling_type = strategy.replica_scheduling_type.unwrap_or(Type::Divided);
    match (scheduling_type, strategy.replica_division_preference) {
        (Type::Duplicated, _) => Division::Duplicated,
        (Type::Divided, Some(Preference::Aggregated)) => Division::Aggregated,
        (Type::Divided, Some(Preference::Weighted)) => match &strategy.weight_preference {
            Some(weights) if weights.dynamic_weight.is_some() => Division::Dynamic,
            Some(weights) => Division::Static(Some(weights.static_weight_list.iter().map(weight).collect())),
            None => Division::Static(None),
        },
        (Type::Divided, Some(Preference::Specified)) => {
            let list = strategy.specify_preference.as_deref().map(|preference| &*preference.static_specify_list);
            let regions = strategy.extend_replica_division_preference.as_deref() == Some(policy_api::REGIONS);
            match list.filter(|list| !list.is_empty()) {
                Some(list) => Division::Specified(Some(list.iter().map(share).collect())),
                None if regions => Division::Together(listed(strategy)),
                None => Division::Specified(None),
            }
        }
        // An unknown strategy belongs to another scheduler (R152). Known ones were defaulted on
        // admission.
        (Type::Divided, None) => Division::Unsupported {
            scheduling_type: "Divided".into(),
            preference: strategy.extend_replica_division_preference.clone().unwrap_or_default(),
        },
    }
}

fn listed(strategy: &policy_api::ReplicaSchedulingStrategy) -> Vec<Affinity> {
    let list = strategy.extend_cluster_preferences.iter().flat_map(|preferences| &preferences.extend_static_list);
    list.map(|entry| affinity(&entry.target_cluster)).collect()
}

fn share(entry: &policy_api::StaticClusterSpecified) -> Share {
    Share { target: affinity(&entry.target_cluster), replicas: entry.replicas }
}

fn weight(weight: &policy_api::StaticClusterWeight) -> Weight {
    Weight { target: affinity(&weight.target_cluster), weight: weight.weight }
}

pub fn affinity(affinity: &policy_api::ClusterAffinity) -> Affinity {
    let labels = match &affinity.label_selector {
        None => Clause::Any,
        Some(selector) => {
            let labels = selector.match_labels.iter().map(|(key, value)| (key.as_str(), value.as_str()));
            let expressions = selector
                .match_expressions
                .iter()
                .map(|expression| (&*expression.key, &*expression.operator, &*expression.values));
            match Selector::from_parts(labels, expressions) {
                Ok(selector) => Clause::Where(selector),
                Err(malformed) => Clause::Malformed(malformed.to_string().into()),
            }
        }
    };
    let fields = match &affinity.field_selector {
        None => Clause::Any,
        Some(selector) => match selector.match_expressions.iter().map(field_requirement).collect() {
            Ok(requirements) => Clause::Where(requirements),
            Err(why) => Clause::Malformed(why),
        },
    };
    let names = |list: &[String]| list.iter().map(|name| name.as_str().into()).collect();
    Affinity { names: names(&affinity.cluster_names), exclude: names(&affinity.exclude_clusters), labels, fields }
}

fn field_requirement(expression: &NodeSelectorRequirement) -> Result<FieldRequirement, Box<str>> {
    let field = match &*expression.key {
        "provider" => Field::Provider,
        "region" => Field::Region,
        "zone" => Field::Zone,
        _ => Field::Unknown,
    };
    let operator = Operator::parse(&expression.operator)
        .ok_or_else(|| format!("{:?} is not a valid selector operator", expression.operator))?;
    let requirement =
        Requirement::new(&expression.key, operator, &expression.values).map_err(|malformed| malformed.to_string())?;
    Ok(FieldRequirement { field, requirement })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An algorithm with quadratic time would take minutes.
    #[test]
    fn few_and_very_many_targets_are_read_alike() {
        for count in [SEARCHED_TARGETS_MAX / 2, SEARCHED_TARGETS_MAX, 200_000] {
            let target = |number: usize| work_api::TargetCluster {
                name: format!("m{number}"),
                replicas: Some(1),
                ..work_api::TargetCluster::default()
            };
            let listed: Vec<_> = (0..count).chain([1, 1]).map(target).collect();
            let read = targets(&listed);
            assert_eq!(read.len(), count);
            let told = |number: usize| (&*read[number].name, read[number].replicas);
            assert_eq!((told(0), told(1), told(2)), (("m0", 1), ("m1", 3), ("m2", 1)), "{count}");
        }
    }
}
