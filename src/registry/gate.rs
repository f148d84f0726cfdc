//! Who else has a say in what clients write: namespaces that must be there, webhooks that change or
//! refuse.
//!
//! A server on its own has no gate. What parts of Ballast write in-process passes none: it follows
//! from what clients were allowed to write, and many such writes are one transaction, which nobody
//! could refuse in part.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Map, Value, json};

use super::metadata::{self, Tree};
use super::update::{Plan, Stored};
use super::{Core, Locator, Remarks};
use crate::k8s::{DeleteOptions, Object, Status, User, WriteOptions};
use crate::resource::{Kinds, ResourceKind};

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

/// Whose request a write is, and where to leave what is said about it.
#[derive(Clone, Copy, Debug)]
pub struct Caller<'a> {
    pub user: &'a User,
    pub remarks: &'a Remarks,
}

/// One write that somebody wants.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    pub caller: Caller<'a>,
    /// In the version that was asked for; objects that are shown to the gate are in the stored one.
    pub row: &'a ResourceKind,
    pub kinds: &'a Kinds,
    pub operation: Operation,
    pub namespace: &'a str,
    /// Empty where it will be generated.
    pub name: &'a str,
    /// `status`, or nothing.
    pub subresource: &'a str,
    pub wish: Wish<'a>,
}

impl<'a> Asked<'a> {
    pub fn dry_run(&self) -> bool {
        self.wish.dry_run()
    }

    /// The other versions in which this kind is served.
    pub fn other_versions(&self) -> impl Iterator<Item = &'a ResourceKind> {
        let (own, resource) = (self.row.version, self.row.resource);
        let rows = self.kinds.rows().iter().map(|row| &**row);
        rows.filter(move |row| row.resource == resource && row.version != own)
    }
}

/// What was asked for beside the object.
#[derive(Clone, Copy)]
pub enum Wish<'a> {
    Write(&'a WriteOptions),
    Delete(&'a DeleteOptions),
}

impl Wish<'_> {
    fn dry_run(&self) -> bool {
        match self {
            Wish::Write(options) => options.dry_run,
            Wish::Delete(options) => options.dry_run,
        }
    }

    /// As `CreateOptions`, `UpdateOptions` or `DeleteOptions` without their kind. A patch is an
    /// update here.
    pub fn told(&self) -> Map<String, Value> {
        let mut told = Map::new();
        let mut tell = |name: &str, value: Option<Value>| drop(value.map(|value| told.insert(name.to_owned(), value)));
        tell("dryRun", self.dry_run().then(|| json!(["All"])));
        match self {
            Wish::Write(options) => tell("fieldManager", options.field_manager.as_deref().map(Value::from)),
            Wish::Delete(DeleteOptions { propagation, uid, resource_version, .. }) => {
                tell("propagationPolicy", propagation.map(|policy| Value::from(policy.as_str())));
                let mut preconditions = Map::new();
                for (name, value) in [("uid", uid), ("resourceVersion", resource_version)] {
                    preconditions.extend(value.as_deref().map(|value| (name.to_owned(), Value::from(value))));
                }
                tell("preconditions", (!preconditions.is_empty()).then_some(Value::Object(preconditions)));
            }
        }
        told
    }
}

/// Decides on writes of clients. Waits for others, so it is asked before anything is written; a
/// patch keeps its turn at the object meanwhile. What it has to say beside yes and no it leaves
/// with the caller's remarks.
#[async_trait]
pub trait Gate: Send + Sync + 'static {
    /// Whether an object may be created in this place at all.
    async fn enter(&self, asked: &Asked<'_>) -> Result<(), Status>;

    /// Whether `mutate` or `validate` has anything to say about this; if not, neither is called.
    fn cares(&self, asked: &Asked<'_>) -> bool;

    /// May change the object before it is judged.
    async fn mutate(&self, asked: &Asked<'_>, object: &mut Tree, old: Option<&Tree>) -> Result<(), Status>;

    /// Judges what would be stored; `object` is none for a delete.
    async fn validate(&self, asked: &Asked<'_>, object: Option<&Tree>, old: Option<&Tree>) -> Result<(), Status>;
}

/// A client's write on its way through the gate, if there is one.
#[derive(Clone, Copy)]
pub(super) struct Passage<'a> {
    pub core: &'a Core,
    pub caller: Caller<'a>,
    pub target: &'a Locator,
    pub operation: Operation,
    pub wish: Wish<'a>,
}

impl Passage<'_> {
    pub fn dry_run(&self) -> bool {
        self.wish.dry_run()
    }

    fn asked<'s>(&'s self, name: &'s str) -> Asked<'s> {
        Asked {
            caller: self.caller,
            row: &self.target.row,
            kinds: &self.core.kinds,
            operation: self.operation,
            namespace: self.target.namespace.as_deref().unwrap_or_default(),
            name: self.target.name.as_deref().unwrap_or(name),
            subresource: if self.target.status { "status" } else { "" },
            wish: self.wish,
        }
    }

    fn gate(&self) -> Option<&dyn Gate> {
        self.core.gate.get().map(|gate| &**gate)
    }

    /// Before the object is defaulted and judged.
    pub async fn mutate(&self, object: &mut Tree, old: Option<&Tree>) -> Result<(), Status> {
        let Some(gate) = self.gate() else { return Ok(()) };
        let name = metadata::text(metadata::of(object), "name").to_owned();
        let asked = self.asked(&name);
        if self.operation == Operation::Create {
            gate.enter(&asked).await?;
        }
        if !gate.cares(&asked) {
            return Ok(());
        }
        let before = object.clone();
        gate.mutate(&asked, object, old).await?;
        check_identity(&before, object)?;
        // Owners are tracked by whoever writes, and what no schema knows is dropped, as from any
        // client.
        metadata::of_mut(object).remove("managedFields");
        let _nobody_to_tell = self.target.row.schema.prune(object);
        Ok(())
    }

    /// What would be stored.
    pub async fn validate(&self, object: &Tree, old: Option<&Tree>) -> Result<(), Status> {
        let name = metadata::text(metadata::of(object), "name");
        let asked = self.asked(name);
        match self.gate().filter(|gate| gate.cares(&asked)) {
            Some(gate) => gate.validate(&asked, Some(object), old).await,
            None => Ok(()),
        }
    }

    pub async fn validate_plan(&self, plan: &Plan, stored: &Stored) -> Result<(), Status> {
        match plan {
            // As upstream: who guards an object is asked about what changes nothing, too.
            Plan::Nothing => self.validate(&stored.tree, Some(&stored.tree)).await,
            Plan::Put(tree) | Plan::Remove(tree) => self.validate(tree, Some(&stored.tree)).await,
        }
    }

    /// An object that is to go. Nothing to change about it, but mutating webhooks may refuse too.
    pub async fn delete(&self, object: &Arc<Object>) -> Result<(), Status> {
        let asked = self.asked(&object.key.name);
        let Some(gate) = self.gate().filter(|gate| gate.cares(&asked)) else { return Ok(()) };
        let stored = Stored::parse(Arc::clone(object))?;
        gate.mutate(&asked, &mut stored.tree.clone(), Some(&stored.tree)).await?;
        gate.validate(&asked, None, Some(&stored.tree)).await
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
