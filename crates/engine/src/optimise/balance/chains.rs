//! Moves over several sites, for sites from which no site below the level can be reached directly.

use std::collections::{HashMap, HashSet, VecDeque};
use std::rc::Rc;

use super::super::bound::{is_counted, need};
use super::super::problem::Item;
use super::{CHAIN_MAX, Search, rounded_up};

/// Maximum number of kinds of items, and of sites per kind, in one attempt.
const CHAIN_ITEMS_MAX: usize = 48;
const CHAIN_SITES_MAX: usize = 12;

impl Search<'_, '_, '_> {
    /// Moves the excess of a site along paths to sites below the level. Each site on a path sends
    /// on as much as it receives. Shorter paths come first.
    pub(super) fn pass_on(&mut self, site: u32) -> bool {
        let mut blocked = HashSet::new();
        while let Some((resource, more)) = self.excess(site) {
            if self.tries == 0 {
                return false;
            }
            self.tries -= 1;
            let Some(way) = self.way_from(site, resource, &blocked) else { return false };
            let mark = self.state.mark();
            let is_clear = way.windows(2).rev().all(|hop| {
                let is_clear = self.send(hop[0], hop[1], resource, more);
                if !is_clear {
                    blocked.insert((hop[0], hop[1]));
                }
                is_clear
            });
            if !is_clear {
                self.undo(mark);
            }
        }
        true
    }

    /// Returns the shortest path from a site to one below the level.
    fn way_from(&self, site: u32, resource: usize, blocked: &HashSet<(u32, u32)>) -> Option<Vec<u32>> {
        let mut from: Vec<Option<u32>> = vec![None; self.state.problem.sites.len()];
        let mut known = vec![false; self.state.problem.choices.len()];
        let mut waiting = VecDeque::from([site]);
        from[site as usize] = Some(site);
        while let Some(here) = waiting.pop_front() {
            for choice in self.exits.of(here) {
                if known[*choice] {
                    continue;
                }
                known[*choice] = true;
                for to in self.state.problem.choices[*choice].iter().copied() {
                    if from[to as usize].is_some() {
                        continue;
                    }
                    if blocked.contains(&(here, to)) {
                        // Another site may still send to this one.
                        known[*choice] = false;
                        continue;
                    }
                    from[to as usize] = Some(here);
                    if self.room(&self.most, to, resource) > 0 {
                        let mut way = vec![to];
                        while let Some(before) = way.last().and_then(|to| from[*to as usize]) {
                            way.push(before);
                            if before == site {
                                break;
                            }
                        }
                        way.reverse();
                        return Some(way);
                    }
                    waiting.push_back(to);
                }
            }
        }
        None
    }

    /// Sends replicas from one site to another with capacity for them. Returns whether any moved.
    fn send(&mut self, from: u32, to: u32, resource: usize, most: i64) -> bool {
        let mut left = most;
        let mut items = self.leaving(from, resource);
        items.sort_by_key(|item| self.state.has_left(*item, to));
        for item in items {
            let each = need(self.state, item, resource);
            let fit = self.headroom(&self.most, to, item);
            if left <= 0 || fit <= 0 || self.state.movable(item, from) <= 0 {
                continue;
            }
            let replicas = self.state.allowed(item, from, to, rounded_up(left, each).min(fit));
            if replicas > 0 && replicas <= fit {
                self.apply(item, from, to, replicas);
                left -= each.saturating_mul(replicas);
            }
        }
        left < most
    }

    /// Moves replicas to sites that are full at the level, and moves others away from there.
    pub(super) fn make_room(&mut self, site: u32, depth: usize) -> bool {
        while let Some((resource, more)) = self.excess(site) {
            if !self.make_some_room(site, (resource, more), depth) {
                return false;
            }
        }
        true
    }

    fn make_some_room(&mut self, site: u32, excess: (usize, i64), depth: usize) -> bool {
        let (resource, more) = excess;
        let mut tried = HashSet::new();
        let mut receivers: HashMap<usize, Rc<[u32]>> = HashMap::new();
        let mut kinds = 0;
        for item in self.leaving(site, resource) {
            let each = need(self.state, item, resource).max(1);
            let Some(choice) = self.state.item(item).choice.filter(|_| self.state.movable(item, site) > 0) else {
                continue;
            };
            // Items that differ only in name have the same result.
            if is_plain(self.state.item(item)) && !tried.insert((choice, each)) {
                continue;
            }
            if kinds == CHAIN_ITEMS_MAX {
                break;
            }
            kinds += 1;
            let receivers = match receivers.get(&choice) {
                Some(known) => Rc::clone(known),
                None => {
                    let found: Rc<[u32]> = self.receivers_in_reach(item, site, depth).into();
                    receivers.insert(choice, Rc::clone(&found));
                    found
                }
            };
            for to in receivers.iter().copied() {
                if self.attempts == 0 {
                    return false;
                }
                self.attempts -= 1;
                let mark = self.state.mark();
                let replicas = self.state.allowed(item, site, to, rounded_up(more, each));
                if replicas <= 0 {
                    continue;
                }
                self.apply(item, site, to, replicas);
                if self.shed(to, depth - 1) {
                    match self.excess(site) {
                        None => return true,
                        Some((known, left)) if known != resource || left < more => return true,
                        Some(_) => {}
                    }
                }
                self.undo(mark);
            }
        }
        false
    }

    /// The sites that the item may go to and that could pass on what they hold, the least used
    /// first.
    fn receivers_in_reach(&mut self, item: u32, site: u32, depth: usize) -> Vec<u32> {
        self.know_reach();
        let near = &self.near[depth];
        let open = self.state.choice(item).iter().copied().filter(|to| *to != site && near[*to as usize]);
        let mut open: Vec<(f64, u32)> = open.map(|to| (self.state.peak(to), to)).collect();
        let order = |one: &(f64, u32), other: &(f64, u32)| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1));
        if open.len() > CHAIN_SITES_MAX {
            open.select_nth_unstable_by(CHAIN_SITES_MAX, order);
            open.truncate(CHAIN_SITES_MAX);
        }
        open.sort_unstable_by(order);
        open.into_iter().map(|(_, to)| to).collect()
    }

    fn know_reach(&mut self) {
        if !self.near.is_empty() {
            return;
        }
        let state = &*self.state;
        let is_below = |site| is_counted(state, site) && state.peak(site) < self.level;
        let mut near: Vec<bool> = state.sites().map(is_below).collect();
        for _ in 0..CHAIN_MAX {
            let next = self.exits.leading_to(state, &near);
            self.near.push(std::mem::replace(&mut near, next));
        }
        self.near.push(near);
    }
}

/// Whether nothing but its replicas, its needs and its choice decides where the item goes.
pub(super) fn is_plain(item: &Item) -> bool {
    !item.is_ruled && !item.is_whole && item.most == i64::MAX && item.sites_max == usize::MAX
}
