//! A log that a command writes while no server runs. The command holds the lease, so no other
//! process writes, and decisions based on the state that it has read stay valid.

use std::sync::Arc;

use super::{Candidate, Change, Error, Settings, Store, Table, Term, copy, histories};
use ballast_k8s::Revision;

/// A log of which this process holds the lease.
pub struct OfflineLog {
    store: Arc<dyn Store>,
    candidate: Candidate,
    term: Term,
}

impl OfflineLog {
    /// Opens the database and takes the lease, under a name that no other process has. Fails with
    /// `Unavailable` while another process leads. After a crash of this process, others that share
    /// the database wait for the lease to expire, which takes half a minute.
    pub async fn open(url: &str, tables: &[Table], settings: &Settings, name: String) -> Result<OfflineLog, Error> {
        let store = super::open_with(url, tables, settings).await?;
        let candidate = Candidate { name, address: String::new() };
        let term = copy::lead(&*store, url, &candidate).await?;
        histories::lift_lost(&*store, term).await?;
        // Invalidates the defaults marker: objects may be written without new defaults.
        store.set_mark(term, 0).await?;
        Ok(OfflineLog { store, candidate, term })
    }

    pub fn store(&self) -> &dyn Store {
        &*self.store
    }

    /// Commits changes in the term of this holder; see `Store::commit`.
    pub async fn commit(&self, changes: &[Change]) -> Result<(), Error> {
        self.store.commit(self.term, changes).await
    }

    /// Bumps the revision in the term of this holder; see `Store::bump_revision`.
    pub async fn bump_revision(&self, to: Revision) -> Result<(), Error> {
        self.store.bump_revision(self.term, to).await
    }

    /// Runs `work` and renews the lease meanwhile. If the lease is lost, `work` is dropped at its
    /// next suspension point.
    pub async fn during<T>(&self, work: impl Future<Output = T>) -> Result<T, Error> {
        tokio::select! {
            done = work => Ok(done),
            lost = copy::keep_leading(&*self.store, &self.candidate, self.term) => Err(lost),
        }
    }

    /// Gives the lease back, and moves everything into the file that the URL names.
    pub async fn close(self) -> Result<(), Error> {
        // If resigning fails, the lease expires.
        let _ = self.store.resign(self.term).await;
        copy::tidy_up(&*self.store).await
    }
}
