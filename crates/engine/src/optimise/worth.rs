//! Decides which moves gain enough for the replicas that they move.

use super::state::State;

/// The figure after a number of moved replicas.
#[derive(Clone, Copy, Debug)]
pub(super) struct Checkpoint {
    /// The position in the journal.
    pub mark: usize,
    pub figure: f64,
    pub moved: i64,
}

/// Returns the minimum gain per moved replica: `worth` times the mean gain of all of them, or the
/// minimum of an earlier plan if that is larger.
pub(super) fn least_gain(worth: f64, earlier: f64, gain: f64, moved: i64) -> f64 {
    if moved <= 0 {
        return earlier;
    }
    (worth * gain / moved as f64).max(earlier)
}

/// Returns the last checkpoint that is worth the moves since the checkpoints before it. The first
/// checkpoint is the state without moves. `price` is the minimum gain per moved replica.
pub(super) fn last_worthwhile(points: &[Checkpoint], price: f64) -> usize {
    let mut chosen = 0;
    for (index, point) in points.iter().enumerate().skip(1) {
        let since = &points[chosen];
        let moved = (point.moved - since.moved).max(0) as f64;
        // Steps without gain are combined with the next one, which they may prepare.
        if since.figure - point.figure >= price * moved * (1.0 - ROUNDING) {
            chosen = index;
        }
    }
    chosen
}

/// Returns to the last checkpoint that is worth its moves, and undoes moves of fewer replicas than
/// an item's minimum. Returns the minimum gain per moved replica, and whether a gain exists that is
/// within the tolerance.
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

/// Returns whether a gain exceeds the tolerance.
pub(super) fn is_enough(state: &State<'_, '_>, gain: f64) -> bool {
    gain > state.problem.tolerance * (1.0 + ROUNDING)
}

/// Relative rounding error of sums of binary fractions.
const ROUNDING: f64 = 1e-9;
