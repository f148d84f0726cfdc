//! The goal Pack: empties sites, those with the fewest replicas first. Replicas go to sites that
//! stay in use, the fullest first.

use super::problem::Outcome;
use super::state::State;
use super::worth::{Checkpoint, keep_worthwhile};

pub(super) fn solve(state: &mut State<'_, '_>) -> Outcome {
    let sites = state.problem.sites.len();
    let mut used = vec![false; sites];
    state.problem.items.iter().flat_map(|item| &item.at).for_each(|(site, _)| used[*site as usize] = true);
    let before = used.iter().filter(|used| **used).count() as f64;
    let bound = bound(state);
    let mut points = vec![checkpoint(state)];
    let mut emptied = vec![false; sites];
    let mut order: Vec<(i64, u32)> =
        state.sites().filter(|site| is_used(state, *site)).map(|site| (replicas(state, site), site)).collect();
    order.sort_unstable();
    for (_, site) in order {
        let mark = state.mark();
        emptied[site as usize] = true;
        if empty(state, site, &emptied) {
            points.push(checkpoint(state));
        } else {
            emptied[site as usize] = false;
            state.undo(mark);
        }
    }
    let (price, is_within_tolerance) = keep_worthwhile(state, &points);
    Outcome { before, after: in_use(state), bound, price, is_within_tolerance, ..Outcome::default() }
}

fn is_used(state: &State<'_, '_>, site: u32) -> bool {
    state.holders(site).next().is_some()
}

fn replicas(state: &State<'_, '_>, site: u32) -> i64 {
    state.holders(site).map(|item| state.on(item, site)).sum()
}

fn in_use(state: &State<'_, '_>) -> f64 {
    state.sites().filter(|site| is_used(state, *site)).count() as f64
}

fn checkpoint(state: &State<'_, '_>) -> Checkpoint {
    Checkpoint { mark: state.mark(), figure: in_use(state), moved: state.moved() }
}

/// Returns whether all replicas on the site may leave it.
fn can_be_empty(state: &State<'_, '_>, site: u32) -> bool {
    state.holders(site).all(|item| state.movable(item, site) == state.on(item, site))
}

fn empty(state: &mut State<'_, '_>, site: u32, emptied: &[bool]) -> bool {
    if !can_be_empty(state, site) {
        return false;
    }
    let size = |item: u32| state.item(item).needs.iter().map(|(_, amount)| *amount).max().unwrap_or(0);
    let mut items: Vec<(i64, u32)> = state.holders(site).map(|item| (-size(item), item)).collect();
    items.sort_unstable();
    for (_, item) in items {
        let stays =
            |to: &u32| *to != site && !emptied[*to as usize] && has_room(state, item, *to) && is_used(state, *to);
        let mut to: Vec<(f64, u32)> =
            state.choice(item).iter().copied().filter(stays).map(|to| (state.peak(to), to)).collect();
        to.sort_by(|one, other| other.0.total_cmp(&one.0).then(one.1.cmp(&other.1)));
        for (_, to) in to {
            let left = state.on(item, site);
            let replicas = if left > 0 { state.allowed(item, site, to, left) } else { break };
            if replicas > 0 {
                state.apply(item, site, to, replicas);
            }
        }
        if state.on(item, site) > 0 {
            return false;
        }
    }
    true
}

/// Returns whether the site has capacity for a replica of the item. Unknown capacity is unlimited.
fn has_room(state: &State<'_, '_>, item: u32, site: u32) -> bool {
    state.item(item).needs.iter().all(|(resource, amount)| {
        let has = state.has(site, *resource);
        has == 0 || has.saturating_sub(state.load(site, *resource)) >= *amount
    })
}

/// Returns the minimum number of sites in use: sites that cannot be emptied, sites beyond the
/// budget, and the number of sites that the load needs.
fn bound(state: &State<'_, '_>) -> f64 {
    let used: Vec<u32> = state.sites().filter(|site| is_used(state, *site)).collect();
    let (free, fixed): (Vec<u32>, Vec<u32>) = used.iter().partition(|site| can_be_empty(state, **site));
    let mut left = state.problem.budget.map_or(i64::MAX, |budget| (budget - state.moved()).max(0));
    let mut sizes: Vec<i64> = free.iter().map(|site| replicas(state, *site)).collect();
    sizes.sort_unstable();
    let affordable = sizes.iter().take_while(|size| {
        left = left.saturating_sub(**size);
        left >= 0
    });
    let by_budget = used.len() - affordable.count();
    let by_room = (0..state.resources()).map(|resource| by_room(state, resource, &fixed)).max().unwrap_or(0);
    by_budget.max(by_room).max(fixed.len()).max(usize::from(!used.is_empty())) as f64
}

/// Returns how many sites the load of all items needs for a resource. The sites in `fixed` are in
/// use in any case.
fn by_room(state: &State<'_, '_>, resource: usize, fixed: &[u32]) -> usize {
    let of_items = |site: u32| -> i128 {
        let of = |item: u32| {
            let need = super::bound::need(state, item, resource);
            i128::from(state.on(item, site)) * i128::from(need)
        };
        state.holders(site).map(of).sum()
    };
    let room = |site: u32| {
        let others = i128::from(state.load(site, resource)) - of_items(site);
        // Present load fits, even on an overloaded site.
        (i128::from(state.has(site, resource)) - others).max(of_items(site))
    };
    let mut wanted: i128 =
        state.sites().map(of_items).sum::<i128>() - fixed.iter().map(|site| room(*site)).sum::<i128>();
    let mut others: Vec<i128> = state.sites().filter(|site| !fixed.contains(site)).map(room).collect();
    others.sort_unstable_by(|one, other| other.cmp(one));
    let mut sites = fixed.len();
    for room in others {
        if wanted <= 0 {
            break;
        }
        wanted -= room;
        sites += 1;
    }
    sites
}
