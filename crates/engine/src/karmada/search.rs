//! Finds clusters for a workload so that all spread constraints hold together (S4, S5).
//!
//! The search opens groups, one site after another, in order of preference, and backtracks if a
//! bound shows that no better solution can follow. It is exact within a budget of steps. Beyond the
//! budget, it returns the best solution found so far. Among solutions, it prefers those which move
//! the fewest replicas.

use super::cover::Cover;
use super::question::{Question, Site};

/// The maximum number of steps of all searches for one attempt. A step examines one site in one
/// dimension. This bounds the time to some ten milliseconds, whatever the constraints are.
pub(super) const STEPS_MAX: usize = 2_000_000;

/// A solution: sites that can take the workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// The positions of the sites that may be used. All of them together keep every maximum.
    pub open: Vec<usize>,
    /// The sites that must get a replica, so that every minimum is kept.
    pub core: Vec<usize>,
    /// The number of replicas that stay on their clusters.
    pub kept: i64,
    /// The number of assigned replicas.
    pub placed: i64,
}

/// The result of a search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub found: Option<Found>,
    /// Whether the whole space was searched. Then a missing solution proves that there is none, and
    /// a solution keeps as many replicas as possible.
    pub exact: bool,
}

impl Question {
    /// Searches for the solution that moves the fewest replicas. `steps` is the remaining budget of
    /// this attempt, [`STEPS_MAX`] at most.
    pub fn answer(&self, steps: &mut usize) -> Answer {
        Search::new(self, Aim::All, *steps).run(steps)
    }

    /// Searches for the solution that assigns the most replicas, up to the requested number, and
    /// moves none.
    pub fn most(&self, steps: &mut usize) -> Option<Found> {
        Search::new(self, Aim::Most, *steps).run(steps).found
    }

    /// Searches for the solution with the fewest sites that keeps `kept` replicas. `cluster` is the
    /// dimension in which each site is a group. `most` sites are known to be enough.
    pub fn fewest(&self, cluster: usize, kept: i64, most: usize, steps: &mut usize) -> Option<Found> {
        let mut narrow = self.clone();
        // Each dimension needs at least as many sites as groups.
        let least = (0..self.dimensions.len()).map(|dimension| self.least(dimension)).max().unwrap_or(0);
        let (mut enough, mut too_few) = (most, least.saturating_sub(1).min(most));
        let mut best = None;
        // The minimum is often enough.
        let mut next = least;
        while enough - too_few > 1 && *steps > 0 {
            let middle = next.clamp(too_few + 1, enough - 1);
            narrow.dimensions[cluster].max = middle.min(self.dimensions[cluster].max);
            match narrow.answer(steps).found.filter(|found| found.kept >= kept) {
                Some(found) => (best, enough) = (Some(found), middle),
                None => too_few = middle,
            }
            next = too_few.midpoint(enough);
        }
        best
    }
}

/// The solutions that a search accepts, and its order of preference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Aim {
    /// All replicas are assigned, and as many as possible stay on their clusters.
    All,
    /// No replica leaves its cluster, and as many as possible are assigned.
    Most,
}

struct Search<'a> {
    question: &'a Question,
    aim: Aim,
    /// Whether each open site is used, because sites have a minimum number of replicas.
    uses_each: bool,
    /// The sum of the minima of the open sites, if each is used.
    floor: i64,
    /// The dimensions in which more groups exist than the maximum, with the number of open groups.
    narrow: Vec<Narrow>,
    /// Sites with the same groups in all narrow dimensions are opened together.
    cells: Vec<Cell>,
    /// The narrow dimension in which each site is a group, as a position in `narrow`.
    alone: Option<usize>,
    /// The number of open sites in each group, by dimension. Maintained only if `alone` is set.
    covered: Vec<Vec<u32>>,
    /// The number of groups with an open site, by dimension. Maintained only if `alone` is set.
    used: Vec<usize>,
    steps: usize,
    steps_max: usize,
    best: Option<Found>,
    /// The value of the best possible solution.
    ideal: i64,
    /// The sum of the replicas that all sites hold.
    held: i64,
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
    /// An earlier cell that is at least as good in every respect. It is opened first.
    better: Option<usize>,
}

/// A cell that was opened, and the narrow dimensions in which it opened a group.
type Opened = (usize, Vec<usize>);

impl<'a> Search<'a> {
    fn new(question: &'a Question, aim: Aim, steps_max: usize) -> Search<'a> {
        let uses_each = question.replicas.is_some() && question.has_least();
        let narrow: Vec<Narrow> = (0..question.dimensions.len())
            .filter_map(|dimension| {
                let (max, count) = (question.dimensions[dimension].max, question.counts[dimension]);
                let each_alone = uses_each && count == question.sites.len();
                (max < count || each_alone).then(|| Narrow { dimension, max, open: vec![false; count], count: 0 })
            })
            .collect();
        let dimensions = 0..question.dimensions.len();
        let sites = question.sites.len();
        let alone = narrow.iter().position(|narrow| narrow.open.len() == sites && sites > 1);
        let sum = |of: fn(&Site) -> i64| question.sites.iter().fold(0_i64, |sum, site| sum.saturating_add(of(site)));
        let best_of = if aim == Aim::All { sum(|site| site.own) } else { sum(capacity) };
        let mut search = Search {
            question,
            aim,
            uses_each,
            floor: 0,
            narrow,
            cells: Vec::new(),
            alone,
            covered: dimensions.clone().map(|dimension| vec![0; question.counts[dimension]]).collect(),
            used: dimensions.map(|_| 0).collect(),
            // Building the cells takes longer than examining them.
            steps: sites * (question.dimensions.len() + 1) * 4,
            steps_max,
            best: None,
            held: sum(|site| site.own),
            ideal: question.replicas.map_or(best_of, |replicas| best_of.min(replicas)),
        };
        search.make_cells();
        search
    }

    fn make_cells(&mut self) {
        let question = self.question;
        let groups = |site: usize| self.narrow.iter().map(move |narrow| question.group(site, narrow.dimension));
        // Sites with equal groups are adjacent, in order of preference.
        let mut sites: Vec<usize> = (0..question.sites.len()).collect();
        if self.alone.is_none() {
            sites.sort_by(|one, other| groups(*one).cmp(groups(*other)));
        }
        let are_alike = |one: &usize, other: &usize| self.alone.is_none() && groups(*one).eq(groups(*other));
        let cell = |alike: &[usize]| {
            let sum = |of: fn(&Site) -> i64| {
                alike.iter().fold(0_i64, |sum, site| sum.saturating_add(of(&question.sites[*site])))
            };
            let (own, capacity) = (sum(|site| site.own), sum(capacity));
            Cell { sites: alike.to_vec(), groups: groups(alike[0]).collect(), own, capacity, better: None }
        };
        let mut cells: Vec<Cell> = sites.chunk_by(are_alike).map(cell).collect();
        // Cells that hold the most replicas come first. Preference decides among equals.
        cells.sort_by_key(|cell| (std::cmp::Reverse(cell.own), cell.sites[0]));
        self.cells = cells;
        self.find_better();
    }

    /// Links each cell to a better one. If each site is a group, sites with equal groups in all
    /// other dimensions differ only in the replicas that they hold and can take.
    fn find_better(&mut self) {
        let question = self.question;
        let Some(alone) = self.alone.map(|alone| self.narrow[alone].dimension) else { return };
        let others = || (0..question.dimensions.len()).filter(move |dimension| *dimension != alone);
        let site = |cell: usize| self.cells[cell].sites[0];
        let groups = |cell: usize| others().map(move |dimension| question.group(site(cell), dimension));
        let mut order: Vec<usize> = (0..self.cells.len()).collect();
        order.sort_by(|one, other| groups(*one).cmp(groups(*other)));
        let is_better = |earlier: usize, later: usize| {
            let (a, b) = (question.sites[site(earlier)], question.sites[site(later)]);
            groups(earlier).eq(groups(later))
                && a.own >= b.own
                && (question.replicas.is_none() || (a.room >= b.room && a.least <= b.least))
        };
        let better: Vec<(usize, usize)> =
            order.windows(2).filter(|pair| is_better(pair[0], pair[1])).map(|pair| (pair[0], pair[1])).collect();
        for (earlier, later) in better {
            self.cells[later].better = Some(earlier);
        }
    }

    fn run(mut self, steps: &mut usize) -> Answer {
        self.guess();
        let mut opened: Vec<Opened> = Vec::new();
        let mut from = 0;
        let mut promising = !self.is_ideal() && self.is_promising(from);
        let exact = loop {
            if self.steps > self.steps_max {
                break false;
            }
            let next = if promising { self.next(from) } else { None };
            if let Some(next) = next {
                let groups = self.open(next);
                // Every solution that was possible before still is, unless a dimension has become
                // full.
                let full = groups.iter().any(|position| self.narrow[*position].count == self.narrow[*position].max);
                opened.push((next, groups));
                from = next + 1;
                promising = !full || self.is_promising(from);
                continue;
            }
            if promising {
                self.evaluate();
                if self.is_ideal() {
                    break true;
                }
            }
            // From here on, the cell that was opened last stays closed.
            let Some((cell, groups)) = opened.pop() else { break true };
            self.close(cell, &groups);
            from = cell + 1;
            promising = self.is_promising(from);
        };
        *steps = steps.saturating_sub(self.steps);
        Answer { found: self.best, exact }
    }

    /// Evaluates a likely solution first, if each open site is used: the current sites, and then
    /// the preferred sites as long as there are enough replicas for all.
    fn guess(&mut self) {
        let Some(replicas) = self.question.replicas.filter(|_| self.uses_each) else { return };
        let mut opened: Vec<Opened> = Vec::new();
        let mut sum = 0_i64;
        for cell in 0..self.cells.len() {
            let site = self.question.sites[self.cells[cell].sites[0]];
            let more = site.own.max(site.least).max(1);
            if sum.saturating_add(more) <= replicas && self.can_open(cell) {
                sum += more;
                let groups = self.open(cell);
                opened.push((cell, groups));
            }
        }
        self.steps += self.cells.len() * (self.narrow.len() + 1);
        self.evaluate();
        for (cell, groups) in opened.into_iter().rev() {
            self.close(cell, &groups);
        }
    }

    fn is_ideal(&self) -> bool {
        self.best.as_ref().is_some_and(|best| self.value(best) >= self.ideal)
    }

    fn value(&self, found: &Found) -> i64 {
        if self.aim == Aim::All { found.kept } else { found.placed }
    }

    /// Returns the minimum of replicas on a cell, if each open site is used.
    fn floor_of(&self, cell: usize) -> i64 {
        let site = self.question.sites[self.cells[cell].sites[0]];
        let stays = if self.aim == Aim::Most { site.own } else { 0 };
        site.least.max(stays).max(1)
    }

    fn is_open(&self, cell: usize) -> bool {
        self.narrow.iter().zip(&self.cells[cell].groups).all(|(narrow, group)| narrow.open[*group])
    }

    fn can_open(&self, cell: usize) -> bool {
        let fits = |(narrow, group): (&Narrow, &usize)| narrow.open[*group] || narrow.count < narrow.max;
        let has_enough = !self.uses_each
            || self.question.replicas.is_none_or(|replicas| self.floor.saturating_add(self.floor_of(cell)) <= replicas);
        has_enough && self.narrow.iter().zip(&self.cells[cell].groups).all(fits)
    }

    /// Returns the next closed cell that can be opened.
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

    /// Returns whether all further sites that can be opened are needed for missing groups, and the
    /// cell is in none of these groups.
    fn wastes_a_site(&self, cell: usize) -> bool {
        let Some(alone) = self.alone else { return false };
        // A part of the replicas may need fewer groups.
        if self.aim == Aim::Most {
            return false;
        }
        let left = self.narrow[alone].max - self.narrow[alone].count;
        let site = self.cells[cell].sites[0];
        let is_new = |dimension: usize| self.covered[dimension][self.question.group(site, dimension)] == 0;
        (0..self.used.len()).any(|dimension| {
            let missing = self.question.least(dimension).saturating_sub(self.used[dimension]);
            missing > 0 && missing >= left && !is_new(dimension)
        })
    }

    /// Updates the number of covered groups for a site that is opened or closed.
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

    /// Opens the cell, and returns the narrow dimensions in which this opened a group.
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
        if self.uses_each {
            self.floor = self.floor.saturating_add(self.floor_of(cell));
        }
        self.count(cell, true);
        opened
    }

    fn close(&mut self, cell: usize, opened: &[usize]) {
        if self.uses_each {
            self.floor -= self.floor_of(cell);
        }
        self.count(cell, false);
        for position in opened {
            let narrow = &mut self.narrow[*position];
            narrow.open[self.cells[cell].groups[*position]] = false;
            narrow.count -= 1;
        }
    }

    /// Returns whether a better solution than the best one can follow, if only cells from `from` on
    /// are opened. The result may be falsely positive, but never falsely negative.
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
            // A part of the replicas may need fewer groups.
            if self.aim == Aim::All && reachable < question.least(dimension) {
                return false;
            }
        }
        let most = |of: fn(&Cell) -> i64| self.most(&possible, of);
        let (kept, room) = (most(|cell| cell.own), most(|cell| cell.capacity));
        let value = if self.aim == Aim::All { kept } else { room };
        if let Some(best) = &self.best
            && question.replicas.map_or(value, |replicas| value.min(replicas)) <= self.value(best)
        {
            return false;
        }
        match self.aim {
            Aim::All => question.replicas.is_none_or(|replicas| room >= replicas),
            Aim::Most => kept >= self.held,
        }
    }

    /// Returns an upper bound on the sum of `of` over cells: the smallest that any narrow dimension
    /// alone allows.
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

    /// Records the open cells as the best solution, if they are a solution and better than the
    /// current one.
    fn evaluate(&mut self) {
        let question = self.question;
        let cells = (0..self.cells.len()).filter(|cell| self.is_open(*cell));
        let mut open: Vec<usize> = cells.flat_map(|cell| self.cells[cell].sites.iter().copied()).collect();
        open.sort_unstable();
        self.steps += self.cells.len() * (self.narrow.len() + 1) + open.len() * (question.dimensions.len() + 4);
        let sum =
            |of: fn(&Site) -> i64| open.iter().fold(0_i64, |sum, at| sum.saturating_add(of(&question.sites[*at])));
        let (own, room) = (sum(|site| site.own), sum(|site| site.room));
        let found = match (question.replicas, self.aim) {
            (None, _) => {
                let mut cover = Cover::new(question, &open, None);
                let complete = !open.is_empty() && cover.is_complete_with(&open);
                self.steps += cover.steps;
                complete.then(|| Found { core: open.clone(), open, kept: own, placed: own })
            }
            (Some(replicas), Aim::All) if self.uses_each => self.each_used(open, replicas),
            (Some(replicas), Aim::All) => self.some_used(open, (own, room), replicas),
            (Some(replicas), Aim::Most) if own == self.held => {
                let most = replicas.min(own.saturating_add(room));
                self.most_of(&open, (own, room), most)
            }
            (Some(_), Aim::Most) => None,
        };
        let best = self.best.as_ref().map(|best| self.value(best));
        if let Some(found) = found.filter(|found| best.is_none_or(|best| self.value(found) > best)) {
            self.best = Some(found);
        }
    }

    /// Returns the solution with all replicas on some of the open sites. `own` and `room` are the
    /// sums over these sites.
    fn some_used(&mut self, open: Vec<usize>, (own, room): (i64, i64), replicas: i64) -> Option<Found> {
        let question = self.question;
        let mut cover = Cover::new(question, &open, Some(replicas));
        let core = cover.core();
        self.steps += cover.steps;
        let core = core?;
        let new = core.iter().filter(|site| question.sites[**site].own == 0).count() as i64;
        let kept = own.min(replicas - new);
        (replicas - kept <= room).then_some(Found { open, core, kept, placed: replicas })
    }

    /// Returns the solution with all replicas on all of the open sites.
    fn each_used(&mut self, open: Vec<usize>, replicas: i64) -> Option<Found> {
        let question = self.question;
        let (mut floor, mut most, mut kept, mut more) = (0_i64, 0_i64, 0_i64, 0_i64);
        for site in open.iter().map(|site| question.sites[*site]) {
            let least = site.least.max(1);
            floor = floor.saturating_add(least);
            most = most.saturating_add(capacity(&site));
            kept = kept.saturating_add(site.own.min(least));
            more = more.saturating_add((site.own - least).max(0));
        }
        let fits = !open.is_empty() && floor <= replicas && replicas <= most && self.keeps_minima(&open, replicas);
        let kept = kept.saturating_add(more.min(replicas - floor));
        fits.then(|| Found { core: open.clone(), open, kept, placed: replicas })
    }

    fn keeps_minima(&mut self, open: &[usize], replicas: i64) -> bool {
        self.steps += open.len() * self.question.dimensions.len();
        self.groups_of(open)
            .iter()
            .enumerate()
            .all(|(at, groups)| *groups >= self.question.least_of(at, Some(replicas)))
    }

    /// Returns the number of groups that the sites are in, by dimension.
    fn groups_of(&self, open: &[usize]) -> Vec<usize> {
        let groups = |dimension: usize| {
            let mut seen = vec![false; self.question.counts[dimension]];
            open.iter().for_each(|site| seen[self.question.group(*site, dimension)] = true);
            seen.iter().filter(|seen| **seen).count()
        };
        (0..self.question.dimensions.len()).map(groups).collect()
    }

    /// Returns the solution with the most replicas on the open sites, `most` at most, that moves
    /// none.
    fn most_of(&mut self, open: &[usize], (own, room): (i64, i64), most: i64) -> Option<Found> {
        if self.uses_each {
            // With fewer replicas than the minimum number of groups, each replica needs another
            // group.
            let groups = self.groups_of(open);
            let too_few = (0..groups.len()).filter(|at| groups[*at] < self.question.dimensions[*at].min);
            let placed = too_few.map(|at| groups[at] as i64).fold(most, i64::min);
            self.steps += open.len() * self.question.dimensions.len();
            let fits = !open.is_empty() && self.floor <= placed;
            return fits.then(|| Found { open: open.to_vec(), core: open.to_vec(), kept: own, placed });
        }
        // Above the largest minimum, fewer replicas do not need fewer groups.
        let largest = self.question.dimensions.iter().map(|bounds| bounds.min as i64).max().unwrap_or(0);
        let fewer = (own.max(1)..most.min(largest)).rev();
        for placed in std::iter::once(most).chain(fewer).filter(|placed| *placed >= own.max(1)) {
            if self.steps > self.steps_max {
                return None;
            }
            let part = self.some_used(open.to_vec(), (own, room), placed).filter(|part| part.kept == own);
            if part.is_some() {
                return part;
            }
        }
        None
    }
}

/// Returns the maximum number of replicas on a site.
fn capacity(site: &Site) -> i64 {
    site.own.saturating_add(site.room)
}
