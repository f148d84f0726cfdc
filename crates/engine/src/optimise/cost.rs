//! The goal Cost: moves replicas to the cheapest sites with capacity for them, in descending order
//! of savings.

use super::problem::Outcome;
use super::state::State;
use super::worth::least_gain;

/// Share of the price of a replica below which savings are rounding errors.
const SAVING_MIN: f64 = 1e-9;

pub(super) fn solve(state: &mut State<'_, '_>) -> Outcome {
    let before = state.problem.items.iter().zip(0..).map(|(item, number)| bill(state, number, &item.at)).sum::<f64>();
    let start = figure(state);
    let bound = bound(state);
    let (mark, moved) = (state.mark(), state.moved());
    save(state, state.problem.price);
    let (gain, made) = (start - figure(state), state.moved() - moved);
    let least = least_gain(state.problem.worth, state.problem.price, gain, made);
    if least > state.problem.price {
        state.undo(mark);
        save(state, least);
    }
    state.leave_small_moves();
    let tolerance = state.problem.tolerance;
    let is_too_little = state.mark() > mark && start - figure(state) <= start * tolerance * (1.0 + SAVING_MIN);
    if is_too_little {
        state.undo(mark);
    }
    let is_small = |(saving, item, site, _): &(f64, u32, u32, i64)| {
        price(state, *item, *site).is_some_and(|here| *saving <= least_saving(state, here))
    };
    let is_within_tolerance = state.mark() == mark && (is_too_little || savings(state).iter().any(is_small));
    Outcome { before, after: figure(state), bound, price: least, is_within_tolerance, ..Outcome::default() }
}

/// Returns the price of a replica of the item on the site. `None`: the site has no price for a
/// resource that the item needs.
fn price(state: &State<'_, '_>, item: u32, site: u32) -> Option<f64> {
    let prices = state.problem.sites[site as usize].prices.as_ref()?;
    let of = |(resource, amount): &(usize, i64)| Some(prices.get(*resource).copied()?? * *amount as f64);
    state.item(item).needs.iter().map(of).sum()
}

/// Returns the saving per replica up to which it does not move.
fn least_saving(state: &State<'_, '_>, here: f64) -> f64 {
    here * (state.problem.tolerance * (1.0 + SAVING_MIN)).max(SAVING_MIN)
}

fn bill(state: &State<'_, '_>, item: u32, places: &[(u32, i64)]) -> f64 {
    let of = |(site, replicas): &(u32, i64)| price(state, item, *site).unwrap_or(0.0) * *replicas as f64;
    places.iter().map(of).sum()
}

fn figure(state: &State<'_, '_>) -> f64 {
    (0..state.problem.items.len() as u32).map(|item| bill(state, item, state.places(item))).sum()
}

/// Returns the largest possible saving of a replica that leaves the site, if there is one.
fn saving(state: &State<'_, '_>, item: u32, site: u32) -> Option<f64> {
    let here = price(state, item, site)?;
    let there = state.choice(item).iter().filter_map(|to| price(state, item, *to));
    let saving = here - there.fold(here, f64::min);
    (saving > here * SAVING_MIN).then_some(saving)
}

/// Returns the replicas that could save something, as tuples of saving per replica, item, site and
/// count, in descending order of savings.
fn savings(state: &State<'_, '_>) -> Vec<(f64, u32, u32, i64)> {
    let mut savings = Vec::new();
    for item in 0..state.problem.items.len() as u32 {
        for (site, _) in state.places(item) {
            let movable = state.movable(item, *site);
            let saving = if movable > 0 { saving(state, item, *site) } else { None };
            savings.extend(saving.map(|saving| (saving, item, *site, movable)));
        }
    }
    savings.sort_by(|one, other| other.0.total_cmp(&one.0).then((one.1, one.2).cmp(&(other.1, other.2))));
    savings
}

/// Makes every move that saves at least `least` per replica.
fn save(state: &mut State<'_, '_>, least: f64) {
    for (_, item, site, _) in savings(state).into_iter().filter(|(saving, ..)| *saving >= least) {
        let Some(here) = price(state, item, site) else { continue };
        let cheaper = |to: &u32| {
            let there = price(state, item, *to)?;
            let saving = here - there;
            (saving > least_saving(state, here) && saving >= least).then_some((there, *to))
        };
        let mut cheaper: Vec<(f64, u32)> = state.choice(item).iter().filter_map(cheaper).collect();
        cheaper.sort_by(|one, other| one.0.total_cmp(&other.0).then(one.1.cmp(&other.1)));
        for (_, to) in cheaper {
            let wanted = state.movable(item, site);
            let replicas = if wanted > 0 { state.allowed(item, site, to, wanted) } else { break };
            if replicas > 0 {
                state.apply(item, site, to, replicas);
            }
        }
    }
}

/// Returns the price if every movable replica went to its cheapest site, within the budget and the
/// items' limits, in descending order of savings.
fn bound(state: &State<'_, '_>) -> f64 {
    let mut left = state.problem.budget.map_or(i64::MAX, |budget| (budget - state.moved()).max(0));
    let mut moved = vec![0_i64; state.problem.items.len()];
    let mut bill = figure(state);
    for (saving, item, site, movable) in savings(state) {
        let most = state.item(item).most.saturating_add(state.arrived(item, site)) - moved[item as usize];
        let replicas = movable.min(most).min(left).max(0);
        moved[item as usize] += replicas;
        left -= replicas;
        bill -= saving * replicas as f64;
    }
    bill
}
