//! Inputs that a plan looks up before it decides: the workload groups of bindings, and the
//! estimates of member clusters, if estimators are installed.

use std::borrow::{Borrow, Cow};

use super::{ParsedBinding, PlanBuilder};
use crate::asking;
use ballast_api::karmada::work::v1alpha2::{PartialBinding, RESOURCE_BINDINGS};
use ballast_engine::karmada::{Request, Shortlist, Target, WorkloadGroups};

impl PlanBuilder {
    /// Queries the estimators for all these bindings at once.
    pub fn ask_about<B: Borrow<ParsedBinding>>(&mut self, bindings: &[B]) {
        let Some(mut asking) = self.asking.take() else { return };
        let mut list = Shortlist::default();
        for parsed in bindings.iter().map(Borrow::borrow).filter(|parsed| !parsed.is_placement()) {
            let questions = asking::questions_of(&parsed.object.text.content(), &parsed.request);
            self.pass.shortlist(&Request { questions, ..parsed.request.clone() }, &mut list);
        }
        asking.learn(&mut self.pass, &list);
        self.asking = Some(asking);
    }

    /// Adds the estimates for the request of a binding.
    pub(super) fn learn(&mut self, parsed: &ParsedBinding, request: &mut Cow<'_, Request>) {
        let Some(asking) = &mut self.asking else { return };
        request.to_mut().questions = asking::questions_of(&parsed.object.text.content(), &parsed.request);
        let mut list = Shortlist::default();
        self.pass.shortlist(request, &mut list);
        asking.learn(&mut self.pass, &list);
    }

    /// Reads the targets of the workloads in the request's groups. Most installations have no
    /// groups, so nothing is read before a request has a group. A group belongs to one namespace.
    pub(super) fn know_groups(&mut self, request: &Request) {
        if request.groups == WorkloadGroups::default() || self.grouped.contains(&request.namespace) {
            return;
        }
        self.grouped.insert(request.namespace.clone());
        for object in self.view.list(RESOURCE_BINDINGS, Some(&request.namespace)) {
            let content = object.text.content();
            let Ok(partial) = PartialBinding::of(&content) else { continue };
            let Some(groups) = partial.spec.groups() else { continue };
            let groups = WorkloadGroups {
                affinity: groups.affinity_group.as_str().into(),
                anti_affinity: groups.anti_affinity_group.as_str().into(),
            };
            let on = |name: &str| Target { name: name.into(), replicas: 0, components: Vec::new() };
            let targets: Vec<Target> = partial.spec.clusters().iter().map(|target| on(&target.name)).collect();
            let workloads = self.pass.workloads_mut();
            workloads.upsert(&request.namespace, &object.key.name, &groups, &groups, &targets);
        }
    }
}
