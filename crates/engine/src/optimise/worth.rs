//! Which moves are worth their replicas.

use super::state::State;

/// What is reached with so many moved replicas.
#[derive(Clone, Copy, Debug)]
pub(super) struct Checkpoint {
    /// The point of the journal.
    pub mark: usize,
    pub figure: f64,
    pub moved: i64,
}

/// The least gain of one moved replica: `worth` times the mean gain of all of them, or what an
/// earlier plan has set.
pub(super) fn least_gain(worth: f64, earlier: f64, gain: f64, moved: i64) -> f64 {
    if moved <= 0 {
        return earlier;
    }
    (worth * gain / moved as f64).max(earlier)
}

/// The last of these checkpoints that is worth the moves since the ones before it. The first is
/// what is there without a move. `price`: the least gain of one moved replica.
pub(super) fn last_worthwhile(points: &[Checkpoint], price: f64) -> usize {
    let mut chosen = 0;
    for (index, point) in points.iter().enumerate().skip(1) {
        let since = &points[chosen];
        let moved = (point.moved - since.moved).max(0) as f64;
        // Steps are looked at together: a step without gain may prepare for the next one.
        if since.figure - point.figure >= price * moved * (1.0 - ROUNDING) {
            chosen = index;
        }
    }
    chosen
}

/// Goes back to the last of these checkpoints that is worth its moves, and takes back what moves
/// fewer replicas than it has to. Returns the least gain of one moved replica, and whether there is
/// a gain that the tolerance forbids.
pub(super) fn keep_worthwhile(state: &mut State<'_, '_>, points: &[Checkpoint]) -> (f64, bool) {
    let best = points[points.len() - 1];
    let (gain, moved) = (points[0].figure - best.figure, best.moved - points[0].moved);
    let price = least_gain(state.problem.worth, state.problem.price, gain, moved);
    let mut chosen = last_worthwhile(points, price);
    let is_within_tolerance = chosen > 0 && !is_enough(state, points[0].figure - points[chosen].figure);
    if is_within_tolerance {
        chosen = 0;
    }
    state.undo(points[chosen].mark);
    state.leave_small_moves();
    (price, is_within_tolerance)
}

/// Whether a gain is beyond the tolerance.
pub(super) fn is_enough(state: &State<'_, '_>, gain: f64) -> bool {
    gain > state.problem.tolerance * (1.0 + ROUNDING)
}

/// What sums of binary fractions may differ by.
const ROUNDING: f64 = 1e-9;
