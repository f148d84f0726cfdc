//! A store that fails on demand.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use ballast::k8s::{GroupResource, Revision};
use ballast::store::{
    Bounds, Candidate, Change, ElectionState, Error, HistoryOf, KnownReplica, Losses, MemoryStore, Replacement,
    ReplicaReport, Span, Store, Term, Tip,
};
use tokio::sync::Semaphore;

pub struct FaultyStore {
    pub inner: MemoryStore,
    /// Commits fail and store nothing.
    pub disk_is_full: AtomicBool,
    /// Commits are stored but fail: their response is lost.
    pub answers_are_lost: AtomicBool,
    /// Reads fail.
    pub is_silent: AtomicBool,
    /// Each commit takes a permit. Permits are plentiful, unless a test removes them.
    pub gate: Semaphore,
    /// Each response to a commit takes a permit. Permits are plentiful, unless a test removes them.
    pub answers: Semaphore,
    /// Commits that have reached the gate.
    pub held: AtomicUsize,
}

impl FaultyStore {
    pub fn new() -> Arc<FaultyStore> {
        Arc::new(FaultyStore {
            inner: MemoryStore::new(),
            disk_is_full: AtomicBool::new(false),
            answers_are_lost: AtomicBool::new(false),
            is_silent: AtomicBool::new(false),
            gate: Semaphore::new(1 << 20),
            answers: Semaphore::new(1 << 20),
            held: AtomicUsize::new(0),
        })
    }

    /// Blocks commits until `gate` gets permits.
    pub fn hold(&self) {
        self.gate.forget_permits(usize::MAX);
    }

    /// Stores commits without a response until `answers` gets permits.
    pub fn hold_answers(&self) {
        self.answers.forget_permits(usize::MAX);
    }
}

fn failure(is_on: &AtomicBool) -> Result<(), Error> {
    match is_on.load(Ordering::SeqCst) {
        true => Err(Error::Unavailable {
            action: "told to fail",
            source: Arc::new(io::Error::from(io::ErrorKind::StorageFull)),
        }),
        false => Ok(()),
    }
}

#[async_trait]
impl Store for FaultyStore {
    async fn commit(&self, term: Term, changes: &[Change]) -> Result<(), Error> {
        self.held.fetch_add(1, Ordering::SeqCst);
        self.gate.acquire().await.expect("never closed").forget();
        failure(&self.disk_is_full)?;
        self.inner.commit(term, changes).await?;
        self.answers.acquire().await.expect("never closed").forget();
        failure(&self.answers_are_lost)
    }

    async fn settle(&self, term: Term, changes: &[Change]) -> Result<bool, Error> {
        failure(&self.is_silent)?;
        self.inner.settle(term, changes).await
    }

    async fn page(&self, at: Revision, after: Revision, limit: usize) -> Result<Vec<Change>, Error> {
        self.inner.page(at, after, limit).await
    }

    async fn news(&self, after: Revision) -> Result<(), Error> {
        self.inner.news(after).await
    }

    async fn tip(&self, at: Revision) -> Result<Tip, Error> {
        failure(&self.is_silent)?;
        self.inner.tip(at).await
    }

    async fn mark_lost(&self, term: Term, seen: Revision) -> Result<(), Error> {
        failure(&self.is_silent)?;
        self.inner.mark_lost(term, seen).await
    }

    async fn losses(&self) -> Result<Losses, Error> {
        failure(&self.is_silent)?;
        self.inner.losses().await
    }

    async fn accept(&self, term: Term) -> Result<(), Error> {
        failure(&self.is_silent)?;
        self.inner.accept(term).await
    }

    async fn lead(&self, candidate: &Candidate, lease: Duration) -> Result<ElectionState, Error> {
        failure(&self.is_silent)?;
        self.inner.lead(candidate, lease).await
    }

    async fn lead_in(&self, candidate: &Candidate, term: Term, lease: Duration) -> Result<ElectionState, Error> {
        failure(&self.is_silent)?;
        self.inner.lead_in(candidate, term, lease).await
    }

    async fn resign(&self, term: Term) -> Result<(), Error> {
        self.inner.resign(term).await
    }

    async fn announce(&self, announcement: &ReplicaReport) -> Result<Vec<KnownReplica>, Error> {
        failure(&self.is_silent)?;
        self.inner.announce(announcement).await
    }

    async fn depart(&self, name: &str) -> Result<(), Error> {
        failure(&self.is_silent)?;
        self.inner.depart(name).await
    }

    async fn changes(&self, after: Revision, limit: usize) -> Result<Vec<Change>, Error> {
        self.inner.changes(after, limit).await
    }

    async fn history(&self, of: &HistoryOf, span: Span, limit: usize) -> Result<Vec<Replacement>, Error> {
        failure(&self.is_silent)?;
        self.inner.history(of, span, limit).await
    }

    async fn replaced(
        &self,
        resource: GroupResource,
        span: Span,
        after: Revision,
        limit: usize,
    ) -> Result<Vec<Change>, Error> {
        failure(&self.is_silent)?;
        self.inner.replaced(resource, span, after, limit).await
    }

    async fn rows(&self, revisions: &[Revision]) -> Result<Vec<Change>, Error> {
        self.inner.rows(revisions).await
    }

    async fn compact(&self, through: Revision, limit: usize) -> Result<bool, Error> {
        self.inner.compact(through, limit).await
    }

    async fn bump_revision(&self, term: Term, to: Revision) -> Result<(), Error> {
        self.inner.bump_revision(term, to).await
    }

    async fn probe(&self) -> Result<(), Error> {
        failure(&self.disk_is_full)
    }

    async fn bounds(&self) -> Result<Bounds, Error> {
        failure(&self.is_silent)?;
        self.inner.bounds().await
    }

    async fn replaced_bytes(&self, after: Revision, limit: usize) -> Result<Vec<(Revision, u64)>, Error> {
        self.inner.replaced_bytes(after, limit).await
    }

    async fn revision_before(&self, time_ms: i64) -> Result<Revision, Error> {
        self.inner.revision_before(time_ms).await
    }
}
