//! Computes the changes after which exactly the picked clusters have bindings.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::cycle::Bindings;
use super::decision::{BindingWrite, ClusterDecision};
use super::fault::Fault;
use super::request::Binding;

#[derive(Debug, Default)]
pub(super) struct Diff<'a> {
    pub(super) created: Vec<ClusterDecision>,
    /// Bindings that move from an earlier snapshot, or come back from Unscheduled.
    pub(super) patched: Vec<BindingWrite>,
    pub(super) unscheduled: Vec<&'a Binding>,
}

impl<'a> Diff<'a> {
    /// Computes the changes. `picked` contains the clusters without a live binding of the current
    /// snapshot, each once.
    pub(super) fn between(bindings: &Bindings<'a>, picked: Vec<ClusterDecision>) -> Result<Diff<'a>, Fault> {
        let by_cluster: BTreeMap<&str, &ClusterDecision> = picked.iter().map(|d| (&*d.cluster, d)).collect();
        let mut served: BTreeSet<Arc<str>> = BTreeSet::new();
        let mut diff = Diff::default();
        for binding in &bindings.obsolete {
            match by_cluster.get(&*binding.cluster) {
                Some(decision) if served.insert(Arc::clone(&binding.cluster)) => {
                    diff.patched.push(BindingWrite::Patch {
                        binding: Arc::clone(&binding.name),
                        state: binding.state,
                        decision: ClusterDecision::clone(decision),
                    })
                }
                _ => diff.unscheduled.push(binding),
            }
        }
        for binding in &bindings.unscheduled {
            let Some(decision) = by_cluster.get(&*binding.cluster) else { continue };
            // Differs from KubeFleet (D36), which would turn an obsolete and an Unscheduled binding
            // of one cluster into two live bindings.
            if !served.insert(Arc::clone(&binding.cluster)) {
                continue;
            }
            let state = binding.previous_state.ok_or_else(|| Fault::PreviousState(binding.name.as_ref().into()))?;
            let decision = ClusterDecision::clone(decision);
            diff.patched.push(BindingWrite::Patch { binding: Arc::clone(&binding.name), state, decision });
        }
        diff.created = picked.into_iter().filter(|decision| !served.contains(&decision.cluster)).collect();
        Ok(diff)
    }

    /// Returns the number of clusters that the diff adds.
    pub(super) fn gained(&self) -> usize {
        self.created.len() + self.patched.len()
    }

    /// Returns the decisions about the clusters that the diff adds.
    pub(super) fn decisions(&self) -> impl Iterator<Item = &ClusterDecision> {
        let patched = self.patched.iter().filter_map(|write| match write {
            BindingWrite::Patch { decision, .. } => Some(decision),
            _ => None,
        });
        self.created.iter().chain(patched)
    }

    /// Returns all writes. Creations come before deletions, so that the placement never has too few
    /// clusters.
    pub(super) fn into_writes(self) -> Vec<BindingWrite> {
        let created = self.created.into_iter().map(|decision| BindingWrite::Create { decision });
        let unscheduled = self.unscheduled.into_iter().map(unschedule);
        created.chain(self.patched).chain(unscheduled).collect()
    }
}

pub(super) fn unschedule(binding: &Binding) -> BindingWrite {
    BindingWrite::Unschedule { binding: Arc::clone(&binding.name), from: binding.state }
}
