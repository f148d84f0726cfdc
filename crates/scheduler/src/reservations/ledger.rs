//! The account of each cluster: the capacity that its bindings hold (RM1), by cluster, so that a
//! change of one binding changes only the accounts of its clusters.
//!
//! *Invariant:* the accounts are a function of the bindings, the followed clusters and the time.
//! The incrementally maintained ledger equals one rebuilt from scratch, also if the clock steps
//! back. Clones share their common parts.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use imbl::OrdMap;

use super::followed::Followed;
use super::holders::{Holder, Holders};
use super::holding::{Beside, CopySize, FIRM, Holdings, Sizes};
use crate::cluster_cache::{CLUSTERS, Summary};
use ballast_api::karmada::work::v1alpha2::BINDINGS;
use ballast_engine::karmada::{Amounts, ClusterCapacity};
use ballast_k8s::{Key, Object, Revision, Time};
use ballast_watch::{Event, EventKind, View};

const PODS: &str = "pods";

/// The capacity that bindings hold on one cluster.
#[derive(Clone, Debug, Default)]
pub struct Account {
    pub reported: Amounts,
    pub promised: Amounts,
    /// Reserved copies.
    pub copies: i64,
    /// The reserved copies by their size, for clusters that report resource models.
    sizes: BTreeMap<SizeId, (Arc<CopySize>, i64)>,
    /// Reported copies that arrived while foreign pods were present, by the version of the binding.
    beside: OrdMap<ReportId, ReportBeside>,
}

/// The version of a binding, with its namespace and name.
type ReportId = (Revision, Arc<str>, Arc<str>);

/// Copies in a report, and the foreign pods that were present when they arrived.
#[derive(Clone, Debug)]
struct ReportBeside {
    size: Arc<CopySize>,
    copies: i64,
    beside: Beside,
}

/// The address of a size. It is stable while the size is in use.
type SizeId = usize;

/// The accounts at one moment. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Accounts {
    by_cluster: OrdMap<Arc<str>, Arc<Account>>,
    holders: Holders,
    followed: Followed,
    /// Reservations with a later expiry are valid.
    now: i64,
}

/// Maximum number of bindings with cached holdings. The next change of such a binding removes its
/// holdings without parsing the old state again.
const RECENT_MAX: usize = 16_384;

/// The expiry, the cluster, and the size of the reserved copies.
type TimedKey = (i64, Arc<str>, SizeId);

pub struct Ledger {
    accounts: Accounts,
    ttl: i64,
    sizes: Sizes,
    /// The reservations with an expiry, including expired ones, because the clock may step back.
    /// Bindings that were placed in the same second share an entry.
    timed: BTreeMap<TimedKey, (Arc<CopySize>, i64)>,
    /// The number of `ReportBeside` entries by the end of their validity and cluster.
    beside_ends: BTreeMap<(i64, Arc<str>), usize>,
    /// Clusters with an account that has changed since the last `take_touched`.
    touched: BTreeSet<Arc<str>>,
    recent: HashMap<Key, (Revision, Option<Holdings>)>,
    /// The time of the last removal of expired holders.
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
        self.reported.is_empty() && self.promised.is_empty() && self.sizes.is_empty() && self.beside.is_empty()
    }

    /// Deducts the pods that exist on the cluster according to its summary and the reports.
    pub fn count_existing(&self, summary: &Summary, now: i64, capacity: &mut ClusterCapacity) {
        capacity.count_reported(&summary.allocated, &self.reported);
        for (size, copies) in self.unseen(summary, now) {
            capacity.take(&size.needs, copies);
        }
    }

    /// Returns the reported copies that the summary does not count, and that its count of foreign
    /// pods hides.
    ///
    /// A summary that is newer than the reports counts all copies. Otherwise the cluster has at
    /// least the foreign pods that were present when the copies arrived, and the copies reported
    /// now. The excess over the summary is at most the number of copies that arrived (RM1).
    pub fn unseen(&self, summary: &Summary, now: i64) -> Vec<(&Arc<CopySize>, i64)> {
        let newer: ReportId = (summary.revision.next(), "".into(), "".into());
        let reports = self.beside.range((Bound::Included(newer), Bound::Unbounded));
        let mut reports: Vec<_> = reports.map(|(_, report)| report).filter(|it| it.beside.until > now).collect();
        let Some(others) = reports.iter().map(|report| report.beside.pods).max() else { return Vec::new() };
        let reported = i64::try_from(self.reported.get(PODS)).unwrap_or(i64::MAX);
        let mut left = others.saturating_add(reported) - summary.pods().max(reported);
        // Larger copies first, because it is unknown which of them are counted.
        reports.sort_by_key(|report| std::cmp::Reverse(report.size.amounts.get("cpu")));
        let mut unseen = Vec::new();
        for ReportBeside { size, copies, .. } in reports {
            let copies = (*copies).min(left);
            if copies <= 0 {
                break;
            }
            left -= copies;
            unseen.push((size, copies));
        }
        unseen
    }

    /// Deducts the existing and the reserved copies from the capacity that the summary reports.
    pub fn apply(&self, summary: &Summary, now: i64, capacity: &mut ClusterCapacity) {
        self.count_existing(summary, now, capacity);
        if capacity.grades.is_none() {
            return capacity.take_sums(&self.promised);
        }
        // Larger replicas first, because they are harder to fit on nodes.
        let mut sizes: Vec<_> = self.sizes.values().collect();
        sizes.sort_by_key(|(size, _)| std::cmp::Reverse(size.amounts.get("cpu")));
        sizes.into_iter().for_each(|(size, copies)| capacity.take(&size.needs, *copies));
    }
}

impl Accounts {
    pub fn of(&self, cluster: &str) -> Option<&Arc<Account>> {
        self.by_cluster.get(cluster)
    }

    /// Returns whether the account of this cluster covers all bindings that name it.
    pub fn is_complete_for(&self, cluster: &str) -> bool {
        self.followed.is_complete_for(cluster)
    }

    /// Returns the time of the accounts in seconds.
    pub fn now(&self) -> i64 {
        self.now
    }

    /// Iterates over the accounts by cluster name.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Arc<Account>)> {
        self.by_cluster.iter()
    }

    /// Iterates over the bindings with a reservation on the cluster and their reserved copies, by
    /// namespace and name.
    pub fn holders(&self, cluster: &str) -> impl Iterator<Item = (&Holder, i64)> {
        self.holders.on(cluster, self.now)
    }

    /// Returns the copies that are reserved for this binding on the cluster.
    pub fn promised_to(&self, cluster: &str, holder: &Holder) -> i64 {
        self.holders.copies(cluster, holder, self.now)
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
    pub fn new(ttl: i64, followed: Followed) -> Ledger {
        Ledger {
            accounts: Accounts { followed, ..Accounts::default() },
            ttl,
            sizes: Sizes::default(),
            timed: BTreeMap::new(),
            beside_ends: BTreeMap::new(),
            touched: BTreeSet::new(),
            recent: HashMap::new(),
            swept: i64::MIN,
        }
    }

    /// Returns a ledger for the clusters of a view.
    pub fn of(view: &View, ttl: i64, now: Time) -> Ledger {
        let clusters = view.list(CLUSTERS, None).map(|object| Arc::clone(&object.key.name));
        Ledger::with(view, Followed::of(clusters), ttl, now)
    }

    /// Returns a ledger for all clusters that the bindings of a view name.
    pub fn of_all_names(view: &View, ttl: i64, now: Time) -> Ledger {
        Ledger::with(view, Followed::default(), ttl, now)
    }

    fn with(view: &View, followed: Followed, ttl: i64, now: Time) -> Ledger {
        let mut ledger = Ledger::new(ttl, followed);
        ledger.set_time(now);
        for object in BINDINGS.into_iter().flat_map(|kind| view.list(kind, None)) {
            ledger.put(object);
        }
        ledger
    }

    pub fn accounts(&self) -> &Accounts {
        &self.accounts
    }

    /// Follows a new cluster. Callers must check `Accounts::is_complete_for` first.
    pub fn follow_cluster(&mut self, cluster: &Arc<str>) {
        self.accounts.followed.add(cluster);
    }

    /// Takes the names of the clusters with an account that has changed since the last call.
    pub fn take_touched(&mut self) -> BTreeSet<Arc<str>> {
        std::mem::take(&mut self.touched)
    }

    /// Returns the first expiry after `now`, in seconds, of a reservation or of a `ReportBeside`.
    pub fn next_end(&self, now: Time) -> Option<i64> {
        let after = now.seconds().saturating_add(1);
        let promise = self.timed.range((after, "".into(), 0)..).next().map(|((end, ..), _)| *end);
        let beside = self.beside_ends.range((after, "".into())..).next().map(|((end, _), _)| *end);
        [promise, beside].into_iter().flatten().min()
    }

    /// Moves the clock. Reservations expire, or become valid again if the clock steps back.
    pub fn set_time(&mut self, now: Time) {
        let (was, now) = (self.accounts.now, now.seconds());
        let (from, to, sign) = if was < now { (was, now, -1) } else { (now, was, 1) };
        let first = |until: i64| (until.saturating_add(1), Arc::<str>::from(""), 0);
        if from < to {
            for ((_, cluster, _), (size, copies)) in self.timed.range(first(from)..first(to)) {
                self.accounts.change(cluster, size, 0, sign * copies);
                self.touched.insert(Arc::clone(cluster));
            }
            let ends = self.beside_ends.range((from.saturating_add(1), "".into())..(to.saturating_add(1), "".into()));
            self.touched.extend(ends.map(|((_, cluster), _)| Arc::clone(cluster)));
        }
        self.accounts.now = now;
        // Holders are only needed for messages, so dropping them is safe even if the clock steps
        // back.
        if now.saturating_sub(self.swept) > self.ttl || now < self.swept {
            self.accounts.holders.forget_ended(now);
            self.swept = now;
        }
    }

    /// Applies the change of a binding.
    pub fn follow(&mut self, event: &Event) {
        let key = &event.object.key;
        if !BINDINGS.contains(&key.resource) {
            return;
        }
        let before = event.previous.as_deref().map(|before| match self.recent.remove(key) {
            Some((revision, held)) if revision == before.revision => (before.revision, held),
            _ => (before.revision, self.sizes.holdings(before, self.ttl, &self.accounts.followed)),
        });
        let after = (event.kind != EventKind::Deleted).then_some(&event.object);
        let after = after.map(|object| self.sizes.holdings(object, self.ttl, &self.accounts.followed));
        let is_same = match (&before, &after) {
            (Some((_, before)), Some(after)) => Holdings::are_alike(before.as_ref(), after.as_ref()),
            _ => false,
        };
        if let Some((revision, held)) = before.filter(|_| !is_same) {
            self.change((key, revision), held.as_ref(), -1);
        }
        if let Some(held) = after {
            let revision = event.object.revision;
            if !is_same {
                self.change((key, revision), held.as_ref(), 1);
            }
            if self.recent.len() >= RECENT_MAX {
                self.recent.clear();
            }
            self.recent.insert(key.clone(), (revision, held));
        }
    }

    fn put(&mut self, object: &Object) {
        let held = self.sizes.holdings(object, self.ttl, &self.accounts.followed);
        self.change((&object.key, object.revision), held.as_ref(), 1);
    }

    fn change(&mut self, (key, revision): (&Key, Revision), held: Option<&Holdings>, sign: i64) {
        let Some(Holdings { workload, size, on, others }) = held else { return };
        match sign > 0 {
            true => self.accounts.followed.count_others(others),
            false => self.accounts.followed.forget_others(others),
        }
        let (namespace, name) = (Arc::clone(&key.namespace), Arc::clone(&key.name));
        let holder = Arc::new(Holder { namespace, name, workload: workload.clone(), size: Arc::clone(size) });
        for holding in on {
            let name = &holding.cluster;
            // The names are shared, because a million bindings are on few clusters.
            let cluster = match self.accounts.by_cluster.get_key_value(&**name) {
                Some((known, _)) => Arc::clone(known),
                None => Arc::clone(name),
            };
            let mut promised = sign * holding.promised;
            if holding.promised > 0 {
                match sign > 0 && holding.until > self.accounts.now {
                    true => self.accounts.holders.insert(&cluster, &holder, holding.promised, holding.until),
                    false => self.accounts.holders.remove(&cluster, &holder),
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
                self.touched.insert(Arc::clone(&cluster));
            }
            if let Some(beside) = holding.beside.filter(|_| holding.reported > 0) {
                let id = (revision, Arc::clone(&key.namespace), Arc::clone(&key.name));
                let report = ReportBeside { size: Arc::clone(size), copies: holding.reported, beside };
                self.note_beside(cluster, id, report, sign > 0);
            }
        }
    }

    /// Adds or removes the foreign pods of reported copies.
    fn note_beside(&mut self, cluster: Arc<str>, id: ReportId, report: ReportBeside, is_new: bool) {
        let end = (report.beside.until, Arc::clone(&cluster));
        let mut account = self.accounts.by_cluster.remove(&cluster).unwrap_or_default();
        let known = &mut Arc::make_mut(&mut account).beside;
        if is_new {
            known.insert(id, report);
            *self.beside_ends.entry(end).or_default() += 1;
        } else if known.remove(&id).is_some() {
            let count = self.beside_ends.entry(end.clone()).or_default();
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.beside_ends.remove(&end);
            }
        }
        if !account.is_empty() {
            self.accounts.by_cluster.insert(Arc::clone(&cluster), account);
        }
        self.touched.insert(cluster);
    }
}
