//! The placement during the search. A journal records every change, so that it can be undone.

use std::collections::HashSet;

use super::problem::{Item, Problem, ReplicasBySite, Rules};

/// A move of replicas of an item from one site to another.
#[derive(Clone, Copy, Debug)]
struct Step {
    item: u32,
    from: u32,
    to: u32,
    replicas: i64,
}

/// The placement of all items, with the loads that follow from it.
pub(super) struct State<'p, 'r> {
    pub problem: &'p Problem,
    rules: &'r mut dyn Rules,
    resources: usize,
    /// Load by site and resource.
    load: Vec<i64>,
    has: Vec<i64>,
    /// Load of each site as a share of its capacity, of its most used resource.
    peaks: Vec<f64>,
    places: Vec<ReplicasBySite>,
    /// The items that are or were on each site, without duplicates.
    holders: Vec<Vec<u32>>,
    /// The items with replicas that arrived on each site, even if they have left again.
    /// `known_arrivals` keeps the lists free of duplicates.
    arrivals: Vec<Vec<u32>>,
    known_arrivals: HashSet<(u32, u32)>,
    moved_of: Vec<i64>,
    moved: i64,
    /// Items that may not move.
    fixed: Vec<bool>,
    /// The level of each site that is set aside: see `set_aside`.
    aside: Vec<Option<f64>>,
    journal: Vec<Step>,
}

/// Returns the number of replicas on a site.
pub fn on(places: &[(u32, i64)], site: u32) -> i64 {
    places.binary_search_by_key(&site, |(known, _)| *known).map_or(0, |found| places[found].1)
}

/// Returns the amount as a share of the capacity, or 0 if the capacity is unknown.
pub(super) fn share(amount: i64, has: i64) -> f64 {
    if has <= 0 { 0.0 } else { amount as f64 / has as f64 }
}

fn add(places: &mut ReplicasBySite, site: u32, replicas: i64) {
    match places.binary_search_by_key(&site, |(known, _)| *known) {
        Ok(found) => {
            places[found].1 += replicas;
            if places[found].1 == 0 {
                places.remove(found);
            }
        }
        Err(_) if replicas == 0 => {}
        Err(place) => places.insert(place, (site, replicas)),
    }
}

impl<'p, 'r> State<'p, 'r> {
    pub fn new(problem: &'p Problem, rules: &'r mut dyn Rules) -> State<'p, 'r> {
        let resources = problem.sites.iter().map(|site| site.has.len()).max().unwrap_or_default();
        let mut load = vec![0; resources * problem.sites.len()];
        for (site, row) in problem.sites.iter().zip(load.chunks_mut(resources.max(1))) {
            row[..site.used.len()].copy_from_slice(&site.used);
        }
        let mut holders = vec![Vec::new(); problem.sites.len()];
        for (item, number) in problem.items.iter().zip(0..) {
            item.at.iter().for_each(|(site, _)| holders[*site as usize].push(number));
        }
        let mut state = State {
            problem,
            rules,
            resources,
            load,
            has: vec![0; resources * problem.sites.len()],
            peaks: vec![0.0; problem.sites.len()],
            places: problem.items.iter().map(|item| item.at.clone()).collect(),
            holders,
            arrivals: vec![Vec::new(); problem.sites.len()],
            known_arrivals: HashSet::new(),
            moved_of: vec![0; problem.items.len()],
            moved: 0,
            fixed: problem.items.iter().map(|item| item.choice.is_none()).collect(),
            aside: vec![None; problem.sites.len()],
            journal: Vec::new(),
        };
        for (site, row) in problem.sites.iter().zip(state.has.chunks_mut(resources.max(1))) {
            row[..site.has.len()].copy_from_slice(&site.has);
        }
        state.sites().for_each(|site| state.weigh(site));
        (0..problem.items.len()).for_each(|item| state.begin(item));
        state
    }

    /// Applies the item's `start`. If the budget is too small, the item is fixed instead.
    fn begin(&mut self, item: usize) {
        let problem = self.problem;
        let Some(start) = &problem.items[item].start else { return };
        let at = &problem.items[item].at;
        let arriving: i64 = start.iter().map(|(site, replicas)| (replicas - on(at, *site)).max(0)).sum();
        if arriving > self.left() {
            self.fixed[item] = true;
            return;
        }
        let mut leaving: Vec<(u32, i64)> =
            at.iter().map(|(site, replicas)| (*site, replicas - on(start, *site))).collect();
        for (site, replicas) in start {
            let mut wanted = replicas - on(at, *site);
            for (from, surplus) in &mut leaving {
                let replicas = wanted.min(*surplus);
                if replicas > 0 {
                    self.shift(Step { item: item as u32, from: *from, to: *site, replicas });
                    (wanted, *surplus) = (wanted - replicas, *surplus - replicas);
                }
            }
        }
    }

    pub fn item(&self, item: u32) -> &'p Item {
        &self.problem.items[item as usize]
    }

    /// Returns whether an earlier plan moved replicas of the item away from the site.
    pub fn has_left(&self, item: u32, site: u32) -> bool {
        self.item(item).left.binary_search(&site).is_ok()
    }

    /// Returns the sites that the item may be on. Empty: it does not move.
    pub fn choice(&self, item: u32) -> &'p [u32] {
        self.item(item).choice.map_or(&[], |choice| &self.problem.choices[choice])
    }

    pub fn sites(&self) -> std::ops::Range<u32> {
        0..self.problem.sites.len() as u32
    }

    pub fn resources(&self) -> usize {
        self.resources
    }

    pub fn load(&self, site: u32, resource: usize) -> i64 {
        self.load[site as usize * self.resources + resource]
    }

    pub fn has(&self, site: u32, resource: usize) -> i64 {
        self.has[site as usize * self.resources + resource]
    }

    /// Returns the load of a site as a share of its capacity, of its most used resource.
    pub fn peak(&self, site: u32) -> f64 {
        self.peaks[site as usize]
    }

    fn weigh(&mut self, site: u32) {
        let rows = site as usize * self.resources..(site as usize + 1) * self.resources;
        let shares = self.load[rows.clone()].iter().zip(&self.has[rows]).map(|(load, has)| share(*load, *has));
        self.peaks[site as usize] = shares.fold(0.0, f64::max);
    }

    pub fn places(&self, item: u32) -> &[(u32, i64)] {
        &self.places[item as usize]
    }

    pub fn on(&self, item: u32, site: u32) -> i64 {
        on(&self.places[item as usize], site)
    }

    /// Sets a site aside: it is left out of levels and means, and no move raises it above the
    /// level.
    pub fn set_aside(&mut self, site: u32, level: f64) {
        self.aside[site as usize] = Some(level);
    }

    /// Returns the level of the site if it is set aside.
    pub fn level_aside(&self, site: u32) -> Option<f64> {
        self.aside[site as usize]
    }

    /// Returns whether the site counts, which it does until it is set aside.
    pub fn is_open(&self, site: u32) -> bool {
        self.aside[site as usize].is_none()
    }

    /// Replaces the levels of all sites that are set aside. Returns the previous ones.
    pub fn replace_aside(&mut self, aside: Vec<Option<f64>>) -> Vec<Option<f64>> {
        std::mem::replace(&mut self.aside, aside)
    }

    /// Returns the level of each site that is set aside.
    pub fn aside(&self) -> &[Option<f64>] {
        &self.aside
    }

    /// Returns the items on a site.
    pub fn holders(&self, site: u32) -> impl Iterator<Item = u32> + '_ {
        self.holders[site as usize].iter().copied().filter(move |item| self.on(*item, site) > 0)
    }

    /// Returns the items with replicas on the site that arrived there.
    pub fn arrivals(&self, site: u32) -> impl Iterator<Item = u32> + '_ {
        self.arrivals[site as usize].iter().copied().filter(move |item| self.arrived(*item, site) > 0)
    }

    /// Returns how many replicas of the item may leave the site, regardless of limits on moves.
    pub fn movable(&self, item: u32, site: u32) -> i64 {
        if self.fixed[item as usize] {
            return 0;
        }
        (self.on(item, site) - on(&self.item(item).stays, site)).max(0)
    }

    /// Returns whether the item may not move.
    pub fn is_fixed(&self, item: u32) -> bool {
        self.fixed[item as usize]
    }

    /// Returns the number of moved replicas, counted where they arrive.
    pub fn moved(&self) -> i64 {
        self.moved
    }

    /// Returns whether no more replicas may move.
    pub fn is_budget_used(&self) -> bool {
        self.left() <= 0
    }

    /// Returns the number of replicas that may still move.
    fn left(&self) -> i64 {
        self.problem.budget.map_or(i64::MAX, |budget| budget - self.moved)
    }

    /// Returns how many of the item's replicas on a site arrived there.
    pub fn arrived(&self, item: u32, site: u32) -> i64 {
        (self.on(item, site) - on(&self.item(item).at, site)).max(0)
    }

    /// Returns the change in the number of moved replicas if these went from one site to the other.
    pub fn price_of(&self, item: u32, from: u32, to: u32, replicas: i64) -> i64 {
        let home = (on(&self.item(item).at, to) - self.on(item, to)).max(0);
        (replicas - home).max(0) - replicas.min(self.arrived(item, from))
    }

    /// Returns how many of `wanted` replicas of the item may go from one site to another. The
    /// result exceeds `wanted` if the replicas can only move together.
    pub fn allowed(&mut self, item: u32, from: u32, to: u32, wanted: i64) -> i64 {
        let all = self.on(item, from);
        let most = self.within_limits(item, from, to, all);
        let Item { sites_max, is_whole, is_ruled, .. } = *self.item(item);
        let places = &self.places[item as usize];
        let is_more_sites = on(places, to) == 0 && places.len() >= sites_max.max(1);
        let needs_all = is_whole || is_more_sites;
        if most <= 0 || (needs_all && most < all) {
            return 0;
        }
        let replicas = if needs_all { all } else { most.min(wanted) };
        if !is_ruled || self.keeps(item, from, to, replicas) {
            return replicas;
        }
        // A rule may require a minimum per site. Then all replicas of the site may go, but not
        // some.
        let is_all = replicas < all && most >= all && self.keeps(item, from, to, all);
        if is_all { all } else { 0 }
    }

    fn within_limits(&mut self, item: u32, from: u32, to: u32, all: i64) -> i64 {
        let asked = self.item(item);
        if from == to || self.choice(item).binary_search(&to).is_err() {
            return 0;
        }
        let movable = self.movable(item, from).min(all);
        if movable <= 0 {
            return 0;
        }
        let home = (on(&asked.at, to) - self.on(item, to)).max(0);
        let slack = (asked.most - self.moved_of[item as usize]).min(self.left()).max(0);
        let counted = slack.saturating_add(home).saturating_add(self.arrived(item, from));
        let most = movable.min(counted);
        if most <= home { most } else { most.min(home.saturating_add(self.rules.fits(item as usize, to).max(0))) }
    }

    fn keeps(&mut self, item: u32, from: u32, to: u32, replicas: i64) -> bool {
        let mut places = self.places[item as usize].clone();
        add(&mut places, from, -replicas);
        add(&mut places, to, replicas);
        self.rules.keeps(item as usize, &places)
    }

    /// Moves replicas. The move must be allowed.
    pub fn apply(&mut self, item: u32, from: u32, to: u32, replicas: i64) {
        self.shift(Step { item, from, to, replicas });
    }

    fn shift(&mut self, step: Step) {
        self.change(step);
        self.journal.push(step);
    }

    fn change(&mut self, Step { item, from, to, replicas }: Step) {
        let more = self.price_of(item, from, to, replicas);
        (self.moved, self.moved_of[item as usize]) = (self.moved + more, self.moved_of[item as usize] + more);
        let before = [from, to].map(|site| self.arrived(item, site));
        let places = &mut self.places[item as usize];
        add(places, from, -replicas);
        add(places, to, replicas);
        for (site, before) in [from, to].into_iter().zip(before) {
            let more = self.arrived(item, site) - before;
            if more != 0 {
                self.rules.take(item as usize, site, more);
            }
        }
        for (resource, amount) in self.item(item).needs.iter() {
            let amount = amount.saturating_mul(replicas);
            self.load[from as usize * self.resources + resource] -= amount;
            self.load[to as usize * self.resources + resource] += amount;
        }
        [from, to].into_iter().for_each(|site| self.weigh(site));
        if self.arrived(item, to) > 0 && self.known_arrivals.insert((item, to)) {
            self.arrivals[to as usize].push(item);
            if on(&self.item(item).at, to) == 0 {
                self.holders[to as usize].push(item);
            }
        }
    }

    /// Returns a point of the journal for `undo`.
    pub fn mark(&self) -> usize {
        self.journal.len()
    }

    /// Undoes all moves since a point.
    pub fn undo(&mut self, mark: usize) {
        while self.journal.len() > mark {
            let Step { item, from, to, replicas } = self.journal.pop().expect("there are more than the mark");
            self.change(Step { item, from: to, to: from, replicas });
        }
    }

    /// Undoes the moves of items that move fewer replicas than their minimum.
    pub fn leave_small_moves(&mut self) {
        for item in 0..self.problem.items.len() {
            let moved = self.moved_of[item];
            let asked = &self.problem.items[item];
            if moved == 0 || moved >= asked.fewest || asked.start.is_some() {
                continue;
            }
            self.send_home(item as u32);
        }
    }

    /// Returns replicas of an item to their original sites.
    pub fn send_home(&mut self, item: u32) {
        let at = self.item(item).at.clone();
        for (home, _) in &at {
            for (site, _) in self.places[item as usize].clone() {
                let missing = on(&at, *home) - self.on(item, *home);
                let replicas = missing.min(self.arrived(item, site));
                if replicas > 0 {
                    self.shift(Step { item, from: site, to: *home, replicas });
                }
            }
        }
    }

    /// Returns the items that have moved.
    pub fn moved_items(&self) -> Vec<u32> {
        (0..self.problem.items.len() as u32).filter(|item| self.moved_of[*item as usize] > 0).collect()
    }

    pub fn into_places(self) -> Vec<(usize, ReplicasBySite)> {
        let State { problem, places, .. } = self;
        places.into_iter().enumerate().filter(|(item, places)| *places != problem.items[*item].at).collect()
    }
}
