//! Selects objects for a policy or a task, and says how closely a selector describes an object.
//!
//! A selector is about one kind, and optionally one namespace. It selects by name if it has one,
//! otherwise by labels if it has any, otherwise all objects of the kind. The caller provides the
//! labels, because this server does not store templates.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::meta::LabelSelector;
use ballast_k8s::selector::{Labels, Selector};
use ballast_resource::schema::mark::Atomic;

/// Selects objects: by name, otherwise by labels, otherwise all objects of the kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceSelector {
    /// API version of the objects.
    pub api_version: String,
    /// Kind of the objects.
    pub kind: String,
    /// Namespace of the objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Name of the object. Empty: the labels select.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Labels of the objects. Ignored if there is a name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Atomic<LabelSelector>>)]
    pub label_selector: Option<LabelSelector>,
}

/// How a selector matched an object. If several policies match, the later variant wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Closeness {
    Kind,
    Labels,
    Name,
}

/// A parsed selector, for matching many objects.
#[derive(Clone, Debug)]
pub struct LoweredSelector {
    selector: ResourceSelector,
    /// `None`: no labels can match. Admission refuses such a selector.
    labels: Option<Selector>,
}

impl ResourceSelector {
    pub fn lowered(self) -> LoweredSelector {
        let labels = match &self.label_selector {
            None => Some(Selector::default()),
            Some(LabelSelector { match_labels, match_expressions }) => {
                let equal = match_labels.iter().map(|(key, value)| (key.as_str(), value.as_str()));
                let others = match_expressions
                    .iter()
                    .map(|wanted| (wanted.key.as_str(), wanted.operator.as_str(), wanted.values.as_slice()));
                Selector::from_parts(equal, others).ok()
            }
        };
        LoweredSelector { selector: self, labels }
    }
}

impl LoweredSelector {
    pub fn api_version(&self) -> &str {
        &self.selector.api_version
    }

    pub fn kind(&self) -> &str {
        &self.selector.kind
    }

    /// The one name that the selector matches, if it names one.
    pub fn name(&self) -> Option<&str> {
        self.selector.name.as_deref().filter(|name| !name.is_empty())
    }

    /// Whether the selector selects objects of this kind and version. Both must be equal as text.
    pub fn is_of_kind(&self, api_version: &str, kind: &str) -> bool {
        self.selector.api_version == api_version && self.selector.kind == kind
    }

    /// How the selector matches an object of its kind. `None`: it does not match. A selector
    /// without a namespace matches in any namespace, and matches cluster-scoped objects.
    pub fn closeness<L: Labels + ?Sized>(&self, namespace: &str, name: &str, labels: &L) -> Option<Closeness> {
        let ResourceSelector { namespace: wanted_namespace, name: wanted_name, label_selector, .. } = &self.selector;
        if wanted_namespace.as_deref().is_some_and(|wanted| !wanted.is_empty() && wanted != namespace) {
            return None;
        }
        match wanted_name.as_deref().unwrap_or_default() {
            "" if label_selector.is_none() => Some(Closeness::Kind),
            "" => self.labels.as_ref()?.matches(labels).then_some(Closeness::Labels),
            wanted => (wanted == name).then_some(Closeness::Name),
        }
    }

    /// Whether the selector matches by labels.
    pub fn asks_for_labels(&self) -> bool {
        self.name().is_none() && self.labels.as_ref().is_some_and(|labels| !labels.is_empty())
    }
}
