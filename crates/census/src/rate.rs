//! The number of bindings that are evicted per second. The server's flags determine it, or an
//! EvictionLimit, which takes effect without a restart.

use ballast_api::ballast::v1alpha1::{EvictionLimit, SET_BY};
use ballast_k8s::{GroupResource, Key, Quantity, Time};
use ballast_watch::View;

pub const EVICTION_LIMITS: GroupResource = GroupResource::new("evictionlimits.ballast.dev");

/// The name of the only EvictionLimit that has an effect.
pub const EVICTION_LIMIT: &str = EvictionLimit::NAME;

/// Evictions per second.
///
/// If most clusters are not ready, the fault is more likely in the control plane. Then a large
/// fleet is evicted slowly, and a small one not at all. The rules and numbers are upstream's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EvictionRate {
    pub per_second: f64,
    /// The rate while more than `unhealthy_share` of the clusters in a large fleet are not ready.
    pub secondary_per_second: f64,
    pub unhealthy_share: f64,
    /// The most clusters of a small fleet.
    pub large_fleet: usize,
}

impl Default for EvictionRate {
    /// Returns upstream's numbers.
    fn default() -> EvictionRate {
        EvictionRate { per_second: 0.5, secondary_per_second: 0.1, unhealthy_share: 0.55, large_fleet: 10 }
    }
}

impl EvictionRate {
    pub fn of_fleet(self, clusters: usize, unready: usize) -> f64 {
        match self.is_mostly_unready(clusters, unready) {
            false => self.per_second,
            true if clusters > self.large_fleet => self.secondary_per_second,
            true => 0.0,
        }
    }

    fn is_mostly_unready(self, clusters: usize, unready: usize) -> bool {
        clusters > 0 && unready as f64 / clusters as f64 > self.unhealthy_share
    }
}

/// The source of the eviction rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateSource {
    /// The flags of the server.
    Flags,
    /// The flags, for a fleet with more unready clusters than the threshold.
    MostlyUnready,
    /// The EvictionLimit.
    Limit,
}

/// The effective rate.
#[derive(Clone, Debug, PartialEq)]
pub struct RateInForce {
    pub per_second: f64,
    pub source: RateSource,
    /// The end of the EvictionLimit.
    pub until: Option<Time>,
    /// The user who created the EvictionLimit, and the reason in its note.
    pub set_by: Option<String>,
    pub note: Option<String>,
}

impl RateInForce {
    /// Returns the effective rate. An EvictionLimit is the decision of a person, so it applies
    /// regardless of how many clusters are not ready.
    pub fn of(view: &View, flags: EvictionRate, clusters: usize, unready: usize, now: Time) -> RateInForce {
        let limit = view.get(&Key::cluster(EVICTION_LIMITS, EVICTION_LIMIT));
        let limit = limit.filter(|object| !object.deleting).and_then(|object| object.typed::<EvictionLimit>().ok());
        let limit = limit.filter(|limit| limit.spec.expires_at.is_none_or(|end| end > now));
        let stated = limit.and_then(|limit| {
            let rate: Quantity = limit.spec.bindings_per_second.text().parse().ok()?;
            Some(RateInForce {
                per_second: (rate.nanos() as f64 / 1e9).max(0.0),
                source: RateSource::Limit,
                until: limit.spec.expires_at,
                set_by: limit.metadata.annotations.get(SET_BY).cloned(),
                note: limit.spec.note.clone().filter(|note| !note.is_empty()),
            })
        });
        if let Some(stated) = stated {
            return stated;
        }
        let source = match flags.is_mostly_unready(clusters, unready) {
            true => RateSource::MostlyUnready,
            false => RateSource::Flags,
        };
        let per_second = flags.of_fleet(clusters, unready);
        RateInForce { per_second, source, until: None, set_by: None, note: None }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use ballast_k8s::{Object, Revision};

    #[test]
    fn ng2_a_limit_holds_until_it_expires_however_many_clusters_are_not_ready() {
        let key = Key::cluster(EVICTION_LIMITS, EVICTION_LIMIT);
        let spec = json!({"bindingsPerSecond": "2500m", "expiresAt": "2026-11-27T03:00:00Z", "note": "INC"});
        let metadata = json!({"name": "fleet", "annotations": {SET_BY: "otto"}});
        let tree = json!({"metadata": metadata, "spec": spec});
        let limit = Arc::new(Object::decode(key, Revision(1), tree.to_string().into()).unwrap());
        let (with, without) = (View::of([limit]), View::of([]));
        let at = |text: &str| text.parse::<Time>().unwrap();
        let rate = |view: &View, time: &str| RateInForce::of(view, EvictionRate::default(), 4, 4, at(time));
        let end = at("2026-11-27T03:00:00Z");
        let stated = RateInForce {
            per_second: 2.5,
            source: RateSource::Limit,
            until: Some(end),
            set_by: Some("otto".to_owned()),
            note: Some("INC".to_owned()),
        };
        assert_eq!(rate(&with, "2026-11-27T02:59:59Z"), stated);
        let source = RateSource::MostlyUnready;
        let halted = RateInForce { per_second: 0.0, source, until: None, set_by: None, note: None };
        assert_eq!(rate(&with, "2026-11-27T03:00:00Z"), halted);
        assert_eq!(rate(&without, "2026-11-27T02:00:00Z"), halted);
    }

    #[test]
    fn a_fleet_that_is_mostly_not_ready_is_evicted_from_slowly_or_not_at_all() {
        let rate = EvictionRate::default();
        assert_eq!(rate.of_fleet(0, 0), 0.5);
        assert_eq!(rate.of_fleet(10, 5), 0.5);
        assert_eq!(rate.of_fleet(10, 6), 0.0);
        assert_eq!(rate.of_fleet(11, 7), 0.1);
    }
}
