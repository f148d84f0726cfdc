//! Hooks of the writer: what has to change in the same transaction as what is written, such as the
//! usage that a quota reports.
//!
//! The writer knows no kinds, so another room supplies the hook. A hook sees the writes of one
//! transaction in their order, can refuse a write, and at the end adds writes of its own. So what
//! it maintains is exact at every revision, and two writers cannot both take the last of a quota.

use std::sync::Arc;

use ballast_k8s::{GroupResource, MemberPath, Object, Status};

use super::View;
use super::write::Write;

/// Makes the hook of each transaction. It runs in the writer, so it must be quick where it has
/// nothing to do.
pub trait CommitHookFactory: Send + Sync + 'static {
    fn begin(&self) -> Box<dyn CommitHook>;

    /// The members of the status of this kind that only hooks write. What a client writes there is
    /// ignored.
    fn owned_members(&self, resource: GroupResource) -> &'static [MemberPath];
}

/// The hook of one transaction.
pub trait CommitHook: Send + Sync {
    /// The next write: `before` becomes `after`, where `None` is an absent object. `view` is the
    /// state before it. A refusal leaves the hook as it was.
    fn on_write(
        &mut self,
        view: &View,
        before: Option<&Arc<Object>>,
        after: Option<&Arc<Object>>,
    ) -> Result<(), Status>;

    /// A copy of the hook, to go back to if the next writes are undone.
    fn savepoint(&self) -> Box<dyn CommitHook>;

    /// What the hook writes, in this order. `view` has all writes before. Hooks do not see the
    /// writes of hooks.
    fn finish(&mut self, view: &View) -> Vec<Write>;
}

/// Several hooks, one after another. Only the first one may refuse writes, because the others would
/// have noted a write that a later one refuses.
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
