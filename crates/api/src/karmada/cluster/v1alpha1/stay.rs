//! The time that a workload may stay on a cluster with NoExecute taints.
//!
//! Each such taint must be tolerated. The time of a toleration with `tolerationSeconds` starts at
//! the taint's `timeAdded`. If several tolerations match a taint, the first one counts, as in
//! Kubernetes. Eviction and scheduling both use this module. If they disagreed, the scheduler would
//! bring back what an eviction removed.

use crate::core::{Taint, TaintEffect, Toleration};
use ballast_k8s::{Time, taint};

/// The time that a workload may stay on a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stay {
    ForEver,
    Until(Time),
    NoLonger,
}

impl Stay {
    /// Returns the time that a workload with these tolerations may stay on a cluster with these
    /// taints. Only NoExecute taints count.
    pub fn of(taints: &[Taint], tolerations: &[Toleration], now: Time) -> Stay {
        let mut stay = Stay::ForEver;
        for taint in taints.iter().filter(|taint| is_no_execute(taint)) {
            let Some(toleration) = tolerations.iter().find(|toleration| tolerates(toleration, taint)) else {
                return Stay::NoLonger;
            };
            let Some(seconds) = toleration.toleration_seconds else { continue };
            // A taint without a time counts as added now, until it gets one (see `is_undated`).
            let end = taint.time_added.unwrap_or(now).plus_seconds(seconds.max(0));
            stay = match stay {
                Stay::Until(other) => Stay::Until(other.min(end)),
                Stay::ForEver | Stay::NoLonger => Stay::Until(end),
            };
        }
        stay
    }

    /// Returns the time, past or future, from which the taints evict a workload with these
    /// tolerations. Returns `None` if the workload may stay. A taint without a time counts as added
    /// now.
    pub fn ends(taints: &[Taint], tolerations: &[Toleration], now: Time) -> Option<Time> {
        let ends = taints.iter().filter(|taint| is_no_execute(taint)).filter_map(|taint| {
            let added = taint.time_added.unwrap_or(now);
            match tolerations.iter().find(|toleration| tolerates(toleration, taint)) {
                None => Some(added),
                Some(toleration) => toleration.toleration_seconds.map(|seconds| added.plus_seconds(seconds.max(0))),
            }
        });
        ends.min()
    }

    /// Returns whether the workload must have left the cluster by `now`.
    pub fn is_over(self, now: Time) -> bool {
        match self {
            Stay::ForEver => false,
            Stay::Until(end) => end <= now,
            Stay::NoLonger => true,
        }
    }
}

pub fn is_no_execute(taint: &Taint) -> bool {
    taint.effect == TaintEffect::NoExecute
}

/// Returns whether a NoExecute taint has no `timeAdded`, so that `tolerationSeconds` has no start.
pub fn is_undated(taint: &Taint) -> bool {
    is_no_execute(taint) && taint.time_added.is_none()
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
