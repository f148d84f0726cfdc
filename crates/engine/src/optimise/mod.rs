//! Optimises a fleet as a whole: which replicas of which workloads should be elsewhere, so that a
//! goal is met with few moves.
//!
//! The search starts from where everything is, and moves replicas only between assignments that are
//! allowed. What is allowed is the caller's: each item names the sites that it may use, and a
//! [`Rules`] answers what fits and which assignment keeps the rules about all targets together.
//!
//! Room is counted on the safe side: what arrives needs room that is free before anything moves. So
//! the moves of a plan can be made in any order, and none waits for another.
//!
//! Every result has a bound: no plan that keeps the rules is better than it. Bounds are relaxations
//! that replicas can be split in, so they need no search.
//!
//! The search is deterministic: it goes by the order of the sites and the items, and its arithmetic
//! is addition, multiplication, division and comparison of IEEE numbers, which is the same
//! everywhere.
//!
//! # Modules
//!
//! Each module uses only modules above it in this list.
//!
//! - `problem`: what is optimised
//! - `state`: where everything is during the search, with a journal to undo moves
//! - `worth`: which moves are worth their replicas
//! - `flow`: how much of what some sources have fits into sinks
//! - `bound`: what no plan can beat
//! - `balance`: makes the sites evenly used
//! - `cost`: makes the workloads cheap
//! - `pack`: empties sites
//! - `survive`: makes room for what the loss of sites would strand

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

/// Solves the problem: the best plan that the search finds, and a bound for all plans.
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
