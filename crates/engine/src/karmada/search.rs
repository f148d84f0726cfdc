//! Finds clusters that can take a workload so that all spread constraints hold together (S4, S5).
//!
//! The search opens groups, one site after another, in the order of preference, and backtracks
//! where a bound shows that nothing better can follow. It is exact within a budget of steps. Beyond
//! the budget, the best that was found is the answer. Of all answers, the search prefers those that
//! keep most replicas where they are.

use super::cover::Cover;
use super::question::{Question, Site};

/// The steps that the searches for one attempt may take together. A step looks at one site in one
/// dimension. This bounds the time to some ten milliseconds, whatever the constraints are.
pub(super) const STEPS_MAX: usize = 2_000_000;

/// Sites that can take the workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// The sites that may be used, as positions. All of them together keep every maximum.
    pub open: Vec<usize>,
    /// The sites that must get a replica, so that every minimum is kept.
    pub core: Vec<usize>,
    /// How much stays where it is.
    pub kept: i64,
}

/// The answer of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub found: Option<Found>,
    /// Whether the whole space was searched. Then an absent answer is a proof, and a present one
    /// keeps as much as possible.
    pub exact: bool,
}

impl Question {
    /// `steps` is what is left of [`STEPS_MAX`].
    pub fn answer(&self, steps: &mut usize) -> Answer {
        let search = Search::new(self, *steps);
        search.run(steps)
    }

    /// The answer that uses the fewest sites of those that keep `kept`. `cluster` is the dimension
    /// in which each site is a group of its own. `most` sites are known to be enough.
    pub fn fewest(&self, cluster: usize, kept: i64, most: usize, steps: &mut usize) -> Option<Found> {
        let mut narrow = self.clone();
        let (mut enough, mut too_few) = (most, 0);
        let mut best = None;
        while enough - too_few > 1 && *steps > 0 {
            let middle = too_few.midpoint(enough);
            narrow.dimensions[cluster].max = middle.min(self.dimensions[cluster].max);
            match narrow.answer(steps).found.filter(|found| found.kept >= kept) {
                Some(found) => (best, enough) = (Some(found), middle),
                None => too_few = middle,
            }
        }
        best
    }
}

struct Search<'a> {
    question: &'a Question,
    /// The dimensions whose maximum can be exceeded, with the number of groups that are open.
    narrow: Vec<Narrow>,
    /// Sites with the same groups in all narrow dimensions are opened together.
    cells: Vec<Cell>,
    /// The narrow dimension in which each site is a group of its own, as a position in `narrow`.
    alone: Option<usize>,
    /// If there is such a dimension: how many open sites are in each group, by dimension.
    covered: Vec<Vec<u32>>,
    /// If there is such a dimension: how many groups have an open site, by dimension.
    used: Vec<usize>,
    steps: usize,
    steps_max: usize,
    best: Option<Found>,
    ideal: i64,
}

struct Narrow {
    dimension: usize,
    max: usize,
    open: Vec<bool>,
    count: usize,
}

struct Cell {
    sites: Vec<usize>,
    /// The group in each narrow dimension.
    groups: Vec<usize>,
    own: i64,
    capacity: i64,
    /// An earlier cell that is at least as good in every way. It is opened first.
    better: Option<usize>,
}

/// A cell that was opened, and the narrow dimensions in which it opened a group.
type Opened = (usize, Vec<usize>);

impl<'a> Search<'a> {
    fn new(question: &'a Question, steps_max: usize) -> Search<'a> {
        let narrow: Vec<Narrow> = (0..question.dimensions.len())
            .filter_map(|dimension| {
                let (max, count) = (question.dimensions[dimension].max, question.counts[dimension]);
                (max < count).then(|| Narrow { dimension, max, open: vec![false; count], count: 0 })
            })
            .collect();
        let dimensions = 0..question.dimensions.len();
        let sites = question.sites.len();
        let alone = narrow.iter().position(|narrow| narrow.open.len() == sites && sites > 1);
        let own: i64 = question.sites.iter().map(|site| site.own).sum();
        let mut search = Search {
            question,
            narrow,
            cells: Vec::new(),
            alone,
            covered: dimensions.clone().map(|dimension| vec![0; question.counts[dimension]]).collect(),
            used: dimensions.map(|_| 0).collect(),
            // To make the cells takes longer than to look at them.
            steps: sites * (question.dimensions.len() + 1) * 4,
            steps_max,
            best: None,
            ideal: question.replicas.map_or(own, |replicas| own.min(replicas)),
        };
        search.make_cells();
        search
    }

    fn make_cells(&mut self) {
        let question = self.question;
        let mut known = std::collections::HashMap::<Vec<usize>, usize>::new();
        for (position, site) in question.sites.iter().enumerate() {
            let groups: Vec<usize> =
                self.narrow.iter().map(|narrow| question.group(position, narrow.dimension)).collect();
            let cell = *known.entry(groups.clone()).or_insert(self.cells.len());
            if cell == self.cells.len() {
                self.cells.push(Cell { sites: Vec::new(), groups, own: 0, capacity: 0, better: None });
            }
            let cell = &mut self.cells[cell];
            cell.sites.push(position);
            cell.own = cell.own.saturating_add(site.own);
            cell.capacity = cell.capacity.saturating_add(site.own.saturating_add(site.room));
        }
        // What holds most comes first. The sort is stable, so preference decides among equals.
        self.cells.sort_by_key(|cell| std::cmp::Reverse(cell.own));
        self.find_better();
    }

    /// Where each site is a group of its own, sites that are alike in all other dimensions differ
    /// only in what they hold and have room for.
    fn find_better(&mut self) {
        let question = self.question;
        let Some(alone) = self.alone.map(|alone| self.narrow[alone].dimension) else { return };
        let others: Vec<usize> = (0..question.dimensions.len()).filter(|dimension| *dimension != alone).collect();
        let mut last = std::collections::HashMap::<Vec<usize>, usize>::new();
        for position in 0..self.cells.len() {
            let site = self.cells[position].sites[0];
            let groups: Vec<usize> = others.iter().map(|dimension| question.group(site, *dimension)).collect();
            if let Some(earlier) = last.insert(groups, position) {
                let (a, b) = (question.sites[self.cells[earlier].sites[0]], question.sites[site]);
                let is_better = a.own >= b.own && (question.replicas.is_none() || a.room >= b.room);
                self.cells[position].better = is_better.then_some(earlier);
            }
        }
    }

    fn run(mut self, steps: &mut usize) -> Answer {
        let mut opened: Vec<Opened> = Vec::new();
        let mut from = 0;
        let mut promising = self.is_promising(from);
        let exact = loop {
            if self.steps > self.steps_max {
                break false;
            }
            let next = if promising { self.next(from) } else { None };
            if let Some(next) = next {
                let groups = self.open(next);
                // What was possible before still is, unless a dimension has become full.
                let full = groups.iter().any(|position| self.narrow[*position].count == self.narrow[*position].max);
                opened.push((next, groups));
                from = next + 1;
                promising = !full || self.is_promising(from);
                continue;
            }
            if promising {
                self.evaluate();
                if self.best.as_ref().is_some_and(|best| best.kept >= self.ideal) {
                    break true;
                }
            }
            // The cell that was opened last stays closed from here on.
            let Some((cell, groups)) = opened.pop() else { break true };
            self.close(cell, &groups);
            from = cell + 1;
            promising = self.is_promising(from);
        };
        *steps = steps.saturating_sub(self.steps);
        Answer { found: self.best, exact }
    }

    fn is_open(&self, cell: usize) -> bool {
        self.narrow.iter().zip(&self.cells[cell].groups).all(|(narrow, group)| narrow.open[*group])
    }

    fn can_open(&self, cell: usize) -> bool {
        let fits = |(narrow, group): (&Narrow, &usize)| narrow.open[*group] || narrow.count < narrow.max;
        self.narrow.iter().zip(&self.cells[cell].groups).all(fits)
    }

    /// The next cell that is closed and can be opened.
    fn next(&mut self, from: usize) -> Option<usize> {
        let wanted = |cell: &usize| {
            !self.is_open(*cell)
                && self.can_open(*cell)
                && self.cells[*cell].better.is_none_or(|better| self.is_open(better))
                && !self.wastes_a_site(*cell)
        };
        let next = (from..self.cells.len()).find(wanted);
        self.steps += (next.unwrap_or(self.cells.len()) - from + 1) * (self.narrow.len() + 1);
        next
    }

    /// Whether the number of sites that can still be opened is needed to the last for missing
    /// groups, and the cell has none of these groups.
    fn wastes_a_site(&self, cell: usize) -> bool {
        let Some(alone) = self.alone else { return false };
        let left = self.narrow[alone].max - self.narrow[alone].count;
        let site = self.cells[cell].sites[0];
        let is_new = |dimension: usize| self.covered[dimension][self.question.group(site, dimension)] == 0;
        (0..self.used.len()).any(|dimension| {
            let missing = self.question.least(dimension).saturating_sub(self.used[dimension]);
            missing > 0 && missing >= left && !is_new(dimension)
        })
    }

    /// Counts the groups of a site that is opened or closed alone.
    fn count(&mut self, cell: usize, opens: bool) {
        if self.alone.is_none() {
            return;
        }
        let site = self.cells[cell].sites[0];
        for (dimension, used) in self.used.iter_mut().enumerate() {
            let covered = &mut self.covered[dimension][self.question.group(site, dimension)];
            if opens {
                *used += usize::from(*covered == 0);
                *covered += 1;
            } else {
                *covered -= 1;
                *used -= usize::from(*covered == 0);
            }
        }
    }

    /// Opens the cell, and returns the narrow dimensions in which a group was opened.
    fn open(&mut self, cell: usize) -> Vec<usize> {
        let mut opened = Vec::new();
        for (position, narrow) in self.narrow.iter_mut().enumerate() {
            let group = self.cells[cell].groups[position];
            if !narrow.open[group] {
                narrow.open[group] = true;
                narrow.count += 1;
                opened.push(position);
            }
        }
        self.count(cell, true);
        opened
    }

    fn close(&mut self, cell: usize, opened: &[usize]) {
        self.count(cell, false);
        for position in opened {
            let narrow = &mut self.narrow[*position];
            narrow.open[self.cells[cell].groups[*position]] = false;
            narrow.count -= 1;
        }
    }

    /// Whether an answer can follow that is better than the best one, if only cells from `from` on
    /// are opened. It may say yes wrongly, and never no.
    fn is_promising(&mut self, from: usize) -> bool {
        let question = self.question;
        let possible: Vec<usize> = (0..self.cells.len())
            .filter(|cell| self.is_open(*cell) || (*cell >= from && self.can_open(*cell)))
            .collect();
        let sites: usize = possible.iter().map(|cell| self.cells[*cell].sites.len()).sum();
        let groups: usize = question.counts.iter().sum();
        self.steps += (self.cells.len() + 2 * possible.len()) * (self.narrow.len() + 1);
        self.steps += sites * question.dimensions.len() + 3 * groups;
        for dimension in 0..question.dimensions.len() {
            let mut seen = vec![false; self.covered[dimension].len()];
            for site in possible.iter().flat_map(|cell| &self.cells[*cell].sites) {
                seen[question.group(*site, dimension)] = true;
            }
            let groups = seen.iter().filter(|seen| **seen).count();
            let reachable = groups.min(question.dimensions[dimension].max);
            if reachable < question.least(dimension) {
                return false;
            }
        }
        let most = |of: fn(&Cell) -> i64| self.most(&possible, of);
        let kept = most(|cell| cell.own);
        if let Some(best) = &self.best
            && question.replicas.map_or(kept, |replicas| kept.min(replicas)) <= best.kept
        {
            return false;
        }
        question.replicas.is_none_or(|replicas| most(|cell| cell.capacity) >= replicas)
    }

    /// The most that cells can have together, if each narrow dimension alone kept its maximum.
    fn most(&self, possible: &[usize], of: fn(&Cell) -> i64) -> i64 {
        let total = possible.iter().fold(0_i64, |sum, cell| sum.saturating_add(of(&self.cells[*cell])));
        let within = |(position, narrow): (usize, &Narrow)| {
            let mut sums = vec![0_i64; narrow.open.len()];
            for cell in possible {
                let sum = &mut sums[self.cells[*cell].groups[position]];
                *sum = sum.saturating_add(of(&self.cells[*cell]));
            }
            let open = (0..sums.len()).filter(|group| narrow.open[*group]);
            let open = open.fold(0_i64, |total, group| total.saturating_add(sums[group]));
            let mut closed: Vec<i64> =
                (0..sums.len()).filter(|group| !narrow.open[*group]).map(|group| sums[group]).collect();
            let left = narrow.max - narrow.count;
            if left > 0 && left < closed.len() {
                closed.select_nth_unstable_by_key(left - 1, |sum| std::cmp::Reverse(*sum));
            }
            closed.iter().take(left).fold(open, |total, sum| total.saturating_add(*sum))
        };
        self.narrow.iter().enumerate().map(within).fold(total, i64::min)
    }

    /// Takes the open cells as an answer, if they are one, and better than the best so far.
    fn evaluate(&mut self) {
        let question = self.question;
        let cells = (0..self.cells.len()).filter(|cell| self.is_open(*cell));
        let mut open: Vec<usize> = cells.flat_map(|cell| self.cells[cell].sites.iter().copied()).collect();
        open.sort_unstable();
        self.steps += self.cells.len() * (self.narrow.len() + 1) + open.len() * (question.dimensions.len() + 4);
        let sum =
            |of: fn(&Site) -> i64| open.iter().fold(0_i64, |sum, at| sum.saturating_add(of(&question.sites[*at])));
        let (own, room) = (sum(|site| site.own), sum(|site| site.room));
        let mut cover = Cover::new(question, &open);
        let found = match question.replicas {
            None if open.is_empty() || !cover.is_complete_with(&open) => None,
            None => Some(Found { core: open.clone(), open: open.clone(), kept: own }),
            Some(replicas) => cover.core(replicas).and_then(|core| {
                let new = core.iter().filter(|site| question.sites[**site].own == 0).count() as i64;
                let kept = own.min(replicas - new);
                (replicas - kept <= room).then(|| Found { open: open.clone(), core, kept })
            }),
        };
        self.steps += cover.steps;
        let best = self.best.as_ref().map(|best| best.kept);
        if let Some(found) = found.filter(|found| best.is_none_or(|best| found.kept > best)) {
            self.best = Some(found);
        }
    }
}
