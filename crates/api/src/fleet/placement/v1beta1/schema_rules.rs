//! Rules across fields that upstream's CRDs express in CEL, with their paths and messages. Pure.
//!
//! The messages of the three rules on `NamespaceWithResourceSelectors` are Ballast's own, because
//! upstream's have not been recorded.

use super::placement::{PlacementSpec, ResourceSelectorTerm, SelectionScope, StatusReportingScope};
use super::policy::{PlacementPolicy, PlacementType, Toleration};
use super::strategy::{ReportBackStrategyType, RolloutStrategy, RolloutStrategyType};
use ballast_k8s::{FieldErrors, FieldPath};
use ballast_resource::Scope;

pub(super) fn placement(scope: Scope, spec: &PlacementSpec, old: Option<&PlacementSpec>) -> FieldErrors {
    let mut errors = FieldErrors::default();
    let at = FieldPath::new("spec");
    whole(spec, old, &at, &mut errors);
    if scope == Scope::Cluster {
        status_scope(spec, old, &at, &mut errors);
    }
    let has_both = |term: &ResourceSelectorTerm| has_name(term) && term.label_selector.is_some();
    if spec.resource_selectors.iter().any(has_both) {
        let rule = "name and labelSelector are mutually exclusive in a resource selector";
        errors.invalid(&at.child("resourceSelectors"), "array", rule);
    }
    if let Some(now) = &spec.policy {
        policy(now, old.and_then(|old| old.policy.as_ref()), &at.child("policy"), &mut errors);
    }
    strategy(&spec.strategy, old.map(|old| &old.strategy), &at.child("strategy"), &mut errors);
    errors
}

/// Checks that the spec of a snapshot is unchanged. Upstream documents this rule, but does not
/// enforce it.
pub(super) fn unchanged<S: PartialEq>(spec: &S, old: Option<&S>) -> FieldErrors {
    let mut errors = FieldErrors::default();
    if old.is_some_and(|old| old != spec) {
        errors.invalid(&FieldPath::new("spec"), "object", "The spec field is immutable");
    }
    errors
}

pub(super) fn tolerations(tolerations: &[Toleration], at: &FieldPath, errors: &mut FieldErrors) {
    let is_empty = |text: &Option<String>| text.as_deref().unwrap_or_default().is_empty();
    let exists = |toleration: &Toleration| toleration.operator.as_deref() == Some("Exists");
    if tolerations.iter().any(|toleration| exists(toleration) && !is_empty(&toleration.value)) {
        errors.invalid(at, "array", "value must be empty when operator is Exists");
    }
    if tolerations.iter().any(|toleration| !exists(toleration) && is_empty(&toleration.key)) {
        errors.invalid(at, "array", "operator must be Exists when key is empty");
    }
}

fn whole(spec: &PlacementSpec, old: Option<&PlacementSpec>, at: &FieldPath, errors: &mut FieldErrors) {
    let mut refuse = |rule: &str| errors.invalid(at, "object", rule);
    if old.is_some_and(|old| old.policy.is_some()) && spec.policy.is_none() {
        refuse("policy cannot be removed once set");
    }
    let is_namespace =
        |term: &&ResourceSelectorTerm| term.kind == "Namespace" && term.group.is_empty() && term.version == "v1";
    let namespaces: Vec<&ResourceSelectorTerm> = spec.resource_selectors.iter().filter(is_namespace).collect();
    let is_open =
        |term: &&&ResourceSelectorTerm| term.selection_scope == Some(SelectionScope::NamespaceWithResourceSelectors);
    let open: Vec<&&ResourceSelectorTerm> = namespaces.iter().filter(is_open).collect();
    if open.len() > 1 {
        refuse("only one namespace selector may have the selectionScope NamespaceWithResourceSelectors");
    }
    let by_name = open.iter().filter(|term| has_name(term) && term.label_selector.is_none()).count();
    if !open.is_empty() && by_name != 1 {
        refuse("a namespace selector with the selectionScope NamespaceWithResourceSelectors must select by name");
    }
    if !open.is_empty() && namespaces.len() != 1 {
        refuse(
            "a namespace selector with the selectionScope NamespaceWithResourceSelectors must be the only namespace \
             selector",
        );
    }
}

/// Checks `statusReportingScope`. KubeFleet has these rules for the cluster-scoped kind only.
fn status_scope(spec: &PlacementSpec, old: Option<&PlacementSpec>, at: &FieldPath, errors: &mut FieldErrors) {
    let mut refuse = |rule: &str| errors.invalid(at, "object", rule);
    let namespaces = spec.resource_selectors.iter().filter(|term| term.kind == "Namespace").count();
    if spec.status_reporting_scope == Some(StatusReportingScope::NamespaceAccessible) && namespaces != 1 {
        refuse(
            "when statusReportingScope is NamespaceAccessible, exactly one resourceSelector with kind 'Namespace' is \
             required",
        );
    }
    if let Some(scope) = old.and_then(|old| old.status_reporting_scope)
        && spec.status_reporting_scope != Some(scope)
    {
        refuse("statusReportingScope is immutable");
    }
}

fn has_name(term: &ResourceSelectorTerm) -> bool {
    term.name.as_ref().is_some_and(|name| !name.is_empty())
}

/// Checks a policy. Differs from KubeFleet (D39): an empty list counts as absent.
fn policy(policy: &PlacementPolicy, old: Option<&PlacementPolicy>, at: &FieldPath, errors: &mut FieldErrors) {
    let type_ = policy.placement_type.unwrap_or_default();
    let mut refuse = |rule: &str| errors.invalid(at, "object", rule);
    if old.is_some_and(|old| old.placement_type.unwrap_or_default() != type_) {
        refuse("placement type is immutable");
    }
    let (names, spread) = (!policy.cluster_names.is_empty(), !policy.topology_spread_constraints.is_empty());
    let number = policy.number_of_clusters.is_some();
    match type_ {
        PlacementType::PickFixed if policy.affinity.is_some() || number || spread || !policy.tolerations.is_empty() => {
            refuse(
                "affinity, numberOfClusters, topologySpreadConstraints, and tolerations cannot be set when \
                 placementType is PickFixed",
            );
        }
        PlacementType::PickAll if names || number || spread => {
            refuse(
                "clusterNames, numberOfClusters, and topologySpreadConstraints cannot be set when placementType is \
                 PickAll",
            );
        }
        PlacementType::PickN if names || !number => {
            refuse("clusterNames cannot be set and numberOfClusters must be set when placementType is PickN");
        }
        _ => {}
    }
    tolerations(&policy.tolerations, &at.child("tolerations"), errors);
}

fn strategy(strategy: &RolloutStrategy, old: Option<&RolloutStrategy>, at: &FieldPath, errors: &mut FieldErrors) {
    let is_external = |strategy: &RolloutStrategy| strategy.type_ == Some(RolloutStrategyType::External);
    if old.is_some_and(is_external) && !is_external(strategy) {
        let rule = "cannot change rollout strategy type from 'External' to other types";
        errors.invalid(&at.child("type"), "string", rule);
    }
    if let Some(report_back) = &strategy.report_back_strategy
        && report_back.type_ == ReportBackStrategyType::Mirror
        && report_back.destination.is_none()
    {
        let rule = "when reportBackStrategy.type is 'Mirror', a destination must be specified";
        errors.invalid(&at.child("reportBackStrategy"), "object", rule);
    }
}
