//! Decides the taints of a cluster from its current state. Pure.
//!
//! A cluster that is not ready gets no new workloads, and after a while its workloads are evicted.
//! The taint is `cluster.karmada.io/not-ready` if the cluster reports that itself, and
//! `unreachable` if its state is unknown. A cluster that never reported keeps its taints. All other
//! taints are kept as well: a NoExecute taint with one of these keys but without the corresponding
//! NoSchedule taint was set by another client.

use ballast_api::core::{Taint, TaintEffect};
use ballast_api::karmada::cluster::v1alpha1::{Cluster, NOT_READY, UNREACHABLE, is_no_execute, is_undated};
use ballast_k8s::Time;

/// Handling of clusters that are not ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unready {
    Ignored,
    /// The cluster is tainted, and after this many seconds its workloads are evicted.
    Tainted {
        evicted_after_seconds: i64,
    },
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaintPlan {
    /// The taints to write; `None` if the cluster already has them.
    pub taints: Option<Vec<Taint>>,
    /// The time at which the next taint is due.
    pub next_check: Option<Time>,
}

pub fn plan(cluster: &Cluster, unready: Unready, now: Time) -> TaintPlan {
    let mut taints = cluster.spec.taints.clone();
    // Toleration seconds count from this time. A time in the future comes from a clock that was set
    // back.
    let is_ahead = |taint: &Taint| is_no_execute(taint) && taint.time_added > Some(now);
    for taint in taints.iter_mut().filter(|taint| is_undated(taint) || is_ahead(taint)) {
        taint.time_added = Some(now);
    }
    let mut next_check = None;
    let ready = cluster.status.conditions.iter().find(|condition| condition.type_ == "Ready");
    if let (Unready::Tainted { evicted_after_seconds }, Some(ready)) = (unready, ready) {
        let wanted = match ready.status.as_str() {
            "True" => None,
            "False" => Some((NOT_READY, UNREACHABLE)),
            _ => Some((UNREACHABLE, NOT_READY)),
        };
        let evicts_from = ready.last_transition_time.plus_seconds(evicted_after_seconds);
        match wanted {
            None => [NOT_READY, UNREACHABLE].into_iter().for_each(|key| drop(take(&mut taints, key))),
            Some((key, other)) => {
                next_check = (now < evicts_from).then_some(evicts_from);
                taint_as(&mut taints, key, other, now, evicts_from);
            }
        }
    }
    TaintPlan { next_check, taints: (taints != cluster.spec.taints).then_some(taints) }
}

/// Sets the taints of one key and removes those of the other. If the other key already evicted, the
/// new taint takes over the time of that eviction.
fn taint_as(taints: &mut Vec<Taint>, key: &str, other: &str, now: Time, evicts_from: Time) {
    let gone = take(taints, other);
    let evicted = gone.iter().find(|taint| taint.effect == TaintEffect::NoExecute);
    let evicts = evicted.is_some() || evicts_from <= now;
    let since = evicted.and_then(|taint| taint.time_added);
    for effect in [TaintEffect::NoSchedule, TaintEffect::NoExecute] {
        let is_there = taints.iter().any(|taint| taint.key == key && taint.effect == effect);
        let is_due = effect == TaintEffect::NoSchedule || evicts;
        if !is_there && is_due {
            let time_added = (effect == TaintEffect::NoExecute).then_some(since.unwrap_or(now));
            taints.push(Taint { key: key.to_owned(), value: None, effect, time_added });
        }
    }
}

/// Removes the taints that this controller set under this key: NoSchedule and its NoExecute.
fn take(taints: &mut Vec<Taint>, key: &str) -> Vec<Taint> {
    if !taints.iter().any(|taint| taint.key == key && taint.effect == TaintEffect::NoSchedule) {
        return Vec::new();
    }
    let is_ours = |taint: &mut Taint| {
        taint.key == key && matches!(taint.effect, TaintEffect::NoSchedule | TaintEffect::NoExecute)
    };
    taints.extract_if(.., is_ours).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ballast_api::meta::Condition;

    const UNREADY: Unready = Unready::Tainted { evicted_after_seconds: 300 };

    fn cluster(ready: Option<(&str, i64)>, taints: &[Taint]) -> Cluster {
        let mut cluster = Cluster::default();
        cluster.spec.taints = taints.to_vec();
        cluster.status.conditions.extend(ready.map(|(status, since)| Condition {
            type_: "Ready".to_owned(),
            status: status.to_owned(),
            last_transition_time: Time::from_seconds(since),
            ..Condition::default()
        }));
        cluster
    }

    fn taint(key: &str, effect: TaintEffect, added: Option<i64>) -> Taint {
        Taint { key: key.to_owned(), value: None, effect, time_added: added.map(Time::from_seconds) }
    }

    fn at(seconds: i64) -> Time {
        Time::from_seconds(seconds)
    }

    #[test]
    fn a_cluster_that_is_not_ready_takes_nothing_new_and_after_a_while_loses_what_it_has() {
        let fresh = plan(&cluster(Some(("False", 100)), &[]), UNREADY, at(110));
        let no_schedule = taint(NOT_READY, TaintEffect::NoSchedule, None);
        assert_eq!(fresh, TaintPlan { taints: Some(vec![no_schedule.clone()]), next_check: Some(at(400)) });
        let tainted = cluster(Some(("False", 100)), std::slice::from_ref(&no_schedule));
        assert_eq!(plan(&tainted, UNREADY, at(399)), TaintPlan { taints: None, next_check: Some(at(400)) });
        let late = plan(&tainted, UNREADY, at(400));
        assert_eq!(late.taints.unwrap(), [no_schedule, taint(NOT_READY, TaintEffect::NoExecute, Some(400))]);
        assert_eq!(late.next_check, None);
    }

    #[test]
    fn the_other_key_gives_way_and_an_eviction_goes_on_since_when_it_was() {
        let before =
            [taint(NOT_READY, TaintEffect::NoSchedule, None), taint(NOT_READY, TaintEffect::NoExecute, Some(5))];
        let plan = plan(&cluster(Some(("Unknown", 100)), &before), UNREADY, at(110));
        let after =
            [taint(UNREACHABLE, TaintEffect::NoSchedule, None), taint(UNREACHABLE, TaintEffect::NoExecute, Some(5))];
        assert_eq!(plan.taints.unwrap(), after);
    }

    #[test]
    fn a_cluster_that_is_ready_again_loses_these_taints_and_no_others() {
        let own = taint("gpu", TaintEffect::NoSchedule, None);
        let soft = taint(NOT_READY, TaintEffect::PreferNoSchedule, None);
        let before = [
            own.clone(),
            taint(NOT_READY, TaintEffect::NoSchedule, None),
            taint(NOT_READY, TaintEffect::NoExecute, Some(5)),
            soft.clone(),
            taint(UNREACHABLE, TaintEffect::NoSchedule, None),
        ];
        assert_eq!(plan(&cluster(Some(("True", 1)), &before), UNREADY, at(9)).taints.unwrap(), [own, soft]);
    }

    #[test]
    fn a_cluster_that_says_nothing_is_left_alone_and_so_is_every_one_where_taints_are_somebody_else_s() {
        let by_hand = [taint(NOT_READY, TaintEffect::NoExecute, Some(5))];
        assert_eq!(plan(&cluster(None, &by_hand), UNREADY, at(9)), TaintPlan::default());
        assert_eq!(plan(&cluster(Some(("True", 1)), &by_hand), UNREADY, at(9)), TaintPlan::default());
        let not_ready = [taint(NOT_READY, TaintEffect::NoSchedule, None)];
        assert_eq!(plan(&cluster(Some(("True", 1)), &not_ready), Unready::Ignored, at(9)), TaintPlan::default());
    }

    #[test]
    fn an_undated_taint_is_dated_and_so_is_one_from_the_future() {
        let ahead = [taint("down", TaintEffect::NoExecute, Some(999))];
        let dated = plan(&cluster(None, &ahead), Unready::Ignored, at(9)).taints.unwrap();
        assert_eq!(dated, [taint("down", TaintEffect::NoExecute, Some(9))]);
        let undated = [taint("down", TaintEffect::NoExecute, None)];
        let dated = plan(&cluster(None, &undated), Unready::Ignored, at(9)).taints.unwrap();
        assert_eq!(dated, [taint("down", TaintEffect::NoExecute, Some(9))]);
    }
}
