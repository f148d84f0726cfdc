//! Hooks of the writer: changes that must be in the same transaction as a write, such as the usage
//! that a quota reports.
//!
//! The writer knows no kinds, so other crates supply the hooks. A hook sees the writes of one
//! transaction in their order, can refuse a write, and finally adds writes of its own. So its data
//! is exact at every revision, and two writers cannot both use the rest of a quota.

use std::sync::Arc;

use ballast_k8s::{GroupResource, MemberPath, Object, Status};

use super::View;
use super::write::Write;

/// Creates the hook of each transaction. Runs in the writer, so it must be fast if it has nothing
/// to do.
pub trait CommitHookFactory: Send + Sync + 'static {
    fn begin(&self) -> Box<dyn CommitHook>;

    /// Returns the members of the status of this kind that only hooks write. Values from clients
    /// are ignored.
    fn owned_members(&self, resource: GroupResource) -> &'static [MemberPath];
}

/// The hook of one transaction.
pub trait CommitHook: Send + Sync {
    /// Handles the next write, which replaces `before` by `after`, where `None` is an absent
    /// object. `view` is the state before the write. A refusal leaves the hook unchanged.
    fn on_write(
        &mut self,
        view: &View,
        before: Option<&Arc<Object>>,
        after: Option<&Arc<Object>>,
    ) -> Result<(), Status>;

    /// Returns a copy of the hook, to be restored if the next writes are undone.
    fn savepoint(&self) -> Box<dyn CommitHook>;

    /// Returns the writes of the hook, in order. `view` includes all earlier writes. Hooks do not
    /// see the writes of other hooks.
    fn finish(&mut self, view: &View) -> Vec<Write>;
}

/// Several hooks, one after another. Only the first one may refuse writes, because the others would
/// have recorded a write that a later one refuses.
pub struct CommitHooks(pub Vec<Arc<dyn CommitHookFactory>>);

impl CommitHookFactory for CommitHooks {
    fn begin(&self) -> Box<dyn CommitHook> {
        Box::new(Each(self.0.iter().map(|hooks| hooks.begin()).collect()))
    }

    fn owned_members(&self, resource: GroupResource) -> &'static [MemberPath] {
        let mut owned = self.0.iter().map(|hooks| hooks.owned_members(resource));
        owned.find(|members| !members.is_empty()).unwrap_or_default()
    }
}

struct Each(Vec<Box<dyn CommitHook>>);

impl CommitHook for Each {
    fn on_write(
        &mut self,
        view: &View,
        before: Option<&Arc<Object>>,
        after: Option<&Arc<Object>>,
    ) -> Result<(), Status> {
        self.0.iter_mut().try_for_each(|hook| hook.on_write(view, before, after))
    }

    fn savepoint(&self) -> Box<dyn CommitHook> {
        Box::new(Each(self.0.iter().map(|hook| hook.savepoint()).collect()))
    }

    fn finish(&mut self, view: &View) -> Vec<Write> {
        self.0.iter_mut().flat_map(|hook| hook.finish(view)).collect()
    }
}
