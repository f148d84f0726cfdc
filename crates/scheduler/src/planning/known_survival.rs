//! The latest results of the replicas that the loss of each domain would strand. The metric
//! computes them in the background. A review returns them with their time if its own computation
//! takes too long.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use ballast_api::ballast::v1alpha1::{DomainSurvival, FailureDomain};
use ballast_k8s::{Revision, Time};
use ballast_watch::Cache;

/// A result for all workloads, without hypothetical changes.
#[derive(Clone, Debug)]
pub struct KnownAnswer {
    /// The revision and time of the view that was evaluated.
    pub revision: Revision,
    pub time: Time,
    pub workloads: i64,
    pub domains: Vec<DomainSurvival>,
}

/// The latest result for each kind of domain. It is a companion of the cache.
#[derive(Default)]
pub struct KnownSurvival(Mutex<BTreeMap<FailureDomain, Arc<KnownAnswer>>>);

impl KnownSurvival {
    pub fn of(cache: &Cache) -> Arc<KnownSurvival> {
        cache.companion(KnownSurvival::default)
    }

    pub fn get(&self, by: FailureDomain) -> Option<Arc<KnownAnswer>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&by).cloned()
    }

    /// Stores the result, unless a later one is known.
    pub fn put(&self, by: FailureDomain, answer: KnownAnswer) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.get(&by).is_none_or(|known| known.time <= answer.time) {
            known.insert(by, Arc::new(answer));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_about_the_later_time_is_kept() {
        let known = KnownSurvival::default();
        let answer = |time: &str| {
            let time = time.parse().unwrap();
            KnownAnswer { revision: Revision(1), time, workloads: 1, domains: Vec::new() }
        };
        for time in ["2026-11-28T15:00:05Z", "2026-11-28T15:00:01Z"] {
            known.put(FailureDomain::Region, answer(time));
        }
        assert_eq!(known.get(FailureDomain::Region).unwrap().time, "2026-11-28T15:00:05Z".parse().unwrap());
        assert!(known.get(FailureDomain::Cluster).is_none());
    }
}
