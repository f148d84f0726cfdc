//! EvictionLimit: the eviction rate, set while the server runs (NG2).

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::core::Quantity;
use crate::type_meta::kind;
use ballast_k8s::{self as k8s, FieldErrors, FieldPath, Time};
use ballast_resource::{Column, Resource, Scope};

kind! {
    /// Number of bindings per second evicted from clusters with NoExecute taints. It overrides the
    /// flags of the server and takes effect at once. The only valid name is `fleet`.
    pub struct EvictionLimit {
        /// The rate, and the time at which it expires.
        pub spec: EvictionLimitSpec,
    }
}

impl EvictionLimit {
    /// The only valid name of an EvictionLimit.
    pub const NAME: &'static str = "fleet";
    /// The requirement for a rate, for error messages.
    pub const RATE_RULE: &'static str = "give a number of bindings from 0 to 1000, such as 5 or 500m";

    /// Returns whether the text is a rate: a quantity from 0 to 1000.
    pub fn is_rate(text: &str) -> bool {
        let most = i128::from(RATE_MAX) * 1_000_000_000;
        text.parse::<k8s::Quantity>().is_ok_and(|rate| (0..=most).contains(&rate.nanos()))
    }
}

/// Maximum number of bindings evicted per second. Each eviction writes a binding and schedules it;
/// a higher rate would leave no capacity for other writes.
const RATE_MAX: i64 = 1_000;

/// The rate, and the time at which it expires.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EvictionLimitSpec {
    /// Bindings to evict per second, 0 to 1000, such as `5` or `500m`. 0 holds all evictions. The
    /// rate applies regardless of the number of clusters that are not ready.
    pub bindings_per_second: Quantity,
    /// Time at which the flags apply again. Absent: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Time>,
    /// The reason for the rate, for other users.
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
