//! The storage of the bindings of a rebalance, and its effect on writes. Pure.
//!
//! In Ballast's own log, a binding and its Move change in one transaction. In an upstream API
//! server they are two writes, so a move is recorded before its binding is written (decision 10).
//! All differences between the two are methods of [`BindingStorage`].

use super::intent::{Intent, MoveEnd};
use ballast_engine::karmada::Target;
use ballast_k8s::Revision;
use ballast_scheduler::move_annotation::MoveAnnotation;

pub trait BindingStorage: Sync {
    /// Returns whether a binding can be ahead of its Move, or behind it, after an interrupted
    /// write.
    fn needs_reconciling(&self) -> bool;

    /// Returns the intent that the Move records before its binding is written. `None`: one
    /// transaction contains both.
    fn start_intent(
        &self,
        revision: Revision,
        replicas: i64,
        targets: &[Target],
        term: Option<&str>,
        settled: Option<bool>,
    ) -> Option<Intent>;

    /// Returns the intent that the Move records before its end is written to the binding.
    /// `is_marked`: the binding has a move annotation, and this write removes it.
    fn end_intent(
        &self,
        is_marked: bool,
        revision: Revision,
        replicas: i64,
        targets: &[Target],
        end: &MoveEnd,
    ) -> Option<Intent>;

    /// Returns whether replicas are counted on their new clusters in the step that ends a move,
    /// instead of when the end is confirmed. `is_marked`: the binding has the move's annotation.
    fn counts_in_same_step(&self, is_marked: bool) -> bool;

    /// Returns the annotation with which a move is loaded, given the binding's annotation and the
    /// targets that the Move records.
    fn loaded(&self, found: MoveAnnotation, recorded: Vec<(String, i64)>) -> MoveAnnotation;

    /// Returns whether the quotas of the bindings are in this store, so that the newest view
    /// contains their usage.
    fn knows_quotas(&self) -> bool;
}

/// Returns the storage for bindings that are local or in an upstream API server.
pub fn of(is_remote: bool) -> &'static dyn BindingStorage {
    if is_remote { &RemoteStorage } else { &LocalStorage }
}

struct LocalStorage;

impl BindingStorage for LocalStorage {
    fn needs_reconciling(&self) -> bool {
        false
    }

    fn start_intent(&self, _: Revision, _: i64, _: &[Target], _: Option<&str>, _: Option<bool>) -> Option<Intent> {
        None
    }

    fn end_intent(&self, _: bool, _: Revision, _: i64, _: &[Target], _: &MoveEnd) -> Option<Intent> {
        None
    }

    fn counts_in_same_step(&self, _: bool) -> bool {
        true
    }

    fn loaded(&self, found: MoveAnnotation, _: Vec<(String, i64)>) -> MoveAnnotation {
        found
    }

    fn knows_quotas(&self) -> bool {
        true
    }
}

struct RemoteStorage;

impl BindingStorage for RemoteStorage {
    fn needs_reconciling(&self) -> bool {
        true
    }

    fn start_intent(
        &self,
        revision: Revision,
        replicas: i64,
        targets: &[Target],
        term: Option<&str>,
        settled: Option<bool>,
    ) -> Option<Intent> {
        Some(Intent::new(revision, replicas, targets, term, settled))
    }

    fn end_intent(
        &self,
        is_marked: bool,
        revision: Revision,
        replicas: i64,
        targets: &[Target],
        end: &MoveEnd,
    ) -> Option<Intent> {
        is_marked.then(|| Intent::to_end(revision, replicas, targets, end.clone()))
    }

    fn counts_in_same_step(&self, is_marked: bool) -> bool {
        !is_marked
    }

    /// Uses the recorded targets. The next step detects how far the binding is ahead of its Move.
    fn loaded(&self, found: MoveAnnotation, recorded: Vec<(String, i64)>) -> MoveAnnotation {
        MoveAnnotation { at: recorded, ..found }
    }

    fn knows_quotas(&self) -> bool {
        false
    }
}
