//! Lower bounds that no plan can beat. In the relaxed problem, replicas can be split, capacity is
//! unlimited, and the rules that concern all targets of an item do not apply.

use std::collections::BTreeMap;

use super::flow::{self, Network, Pool};
use super::state::{State, share};

/// Relative rounding error of sums of binary fractions.
const ROUNDING: f64 = 1e-12;
/// Number of bisection steps. More precise than the digits that users see.
const HALVINGS: usize = 40;
/// Number of bisection steps if each computes a flow.
const ROOM_HALVINGS: usize = 20;
/// Maximum number of pairs of a choice and one of its sites in a network. Each takes 100 bytes.
const WAYS_MAX: usize = 500_000;
/// Maximum number of times that the level of a network is raised.
const RAISES_MAX: usize = 32;
/// Maximum number of sites for which the closure is computed, the most used first.
const CLOSURES_MAX: usize = 64;

/// Returns the lowest use that the most used site can have, as a share of its capacity.
pub(super) fn level(state: &State<'_, '_>, exits: &Exits) -> f64 {
    (0..state.resources()).map(|resource| level_of(state, exits, resource)).fold(0.0, f64::max)
}

/// Returns an upper bound of the mean use of the sites, each by its most used resource.
pub(super) fn largest_mean(state: &State<'_, '_>) -> f64 {
    let counted: Vec<u32> = state.sites().filter(|site| is_counted(state, *site)).collect();
    let mut sum = 0.0;
    for site in &counted {
        let share = |resource: usize| {
            let fixed = state.load(*site, resource) - movable_load(state, *site, resource);
            share(fixed, state.has(*site, resource))
        };
        sum += (0..state.resources()).map(share).fold(0.0, f64::max);
    }
    // The smallest capacity of any site of a choice, by resource.
    let least: Vec<Vec<i64>> = state
        .problem
        .choices
        .iter()
        .map(|sites| {
            let least = |resource| sites.iter().map(|site| state.has(*site, resource)).filter(|has| *has > 0).min();
            (0..state.resources()).map(|resource| least(resource).unwrap_or(0)).collect()
        })
        .collect();
    for item in 0..state.problem.items.len() as u32 {
        let open = state.places(item).iter().filter(|(site, _)| state.is_open(*site));
        let replicas: i64 = open.map(|(site, _)| state.movable(item, *site)).sum();
        let Some(choice) = state.item(item).choice.filter(|_| replicas > 0) else { continue };
        let needs = state.item(item).needs.iter();
        let each = needs.map(|(resource, amount)| share(*amount, least[choice][*resource])).fold(0.0, f64::max);
        sum += each * replicas as f64;
    }
    sum / counted.len().max(1) as f64
}

/// Returns whether the level of the site counts.
pub(super) fn is_counted(state: &State<'_, '_>, site: u32) -> bool {
    state.is_open(site) && (0..state.resources()).any(|resource| state.has(site, resource) > 0)
}

/// Returns the request of one replica of the item for a resource.
pub(super) fn need(state: &State<'_, '_>, item: u32, resource: usize) -> i64 {
    state.item(item).needs.iter().filter(|(known, _)| *known == resource).map(|(_, amount)| *amount).sum()
}

fn movable_load(state: &State<'_, '_>, site: u32, resource: usize) -> i64 {
    state.holders(site).map(|item| state.movable(item, site).saturating_mul(need(state, item, resource))).sum()
}

/// Returns the immovable load of a resource on a site, as a share of its capacity.
fn floor(state: &State<'_, '_>, site: u32, resource: usize) -> f64 {
    share(state.load(site, resource) - movable_load(state, site, resource), state.has(site, resource))
}

/// Returns the largest immovable load of any resource on a site, as a share of its capacity.
pub(super) fn floor_of(state: &State<'_, '_>, site: u32) -> f64 {
    (0..state.resources()).map(|resource| floor(state, site, resource)).fold(0.0, f64::max)
}

/// Returns sites that cannot all be below the level: sites with too large an immovable load, closed
/// sets of sites with too large a mean, and sites that are too small for what their choices confine
/// to them.
pub(super) fn held(state: &State<'_, '_>, exits: &Exits, level: f64) -> Vec<u32> {
    let mut held = vec![false; state.problem.sites.len()];
    for resource in 0..state.resources() {
        let sites = counted(state, resource);
        for site in sites.iter().copied() {
            held[site as usize] |= floor(state, site, resource) >= level;
        }
        let is_full = |site: &&u32| share(state.load(**site, resource), state.has(**site, resource)) >= level;
        for site in sites.iter().filter(is_full).take(CLOSURES_MAX) {
            if held[*site as usize] {
                continue;
            }
            let (inside, mean) = exits.closure(state, *site, resource);
            if mean >= level {
                held.iter_mut().zip(inside).for_each(|(held, inside)| *held |= inside);
            }
        }
        if let Some(network) = ChoiceNetwork::new(state, resource, &sites)
            && let Some(obstacle) = network.obstacle(state, level)
        {
            obstacle.sinks.iter().for_each(|site| held[sites[*site] as usize] = true);
        }
    }
    state.sites().filter(|site| held[*site as usize] && is_counted(state, *site)).collect()
}

/// Returns the sites on which use of the resource counts.
fn counted(state: &State<'_, '_>, resource: usize) -> Vec<u32> {
    state.sites().filter(|site| state.is_open(*site) && state.has(*site, resource) > 0).collect()
}

fn level_of(state: &State<'_, '_>, exits: &Exits, resource: usize) -> f64 {
    let mut counted = counted(state, resource);
    let floor = counted.iter().map(|site| floor(state, *site, resource)).fold(0.0, f64::max);
    let used = |site: &u32| share(state.load(*site, resource), state.has(*site, resource));
    counted.sort_by(|one, other| used(other).total_cmp(&used(one)).then(one.cmp(other)));
    let mut held = 0.0_f64;
    for site in counted.iter().take(CLOSURES_MAX) {
        held = held.max(exits.closure(state, *site, resource).1);
    }
    let floor = floor.max(held).max(by_limits(state, resource, &counted));
    let level = by_choices(state, resource, &counted, floor);
    by_rooms(state, resource, level, counted.first().map_or(0.0, used))
}

/// Returns the lowest level that can be reached if arrivals must fit next to the initial load.
/// `known` is a level that is known to be necessary, and `top` is the present level.
fn by_rooms(state: &State<'_, '_>, resource: usize, known: f64, top: f64) -> f64 {
    let room = |site: u32| state.problem.sites[site as usize].room.get(resource).copied();
    // Replicas that return to their original site need no free capacity there.
    if state.moved() > 0 || !state.sites().any(|site| room(site).is_some()) {
        return known;
    }
    let has_number = |site: &u32| state.has(*site, resource) > 0;
    // Nothing moves to or from a site that is set aside.
    let is_open = |site: &u32| state.is_open(*site);
    let mut load: Vec<i64> = state.sites().map(|site| state.load(site, resource)).collect();
    let mut pools: BTreeMap<usize, BTreeMap<u32, i64>> = BTreeMap::new();
    for item in 0..state.problem.items.len() as u32 {
        let (Some(choice), need) = (state.item(item).choice, need(state, item, resource)) else { continue };
        let is_known = state.problem.choices[choice].iter().all(has_number);
        for (site, _) in state.places(item).iter().filter(|(site, _)| need > 0 && has_number(site) && is_open(site)) {
            let amount = state.movable(item, *site).saturating_mul(need);
            if is_known {
                let there = pools.entry(choice).or_default().entry(*site).or_default();
                *there = there.saturating_add(amount);
            } else {
                // A site of unknown capacity may take everything.
                load[*site as usize] = load[*site as usize].saturating_sub(amount);
            }
        }
    }
    let pools = pools.into_iter().map(|(choice, from)| {
        let to = state.problem.choices[choice].iter().copied().filter(is_open).collect();
        Pool { cost: 0, from: from.into_iter().collect(), to }
    });
    let pools: Vec<Pool> = pools.collect();
    if pools.iter().map(|pool| pool.from.len() + pool.to.len()).sum::<usize>() > WAYS_MAX {
        return known;
    }
    let pools: Vec<&Pool> = pools.iter().collect();
    let may_come: Vec<i64> = state.sites().map(|site| room(site).unwrap_or(i64::MAX)).collect();
    let is_reachable = |level: f64| {
        let too_much = |site: u32| match state.has(site, resource) {
            has if has <= 0 || !is_open(&site) => 0,
            has => load[site as usize].saturating_sub((level * has as f64 * (1.0 + ROUNDING)) as i64),
        };
        let too_much: Vec<i64> = state.sites().map(too_much).collect();
        flow::even_out(&pools, &too_much, &may_come).is_some()
    };
    if known >= top || is_reachable(known) {
        return known;
    }
    let (mut low, mut high) = (known, top);
    for _ in 0..ROOM_HALVINGS {
        let middle = f64::midpoint(low, high);
        if is_reachable(middle) { high = middle } else { low = middle }
    }
    low
}

/// Returns the lowest level at which all replicas fit on the sites of their choices, if they can be
/// split. `known` is a level that is known to be necessary.
///
/// If they do not fit, a set of choices and all their sites are the obstacle: the load confined to
/// these sites needs a higher level, which is tried next.
fn by_choices(state: &State<'_, '_>, resource: usize, sites: &[u32], known: f64) -> f64 {
    let Some(network) = ChoiceNetwork::new(state, resource, sites) else { return known };
    let mut level = known;
    for _ in 0..RAISES_MAX {
        let Some(obstacle) = network.obstacle(state, level) else { break };
        let there = obstacle.sources.iter().map(|source| network.amounts[*source]).sum::<i128>()
            + obstacle.sinks.iter().map(|site| network.fixed[*site]).sum::<i128>();
        let has = |site: &usize| i128::from(state.has(sites[*site], resource));
        let needed = there as f64 / obstacle.sinks.iter().map(has).sum::<i128>().max(1) as f64;
        if needed <= level {
            break;
        }
        level = needed;
    }
    level
}

/// The load that may move between some sites. Pools move alike: they have the same choice and, if
/// on a site outside of it, the same site.
struct ChoiceNetwork<'s> {
    sites: &'s [u32],
    resource: usize,
    network: Network,
    amounts: Vec<i128>,
    /// Load that cannot leave each site.
    fixed: Vec<i128>,
}

impl<'s> ChoiceNetwork<'s> {
    /// Returns `None` if the network would be too large.
    fn new(state: &State<'_, '_>, resource: usize, sites: &'s [u32]) -> Option<ChoiceNetwork<'s>> {
        let mut position = vec![None; state.problem.sites.len()];
        sites.iter().zip(0_u32..).for_each(|(site, index)| position[*site as usize] = Some(index));
        let mut pools: BTreeMap<(usize, Option<u32>), i128> = BTreeMap::new();
        let mut fixed: Vec<i128> = sites.iter().map(|site| i128::from(state.load(*site, resource))).collect();
        for item in 0..state.problem.items.len() as u32 {
            let (Some(choice), need) = (state.item(item).choice, need(state, item, resource)) else { continue };
            for (site, _) in state.places(item).iter().filter(|_| need > 0) {
                let Some(index) = position[*site as usize] else { continue };
                let amount = i128::from(state.movable(item, *site)) * i128::from(need);
                let is_inside = state.problem.choices[choice].binary_search(site).is_ok();
                *pools.entry((choice, (!is_inside).then_some(index))).or_default() += amount;
                fixed[index as usize] -= amount;
            }
        }
        // A site of unknown capacity may take everything, so its choices are left out. A site that
        // is set aside takes nothing.
        let is_known = |site: &u32| position[*site as usize].is_some() || !state.is_open(*site);
        pools.retain(|(choice, _), amount| *amount > 0 && state.problem.choices[*choice].iter().all(is_known));
        let ways = |(choice, outside): &(usize, Option<u32>)| -> Vec<u32> {
            let inside = state.problem.choices[*choice].iter().filter_map(|site| position[*site as usize]);
            inside.chain(*outside).collect()
        };
        if pools.keys().map(|(choice, _)| state.problem.choices[*choice].len() + 1).sum::<usize>() > WAYS_MAX {
            return None;
        }
        let network = Network::new(pools.keys().map(ways).collect(), sites.len());
        Some(ChoiceNetwork { sites, resource, network, amounts: pools.into_values().collect(), fixed })
    }

    /// Returns the obstacle if the load does not fit at the level.
    fn obstacle(&self, state: &State<'_, '_>, level: f64) -> Option<flow::Obstacle> {
        let room = |(site, fixed): (&u32, &i128)| {
            let has = i128::from(state.has(*site, self.resource));
            ((level * has as f64).ceil() as i128 - fixed).max(0)
        };
        let rooms: Vec<i128> = self.sites.iter().zip(&self.fixed).map(room).collect();
        self.network.obstacle(&self.amounts, &rooms)
    }
}

/// For each site, which other sites its items can reach.
pub(super) struct Exits {
    /// The choices of the items that can leave each site.
    choices: Vec<Vec<usize>>,
}

impl Exits {
    pub fn new(state: &State<'_, '_>) -> Exits {
        let of = |site| {
            let leaving = state.holders(site).filter(|item| state.movable(*item, site) > 0);
            let mut choices: Vec<usize> = leaving.filter_map(|item| state.item(item).choice).collect();
            choices.sort_unstable();
            choices.dedup();
            choices
        };
        Exits { choices: state.sites().map(of).collect() }
    }

    /// Returns the choices of items that may leave the site.
    pub fn of(&self, site: u32) -> &[usize] {
        &self.choices[site as usize]
    }

    /// Records that an item with this choice is also on the site.
    pub fn open(&mut self, site: u32, choice: usize) {
        let choices = &mut self.choices[site as usize];
        if let Err(place) = choices.binary_search(&choice) {
            choices.insert(place, choice);
        }
    }

    /// Returns the given sites and those from which an item may go to one of them.
    pub fn leading_to(&self, state: &State<'_, '_>, sites: &[bool]) -> Vec<bool> {
        let leads = |choice: &[u32]| choice.iter().any(|site| sites[*site as usize]);
        let leads: Vec<bool> = state.problem.choices.iter().map(|choice| leads(choice)).collect();
        let leave = |choices: &Vec<usize>| choices.iter().any(|choice| leads[*choice]);
        self.choices.iter().zip(sites).map(|(choices, known)| *known || leave(choices)).collect()
    }

    /// Returns the smallest set of sites that includes this site and that no item can leave, and
    /// its mean use. The mean is 0 if the capacity of one of the sites is unknown.
    fn closure(&self, state: &State<'_, '_>, site: u32, resource: usize) -> (Vec<bool>, f64) {
        let mut inside = vec![false; self.choices.len()];
        let mut known = vec![false; state.problem.choices.len()];
        let mut waiting = vec![site];
        let (mut load, mut has) = (0_i128, 0_i128);
        inside[site as usize] = true;
        while let Some(site) = waiting.pop() {
            if state.has(site, resource) <= 0 {
                // The capacity of the site is unknown.
                return (inside, 0.0);
            }
            load += i128::from(state.load(site, resource));
            has += i128::from(state.has(site, resource));
            for choice in &self.choices[site as usize] {
                if std::mem::replace(&mut known[*choice], true) {
                    continue;
                }
                for next in state.problem.choices[*choice].iter().filter(|site| state.is_open(**site)) {
                    if !std::mem::replace(&mut inside[*next as usize], true) {
                        waiting.push(*next);
                    }
                }
            }
        }
        (inside, if has == 0 { 0.0 } else { load as f64 / has as f64 })
    }
}

/// Returns the lowest level that the budget and the limits of the items allow, wherever the
/// replicas go.
fn by_limits(state: &State<'_, '_>, resource: usize, sites: &[u32]) -> f64 {
    let limited = |item: &super::Item| item.most < i64::MAX;
    if state.problem.budget.is_none() && !state.problem.items.iter().any(limited) {
        return 0.0;
    }
    /// Capacity and load of a site, and its movable replicas as pairs of request and count, the
    /// largest first.
    type Leaving = (f64, f64, Vec<(i64, i64)>);
    let mut leaving: Vec<Leaving> = Vec::with_capacity(sites.len());
    for site in sites {
        let may_leave = |item: u32| {
            let item_moves =
                state.movable(item, *site).min(state.item(item).most.saturating_add(state.arrived(item, *site)));
            (need(state, item, resource), item_moves)
        };
        let mut replicas: Vec<(i64, i64)> =
            state.holders(*site).map(may_leave).filter(|(need, replicas)| *need > 0 && *replicas > 0).collect();
        replicas.sort_unstable_by(|one, other| other.cmp(one));
        leaving.push((state.has(*site, resource) as f64, state.load(*site, resource) as f64, replicas));
    }
    let left = state.problem.budget.map_or(f64::INFINITY, |budget| (budget - state.moved()).max(0) as f64);
    let is_reachable = |level: f64| {
        let mut moved = 0.0;
        for (has, load, replicas) in &leaving {
            let mut excess = load - level * has;
            for (need, count) in replicas {
                if excess <= 0.0 {
                    break;
                }
                let (need, count) = (*need as f64, *count as f64);
                let taken = count.min(excess / need);
                (excess, moved) = (excess - taken * need, moved + taken);
            }
            if excess > 1e-6 * has || moved > left * (1.0 + 1e-9) {
                return false;
            }
        }
        true
    };
    let top = leaving.iter().map(|(has, load, _)| load / has).fold(0.0, f64::max);
    let (mut low, mut high) = (0.0, top);
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(low, high);
        if is_reachable(middle) { high = middle } else { low = middle }
    }
    low
}
