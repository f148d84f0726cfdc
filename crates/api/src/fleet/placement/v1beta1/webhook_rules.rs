//! Rules of upstream's webhooks for placements that satisfy their schema, with upstream's messages.
//! Pure.
//!
//! Upstream reports all errors in one sentence. Here each error has its own field path. Where
//! upstream's message contains a printed Go struct, the message here contains the object as JSON.
//!
//! Upstream's check whether a selected kind exists and is cluster-scoped is left out, because it
//! needs a cluster.

use std::collections::HashSet;

use super::placement::{PlacementSpec, ResourceSelectorTerm};
use super::policy::{Affinity, ClusterSelectorTerm, PlacementPolicy, PlacementType, Toleration};
use super::property_rules;
use super::strategy::{ApplyStrategyType, IntOrPercent, RolloutStrategy, RolloutStrategyType};
use crate::meta::LabelSelector;
use ballast_k8s::names::{label_value_faults, qualified_name_faults, subdomain_faults};
use ballast_k8s::selector::Selector;
use ballast_k8s::{FieldErrors, FieldPath};

/// Maximum length of the name of a placement or a member cluster, because names of namespaces are
/// derived from it.
const NAME_MAX: usize = 63;

pub(super) fn placement(name: &str, spec: &PlacementSpec, old: Option<&PlacementSpec>) -> FieldErrors {
    let mut errors = FieldErrors::default();
    let at = FieldPath::new("spec");
    if let Some(old) = old {
        transition(spec, old, &at.child("policy"), &mut errors);
    }
    if name.len() > NAME_MAX {
        let path = FieldPath::new("metadata.name");
        errors.invalid(&path, name, format_args!("the name field cannot have length exceeding {NAME_MAX}"));
    }
    selectors(&spec.resource_selectors, &at.child("resourceSelectors"), &mut errors);
    if let Some(policy) = &spec.policy {
        Checks { errors: &mut errors }.policy(policy, &at.child("policy"));
    }
    strategy(&spec.strategy, &at.child("strategy"), &mut errors);
    errors
}

/// Returns the text of a toleration. Equal tolerations have equal texts.
fn text(toleration: &Toleration) -> String {
    serde_json::to_string(toleration).unwrap_or_default()
}

/// Rejects changes that an update must not make. The schema compares the types of the two policies.
fn transition(spec: &PlacementSpec, old: &PlacementSpec, at: &FieldPath, errors: &mut FieldErrors) {
    let type_of = |spec: &PlacementSpec| spec.policy.as_ref().and_then(|policy| policy.placement_type);
    if type_of(spec).unwrap_or_default() != type_of(old).unwrap_or_default() {
        errors.invalid(at, "object", "placement type is immutable");
    }
    fn tolerations(spec: &PlacementSpec) -> impl Iterator<Item = String> {
        spec.policy.iter().flat_map(|policy| &policy.tolerations).map(text)
    }
    let now: HashSet<String> = tolerations(spec).collect();
    if tolerations(old).any(|toleration| !now.contains(&toleration)) {
        let rule = "tolerations have been updated/deleted, only additions to tolerations are allowed";
        errors.forbidden(&at.child("tolerations"), rule);
    }
}

fn selectors(selectors: &[ResourceSelectorTerm], at: &FieldPath, errors: &mut FieldErrors) {
    for (index, term) in selectors.iter().enumerate() {
        labels(term.label_selector.as_ref(), "resource selector", &at.index(index), errors);
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
        let type_ = policy.placement_type.unwrap_or_default();
        if type_ == PlacementType::PickFixed {
            return self.names(&policy.cluster_names, &at.child("clusterNames"));
        }
        self.affinity(policy.affinity.as_ref(), type_, &at.child("affinity"));
        self.tolerations(&policy.tolerations, &at.child("tolerations"));
    }

    fn names(&mut self, names: &[String], at: &FieldPath) {
        if names.is_empty() {
            self.errors.required(at, "cluster names cannot be empty for policy type PickFixed");
        }
        let mut seen = HashSet::new();
        for (index, name) in names.iter().enumerate() {
            let faults = subdomain_faults(name);
            if !faults.is_empty() {
                let faults = faults.join("; ");
                let detail = format_args!("PickFixed cluster name {name} is not a valid member name: {faults}");
                self.errors.invalid(&at.index(index), name, detail);
            }
            if name.len() > NAME_MAX {
                let detail = format_args!("PickFixed cluster name {name} cannot have length exceeding {NAME_MAX}");
                self.errors.invalid(&at.index(index), name, detail);
            }
            if !seen.insert(name) {
                let rule = "cluster names must be unique for policy type PickFixed";
                self.errors.invalid(&at.index(index), name, rule);
                break;
            }
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
        if let Some(selector) = &term.property_selector {
            let at = at.child("propertySelector").child("matchExpressions");
            property_rules::requirements(&selector.match_expressions, &at, self.errors);
        }
    }

    fn preferred(&mut self, term: &ClusterSelectorTerm, at: &FieldPath) {
        labels(term.label_selector.as_ref(), "preferred cluster selector", at, self.errors);
        if term.property_selector.is_some() {
            let rule = "PropertySelector is not allowed for PreferredDuringSchedulingIgnoredDuringExecution affinity";
            self.errors.forbidden(&at.child("propertySelector"), rule);
        }
        if let Some(sorter) = &term.property_sorter
            && let Err(fault) = property_rules::name(&sorter.name)
        {
            self.errors.invalid(&at.child("propertySorter").child("name"), &sorter.name, fault);
        }
    }

    fn tolerations(&mut self, tolerations: &[Toleration], at: &FieldPath) {
        let mut seen = HashSet::new();
        for (index, toleration) in tolerations.iter().enumerate() {
            let at = at.index(index);
            let key = toleration.key.as_deref().unwrap_or_default();
            let value = toleration.value.as_deref().unwrap_or_default();
            if !key.is_empty() {
                for fault in qualified_name_faults(key) {
                    self.errors.invalid(&at.child("key"), key, format_args!("invalid toleration key: {fault}"));
                }
            }
            for fault in label_value_faults(value) {
                self.errors.invalid(&at.child("value"), value, format_args!("invalid toleration value: {fault}"));
            }
            if !seen.insert(text(toleration)) {
                self.errors.invalid(&at, toleration, "toleration already exists, tolerations must be unique");
            }
        }
    }
}

fn strategy(strategy: &RolloutStrategy, at: &FieldPath, errors: &mut FieldErrors) {
    if let Some(rolling) = &strategy.rolling_update {
        let at = at.child("rollingUpdate");
        if strategy.type_ == Some(RolloutStrategyType::External) {
            // The spelling is upstream's.
            errors.forbidden(&at, "rollingUpdateConifg is not valid for ExternalRollout strategy type");
        }
        for (name, amount) in [("maxUnavailable", &rolling.max_unavailable), ("maxSurge", &rolling.max_surge)] {
            match amount {
                // The schema bounds text, but not numbers.
                Some(IntOrPercent::Number(number @ ..0)) => {
                    let detail = format_args!("{name} must be greater than or equal to 0, got `{number}`");
                    errors.invalid(&at.child(name), number, detail);
                }
                Some(IntOrPercent::Text(text)) if !text.ends_with('%') => {
                    let detail = format_args!(
                        "{name} `{text}` is invalid: invalid value for IntOrString: invalid type: string is not a \
                         percentage"
                    );
                    errors.invalid(&at.child(name), text, detail);
                }
                _ => {}
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
}
