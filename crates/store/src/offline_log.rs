//! A log that a command writes while no server runs. The command holds the lease, so no other
//! process writes, and it can decide its writes on the state that it has read.

use std::sync::Arc;

use super::{Candidate, Change, Error, Settings, Store, Table, Term, copy, histories};
use ballast_k8s::Revision;

/// A log whose lease this process holds.
pub struct OfflineLog {
    store: Arc<dyn Store>,
    candidate: Candidate,
    term: Term,
}

impl OfflineLog {
    /// Opens the database and takes the lease, under a name that no other process has. It is
    /// `Unavailable` while another process leads. After a crash of this process, others that share
    /// the database wait for the end of the lease, half a minute.
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

    /// As `Store::commit`, in the term of this holder.
    pub async fn commit(&self, changes: &[Change]) -> Result<(), Error> {
        self.store.commit(self.term, changes).await
    }

    /// As `Store::bump_revision`, in the term of this holder.
    pub async fn bump_revision(&self, to: Revision) -> Result<(), Error> {
        self.store.bump_revision(self.term, to).await
    }

    /// Runs `work` and renews the lease meanwhile. If the lease is lost, `work` is dropped where it
    /// is.
    pub async fn during<T>(&self, work: impl Future<Output = T>) -> Result<T, Error> {
        tokio::select! {
            done = work => Ok(done),
            lost = copy::keep_leading(&*self.store, &self.candidate, self.term) => Err(lost),
        }
    }

    /// Gives the lease back, and moves everything into the file that the URL names.
    pub async fn close(self) -> Result<(), Error> {
        // A lease that cannot be given back ends by itself.
        let _ = self.store.resign(self.term).await;
        copy::tidy_up(&*self.store).await
    }
}
