//! Types of `core/v1` that placements use: quantities, taints, tolerations and node selectors.
//!
//! They are data only. Event, the only kind of this group that is served, has its own file.

mod event;

pub use event::{EVENTS, Event, EventSource, NAMESPACE_OF_CLUSTER_SCOPED, ObjectReference};

use std::borrow::Cow;
use std::fmt;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::openapi::{RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use ballast_k8s::Time;
use ballast_resource::schema::mark::{self, Atomic, AtomicList};

/// An amount of a resource, kept in the notation of the client: `2`, `"500m"`, `"4Gi"`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Quantity {
    Integer(i64),
    Text(Box<str>),
}

impl Quantity {
    /// Returns the text in the form that upstream's parser reads.
    pub fn text(&self) -> Cow<'_, str> {
        match self {
            Quantity::Integer(number) => Cow::Owned(number.to_string()),
            Quantity::Text(text) => Cow::Borrowed(text),
        }
    }
}

impl From<&str> for Quantity {
    fn from(text: &str) -> Quantity {
        Quantity::Text(text.into())
    }
}

impl From<i64> for Quantity {
    fn from(number: i64) -> Quantity {
        Quantity::Integer(number)
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Quantity::Integer(number) => write!(f, "{number}"),
            Quantity::Text(text) => f.write_str(text),
        }
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Quantity::Integer(number) => serializer.serialize_i64(*number),
            Quantity::Text(text) => serializer.serialize_str(text),
        }
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Quantity, D::Error> {
        struct Amount;
        impl Visitor<'_> for Amount {
            type Value = Quantity;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a quantity: an integer or a string")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Quantity, E> {
                Ok(Quantity::Text(text.into()))
            }

            fn visit_string<E: Error>(self, text: String) -> Result<Quantity, E> {
                Ok(Quantity::Text(text.into()))
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<Quantity, E> {
                Ok(Quantity::Integer(number))
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<Quantity, E> {
                i64::try_from(number).map(Quantity::Integer).map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Amount)
    }
}

impl PartialSchema for Quantity {
    fn schema() -> RefOr<Schema> {
        mark::Quantity::schema()
    }
}

impl ToSchema for Quantity {}

/// The effect of a taint on workloads that do not tolerate it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
pub enum TaintEffect {
    /// New workloads are not scheduled to the cluster, and running ones are evicted.
    NoExecute,
    /// New workloads are not scheduled to the cluster.
    NoSchedule,
    /// New workloads are scheduled to other clusters if possible.
    PreferNoSchedule,
}

/// A taint, which repels every workload that does not tolerate it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = io::k8s::api::core::v1::Taint)]
pub struct Taint {
    /// Key of the taint.
    #[schema(default = "")]
    pub key: String,
    /// Value of the taint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Effect on workloads that do not tolerate the taint.
    #[schema(default = "")]
    pub effect: TaintEffect,
    /// Time at which the taint was added. `tolerationSeconds` counts from this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_added: Option<Time>,
}

/// A toleration, which lets a workload run on clusters with a matching taint.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = io::k8s::api::core::v1::Toleration)]
pub struct Toleration {
    /// Key of the taint. Empty matches all keys, and requires the operator `Exists`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// `Equal` (the default) or `Exists`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operator: Option<String>,
    /// Value of the taint, for `Equal`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Effect of the taint. Empty matches all effects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<String>,
    /// For `NoExecute`: the seconds that the taint is tolerated. Absent: forever. Zero or less: not
    /// at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub toleration_seconds: Option<i64>,
}

/// Selects the nodes that match any of the terms.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = io::k8s::api::core::v1::NodeSelector)]
pub struct NodeSelector {
    /// Terms of which a node must match at least one.
    #[schema(value_type = AtomicList<Atomic<NodeSelectorTerm>>)]
    pub node_selector_terms: Vec<NodeSelectorTerm>,
}

/// Requirements on a node. All of them must hold. An empty term selects no node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = io::k8s::api::core::v1::NodeSelectorTerm)]
pub struct NodeSelectorTerm {
    /// Requirements on the node's labels.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = AtomicList<NodeSelectorRequirement>)]
    pub match_expressions: Vec<NodeSelectorRequirement>,
    /// Requirements on the node's fields.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = AtomicList<NodeSelectorRequirement>)]
    pub match_fields: Vec<NodeSelectorRequirement>,
}

/// One requirement on a label or a field.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[schema(as = io::k8s::api::core::v1::NodeSelectorRequirement)]
pub struct NodeSelectorRequirement {
    /// Label or field that the requirement applies to.
    pub key: String,
    /// `In`, `NotIn`, `Exists`, `DoesNotExist`, `Gt` or `Lt`. As upstream, the schema allows any
    /// text.
    pub operator: String,
    /// At least one value for `In` and `NotIn`, none for `Exists` and `DoesNotExist`, one integer
    /// for `Gt` and `Lt`.
    #[serde(default, deserialize_with = "crate::lean::list", skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = AtomicList<String>)]
    pub values: Vec<String>,
}
