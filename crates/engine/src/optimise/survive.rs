//! The goal Survive: keeps capacity free for the replicas that the loss of any one domain would
//! strand. Replicas that can be elsewhere leave the sites that stranded replicas need.
//!
//! Moving the replicas that would be stranded does not help: before the loss they would take the
//! same capacity as after it.

use std::collections::BTreeMap;

use super::bound::need;
use super::problem::{Item, Outcome};
use super::state::State;
use super::worth::{Checkpoint, keep_worthwhile};

/// Maximum number of domains that the search tries to relieve, in descending order of stranded
/// replicas. Each try evaluates all domains.
const DOMAINS_MAX: usize = 64;
/// Maximum number of stranded items per domain for which capacity is freed.
const STRANDED_MAX: usize = 1_000;
/// Maximum number of sites tried for an item that leaves.
const REFUSALS_MAX: usize = 8;

pub(super) fn solve(state: &mut State<'_, '_>) -> Outcome {
    let mut stranded = stranded_by_domain(state);
    let (before, bound) = (sum(&stranded), bound(state) as f64);
    let mut points = vec![checkpoint(state, &stranded)];
    let mut order: Vec<usize> = (0..stranded.len()).filter(|domain| stranded[*domain] > 0).collect();
    order.sort_by_key(|domain| (std::cmp::Reverse(stranded[*domain]), *domain));
    for domain in order.into_iter().take(DOMAINS_MAX) {
        let mark = state.mark();
        relieve(state, domain);
        let next = stranded_by_domain(state);
        if sum(&next) < sum(&stranded) {
            stranded = next;
            points.push(checkpoint(state, &stranded));
        } else {
            state.undo(mark);
        }
    }
    let (price, is_within_tolerance) = keep_worthwhile(state, &points);
    let after = sum(&stranded_by_domain(state));
    Outcome { before, after, bound, price, is_within_tolerance, ..Outcome::default() }
}

fn sum(stranded: &[i64]) -> f64 {
    stranded.iter().sum::<i64>() as f64
}

fn checkpoint(state: &State<'_, '_>, stranded: &[i64]) -> Checkpoint {
    Checkpoint { mark: state.mark(), figure: sum(stranded), moved: state.moved() }
}

fn stranded_by_domain(state: &State<'_, '_>) -> Vec<i64> {
    let room = Room::of(state);
    let of = |sites: &[u32]| -> i64 { Loss::of(state, sites, &room).stranded.iter().map(|(_, lost)| lost).sum() };
    state.problem.domains.iter().map(|sites| of(sites)).collect()
}

/// Free capacity of all sites.
#[derive(Clone)]
struct Room {
    resources: usize,
    /// By site and resource. Unknown capacity is unlimited.
    free: Vec<i64>,
}

impl Room {
    fn of(state: &State<'_, '_>) -> Room {
        let resources = state.resources();
        let free = |site: u32, resource| match state.has(site, resource) {
            0 => i64::MAX,
            has => has.saturating_sub(state.load(site, resource)),
        };
        let of = |site| (0..resources).map(move |resource| free(site, resource));
        Room { resources, free: state.sites().flat_map(of).collect() }
    }

    fn at(&mut self, site: u32, resource: usize) -> &mut i64 {
        &mut self.free[site as usize * self.resources + resource]
    }

    fn fits(&self, item: &Item, site: u32) -> i64 {
        let row = &self.free[site as usize * self.resources..];
        item.needs.iter().map(|(resource, amount)| row[*resource] / amount).min().unwrap_or(i64::MAX).max(0)
    }

    fn take(&mut self, item: &Item, site: u32, replicas: i64) {
        for (resource, amount) in item.needs.iter() {
            let free = self.at(site, *resource);
            if *free != i64::MAX {
                *free = free.saturating_sub(amount.saturating_mul(replicas));
            }
        }
    }
}

/// The effect of the loss of a domain.
struct Loss {
    /// The lost sites.
    inside: Vec<bool>,
    /// Free capacity after all replicas that fit elsewhere have been reassigned.
    left: Room,
    /// The items that do not fit elsewhere, with the number of their lost replicas.
    stranded: Vec<(u32, i64)>,
}

impl Loss {
    fn of(state: &State<'_, '_>, sites: &[u32], room: &Room) -> Loss {
        let mut inside = vec![false; state.problem.sites.len()];
        let mut lost: BTreeMap<u32, i64> = BTreeMap::new();
        for site in sites {
            inside[*site as usize] = true;
            for item in state.holders(*site).filter(|item| state.item(*item).refuge.is_some()) {
                *lost.entry(item).or_default() += state.on(item, *site);
            }
        }
        let mut loss = Loss { inside, left: room.clone(), stranded: Vec::new() };
        for (item, lost) in lost {
            if !loss.place(state, item, lost) {
                loss.stranded.push((item, lost));
            }
        }
        loss
    }

    /// Assigns all of the lost replicas or none. Items start at different sites, which approximates
    /// a division by weights.
    fn place(&mut self, state: &State<'_, '_>, item: u32, lost: i64) -> bool {
        let sites = refuge(state, item);
        let (asked, mut left) = (state.item(item), lost);
        let mut places = Vec::new();
        let turn = if sites.is_empty() { 0 } else { item as usize % sites.len() };
        for site in sites[turn..].iter().chain(&sites[..turn]).copied() {
            if self.inside[site as usize] {
                continue;
            }
            let fit = self.left.fits(asked, site).min(left);
            if fit > 0 && (!asked.is_whole || fit == lost) {
                places.push((site, fit));
                left -= fit;
            }
            if left == 0 {
                break;
            }
        }
        if left == 0 {
            places.into_iter().for_each(|(site, replicas)| self.left.take(asked, site, replicas));
        }
        left == 0
    }
}

/// Returns the sites that lost replicas of the item may go to.
fn refuge<'p>(state: &State<'p, '_>, item: u32) -> &'p [u32] {
    state.item(item).refuge.map_or(&[], |choice| &state.problem.choices[choice])
}

/// Frees capacity for the replicas that the loss of the domain strands, as far as possible.
fn relieve(state: &mut State<'_, '_>, domain: usize) {
    let mut loss = Loss::of(state, &state.problem.domains[domain], &Room::of(state));
    for (item, lost) in std::mem::take(&mut loss.stranded).into_iter().take(STRANDED_MAX) {
        let (mark, left) = (state.mark(), loss.left.clone());
        if !rescue(state, &mut loss, item, lost) {
            state.undo(mark);
            loss.left = left;
        }
    }
}

/// Frees capacity for all of the lost replicas of an item. Returns whether they fit.
fn rescue(state: &mut State<'_, '_>, loss: &mut Loss, item: u32, lost: i64) -> bool {
    let sites = refuge(state, item);
    let mut wanted = vec![false; state.problem.sites.len()];
    sites.iter().for_each(|site| wanted[*site as usize] = true);
    for site in sites.iter().copied() {
        if loss.inside[site as usize] {
            continue;
        }
        let (mark, left) = (state.mark(), loss.left.clone());
        make_room(state, loss, (item, lost), site, &wanted);
        if loss.place(state, item, lost) {
            return true;
        }
        // Capacity on this site does not help an item that has to be whole on another one.
        if state.item(item).is_whole {
            state.undo(mark);
            loss.left = left;
        }
    }
    false
}

/// Moves replicas of other items from a site to sites that the item cannot use, until the lost
/// replicas fit.
fn make_room(state: &mut State<'_, '_>, loss: &mut Loss, lost: (u32, i64), site: u32, wanted: &[bool]) {
    let (item, replicas) = lost;
    let asked = state.item(item);
    let fit = |(resource, amount): &(usize, i64), left: &mut Room| *left.at(site, *resource) / *amount;
    let scarcest = asked.needs.iter().min_by_key(|need| fit(need, &mut loss.left));
    let Some((resource, amount)) = scarcest.copied() else { return };
    let others = state.holders(site).filter(|other| *other != item && state.movable(*other, site) > 0);
    let mut others: Vec<(i64, u32)> = others.map(|other| (-need(state, other, resource), other)).collect();
    others.sort_unstable();
    for (need, other) in others.into_iter().map(|(need, other)| (-need, other)) {
        let missing = replicas - loss.left.fits(asked, site);
        if missing <= 0 || need == 0 {
            return;
        }
        let enough = missing.saturating_mul(amount).saturating_add(need - 1) / need;
        send_away(state, loss, (other, enough), site, wanted);
    }
}

fn send_away(state: &mut State<'_, '_>, loss: &mut Loss, asked: (u32, i64), site: u32, wanted: &[bool]) {
    let (item, mut left) = asked;
    let moving = state.item(item);
    let is_open = |to: &u32| !wanted[*to as usize] && !loss.inside[*to as usize] && loss.left.fits(moving, *to) > 0;
    let open = state.choice(item).iter().copied().filter(is_open);
    let mut open: Vec<(f64, u32)> = open.map(|to| (state.peak(to), to)).collect();
    open.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)));
    for (_, to) in open.into_iter().take(REFUSALS_MAX) {
        let most = loss.left.fits(moving, to);
        let replicas = state.allowed(item, site, to, left.min(most));
        if replicas > 0 && replicas <= most {
            state.apply(item, site, to, replicas);
            loss.left.take(moving, to, replicas);
            loss.left.take(moving, site, -replicas);
            left -= replicas;
        }
        if left <= 0 {
            return;
        }
    }
}

/// Returns a lower bound of stranded replicas: replicas with a choice inside a lost domain, or
/// demand beyond the capacity outside of it, in replicas of the largest size.
fn bound(state: &State<'_, '_>) -> i64 {
    let items: Vec<u32> =
        (0..state.problem.items.len() as u32).filter(|item| state.item(*item).refuge.is_some()).collect();
    let mut own = vec![0_i128; state.problem.sites.len() * state.resources()];
    let mut largest = vec![0_i64; state.resources()];
    for item in &items {
        for (resource, amount) in state.item(*item).needs.iter() {
            largest[*resource] = largest[*resource].max(*amount);
            for (site, replicas) in state.places(*item) {
                own[*site as usize * state.resources() + resource] += i128::from(*replicas) * i128::from(*amount);
            }
        }
    }
    state.problem.domains.iter().map(|sites| bound_of(state, sites, &items, &own, &largest)).sum()
}

fn bound_of(state: &State<'_, '_>, sites: &[u32], items: &[u32], own: &[i128], largest: &[i64]) -> i64 {
    let mut inside = vec![false; state.problem.sites.len()];
    sites.iter().for_each(|site| inside[*site as usize] = true);
    let traps: Vec<bool> =
        state.problem.choices.iter().map(|choice| choice.iter().all(|site| inside[*site as usize])).collect();
    let is_trapped = |item: &&u32| state.item(**item).refuge.is_some_and(|choice| traps[choice]);
    let trapped = items.iter().filter(is_trapped).flat_map(|item| state.places(*item));
    let trapped: i64 = trapped.filter(|(site, _)| inside[*site as usize]).map(|(_, replicas)| replicas).sum();
    let outside: Vec<u32> = state.sites().filter(|site| !inside[*site as usize]).collect();
    let row = |site: u32, resource: usize| own[site as usize * state.resources() + resource];
    let too_many = |resource: usize| {
        if largest[resource] == 0 || outside.iter().any(|site| state.has(*site, resource) == 0) {
            return 0;
        }
        let all = state.sites().map(|site| row(site, resource)).sum::<i128>();
        let others = |site: &u32| i128::from(state.load(*site, resource)) - row(*site, resource);
        // Load above the capacity is there already and stays.
        let has = |site: &u32| i128::from(state.has(*site, resource).max(state.load(*site, resource)));
        let more = all + outside.iter().map(others).sum::<i128>() - outside.iter().map(has).sum::<i128>();
        let largest = i128::from(largest[resource]);
        i64::try_from((more.max(0) + largest - 1) / largest).unwrap_or(i64::MAX)
    };
    (0..state.resources()).map(too_many).max().unwrap_or(0).max(trapped)
}
