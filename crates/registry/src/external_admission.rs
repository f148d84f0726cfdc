//! External admission: another server may change or reject writes of clients. Examples are
//! admission webhooks, and the check that a namespace exists.
//!
//! A server without a host cluster has none. Ballast's own workers skip it: their writes follow
//! from admitted writes of clients, and many of them form one transaction. The exception is
//! scheduling: the worker queries external admission before it commits (`admission_check`), and the
//! result can only reject the write.

use async_trait::async_trait;
use serde_json::{Map, Value};

use super::metadata::Tree;
use super::warnings::Warnings;
use ballast_k8s::{DeleteOptions, Status, User, WriteOptions};
use ballast_resource::{Kinds, ResourceKind};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Create,
    Update,
    Delete,
    /// A request for the subresource `proxy`. The object is the options of the request.
    Connect,
}

impl Operation {
    pub fn as_str(self) -> &'static str {
        match self {
            Operation::Create => "CREATE",
            Operation::Update => "UPDATE",
            Operation::Delete => "DELETE",
            Operation::Connect => "CONNECT",
        }
    }

    /// Returns whether the object is stored afterwards, so that admission can change it.
    pub fn stores(self) -> bool {
        matches!(self, Operation::Create | Operation::Update)
    }
}

/// The user that requests a write, and the collector of its warnings.
#[derive(Clone, Copy, Debug)]
pub struct Caller<'a> {
    pub user: &'a User,
    pub warnings: &'a Warnings,
}

/// A write as admission sees it.
#[derive(Clone, Copy)]
pub struct AdmissionAttributes<'a> {
    pub caller: Caller<'a>,
    /// The row of the requested version. External admission sees objects in the stored version.
    pub row: &'a ResourceKind,
    pub kinds: &'a Kinds,
    pub operation: Operation,
    pub namespace: &'a str,
    /// Empty if the name will be generated, and for the delete of a collection.
    pub name: &'a str,
    /// `status`, `proxy`, or empty.
    pub subresource: &'a str,
    pub options: RequestOptions<'a>,
}

impl<'a> AdmissionAttributes<'a> {
    pub fn dry_run(&self) -> bool {
        self.options.dry_run()
    }

    /// Returns the other versions in which this kind is served.
    pub fn other_versions(&self) -> impl Iterator<Item = &'a ResourceKind> {
        let (own, resource) = (self.row.version, self.row.resource);
        let rows = self.kinds.rows().iter().map(|row| &**row);
        rows.filter(move |row| row.resource == resource && row.version != own)
    }
}

/// The options of the request.
#[derive(Clone, Copy)]
pub enum RequestOptions<'a> {
    Write(&'a WriteOptions),
    Delete(&'a DeleteOptions),
    /// The options of a request for something other than an object.
    None,
}

impl RequestOptions<'_> {
    pub(super) fn dry_run(&self) -> bool {
        match self {
            RequestOptions::Write(options) => options.dry_run,
            RequestOptions::Delete(options) => options.dry_run,
            RequestOptions::None => false,
        }
    }

    /// Returns the options as the client sent them: `CreateOptions`, `UpdateOptions` or
    /// `DeleteOptions` without `kind` and `apiVersion`. A patch counts as an update.
    pub fn to_json(self) -> Map<String, Value> {
        match self {
            RequestOptions::None => Map::new(),
            RequestOptions::Write(options) => options.given.clone(),
            RequestOptions::Delete(options) => options.given.clone(),
        }
    }
}

/// Changes or rejects writes of clients. A call may wait for another server, so it comes before
/// anything is written; a patch holds the lock of its object meanwhile. Warnings and audit
/// annotations go to `Caller::warnings`.
#[async_trait]
pub trait ExternalAdmission: Send + Sync + 'static {
    /// Checks that an object may be created at all, for example that its namespace exists.
    async fn check_create(&self, attributes: &AdmissionAttributes<'_>) -> Result<(), Status>;

    /// Returns whether this write of a client must be admitted. If not, neither `mutate` nor
    /// `validate` is called.
    fn applies_to(&self, attributes: &AdmissionAttributes<'_>) -> bool;

    /// Changes the object, if necessary, before it is validated.
    async fn mutate(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: &mut Tree,
        old: Option<&Tree>,
    ) -> Result<(), Status>;

    /// Accepts or rejects the object to be stored. `object` is `None` for a delete.
    async fn validate(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: Option<&Tree>,
        old: Option<&Tree>,
    ) -> Result<(), Status>;

    /// Returns whether any write of a worker to this kind could need a review. The object is not
    /// known yet, so `attributes.name` may be empty.
    fn matches_any(&self, attributes: &AdmissionAttributes<'_>) -> bool;

    /// Returns whether this write of a worker must be reviewed.
    fn matches(&self, attributes: &AdmissionAttributes<'_>, object: &Tree, old: &Tree) -> bool;

    /// Accepts or rejects a write of a worker. `None` if the configuration has not been loaded yet.
    async fn review(
        &self,
        attributes: &AdmissionAttributes<'_>,
        object: &Tree,
        old: &Tree,
    ) -> Option<Result<(), Status>>;
}
