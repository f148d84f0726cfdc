//! Stub of the PostgreSQL back end for binaries without the feature `postgres`: types without
//! values, and errors that refuse a database server.

use std::convert::Infallible;
use std::sync::Arc;

use super::checksum::{DamagedRow, Examined};
use super::source_rows::SourceRows;
use super::{Error, Settings, Store, Table, Term};
use ballast_k8s::Revision;

/// Returns the error for a database server.
fn refusal() -> Error {
    Error::Misplaced { advice: "this binary is built without PostgreSQL (the feature `postgres`)".to_owned() }
}

/// # Errors
///
/// Always.
pub fn check_built() -> Result<(), Error> {
    Err(refusal())
}

pub struct PostgresStore(Infallible);

impl PostgresStore {
    pub async fn open(_: &str, _: &[Table], _: &Settings) -> Result<PostgresStore, Error> {
        Err(refusal())
    }

    pub async fn check_log(_: &str, _: &Settings) -> Result<(), Error> {
        Err(refusal())
    }

    pub async fn damaged_rows(_: &str, _: &Settings) -> Result<Vec<DamagedRow>, Error> {
        Err(refusal())
    }

    pub(crate) fn as_store(&self) -> &dyn Store {
        match self.0 {}
    }

    pub(crate) fn shared(self) -> Arc<dyn Store> {
        match self.0 {}
    }

    pub(crate) async fn fill(&self, _: Term, _: &mut SourceRows<'_>) -> Result<(), Error> {
        match self.0 {}
    }

    pub(crate) async fn examine(&self, _: Revision, _: usize) -> Result<Examined, Error> {
        match self.0 {}
    }

    pub(crate) async fn move_aside(&self, _: Term, _: &[DamagedRow]) -> Result<Revision, Error> {
        match self.0 {}
    }
}

/// The scratch schema of a test; has no values here.
pub struct Scratch {
    pub url: String,
    never: Infallible,
}

impl Scratch {
    /// # Errors
    ///
    /// Always.
    pub async fn make(_: &str, _: &str, _: &Settings) -> Result<Scratch, Error> {
        Err(refusal())
    }

    pub async fn remove(self) -> Result<(), Error> {
        match self.never {}
    }
}
