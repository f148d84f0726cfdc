//! The rules that a division ignores and its targets violate (T4): spread constraints with static
//! weights or specified replicas, and free capacity with static weights.
//!
//! Differs from Karmada (D85), which also ignores them, but does not report the violations.

use std::collections::BTreeSet;

use super::cluster::{Cluster, amount, counted};
use super::pass::Pass;
use super::placement::{Division, SpreadBy, SpreadConstraint};
use super::request::{Request, Target};

/// The most clusters that a message names. There may be thousands.
const CLUSTERS_TOLD_MAX: usize = 3;

impl Pass {
    /// Describes the ignored rules that these targets violate. `None` if there are none.
    pub fn unkept(&self, request: &Request, targets: &[Target]) -> Option<String> {
        let placement = request.placement.as_deref()?;
        if !self.profile.deviates() || !placement.ignores_spread() || !request.is_divisible() {
            return None;
        }
        let used: Vec<(&Cluster, i64)> = targets
            .iter()
            .filter(|target| target.replicas > 0)
            .filter_map(|target| Some((&**self.fleet.find(&target.name)?, i64::from(target.replicas))))
            .collect();
        let (by_weight, division) = match &placement.division {
            Division::Static(_) => (true, "static weights"),
            _ => (false, "specified replicas"),
        };
        let broken: Vec<String> =
            placement.spread_in_force().filter_map(|constraint| breach(constraint, &used)).collect();
        let full = if by_weight { self.overfull(request, &used) } else { Vec::new() };
        let mut told = Vec::new();
        if !broken.is_empty() {
            told.push(format!("do not keep the spread constraint by {}", broken.join(", nor by ")));
        }
        if !full.is_empty() {
            let more = match full.len().saturating_sub(CLUSTERS_TOLD_MAX) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let named = full[..full.len().min(CLUSTERS_TOLD_MAX)].join("; ");
            told.push(format!("do not look at room ({named}{more})"));
        }
        (!told.is_empty()).then(|| format!("{division} {}", told.join(", and ")))
    }

    /// Describes the clusters that have more replicas than capacity.
    fn overfull(&self, request: &Request, used: &[(&Cluster, i64)]) -> Vec<String> {
        let one = |(cluster, replicas): &(&Cluster, i64)| {
            let room = room(cluster, request)?;
            (room < *replicas).then(|| format!("{}: {replicas} replicas, room for {room}", cluster.name))
        };
        used.iter().filter_map(one).collect()
    }
}

/// Returns the number of replicas of the workload that fit on a cluster, including those already on
/// it (RM1 counts them as used). `None` if the capacity is unknown or counted by nodes.
fn room(cluster: &Cluster, request: &Request) -> Option<i64> {
    let capacity = cluster.capacity.as_ref().filter(|capacity| capacity.grades.is_none())?;
    let own = request.replicas_on(&cluster.name);
    let mut room = capacity.pods.saturating_add(own);
    let amounts = request.requirements.as_ref().map_or(&[][..], |requirements| &requirements.amounts);
    for (name, each) in amounts {
        let each = counted(name, *each).max(1);
        let free = amount(&capacity.free, name).map_or(0, |free| counted(name, free));
        room = room.min(free.saturating_add(each.saturating_mul(own)).div_euclid(each));
    }
    Some(room.max(0))
}

/// Describes how the clusters violate a constraint. `None` if they keep it.
fn breach(constraint: &SpreadConstraint, used: &[(&Cluster, i64)]) -> Option<String> {
    let SpreadConstraint { by, min, max } = constraint;
    let groups: BTreeSet<&str> = used.iter().filter_map(|(cluster, _)| group(by, cluster)).collect();
    let groups = groups.len() as i64;
    let replicas: i64 = used.iter().map(|(_, replicas)| replicas).sum();
    if groups < (*min).min(replicas) {
        return Some(format!("{by} (at least {min}, and there are {groups})"));
    }
    (*max > 0 && groups > *max).then(|| format!("{by} (at most {max}, and there are {groups})"))
}

fn group<'c>(by: &SpreadBy, cluster: &'c Cluster) -> Option<&'c str> {
    let value = match by {
        SpreadBy::Cluster => &*cluster.name,
        SpreadBy::Region => &*cluster.region,
        SpreadBy::Provider => &*cluster.provider,
        SpreadBy::Zone => cluster.zones.iter().find(|zone| !zone.is_empty()).map_or("", |zone| &**zone),
        SpreadBy::Label(key) => cluster.label(key).unwrap_or_default(),
    };
    Some(value).filter(|value| !value.is_empty())
}
