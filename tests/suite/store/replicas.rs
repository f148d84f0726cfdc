//! Several replicas over one log: all follow, one leads.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use ballast::clock::{Clock, SystemClock};
use ballast::k8s::{GroupResource, Revision};
use ballast::store::{
    Bounds, Candidate, Change, ElectionState, Error, HistoryOf, KnownReplica, Losses, MemoryStore, Replacement,
    ReplicaReport, Span, Store, Term, Tip,
};
use ballast::watch::{self, Atomicity, Event, EventKind, Interest, Joined, Limits, Stale, Subscriber, WriteError};
use futures_util::future::join_all;

use super::fixtures::*;

const LEASE: Duration = Duration::from_secs(5);
pub const PATIENCE: Duration = Duration::from_secs(10);

pub async fn join(store: &Arc<MemoryStore>) -> Joined {
    join_with(store.clone(), Limits::default()).await
}

pub async fn join_with(store: Arc<dyn Store>, limits: Limits) -> Joined {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock);
    watch::join(store, clock, limits).await.unwrap()
}

/// Ends the term of the leader, and makes this replica lead.
pub async fn lead(store: &dyn Store, replica: &mut Joined, name: &str) -> Term {
    let candidate = Candidate { name: name.to_owned(), address: format!("{name}:7443") };
    let leader = store.lead(&candidate, LEASE).await.unwrap();
    if !leader.is_held_by(&candidate) {
        store.resign(leader.term).await.unwrap();
    }
    let term = store.lead(&candidate, LEASE).await.unwrap().term;
    tokio::time::timeout(PATIENCE, replica.role.lead(term)).await.unwrap().unwrap();
    term
}

pub async fn put(replica: &Joined, write: ballast::watch::Write) -> Result<Revision, WriteError> {
    let outcomes = replica.writer.commit(vec![write], Atomicity::All).await?;
    Ok(outcomes.into_iter().next().unwrap().unwrap().revision)
}

pub async fn next(subscriber: &mut Subscriber, count: usize) -> Vec<Arc<Event>> {
    let mut events = Vec::new();
    while events.len() < count {
        events.extend(tokio::time::timeout(PATIENCE, subscriber.next()).await.unwrap().unwrap());
    }
    events
}

#[tokio::test]
async fn re4_what_the_leader_writes_every_follower_shows_once_and_in_order() {
    let store = Arc::new(MemoryStore::new());
    let (mut leader, follower) = (join(&store).await, join(&store).await);
    lead(&*store, &mut leader, "one").await;
    let mut watching = follower.cache.subscribe(Interest::All, Revision::ZERO).unwrap();
    let web = binding("web");
    let made = put(&leader, create(&web, 1)).await.unwrap();
    let changed = put(&leader, update(&web, made, 2)).await.unwrap();
    let gone = put(&leader, delete(&web, changed)).await.unwrap();
    let events = next(&mut watching, 3).await;
    let seen: Vec<(Revision, EventKind, Option<i64>)> =
        events.iter().map(|event| (event.revision, event.kind, event.previous.as_deref().map(value))).collect();
    let expected =
        [(made, EventKind::Created, None), (changed, EventKind::Updated, Some(1)), (gone, EventKind::Deleted, Some(2))];
    assert_eq!(seen, expected);
    assert_eq!(follower.cache.view().revision, gone);
}

#[tokio::test]
async fn who_does_not_lead_refuses_writes_and_stores_nothing() {
    let store = Arc::new(MemoryStore::new());
    let (mut leader, mut follower) = (join(&store).await, join(&store).await);
    assert!(matches!(put(&follower, create(&binding("web"), 1)).await, Err(WriteError::Following)));
    lead(&*store, &mut leader, "one").await;
    assert!(matches!(put(&follower, create(&binding("web"), 1)).await, Err(WriteError::Following)));
    lead(&*store, &mut follower, "two").await;
    assert_eq!(put(&follower, create(&binding("web"), 1)).await.unwrap(), Revision(1));
}

#[tokio::test]
async fn re2_a_leader_whose_term_is_over_stores_nothing_and_follows() {
    let store = Arc::new(MemoryStore::new());
    let (mut old, mut new) = (join(&store).await, join(&store).await);
    lead(&*store, &mut old, "one").await;
    put(&old, create(&binding("web"), 1)).await.unwrap();
    lead(&*store, &mut new, "two").await;
    // The old leader is not aware yet.
    assert!(matches!(put(&old, create(&binding("lost"), 2)).await, Err(WriteError::Deposed)));
    tokio::time::timeout(PATIENCE, old.role.lost()).await.unwrap().unwrap();
    let api = put(&new, create(&binding("api"), 3)).await.unwrap();
    assert_eq!(api, Revision(2), "the refused write used no revision");
    tokio::time::timeout(PATIENCE, old.cache.reached(api)).await.unwrap();
    assert!(old.cache.view().get(&binding("lost")).is_none());
    assert!(matches!(put(&old, create(&binding("lost"), 2)).await, Err(WriteError::Following)));
    assert_eq!(store.bounds().await.unwrap().last, api);
}

#[tokio::test]
async fn an_idle_leader_notices_that_another_one_writes() {
    let store = Arc::new(MemoryStore::new());
    let (mut old, mut new) = (join(&store).await, join(&store).await);
    lead(&*store, &mut old, "one").await;
    lead(&*store, &mut new, "two").await;
    let api = put(&new, create(&binding("api"), 3)).await.unwrap();
    tokio::time::timeout(PATIENCE, old.cache.reached(api)).await.unwrap();
    tokio::time::timeout(PATIENCE, old.role.lost()).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_new_leader_goes_on_from_everything_that_was_written_before() {
    let store = Arc::new(MemoryStore::new());
    let mut old = join(&store).await;
    lead(&*store, &mut old, "one").await;
    let writes = (0..1000).map(|number| create(&binding(&format!("b{number}")), number)).collect();
    old.writer.commit(writes, Atomicity::All).await.unwrap();
    let mut new = join(&store).await;
    old.writer.commit(vec![create(&binding("last"), 1)], Atomicity::All).await.unwrap();
    lead(&*store, &mut new, "two").await;
    assert_eq!(new.cache.view().revision, Revision(1001));
    assert_eq!(put(&new, create(&binding("more"), 1)).await.unwrap(), Revision(1002));
}

#[tokio::test]
async fn a_follower_that_missed_a_compacted_part_begins_anew_and_its_watchers_list_again() {
    let store = Arc::new(MemoryStore::new());
    let link = Arc::new(Link::new(store.clone()));
    let (mut leader, follower) = (join(&store).await, join_with(link.clone(), Limits::default()).await);
    lead(&*store, &mut leader, "one").await;
    let web = binding("web");
    let mut at = put(&leader, create(&web, 0)).await.unwrap();
    tokio::time::timeout(PATIENCE, follower.cache.reached(at)).await.unwrap();
    let mut watching = follower.cache.subscribe(Interest::All, at).unwrap();
    let given = at;
    link.cut();
    for number in 1..20 {
        at = put(&leader, update(&web, at, number)).await.unwrap();
    }
    while store.compact(at, 1000).await.unwrap() {}
    link.mend();
    tokio::time::timeout(PATIENCE, follower.cache.reached(at)).await.unwrap();
    assert_eq!(value(follower.cache.view().get(&web).unwrap()), 19);
    assert_eq!(watching.position(), given, "no bookmark goes over what was not given");
    assert!(tokio::time::timeout(PATIENCE, watching.next()).await.unwrap().is_err(), "it has missed events");
    let mut watching = follower.cache.subscribe(Interest::All, at).unwrap();
    put(&leader, update(&web, at, 20)).await.unwrap();
    assert_eq!(next(&mut watching, 1).await[0].previous.as_deref().map(value), Some(19));
}

#[tokio::test]
async fn re8_a_replica_goes_on_over_a_log_that_was_lifted_and_its_watchers_list_again() {
    const TO: Revision = Revision(3_000_000_000);
    let store = Arc::new(MemoryStore::new());
    let (mut old, mut new) = (join(&store).await, join(&store).await);
    lead(&*store, &mut old, "one").await;
    let web = binding("web");
    let at = put(&old, create(&web, 0)).await.unwrap();
    tokio::time::timeout(PATIENCE, new.cache.reached(at)).await.unwrap();
    // One has seen everything here, and one more than exists, as after a restored backup.
    let watching = [at, Revision(1000)].map(|at| new.cache.subscribe(Interest::Kinds(vec![BINDINGS]), at).unwrap());
    old.role.follow().await.unwrap();
    let candidate = Candidate { name: "command".to_owned(), address: String::new() };
    let term = store.lead_in(&candidate, Term(7), LEASE).await.unwrap().term;
    store.bump_revision(term, TO).await.unwrap();
    store.resign(term).await.unwrap();
    for mut watching in watching {
        tokio::time::timeout(PATIENCE, new.cache.reached(TO)).await.unwrap();
        assert!(tokio::time::timeout(PATIENCE, watching.next()).await.unwrap().is_err(), "it is told to list again");
    }
    lead(&*store, &mut new, "two").await;
    let mut watching = old.cache.subscribe(Interest::All, TO).unwrap();
    let changed = put(&new, update(&web, at, 1)).await.unwrap();
    assert_eq!(changed, TO.next());
    let event = next(&mut watching, 1).await.remove(0);
    assert_eq!((event.revision, event.previous.as_deref().map(value)), (changed, Some(0)));
    assert!(old.cache.subscribe(Interest::All, at).is_err());
}

#[tokio::test]
async fn re6_and_re1_a_consistent_read_at_a_follower_sees_what_was_acknowledged_and_shares_its_question() {
    const READS: usize = 1000;
    let store = Arc::new(MemoryStore::new());
    let link = Arc::new(Link::new(store.clone()));
    let (mut leader, follower) = (join(&store).await, join_with(link.clone(), Limits::default()).await);
    lead(&*store, &mut leader, "one").await;
    let mut at = put(&leader, create(&binding("web"), 0)).await.unwrap();
    for number in 1..50 {
        at = put(&leader, update(&binding("web"), at, number)).await.unwrap();
        follower.cache.fresh().await.unwrap();
        assert!(follower.cache.view().revision >= at);
    }
    let before = link.asked.load(Ordering::SeqCst);
    for outcome in join_all((0..READS).map(|_| follower.cache.fresh())).await {
        outcome.unwrap();
    }
    let asked = link.asked.load(Ordering::SeqCst) - before;
    assert!(asked < READS / 10, "{asked} questions for {READS} reads");
}

#[tokio::test(start_paused = true)]
async fn re6_a_replica_without_its_database_says_so_and_shows_old_state_for_a_bounded_time() {
    let link = Arc::new(Link::new(Arc::new(MemoryStore::new())));
    let limits = Limits { outdated_after: Duration::from_secs(30), ..Limits::default() };
    let replica = join_with(link.clone(), limits).await;
    replica.cache.fresh().await.unwrap();
    link.cut();
    assert_eq!(replica.cache.fresh().await, Err(Stale::Unreachable));
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(replica.cache.is_cut_off() && !replica.cache.is_outdated(), "{:?}", replica.cache.lag());
    tokio::time::timeout(PATIENCE * 3, replica.cache.outdated().wait_for(|is_so| *is_so)).await.unwrap().unwrap();
    link.mend();
    tokio::time::timeout(PATIENCE * 3, replica.cache.outdated().wait_for(|is_so| !*is_so)).await.unwrap().unwrap();
    replica.cache.fresh().await.unwrap();
    assert!(!replica.cache.is_cut_off());
}

/// A store behind a network that can be cut.
pub struct Link {
    inner: Arc<MemoryStore>,
    is_whole: tokio::sync::watch::Sender<bool>,
    /// The number of queries for the end of the log.
    pub asked: AtomicUsize,
}

impl Link {
    pub fn new(inner: Arc<MemoryStore>) -> Link {
        Link { inner, is_whole: tokio::sync::watch::Sender::new(true), asked: AtomicUsize::new(0) }
    }

    /// Blocks calls from now on.
    pub fn cut(&self) {
        self.is_whole.send_replace(false);
    }

    /// Releases blocked calls.
    pub fn mend(&self) {
        self.is_whole.send_replace(true);
    }

    async fn pass(&self) {
        let _ = self.is_whole.subscribe().wait_for(|is_whole| *is_whole).await;
    }
}

#[async_trait]
impl Store for Link {
    async fn commit(&self, term: Term, changes: &[Change]) -> Result<(), Error> {
        self.pass().await;
        self.inner.commit(term, changes).await?;
        // The response passes the network, too.
        self.pass().await;
        Ok(())
    }

    async fn settle(&self, term: Term, changes: &[Change]) -> Result<bool, Error> {
        self.pass().await;
        self.inner.settle(term, changes).await
    }

    async fn page(&self, at: Revision, after: Revision, limit: usize) -> Result<Vec<Change>, Error> {
        self.pass().await;
        self.inner.page(at, after, limit).await
    }

    async fn changes(&self, after: Revision, limit: usize) -> Result<Vec<Change>, Error> {
        self.pass().await;
        self.inner.changes(after, limit).await
    }

    async fn news(&self, after: Revision) -> Result<(), Error> {
        self.pass().await;
        self.inner.news(after).await
    }

    async fn history(&self, of: &HistoryOf, span: Span, limit: usize) -> Result<Vec<Replacement>, Error> {
        self.pass().await;
        self.inner.history(of, span, limit).await
    }

    async fn replaced(
        &self,
        resource: GroupResource,
        span: Span,
        after: Revision,
        limit: usize,
    ) -> Result<Vec<Change>, Error> {
        self.pass().await;
        self.inner.replaced(resource, span, after, limit).await
    }

    async fn rows(&self, revisions: &[Revision]) -> Result<Vec<Change>, Error> {
        self.pass().await;
        self.inner.rows(revisions).await
    }

    async fn compact(&self, through: Revision, limit: usize) -> Result<bool, Error> {
        self.pass().await;
        self.inner.compact(through, limit).await
    }

    async fn bounds(&self) -> Result<Bounds, Error> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        self.pass().await;
        self.inner.bounds().await
    }

    async fn tip(&self, at: Revision) -> Result<Tip, Error> {
        self.pass().await;
        self.inner.tip(at).await
    }

    async fn mark_lost(&self, term: Term, seen: Revision) -> Result<(), Error> {
        self.pass().await;
        self.inner.mark_lost(term, seen).await
    }

    async fn losses(&self) -> Result<Losses, Error> {
        self.pass().await;
        self.inner.losses().await
    }

    async fn accept(&self, term: Term) -> Result<(), Error> {
        self.pass().await;
        self.inner.accept(term).await
    }

    async fn lead(&self, candidate: &Candidate, lease: Duration) -> Result<ElectionState, Error> {
        self.pass().await;
        self.inner.lead(candidate, lease).await
    }

    async fn lead_in(&self, candidate: &Candidate, term: Term, lease: Duration) -> Result<ElectionState, Error> {
        self.pass().await;
        self.inner.lead_in(candidate, term, lease).await
    }

    async fn resign(&self, term: Term) -> Result<(), Error> {
        self.pass().await;
        self.inner.resign(term).await
    }

    async fn announce(&self, announcement: &ReplicaReport) -> Result<Vec<KnownReplica>, Error> {
        self.pass().await;
        self.inner.announce(announcement).await
    }

    async fn depart(&self, name: &str) -> Result<(), Error> {
        self.pass().await;
        self.inner.depart(name).await
    }

    async fn bump_revision(&self, term: Term, to: Revision) -> Result<(), Error> {
        self.pass().await;
        self.inner.bump_revision(term, to).await
    }

    async fn probe(&self) -> Result<(), Error> {
        self.pass().await;
        self.inner.probe().await
    }

    async fn replaced_bytes(&self, after: Revision, limit: usize) -> Result<Vec<(Revision, u64)>, Error> {
        self.pass().await;
        self.inner.replaced_bytes(after, limit).await
    }

    async fn revision_before(&self, time_ms: i64) -> Result<Revision, Error> {
        self.pass().await;
        self.inner.revision_before(time_ms).await
    }
}
