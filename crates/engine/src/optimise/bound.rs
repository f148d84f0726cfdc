//! What no plan can beat. Relaxations: replicas can be split, rooms are endless, and rules about
//! all targets together do not count.

use super::state::State;

/// How often an interval is halved: beyond the digits of a figure that users read.
const HALVINGS: usize = 40;
/// Of how many sites, the most used ones first, it is looked at what cannot leave them and all that
/// can be reached from them.
const CLOSURES_MAX: usize = 64;

/// The least use that the most used site can have, as a share of what it has.
pub(super) fn level(state: &State<'_, '_>) -> f64 {
    (0..state.resources()).map(|resource| level_of(state, resource)).fold(0.0, f64::max)
}

/// The largest mean of the uses of the sites, each by its most used resource.
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
    // The least that any site of a choice has, by resource.
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
        let replicas: i64 = state.places(item).iter().map(|(site, _)| state.movable(item, *site)).sum();
        let Some(choice) = state.item(item).choice.filter(|_| replicas > 0) else { continue };
        let needs = state.item(item).needs.iter();
        let each = needs.map(|(resource, amount)| share(*amount, least[choice][*resource])).fold(0.0, f64::max);
        sum += each * replicas as f64;
    }
    sum / counted.len().max(1) as f64
}

pub(super) fn share(amount: i64, has: i64) -> f64 {
    if has <= 0 { 0.0 } else { amount as f64 / has as f64 }
}

pub(super) fn is_counted(state: &State<'_, '_>, site: u32) -> bool {
    (0..state.resources()).any(|resource| state.has(site, resource) > 0)
}

/// What one replica of the item needs of a resource.
pub(super) fn need(state: &State<'_, '_>, item: u32, resource: usize) -> i64 {
    state.item(item).needs.iter().filter(|(known, _)| *known == resource).map(|(_, amount)| *amount).sum()
}

fn movable_load(state: &State<'_, '_>, site: u32, resource: usize) -> i64 {
    state.holders(site).map(|item| state.movable(item, site).saturating_mul(need(state, item, resource))).sum()
}

fn level_of(state: &State<'_, '_>, resource: usize) -> f64 {
    let mut counted: Vec<u32> = state.sites().filter(|site| state.has(*site, resource) > 0).collect();
    let fixed = |site: &u32| {
        share(state.load(*site, resource) - movable_load(state, *site, resource), state.has(*site, resource))
    };
    let floor = counted.iter().map(fixed).fold(0.0, f64::max);
    let used = |site: &u32| share(state.load(*site, resource), state.has(*site, resource));
    counted.sort_by(|one, other| used(other).total_cmp(&used(one)).then(one.cmp(other)));
    let closures = Closures::new(state);
    let mut held = 0.0_f64;
    for site in counted.iter().take(CLOSURES_MAX) {
        held = held.max(closures.mean_from(state, *site, resource));
    }
    floor.max(held).max(by_limits(state, resource, &counted))
}

/// Which sites items can reach from each other.
struct Closures {
    /// The choices of the items that can leave each site.
    choices: Vec<Vec<usize>>,
}

impl Closures {
    fn new(state: &State<'_, '_>) -> Closures {
        let of = |site| {
            let leaving = state.holders(site).filter(|item| state.movable(*item, site) > 0);
            let mut choices: Vec<usize> = leaving.filter_map(|item| state.item(item).choice).collect();
            choices.sort_unstable();
            choices.dedup();
            choices
        };
        Closures { choices: state.sites().map(of).collect() }
    }

    /// The mean use of the smallest set of sites that has this site and that nothing can leave.
    fn mean_from(&self, state: &State<'_, '_>, site: u32, resource: usize) -> f64 {
        let mut inside = vec![false; self.choices.len()];
        let mut known = vec![false; state.problem.choices.len()];
        let mut waiting = vec![site];
        let (mut load, mut has) = (0_i128, 0_i128);
        inside[site as usize] = true;
        while let Some(site) = waiting.pop() {
            if state.has(site, resource) <= 0 {
                // Nobody knows what it can take.
                return 0.0;
            }
            load += i128::from(state.load(site, resource));
            has += i128::from(state.has(site, resource));
            for choice in &self.choices[site as usize] {
                if std::mem::replace(&mut known[*choice], true) {
                    continue;
                }
                for next in &state.problem.choices[*choice] {
                    if !std::mem::replace(&mut inside[*next as usize], true) {
                        waiting.push(*next);
                    }
                }
            }
        }
        if has == 0 { 0.0 } else { load as f64 / has as f64 }
    }
}

/// The least level that so few replicas can reach as the budget and the limits of the items allow,
/// wherever they go.
fn by_limits(state: &State<'_, '_>, resource: usize, sites: &[u32]) -> f64 {
    // By site, the largest replicas first.
    /// What a site has and holds, and the replicas that may leave: the need of each, and how many.
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
