//! Searches for a small set of sites that satisfies the minimum number of groups in every
//! dimension.

use super::question::Question;

/// A search for sites that satisfy every minimum.
pub(super) struct Cover<'a> {
    question: &'a Question,
    open: &'a [usize],
    replicas: Option<i64>,
    /// The dimensions that need more than one group.
    dimensions: Vec<usize>,
    covered: Vec<Vec<bool>>,
    missing: Vec<usize>,
    pub steps: usize,
}

/// The steps of one search for a core. If the greedy result is not optimal, the search enumerates
/// sets of sites, and there are many of them.
const CORE_STEPS_MAX: usize = 50_000;

impl<'a> Cover<'a> {
    /// Creates a search for this number of replicas. `None` stands for copies.
    pub fn new(question: &'a Question, open: &'a [usize], replicas: Option<i64>) -> Cover<'a> {
        let least = if replicas.is_some() { 2 } else { 1 };
        let needed = |dimension: &usize| question.least_of(*dimension, replicas);
        let dimensions: Vec<usize> =
            (0..question.dimensions.len()).filter(|dimension| needed(dimension) >= least).collect();
        let covered = dimensions.iter().map(|dimension| vec![false; question.counts[*dimension]]).collect();
        let missing = dimensions.iter().map(needed).collect();
        let steps = question.counts.iter().sum();
        Cover { question, open, replicas, dimensions, covered, missing, steps }
    }

    /// Returns the number of missing groups that the site is in.
    fn gain(&self, site: usize) -> usize {
        let adds = |(at, dimension): (usize, &usize)| {
            self.missing[at] > 0 && !self.covered[at][self.question.group(site, *dimension)]
        };
        self.dimensions.iter().enumerate().filter(|dimension| adds(*dimension)).count()
    }

    /// Covers the groups of the site, and returns the dimensions in which the group was not covered
    /// before.
    fn cover(&mut self, site: usize) -> Vec<usize> {
        let mut new = Vec::new();
        for at in 0..self.dimensions.len() {
            let group = self.question.group(site, self.dimensions[at]);
            if !self.covered[at][group] {
                self.covered[at][group] = true;
                self.missing[at] = self.missing[at].saturating_sub(1);
                new.push(at);
            }
        }
        new
    }

    pub fn is_complete_with(&mut self, sites: &[usize]) -> bool {
        sites.iter().for_each(|site| drop(self.cover(*site)));
        self.missing.iter().all(|missing| *missing == 0)
    }

    /// Returns at most as many sites as replicas that satisfy every minimum, with as few new sites
    /// as possible.
    pub fn core(&mut self) -> Option<Vec<usize>> {
        let slots = usize::try_from(self.replicas.unwrap_or(0)).unwrap_or(0).min(self.open.len());
        if self.missing.iter().any(|missing| *missing > slots) {
            return None;
        }
        let held: Vec<usize> = self.open.iter().copied().filter(|site| self.question.sites[*site].own > 0).collect();
        // No core has fewer new sites than one dimension alone needs.
        let fewest_new = (0..self.dimensions.len()).map(|at| {
            let mut groups: Vec<usize> = held.iter().map(|s| self.question.group(*s, self.dimensions[at])).collect();
            groups.sort_unstable();
            groups.dedup();
            self.missing[at].saturating_sub(groups.len())
        });
        let fewest_new = fewest_new.max().unwrap_or(0);
        if let Some(core) = self.first_guess(&held)
            && core.len() <= slots
            && core.iter().filter(|site| self.question.sites[**site].own == 0).count() <= fewest_new
        {
            return Some(core);
        }
        self.exhaust(slots)
    }

    /// Takes sites that cover many missing groups, then sites that cover fewer. Sites with replicas
    /// come first.
    fn first_guess(&mut self, held: &[usize]) -> Option<Vec<usize>> {
        let (covered, missing, dimensions) = (self.covered.clone(), self.missing.clone(), self.dimensions.clone());
        let mut guess = Cover { covered, missing, dimensions, ..*self };
        let mut core = Vec::new();
        for sites in [held, self.open] {
            for least in (1..=self.dimensions.len()).rev() {
                self.steps += sites.len() * self.dimensions.len();
                for site in sites {
                    if guess.gain(*site) >= least {
                        guess.cover(*site);
                        core.push(*site);
                    }
                }
            }
        }
        let complete = guess.missing.iter().all(|missing| *missing == 0);
        complete.then_some(core)
    }

    /// Tries all sets of sites, and returns a set with the fewest new sites.
    fn exhaust(&mut self, slots: usize) -> Option<Vec<usize>> {
        let mut sites = self.open.to_vec();
        sites.sort_by_key(|site| self.question.sites[*site].own == 0);
        let is_new = |site: usize| self.question.sites[site].own == 0;
        let mut best: Option<(usize, Vec<usize>)> = None;
        // The sites taken so far, with the dimensions in which each covers a new group.
        let mut taken: Vec<(usize, Vec<usize>)> = Vec::new();
        let (mut new, mut from) = (0, 0);
        let most = self.steps + CORE_STEPS_MAX;
        loop {
            self.steps += self.dimensions.len() + 1;
            if self.steps > most {
                break;
            }
            let needed = self.missing.iter().copied().max().unwrap_or(0);
            if needed == 0 && best.as_ref().is_none_or(|(least, _)| new < *least) {
                best = Some((new, taken.iter().map(|(at, _)| sites[*at]).collect()));
            }
            let hopeful =
                needed > 0 && taken.len() + needed <= slots && best.as_ref().is_none_or(|(least, _)| new < *least);
            let next = if hopeful { (from..sites.len()).find(|at| self.gain(sites[*at]) > 0) } else { None };
            self.steps += (next.unwrap_or(sites.len()).saturating_sub(from) + 1) * self.dimensions.len();
            if let Some(at) = next {
                let covered = self.count(sites[at]);
                new += usize::from(is_new(sites[at]));
                taken.push((at, covered));
                from = at + 1;
                continue;
            }
            let Some((at, covered)) = taken.pop() else { break };
            self.uncover(sites[at], &covered);
            new -= usize::from(is_new(sites[at]));
            from = at + 1;
        }
        best.map(|(_, core)| core)
    }

    /// Covers the groups of the site, and returns the dimensions to pass to `uncover`.
    fn count(&mut self, site: usize) -> Vec<usize> {
        let before = self.missing.clone();
        let mut new = self.cover(site);
        // Complete dimensions stay complete when the site is removed again.
        new.retain(|at| {
            let counted = self.missing[*at] < before[*at];
            if !counted {
                let group = self.question.group(site, self.dimensions[*at]);
                self.covered[*at][group] = false;
            }
            counted
        });
        new
    }

    fn uncover(&mut self, site: usize, covered: &[usize]) {
        for at in covered {
            let group = self.question.group(site, self.dimensions[*at]);
            self.covered[*at][group] = false;
            self.missing[*at] += 1;
        }
    }
}
