//! Match constraints of policies and bindings.

use k8s_openapi::api::admissionregistration::v1::{MatchResources, NamedRuleWithOperations};
use kube::core::{Selector, SelectorExt};
use serde_json::{Map, Value};

use super::NamespaceLabels;
use crate::rules::{Rule, Written, labels, selector};
use ballast_registry::AdmissionAttributes;
use ballast_resource::ResourceKind;

type Tree = Map<String, Value>;

/// The constraints of a policy or a binding.
#[derive(Debug)]
pub struct Constraints {
    rules: Vec<NamedRuleWithOperations>,
    excluded: Vec<NamedRuleWithOperations>,
    namespaces: Result<Selector, String>,
    objects: Result<Selector, String>,
    /// Whether a rule for one version matches the other versions of a kind too.
    matches_equivalents: bool,
}

impl Constraints {
    /// Parses a `matchConstraints` or `matchResources`.
    pub fn read(member: &Value) -> Result<Constraints, String> {
        let resources: MatchResources = serde_json::from_value(member.clone()).map_err(|error| error.to_string())?;
        Ok(Constraints {
            rules: resources.resource_rules.unwrap_or_default(),
            excluded: resources.exclude_resource_rules.unwrap_or_default(),
            namespaces: selector(resources.namespace_selector),
            objects: selector(resources.object_selector),
            matches_equivalents: resources.match_policy.as_deref() != Some("Exact"),
        })
    }

    /// Returns the version of the kind in which the rules match this write, regardless of
    /// selectors. An empty list of rules matches everything.
    pub fn matching_version<'a>(&self, attributes: &AdmissionAttributes<'a>) -> Option<&'a ResourceKind> {
        if self.version_in(&self.excluded, attributes).is_some() {
            return None;
        }
        match self.rules.is_empty() {
            true => Some(attributes.row),
            false => self.version_in(&self.rules, attributes),
        }
    }

    /// Returns whether a write of this kind can match at all. Rules are evaluated once for each
    /// kind, not for each write.
    pub fn may_mean(&self, row: &ResourceKind) -> bool {
        let is_named = |rule: &NamedRuleWithOperations| {
            let has = |list: &Option<Vec<String>>, name: &str| list.iter().flatten().any(|it| it == "*" || it == name);
            let resources = rule.resources.iter().flatten();
            let mut plurals = resources.map(|pattern| pattern.split('/').next().unwrap_or_default());
            has(&rule.api_groups, row.group) && plurals.any(|plural| plural == "*" || plural == row.plural)
        };
        self.rules.is_empty() || self.rules.iter().any(is_named)
    }

    fn version_in<'a>(
        &self,
        rules: &[NamedRuleWithOperations],
        attributes: &AdmissionAttributes<'a>,
    ) -> Option<&'a ResourceKind> {
        let is_named = |row: &ResourceKind| {
            let written = Written::of(attributes, row);
            rules.iter().any(|rule| is_match(rule, &written, attributes.name))
        };
        if rules.is_empty() {
            return None;
        }
        if is_named(attributes.row) {
            return Some(attributes.row);
        }
        attributes.other_versions().find(|row| self.matches_equivalents && is_named(row))
    }

    /// Returns whether the decision needs the namespace.
    pub fn reads_namespaces(&self) -> bool {
        self.namespaces.as_ref().is_ok_and(|selector| !selector.selects_all())
    }

    /// Returns whether the selectors match. `namespace` is read only if a selector needs it.
    ///
    /// # Errors
    ///
    /// Returns an error if a selector is invalid, or if a needed namespace could not be looked up.
    pub fn selects(
        &self,
        attributes: &AdmissionAttributes<'_>,
        namespace: &NamespaceLabels,
        object: Option<&Tree>,
        old: Option<&Tree>,
    ) -> Result<bool, String> {
        let in_namespaces = self.namespaces.as_ref().map_err(String::clone)?;
        let objects = self.objects.as_ref().map_err(String::clone)?;
        let is_labelled = |object: Option<&Tree>| object.is_some_and(|it| objects.matches(&labels(it)));
        if !objects.selects_all() && !is_labelled(object) && !is_labelled(old) {
            return Ok(false);
        }
        // A namespace selector does not exclude objects without a namespace.
        if attributes.namespace.is_empty() || in_namespaces.selects_all() {
            return Ok(true);
        }
        Ok(in_namespaces.matches(&namespace.as_ref().map_err(String::clone)?.labels))
    }
}

fn is_match(rule: &NamedRuleWithOperations, written: &Written<'_>, name: &str) -> bool {
    let lists = Rule {
        operations: &rule.operations,
        groups: &rule.api_groups,
        versions: &rule.api_versions,
        resources: &rule.resources,
        scope: rule.scope.as_deref(),
    };
    let names = rule.resource_names.as_deref().unwrap_or_default();
    lists.matches(written) && (names.is_empty() || names.iter().any(|own| own == name))
}
