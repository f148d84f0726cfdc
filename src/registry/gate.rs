//! Who else has a say in what clients write: namespaces that must be there, webhooks that change or refuse.
//!
//! A server on its own has no gate. What parts of Ballast write in-process passes none: it follows from what
//! clients were allowed to write.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;

use super::metadata::{self, Tree};
use super::update::{Plan, Stored};
use super::{Core, Target};
use crate::k8s::{Object, Status, User};
use crate::resource::ResourceKind;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Create,
    Update,
    Delete,
}

impl Operation {
    pub fn as_str(self) -> &'static str {
        match self {
            Operation::Create => "CREATE",
            Operation::Update => "UPDATE",
            Operation::Delete => "DELETE",
        }
    }
}

/// One write that somebody wants.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    pub caller: &'a User,
    pub row: &'a ResourceKind,
    pub operation: Operation,
    pub namespace: &'a str,
    /// Empty where it will be generated.
    pub name: &'a str,
    /// `status`, or nothing.
    pub subresource: &'a str,
    pub dry_run: bool,
}

/// Decides on writes of clients. Waits for others, so it is asked before anything is written; a patch keeps its turn
/// at the object meanwhile.
#[async_trait]
pub trait Gate: Send + Sync + 'static {
    /// Whether an object may be created in this place at all.
    async fn enter(&self, asked: &Asked<'_>) -> Result<(), Status>;

    /// Whether `mutate` or `validate` has anything to say about this; if not, neither is called.
    fn cares(&self, asked: &Asked<'_>) -> bool;

    /// May change the object before it is judged. Answers with warnings for the caller.
    async fn mutate(&self, asked: &Asked<'_>, object: &mut Tree, old: Option<&Tree>) -> Result<Vec<String>, Status>;

    /// Judges what would be stored; `object` is none for a delete. Answers with warnings for the caller.
    async fn validate(
        &self,
        asked: &Asked<'_>,
        object: Option<&Tree>,
        old: Option<&Tree>,
    ) -> Result<Vec<String>, Status>;
}

/// A client's write on its way through the gate, if there is one.
pub(super) struct Passage<'a> {
    pub core: &'a Core,
    pub caller: &'a User,
    pub target: &'a Target,
    pub operation: Operation,
    pub dry_run: bool,
}

impl Passage<'_> {
    fn asked<'s>(&'s self, name: &'s str) -> Asked<'s> {
        Asked {
            caller: self.caller,
            row: &self.target.row,
            operation: self.operation,
            namespace: self.target.namespace.as_deref().unwrap_or_default(),
            name: self.target.name.as_deref().unwrap_or(name),
            subresource: if self.target.status { "status" } else { "" },
            dry_run: self.dry_run,
        }
    }

    fn gate(&self) -> Option<&dyn Gate> {
        self.core.gate.get().map(|gate| &**gate)
    }

    /// Before the object is defaulted and judged. Answers with warnings.
    pub async fn mutate(&self, object: &mut Tree, old: Option<&Tree>) -> Result<Vec<String>, Status> {
        let Some(gate) = self.gate() else { return Ok(Vec::new()) };
        let name = metadata::text(metadata::of(object), "name").to_owned();
        let asked = self.asked(&name);
        if self.operation == Operation::Create {
            gate.enter(&asked).await?;
        }
        if !gate.cares(&asked) {
            return Ok(Vec::new());
        }
        let before = object.clone();
        let warnings = gate.mutate(&asked, object, old).await?;
        check_identity(&before, object)?;
        // Owners are tracked by whoever writes, and what no schema knows is dropped, as from any client.
        metadata::of_mut(object).remove("managedFields");
        let _nobody_to_tell = self.target.row.schema.prune(object);
        Ok(warnings)
    }

    /// What would be stored.
    pub async fn validate(&self, object: &Tree, old: Option<&Tree>) -> Result<Vec<String>, Status> {
        let name = metadata::text(metadata::of(object), "name");
        let asked = self.asked(name);
        match self.gate().filter(|gate| gate.cares(&asked)) {
            Some(gate) => gate.validate(&asked, Some(object), old).await,
            None => Ok(Vec::new()),
        }
    }

    pub async fn validate_plan(&self, plan: &Plan, stored: &Stored) -> Result<Vec<String>, Status> {
        match plan {
            Plan::Nothing => Ok(Vec::new()),
            Plan::Put(tree) | Plan::Remove(tree) => self.validate(tree, Some(&stored.tree)).await,
        }
    }

    /// An object that is to go. Nothing to change about it, but mutating webhooks may refuse too.
    pub async fn delete(&self, object: &Arc<Object>) -> Result<(), Status> {
        let asked = self.asked(&object.key.name);
        let Some(gate) = self.gate().filter(|gate| gate.cares(&asked)) else { return Ok(()) };
        let stored = Stored::parse(Arc::clone(object))?;
        gate.mutate(&asked, &mut stored.tree.clone(), Some(&stored.tree)).await?;
        gate.validate(&asked, None, Some(&stored.tree)).await.map(drop)
    }
}

/// What a webhook did to an object must leave it the object that it was.
fn check_identity(before: &Tree, after: &Tree) -> Result<(), Status> {
    let parts = |object: &Tree| {
        let metadata = metadata::of(object);
        ["name", "namespace", "uid"].map(|part| metadata.get(part).cloned().unwrap_or(Value::Null))
    };
    let is_same = ["kind", "apiVersion"].iter().all(|part| before.get(*part) == after.get(*part));
    match is_same && parts(before) == parts(after) {
        true => Ok(()),
        false => Err(Status::internal("a mutating webhook made another object of it")),
    }
}
