//! Which clusters a binding must leave, and when to look again. Pure.
//!
//! A cluster is left when it is gone, or when it carries a NoExecute taint that the binding's placement
//! does not tolerate, or no longer (`tolerationSeconds` counts from the taint's `timeAdded`). Of several
//! tolerations that fit a taint the first one counts, as in Kubernetes.
//!
//! Room is left for graceful eviction: a plan says why each cluster is left, so that a task can be
//! written in place of the removal.

use crate::api::core::{Taint, TaintEffect, Toleration};
use crate::k8s::{Time, taint};

/// What is known of a cluster that a binding runs on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Host<'a> {
    There { taints: &'a [Taint] },
    Gone,
}

/// Why a cluster is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    Gone,
    Tainted,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The clusters to leave, in the order of the binding's.
    pub leave: Vec<(String, Why)>,
    /// When the next toleration runs out.
    pub look_again: Option<Time>,
}

/// How long a binding may stay where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stay {
    ForEver,
    Until(Time),
    NoLonger,
}

pub fn plan<'a>(hosts: impl IntoIterator<Item = (&'a str, Host<'a>)>, tolerations: &[Toleration], now: Time) -> Plan {
    let mut plan = Plan::default();
    for (name, host) in hosts {
        let taints = match host {
            Host::There { taints } => taints,
            Host::Gone => {
                plan.leave.push((name.to_owned(), Why::Gone));
                continue;
            }
        };
        match stay(taints, tolerations, now) {
            Stay::ForEver => {}
            Stay::Until(end) if end > now => {
                plan.look_again = Some(plan.look_again.map_or(end, |other| other.min(end)));
            }
            Stay::Until(_) | Stay::NoLonger => plan.leave.push((name.to_owned(), Why::Tainted)),
        }
    }
    plan
}

/// A NoExecute taint without the time since when it is there: `tolerationSeconds` cannot be counted.
pub fn is_undated(taint: &Taint) -> bool {
    is_no_execute(taint) && taint.time_added.is_none()
}

pub fn is_no_execute(taint: &Taint) -> bool {
    taint.effect == TaintEffect::NoExecute
}

fn stay(taints: &[Taint], tolerations: &[Toleration], now: Time) -> Stay {
    let mut stay = Stay::ForEver;
    for taint in taints.iter().filter(|taint| is_no_execute(taint)) {
        let Some(toleration) = tolerations.iter().find(|toleration| tolerates(toleration, taint)) else {
            return Stay::NoLonger;
        };
        let Some(seconds) = toleration.toleration_seconds else { continue };
        // Until it is dated (`is_undated`), a taint counts as just added.
        let end = taint.time_added.unwrap_or(now).plus_seconds(seconds.max(0));
        stay = match stay {
            Stay::Until(other) => Stay::Until(other.min(end)),
            Stay::ForEver | Stay::NoLonger => Stay::Until(end),
        };
    }
    stay
}

fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    fn text(field: &Option<String>) -> &str {
        field.as_deref().unwrap_or_default()
    }
    let Toleration { key, operator, value, effect, toleration_seconds } = toleration;
    let toleration =
        taint::Toleration::from_parts(text(key), text(operator), text(value), text(effect), *toleration_seconds);
    let effect = match taint.effect {
        TaintEffect::NoSchedule => taint::Effect::NoSchedule,
        TaintEffect::PreferNoSchedule => taint::Effect::PreferNoSchedule,
        TaintEffect::NoExecute => taint::Effect::NoExecute,
    };
    toleration.tolerates(&taint::Taint { key: taint.key.as_str().into(), value: text(&taint.value).into(), effect })
}

#[cfg(test)]
mod tests {
    use super::*;

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

    fn plan_at(taints: &[Taint], tolerations: &[Toleration], now: i64) -> Plan {
        plan([("member1", Host::There { taints })], tolerations, at(now))
    }

    #[test]
    fn an_untolerated_no_execute_taint_evicts_at_once() {
        let plan = plan_at(&[taint("down", TaintEffect::NoExecute, Some(5))], &[tolerate("other", None)], 5);
        assert_eq!(plan.leave, [("member1".to_owned(), Why::Tainted)]);
    }

    #[test]
    fn other_effects_do_not_evict() {
        let taints = [taint("a", TaintEffect::NoSchedule, None), taint("b", TaintEffect::PreferNoSchedule, None)];
        assert_eq!(plan_at(&taints, &[], 5), Plan::default());
    }

    #[test]
    fn toleration_seconds_count_from_when_the_taint_was_added() {
        let taints = [taint("down", TaintEffect::NoExecute, Some(100))];
        let tolerations = [tolerate("down", Some(30))];
        assert_eq!(plan_at(&taints, &tolerations, 129), Plan { leave: vec![], look_again: Some(at(130)) });
        assert_eq!(plan_at(&taints, &tolerations, 130).leave.len(), 1);
    }

    #[test]
    fn a_toleration_without_seconds_holds_for_ever() {
        let taints = [taint("down", TaintEffect::NoExecute, Some(100))];
        assert_eq!(plan_at(&taints, &[tolerate("down", None)], 999_999), Plan::default());
    }

    #[test]
    fn the_first_toleration_to_run_out_counts() {
        let taints =
            [taint("down", TaintEffect::NoExecute, Some(100)), taint("cut-off", TaintEffect::NoExecute, Some(110))];
        let tolerations = [tolerate("down", Some(300)), tolerate("cut-off", Some(20))];
        assert_eq!(plan_at(&taints, &tolerations, 120).look_again, Some(at(130)));
    }

    #[test]
    fn a_cluster_that_is_gone_is_left() {
        let plan = plan([("member1", Host::Gone), ("member2", Host::There { taints: &[] })], &[], at(0));
        assert_eq!(plan.leave, [("member1".to_owned(), Why::Gone)]);
    }
}
