//! Errors that stop a cycle: an object that admission would have rejected, or that cannot be
//! parsed.
//!
//! A fault counts when the object is used, not when it is converted. For example, a faulty second
//! term does not matter if the first term matches every cluster.

use ballast_k8s::{quantity, selector};

/// The reason that a cycle stops.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("annotation {annotation} of the policy snapshot is {found:?}, not a whole number from 0")]
    Annotation { annotation: &'static str, found: Option<Box<str>> },
    #[error("a label selector of the policy cannot be read")]
    Selector(#[source] selector::Malformed),
    #[error(
        "property {0:?} names no resource: it must be {{total,allocatable,available}}-<resource> behind its prefix"
    )]
    PropertyName(Box<str>),
    #[error("property {0:?} is compared by an unknown operator {1:?}")]
    Comparison(Box<str>, Box<str>),
    #[error("property {0:?} is compared with {1} values, not with exactly one")]
    Values(Box<str>, usize),
    #[error("the value that property {property:?} is compared with cannot be read")]
    Expected {
        property: Box<str>,
        #[source]
        source: quantity::Malformed,
    },
    #[error("property {property:?} of cluster {cluster:?} cannot be read")]
    Observed {
        property: Box<str>,
        cluster: Box<str>,
        #[source]
        source: quantity::Malformed,
    },
    #[error("property {0:?} is sorted in an unknown order {1:?}")]
    SortOrder(Box<str>, Box<str>),
    #[error("binding {0:?} is picked again, but the state it had before is unknown")]
    PreviousState(Box<str>),
    #[error("plugin {plugin} failed")]
    Plugin {
        plugin: &'static str,
        #[source]
        source: Box<Fault>,
    },
}

impl Fault {
    pub(super) fn in_plugin(self, plugin: &'static str) -> Fault {
        Fault::Plugin { plugin, source: Box::new(self) }
    }
}
