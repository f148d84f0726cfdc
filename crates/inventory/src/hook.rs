//! Follows each commit of the log.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::decision::{Decided, FleetDecided};
use super::subject::{Subject, placement_of_fleet_binding};
use super::{CLUSTERS, Inventory, TOLD, difference};
use ballast_api::fleet::placement::v1beta1::any::SCOPES;
use ballast_api::fleet::placement::v1beta1::names::MEMBER_CLUSTERS;
use ballast_api::karmada::work::v1alpha2::BINDINGS;
use ballast_k8s::{GroupResource, Key, MemberPath, Object, Status};
use ballast_watch::{CommitHook, CommitHookFactory, Expect, View, Write};

impl CommitHookFactory for Inventory {
    fn begin(&self) -> Box<dyn CommitHook> {
        Box::new(InventoryHook { inventory: self.clone(), touched: BTreeMap::new() })
    }

    fn owned_members(&self, _: GroupResource) -> &'static [MemberPath] {
        &[]
    }
}

/// The subjects that the writes of one transaction affect.
#[derive(Clone)]
struct InventoryHook {
    inventory: Inventory,
    /// The subjects, with the uids of deleted objects.
    touched: BTreeMap<Subject, BTreeSet<Arc<str>>>,
}

impl InventoryHook {
    fn touch(&mut self, subjects: impl IntoIterator<Item = Subject>, gone: Option<&Arc<Object>>) {
        for subject in subjects {
            self.touched.entry(subject).or_default().extend(gone.map(|gone| Arc::clone(&gone.uid)));
        }
    }

    /// Marks the KubeFleet placements. The profiles of MemberClusters change their names with the
    /// Clusters of the same name.
    fn touch_fleet_placements(&mut self, view: &View) {
        let placements = SCOPES.iter().flat_map(|kinds| view.list(kinds.placements, None));
        let namespace = Arc::clone(&self.inventory.namespace);
        let subjects: Vec<Subject> =
            placements.filter_map(|placement| Subject::of_placement(&placement.key, &namespace)).collect();
        self.touch(subjects, None);
    }
}

impl CommitHook for InventoryHook {
    fn on_write(
        &mut self,
        view: &View,
        before: Option<&Arc<Object>>,
        after: Option<&Arc<Object>>,
    ) -> Result<(), Status> {
        let Some(object) = after.or(before) else { return Ok(()) };
        let namespace = Arc::clone(&self.inventory.namespace);
        let resource = object.key.resource;
        let gone = before.filter(|_| after.is_none());
        let is_new_or_gone = before.is_none() || after.is_none();
        if resource == CLUSTERS || resource == MEMBER_CLUSTERS || TOLD.contains(&resource) {
            self.touch(Subject::of(object, &namespace), gone);
            let member = || view.get(&Key::cluster(MEMBER_CLUSTERS, Arc::clone(&object.key.name)));
            if resource == CLUSTERS && is_new_or_gone && member().is_some() {
                self.touch_fleet_placements(view);
            }
        } else if BINDINGS.contains(&resource) {
            if before.map(|it| Decided::of(it)) != after.map(|it| Decided::of(it)) {
                self.touch(Subject::of(object, &namespace), gone);
            }
        } else if let Some(placement) = placement_of_fleet_binding(object) {
            if before.map(|it| FleetDecided::of(it)) != after.map(|it| FleetDecided::of(it)) {
                self.touch(Subject::of_placement(&placement, &namespace), None);
            }
        } else if is_new_or_gone {
            self.touch(Subject::of_placement(&object.key, &namespace), gone);
        }
        Ok(())
    }

    fn savepoint(&self) -> Box<dyn CommitHook> {
        Box::new(self.clone())
    }

    fn finish(&mut self, view: &View) -> Vec<Write> {
        let touched = std::mem::take(&mut self.touched);
        let writes =
            touched.iter().flat_map(|(subject, gone)| difference::writes(&self.inventory, view, subject, gone));
        // Two subjects may both find that an object has no source. Only one write remains.
        let mut known = BTreeSet::new();
        let state = |expect| match expect {
            Expect::Absent => None,
            Expect::At(revision) => Some(revision),
        };
        writes.filter(|write| known.insert((write.key.clone(), state(write.expect)))).collect()
    }
}
