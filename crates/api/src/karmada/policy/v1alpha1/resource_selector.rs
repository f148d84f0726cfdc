//! Selection of objects by a policy or a task, and the closeness of the match.
//!
//! A selector applies to one kind, and optionally one namespace. It selects by name if it is set,
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
    /// Name of the object. Empty: objects are selected by labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Labels of the objects. Ignored if `name` is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Atomic<LabelSelector>>)]
    pub label_selector: Option<LabelSelector>,
}

/// The closeness of a match between a selector and an object. If several policies match, the later
/// variant wins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Closeness {
    Kind,
    Labels,
    Name,
}

/// A parsed selector, for matching many objects. A policy may have thousands, so it is compact: at
/// most four bytes for each byte of its text.
#[derive(Clone, Debug)]
pub struct LoweredSelector {
    api_version: Box<str>,
    kind: Box<str>,
    namespace: Option<Box<str>>,
    name: Option<Box<str>>,
    labels: LabelRule,
}

#[derive(Clone, Debug)]
enum LabelRule {
    /// The selector does not restrict labels.
    Any,
    Matching(Selector),
    /// No labels can match. Admission rejects such a selector.
    Never,
}

impl ResourceSelector {
    pub fn lowered(self) -> LoweredSelector {
        let labels = match &self.label_selector {
            None => LabelRule::Any,
            Some(LabelSelector { match_labels, match_expressions }) => {
                let equal = match_labels.iter().map(|(key, value)| (key.as_str(), value.as_str()));
                let others = match_expressions
                    .iter()
                    .map(|wanted| (wanted.key.as_str(), wanted.operator.as_str(), wanted.values.as_slice()));
                Selector::from_parts(equal, others).map_or(LabelRule::Never, LabelRule::Matching)
            }
        };
        let filled = |text: Option<String>| text.filter(|text| !text.is_empty()).map(String::into_boxed_str);
        LoweredSelector {
            api_version: self.api_version.into_boxed_str(),
            kind: self.kind.into_boxed_str(),
            namespace: filled(self.namespace),
            name: filled(self.name),
            labels,
        }
    }
}

/// Deserializes a `ResourceSelector` and keeps only the parsed form.
impl<'de> Deserialize<'de> for LoweredSelector {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<LoweredSelector, D::Error> {
        ResourceSelector::deserialize(deserializer).map(ResourceSelector::lowered)
    }
}

impl LoweredSelector {
    pub fn api_version(&self) -> &str {
        &self.api_version
    }

    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// Returns the name that the selector is restricted to.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Returns whether the selector selects objects of this kind and version. Both must be equal as
    /// text.
    pub fn is_of_kind(&self, api_version: &str, kind: &str) -> bool {
        *self.api_version == *api_version && *self.kind == *kind
    }

    /// Returns the closeness of the match with an object of the selected kind, or `None` if it does
    /// not match. A selector without a namespace matches in any namespace, and matches
    /// cluster-scoped objects.
    pub fn closeness<L: Labels + ?Sized>(&self, namespace: &str, name: &str, labels: &L) -> Option<Closeness> {
        if self.namespace.as_deref().is_some_and(|wanted| wanted != namespace) {
            return None;
        }
        match (self.name(), &self.labels) {
            (Some(wanted), _) => (wanted == name).then_some(Closeness::Name),
            (None, LabelRule::Any) => Some(Closeness::Kind),
            (None, LabelRule::Matching(wanted)) => wanted.matches(labels).then_some(Closeness::Labels),
            (None, LabelRule::Never) => None,
        }
    }

    /// Returns whether the selector matches by labels.
    pub fn asks_for_labels(&self) -> bool {
        self.name.is_none() && matches!(&self.labels, LabelRule::Matching(labels) if !labels.is_empty())
    }
}
