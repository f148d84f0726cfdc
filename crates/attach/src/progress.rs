//! The progress of the reflector: the kinds that were listed, and current faults.

use std::collections::{BTreeMap, BTreeSet};

use tokio::sync::watch;

use ballast_base::metrics;
use ballast_k8s::GroupResource;

#[derive(Debug, Default)]
struct State {
    /// The kinds that are reflected.
    expected: BTreeSet<GroupResource>,
    listed: BTreeSet<GroupResource>,
    /// The fault of each kind since its last news.
    faults: BTreeMap<GroupResource, String>,
}

impl State {
    fn is_synced(&self) -> bool {
        self.listed.len() == self.expected.len()
    }
}

/// The end that the reflector reports to.
#[derive(Debug)]
pub struct ProgressReporter(watch::Sender<State>);

impl ProgressReporter {
    /// Creates a reporter for these kinds.
    pub fn of(expected: BTreeSet<GroupResource>) -> ProgressReporter {
        ProgressReporter(watch::Sender::new(State { expected, ..State::default() }))
    }

    pub fn progress(&self) -> Progress {
        Progress(self.0.subscribe())
    }

    /// Records that all objects of this kind were listed. Returns whether that makes all kinds
    /// listed.
    pub fn listed(&self, kind: GroupResource) -> bool {
        let is_last = self.0.send_if_modified(|state| state.listed.insert(kind) && state.is_synced());
        if is_last {
            metrics::upstream_synced(true);
        }
        is_last
    }

    pub fn failed(&self, kind: GroupResource, why: String) {
        self.0.send_modify(|state| drop(state.faults.insert(kind, why)));
    }

    /// Clears the fault of a kind that has received a change.
    pub fn clear_fault(&self, kind: GroupResource) {
        if self.0.borrow().faults.contains_key(&kind) {
            self.0.send_modify(|state| drop(state.faults.remove(&kind)));
        }
    }
}

/// How far the reflector is. Clones share it.
#[derive(Clone, Debug)]
pub struct Progress(watch::Receiver<State>);

impl Progress {
    /// Returns whether all objects of all kinds were listed once. Later the reflector follows the
    /// watch.
    pub fn is_synced(&self) -> bool {
        self.0.borrow().is_synced()
    }

    /// Waits until the reflector has synced, possibly forever: use a timeout.
    pub async fn synced(&self) {
        let mut state = self.0.clone();
        if state.wait_for(State::is_synced).await.is_err() {
            std::future::pending().await
        }
    }

    /// Returns the current fault, if known.
    pub fn fault(&self) -> Option<String> {
        let state = self.0.borrow();
        state.faults.iter().next().map(|(kind, why)| format!("{kind}: {why}"))
    }

    /// Returns the kinds that were not listed yet.
    pub fn missing(&self) -> Vec<GroupResource> {
        let state = self.0.borrow();
        state.expected.difference(&state.listed).copied().collect()
    }
}
