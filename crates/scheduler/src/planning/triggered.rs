//! The moves that triggers of several bindings would cause, as passes decide them (see `together`).

use super::{ParsedBinding, PlanBuilder, PlanOptions, Proposal};
use crate::together;
use ballast_api::ballast::v1alpha1::{self as api, Limits};
use ballast_engine::karmada::{Decision, Mode, Request};

impl PlanBuilder {
    /// Returns the joint decisions for these bindings if they are triggered together, as passes
    /// decide them, in their order.
    pub fn sketch(&self, cases: &[ParsedBinding]) -> Vec<Option<Decision>> {
        // With estimators, passes decide each binding alone.
        let together =
            cases.iter().map(|case| self.asking.is_none().then(|| self.request(case, Mode::Fresh).into_owned()));
        let mut requests: Vec<Option<Request>> = together.collect();
        together::sketch(&self.clusters, &self.profile, requests.iter_mut().map(Option::as_mut).collect())
    }

    /// Proposes for a binding that is triggered with others; `sketch` is its joint decision.
    pub fn propose_triggered(&mut self, parsed: &ParsedBinding, sketch: Option<Decision>) -> Proposal {
        let options = PlanOptions { mode: api::Mode::Fresh, limits: Limits::default() };
        let has_room = |sketch: &Decision| together::has_room(&self.pass, &parsed.request, sketch);
        match sketch.filter(has_room) {
            Some(sketch) => self.bounded(parsed, &options, sketch),
            None => self.propose(parsed, &options),
        }
    }
}
