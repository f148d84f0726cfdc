//! Who else has a say in what clients write: namespaces that must be there, webhooks that change or
//! refuse.
//!
//! A server on its own has no gate. What parts of Ballast write in-process passes none: it follows
//! from what clients were allowed to write, and many such writes are one transaction, which nobody
//! could refuse in part.

use async_trait::async_trait;
use serde_json::{Map, Value, json};

use super::metadata::Tree;
use super::remarks::Remarks;
use crate::k8s::{DeleteOptions, Status, User, WriteOptions};
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
    pub(super) fn dry_run(&self) -> bool {
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
