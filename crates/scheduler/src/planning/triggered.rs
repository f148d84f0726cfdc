//! What triggers of several bindings would move, as passes decide it (see `together`).

use super::{ParsedBinding, PlanBuilder, PlanOptions, Proposal};
use crate::together;
use ballast_api::ballast::v1alpha1::{self as api, Limits};
use ballast_engine::karmada::{Decision, Mode, Request};

impl PlanBuilder {
    /// Where these bindings come to rest if they are triggered together, as passes decide it, in
    /// their order.
    pub fn sketch(&self, cases: &[ParsedBinding]) -> Vec<Option<Decision>> {
        // With the answers of estimators, passes decide each alone.
        let together =
            cases.iter().map(|case| self.asking.is_none().then(|| self.request(case, Mode::Fresh).into_owned()));
        let mut requests: Vec<Option<Request>> = together.collect();
        together::sketch(&self.clusters, &self.profile, requests.iter_mut().map(Option::as_mut).collect())
    }

    /// `propose` of a binding that is triggered with others, where `sketch` says that it comes to
    /// rest.
    pub fn propose_triggered(&mut self, parsed: &ParsedBinding, sketch: Option<Decision>) -> Proposal {
        let options = PlanOptions { mode: api::Mode::Fresh, limits: Limits::default() };
        let has_room = |sketch: &Decision| together::has_room(&self.pass, &parsed.request, sketch);
        match sketch.filter(has_room) {
            Some(sketch) => self.bounded(parsed, &options, sketch),
            None => self.propose(parsed, &options),
        }
    }
}
