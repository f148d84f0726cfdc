//! Placement by flow: a minimum-cost flow over all sites yields the placement for a level with the
//! fewest moves, as if replicas could be split. The search then corrects for whole replicas.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::rc::Rc;

use super::super::bound::need;
use super::super::flow::{self, Passage, Pool};
use super::super::on;
use super::Search;
use super::chains::is_plain;

/// Maximum number of pairs of a kind and a site in the flow.
const WAYS_MAX: usize = 100_000;
/// Maximum cost of a unit, where the largest replicas cost `COST` each.
const COST_MAX: i64 = 1 << 32;
const COST: i64 = 1 << 8;
/// Factor on the cost of items that an earlier plan has placed.
const PLACED_COST: i64 = 2;
/// Ratio to the moves of the cheapest flow above which moves are too many.
const MANY: f64 = 1.1;

/// Items that differ only in name and current placement.
pub(super) struct Kind {
    need: i64,
    items: Vec<u32>,
    pool: Pool,
}

impl Search<'_, '_, '_> {
    /// Applies the cheapest flow that reaches the level. Returns whether there is one.
    pub(super) fn steer(&mut self, level: f64) -> bool {
        self.set_level(level);
        let Some((kinds, passages)) = self.passages() else { return false };
        for item in self.state.moved_items() {
            // Items with a required start keep it.
            if self.state.item(item).start.is_none() {
                self.state.send_home(item);
            }
        }
        let mut beyond = vec![0; self.first_loads.len()];
        for (kind, passage) in kinds.iter().zip(passages) {
            self.spread(kind, kind.whole(&passage, &mut beyond));
        }
        true
    }

    /// Returns whether more replicas have moved than the cheapest flow would move, by the factor
    /// `MANY`.
    pub(super) fn moves_too_many(&mut self) -> bool {
        let Some((kinds, passages)) = self.passages() else { return false };
        let moved = |(kind, passage): (&Kind, &Passage)| passage.left.iter().sum::<i64>() as f64 / kind.need as f64;
        self.state.moved() as f64 > MANY * kinds.iter().zip(&passages).map(moved).sum::<f64>()
    }

    /// Returns the cheapest flow that reaches the level, by kind.
    fn passages(&mut self) -> Option<(Rc<[Kind]>, Vec<Passage>)> {
        let known = self.kinds.take();
        let kinds = known.unwrap_or_else(|| self.kinds().into());
        self.kinds = Some(Rc::clone(&kinds));
        let state = &*self.state;
        let first = |site: u32| self.first_loads[site as usize];
        // No load goes to a site of unknown capacity.
        let known = |site: &u32| state.has(*site, 0) > 0;
        let too_much = |site: u32| if known(&site) { first(site).saturating_sub(self.most[site as usize]) } else { 0 };
        let too_much: Vec<i64> = state.sites().map(too_much).collect();
        let may_come: Vec<i64> = state.sites().map(|site| state.has(site, 0).saturating_sub(first(site))).collect();
        let pools: Vec<&Pool> = kinds.iter().map(|kind| &kind.pool).collect();
        let passages = flow::even_out(&pools, &too_much, &may_come)?;
        Some((kinds, passages))
    }

    /// Returns the freely movable items by kind, with their initial placement, the largest first.
    fn kinds(&self) -> Vec<Kind> {
        let state = &*self.state;
        if state.resources() != 1 {
            return Vec::new();
        }
        type Alike = (Reverse<i64>, usize, bool);
        let mut kinds: BTreeMap<Alike, (Vec<u32>, BTreeMap<u32, i64>)> = BTreeMap::new();
        for item in 0..state.problem.items.len() as u32 {
            let (asked, each) = (state.item(item), need(state, item, 0));
            let is_free = each > 0 && asked.start.is_none() && is_plain(asked) && !state.is_fixed(item);
            let Some(choice) = asked.choice.filter(|_| is_free) else { continue };
            let (items, there) = kinds.entry((Reverse(each), choice, asked.is_placed)).or_default();
            items.push(item);
            for (site, replicas) in &asked.at {
                *there.entry(*site).or_default() += (replicas - on(&asked.stays, *site)).max(0);
            }
        }
        let ways = kinds.iter().map(|((_, choice, _), (_, there))| state.problem.choices[*choice].len() + there.len());
        if ways.sum::<usize>() > WAYS_MAX {
            return Vec::new();
        }
        let largest = kinds.keys().next().map_or(1, |(need, ..)| need.0);
        let kind = |((Reverse(need), choice, is_placed), (items, there)): (Alike, (Vec<u32>, BTreeMap<u32, i64>))| {
            let cost = (largest.saturating_mul(COST) / need).min(COST_MAX);
            let from = there.into_iter().map(|(site, replicas)| (site, replicas.saturating_mul(need))).collect();
            let to = state.problem.choices[choice].to_vec();
            Kind { need, items, pool: Pool { cost: if is_placed { cost * PLACED_COST } else { cost }, from, to } }
        };
        kinds.into_iter().map(kind).collect()
    }

    /// Moves replicas of a kind to reach the given changes per site.
    fn spread(&mut self, kind: &Kind, mut more: BTreeMap<u32, i64>) {
        let mut lacking: Vec<u32> = more.iter().filter(|(_, more)| **more > 0).map(|(site, _)| *site).collect();
        for (may_return, item) in [false, true].into_iter().flat_map(|it| kind.items.iter().map(move |item| (it, item)))
        {
            if lacking.is_empty() {
                return;
            }
            for (site, _) in &self.state.item(*item).at {
                for to in lacking.iter().copied() {
                    if !may_return && self.state.has_left(*item, to) {
                        continue;
                    }
                    let surplus = -more.get(site).copied().unwrap_or_default();
                    let wanted = surplus.min(more[&to]).min(self.state.movable(*item, *site));
                    let replicas =
                        if wanted > 0 { self.state.allowed(*item, *site, to, wanted).min(wanted) } else { 0 };
                    if replicas > 0 {
                        self.apply(*item, *site, to, replicas);
                        *more.entry(to).or_default() -= replicas;
                        *more.entry(*site).or_default() += replicas;
                    }
                }
                lacking.retain(|to| more[to] > 0);
            }
        }
    }
}

impl Kind {
    /// Rounds the flow to whole replicas. Returns the change in replicas per site. Kinds that come
    /// later, with smaller replicas, compensate for the difference from the flow, `beyond`.
    fn whole(&self, passage: &Passage, beyond: &mut [i64]) -> BTreeMap<u32, i64> {
        let mut more: BTreeMap<u32, i64> = BTreeMap::new();
        let mut coming = 0;
        for ((site, there), amount) in self.pool.from.iter().zip(&passage.left).filter(|(_, amount)| **amount > 0) {
            let beyond = &mut beyond[*site as usize];
            let wanted = amount.saturating_add(*beyond).max(0);
            let replicas = (wanted.saturating_add(self.need / 2) / self.need).min(there / self.need);
            *beyond += amount - replicas * self.need;
            coming += replicas;
            *more.entry(*site).or_default() -= replicas;
        }
        let open = self.pool.to.iter().zip(&passage.came).filter(|(_, amount)| **amount > 0);
        let mut open: Vec<u32> = open
            .map(|(site, amount)| {
                let replicas = (amount / self.need).min(coming);
                beyond[*site as usize] -= amount - replicas * self.need;
                coming -= replicas;
                *more.entry(*site).or_default() += replicas;
                *site
            })
            .collect();
        // Each remaining replica goes to the site that is furthest below its flow.
        for _ in 0..if open.is_empty() { 0 } else { coming } {
            open.sort_unstable_by_key(|site| (beyond[*site as usize], *site));
            beyond[open[0] as usize] += self.need;
            *more.entry(open[0]).or_default() += 1;
        }
        more
    }
}
