//! Decides when a finished WorkloadRebalancer is deleted. Pure.

use ballast_api::karmada::apps::v1alpha1::{WorkloadRebalancerSpec, WorkloadRebalancerStatus};
use ballast_k8s::Time;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expiry {
    /// The rebalancer stays until it changes.
    Keep,
    /// The rebalancer expires in this many seconds.
    Wait {
        seconds: i64,
    },
    Delete,
    /// The finish time is in the future, because the clock was set back. A new one bounds the
    /// remaining time to the time to live.
    ResetFinishTime,
}

pub fn plan(generation: i64, spec: &WorkloadRebalancerSpec, status: &WorkloadRebalancerStatus, now: Time) -> Expiry {
    let Some(ttl_seconds) = spec.ttl_seconds_after_finished else { return Expiry::Keep };
    let Some(finished) = finished_at(generation, status) else { return Expiry::Keep };
    if finished > now {
        return Expiry::ResetFinishTime;
    }
    let expires = finished.plus_seconds(i64::from(ttl_seconds));
    if expires <= now {
        return Expiry::Delete;
    }
    Expiry::Wait { seconds: expires.seconds() - now.seconds() }
}

/// Returns the finish time if every workload has a result for the current spec (R88).
fn finished_at(generation: i64, status: &WorkloadRebalancerStatus) -> Option<Time> {
    let is_current = status.observed_generation == Some(generation);
    let is_complete = status.observed_workloads.iter().all(|observed| observed.result.is_some());
    status.finish_time.filter(|_| is_current && is_complete)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ballast_api::karmada::apps::v1alpha1::{ObservedWorkload, RebalanceResult};

    fn plan_at(ttl: Option<i32>, finished: Option<i64>, now: i64) -> Expiry {
        let spec = WorkloadRebalancerSpec { ttl_seconds_after_finished: ttl, ..WorkloadRebalancerSpec::default() };
        let status = WorkloadRebalancerStatus {
            observed_generation: Some(1),
            finish_time: finished.map(Time::from_seconds),
            observed_workloads: vec![ObservedWorkload {
                result: Some(RebalanceResult::Failed),
                ..ObservedWorkload::default()
            }],
        };
        plan(1, &spec, &status, Time::from_seconds(now))
    }

    #[test]
    fn r84_it_goes_when_the_time_to_live_has_passed_since_it_finished() {
        assert_eq!(plan_at(Some(60), Some(100), 159), Expiry::Wait { seconds: 1 });
        assert_eq!(plan_at(Some(60), Some(100), 160), Expiry::Delete);
        assert_eq!(plan_at(Some(0), Some(100), 100), Expiry::Delete);
        assert_eq!(plan_at(None, Some(100), 9_999), Expiry::Keep);
        assert_eq!(plan_at(Some(0), None, 100), Expiry::Keep);
    }

    #[test]
    fn a_clock_that_was_set_back_does_not_lengthen_its_life() {
        assert_eq!(plan_at(Some(60), Some(3_700), 100), Expiry::ResetFinishTime);
        assert_eq!(plan_at(None, Some(3_700), 100), Expiry::Keep);
    }

    #[test]
    fn r88_it_is_not_finished_while_a_result_is_missing_or_of_an_older_spec() {
        let spec = WorkloadRebalancerSpec { ttl_seconds_after_finished: Some(0), ..WorkloadRebalancerSpec::default() };
        let finished = WorkloadRebalancerStatus {
            observed_generation: Some(1),
            finish_time: Some(Time::from_seconds(1)),
            ..WorkloadRebalancerStatus::default()
        };
        let now = Time::from_seconds(9);
        assert_eq!(plan(1, &spec, &finished, now), Expiry::Delete);
        assert_eq!(plan(2, &spec, &finished, now), Expiry::Keep);
        let missing =
            WorkloadRebalancerStatus { observed_workloads: vec![ObservedWorkload::default()], ..finished.clone() };
        assert_eq!(plan(1, &spec, &missing, now), Expiry::Keep);
    }
}
