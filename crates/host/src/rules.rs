//! Matching of rules and selectors of webhooks and policies.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::Selector;
use serde_json::{Map, Value};

use ballast_registry::AdmissionAttributes;
use ballast_resource::ResourceKind;

/// The properties of a write that rules match.
#[derive(Clone, Copy, Debug)]
pub struct Written<'a> {
    pub operation: &'a str,
    pub group: &'a str,
    pub version: &'a str,
    pub resource: &'a str,
    pub subresource: &'a str,
    pub is_namespaced: bool,
}

impl<'a> Written<'a> {
    /// Returns the properties of a write in this version of its kind.
    pub fn of(attributes: &AdmissionAttributes<'a>, row: &'a ResourceKind) -> Written<'a> {
        Written {
            operation: attributes.operation.as_str(),
            group: row.group,
            version: row.version,
            resource: row.plural,
            subresource: attributes.subresource,
            is_namespaced: row.is_namespaced(),
        }
    }
}

/// The lists of a rule.
#[derive(Clone, Copy)]
pub struct Rule<'a> {
    pub operations: &'a Option<Vec<String>>,
    pub groups: &'a Option<Vec<String>>,
    pub versions: &'a Option<Vec<String>>,
    pub resources: &'a Option<Vec<String>>,
    pub scope: Option<&'a str>,
}

impl Rule<'_> {
    pub fn matches(&self, written: &Written<'_>) -> bool {
        let scope = match self.scope {
            None | Some("*") => true,
            Some("Namespaced") => written.is_namespaced,
            Some(_) => !written.is_namespaced,
        };
        scope
            && has(self.operations, written.operation)
            && has(self.groups, written.group)
            && has(self.versions, written.version)
            && self.resources.iter().flatten().any(|pattern| names(pattern, written.resource, written.subresource))
    }
}

fn has(list: &Option<Vec<String>>, name: &str) -> bool {
    list.iter().flatten().any(|it| it == "*" || it == name)
}

/// Returns whether a pattern matches. `*` matches all resources without their subresources, and
/// `*/*` matches both.
fn names(pattern: &str, resource: &str, subresource: &str) -> bool {
    let (of, sub) = pattern.split_once('/').unwrap_or((pattern, ""));
    (of == "*" || of == resource) && (sub == subresource || (sub == "*" && pattern.contains('/')))
}

pub fn selector(selector: Option<LabelSelector>) -> Result<Selector, String> {
    Selector::try_from(selector.unwrap_or_default()).map_err(|error| format!("its selector is malformed: {error}"))
}

pub fn labels(object: &Map<String, Value>) -> BTreeMap<String, String> {
    let labels = object.get("metadata").and_then(|metadata| metadata["labels"].as_object());
    let texts = labels.into_iter().flatten().filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
    texts.collect()
}
