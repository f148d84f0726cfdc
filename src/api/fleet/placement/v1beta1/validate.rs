//! What a placement must keep to beyond its schema: upstream's rules across fields (CEL) and those of its webhook.
//!
//! Deliberately absent: whether a selected kind exists and is cluster-scoped, which only a cluster can say.

use super::placement::{PlacementSpec, ResourceSelectorTerm, SelectionScope, StatusReportingScope};
use super::policy::{
    Affinity, ClusterSelectorTerm, PlacementPolicy, PlacementType, PropertySelectorRequirement, Toleration,
};
use super::policy_snapshot::SchedulingPolicySnapshotSpec;
use super::strategy::{ApplyStrategyType, IntOrPercent, ReportBackStrategyType, RolloutStrategy, RolloutStrategyType};
use crate::api::meta::LabelSelector;
use crate::k8s::selector::{Selector, is_dns_subdomain, is_label_key, is_label_value};
use crate::k8s::{FieldErrors, FieldPath, Quantity};

/// Longest name of a placement and of a member cluster: names of namespaces are made from them.
const NAME_MAX: usize = 63;
const RESOURCE_PREFIX: &str = "resources.kubernetes-fleet.io/";

pub(super) fn placement(name: &str, spec: &PlacementSpec, old: Option<&PlacementSpec>) -> FieldErrors {
    let mut errors = FieldErrors::default();
    let at = FieldPath::new("spec");
    if name.len() > NAME_MAX {
        let path = FieldPath::new("metadata.name");
        errors.invalid(&path, name, format_args!("the name field cannot have length exceeding {NAME_MAX}"));
    }
    selectors(&spec.resource_selectors, &at.child("resourceSelectors"), &mut errors);
    reporting_scope(spec, &at, &mut errors);
    if let Some(policy) = &spec.policy {
        Checks { errors: &mut errors }.policy(policy, &at.child("policy"));
    }
    strategy(&spec.strategy, &at.child("strategy"), &mut errors);
    if let Some(old) = old {
        transition(spec, old, &at, &mut errors);
    }
    errors
}

/// A snapshot's policy is that of a placement, which was judged as a whole; what its own schema asks is asked here, too.
pub(super) fn policy_snapshot(spec: &SchedulingPolicySnapshotSpec) -> FieldErrors {
    let mut errors = FieldErrors::default();
    if let Some(policy) = &spec.policy {
        Checks { errors: &mut errors }.tolerations(&policy.tolerations, &FieldPath::new("spec.policy.tolerations"));
    }
    errors
}

/// What an update may not change.
fn transition(spec: &PlacementSpec, old: &PlacementSpec, at: &FieldPath, errors: &mut FieldErrors) {
    let type_of =
        |policy: Option<&PlacementPolicy>| policy.and_then(|policy| policy.placement_type).unwrap_or_default();
    if old.policy.is_some() && spec.policy.is_none() {
        errors.forbidden(&at.child("policy"), "policy cannot be removed once set");
    } else if type_of(spec.policy.as_ref()) != type_of(old.policy.as_ref()) {
        errors.forbidden(&at.child("policy").child("placementType"), "placement type is immutable");
    }
    let tolerations = |spec: &PlacementSpec| spec.policy.as_ref().map(|policy| policy.tolerations.clone());
    let now = tolerations(spec).unwrap_or_default();
    if tolerations(old).unwrap_or_default().iter().any(|toleration| !now.contains(toleration)) {
        let path = at.child("policy").child("tolerations");
        errors.forbidden(&path, "tolerations have been updated/deleted, only additions to tolerations are allowed");
    }
    if old.status_reporting_scope.is_some() && spec.status_reporting_scope != old.status_reporting_scope {
        errors.forbidden(&at.child("statusReportingScope"), "statusReportingScope is immutable");
    }
    let is_external = |strategy: &RolloutStrategy| strategy.type_ == Some(RolloutStrategyType::External);
    if is_external(&old.strategy) && !is_external(&spec.strategy) {
        let path = at.child("strategy").child("type");
        errors.forbidden(&path, "cannot change rollout strategy type from 'External' to other types");
    }
}

fn selectors(selectors: &[ResourceSelectorTerm], at: &FieldPath, errors: &mut FieldErrors) {
    let is_namespace =
        |term: &&ResourceSelectorTerm| term.kind == "Namespace" && term.group.is_empty() && term.version == "v1";
    for (index, term) in selectors.iter().enumerate() {
        let has_name = term.name.as_ref().is_some_and(|name| !name.is_empty());
        if has_name && term.label_selector.is_some() {
            errors.forbidden(&at.index(index), "the labelSelector and name fields are mutually exclusive");
        }
        labels(term.label_selector.as_ref(), "resource selector", &at.index(index), errors);
    }
    let namespaces: Vec<&ResourceSelectorTerm> = selectors.iter().filter(is_namespace).collect();
    let opening =
        |term: &&&ResourceSelectorTerm| term.selection_scope == Some(SelectionScope::NamespaceWithResourceSelectors);
    let Some(open) = namespaces.iter().find(opening) else { return };
    let is_by_name = open.name.as_ref().is_some_and(|name| !name.is_empty()) && open.label_selector.is_none();
    if namespaces.len() != 1 || !is_by_name {
        let rule = "a selector with selectionScope NamespaceWithResourceSelectors must select its namespace by name \
                    and be the only one of kind Namespace";
        errors.forbidden(at, rule);
    }
}

fn reporting_scope(spec: &PlacementSpec, at: &FieldPath, errors: &mut FieldErrors) {
    let namespaces = spec.resource_selectors.iter().filter(|term| term.kind == "Namespace").count();
    if spec.status_reporting_scope == Some(StatusReportingScope::NamespaceAccessible) && namespaces != 1 {
        let rule = "when statusReportingScope is NamespaceAccessible, exactly one resourceSelector with kind \
                    'Namespace' is required";
        errors.forbidden(&at.child("statusReportingScope"), rule);
    }
}

fn labels(selector: Option<&LabelSelector>, parent: &str, at: &FieldPath, errors: &mut FieldErrors) {
    let Some(selector) = selector else { return };
    let pairs = selector.match_labels.iter().map(|(key, value)| (key.as_str(), value.as_str()));
    let expressions = selector
        .match_expressions
        .iter()
        .map(|requirement| (requirement.key.as_str(), requirement.operator.as_str(), requirement.values.as_slice()));
    if let Err(error) = Selector::from_parts(pairs, expressions) {
        let path = at.child("labelSelector");
        errors.invalid(&path, selector, format_args!("the labelSelector in {parent} is invalid: {error}"));
    }
}

struct Checks<'e> {
    errors: &'e mut FieldErrors,
}

impl Checks<'_> {
    fn policy(&mut self, policy: &PlacementPolicy, at: &FieldPath) {
        match policy.placement_type.unwrap_or_default() {
            PlacementType::PickAll => self.pick_all(policy, at),
            PlacementType::PickN => self.pick_n(policy, at),
            PlacementType::PickFixed => self.pick_fixed(policy, at),
        }
    }

    fn pick_fixed(&mut self, policy: &PlacementPolicy, at: &FieldPath) {
        let path = at.child("clusterNames");
        if policy.cluster_names.is_empty() {
            self.errors.required(&path, "cluster names cannot be empty for policy type PickFixed");
        }
        for (index, name) in policy.cluster_names.iter().enumerate() {
            if !is_dns_subdomain(name) {
                let detail = format_args!("PickFixed cluster name {name} is not a valid member name");
                self.errors.invalid(&path.index(index), name, detail);
            }
            if name.len() > NAME_MAX {
                let detail = format_args!("PickFixed cluster name {name} cannot have length exceeding {NAME_MAX}");
                self.errors.invalid(&path.index(index), name, detail);
            }
            if policy.cluster_names[..index].contains(name) {
                self.errors.duplicate(&path.index(index), name);
            }
        }
        self.no_count(policy, "PickFixed", at);
        if policy.affinity.is_some() {
            let rule =
                "affinity must be nil for policy type PickFixed, only valid for PickAll/PickN placement policy types";
            self.errors.forbidden(&at.child("affinity"), rule);
        }
        self.no_spread(policy, "PickFixed", at);
        if !policy.tolerations.is_empty() {
            let rule = "tolerations needs to be empty for policy type PickFixed, only valid for PickAll/PickN";
            self.errors.forbidden(&at.child("tolerations"), rule);
        }
    }

    fn pick_all(&mut self, policy: &PlacementPolicy, at: &FieldPath) {
        self.no_names(policy, "PickAll", at);
        self.no_count(policy, "PickAll", at);
        self.no_spread(policy, "PickAll", at);
        self.affinity(policy.affinity.as_ref(), PlacementType::PickAll, &at.child("affinity"));
        self.tolerations(&policy.tolerations, &at.child("tolerations"));
    }

    fn pick_n(&mut self, policy: &PlacementPolicy, at: &FieldPath) {
        self.no_names(policy, "PickN", at);
        if policy.number_of_clusters.is_none() {
            let path = at.child("numberOfClusters");
            self.errors.required(&path, "number of cluster cannot be nil for policy type PickN");
        }
        self.affinity(policy.affinity.as_ref(), PlacementType::PickN, &at.child("affinity"));
        self.tolerations(&policy.tolerations, &at.child("tolerations"));
    }

    fn no_names(&mut self, policy: &PlacementPolicy, type_: &str, at: &FieldPath) {
        if !policy.cluster_names.is_empty() {
            let rule = format_args!(
                "cluster names needs to be empty for policy type {type_}, only valid for PickFixed policy type"
            );
            self.errors.forbidden(&at.child("clusterNames"), rule);
        }
    }

    fn no_count(&mut self, policy: &PlacementPolicy, type_: &str, at: &FieldPath) {
        if policy.number_of_clusters.is_some() {
            let rule = format_args!(
                "number of clusters must be nil for policy type {type_}, only valid for PickN placement policy type"
            );
            self.errors.forbidden(&at.child("numberOfClusters"), rule);
        }
    }

    fn no_spread(&mut self, policy: &PlacementPolicy, type_: &str, at: &FieldPath) {
        if !policy.topology_spread_constraints.is_empty() {
            let rule = format_args!(
                "topology spread constraints needs to be empty for policy type {type_}, only valid for PickN policy type"
            );
            self.errors.forbidden(&at.child("topologySpreadConstraints"), rule);
        }
    }

    fn affinity(&mut self, affinity: Option<&Affinity>, type_: PlacementType, at: &FieldPath) {
        let Some(affinity) = affinity.and_then(|affinity| affinity.cluster_affinity.as_ref()) else { return };
        let at = at.child("clusterAffinity");
        let path = at.child("requiredDuringSchedulingIgnoredDuringExecution").child("clusterSelectorTerms");
        let terms = affinity.required.iter().flat_map(|selector| &selector.cluster_selector_terms);
        for (index, term) in terms.enumerate() {
            self.required(term, &path.index(index));
        }
        let path = at.child("preferredDuringSchedulingIgnoredDuringExecution");
        if type_ == PlacementType::PickAll && !affinity.preferred.is_empty() {
            let rule =
                "PreferredDuringSchedulingIgnoredDuringExecution will be ignored for placement policy type PickAll";
            self.errors.forbidden(&path, rule);
            return;
        }
        for (index, preferred) in affinity.preferred.iter().enumerate() {
            self.preferred(&preferred.preference, &path.index(index).child("preference"));
        }
    }

    fn required(&mut self, term: &ClusterSelectorTerm, at: &FieldPath) {
        labels(term.label_selector.as_ref(), "cluster selector", at, self.errors);
        if term.property_sorter.is_some() {
            let rule = "PropertySorter is not allowed for RequiredDuringSchedulingIgnoredDuringExecution affinity";
            self.errors.forbidden(&at.child("propertySorter"), rule);
        }
        let requirements = term.property_selector.iter().flat_map(|selector| &selector.match_expressions);
        for (index, requirement) in requirements.enumerate() {
            self.property(requirement, &at.child("propertySelector").child("matchExpressions").index(index));
        }
    }

    fn preferred(&mut self, term: &ClusterSelectorTerm, at: &FieldPath) {
        labels(term.label_selector.as_ref(), "preferred cluster selector", at, self.errors);
        if term.property_selector.is_some() {
            let rule = "PropertySelector is not allowed for PreferredDuringSchedulingIgnoredDuringExecution affinity";
            self.errors.forbidden(&at.child("propertySelector"), rule);
        }
        if let Some(sorter) = &term.property_sorter {
            self.property_name(&sorter.name, &at.child("propertySorter").child("name"));
        }
    }

    fn property(&mut self, requirement: &PropertySelectorRequirement, at: &FieldPath) {
        let PropertySelectorRequirement { name, operator, values } = requirement;
        self.property_name(name, &at.child("name"));
        const OPERATORS: [&str; 6] = ["Gt", "Ge", "Eq", "Ne", "Lt", "Le"];
        if !OPERATORS.contains(&operator.as_str()) {
            // Upstream lets it through, and no cycle of the placement ever ends (vector invalid-a-005).
            self.errors.not_supported(&at.child("operator"), operator, &OPERATORS);
        } else if values.len() != 1 {
            let detail = format_args!("operator {operator} requires exactly one value, got {}", values.len());
            self.errors.invalid(&at.child("values"), values, detail);
        }
        for (index, value) in values.iter().enumerate() {
            if value.parse::<Quantity>().is_err() {
                let detail = format_args!("value {value} is not a valid resource.Quantity");
                self.errors.invalid(&at.child("values").index(index), value, detail);
            }
        }
    }

    fn property_name(&mut self, name: &str, at: &FieldPath) {
        if let Some(figure) = name.strip_prefix(RESOURCE_PREFIX) {
            let detail = match figure.split_once('-') {
                None => "invalid resource property name, expected format is [PREFIX]/[CAPACITY_TYPE]-[RESOURCE_NAME]",
                Some((usage, _)) if !["total", "allocatable", "available"].contains(&usage) => {
                    "invalid capacity type in resource property name, supported values are [allocatable available total]"
                }
                // Upstream lets it through, and the scheduler cannot read it (vector invalid-a-003).
                Some((_, resource)) if resource.contains('-') => {
                    "a resource with a dash in its name cannot be compared"
                }
                Some(_) if !is_label_key(name) => "property name is not valid",
                Some(_) => return,
            };
            self.errors.invalid(at, name, detail);
            return;
        }
        let mut segments = name.split('/');
        let first = segments.next().unwrap_or_default();
        if !(is_dns_subdomain(first) || is_label_key(first)) || !segments.all(is_label_key) {
            self.errors.invalid(at, name, "property name is not valid");
        }
    }

    fn tolerations(&mut self, tolerations: &[Toleration], at: &FieldPath) {
        for (index, toleration) in tolerations.iter().enumerate() {
            let at = at.index(index);
            let key = toleration.key.as_deref().unwrap_or_default();
            let value = toleration.value.as_deref().unwrap_or_default();
            if !key.is_empty() && !is_label_key(key) {
                self.errors.invalid(&at.child("key"), key, "invalid toleration key");
            }
            if toleration.operator.as_deref() == Some("Exists") {
                if !value.is_empty() {
                    let rule = "toleration value needs to be empty, when operator is Exists";
                    self.errors.invalid(&at.child("value"), value, rule);
                }
            } else {
                if key.is_empty() {
                    let rule = "toleration key cannot be empty, when operator is Equal";
                    self.errors.required(&at.child("key"), rule);
                }
                if !is_label_value(value) {
                    self.errors.invalid(&at.child("value"), value, "invalid toleration value");
                }
            }
            if tolerations[..index].contains(toleration) {
                self.errors.duplicate(&at, toleration);
            }
        }
    }
}

fn strategy(strategy: &RolloutStrategy, at: &FieldPath, errors: &mut FieldErrors) {
    if let Some(rolling) = &strategy.rolling_update {
        let at = at.child("rollingUpdate");
        if strategy.type_ == Some(RolloutStrategyType::External) {
            errors.forbidden(&at, "rollingUpdate is not valid for the External rollout strategy type");
        }
        for (name, amount) in [("maxUnavailable", &rolling.max_unavailable), ("maxSurge", &rolling.max_surge)] {
            // The schema bounds the text; a number it cannot.
            if let Some(IntOrPercent::Number(number @ ..0)) = amount {
                errors.invalid(&at.child(name), number, format_args!("{name} must be greater than or equal to 0"));
            }
        }
    }
    if let Some(apply) = &strategy.apply_strategy {
        let is_server_side = apply.type_ == Some(ApplyStrategyType::ServerSideApply);
        if apply.server_side_apply_config.is_some() && !is_server_side {
            let path = at.child("applyStrategy").child("serverSideApplyConfig");
            errors.forbidden(&path, "serverSideApplyConfig is only valid for ServerSideApply strategy type");
        }
    }
    if let Some(report_back) = &strategy.report_back_strategy
        && report_back.type_ == ReportBackStrategyType::Mirror
        && report_back.destination.is_none()
    {
        let path = at.child("reportBackStrategy").child("destination");
        errors.required(&path, "when reportBackStrategy.type is 'Mirror', a destination must be specified");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn spec(policy: Value) -> PlacementSpec {
        let selectors = json!([{"group": "", "version": "v1", "kind": "Namespace", "name": "shop"}]);
        serde_json::from_value(json!({"resourceSelectors": selectors, "policy": policy})).unwrap()
    }

    #[track_caller]
    fn check(policy: Value, expected: &[&str]) {
        let found: Vec<String> = placement("crp", &spec(policy), None).iter().map(ToString::to_string).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn each_type_takes_only_its_own_fields() {
        check(json!({"placementType": "PickAll"}), &[]);
        check(json!({"placementType": "PickN", "numberOfClusters": 0}), &[]);
        check(json!({"placementType": "PickFixed", "clusterNames": ["a", "b"]}), &[]);
        check(
            json!({"placementType": "PickFixed", "numberOfClusters": 1}),
            &[
                "spec.policy.clusterNames: Required value: cluster names cannot be empty for policy type PickFixed",
                "spec.policy.numberOfClusters: Forbidden: number of clusters must be nil for policy type PickFixed, \
                 only valid for PickN placement policy type",
            ],
        );
        check(
            json!({"placementType": "PickN"}),
            &["spec.policy.numberOfClusters: Required value: number of cluster cannot be nil for policy type PickN"],
        );
        check(
            json!({"placementType": "PickAll", "clusterNames": ["a"]}),
            &["spec.policy.clusterNames: Forbidden: cluster names needs to be empty for policy type PickAll, only \
               valid for PickFixed policy type"],
        );
    }

    #[test]
    fn what_the_scheduler_could_not_read_is_refused() {
        let required = |term: Value| {
            json!({"affinity": {"clusterAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"clusterSelectorTerms": [term]}}}})
        };
        let property = |name: &str, operator: &str, values: Value| {
            required(json!({"propertySelector": {"matchExpressions": [
                {"name": name, "operator": operator, "values": values}]}}))
        };
        let ok = property("resources.kubernetes-fleet.io/available-cpu", "Ge", json!(["4"]));
        check(ok, &[]);
        for bad in [
            property("resources.kubernetes-fleet.io/cpu", "Ge", json!(["4"])),
            property("resources.kubernetes-fleet.io/spare-cpu", "Ge", json!(["4"])),
            property("resources.kubernetes-fleet.io/available-ephemeral-storage", "Ge", json!(["4"])),
            property("nodes", "Approx", json!(["4"])),
            property("nodes", "Ge", json!(["4", "5"])),
            property("nodes", "Ge", json!(["many"])),
            property("", "Ge", json!(["4"])),
            required(json!({"labelSelector": {"matchExpressions": [{"key": "env", "operator": "In"}]}})),
            required(json!({"propertySorter": {"name": "nodes", "sortOrder": "Ascending"}})),
        ] {
            assert_eq!(placement("crp", &spec(bad.clone()), None).iter().len(), 1, "{bad}");
        }
    }

    #[test]
    fn policy_type_and_tolerations_stay() {
        let old = spec(json!({"placementType": "PickAll", "tolerations": [{"key": "a", "operator": "Exists"}]}));
        let update = |policy: Value| -> Vec<String> {
            placement("crp", &spec(policy), Some(&old)).iter().map(ToString::to_string).collect()
        };
        let tolerations = json!([{"key": "b", "operator": "Exists"}, {"key": "a", "operator": "Exists"}]);
        assert!(update(json!({"placementType": "PickAll", "tolerations": tolerations})).is_empty());
        let type_changed = update(json!({"placementType": "PickN", "numberOfClusters": 1, "tolerations": tolerations}));
        assert_eq!(type_changed, ["spec.policy.placementType: Forbidden: placement type is immutable"]);
        assert_eq!(update(json!({"placementType": "PickAll"})).len(), 1);
        assert!(update(Value::Null).contains(&"spec.policy: Forbidden: policy cannot be removed once set".to_owned()));
    }
}
