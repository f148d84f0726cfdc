//! EvictionLimit: how fast workloads are evicted, stated while the server runs (NG2).

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::core::Quantity;
use crate::type_meta::kind;
use ballast_k8s::{self as k8s, FieldErrors, FieldPath, Time};
use ballast_resource::{Column, Resource, Scope};

kind! {
    /// How many bindings a second are evicted from clusters with NoExecute taints, instead of what
    /// the flags of the server say. It takes effect at once. Only the one named `fleet` exists.
    pub struct EvictionLimit {
        /// The rate, and how long it holds.
        pub spec: EvictionLimitSpec,
    }
}

impl EvictionLimit {
    /// The name of the one object.
    pub const NAME: &'static str = "fleet";
    /// What a rate must be, for people.
    pub const RATE_RULE: &'static str = "give a number of bindings from 0 to 1000, such as 5 or 500m";

    /// Whether the text is a rate: a quantity from 0 to 1000.
    pub fn is_rate(text: &str) -> bool {
        let most = i128::from(RATE_MAX) * 1_000_000_000;
        text.parse::<k8s::Quantity>().is_ok_and(|rate| (0..=most).contains(&rate.nanos()))
    }
}

/// Bindings to evict a second at most. An eviction is a write of a binding and a decision about it;
/// more of them a second would leave no place to other writes.
const RATE_MAX: i64 = 1_000;

/// The rate, and how long it holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EvictionLimitSpec {
    /// Bindings to evict a second, 0 to 1000, such as `5` or `500m`. 0 holds all evictions. The
    /// rate is in force however many clusters are not ready.
    pub bindings_per_second: Quantity,
    /// When the flags hold again. Never, unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Time>,
    /// Why, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(max_length = 256)]
    pub note: Option<String>,
}

impl Default for EvictionLimitSpec {
    fn default() -> EvictionLimitSpec {
        EvictionLimitSpec { bindings_per_second: Quantity::Integer(0), expires_at: None, note: None }
    }
}

const fn column(name: &'static str, kind: &'static str, path: &'static str, description: &'static str) -> Column {
    Column { name, kind, path, priority: 0, description }
}

impl Resource for EvictionLimit {
    const GROUP: &'static str = super::GROUP;
    const VERSION: &'static str = super::VERSION;
    const KIND: &'static str = "EvictionLimit";
    const PLURAL: &'static str = "evictionlimits";
    const SINGULAR: &'static str = "evictionlimit";
    const CATEGORIES: &'static [&'static str] = super::CATEGORIES;
    const SCOPE: Scope = Scope::Cluster;
    const STATUS_SUBRESOURCE: bool = false;
    const COLUMNS: &'static [Column] = &[
        column("PER-SECOND", "string", ".spec.bindingsPerSecond", "Bindings to evict a second."),
        column("EXPIRES", "string", ".spec.expiresAt", "When the flags of the server hold again."),
        column("SET-BY", "string", ".metadata.annotations.ballast\\.dev/set-by", "The user who set the rate."),
        column("NOTE", "string", ".spec.note", "Why."),
        column("AGE", "date", ".metadata.creationTimestamp", ""),
    ];
    const OPENAPI_PACKAGE: &'static str = super::OPENAPI_PACKAGE;

    fn validate(object: &EvictionLimit, _old: Option<&EvictionLimit>) -> FieldErrors {
        let mut errors = FieldErrors::default();
        let name = object.metadata.name.as_deref().unwrap_or_default();
        if name != EvictionLimit::NAME {
            let path = FieldPath::new("metadata").child("name");
            errors.invalid(&path, name, "the one EvictionLimit that has an effect is named \"fleet\"");
        }
        let path = FieldPath::new("spec").child("bindingsPerSecond");
        let text = object.spec.bindings_per_second.text();
        if !EvictionLimit::is_rate(&text) {
            errors.invalid(&path, &*text, EvictionLimit::RATE_RULE);
        }
        errors
    }
}
