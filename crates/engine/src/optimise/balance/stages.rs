//! Stages of the search: after the fullest site is as low as possible, the next one is lowered.

use super::super::bound;
use super::super::worth::{is_enough, last_worthwhile, least_gain};
use super::{CHAIN_MAX, LEVEL_MIN, NEAR, Search, Stage, checkpoint, level, mean};

impl Search<'_, '_, '_> {
    /// Lowers the fullest site from `top` towards `bottom`, and keeps the moves that gain enough
    /// for the replicas that they move.
    pub(super) fn stage(&mut self, top: f64, bottom: f64) -> Stage {
        let mut points = vec![checkpoint(self.state)];
        self.descend(top, bottom, &mut points);
        let best = last_worthwhile(&points, 0.0);
        let (gain, moved) = (points[0].figure - points[best].figure, points[best].moved - points[0].moved);
        let (worth, earlier) = (self.state.problem.worth, self.state.problem.price);
        let price = least_gain(worth, earlier, gain, moved);
        let mut chosen = last_worthwhile(&points, price);
        let is_within_tolerance = chosen > 0 && !is_enough(self.state, points[0].figure - points[chosen].figure);
        if is_within_tolerance {
            chosen = 0;
        }
        self.undo(points[chosen].mark);
        let (has_moved, has_left_moves) = (chosen > 0, chosen < best);
        Stage { has_moved, has_left_moves, is_within_tolerance, price }
    }

    /// Returns the minimum gain for which stages after the first are searched.
    pub(super) fn least_gain(&self) -> f64 {
        self.state.problem.tolerance.max(NEAR)
    }

    /// Returns whether the levels of the counted sites differ by more than `least`. `top` is the
    /// level of the fullest.
    pub(super) fn may_gain(&self, top: f64, least: f64) -> bool {
        let lowest = match self.state.resources() {
            1 => mean(self.state),
            _ => 0.0,
        };
        top - lowest > least
    }

    /// Sets aside the sites that hold the level up after a stage. Returns whether there are any and
    /// other sites remain.
    pub(super) fn set_aside(&mut self, bottom: f64, stage: &Stage) -> bool {
        let reached = level(self.state);
        let mut held = Vec::new();
        if stage.has_left_moves || reached - bottom <= self.least_gain() {
            held = bound::held(self.state, &self.exits, bottom - LEVEL_MIN);
        }
        if held.is_empty() && !stage.has_left_moves {
            held = self.stuck(reached - self.least_gain().min(reached / 2.0));
        }
        let is_any = !held.is_empty();
        held.into_iter().for_each(|site| self.state.set_aside(site, reached));
        is_any && self.state.sites().any(|site| bound::is_counted(self.state, site))
    }

    /// Returns the sites above the level that the search cannot bring below it one at a time. If it
    /// can, returns all sites above the level, because then only the combination fails.
    fn stuck(&mut self, level: f64) -> Vec<u32> {
        self.set_level(level);
        self.fill = self.most.clone();
        self.reset_attempts();
        let above: Vec<u32> = self.above().into_iter().filter(|site| self.state.is_open(*site)).collect();
        let mark = self.state.mark();
        let mut stuck = Vec::new();
        for site in above.iter().copied() {
            if !self.shed(site, CHAIN_MAX) {
                stuck.push(site);
            }
            self.undo(mark);
        }
        if stuck.is_empty() { above } else { stuck }
    }
}
