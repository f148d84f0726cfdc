//! Global optimisation: moves replicas between sites to reach a goal with few moves.
//!
//! The search starts from the current placement and moves replicas only between assignments that
//! are allowed. The caller defines which ones are: each item lists the sites that it may use, and
//! [`Rules`] reports the capacity of sites and which assignments keep the rules that concern all
//! targets of an item.
//!
//! Capacity is counted conservatively: arriving replicas need capacity that is free before any
//! move. So the moves of a plan can be made in any order, and none waits for another.
//!
//! Every result has a bound: no plan that keeps the rules has a better figure. Bounds come from
//! relaxations in which replicas can be split, so they need no search.
//!
//! The search is deterministic: it iterates in the order of sites and items, and uses only
//! addition, multiplication, division and comparison of IEEE numbers, which give the same results
//! on every machine.
//!
//! # Modules
//!
//! Each module uses only modules above it in this list.
//!
//! - `problem`: the problem and its solution
//! - `state`: the placement during the search, with a journal to undo moves
//! - `worth`: which moves gain enough for the replicas that they move
//! - `flow`: maximum flow and minimum-cost flow
//! - `bound`: bounds that no plan can beat
//! - `balance`: the goal Balance, even use of the sites
//! - `cost`: the goal Cost, the lowest price
//! - `pack`: the goal Pack, as few sites as possible
//! - `survive`: the goal Survive, free capacity for the replicas of lost sites

mod balance;
mod bound;
mod cost;
mod flow;
mod pack;
mod problem;
mod state;
mod survive;
#[cfg(test)]
mod tests;
mod worth;

use problem::Outcome;
pub use problem::{Goal, Item, Problem, ReplicasBySite, Rules, Site, Solution};
use state::State;
pub use state::on;

/// Solves the problem. Returns the best plan that the search finds, and a bound for all plans.
pub fn solve(problem: &Problem, rules: &mut dyn Rules) -> Solution {
    let mut state = State::new(problem, rules);
    let outcome = match problem.goal {
        Goal::Balance => balance::solve(&mut state),
        Goal::Cost => cost::solve(&mut state),
        Goal::Pack => pack::solve(&mut state),
        Goal::Survive => survive::solve(&mut state),
    };
    let (moved, places) = (state.moved(), state.into_places());
    let Outcome { before, after, bound, price, is_within_tolerance, unrelieved } = outcome;
    Solution { before, after, bound: bound.min(after), moved, price, places, is_within_tolerance, unrelieved }
}
