//! Decides which clusters a binding must leave, and when to check it again. Pure.
//!
//! A binding leaves a cluster that is being deleted, and a cluster with NoExecute taints that end
//! its stay (`Stay`). It leaves a tainted cluster by an eviction, and a deleted one without. It
//! does not leave a cluster that does not exist here.

use ballast_api::core::{Taint, Toleration};
use ballast_api::karmada::cluster::v1alpha1::Stay;
use ballast_k8s::Time;

/// The state of a cluster that a binding is placed on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum HostCluster<'a> {
    There {
        taints: &'a [Taint],
    },
    /// The cluster is being deleted, and the binding may be moved.
    Deleted,
    /// There is no such Cluster object. As upstream, the target is kept.
    Unknown,
}

/// The reason to leave a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EvictionReason {
    Deleted,
    Tainted,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EvictionPlan {
    /// The clusters to leave, in the order of the binding's targets.
    pub leave: Vec<(String, EvictionReason)>,
    /// The time at which the next toleration expires.
    pub next_check: Option<Time>,
}

impl EvictionPlan {
    /// Returns whether a taint evicts the binding. Such evictions are rate-limited.
    pub fn evicts(&self) -> bool {
        self.leave.iter().any(|(_, why)| *why == EvictionReason::Tainted)
    }
}

pub fn plan<'a>(
    hosts: impl IntoIterator<Item = (&'a str, HostCluster<'a>)>,
    tolerations: &[Toleration],
    now: Time,
) -> EvictionPlan {
    let mut plan = EvictionPlan::default();
    for (name, host) in hosts {
        let taints = match host {
            HostCluster::There { taints } => taints,
            HostCluster::Deleted => {
                plan.leave.push((name.to_owned(), EvictionReason::Deleted));
                continue;
            }
            HostCluster::Unknown => continue,
        };
        let stay = Stay::of(taints, tolerations, now);
        if stay.is_over(now) {
            plan.leave.push((name.to_owned(), EvictionReason::Tainted));
        } else if let Stay::Until(end) = stay {
            plan.next_check = Some(plan.next_check.map_or(end, |other| other.min(end)));
        }
    }
    plan
}

#[cfg(test)]
mod tests {
    use super::*;
    use ballast_api::core::TaintEffect;

    fn at(seconds: i64) -> Time {
        Time::from_seconds(seconds)
    }

    fn taint(key: &str, effect: TaintEffect, added: Option<i64>) -> Taint {
        Taint { key: key.to_owned(), value: None, effect, time_added: added.map(at) }
    }

    fn tolerate(key: &str, seconds: Option<i64>) -> Toleration {
        Toleration {
            key: Some(key.to_owned()),
            operator: Some("Exists".to_owned()),
            toleration_seconds: seconds,
            ..Toleration::default()
        }
    }

    fn plan_at(taints: &[Taint], tolerations: &[Toleration], now: i64) -> EvictionPlan {
        plan([("member1", HostCluster::There { taints })], tolerations, at(now))
    }

    #[test]
    fn an_untolerated_no_execute_taint_evicts_at_once() {
        let plan = plan_at(&[taint("down", TaintEffect::NoExecute, Some(5))], &[tolerate("other", None)], 5);
        assert_eq!(plan.leave, [("member1".to_owned(), EvictionReason::Tainted)]);
    }

    #[test]
    fn other_effects_do_not_evict() {
        let taints = [taint("a", TaintEffect::NoSchedule, None), taint("b", TaintEffect::PreferNoSchedule, None)];
        assert_eq!(plan_at(&taints, &[], 5), EvictionPlan::default());
    }

    #[test]
    fn toleration_seconds_count_from_when_the_taint_was_added() {
        let taints = [taint("down", TaintEffect::NoExecute, Some(100))];
        let tolerations = [tolerate("down", Some(30))];
        assert_eq!(plan_at(&taints, &tolerations, 129), EvictionPlan { leave: vec![], next_check: Some(at(130)) });
        assert_eq!(plan_at(&taints, &tolerations, 130).leave.len(), 1);
    }

    #[test]
    fn a_toleration_without_seconds_holds_for_ever() {
        let taints = [taint("down", TaintEffect::NoExecute, Some(100))];
        assert_eq!(plan_at(&taints, &[tolerate("down", None)], 999_999), EvictionPlan::default());
    }

    #[test]
    fn the_first_toleration_to_run_out_counts() {
        let taints =
            [taint("down", TaintEffect::NoExecute, Some(100)), taint("cut-off", TaintEffect::NoExecute, Some(110))];
        let tolerations = [tolerate("down", Some(300)), tolerate("cut-off", Some(20))];
        assert_eq!(plan_at(&taints, &tolerations, 120).next_check, Some(at(130)));
    }

    #[test]
    fn a_deleted_cluster_is_left_and_an_unknown_one_is_not() {
        let hosts = [
            ("member1", HostCluster::Deleted),
            ("member2", HostCluster::There { taints: &[] }),
            ("member3", HostCluster::Unknown),
        ];
        let plan = plan(hosts, &[], at(0));
        assert_eq!(plan.leave, [("member1".to_owned(), EvictionReason::Deleted)]);
        assert!(!plan.evicts());
    }
}
