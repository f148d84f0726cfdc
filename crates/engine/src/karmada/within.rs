//! Divides replicas within the bounds of clusters, so that all constraints hold (S7).

use super::bounds::Limit;
use super::candidate::Candidate;
use super::question::{Question, Site};
use super::request::Target;
use super::search::Found;
use super::settle::Settlement;
use super::share::{self, Part};

/// The most clusters that a message names. There may be thousands.
const CLUSTERS_TOLD_MAX: usize = 3;

/// A division within bounds.
pub(super) struct Divided {
    pub targets: Vec<Target>,
    /// The candidates that could be used.
    pub open: Vec<Candidate>,
}

impl Settlement<'_, '_> {
    /// Divides within the bounds, so that all constraints hold. The error is true if this is proven
    /// to be impossible.
    pub fn divide(&self, steps: &mut usize) -> Result<Divided, bool> {
        let (order, mut question) = self.question();
        let answer = question.answer(steps);
        let mut found = answer.found.ok_or(answer.exact)?;
        // Earlier tiers take precedence over fewer clusters.
        let has_tiers = order.iter().any(|candidate| candidate.tier > 0);
        if self.aggregates() && !has_tiers {
            let cluster = self.cluster_dimension(&mut question);
            let fewest = question.fewest(cluster, found.kept, found.open.len(), steps);
            found = fewest.unwrap_or(found);
        }
        Ok(self.divided(&order, &question, found))
    }

    /// Divides as many replicas as possible without moving any. `None` if some of the current
    /// replicas cannot stay.
    pub fn divide_most(&self, steps: &mut usize) -> Option<Divided> {
        let (order, question) = self.question();
        let there: i64 = self.candidates.iter().map(|candidate| i64::from(candidate.own.max(0))).sum();
        let kept: i64 = question.sites.iter().map(|site| site.own).sum();
        let found = if kept < there { None } else { question.most(steps) };
        found.map(|found| self.divided(&order, &question, found))
    }

    /// Divides the replicas of a solution.
    fn divided(&self, order: &[Candidate], question: &Question, found: Found) -> Divided {
        let uses_each = question.has_least();
        let part = |site: &usize| {
            let candidate = &order[*site];
            let Site { own, room, least } = question.sites[*site];
            let weight = self.free(candidate);
            let floor = if uses_each { least.max(1) } else { i64::from(found.core.contains(site)) };
            Part { rank: candidate.rank, own, floor, most: own + room, weight, tier: candidate.tier }
        };
        let parts: Vec<Part> = found.open.iter().map(part).collect();
        let shares = share::divide(&parts, found.placed, &self.context.request.resource.uid);
        let fleet = self.context.fleet;
        let target = |(site, replicas): (&usize, i64)| Target {
            name: fleet.cluster(order[*site].index()).name.clone(),
            replicas: i32::try_from(replicas).unwrap_or(i32::MAX),
            components: Vec::new(),
        };
        let used = found.open.iter().zip(shares).filter(|(_, replicas)| *replicas > 0);
        let mut targets: Vec<Target> = used.map(target).collect();
        targets.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Divided { targets, open: found.open.iter().map(|site| order[*site]).collect() }
    }

    /// Describes why no division is allowed, as far as bounds and capacity alone are the reason.
    pub fn beyond_bounds(&self) -> String {
        let wanted = self.wanted();
        let all = |of: &dyn Fn(&Candidate) -> i64| self.candidates.iter().map(of).fold(0, i64::saturating_add);
        let fleet = self.context.fleet;
        let room = all(&|candidate| {
            self.free(candidate).max(0) + i64::from(candidate.own.max(0)) * i64::from(self.is_steady())
        });
        if room < wanted {
            return format!("Clusters available replicas {room} are not enough to schedule.");
        }
        let useful: Vec<&Candidate> = self.candidates.iter().filter(|candidate| self.has_enough(candidate)).collect();
        if useful.is_empty() {
            let lacks = |candidate: &Candidate| {
                let (name, Limit { min, max }) = (&fleet.cluster(candidate.index()).name, self.limit(candidate));
                match max < min {
                    true => format!("{name} must have at least {min} and at most {max}"),
                    false => {
                        let most = self.own(candidate) + self.room(candidate);
                        format!("{name} must have at least {min}, and can have {most}")
                    }
                }
            };
            let told: Vec<String> = self.candidates.iter().take(CLUSTERS_TOLD_MAX).map(lacks).collect();
            let more = if self.candidates.len() > told.len() { ", and so on" } else { "" };
            return format!("clusterBounds let no cluster have any replica: {}{more}", told.join(", "));
        }
        let most =
            useful.iter().map(|candidate| self.own(candidate) + self.room(candidate)).fold(0, i64::saturating_add);
        let least = useful.iter().map(|candidate| self.limit(candidate).min).min().unwrap_or(0);
        if most < wanted {
            let (count, all) = (useful.len(), self.candidates.len());
            return format!("clusterBounds let {count} of {all} clusters have {most} of {wanted} replicas at most");
        }
        if least > wanted {
            return format!("clusterBounds give each cluster {least} replicas at least, and the workload has {wanted}");
        }
        format!("no division of {wanted} replicas keeps clusterBounds")
    }

    /// Returns whether the workload could be placed without bounds.
    pub fn bounds_are_to_blame(&self, steps: &mut usize) -> bool {
        let free = Settlement::new(self.context, self.candidates, &[]);
        !self.bounded.is_empty() && free.question().1.answer(steps).found.is_some()
    }
}
