//! Makes the sites evenly used: lowers the level that no site is above, step by step, from where
//! everything is.
//!
//! At each level, what is above it leaves, the largest replicas first, for the least used sites.
//! Where these are out of reach, replicas make room for each other, site by site. The last level
//! that can be reached is narrowed down.

use super::bound::{self, is_counted, need, share};
use super::state::State;
use super::worth::{Checkpoint, last_worthwhile, least_gain};

/// Steps from the level of today to the bound: the resolution of `worth`.
const LEVELS: u32 = 24;
/// How often the step that fails is halved.
const REFINEMENTS: u32 = 7;
/// Levels that differ by less are equal: a tenth of what users read.
const LEVEL_MIN: f64 = 1e-5;
/// How many sites replicas that make room for each other may pass.
const CHAIN_MAX: usize = 3;
/// How many such attempts one level makes: each looks at all that is on a site.
const ATTEMPTS_MAX: usize = 200;
/// How many items of a site, and how many sites for each, such an attempt looks at.
const CHAIN_ITEMS_MAX: usize = 48;
const CHAIN_SITES_MAX: usize = 12;
/// How many sites are tried for an item whose rules refuse some.
const REFUSALS_MAX: usize = 40;

/// What sums of binary fractions may differ by.
const ROUNDING: f64 = 1e-12;

pub(super) fn solve(state: &mut State<'_, '_>) -> (f64, f64, f64, f64) {
    let before = figure(state, |site, resource| {
        state.problem.sites[site as usize].used.get(resource).copied().unwrap_or_default()
    });
    let bottom = bound::level(state);
    let mean = if state.resources() == 1 { mean(state) } else { bound::largest_mean(state) };
    let bound = (bottom - mean).max(0.0);
    let mut points = vec![checkpoint(state)];
    let top = level(state);
    if top - bottom > LEVEL_MIN {
        descend(state, top, bottom, &mut points);
    }
    let best = points[last_worthwhile(&points, 0.0)];
    let (gain, moved) = (points[0].figure - best.figure, best.moved - points[0].moved);
    let price = least_gain(state.problem.worth, state.problem.price, gain, moved);
    let chosen = last_worthwhile(&points, price);
    state.undo(points[chosen].mark);
    tidy_up(state);
    let after = figure(state, |site, resource| state.load(site, resource));
    (before, bound, after, if moved > 0 { price } else { state.problem.price })
}

fn descend(state: &mut State<'_, '_>, top: f64, bottom: f64, points: &mut Vec<Checkpoint>) {
    let mut reached = top;
    let mut failed = None;
    for step in 1..=LEVELS {
        let wanted = top - (top - bottom) * f64::from(step) / f64::from(LEVELS);
        let mark = state.mark();
        if !lower(state, wanted, bottom) {
            state.undo(mark);
            failed = Some(wanted);
            break;
        }
        reached = wanted;
        points.push(checkpoint(state));
    }
    let Some(mut failed) = failed else { return };
    for _ in 0..REFINEMENTS {
        let middle = f64::midpoint(reached, failed);
        if reached - middle < LEVEL_MIN {
            break;
        }
        let mark = state.mark();
        if lower(state, middle, bottom) {
            reached = middle;
            points.push(checkpoint(state));
        } else {
            state.undo(mark);
            failed = middle;
        }
    }
}

fn checkpoint(state: &State<'_, '_>) -> Checkpoint {
    let figure = figure(state, |site, resource| state.load(site, resource));
    Checkpoint { mark: state.mark(), figure, moved: state.moved() }
}

fn peak_by(state: &State<'_, '_>, site: u32, load: impl Fn(u32, usize) -> i64) -> f64 {
    (0..state.resources()).map(|resource| share(load(site, resource), state.has(site, resource))).fold(0.0, f64::max)
}

/// How much of its most used resource a site uses.
fn peak(state: &State<'_, '_>, site: u32) -> f64 {
    peak_by(state, site, |site, resource| state.load(site, resource))
}

fn level(state: &State<'_, '_>) -> f64 {
    state.sites().map(|site| peak(state, site)).fold(0.0, f64::max)
}

/// All that is used, as a share of all there is. No plan changes it.
fn mean(state: &State<'_, '_>) -> f64 {
    let counted = state.sites().filter(|site| state.has(*site, 0) > 0);
    let (load, has) = counted.fold((0_i128, 0_i128), |(load, has), site| {
        (load + i128::from(state.load(site, 0)), has + i128::from(state.has(site, 0)))
    });
    if has == 0 { 0.0 } else { load as f64 / has as f64 }
}

fn figure(state: &State<'_, '_>, load: impl Fn(u32, usize) -> i64) -> f64 {
    let peaks: Vec<f64> =
        state.sites().filter(|site| is_counted(state, *site)).map(|site| peak_by(state, site, &load)).collect();
    let top = peaks.iter().copied().fold(0.0, f64::max);
    let mean = match state.resources() {
        1 => mean(state),
        _ => peaks.iter().sum::<f64>() / peaks.len().max(1) as f64,
    };
    (top - mean).max(0.0)
}

/// Brings all sites to this level or below. The receiving sites fill up to `fill` first.
fn lower(state: &mut State<'_, '_>, level: f64, fill: f64) -> bool {
    let mut above: Vec<(f64, u32)> =
        state.sites().map(|site| (peak(state, site), site)).filter(|(peak, _)| *peak > level).collect();
    above.sort_by(|one, other| other.0.total_cmp(&one.0).then(one.1.cmp(&other.1)));
    let mut attempts = ATTEMPTS_MAX;
    let levels = Levels { level, fill };
    above.into_iter().all(|(_, site)| shed(state, site, levels, CHAIN_MAX, &mut attempts))
}

#[derive(Clone, Copy)]
struct Levels {
    level: f64,
    fill: f64,
}

/// The resource that the site is above the level by, and how much of it is too much.
fn excess(state: &State<'_, '_>, site: u32, level: f64) -> Option<(usize, i64)> {
    let above = (0..state.resources()).filter(|resource| state.has(site, *resource) > 0).map(|resource| {
        let most = below(level, state.has(site, resource));
        (share(state.load(site, resource), state.has(site, resource)), resource, state.load(site, resource) - most)
    });
    let most =
        above.filter(|(_, _, more)| *more > 0).max_by(|one, other| one.0.total_cmp(&other.0).then(other.1.cmp(&one.1)));
    most.map(|(_, resource, more)| (resource, more))
}

/// How many replicas of the item a site takes without being above the level.
fn headroom(state: &State<'_, '_>, site: u32, item: u32, level: f64) -> i64 {
    let fit = |(resource, amount): &(usize, i64)| {
        below(level, state.has(site, *resource)).saturating_sub(state.load(site, *resource)) / *amount
    };
    state.item(item).needs.iter().map(fit).min().unwrap_or(0).max(0)
}

/// The items that may leave the site, those first that cost no move or relieve it most.
fn leaving(state: &State<'_, '_>, site: u32, resource: usize) -> Vec<u32> {
    let key = |item: u32| (state.arrived(item, site) == 0, -need(state, item, resource), item);
    let mut items: Vec<(bool, i64, u32)> =
        state.holders(site).filter(|item| state.movable(*item, site) > 0).map(key).filter(|key| key.1 < 0).collect();
    items.sort_unstable();
    items.into_iter().map(|(_, _, item)| item).collect()
}

fn shed(state: &mut State<'_, '_>, site: u32, levels: Levels, depth: usize, attempts: &mut usize) -> bool {
    for _ in 0..=2 * state.resources() {
        let Some((resource, _)) = excess(state, site, levels.level) else { return true };
        for item in leaving(state, site, resource) {
            if !shed_item(state, site, item, resource, levels) {
                break;
            }
        }
    }
    match excess(state, site, levels.level) {
        None => true,
        Some(_) => depth > 0 && make_room(state, site, levels, depth, attempts),
    }
}

/// Moves as many replicas of the item off the site as are too many. Returns whether some still are.
fn shed_item(state: &mut State<'_, '_>, site: u32, item: u32, resource: usize, levels: Levels) -> bool {
    let each = need(state, item, resource).max(1);
    let more = |state: &State<'_, '_>| {
        let most = below(levels.level, state.has(site, resource));
        (state.load(site, resource) - most).max(0)
    };
    let mut refused: Vec<u32> = Vec::new();
    loop {
        let wanted = rounded_up(more(state), each);
        if wanted == 0 {
            return false;
        }
        let open = state.choice(item).iter().copied().filter(|to| *to != site && !refused.contains(to));
        let open = open.filter(|to| headroom(state, *to, item, levels.level) > 0);
        let rated = open.map(|to| (peak(state, to), to));
        let best = rated.min_by(|one, other| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)));
        let Some((_, to)) = best.filter(|_| refused.len() < REFUSALS_MAX && state.movable(item, site) > 0) else {
            return true;
        };
        let most = headroom(state, to, item, levels.level);
        let replicas =
            state.allowed(item, site, to, wanted.min(headroom(state, to, item, levels.fill).max(1).min(most)));
        if replicas <= 0 || replicas > most {
            refused.push(to);
        } else {
            state.apply(item, site, to, replicas);
        }
    }
}

/// Moves replicas to sites that have no room below the level, and makes the room there.
fn make_room(state: &mut State<'_, '_>, site: u32, levels: Levels, depth: usize, attempts: &mut usize) -> bool {
    let near = within_reach(state, levels.level, depth - 1);
    while let Some((resource, more)) = excess(state, site, levels.level) {
        let mut is_lower = false;
        'items: for item in leaving(state, site, resource).into_iter().take(CHAIN_ITEMS_MAX) {
            let each = need(state, item, resource).max(1);
            let to = state.choice(item).iter().copied().filter(|to| *to != site && near[*to as usize]);
            let mut to: Vec<(f64, u32)> = to.map(|to| (peak(state, to), to)).collect();
            to.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)));
            for (_, to) in to.into_iter().take(CHAIN_SITES_MAX) {
                if *attempts == 0 {
                    return false;
                }
                *attempts -= 1;
                let mark = state.mark();
                let replicas = state.allowed(item, site, to, rounded_up(more, each));
                if replicas <= 0 {
                    continue;
                }
                state.apply(item, site, to, replicas);
                let was = more;
                let is_below = shed(state, to, levels, depth - 1, attempts);
                if is_below
                    && excess(state, site, levels.level).is_none_or(|(known, more)| known != resource || more < was)
                {
                    is_lower = true;
                    break 'items;
                }
                state.undo(mark);
            }
        }
        if !is_lower {
            return false;
        }
    }
    true
}

/// The sites from which replicas reach a site below the level over so many others.
fn within_reach(state: &State<'_, '_>, level: f64, over: usize) -> Vec<bool> {
    let mut near: Vec<bool> = state.sites().map(|site| is_counted(state, site) && peak(state, site) < level).collect();
    for _ in 0..=over {
        let leads: Vec<bool> =
            state.problem.choices.iter().map(|sites| sites.iter().any(|site| near[*site as usize])).collect();
        let next: Vec<bool> = state
            .sites()
            .map(|site| {
                near[site as usize]
                    || state.holders(site).any(|item| {
                        state.movable(item, site) > 0 && state.item(item).choice.is_some_and(|choice| leads[choice])
                    })
            })
            .collect();
        if next == near {
            break;
        }
        near = next;
    }
    near
}

/// Sends replicas back that need not have moved.
fn tidy_up(state: &mut State<'_, '_>) {
    state.leave_small_moves();
    let top = level(state);
    for item in state.moved_items() {
        let at = state.item(item).at.clone();
        for (home, replicas) in at {
            let places = state.places(item).to_vec();
            for (site, _) in places {
                let missing = replicas - state.on(item, home);
                let back = missing.min(state.arrived(item, site)).min(headroom(state, home, item, top));
                let back = if back > 0 { state.allowed(item, site, home, back) } else { 0 };
                if back > 0 && back <= headroom(state, home, item, top) {
                    state.apply(item, site, home, back);
                }
            }
        }
    }
}

/// The most that is used at this level. Levels are sums of binary fractions, so a level that is
/// meant to be whole may be a little less.
fn below(level: f64, has: i64) -> i64 {
    (level * has as f64 * (1.0 + ROUNDING)).floor() as i64
}

fn rounded_up(amount: i64, each: i64) -> i64 {
    (amount / each).saturating_add(i64::from(amount % each > 0))
}
