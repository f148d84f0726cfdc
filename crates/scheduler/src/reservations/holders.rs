//! The holders of reservations on each cluster. A million recently placed bindings have several
//! each, so a reservation takes 16 bytes, and all reservations of a binding share its names.

use std::cmp::Ordering;
use std::sync::Arc;

use imbl::OrdMap;

use super::holding::{CopySize, FIRM, WorkloadName};

/// A binding with reservations, ordered by namespace and name.
#[derive(Debug)]
pub struct Holder {
    pub namespace: Arc<str>,
    pub name: Arc<str>,
    pub workload: WorkloadName,
    /// The resources of each of its copies.
    pub size: Arc<CopySize>,
}

/// The reservation of one binding on one cluster, and its expiry.
#[derive(Clone, Copy, Debug)]
struct Promise {
    copies: u32,
    /// Seconds. `FIRM_UNTIL` represents [`FIRM`].
    until: u32,
}

const FIRM_UNTIL: u32 = u32::MAX;

/// The reservations by cluster. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Holders(OrdMap<Arc<str>, OrdMap<Arc<Holder>, Promise>>);

impl Holder {
    fn place(&self) -> (&str, &str) {
        (&self.namespace, &self.name)
    }
}

impl PartialEq for Holder {
    fn eq(&self, other: &Holder) -> bool {
        self.place() == other.place()
    }
}

impl Eq for Holder {}

impl PartialOrd for Holder {
    fn partial_cmp(&self, other: &Holder) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Holder {
    fn cmp(&self, other: &Holder) -> Ordering {
        self.place().cmp(&other.place())
    }
}

impl Promise {
    fn holds(self, now: i64) -> bool {
        self.until == FIRM_UNTIL || i64::from(self.until) > now
    }
}

impl Holders {
    /// Adds a reservation of this many copies that expires at `until`, in seconds or [`FIRM`].
    pub fn insert(&mut self, cluster: &Arc<str>, holder: &Arc<Holder>, copies: i64, until: i64) {
        let until = match until {
            FIRM => FIRM_UNTIL,
            until => until.clamp(0, i64::from(FIRM_UNTIL) - 1) as u32,
        };
        let promise = Promise { copies: copies.clamp(0, i64::from(u32::MAX)) as u32, until };
        self.0.entry(Arc::clone(cluster)).or_default().insert(Arc::clone(holder), promise);
    }

    pub fn remove(&mut self, cluster: &str, holder: &Holder) {
        let Some(known) = self.0.get_mut(cluster) else { return };
        known.remove(holder);
        if known.is_empty() {
            self.0.remove(cluster);
        }
    }

    /// Returns the copies that are reserved for this binding on the cluster.
    pub fn copies(&self, cluster: &str, holder: &Holder, now: i64) -> i64 {
        let known = self.0.get(cluster).and_then(|promises| promises.get(holder));
        known.filter(|promise| promise.holds(now)).map_or(0, |promise| i64::from(promise.copies))
    }

    /// Removes expired reservations.
    pub fn forget_ended(&mut self, now: i64) {
        let of_cluster = |(cluster, known): (Arc<str>, OrdMap<Arc<Holder>, Promise>)| {
            let left: OrdMap<_, _> = known.into_iter().filter(|(_, promise)| promise.holds(now)).collect();
            (!left.is_empty()).then_some((cluster, left))
        };
        self.0 = std::mem::take(&mut self.0).into_iter().filter_map(of_cluster).collect();
    }

    /// Iterates over the bindings with a reservation on the cluster and their reserved copies, by
    /// namespace and name.
    pub fn on(&self, cluster: &str, now: i64) -> impl Iterator<Item = (&Holder, i64)> {
        let promises = self.0.get(cluster).into_iter().flatten();
        promises
            .filter(move |(_, promise)| promise.holds(now))
            .map(|(holder, promise)| (&**holder, i64::from(promise.copies)))
    }
}
