//! The account of each cluster: what its bindings hold there (RM1), by cluster, so that a change of
//! one binding changes only the accounts of its clusters.
//!
//! *Invariant:* the accounts are a function of the bindings and of the time. A ledger that was kept
//! in step, event by event, has the accounts of one that is made anew, also if the clock steps
//! back. Clones share what they have in common.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use imbl::OrdMap;

use super::holding::{CopySize, FIRM, Holdings, Sizes};
use ballast_api::karmada::work::v1alpha2::{BINDINGS, differ_in_trigger};
use ballast_engine::karmada::{Amounts, ClusterCapacity};
use ballast_k8s::{Key, Object, Quantity, Revision, Time, Walk};
use ballast_watch::{Event, EventKind, View};

/// What the bindings hold on one cluster.
#[derive(Clone, Debug, Default)]
pub struct Account {
    pub reported: Amounts,
    pub promised: Amounts,
    /// Promised copies.
    pub copies: i64,
    /// The promised copies by their size, for clusters that report kinds of nodes.
    sizes: BTreeMap<SizeId, (Arc<CopySize>, i64)>,
}

/// The address of a size. It stays while the size is in use.
type SizeId = usize;

/// Who has a promise: cluster, namespace and name.
type Holder = (Arc<str>, Arc<str>, Arc<str>);

/// What is promised to one binding on one cluster, and until when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promise {
    pub copies: i64,
    until: i64,
}

/// The accounts at one moment. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Accounts {
    by_cluster: OrdMap<Arc<str>, Arc<Account>>,
    holders: OrdMap<Holder, Promise>,
    /// Promises that end later than this hold.
    now: i64,
}

/// The most bindings whose holdings are remembered. The next change of such a binding takes them
/// off without reading its old state again.
const RECENT_MAX: usize = 16_384;

/// When promises end, of which cluster, and of copies of which size.
type TimedKey = (i64, Arc<str>, SizeId);

pub struct Ledger {
    accounts: Accounts,
    ttl: i64,
    sizes: Sizes,
    /// The promises that end by themselves, by their end. Also those that have ended: the clock may
    /// step back. Bindings that were placed in the same second are one entry.
    timed: BTreeMap<TimedKey, (Arc<CopySize>, i64)>,
    /// Clusters whose account has changed since they were taken.
    touched: BTreeSet<Arc<str>>,
    recent: HashMap<Key, (Revision, Option<Holdings>)>,
    /// When holders of promises that had ended were dropped.
    swept: i64,
}

impl Account {
    fn change(&mut self, size: &Arc<CopySize>, reported: i64, promised: i64) {
        self.reported.add(&size.amounts, reported);
        self.promised.add(&size.amounts, promised);
        self.copies = self.copies.saturating_add(promised);
        if promised != 0 {
            let id = Arc::as_ptr(size) as SizeId;
            let known = self.sizes.entry(id).or_insert_with(|| (Arc::clone(size), 0));
            known.1 += promised;
            if known.1 == 0 {
                self.sizes.remove(&id);
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.reported.is_empty() && self.promised.is_empty() && self.sizes.is_empty()
    }

    /// What is left of a cluster's summary, of which `allocated` is a part.
    pub fn apply(&self, allocated: &[(Box<str>, Quantity)], capacity: &mut ClusterCapacity) {
        capacity.count_reported(allocated, &self.reported);
        if capacity.grades.is_none() {
            return capacity.take_sums(&self.promised);
        }
        // Larger replicas first, as they find their nodes with more difficulty.
        let mut sizes: Vec<_> = self.sizes.values().collect();
        sizes.sort_by_key(|(size, _)| std::cmp::Reverse(size.amounts.get("cpu")));
        sizes.into_iter().for_each(|(size, copies)| capacity.take(&size.needs, *copies));
    }
}

impl Accounts {
    pub fn of(&self, cluster: &str) -> Option<&Arc<Account>> {
        self.by_cluster.get(cluster)
    }

    /// By name.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<Account>)> {
        self.by_cluster.iter()
    }

    /// The bindings that have a promise on the cluster, as namespace and name, with the promised
    /// copies.
    pub fn holders(&self, cluster: &str) -> impl Iterator<Item = (&Arc<str>, &Arc<str>, i64)> {
        let first: Holder = (cluster.into(), "".into(), "".into());
        let holders = self.holders.range((Bound::Included(first), Bound::Unbounded));
        let (cluster, now) = (cluster.to_owned(), self.now);
        holders
            .take_while(move |((on, ..), _)| **on == *cluster)
            .filter(move |(_, promise)| promise.until > now)
            .map(|((_, namespace, name), promise)| (namespace, name, promise.copies))
    }

    fn change(&mut self, cluster: &Arc<str>, size: &Arc<CopySize>, reported: i64, promised: i64) {
        let mut account = self.by_cluster.remove(cluster).unwrap_or_default();
        Arc::make_mut(&mut account).change(size, reported, promised);
        if !account.is_empty() {
            self.by_cluster.insert(Arc::clone(cluster), account);
        }
    }
}

impl Ledger {
    pub fn new(ttl: i64) -> Ledger {
        Ledger {
            accounts: Accounts::default(),
            ttl,
            sizes: Sizes::default(),
            timed: BTreeMap::new(),
            touched: BTreeSet::new(),
            recent: HashMap::new(),
            swept: i64::MIN,
        }
    }

    /// The accounts of a view.
    pub fn of(view: &View, ttl: i64, now: Time) -> Ledger {
        let mut ledger = Ledger::new(ttl);
        ledger.set_time(now);
        for object in BINDINGS.into_iter().flat_map(|kind| view.list(kind, None)) {
            ledger.put(object);
        }
        ledger
    }

    pub fn accounts(&self) -> &Accounts {
        &self.accounts
    }

    /// Takes the names of the clusters whose account has changed since the last call.
    pub fn take_touched(&mut self) -> BTreeSet<Arc<str>> {
        std::mem::take(&mut self.touched)
    }

    /// Moves the clock. Promises whose end is passed end, and those whose end is ahead again hold
    /// again.
    pub fn set_time(&mut self, now: Time) {
        let (was, now) = (self.accounts.now, now.seconds());
        let (from, to, sign) = if was < now { (was, now, -1) } else { (now, was, 1) };
        let first = |until: i64| (until.saturating_add(1), Arc::<str>::from(""), 0);
        if from < to {
            for ((_, cluster, _), (size, copies)) in self.timed.range(first(from)..first(to)) {
                self.accounts.change(cluster, size, 0, sign * copies);
                self.touched.insert(Arc::clone(cluster));
            }
        }
        self.accounts.now = now;
        // Only names are lost with them, so this may be forgotten where the clock steps back.
        if now.saturating_sub(self.swept) > self.ttl || now < self.swept {
            let holders = std::mem::take(&mut self.accounts.holders);
            self.accounts.holders = holders.into_iter().filter(|(_, promise)| promise.until > now).collect();
            self.swept = now;
        }
    }

    /// Follows the change of a binding.
    pub fn follow(&mut self, event: &Event) {
        let key = &event.object.key;
        if !BINDINGS.contains(&key.resource) {
            return;
        }
        if let Some(before) = event.previous.as_deref().filter(|_| event.kind != EventKind::Deleted)
            && event.is_alike(differ_in_trigger)
            && is_placed_at_the_same_time(before, &event.object)
        {
            if let Some(known) = self.recent.get_mut(key) {
                known.0 = event.object.revision;
            }
            return;
        }
        if let Some(before) = &event.previous {
            let held = match self.recent.remove(key) {
                Some((revision, held)) if revision == before.revision => held,
                _ => self.sizes.holdings(before, self.ttl),
            };
            self.change(key, held.as_ref(), -1);
        }
        if event.kind != EventKind::Deleted {
            let held = self.put(&event.object);
            if self.recent.len() >= RECENT_MAX {
                self.recent.clear();
            }
            self.recent.insert(key.clone(), (event.object.revision, held));
        }
    }

    fn put(&mut self, object: &Object) -> Option<Holdings> {
        let held = self.sizes.holdings(object, self.ttl);
        self.change(&object.key, held.as_ref(), 1);
        held
    }

    fn change(&mut self, key: &Key, held: Option<&Holdings>, sign: i64) {
        let Some(Holdings { size, on }) = held else { return };
        for holding in on {
            let name = &holding.cluster;
            // The names are shared, because a million bindings are on few clusters.
            let cluster = match self.accounts.by_cluster.get_key_value(&**name) {
                Some((known, _)) => Arc::clone(known),
                None => Arc::clone(name),
            };
            let mut promised = sign * holding.promised;
            if holding.promised > 0 {
                let holder = (Arc::clone(&cluster), Arc::clone(&key.namespace), Arc::clone(&key.name));
                if sign > 0 && holding.until > self.accounts.now {
                    let promise = Promise { copies: holding.promised, until: holding.until };
                    self.accounts.holders.insert(holder, promise);
                } else {
                    self.accounts.holders.remove(&holder);
                }
                if holding.until != FIRM {
                    let at = (holding.until, Arc::clone(&cluster), Arc::as_ptr(size) as SizeId);
                    let known = self.timed.entry(at.clone()).or_insert_with(|| (Arc::clone(size), 0));
                    known.1 += promised;
                    if known.1 == 0 {
                        self.timed.remove(&at);
                    }
                    if holding.until <= self.accounts.now {
                        promised = 0;
                    }
                }
            }
            let reported = sign * holding.reported;
            if reported != 0 || promised != 0 {
                self.accounts.change(&cluster, size, reported, promised);
                self.touched.insert(cluster);
            }
        }
    }
}

/// Whether the last pass is the same in both versions. Without it, the time of the binding counts,
/// which never changes.
fn is_placed_at_the_same_time(before: &Object, after: &Object) -> bool {
    let path = ["status", "lastScheduledTime"];
    before.text.with_content(|one| after.text.with_content(|other| Walk::find(one, &path) == Walk::find(other, &path)))
}
