//! Plans one transaction: the accepted writes, their revisions, and the resulting view.
//!
//! Planning is pure. Nothing takes effect until the store has committed the changes.

use std::sync::Arc;

use ballast_k8s::{Object, Revision};
use ballast_store::{Change, Operation};

use super::View;
use super::commit_hook::{CommitHook, CommitHookFactory};
use super::window::{Event, EventKind};
use super::write::{Atomicity, Draft, Expect, Rejected, Write};

pub(super) type WriteOutcome = Result<Arc<Object>, Rejected>;

/// The plan of one transaction.
pub(super) struct Batch {
    /// The state after the accepted writes. Later writes of the batch are checked against it.
    pub view: View,
    pub changes: Vec<Change>,
    pub events: Vec<Arc<Event>>,
    pub time_ms: i64,
    hook: Option<Box<dyn CommitHook>>,
}

impl Batch {
    pub fn after(view: &View, time_ms: i64, hooks: Option<&dyn CommitHookFactory>) -> Batch {
        let hook = hooks.map(CommitHookFactory::begin);
        Batch { view: view.clone(), changes: Vec::new(), events: Vec::new(), time_ms, hook }
    }

    /// Adds the writes of one call. Returns the outcome of each, provided that the transaction
    /// succeeds.
    pub fn add(&mut self, writes: &[Write], atomicity: Atomicity) -> Vec<WriteOutcome> {
        // Views share their structure, so this copy is cheap.
        let (before, length) = (self.view.clone(), self.changes.len());
        let is_undoable = atomicity == Atomicity::All && writes.len() > 1;
        let hook = self.hook.as_ref().filter(|_| is_undoable).map(|hook| hook.savepoint());
        let mut outcomes: Vec<WriteOutcome> = writes.iter().map(|write| self.put(write)).collect();
        if atomicity == Atomicity::All && outcomes.iter().any(Result::is_err) {
            self.view = before;
            self.hook = hook.or(self.hook.take());
            self.changes.truncate(length);
            self.events.truncate(length);
            outcomes
                .iter_mut()
                .filter(|outcome| outcome.is_ok())
                .for_each(|outcome| *outcome = Err(Rejected::NotTried));
        }
        outcomes
    }

    /// Adds the writes of the commit hooks. No write is added afterwards.
    pub fn close(&mut self) {
        let Some(mut hook) = self.hook.take() else { return };
        for write in hook.finish(&self.view) {
            let written = self.put(&write);
            debug_assert!(written.is_ok(), "a hook writes what it finds in the view");
        }
    }

    fn put(&mut self, write: &Write) -> WriteOutcome {
        let state = self.view.get(&write.key).cloned();
        let previous = check(write.expect, state)?;
        let revision = self.view.revision.next();
        let (operation, kind, document) = match (&write.draft, &previous) {
            (Draft::Delete(document), _) => (Operation::Delete, EventKind::Deleted, document),
            (Draft::Put(document), Some(_)) => (Operation::Update, EventKind::Updated, document),
            (Draft::Put(document), None) => (Operation::Create, EventKind::Created, document),
        };
        let created = previous.as_ref().map_or(revision, |previous| previous.created);
        let object = Arc::new(Object::of(write.key.clone(), revision, created, document));
        if let Some(hook) = &mut self.hook {
            let after = (kind != EventKind::Deleted).then_some(&object);
            let entered = hook.on_write(&self.view, previous.as_ref(), after);
            entered.map_err(|status| Rejected::Refused(Box::new(status)))?;
        }
        self.changes.push(Change {
            revision,
            key: object.key.clone(),
            operation,
            created,
            previous: previous.as_ref().map_or(Revision::ZERO, |previous| previous.revision),
            time_ms: self.time_ms,
            object: object.text.whole(),
        });
        let event = Event::new(revision, kind, object.clone(), previous, self.time_ms);
        self.view.apply(&event);
        self.events.push(Arc::new(event));
        Ok(object)
    }
}

/// Returns the state that the write replaces, or the reason why it is not the expected one.
fn check(expect: Expect, state: Option<Arc<Object>>) -> Result<Option<Arc<Object>>, Rejected> {
    match (expect, state) {
        (Expect::Absent, None) => Ok(None),
        (Expect::Absent, Some(there)) => Err(Rejected::Exists(there)),
        (Expect::At(_), None) => Err(Rejected::Missing),
        (Expect::At(revision), Some(there)) if there.revision == revision => Ok(Some(there)),
        (Expect::At(_), Some(there)) => Err(Rejected::Changed(there)),
    }
}
